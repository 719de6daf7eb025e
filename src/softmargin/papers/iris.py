"""What ag-fig1 and ag-fig2 conclude: ArcGrad's angles and gaps on Iris, and accuracy by depth.

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
from softmargin.papers.core import Cell, Finished, Scope
from softmargin.papers.cross_validation import (
    BASELINE,
    compare_methods,
    compared_entry,
    described,
    tests_note,
)
from softmargin.papers.findings import Floats, verdict
from softmargin.papers.outcome import Entry, Finding, Outcome, ResultTable, rounded
from softmargin.papers.printed import printed_means
from softmargin.papers.statistics import paired_bootstrap, summary

Classes = NDArray[np.int64]
SPECIES = ("setosa", "versicolor", "virginica")
CURVE = 81  # points of a theoretical curve
PHASES = ("start", "middle", "end")
FEW = 10.0  # percent of the samples that may be left within the gap at the end
OURS = ("ArcGrad 30", "ArcGrad 5")
GUESSING = ("Soft", "ArcFace", "AdaCos")  # at the greatest depth, by the paper's words
NEAR_GUESS = 40.0  # percent; one of three classes is 33.3


def conclude_angles(setting: Scope, finished: Finished) -> Outcome:
    """Compare the gaps that training makes with the theoretical ones."""
    ((cell, result),) = finished
    epochs, scales, seeds = (cell.config[name] for name in ("epochs", "scales", "seeds"))
    angles, y = result.arrays["angles"], result.arrays["y"]
    size = f"{setting.scale} scale, {len(seeds)} seeds"
    phases = [f"{phase} (epoch {count})" for phase, count in zip(PHASES, epochs, strict=True)]
    charts = [
        angle_chart(angles[k, i, 0], y, scale, phases[k], f"{setting.scale} scale")
        for i, scale in enumerate(scales)
        for k in range(len(phases))
    ]
    charts += [gap_chart(angles[:, i, 0], y, s, phases, size) for i, s in enumerate(scales)]
    tables = [
        gap_table(angles, y, scales, phases, size),
        pull_table(angles, y, scales, phases, size),
    ]
    found = verdict(setting.scale, gap_findings(angles, y, scales), gap_remark(angles, y, scales))
    return Outcome(found, tables, charts, ANGLE_NOTES, setup_of(cell))


ANGLE_NOTES = (
    "The paper draws angles in polar form with arrows for gradients; here the same two numbers are "
    "the axes, so that they can be read.",
    "The gap of a sample is the angle to the nearest other class weight less that to its own; it "
    "is negative for a sample that is classified wrongly.",
    "The theoretical gap is (W((C - 1)/e) + 1)/s, W Lambert's function: the one for which s is the "
    "scale with the largest gradient.",
    "Features come out of a ReLU, so that no two of them are more than 90° apart.",
)


def gap_findings(angles: Floats, y: NDArray[np.int64], scales: Sequence[float]) -> list[Finding]:
    """Find whether a smaller scale makes a larger gap, and whether each gap empties."""
    end = _final_gaps(angles, y, scales)
    larger = paired_bootstrap(end[0], end[-1], seed=0)
    found = [
        Finding(
            f"the median gap at the end is {end[0].mean():.1f}° for s = {scales[0]:g} and "
            f"{end[-1].mean():.1f}° for s = {scales[-1]:g} ({larger.difference:.1f}° apart, 95 %: "
            f"{larger.low:.1f} to {larger.high:.1f})",
            larger.low > 0,
        )
    ]
    for i, scale in enumerate(scales):
        share = float(100 * inside(angles[-1, i], y, scale).mean())
        expected = np.degrees(theory.gap(angles.shape[-1], scale))
        text = (
            f"for s = {scale:g}, {share:.1f} % of the samples are still within the theoretical gap "
            f"of {expected:.1f}°"
        )
        found.append(Finding(text, share <= FEW))
    return found


def gap_remark(angles: Floats, y: NDArray[np.int64], scales: Sequence[float]) -> str:
    """Return how the gaps relate to the theoretical ones."""
    ends = " and ".join(
        f"{found.mean() / np.degrees(theory.gap(angles.shape[-1], scale)):.1f}"
        for scale, found in zip(scales, _final_gaps(angles, y, scales), strict=True)
    )
    return (
        "The theoretical gap is one that samples leave, not where they stop: they end at "
        f"{ends} times it."
    )


def _final_gaps(angles: Floats, y: NDArray[np.int64], scales: Sequence[float]) -> list[Floats]:
    return [np.median(np.degrees(gaps(angles[-1, i], y)), -1) for i in range(len(scales))]


def setup_of(cell: Cell) -> dict[str, str]:
    """Return in words how the models were trained."""
    shared = cell.config["training"]
    options = shared["model_options"]
    return {
        "network": f"{options['depth']} layers with the head, {options['width']} units each, ReLU",
        "optimiser": f"Adam, learning rate {shared['lr']:g}, constant; no weight decay",
        "training": f"all 150 rows, z-scored, batches of {shared['batch']}, float64",
        "phases": f"after {', '.join(map(str, cell.config['epochs']))} epochs",
    }


def gradients(angles: Floats, y: Classes, scale: float) -> Floats:
    """Return |∂J/∂θ| of every sample and class, from angles (..., samples, classes)."""
    logits = -scale * (angles - angles.min(-1, keepdims=True))
    p = np.exp(logits)
    p /= p.sum(-1, keepdims=True)
    magnitudes: Floats = scale * np.abs(p - _own(angles, y))
    return magnitudes


def gaps(angles: Floats, y: Classes) -> Floats:
    """Return how much nearer each sample is to its own class weight than to the next (eq. 13)."""
    own = _own(angles, y)
    others = np.where(own, np.inf, angles).min(-1)
    gap: Floats = others - np.where(own, angles, 0.0).sum(-1)
    return gap


def inside(angles: Floats, y: Classes, scale: float) -> NDArray[np.bool_]:
    """Return which samples have less than the theoretical gap."""
    within: NDArray[np.bool_] = gaps(angles, y) < theory.gap(angles.shape[-1], scale)
    return within


def angle_chart(angles: Floats, y: Classes, scale: float, phase: str, size: str) -> Chart:
    """Return angles of one seed against their gradients: own class by class, others together."""
    pull, degrees, own = gradients(angles, y, scale), np.degrees(angles), _own(angles, y)
    series = [
        Series(f"{name} to its own weight", *_points(degrees, pull, own & (y == k)[:, None]))
        for k, name in enumerate(SPECIES)
    ]
    series.append(Series("any to another weight", *_points(degrees, pull, ~own)))
    word = phase.split()[0]
    return Chart(
        f"angles-s{scale:g}-{word}",
        f"s = {scale:g}, {phase}: angles and their gradients",
        "points",
        "angle between feature and class weight (degrees)",
        "∣∂J/∂θ∣ (nats per radian)",
        series,
        note=f"{size}, seed 0: one point per sample and class weight, on training rows.",
    )


def gap_chart(angles: Floats, y: Classes, scale: float, phases: Sequence[str], size: str) -> Chart:
    """Return each sample's gap against its gradient in all phases, over the theoretical curve."""
    series = []
    for phase, here in zip(phases, angles, strict=True):
        pull = np.where(_own(here, y), gradients(here, y, scale), 0.0).sum(-1)
        series.append(Series(phase, rounded(np.degrees(gaps(here, y))), rounded(pull)))
    classes = angles.shape[-1]
    every = np.degrees(gaps(angles, y))
    degrees = np.linspace(min(0.0, every.min()), max(every.max(), 10.0), CURVE)
    weight = (classes - 1) * np.exp(-scale * np.radians(degrees))
    curve = scale * weight / (1 + weight)
    series.append(
        Series("all other classes at the gap", rounded(degrees), rounded(curve), dashed=True)
    )
    gap = float(np.degrees(theory.gap(classes, scale)))
    series.append(Series(f"theoretical gap {gap:.1f}°", [gap, gap], [0.0, scale], dashed=True))
    return Chart(
        f"gaps-s{scale:g}",
        f"s = {scale:g}: gap and gradient of every sample",
        "points",
        "gap between the nearest other class and its own (degrees)",
        "∣∂J/∂θ∣ of its own angle (nats per radian)",
        series,
        note=f"{size}; drawn is seed 0, training rows.",
    )


