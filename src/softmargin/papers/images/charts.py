"""Charts that several experiments on images have."""

from __future__ import annotations

from collections.abc import Mapping

from softmargin.charts import Chart, Series
from softmargin.papers.findings import Floats, against
from softmargin.papers.images.methods import Method
from softmargin.papers.images.runs import Key, Runs, Score
from softmargin.papers.statistics import Comparison


def short(row: str) -> str:
    """Return a row's name with what fits under a chart.

    Example:
        >>> short("digits for CIFAR-10, 27 epochs, fully connected")
        'CIFAR-10, 27 epochs'
    """
    return row.removeprefix("digits for ").removesuffix(", fully connected")


def differences(runs: Runs, score: Score, baseline: str) -> Chart:
    """Draw every method's difference to a baseline with its interval, task by task."""
    found: dict[Method, list[tuple[int, Comparison]]] = {}
    for place, task in enumerate(runs.tasks):
        base = score.of(runs, task, baseline)
        for method in runs.methods(task):
            comparison = against(score.of(runs, task, method), base)
            if method.name != baseline and comparison is not None:
                found.setdefault(method, []).append((place, comparison))
    series = [
        Series(
            method.name,
            [place for place, _ in own],
            [each.difference for _, each in own],
            [each.low for _, each in own],
            [each.high for _, each in own],
            beta=method.beta,
        )
        for method, own in found.items()
    ]
    return Chart(
        "differences",
        f"{score.title} less that of {baseline}",
        *("points", "", f"difference (points of {score.unit})"),
        [*series, Series(baseline, [-0.5, len(runs.tasks) - 0.5], [0.0, 0.0], dashed=True)],
        categories=[short(task.name) for task in runs.tasks],
        note=f"{runs.note}; means over seeds with 95 % bootstrap intervals of the paired "
        "difference.",
    )


def bars(
    runs: Runs,
    score: Score,
    values: Mapping[Key, Floats],
    betas: Mapping[str, float | None] | None = None,
) -> Chart:
    """Draw values by row and column as bars, with the smallest and largest seed as whiskers."""
    rows = list(dict.fromkeys(row for row, _ in values))
    series = []
    for column in dict.fromkeys(column for _, column in values):
        own = [
            (place, values[row, column])
            for place, row in enumerate(rows)
            if (row, column) in values
        ]
        series.append(
            Series(
                column,
                [place for place, _ in own],
                [float(each.mean()) for _, each in own],
                [float(each.min()) for _, each in own],
                [float(each.max()) for _, each in own],
                beta=(betas or {}).get(column),
            )
        )
    unit = f" ({score.unit})" if score.unit else ""
    return Chart(
        score.title.lower().replace(" ", "-"),
        score.title,
        *("bars", "", f"{score.title}{unit}"),
        series,
        categories=[short(row) for row in rows],
        note=f"{runs.note}; bars are means over seeds, whiskers the smallest and largest seed.",
    )
