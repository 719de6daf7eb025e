"""What ag-fig1 and ag-fig2 conclude: ArcGrad's angles and gaps on Iris, and accuracy by depth.

ArcGrad's loss of a sample is the cross-entropy of logits -s·θ_j, so that its gradient with respect
to an angle is ∂J/∂θ_j = -s·p_j for the other classes and s·(1 - p_c) for its own. Angles are
arrays of shape (..., samples, classes) in radians.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from softmargin import theory
from softmargin.charts import Chart, Series
from softmargin.papers.charts import banded
from softmargin.papers.core import Cell, Finished, Scope
from softmargin.papers.findings import Floats, verdict
from softmargin.papers.outcome import Finding, Outcome, ResultTable, rounded
from softmargin.papers.printed import printed_means
from softmargin.papers.runs import Key
from softmargin.papers.statistics import paired_bootstrap
from softmargin.papers.uci import Scores, described, entries_of, network_of

# --- ag-fig1: angles

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
    charts = [
        angle_chart(each, y, k, phase, f"{scope.scale} scale")
        for each in models
        for k, phase in enumerate(phases)
    ]
    charts += [gap_chart(each, phases, size) for each in models]
    ends = " and ".join(f"{each.medians(-1).mean() / each.gap:.1f}" for each in models)
    remark = (
        "The theoretical gap is one that samples leave, not where they stop: they end at "
        f"{ends} times it."
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
    larger = paired_bootstrap(first.medians(-1), last.medians(-1), seed=0)
    found = [
        Finding(
            f"the median gap at the end is {first.medians(-1).mean():.1f}° for {first.name} and "
            f"{last.medians(-1).mean():.1f}° for {last.name} ({larger.difference:.1f}° apart, "
            f"95 %: {larger.low:.1f} to {larger.high:.1f})",
            larger.low > 0,
        )
    ]
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


def angle_tables(models: Sequence[Models], phases: Sequence[str], size: str) -> list[ResultTable]:
    """Return the gaps in every phase, how many samples are within, and how hard they are pulled."""
    gap, pull = dict[Key, Floats](), dict[Key, Floats]()
    for each in models:
        gap[each.name, "theoretical"] = np.array([each.gap])
        for k, phase in enumerate(phases):
            gap[each.name, phase] = each.medians(k)
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
            "Samples within the theoretical gap, and mean gradients within and beyond it",
            "%",
            entries_of(pull),
            row_heading="scale and phase",
            note=f"{size}. The largest possible gradient is s. ± is over seeds, of those that "
            "have such samples.",
        ),
    ]


# --- ag-fig2: depth

OURS = ("ArcGrad 30", "ArcGrad 5")
GUESSING = ("Soft", "ArcFace", "AdaCos")  # at the greatest depth, by the paper's words
NEAR_GUESS = 40.0  # percent; one of three classes is 33.3
DEPTH_NOTES = (
    "Layers are counted with the head: with 1 the head sees the table itself.",
    "The paper's numbers for 10 layers are words, about 33 %, not a table.",
    "Weights are drawn as nn.Linear draws them, without a remedy for depth such as residual "
    "connections or normalisation.",
)
NOT_GIVEN = (
    "What is lost depends on width, initial weights and epochs, which the paper does not give."
)


def conclude_depths(scope: Scope, finished: Finished) -> Outcome:
    """Compare how much accuracy the methods lose with depth."""
    ordered = sorted(finished, key=lambda each: _depth(each[0]))
    depths = [_depth(cell) for cell, _ in ordered]
    scores = Scores(scope, ordered, [str(depth) for depth in depths])
    by_run = scores.accuracy.mean(3)
    best = by_run.mean(2).argmax(0)
    lost = {name: by_run[best[m], m] - by_run[-1, m] for m, name in enumerate(scores.methods)}
    tables = [
        scores.table(
            "Accuracy on test rows by number of layers",
            "layers",
            "of the same depth on the same folds",
            scores.compared(printed_means("ag-fig2")),
        ),
        ResultTable(
            f"Accuracy lost from the best depth to {depths[-1]} layers",
            "points",
            entries_of({("lost", name): own for name, own in lost.items()}),
            better="lower",
            note=f"{scores.size}. Best depth by the mean over runs; ± is over runs.",
        ),
    ]
    at_end = dict(zip(scores.methods, by_run[-1].mean(1), strict=True))
    return Outcome(
        verdict(scope.scale, depth_findings(depths[-1], lost, at_end), NOT_GIVEN),
        tables,
        [depth_chart(depths, scores)],
        DEPTH_NOTES,
        described(ordered[0][0], f"{depths[0]} to {depths[-1]}"),
    )


def _depth(cell: Cell) -> int:
    return int(cell.config["training"]["model_options"]["depth"])


def depth_findings(
    depth: int, lost_by_run: Mapping[str, Floats], at_end: Mapping[str, float]
) -> list[Finding]:
    """Find whether each ArcGrad loses the least, and whether the named methods end up guessing."""
    lost = {name: float(own.mean()) for name, own in lost_by_run.items()}
    least = min((name for name in lost if name not in OURS), key=lambda name: lost[name])
    found = [
        Finding(
            f"from its best depth to {depth} layers {name} loses {lost[name]:.1f} points, "
            f"{least}, the best of the others, {lost[least]:.1f}",
            lost[name] < lost[least],
        )
        for name in OURS
    ]
    ends = ", ".join(f"{name} {at_end[name]:.1f} %" for name in GUESSING)
    guessing = all(at_end[name] <= NEAR_GUESS for name in GUESSING)
    return [*found, Finding(f"at {depth} layers: {ends} (the paper: about 33 %)", guessing)]


def depth_chart(depths: Sequence[int], scores: Scores) -> Chart:
    """Return accuracy against depth with intervals over runs."""
    series, x = [], [float(depth) for depth in depths]
    for m, name in enumerate(scores.methods):
        line = banded(name, x, scores.accuracy[:, m].mean(-1).T, digits=12)
        series.append(replace(line, high=[min(high, 100.0) for high in line.high]))
    series.append(Series("guessing", x, [100 / 3] * len(x), dashed=True))
    return Chart(
        "accuracy-by-depth",
        "Accuracy on Iris by number of layers",
        "line",
        "layers with weights, the head among them",
        "accuracy on test rows (%)",
        series,
        note=f"{scores.size}. Bands: 95 % intervals of the mean over runs, Student's t.",
    )
