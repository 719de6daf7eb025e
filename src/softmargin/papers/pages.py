"""The Markdown pages of results: one for each experiment, one over all, and one of the claims.

What they look like stands in ``templates/*.md.j2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from softmargin._papers import PAPERS
from softmargin._table import markdown_table
from softmargin.papers.grid import TITLES
from softmargin.papers.layout import DETAILS, NOTHING, Layout, Shown, layout
from softmargin.papers.outcome import FAR, VERDICTS, Outcome
from softmargin.papers.provenance import data_of, not_comparable, size_of, title_of, told

Results = Sequence[tuple[Mapping[str, Any], Outcome]]  # as softmargin.papers.write reads them
SCALES = {
    "smoke": "smoke: takes seconds, only shows that everything runs",
    "desk": "desk: sized for two cores",
    "paper": "paper: the recipe as printed",
}
UNTRAINED = "nothing"  # the work of cells without a network
MOST_DATA = 4  # data sets that the overview names
MOST_COLUMNS = 7  # more than these have the paper's values in a table of their own
LONGEST_OPEN = 8  # rows of intervals that are shown without a click
COUNTED = {  # of one claim, and of several
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
    "left open": ("is left open", "are left open"),
    "shown": ("is a figure of theory", "are figures of theory"),
    "path only": ("is a smoke run", "are smoke runs"),
}
SAYINGS = {  # of a claim, where the word is no verb
    "left open": "is left open",
    "shown": "is shown by theory",
    "path only": "is not judged by a smoke run",
}
DISTINCT = (
    "Results with the same verdict that rest on the same trained networks are one piece of "
    "evidence, and count as one distinct training."
)


def result_page(meta: Mapping[str, Any], outcome: Outcome) -> str:
    """Return the page of one result.

    Args:
        meta: what :func:`softmargin.papers.write.read_result` returns beside the outcome.
        outcome: what was concluded.
    """
    return _render(
        "result.md.j2",
        meta=meta,
        outcome=outcome,
        tables=[layout(each, len(meta["seeds"]), not_comparable(meta)) for each in outcome.tables],
        paper=PAPERS[meta["paper"]],
        saying=SAYINGS.get(outcome.verdict.word, outcome.verdict.word),
        setup=setup_of(meta, outcome),
        source=source,
        whose=whose,
        pivot=_pivot,
        details=DETAILS,
        most_columns=MOST_COLUMNS,
        longest_open=LONGEST_OPEN,
    )


def index_page(results: Results) -> str:
    """Return the page over all results."""
    shared = same_networks(results)
    rows = [
        [
            f"[{meta['id']}]({meta['id']}/README.md)",
            f"{meta['paper']}, {meta['where']}",
            meta["claim"],
            trained_on(meta),
            f"{meta['scale']}, {seeds_told(meta) or NOTHING}",
            outcome.verdict.told,
            ", ".join(shared[meta["id"]]) or NOTHING,
        ]
        for meta, outcome in results
    ]
    papers = {meta["paper"]: PAPERS[meta["paper"]] for meta, _ in results}
    return _render("index.md.j2", results=results, rows=rows, verdicts=VERDICTS, papers=papers)


def claims_page(results: Results) -> str:
    """Return the page of all claims and what became of them."""
    groups = [group for groups in evidence(results).values() for group in groups]
    by_paper: dict[str, list[list[str]]] = {}
    for meta, outcome in results:
        by_paper.setdefault(meta["paper"], []).append(_claim_row(meta, outcome, groups))
    return _render("claims.md.j2", results=results, by_paper=by_paper, papers=PAPERS)


def _render(template: str, **context: Any) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    shared = {"markdown_table": markdown_table, "capital": capital, "distinct": DISTINCT}
    found = environment.get_template(template)
    return found.render(**shared, count_verdicts=count_verdicts, **context)


def _pivot(table: Layout, shown: str) -> str:
    """Return numbers by row and column: ``"ours"``, those of the ``"paper"``, or ``"both"``."""

    def text(each: Shown) -> str:
        if shown == "paper":
            return each.paper or NOTHING
        ours = f"{each.ours} {each.mark}".strip()
        return f"{ours} (paper {each.paper})" if shown == "both" and each.paper else ours

    rows = [[name, *map(text, row)] for name, row in table.rows.items()]
    return markdown_table(table.headings, rows, "l".ljust(len(table.headings), "r"))


def _claim_row(
    meta: Mapping[str, Any], outcome: Outcome, groups: Iterable[Sequence[str]]
) -> list[str]:
    verdict, seeds = outcome.verdict, seeds_told(meta)
    others = [name for group in groups if meta["id"] in group for name in group]
    others.remove(meta["id"])
    counted = verdict.counts and f"{capital(verdict.counts)}."
    deciding = verdict.deciding and f"{capital(verdict.deciding)}."
    return [
        f"[{meta['id']}](../results/{meta['id']}/README.md)",
        meta["claim"],
        f"{meta['scale']}, {seeds or 'no'} seeds",
        ", counted with ".join(filter(None, (f"**{verdict.told}**", ", ".join(others)))),
        "<br>".join(part for part in (counted, deciding) if part),
    ]


def evidence(results: Results) -> dict[str, list[list[str]]]:
    """Return the ids of every verdict in groups: those that rest on the same trained networks.

    Two ids are in one group where they share a cell, or where others with this verdict connect
    them. A figure of theory is a group of its own.
    """
    found: dict[str, list[list[str]]] = {}
    cells = {meta["id"]: _trained(meta) for meta, _ in results}
    for meta, outcome in results:
        groups = found.setdefault(outcome.verdict.word, [])
        joined = [
            group for group in groups if any(cells[name] & cells[meta["id"]] for name in group)
        ]
        groups[:] = [group for group in groups if group not in joined]
        groups.append([*(name for group in joined for name in group), meta["id"]])
    return found


def same_networks(results: Results) -> dict[str, list[str]]:
    """Return for every id the others that share trained networks with it."""
    cells = {meta["id"]: _trained(meta) for meta, _ in results}
    return {
        name: [other for other in cells if other != name and cells[other] & own]
        for name, own in cells.items()
    }


def count_verdicts(results: Results) -> str:
    """Return in a sentence how many claims have each verdict, and on how many trainings."""
    found, said = evidence(results), []
    for word in VERDICTS:
        groups = found.get(word, [])
        ids = sum(map(len, groups))
        distinct = f" ({len(groups)} distinct training{'s' if len(groups) > 1 else ''})"
        if ids:
            said.append(f"{ids} {COUNTED[word][ids > 1]}{distinct if len(groups) < ids else ''}")
    listed = " and ".join(part for part in (", ".join(said[:-1]), *said[-1:]) if part)
    far = sum(bool(outcome.verdict.shortfalls) for _, outcome in results)
    those = f"{far} of these verdicts {'rest' if far > 1 else 'rests'} {FAR}."
    counted = f"Of {len(results)} claim{'s' if len(results) != 1 else ''}, {listed}."
    return f"{counted} {those}" if far else counted


def _trained(meta: Mapping[str, Any]) -> set[str]:
    """Return the keys of the cells in which networks were trained."""
    return {each["key"] for each in meta["configuration"]["cells"] if each["work"] != UNTRAINED}


def whose(meta: Mapping[str, Any]) -> str:
    """Return whose claim it is."""
    return "Our" if PAPERS[meta["paper"]].is_ours else "The paper's"


def source(meta: Mapping[str, Any]) -> str:
    """Return where it is from, in a sentence."""
    paper = PAPERS[meta["paper"]]
    if paper.is_ours:
        return f"{capital(paper.subject)}: from {meta['where']}."
    return f"{meta['where']} of {meta['paper']}, {paper.reference}."


def trained_on(meta: Mapping[str, Any]) -> str:
    """Return which networks were trained on how much data, in a few words."""
    common = meta["configuration"]["common"]
    cells = [{**common, **cell["config"]} for cell in meta["configuration"]["cells"]]
    data = data_of(meta)
    # those of MNIST and of tables are fully connected, and do not say so
    networks = [TITLES.get(cell.get("model", "fcnn"), cell.get("model")) for cell in cells]
    said = [f"{each} networks" for each in dict.fromkeys(networks)] if data else []
    for name in data if len(data) <= MOST_DATA else ():
        copy = meta["data"].get(name)
        size = f" ({size_of(copy)})" if isinstance(copy, Mapping) else ""
        said.append(f"{title_of(name)}{size}")
    if len(data) > MOST_DATA:
        said.append(f"{len(data)} data sets")
    return ", ".join(said) or NOTHING


def seeds_told(meta: Mapping[str, Any]) -> str:
    """Return how many seeds networks were trained with, ``"3 to 12"`` where some have fewer.

    Theory has none.
    """
    counts = sorted(len(seeds) for seeds in _seeds_by_task(meta))
    return " to ".join(str(count) for count in dict.fromkeys((*counts[:1], *counts[-1:])))


def _which_seeds(meta: Mapping[str, Any]) -> str:
    told = seeds_told(meta)
    all_of_them = sorted(set().union(*_seeds_by_task(meta)))
    fewer = "; fewer are the first of these" if " to " in told else ""
    return f"{told} ({', '.join(map(str, all_of_them))}{fewer})" if told else "none"


def _seeds_by_task(meta: Mapping[str, Any]) -> list[set[int]]:
    if len(meta["seeds"]) < 2:
        return []
    common = meta["configuration"]["common"]
    found: dict[str, set[int]] = {}
    for cell in meta["configuration"]["cells"]:
        config = {**common, **cell["config"]}
        one = [config["seed"]] if "seed" in config else meta["seeds"]
        trained = {name: each for name, each in config.items() if name not in ("seed", "seeds")}
        task = config.get("task") or repr(sorted(trained.items()))
        found.setdefault(task, set()).update(config.get("seeds", one))
    return list(found.values())


def setup_of(meta: Mapping[str, Any], outcome: Outcome) -> dict[str, str]:
    """Return what was run, by name."""
    return {
        "scale": SCALES.get(meta["scale"], meta["scale"]),
        "seeds": _which_seeds(meta),
        **{key: str(value) for key, value in outcome.setup.items()},
        **{f"data, {name}": text for name, text in told(meta).items()},
        "differs from the paper's recipe": meta["deviations"] or "no known differences",
    }


def capital(text: str) -> str:
    """Return a text with a capital first letter, unless that is a symbol such as β."""
    return text[:1].upper() + text[1:] if text[:1].isascii() else text
