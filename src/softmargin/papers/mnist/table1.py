"""GD Table 1: how many training samples end in each interval of confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers.core import Cell, Experiment, Finished, Scope
from softmargin.papers.findings import verdict
from softmargin.papers.mnist.cells import (
    BASELINE,
    OPEN_CHOICES,
    SEEDS,
    SMOKE_DEVIATION,
    beta_of,
    confidence_cells,
    early_cells,
    label,
)
from softmargin.papers.mnist.findings import RULE, compare, monotone
from softmargin.papers.mnist.seeds import ByVariant, Seeds, compared_entries
from softmargin.papers.outcome import Finding, Outcome, ResultTable

INTERVALS = ("p ≤ 0.2", "0.2 < p ≤ 0.4", "0.4 < p ≤ 0.6", "0.6 < p ≤ 0.8", "0.8 < p")
LOW, HIGH = INTERVALS[0], INTERVALS[-1]

PAPER: Mapping[str, tuple[int, ...]] = {
    "1": (903, 454, 528, 1291, 56824),
    "0.5": (828, 206, 245, 484, 58237),
    "0.1": (1105, 119, 132, 191, 58453),
    "0.01": (1325, 91, 92, 100, 58392),
    "0.001": (2375, 142, 116, 193, 57174),
}
"""The counts as printed, by β; every row sums to 60,000."""

CLAIM = (
    "The smaller β is, the more training samples are given up at a confidence of at most 0.2, "
    "while more of the others rise above 0.8, until β is too small."
)
EARLY_RULE = (
    "The counts of an earlier epoch were added after the first full run had shown that hardly any "
    "training sample is left at a low confidence. The epoch is chosen by β = 1 alone, and the "
    "verdict's word does not depend on it."
)
COUNTED = {
    "histogram": "the training set passed once more through the final network",
    "trained_histogram": "every sample as training met it in the last epoch",
}
DEVIATION = (
    f"{OPEN_CHOICES} The paper does not say when confidences were counted: here after training, "
    "with the final weights; the counts met during the last epoch are given, too."
)


def cells(setting: Scope) -> list[Cell]:
    """Return the whole trainings, and their first epochs again with counts for every epoch."""
    return [*confidence_cells(setting), *early_cells(setting, tuple(PAPER))]


def conclude(setting: Scope, finished: Finished) -> Outcome:
    """Return counts beside the paper's, and what they say."""
    longest = max(int(cell.config["epochs"]) for cell, _ in finished)
    whole = [each for each in finished if each[0].config["epochs"] == longest]
    early = [each for each in finished if each[0].config["epochs"] != longest]
    seeds = Seeds(setting, whole)
    ours = seeds.present(tuple(PAPER))
    counts = _counts(seeds, ours, "histogram")
    tables = [
        _table(seeds, ours, "histogram", "Training samples by final confidence"),
        _table(seeds, ours, "trained_histogram", "The same, counted during the last epoch"),
        _others(seeds),
        _scores(seeds),
    ]
    remark, notes = "", [RULE]
    if early:
        table, remark = _early(Seeds(setting, early))
        tables.insert(1, table)
        notes.append(EARLY_RULE)
    judged = verdict(setting.scale, _findings(counts, ours), remark)
    return Outcome(judged, tables, [_chart(seeds, ours, counts)], notes, seeds.setup)


def _early(seeds: Seeds) -> tuple[ResultTable, str]:
    """Return the counts in the epoch in which β = 1 is where it is in the paper, and what they say.

    The epoch is chosen by β = 1 alone, by its mean number of samples above 0.8.
    """
    above = seeds.arrays(BASELINE, "histograms")[:, :, -1].mean(0)
    epoch = int(np.abs(above - PAPER[BASELINE][-1]).argmin())
    rows = {variant: seeds.arrays(variant, "histograms")[:, epoch] for variant in seeds.variants}
    counts = {
        interval: {variant: rows[variant][:, place] for variant in rows}
        for place, interval in enumerate(INTERVALS)
    }
    table = ResultTable(
        f"The same, counted during epoch {epoch + 1} of the same training",
        "samples",
        compared_entries(counts, _paper(list(rows))),
        digits=0,
        row_heading="trained with",
        note=f"{seeds.note}: every sample as training met it in epoch {epoch + 1}, in which β = 1 "
        f"has about as many above 0.8 as in the paper, {PAPER[BASELINE][-1]:,}.",
    )
    found = _findings(counts, list(rows))
    agree = sum(bool(each.agrees) for each in found)
    course_of_low = found[1].text
    sentence = (
        f"These networks fit nearly all of their training set, the paper's did not; in epoch "
        f"{epoch + 1}, where β = 1 has as many samples above 0.8 as in the paper, {agree} of the "
        f"{len(found)} parts of the claim agree ({course_of_low})."
    )
    return table, sentence


