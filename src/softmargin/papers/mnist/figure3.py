"""GD Figure 3: how confidence grows, sample by sample and from hard to easy groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import BAND, Floats, banded, verdict
from softmargin.papers.mnist.cells import (
    OPEN_CHOICES,
    SEEDS,
    SMOKE_DEVIATION,
    beta_of,
    confidence_cells,
    file_name,
    label,
)
from softmargin.papers.mnist.findings import RULE, compare
from softmargin.papers.mnist.seeds import ByVariant, Seeds, compared_entries
from softmargin.papers.outcome import Finding, Outcome, ResultTable

BETAS = ("5", "2", "1", "0.5", "0.2", "0.1", "0.01", "0.001")
GROUP_PANELS = ("2", "1", "0.5", "0.2", "0.1", "0.01", "0.001")
TRACE_PANELS = ("2", "1", "0.1", "0.01")  # those that the paper prints
GROUPS = ("1 (hardest)", "2", "3", "4", "5 (easiest)")
PROGRESS = 0.9  # mean confidence at which variants are equally far
HALF = 0.5
EVERY_EPOCH_UP_TO = 10
DRAWN = slice(0, None, 2)  # of the traces: more than ten lines in a panel are a tangle

CLAIM = (
    "A large β keeps all samples together while they are learned; with a small one easy samples "
    "are learned first and hard ones wait: the gap between easy and hard groups is wider."
)
MEASURES = (
    "The gap is the mean confidence of the easiest fifth of the training samples minus that of the "
    "hardest, in groups by final confidence, as met during training. It is taken over all epochs, "
    f"and at equal progress: where the mean confidence of all samples first passes {PROGRESS:g} "
    "(interpolated between epochs), because a small β is faster, and at the same epoch therefore "
    "nearer its end. That level was set after a look at one trial of four epochs, as one that all "
    "values of β come to pass."
)


def conclude(setting: Scope, finished: Finished) -> Outcome:
    """Return groups, traces, the gap between groups, and what they say."""
    seeds = Seeds(setting, finished)
    groups = {variant: seeds.arrays(variant, "groups") for variant in seeds.present(BETAS)}
    gaps = {
        "mean over all epochs": {v: gap(curves).mean(1) for v, curves in groups.items()},
        "at equal progress": {v: gap_at_progress(curves) for v, curves in groups.items()},
    }
    charts = [
        *(_group_chart(seeds, v, groups[v]) for v in GROUP_PANELS if v in groups),
        _gap_chart(seeds, groups),
        *(_trace_chart(seeds, v) for v in seeds.present(TRACE_PANELS)),
    ]
    tables = [_gap_table(seeds, gaps), _time_table(seeds, groups)]
    found = _findings(gaps)
    return Outcome(verdict(setting.scale, found), tables, charts, [MEASURES, RULE], seeds.setup)


def gap(curves: Floats) -> Floats:
    """Return easiest minus hardest group's confidence, (seeds, epochs), of (seeds, epochs, 5)."""
    difference: Floats = curves[..., -1] - curves[..., 0]
    return difference


def gap_at_progress(curves: Floats, level: float = PROGRESS) -> Floats:
    """Return each seed's gap where the mean of all groups first reaches a level, or NaN."""
    found = np.full(len(curves), np.nan)
    for seed, (mean, apart) in enumerate(zip(curves.mean(-1), gap(curves), strict=True)):
        there = int(np.argmax(mean >= level))
        if mean[there] < level or (there == 0 and mean[0] > level):
            continue  # never, or before the first epoch that was recorded
        steps = slice(max(there - 1, 0), there + 1)
        found[seed] = np.interp(level, mean[steps], apart[steps])
    return found


def epochs_until(curves: Floats, level: float = HALF) -> Floats:
    """Return the first epoch, from 1, whose value reaches a level, or NaN: (seeds, groups)."""
    reached = curves >= level
    first = reached.argmax(1) + 1.0
    return np.where(reached.any(1), first, np.nan)


def _findings(gaps: Mapping[str, ByVariant]) -> list[Finding]:
    """Compare a small and a large β with 1 by either gap, where both reached the level."""
    found = []
    for how, values in gaps.items():
        large = "2" if "2" in values else "5"
        for variant, sign in (("0.01", 1), (large, -1)):
            if all(np.isfinite(values[each]).all() for each in (variant, "1")):
                found.append(compare(f"the gap ({how})", values, variant, sign, 3))
            else:
                text = f"the gap ({how}) of {label(variant)} and β = 1 was not reached by all seeds"
                found.append(Finding(text, None))
    return found


