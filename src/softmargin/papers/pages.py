"""The Markdown pages of results: one for each experiment, and one over all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from softmargin.papers.outcome import SIGNIFICANT, VERDICTS, Entry, Outcome, ResultTable
from softmargin.papers.statistics import summary

PAPERS = {
    "GD": "gradient decay",
    "LM": "large margin in softmax",
    "AG": "ArcGrad",
    "SM": "beyond the papers",
}
SCALES = {
    "smoke": "smoke: seconds, to prove that the path works",
    "desk": "desk: sized for two cores",
    "paper": "paper: the recipe as printed",
}
OURS = "SM"
ENOUGH = 3  # values for an interval, where some seeds have none
MOST_COLUMNS = 6  # more than these have the paper's values in a table of their own
LONGEST_OPEN = 8  # rows of intervals that are shown without a click
MARK = "†"
NOTHING = "–"


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
        f"**Verdict: {verdict.word}.** {verdict.sentence}",
        *([bullets(outcome.notes)] if outcome.notes else []),
    ]
    if outcome.tables:
        parts.append("## Numbers")
        parts += [part for each in outcome.tables for part in table_parts(each, len(meta["seeds"]))]
    if outcome.charts:
        parts.append("## Figures")
        for chart in outcome.charts:
            words = f"{chart.title}. {chart.note}".strip().replace("[", "(").replace("]", ")")
            parts.append(f"![{words}]({chart.name}.svg)")
    parts += ["## Setup", grid(["", ""], setup(meta, outcome)), "## Run it again"]
    parts += [f"```sh\n{meta['command']}\n```", _provenance(meta)]
    return "\n\n".join(parts) + "\n"


def whose(meta: Mapping[str, Any]) -> str:
    """Return whose claim it is."""
    return "Our" if meta["paper"] == OURS else "The paper's"


def source(meta: Mapping[str, Any]) -> str:
    """Return where it is from, in a sentence."""
    if meta["paper"] == OURS:
        return f"Beyond the papers: from {meta['where']}."
    return f"{meta['where']} of the paper on {PAPERS[meta['paper']]} ({meta['paper']})."


def index_page(results: Iterable[tuple[Mapping[str, Any], Outcome]]) -> str:
    """Return the page over all results."""
    rows = [
        [
            f"[{meta['id']}]({meta['id']}/README.md)",
            f"{meta['paper']}, {meta['where']}",
            meta["title"],
            meta["scale"],
            str(len(meta["seeds"])),
            outcome.verdict.word,
        ]
        for meta, outcome in results
    ]
    lead = (
        "Tables and figures of the papers, made by `softmargin reproduce`. Each page has the "
        "paper's values beside ours, the setup and the command; `numbers.json` beside it has "
        "every number."
    )
    words = bullets(f"**{word}**: {meaning}" for word, meaning in VERDICTS.items())
    headings = ["id", "where", "what", "scale", "seeds", "verdict"]
    parts = ["# Results", lead, grid(headings, rows, "llllrl"), words]
    return "\n\n".join(parts) + "\n"


def table_parts(table: ResultTable, seeds: int) -> list[str]:
    """Return a table as Markdown: ours by row and column, the paper's beside, and intervals."""
    by_place = {(each.row, each.column): each for each in table.entries}
    if len(by_place) < len(table.entries):
        raise ValueError(f"entries of table {table.title!r} must have one place each.")
    columns = list(dict.fromkeys(each.column for each in table.entries))
    wide = len(columns) > MOST_COLUMNS and any(each.paper is not None for each in table.entries)
    unit = f", {table.unit}" if table.unit else ""
    parts = [f"### {table.title}{unit}"]
    if wide:
        parts += ["Ours:", _pivot(table, columns, by_place, "ours")]
        parts += ["The paper's:", _pivot(table, columns, by_place, "paper")]
    else:
        parts.append(_pivot(table, columns, by_place, "both"))
    parts.append(caption(table))
    rows = [_interval_row(each, table.digits, seeds) for each in table.entries if _has_more(each)]
    if rows:
        headings = ["", "", "n", "mean [95 %]", "paper", "ours − paper"]
        headings += ["ours − baseline [interval]", "p", "p, Holm"]
        more = grid(headings, rows, "llrrrrrrr") + "\n\n" + methods(table, seeds)
        if len(rows) > LONGEST_OPEN:
            more = (
                f"<details>\n<summary>Intervals and differences</summary>\n\n{more}\n\n</details>"
            )
        parts.append(more)
    return [part for part in parts if part]


def number(value: float | None, digits: int) -> str:
    """Return a number with that many digits, or a dash where there is none.

    Example:
        >>> number(97.2, 2), number(float("nan"), 2)
        ('97.20', '–')
    """
    return f"{value:.{digits}f}" if value is not None and math.isfinite(value) else NOTHING


