"""What ag-fig1 concludes: ArcGrad's angles and gaps on Iris.

ArcGrad's loss of a sample is the cross-entropy of logits -s·θ_j, so that its gradient with respect
to an angle is ∂J/∂θ_j = -s·p_j for the other classes and s·(1 - p_c) for its own. Angles are
arrays of shape (..., samples, classes) in radians.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from softmargin import theory
from softmargin.charts import Chart, Series
from softmargin.papers.charts import banded
from softmargin.papers.core import Finished, Scope
from softmargin.papers.cross_scores import entries_of, network_of
from softmargin.papers.findings import Floats, verdict
from softmargin.papers.outcome import Finding, Outcome, ResultTable, rounded
from softmargin.papers.printed import printed_means
from softmargin.papers.runs import Key
from softmargin.papers.statistics import paired_bootstrap

Classes = NDArray[np.int64]
SPECIES = ("setosa", "versicolor", "virginica")
CURVE = 81  # points of a theoretical curve
PHASES = ("start", "middle", "end")
FEW = 10.0  # percent of the samples that may be left within the gap at the end
ANGLE_NOTES = (
    "The paper draws angles in polar form with arrows for gradients; here the same two numbers are "
    "the axes, so that they can be read.",
    "The gap of a sample is the angle to the nearest other class weight less that to its own; it "
    "is negative for a sample that is classified wrongly.",
    "The theoretical gap is (W((C - 1)/e) + 1)/s, W Lambert's function: the one for which s is the "
    "scale with the largest gradient.",
    "Features come out of a ReLU, so that no two of them are more than 90° apart.",
)


def gaps(angles: Floats, y: Classes) -> Floats:
    """Return how much nearer each sample is to its own class weight than to the next (eq. 13)."""
    own = _own(angles, y)
    gap: Floats = np.where(own, np.inf, angles).min(-1) - np.where(own, angles, 0.0).sum(-1)
    return gap


def gradients(angles: Floats, y: Classes, scale: float) -> Floats:
    """Return |∂J/∂θ| of every sample and class."""
    p = np.exp(-scale * (angles - angles.min(-1, keepdims=True)))
    p /= p.sum(-1, keepdims=True)
    magnitudes: Floats = scale * np.abs(p - _own(angles, y))
    return magnitudes


def _own(angles: Floats, y: Classes) -> NDArray[np.bool_]:
    """Return where the class is the sample's own, in the shape of the angles."""
    own: NDArray[np.bool_] = np.arange(angles.shape[-1]) == y[:, None]
    return np.broadcast_to(own, angles.shape)


class Models:
    """The models of one scale: angles by (phase, seed, sample, class), gaps without the class.

    Attributes:
        scale: s.
        name: ``"s = 40"``.
        degrees: the angles.
        pull: their gradients.
        own: where the class is the sample's own.
        own_pull: the gradients of samples' own angles.
        gaps: of the samples, in degrees.
        gap: the theoretical one.
        within: which samples have a smaller gap.
    """

    def __init__(self, scale: float, angles: Floats, y: Classes) -> None:
        """Measure gaps and gradients."""
        self.scale, self.name, self.degrees = scale, f"s = {scale:g}", np.degrees(angles)
        self.own, self.pull = _own(angles, y), gradients(angles, y, scale)
        self.own_pull: Floats = np.where(self.own, self.pull, 0.0).sum(-1)
        self.gaps: Floats = np.degrees(gaps(angles, y))
        self.gap = float(np.degrees(theory.gap(angles.shape[-1], scale)))
        self.within: NDArray[np.bool_] = self.gaps < self.gap

    def medians(self, phase: int) -> Floats:
        """Return the median gap of each seed in a phase."""
        found: Floats = np.median(self.gaps[phase], -1)
        return found


def conclude_angles(scope: Scope, finished: Finished) -> Outcome:
    """Compare the gaps that training makes with the theoretical ones."""
    ((cell, result),) = finished
    angles, y = result.arrays["angles"], result.arrays["y"]
    epochs, shared = cell.config["epochs"], cell.config["training"]
    models = [Models(s, angles[:, i], y) for i, s in enumerate(cell.config["scales"])]
    phases = [f"{phase} (epoch {count})" for phase, count in zip(PHASES, epochs, strict=True)]
    size = f"{scope.scale} scale, {len(cell.config['seeds'])} seeds"
    drawn = [models[0], models[-1]]  # the two that the paper draws
    charts = [
        angle_chart(each, y, k, phase, f"{scope.scale} scale")
        for each in drawn
        for k, phase in enumerate(phases)
    ]
    charts += [gap_chart(each, phases, size) for each in drawn]
    charts.append(product_chart(models, phases, size))
    ends = ", ".join(f"{each.medians(-1).mean() / each.gap:.1f}" for each in models)
    scales = ", ".join(f"{each.scale:g}" for each in models)
    remark = (
        "The theoretical gap is one that samples leave, not where they stop: they end at "
        f"{ends} times it for s = {scales}, so that s times the gap is the same in theory alone."
    )
    setup = {
        **network_of(shared),
        "training": f"all 150 rows, z-scored, batches of {shared['batch']}, float64",
        "phases": f"after {', '.join(map(str, epochs))} epochs",
    }
    return Outcome(
        verdict(scope.scale, gap_findings(models), remark),
        angle_tables(models, phases, size),
        charts,
        ANGLE_NOTES,
        setup,
    )