def _paper(variants: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the paper's counts by interval and variant."""
    return {
        interval: {variant: float(PAPER[variant][place]) for variant in variants}
        for place, interval in enumerate(INTERVALS)
    }


def _counts(seeds: Seeds, variants: Sequence[str], name: str) -> dict[str, ByVariant]:
    """Return counts by interval and variant, one per seed."""
    rows = {variant: seeds.numbers(variant, name) for variant in variants}
    return {
        interval: {variant: rows[variant][:, place] for variant in variants}
        for place, interval in enumerate(INTERVALS)
    }


def _table(seeds: Seeds, variants: Sequence[str], name: str, title: str) -> ResultTable:
    # other data have other counts: there is nothing to set beside them
    beside = None if seeds.setting.scale == "smoke" else _paper(variants)
    return ResultTable(
        title,
        "samples",
        compared_entries(_counts(seeds, variants, name), beside),
        digits=0,
        row_heading="trained with",
        note=f"{seeds.note}: mean ± sd of {COUNTED[name]}, {seeds.samples:,} in all. "
        "Differences are against β = 1, Holm's correction is over the table.",
    )


def _others(seeds: Seeds) -> ResultTable:
    """Return the counts of what the paper's table leaves out."""
    rest = [variant for variant in seeds.variants if variant not in PAPER]
    counts = _counts(seeds, [BASELINE, *rest], "histogram")
    return ResultTable(
        "Further β and warm-ups, which the paper's table does not have",
        "samples",
        compared_entries(counts),
        digits=0,
        row_heading="trained with",
        note=f"{seeds.note}: as in the first table.",
    )


def _scores(seeds: Seeds) -> ResultTable:
    names = {"accuracy": "test accuracy", "ece": "test ECE", "mce": "test MCE"}
    columns = {
        "training accuracy": {v: 100 * seeds.numbers(v, "train_accuracy") for v in seeds.variants}
    }
    for name, title in names.items():
        columns[title] = {v: 100 * seeds.numbers(v, "final", name) for v in seeds.variants}
    return ResultTable(
        "Scores after the last epoch",
        "%",
        compared_entries(columns),
        row_heading="trained with",
        note=f"{seeds.note}; calibration errors over 10 bins of equal width.",
    )


def _findings(counts: Mapping[str, ByVariant], betas: Sequence[str]) -> list[Finding]:
    """Judge both halves of the claim at β fixed beforehand: the smallest, and the paper's best."""
    smallest, best = betas[-1], "0.1"
    falling = list(betas[1:])  # the paper's own counts dip from β = 1 to the next
    return [
        compare("the number of samples at p ≤ 0.2", counts[LOW], smallest, 1, 0),
        monotone("number at p ≤ 0.2", counts[LOW], falling, 1, 0),
        compare("the number above 0.8", counts[HIGH], best, 1, 0),
        compare("the number above 0.8", counts[HIGH], smallest, -1, 0, baseline=best),
    ]


def _chart(seeds: Seeds, variants: Sequence[str], counts: Mapping[str, ByVariant]) -> Chart:
    def over_intervals(variant: str, of: str) -> list[float]:
        return [float(getattr(np, of)(counts[interval][variant])) for interval in INTERVALS]

    series = [
        Series(
            label(variant),
            list(range(len(INTERVALS))),
            over_intervals(variant, "mean"),
            over_intervals(variant, "min"),
            over_intervals(variant, "max"),
            beta=beta_of(variant),
        )
        for variant in variants
    ]
    return Chart(
        "counts",
        "Training samples by final confidence",
        "bars",
        "confidence p in the true class",
        "training samples",
        series,
        log_y=True,
        categories=INTERVALS,
        note=f"{seeds.note}; bars are means over seeds, whiskers the smallest and largest seed.",
    )


TABLE_1 = Experiment(
    "gd-tab1",
    "Confidence of training samples by β",
    "GD",
    "Table 1",
    CLAIM,
    cells,
    conclude,
    seeds=SEEDS,
    deviations={"smoke": SMOKE_DEVIATION, "desk": DEVIATION, "paper": DEVIATION},
)
