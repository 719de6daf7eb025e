"""GD Figures 4 and 5: accuracy and cross-entropy on test images, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softmargin.charts import Chart
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import BAND, direction, interval, shown, verdict
from softmargin.papers.mnist.cells import (
    BASELINE,
    OPEN_CHOICES,
    SEEDS,
    SMOKE_DEVIATION,
    WARM_UPS,
    confidence_cells,
    label,
)
from softmargin.papers.mnist.findings import RULE, compare, monotone
from softmargin.papers.mnist.seeds import ByVariant, Seeds, against, band, compared_entries
from softmargin.papers.outcome import Finding, Outcome, ResultTable

CONSTANT = ("5", "2", "1", "0.1", "0.01")
LARGEST, SMALLEST = CONSTANT[0], CONSTANT[-1]


@dataclass(frozen=True)
class Score:
    """What a figure shows: the array's name, its title and unit, and how to judge it."""

    name: str
    title: str
    unit: str
    factor: float
    digits: int
    better: str
    findings: Callable[[ByVariant, ByVariant, str], list[Finding]]


def conclude(score: Score, setting: Scope, finished: Finished) -> Outcome:
    """Return the curves, a table of some epochs, and what they say."""
    seeds = Seeds(setting, finished)
    variants = seeds.present((*CONSTANT, *WARM_UPS))
    curves = {each: score.factor * seeds.arrays(each, score.name) for each in variants}
    early = early_epoch(seeds.epochs)
    at = {
        epoch: {each: curves[each][:, epoch - 1] for each in variants}
        for epoch in sorted({1, early, max(1, seeds.epochs // 4), seeds.epochs})
    }
    found = score.findings(at[early], at[seeds.epochs], _after(early))
    table = ResultTable(
        f"{score.title} after some epochs",
        score.unit,
        compared_entries({_after(epoch): values for epoch, values in at.items()}),
        digits=score.digits,
        row_heading="trained with",
        better=score.better,
        note=f"{seeds.note}: mean ± sd. The paper has these values as curves only. Differences "
        "are against β = 1, Holm's correction is over the table.",
    )
    charts = [
        _chart(score, seeds, curves, "by-epoch", "by epoch", 0),
        _chart(score, seeds, curves, "later", "after the first fifth", seeds.epochs // 5),
    ]
    early_note = (
        f"The early phase is judged after {early} of {seeds.epochs} epochs. The warm-up "
        f"β = {WARM_UPS[0]} is the paper's in its second version, {WARM_UPS[1]} in its first."
    )
    return Outcome(verdict(setting.scale, found), [table], charts, [RULE, early_note], seeds.setup)


def early_epoch(epochs: int) -> int:
    """Return after which epoch the early phase is judged: a twentieth of them, fixed beforehand."""
    return max(1, epochs // 20)


def _after(epoch: int) -> str:
    return f"after {epoch} epoch{'s' if epoch > 1 else ''}"


def _chart(
    score: Score, seeds: Seeds, curves: ByVariant, name: str, title: str, first: int
) -> Chart:
    epochs = list(range(first + 1, seeds.epochs + 1))
    return Chart(
        f"{score.name}-{name}",
        f"{score.title} {title}",
        "line",
        "epoch",
        f"{score.title.lower()} ({score.unit})",
        [band(variant, epochs, curve[:, first:]) for variant, curve in curves.items()],
        note=f"{seeds.note}; {BAND}; warm-ups are dashed, in the colour of the β they end with.",
    )


def _of_constant(values: ByVariant) -> list[str]:
    return [variant for variant in CONSTANT if variant in values]


def accuracy_findings(early: ByVariant, last: ByVariant, when: str) -> list[Finding]:
    """Judge speed at first, the final order of β, and the warm-up."""
    return [
        monotone(f"accuracy in % {when}", early, _of_constant(early), 1, 2),
        compare(f"accuracy in % {when}", early, SMALLEST, 1, 2),
        compare("final accuracy in %", last, SMALLEST, 1, 2),
        compare("final accuracy in %", last, LARGEST, -1, 2),
        _warm_up(last),
    ]


def _warm_up(last: ByVariant) -> Finding:
    """Find whether the warm-up ends above β = 1, and with the highest mean of all."""
    warm = WARM_UPS[0]
    best = max(_of_constant(last), key=lambda variant: float(last[variant].mean()))
    comparison = against(last, warm, best)
    text = (
        f"the warm-up β = {warm} ends with {shown(last[warm], 2)} % against {shown(last[best], 2)} "
        f"% for the best constant one, {label(best)} ({interval(comparison, 2)})"
    )
    above = direction(against(last, warm))
    return Finding(text, None if above == 0 else above == 1 and comparison.difference >= 0)


def nll_findings(early: ByVariant, last: ByVariant, when: str) -> list[Finding]:
    """Judge the fall of the cross-entropy at first, and whether the lead melts later."""
    what = f"cross-entropy in nats {when}"
    return [
        monotone(what, early, _of_constant(early), -1, 4),
        compare(what, early, SMALLEST, -1, 4),
        compare(what, early, LARGEST, 1, 4),
        _lead(early, last, when),
    ]


def _lead(early: ByVariant, last: ByVariant, when: str) -> Finding:
    before, after = (
        float(np.mean(values[BASELINE] - values[SMALLEST])) for values in (early, last)
    )
    text = (
        f"{label(SMALLEST)} is ahead of β = 1 by {before:+.4f} nats {when} and by {after:+.4f} at "
        "the end"
    )
    return Finding(text, before > 0 and after < before)


ACCURACY = Score("accuracy", "Test accuracy", "%", 100.0, 2, "higher", accuracy_findings)
NLL = Score("nll", "Test cross-entropy", "nats", 1.0, 4, "lower", nll_findings)

NLL_DEVIATION = (
    f"{OPEN_CHOICES} The paper does not say on which images its cross-entropy was taken: here it "
    "is the plain one (β = 1) of the test images, whatever β a network was trained with."
)


def conclude_accuracy(setting: Scope, finished: Finished) -> Outcome:
    """Conclude Figure 4."""
    return conclude(ACCURACY, setting, finished)


def conclude_nll(setting: Scope, finished: Finished) -> Outcome:
    """Conclude Figure 5."""
    return conclude(NLL, setting, finished)


FIGURE_4 = Experiment(
    "gd-fig4",
    "Test accuracy by epoch and β",
    "GD",
    "Figure 4",
    "Smaller β learns faster at first and ends with better accuracy (0.01 above 1, 5 below it); "
    "a warm-up of β ends better still.",
    confidence_cells,
    conclude_accuracy,
    seeds=SEEDS,
    deviations={"smoke": SMOKE_DEVIATION, "desk": OPEN_CHOICES, "paper": OPEN_CHOICES},
)
FIGURE_5 = Experiment(
    "gd-fig5",
    "Cross-entropy by epoch and β",
    "GD",
    "Figure 5",
    "Plain cross-entropy falls faster at first the smaller β is; the lead shrinks later, as β's "
    "own objective and cross-entropy part.",
    confidence_cells,
    conclude_nll,
    seeds=SEEDS,
    deviations={"smoke": SMOKE_DEVIATION, "desk": NLL_DEVIATION, "paper": NLL_DEVIATION},
)