def gap_findings(models: Sequence[Models]) -> list[Finding]:
    """Find whether a smaller scale makes a larger gap, and whether each gap empties."""
    first, last = models[0], models[-1]
    medians = [float(each.medians(-1).mean()) for each in models]
    larger = paired_bootstrap(first.medians(-1), last.medians(-1), seed=0)
    found = [
        Finding(
            f"the median gap at the end is {first.medians(-1).mean():.1f}° for {first.name} and "
            f"{last.medians(-1).mean():.1f}° for {last.name} ({larger.difference:.1f}° apart, "
            f"95 %: {larger.low:.1f} to {larger.high:.1f})",
            larger.low > 0,
        )
    ]
    if len(models) > 2:
        listed = ", ".join(f"{each:.1f}°" for each in medians)
        text = f"along s = {', '.join(f'{each.scale:g}' for each in models)} it goes {listed}"
        found.append(Finding(text, bool((np.diff(medians) <= 0).all())))
    for each in models:
        share = float(100 * each.within[-1].mean())
        text = (
            f"for {each.name}, {share:.1f} % of the samples are still within the theoretical gap "
            f"of {each.gap:.1f}°"
        )
        found.append(Finding(text, share <= FEW))
    return found


def angle_chart(models: Models, y: Classes, phase: int, title: str, scale: str) -> Chart:
    """Return angles of one seed against their gradients: own class by class, others together."""
    degrees, pull, own = (each[phase, 0] for each in (models.degrees, models.pull, models.own))
    shown = {f"{name} to its own weight": own & (y == k)[:, None] for k, name in enumerate(SPECIES)}
    shown["any to another weight"] = ~own
    return Chart(
        f"angles-s{models.scale:g}-{PHASES[phase]}",
        f"{models.name}, {title}: angles and their gradients",
        "points",
        "angle between feature and class weight (degrees)",
        "∣∂J/∂θ∣ (nats per radian)",
        [Series(name, rounded(degrees[at]), rounded(pull[at])) for name, at in shown.items()],
        note=f"{scale}, seed 0: one point per sample and class weight, on training rows.",
    )


def gap_chart(models: Models, phases: Sequence[str], size: str) -> Chart:
    """Return each sample's gap against its gradient in all phases, over the theoretical curve."""
    scale, gap = models.scale, models.gap
    drawn, pull = models.gaps[:, 0], models.own_pull[:, 0]
    degrees = np.linspace(min(0.0, drawn.min()), max(drawn.max(), 10.0), CURVE)
    weight = (models.own.shape[-1] - 1) * np.exp(-scale * np.radians(degrees))
    curve = scale * weight / (1 + weight)
    return Chart(
        f"gaps-s{scale:g}",
        f"{models.name}: gap and gradient of every sample",
        "points",
        "gap between the nearest other class and its own (degrees)",
        "∣∂J/∂θ∣ of its own angle (nats per radian)",
        [
            *(Series(name, rounded(drawn[k]), rounded(pull[k])) for k, name in enumerate(phases)),
            Series("all other classes at the gap", rounded(degrees), rounded(curve), dashed=True),
            Series(f"theoretical gap {gap:.1f}°", [gap, gap], [0.0, scale], dashed=True),
        ],
        note=f"{size}; drawn is seed 0, training rows.",
    )


def product_chart(models: Sequence[Models], phases: Sequence[str], size: str) -> Chart:
    """Return the scale times the median gap by scale in all phases, and the theoretical one."""
    scales = [each.scale for each in models]
    series = [
        banded(phase, scales, np.stack([each.scale * each.medians(k) for each in models], 1), 2)
        for k, phase in enumerate(phases)
    ]
    theoretical = [round(each.scale * each.gap, 2) for each in models]
    return Chart(
        "scale-times-gap",
        "Scale times the gap by scale",
        "line",
        "scale s",
        "s times the median gap (degrees)",
        [*series, Series("theoretical", scales, theoretical, dashed=True)],
        note=f"{size}. Bands: 95 % intervals of the mean over seeds, Student's t.",
        log_x=True,
        log_y=True,
    )


def angle_tables(models: Sequence[Models], phases: Sequence[str], size: str) -> list[ResultTable]:
    """Return the gaps in every phase, how many samples are within, and how hard they are pulled."""
    gap, pull, product = dict[Key, Floats](), dict[Key, Floats](), dict[Key, Floats]()
    for each in models:
        gap[each.name, "theoretical"] = np.array([each.gap])
        product[each.name, "theoretical"] = np.array([each.scale * each.gap])
        for k, phase in enumerate(phases):
            gap[each.name, phase] = each.medians(k)
            product[each.name, phase] = each.scale * each.medians(k)
            row, within = f"{each.name}, {phase}", each.within[k]
            pull[row, "samples within the gap"] = 100 * within.mean(-1)
            shares = 100 / each.scale * each.own_pull[k]
            for name, chosen in (("within", within), ("beyond", ~within)):
                some = [own[c].mean() for own, c in zip(shares, chosen, strict=True) if c.any()]
                if some:
                    pull[row, f"gradient {name}, of the largest possible"] = np.array(some)
    return [
        ResultTable(
            "Gap between a sample's own class weight and the nearest other",
            "degrees",
            entries_of(gap, printed_means("ag-fig1")),
            row_heading="scale",
            note=f"{size}. Median over training rows; ± is the standard deviation over seeds.",
        ),
        ResultTable(
            "The scale times that gap, which in theory is the same for every scale",
            "degrees",
            entries_of(product),
            digits=1,
            row_heading="scale",
            note=f"{size}. ± is the standard deviation over seeds.",
        ),
        ResultTable(
            "Samples within the theoretical gap, and mean gradients within and beyond it",
            "%",
            entries_of(pull),
            row_heading="scale and phase",
            note=f"{size}. The largest possible gradient is s. ± is over seeds, of those that "
            "have such samples.",
        ),
    ]