def gap_table(
    angles: Floats, y: Classes, scales: Sequence[float], phases: Sequence[str], size: str
) -> ResultTable:
    """Return the theoretical gap, and the median gap of the samples in every phase."""
    classes = angles.shape[-1]
    entries = []
    for i, scale in enumerate(scales):
        row, expected = f"s = {scale:g}", float(np.degrees(theory.gap(classes, scale)))
        paper = printed_means("ag-fig1").get(row, {}).get("theoretical")
        entries.append(Entry(row, "theoretical", (round(expected, 4),), paper=paper))
        for k, phase in enumerate(phases):
            found = np.median(np.degrees(gaps(angles[k, i], y)), -1)
            entries.append(Entry(row, phase, rounded(found)))
    return ResultTable(
        "Gap between a sample's own class weight and the nearest other",
        "degrees",
        entries,
        row_heading="scale",
        note=f"{size}. Median over training rows; ± is the standard deviation over seeds.",
    )


def pull_table(
    angles: Floats, y: Classes, scales: Sequence[float], phases: Sequence[str], size: str
) -> ResultTable:
    """Return how many samples are within the theoretical gap, and how hard they are pulled."""
    entries = []
    for i, scale in enumerate(scales):
        for k, phase in enumerate(phases):
            within = inside(angles[k, i], y, scale)
            own = _own(angles[k, i], y)
            pull = 100 / scale * np.where(own, gradients(angles[k, i], y, scale), 0.0).sum(-1)
            row = f"s = {scale:g}, {phase}"
            entries.append(Entry(row, "samples within the gap", rounded(100 * within.mean(-1))))
            for name, chosen in (("within", within), ("beyond", ~within)):
                some = [float(p[c].mean()) for p, c in zip(pull, chosen, strict=True) if c.any()]
                if some:
                    column = f"gradient {name}, of the largest possible"
                    entries.append(Entry(row, column, rounded(np.array(some))))
    return ResultTable(
        "Samples within the theoretical gap, and mean gradients within and beyond it",
        "%",
        entries,
        row_heading="scale and phase",
        note=(
            f"{size}. The largest possible gradient is s. ± is over seeds, of those that have such "
            "samples."
        ),
    )