def bullets(lines: Iterable[str]) -> str:
    """Return lines as a list."""
    return "\n".join(f"- {line}" for line in lines)


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """Return a Markdown table; ``align`` has a letter l or r for each column, by default l.

    Example:
        >>> print(grid(["a", "b"], [["x|y", "1"]], "lr"))
        | a | b |
        | :-- | --: |
        | x\\|y | 1 |
    """
    marks = ["--:" if letter == "r" else ":--" for letter in align.ljust(len(headings), "l")]
    lines = [headings, *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    cells.insert(1, marks)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _pivot(
    table: ResultTable,
    columns: Sequence[str],
    by_place: Mapping[tuple[str, str], Entry],
    shown: str,
) -> str:
    rows = []
    for row in dict.fromkeys(each.row for each in table.entries):
        entries = [by_place.get((row, column)) for column in columns]
        cells = [_cell(each, table.digits, shown) for each in entries]
        rows.append([row, *cells])
    return grid([table.row_heading, *columns], rows, "l" + "r" * len(columns))


def _cell(entry: Entry | None, digits: int, shown: str) -> str:
    if entry is None:
        return NOTHING
    theirs = _spread(entry.paper, entry.paper_sd, digits, as_printed=True)
    if shown == "paper":
        return theirs
    mark = f" {MARK}" if entry.is_significant else ""
    text = _spread(entry.mean, entry.spread, digits) + mark
    return f"{text} (paper {theirs})" if shown == "both" and entry.paper is not None else text


def _spread(mean: float | None, sd: float | None, digits: int, *, as_printed: bool = False) -> str:
    """Return mean ± sd; a paper's mean keeps the digits that it was printed with."""
    if mean is None or not math.isfinite(mean):
        return NOTHING
    short = as_printed and digits > 0
    text = str(round(mean, digits)) if short else number(mean, digits)
    return text if sd is None else f"{text} ± {number(sd, digits)}"


def caption(table: ResultTable, arrows: str = "") -> str:
    """Return what the cells are, in the words that this table needs; ``arrows`` explains marks."""
    sizes = sorted({len(each.values) for each in table.entries if len(each.values) > 1})
    said = []
    if sizes:
        said.append(f"Mean ± standard deviation of {' or '.join(map(str, sizes))} values.")
    if table.better:
        said.append(f"{table.better.capitalize()} is better.")
    if any(each.is_significant for each in table.entries):
        holm = any(each.adjusted is not None for each in table.entries)
        after = " after Holm's correction" if holm else ""
        said.append(f"{MARK} differs from the baseline, p < {SIGNIFICANT:g}{after}{arrows}.")
    return " ".join([*said, table.note]).strip()


def _has_more(entry: Entry) -> bool:
    return entry.comparison is not None or entry.spread is not None


def methods(table: ResultTable, seeds: int) -> str:
    """Return how the intervals and p-values were found."""
    found = dict.fromkeys(each.comparison.method for each in table.entries if each.comparison)
    said = [f"Difference from the baseline: {method}." for method in found]
    if any(is_over_seeds(each, seeds) for each in table.entries):
        said.insert(0, "Interval of a mean: Student's t over seeds.")
    pairs = [len(each.values) for each in table.entries if _is_exact(each)]
    if pairs and (least := 2 / 2 ** max(pairs)) > SIGNIFICANT:
        said.append(f"With {max(pairs)} pairs no exact p is below {least:.3f}: see the intervals.")
    return " ".join(said)


def is_over_seeds(entry: Entry, seeds: int) -> bool:
    """Whether the values are one per seed, of all seeds or of enough of them for an interval.

    Those of folds are more, and not independent.
    """
    count = len(entry.values)
    return entry.spread is not None and (count == seeds or ENOUGH <= count < seeds)


def _is_exact(entry: Entry) -> bool:
    return entry.comparison is not None and "exact sign-flip" in entry.comparison.method


def _interval_row(entry: Entry, digits: int, seeds: int) -> list[str]:
    mean = number(entry.mean, digits)
    if is_over_seeds(entry, seeds):
        over = summary(entry.values)
        mean += f" [{number(over.low, digits)}, {number(over.high, digits)}]"
    gap = None if entry.paper is None else entry.mean - entry.paper
    cells = [entry.row, entry.column, str(len(entry.values)), mean]
    cells += [_spread(entry.paper, None, digits, as_printed=True), number(gap, digits)]
    found = entry.comparison
    if found is None:
        return [*cells, NOTHING, NOTHING, NOTHING]
    ends = f"[{number(found.low, digits)}, {number(found.high, digits)}]"
    difference = f"{number(found.difference, digits)} {ends}"
    mark = f" {MARK}" if entry.is_significant else ""
    return [*cells, difference, p_value(found.p), p_value(entry.adjusted) + mark]


def p_value(value: float | None) -> str:
    """Return a p-value, or a dash where there is none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def setup(meta: Mapping[str, Any], outcome: Outcome) -> list[list[str]]:
    """Return how it was run: names and what they are."""
    seeds = meta["seeds"]
    rows = {
        "scale": SCALES.get(meta["scale"], meta["scale"]),
        "seeds": f"{len(seeds)} ({', '.join(map(str, seeds))})",
        **outcome.setup,
        "differs from the paper's recipe": meta["deviations"] or "nowhere that is known",
    }
    return [[key, str(value)] for key, value in rows.items()]


def _provenance(meta: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    facts = "".join(f" {key}: {value}." for key, value in meta["facts"].items())
    return (
        f"Made with {versions}.{facts} Every number, and the configuration of every cell: "
        "[numbers.json](numbers.json)."
    )
