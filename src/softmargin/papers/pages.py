"""The Markdown pages of results: one for each experiment, one over all, and one of the claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from softmargin._papers import PAPERS
from softmargin._table import markdown_table
from softmargin.papers.layout import DETAILS, NOTHING, Layout, Shown, layout
from softmargin.papers.outcome import VERDICTS, Outcome

Results = Sequence[tuple[Mapping[str, Any], Outcome]]  # as softmargin.papers.write reads them
SCALES = {
    "smoke": "smoke: takes seconds, only shows that everything runs",
    "desk": "desk: sized for two cores",
    "paper": "paper: the recipe as printed",
}
UNTRAINED = "nothing"  # the work of cells without a network
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
DISTINCT = (
    "Results with the same verdict that rest on the same trained networks are one piece of "
    "evidence, and count as one distinct training."
)
CLAIMS_LEAD = (
    "What each table or figure of the papers is there to show, and what was found when it was "
    "reproduced. The [results](../results/README.md) explain the verdicts; every page there has "
    "the numbers, their spread, and where its recipe differs from the paper's. At desk scale small "
    "networks stand in for the convolutional ones, so a verdict is about the direction of an "
    "effect; MNIST, Iris and the UCI tables are at the papers' full size."
)


def result_page(meta: Mapping[str, Any], outcome: Outcome) -> str:
    """Return the page of one result.

    Args:
        meta: what :func:`softmargin.papers.write.read_result` returns beside the outcome.
        outcome: what was concluded.
    """
    verdict = outcome.verdict
    parts = [
        f"# {meta['id']}: {meta['title']}",
        source(meta),
        f"**{whose(meta)} claim.** {meta['claim']}",
        f"**Verdict: {verdict.word}.** {verdict.remark}".strip(),
    ]
    for title, texts in verdict.groups.items():
        parts += [f"{capital(title)}:", bullets(f"{capital(text)}." for text in texts)]
    if outcome.notes:
        parts += ["Notes:", bullets(outcome.notes)]
    if outcome.tables:
        parts.append("## Numbers")
        tables = [layout(each, len(meta["seeds"])) for each in outcome.tables]
        parts += [part for table in tables for part in _table_parts(table)]
    if outcome.charts:
        parts.append("## Figures")
        for chart in outcome.charts:
            words = f"{chart.title}. {chart.note}".strip().replace("[", "(").replace("]", ")")
            parts.append(f"![{words}]({chart.name}.svg)")
    rows = list(setup_of(meta, outcome).items())
    parts += ["## Setup", markdown_table(["", ""], rows), "## Run it again"]
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    facts = "".join(f" {key}: {value}." for key, value in meta["facts"].items())
    parts += [
        f"```sh\n{meta['command']}\n```",
        f"Made with {versions}.{facts} Every number and the configuration of every cell are "
        "in [numbers.json](numbers.json).",
    ]
    return "\n\n".join(parts) + "\n"


def index_page(results: Results) -> str:
    """Return the page over all results."""
    lead = (
        "Tables and figures of the papers, reproduced by `softmargin reproduce`. Each page has the "
        "paper's values beside ours, the setup and the command; `numbers.json` beside it has "
        "every number."
    )
    shared = same_networks(results)
    rows = [
        [
            f"[{meta['id']}]({meta['id']}/README.md)",
            f"{meta['paper']}, {meta['where']}",
            meta["title"],
            meta["scale"],
            str(len(meta["seeds"])),
            outcome.verdict.word,
            ", ".join(shared[meta["id"]]) or NOTHING,
        ]
        for meta, outcome in results
    ]
    headings = ["id", "where", "what", "scale", "seeds", "verdict", "same networks as"]
    parts = ["# Results", lead, markdown_table(headings, rows, "llllrll")]
    if results:
        parts.append(f"{count_verdicts(results)} {DISTINCT}")
    parts.append(bullets(f"**{word}**: {meaning}" for word, meaning in VERDICTS.items()))
    return "\n\n".join(parts) + "\n"


def claims_page(results: Results) -> str:
    """Return the page of all claims and what became of them."""
    groups = [group for groups in evidence(results).values() for group in groups]
    parts = ["# Claims and verdicts", CLAIMS_LEAD, f"{count_verdicts(results)} {DISTINCT}"]
    for paper, facts in PAPERS.items():
        rows = [_claim_row(*each, groups) for each in results if each[0]["paper"] == paper]
        if rows:
            headings = ["id", "claim", "run at", "verdict", "findings"]
            parts += [f"## {capital(facts.subject)}", markdown_table(headings, rows)]
    return "\n\n".join(parts) + "\n"


def _claim_row(
    meta: Mapping[str, Any], outcome: Outcome, groups: Iterable[Sequence[str]]
) -> list[str]:
    verdict, seeds = outcome.verdict, len(meta["seeds"])
    others = [name for group in groups if meta["id"] in group for name in group]
    others.remove(meta["id"])
    found = [f"{capital(title)}: {'; '.join(texts)}." for title, texts in verdict.groups.items()]
    return [
        f"[{meta['id']}](../results/{meta['id']}/README.md)",
        meta["claim"],
        f"{meta['scale']}, {f'{seeds} seeds' if seeds > 1 else 'no seeds'}",
        ", counted with ".join(filter(None, (f"**{verdict.word}**", ", ".join(others)))),
        "<br>".join(part for part in (*found, verdict.remark) if part),
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
    return f"Of {len(results)} claim{'s' if len(results) != 1 else ''}, {listed}."


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
    return f"{meta['where']} of the paper on {paper.subject} ({meta['paper']})."


def setup_of(meta: Mapping[str, Any], outcome: Outcome) -> dict[str, str]:
    """Return what was run, by name."""
    seeds = meta["seeds"]
    return {
        "scale": SCALES.get(meta["scale"], meta["scale"]),
        "seeds": f"{len(seeds)} ({', '.join(map(str, seeds))})",
        **{key: str(value) for key, value in outcome.setup.items()},
        "differs from the paper's recipe": meta["deviations"] or "no known differences",
    }


def capital(text: str) -> str:
    """Return a text with a capital first letter, unless that is a symbol such as β."""
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def _table_parts(table: Layout) -> list[str]:
    """Return a table as Markdown: ours by row and column, the paper's beside, and intervals."""
    parts = [f"### {table.title}"]
    has_paper = any(each.paper for row in table.rows.values() for each in row)
    if has_paper and len(table.headings) > MOST_COLUMNS:
        parts += ["Ours:", _pivot(table, _ours)]
        parts += ["The paper's:", _pivot(table, lambda each: each.paper or NOTHING)]
    else:
        parts.append(_pivot(table, _ours_and_paper))
    parts.append(table.caption)
    if table.details:
        more = markdown_table(DETAILS, table.details, "llrrrrrrr") + "\n\n" + table.methods
        if len(table.details) > LONGEST_OPEN:
            more = (
                f"<details>\n<summary>Intervals and differences</summary>\n\n{more}\n\n</details>"
            )
        parts.append(more)
    return [part for part in parts if part]


def _pivot(table: Layout, show: Callable[[Shown], str]) -> str:
    rows = [[name, *map(show, row)] for name, row in table.rows.items()]
    return markdown_table(table.headings, rows, "l".ljust(len(table.headings), "r"))


def _ours(each: Shown) -> str:
    return f"{each.ours} {each.mark}".strip()


def _ours_and_paper(each: Shown) -> str:
    return f"{_ours(each)} (paper {each.paper})" if each.paper else _ours(each)


def bullets(lines: Iterable[str]) -> str:
    """Return lines as a list."""
    return "\n".join(f"- {line}" for line in lines)