def _own(angles: Floats, y: Classes) -> NDArray[np.bool_]:
    """Return where the class is the sample's own, in the shape of the angles."""
    own: NDArray[np.bool_] = np.arange(angles.shape[-1]) == y[:, None]
    return np.broadcast_to(own, angles.shape)


def _points(x: Floats, y: Floats, where: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    return rounded(x[where]), rounded(y[where])


def conclude_depths(setting: Scope, finished: Finished) -> Outcome:
    """Compare how much accuracy the methods lose with depth."""
    ordered = sorted(finished, key=lambda each: _depth(each[0]))
    depths = [_depth(cell) for cell, _ in ordered]
    methods = list(ordered[0][1].numbers["methods"])
    accuracy = 100 * np.stack([result.arrays["accuracy"] for _, result in ordered])
    runs, folds = accuracy.shape[2:]
    size = f"{setting.scale} scale, {runs} runs of {folds}-fold cross-validation"
    lost = lost_by_run(accuracy)
    tables = [
        depth_table(depths, methods, accuracy, size),
        ResultTable(
            f"Accuracy lost from the best depth to {depths[-1]} layers",
            "points",
            [Entry("lost", name, rounded(lost[m])) for m, name in enumerate(methods)],
            row_heading="",
            better="lower",
            note=f"{size}. Best depth by the mean over runs; ± is over runs.",
        ),
    ]
    found = verdict(setting.scale, depth_findings(depths, methods, accuracy), NOT_GIVEN)
    setup = described(ordered[0][0])
    setup["network"] = f"{depths[0]} to {depths[-1]}" + setup["network"].removeprefix(
        f"{depths[0]}"
    )
    return Outcome(
        found, tables, [depth_chart(depths, methods, accuracy, size)], DEPTH_NOTES, setup
    )


DEPTH_NOTES = (
    "Layers are counted with the head: with 1 the head sees the table itself.",
    "The paper's numbers for 10 layers are words, about 33 %, not a table.",
    "Weights are drawn as nn.Linear draws them, without a remedy for depth such as residual "
    "connections or normalisation.",
)


NOT_GIVEN = (
    "What is lost depends on width, initial weights and epochs, which the paper does not give."
)


def lost_by_run(accuracy: Floats) -> Floats:
    """Return by (method, run) what is lost from the best depth to the greatest."""
    by_run = accuracy.mean(3)
    best = by_run.mean(2).argmax(0)
    return np.stack([by_run[place, m] - by_run[-1, m] for m, place in enumerate(best)])


def depth_table(
    depths: Sequence[int], methods: Sequence[str], accuracy: Floats, size: str
) -> ResultTable:
    """Return accuracy by depth and method, each method against plain softmax at the same depth."""
    compared, adjusted = compare_methods(accuracy, methods.index(BASELINE))
    paper = printed_means("ag-fig2")
    entries = [
        compared_entry(
            (d, m),
            (f"{depths[d]}", methods[m]),
            accuracy[d, m].mean(1),
            paper.get(f"{depths[d]}", {}).get(methods[m]),
            compared,
            adjusted,
        )
        for d, m in np.ndindex(accuracy.shape[:2])
    ]
    return ResultTable(
        "Accuracy on test rows by number of layers",
        "%",
        entries,
        row_heading="layers",
        better="higher",
        note=tests_note(size, "of the same depth on the same folds", compared),
    )


def depth_chart(
    depths: Sequence[int], methods: Sequence[str], accuracy: Floats, size: str
) -> Chart:
    """Return accuracy against depth with intervals over runs."""
    series = []
    for m, name in enumerate(methods):
        found = [summary(row.mean(1)) for row in accuracy[:, m]]
        series.append(
            Series(
                name,
                [float(depth) for depth in depths],
                [each.mean for each in found],
                low=[each.mean if each.low is None else each.low for each in found],
                high=[each.mean if each.high is None else min(each.high, 100.0) for each in found],
            )
        )
    third = [100 / 3] * len(depths)
    series.append(Series("guessing", [float(d) for d in depths], third, dashed=True))
    return Chart(
        "accuracy-by-depth",
        "Accuracy on Iris by number of layers",
        "line",
        "layers with weights, the head among them",
        "accuracy on test rows (%)",
        series,
        note=f"{size}. Bands: 95 % intervals of the mean over runs, Student's t.",
    )


def depth_findings(
    depths: Sequence[int], methods: Sequence[str], accuracy: Floats
) -> list[Finding]:
    """Find whether each ArcGrad loses the least, and whether the named methods end up guessing."""
    lost = dict(zip(methods, lost_by_run(accuracy).mean(1), strict=True))
    at_end = dict(zip(methods, accuracy[-1].mean((1, 2)), strict=True))
    others = {name: value for name, value in lost.items() if name not in OURS}
    least = min(others, key=lambda name: others[name])
    found = [
        Finding(
            f"from its best depth to {depths[-1]} layers {name} loses {lost[name]:.1f} points, "
            f"{least}, the best of the others, {others[least]:.1f}",
            bool(lost[name] < others[least]),
        )
        for name in OURS
    ]
    ends = ", ".join(f"{name} {at_end[name]:.1f} %" for name in GUESSING)
    guessing = all(at_end[name] <= NEAR_GUESS for name in GUESSING)
    return [*found, Finding(f"at {depths[-1]} layers: {ends} (the paper: about 33 %)", guessing)]


def _depth(cell: Cell) -> int:
    return int(cell.config["training"]["model_options"]["depth"])