def _gap_table(seeds: Seeds, gaps: Mapping[str, ByVariant]) -> ResultTable:
    return ResultTable(
        "Gap between the easiest and the hardest fifth",
        "confidence",
        compared_entries(gaps),
        digits=3,
        row_heading="trained with",
        note=f"{seeds.note}: mean ± sd. No entry where a seed never came that far. The paper has "
        "curves only. Differences are against β = 1, Holm's correction is over the table.",
    )


def _time_table(seeds: Seeds, groups: ByVariant) -> ResultTable:
    times = {variant: epochs_until(curves) for variant, curves in groups.items()}
    columns = {
        f"group {name}": {variant: each[:, place] for variant, each in times.items()}
        for place, name in enumerate(GROUPS)
    }
    return ResultTable(
        f"First epoch in which a group's mean confidence is {HALF:g} or more",
        "epochs",
        compared_entries(columns),
        digits=1,
        row_heading="trained with",
        better="lower",
        note=f"{seeds.note}: mean ± sd. No entry where a seed never came that far.",
    )


def drawn_epochs(epochs: int) -> list[int]:
    """Return the epochs that are drawn: all at first, then every second, and the last."""
    later = range(EVERY_EPOCH_UP_TO + 2, epochs + 1, 2)
    return sorted({*range(1, min(epochs, EVERY_EPOCH_UP_TO) + 1), *later, epochs})


def _places(epochs: Sequence[int]) -> list[int]:
    return [epoch - 1 for epoch in epochs]


def _group_chart(seeds: Seeds, variant: str, curves: Floats) -> Chart:
    epochs = drawn_epochs(seeds.epochs)
    chosen = curves[:, _places(epochs)]
    return Chart(
        file_name("groups", variant),
        f"Five groups of training samples, {label(variant)}",
        "line",
        "epoch",
        "mean confidence in the true class",
        [banded(f"group {name}", epochs, chosen[..., k], 3) for k, name in enumerate(GROUPS)],
        note=f"{seeds.note}; fifths of the training samples by final confidence; {BAND}.",
    )


def _gap_chart(seeds: Seeds, groups: ByVariant) -> Chart:
    places = _places(drawn_epochs(seeds.epochs))
    series = []
    for variant, curves in groups.items():
        x, y = (each.mean(0)[places].round(4).tolist() for each in (curves.mean(-1), gap(curves)))
        series.append(Series(label(variant), x, y, beta=beta_of(variant)))
    return Chart(
        "gap-by-progress",
        "Gap between easiest and hardest fifth at equal progress",
        "line",
        "mean confidence of all training samples",
        "gap in mean confidence",
        series,
        note=f"{seeds.note}; means over seeds, one point per epoch from left to right.",
    )


def _trace_chart(seeds: Seeds, variant: str) -> Chart:
    """Draw single samples of the first seed; a mean over seeds would be of different samples."""
    epochs = drawn_epochs(seeds.epochs)
    traces = seeds.arrays(variant, "traces")[0][_places(epochs)][:, DRAWN].round(4)
    numbers = seeds.results[0].arrays["traced"][DRAWN]
    series = [
        Series(f"sample {number}", list(epochs), trace.tolist())
        for number, trace in zip(numbers, traces.T, strict=True)
    ]
    return Chart(
        file_name("traces", variant),
        f"Single training samples, {label(variant)}",
        "line",
        "epoch",
        "confidence in the true class",
        series,
        note=f"{seeds.setting.scale.capitalize()} scale, {seeds.config['data']}, the first seed; "
        "the same samples for every β, from hard to easy, chosen by rank of final confidence with "
        "β = 1: half of them at even steps in the hardest fifth, half in the rest.",
    )


FIGURE_3 = Experiment(
    "gd-fig3",
    "Confidence during training by β",
    "GD",
    "Figure 3",
    CLAIM,
    confidence_cells,
    conclude,
    seeds=SEEDS,
    deviations={"smoke": SMOKE_DEVIATION, "desk": OPEN_CHOICES, "paper": OPEN_CHOICES},
)
