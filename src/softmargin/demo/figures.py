"""The demo's figures, each with the caption that goes under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from softmargin.calibration import reliability_diagram
from softmargin.charts.tones import GREEN, MUTED, beta_tone
from softmargin.demo import results
from softmargin.demo.run import Outcome
from softmargin.report import figures
from softmargin.report.figures import Style
from softmargin.report.page import FigureGroup
from softmargin.theory import gradient_magnitude

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vPX*"


def looks_of(outcomes: Sequence[Outcome]) -> list[Style]:
    """Return how each configuration looks, the same in all figures."""
    looks = []
    for place, outcome in enumerate(outcomes):
        label = f"β = {outcome.configuration.label}"
        if outcome.configuration.warm_up_from is not None:
            looks.append(Style(label, GREEN, ">", "--"))
        else:
            tone = beta_tone(outcome.configuration.beta)
            looks.append(Style(label, tone, MARKERS[place % len(MARKERS)]))
    return looks


def spread_figure(outcomes: Sequence[Outcome], looks: Sequence[Style]) -> FigureGroup:
    """Return calibration error and over-confidence, one dot per seed."""
    panels = []
    for metric, title in (
        ("ece", "expected calibration error, %"),
        ("gap", "mean confidence − accuracy, %"),
    ):
        figure = figures.new_figure(5.0, 3.0)
        axes = figure.add_subplot()
        for place, (outcome, look) in enumerate(zip(outcomes, looks, strict=True)):
            figures.draw_spread(axes, place, look, [100 * x for x in outcome.values(metric)])
        labels = [outcome.configuration.label for outcome in outcomes]
        axes.set_xticks(range(len(labels)), labels, rotation=0 if len(labels) < 9 else 45)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("β")
        axes.set_title(title, loc="left")
        if metric == "ece":
            axes.set_ylim(bottom=0)
        else:
            axes.axhline(0, color=MUTED.light, linewidth=1)
        panels.append(
            figures.to_svg(
                figure,
                f"spread-{metric}",
                f"Dots: {title}, for each β and seed. The means are in the table.",
                [look.tone for look in looks],
            )
        )
    caption = (
        "One dot per seed, a bar at their mean. The expected calibration error (ECE, 10 bins) "
        "says how far confidence is from accuracy; the difference of their means says in which "
        "direction: above 0 is over-confident, below 0 under-confident."
    )
    return FigureGroup(panels, caption)


def gradient_figure(outcomes: Sequence[Outcome], looks: Sequence[Style]) -> FigureGroup:
    """Return gradient magnitude over confidence, theory and measurement."""
    figure = figures.new_figure(5.0, 3.7)
    axes = figure.add_subplot()
    p = np.linspace(0, 1, 201)
    count, deviation = 0, 0.0
    for outcome, look in zip(outcomes, looks, strict=True):
        if outcome.configuration.warm_up_from is not None:
            continue
        theory = gradient_magnitude(p, outcome.configuration.beta)
        figures.draw_gradients(axes, look, (p, theory), results.shown_gradients(outcome))
        count += len(outcome.gradients()[0])
        deviation = max(deviation, outcome.largest_deviation())
    axes.set_xlabel("p, probability of the target class")
    axes.set_ylabel("gradient |∂J/∂z|, target logit")
    _legend_above(axes)
    description = (
        "Gradient magnitude falls from 1 to 0 as the target's probability goes from 0 to 1: early "
        "for large β, late for small β. Measured points lie on the theoretical curves."
    )
    svg = figures.to_svg(figure, "gradients", description, [look.tone for look in looks])
    caption = (
        "Lines: theory, (1 − p) / (1 + (β − 1) p). Points: gradients measured by autograd on the "
        f"training images in some epochs of this run, thinned evenly over p. Of all {count:,} "
        f"measured, the farthest is {deviation:.0e} from its line. The warm-up is left out: its "
        "β moves."
    )
    return FigureGroup([svg], caption)


def curves_figure(outcomes: Sequence[Outcome], looks: Sequence[Style]) -> FigureGroup:
    """Return training loss and test accuracy by epoch."""
    loss, accuracy = figures.new_figure(5.0, 3.7), figures.new_figure(5.0, 3.7)
    loss_axes, accuracy_axes = loss.add_subplot(), accuracy.add_subplot()
    for outcome, look in zip(outcomes, looks, strict=True):
        figures.draw_curves(loss_axes, look, [run.train_loss for run in outcome.runs])
        percent = [[100 * x for x in run.test_accuracy] for run in outcome.runs]
        figures.draw_curves(accuracy_axes, look, percent)
    loss_axes.set_yscale("log")
    loss_axes.set_ylabel("training cross-entropy, nats")
    accuracy_axes.set_ylabel("test accuracy, %")
    last = max(float(np.mean(outcome.values("accuracy"))) for outcome in outcomes)
    accuracy_axes.set_ylim(bottom=max(0.0, 100 * last - 18))
    for axes in (loss_axes, accuracy_axes):
        _legend_above(axes)
    tones = [look.tone for look in looks]
    first = "Plain cross-entropy on the training images by epoch, for each β, on a log scale."
    second = "Accuracy on the test images by epoch, for each β."
    caption = (
        "Lines: median over seeds; bands: from the lowest to the highest seed. The loss shown is "
        "plain cross-entropy after each epoch, whatever β was trained with. The axis of test "
        "accuracy starts near the end result, not at 0."
    )
    svgs = [figures.to_svg(loss, "loss", first, tones)]
    svgs.append(figures.to_svg(accuracy, "accuracy", second, tones))
    return FigureGroup(svgs, caption)


def reliability_figure(outcomes: Sequence[Outcome], looks: Sequence[Style]) -> FigureGroup:
    """Return one reliability diagram per configuration, all seeds pooled."""
    panels = []
    for place, (outcome, look) in enumerate(zip(outcomes, looks, strict=True)):
        figure = figures.new_figure(3.7, 4.1)
        grid = figure.add_gridspec(2, 1, height_ratios=(3.2, 1))
        axes = figure.add_subplot(grid[0])
        bins = outcome.pooled_bins()
        reliability_diagram(axes, bins, figure.add_subplot(grid[1]), color=look.tone.light)
        pooled = f"pooled ECE {100 * bins.expected_calibration_error():.1f} %"
        axes.set_title(look.label, loc="left")
        axes.set_title(pooled, loc="right")
        description = f"Reliability diagram for {look.label}: {pooled}."
        panels.append(figures.to_svg(figure, f"reliability-{place}", description, [look.tone]))
    caption = (
        "Test predictions of all seeds pooled, in 10 bins. Bars: accuracy in the bin, with "
        "Wilson's 95 % interval, which counts every prediction as independent (the same image "
        "recurs in several seeds, so the true interval is somewhat wider). Hatched: the gap from "
        "accuracy to mean confidence. Dashed: perfect calibration. Below: how many predictions "
        "each bin holds; empty bins are not drawn. The pooled ECE written in is that of the pooled "
        "predictions, in which errors of single seeds cancel: it is at most the table's ECE, the "
        "mean of the seeds' own."
    )
    return FigureGroup(panels, caption, panel_width=290)


def _legend_above(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.3)
