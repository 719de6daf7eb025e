"""The demo's page: what was found, in words taken from the numbers, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from softmargin._files import write_file
from softmargin.calibration import reliability_diagram
from softmargin.charts.tones import GREEN, MUTED, OTHERS, beta_tone
from softmargin.demo import results
from softmargin.demo.run import DemoSetting, Outcome
from softmargin.report import figures
from softmargin.report.figures import Style, house_style
from softmargin.report.page import (
    Bullets,
    Code,
    Download,
    Facts,
    FigureGroup,
    Page,
    Section,
    Table,
    Text,
    render_page,
)
from softmargin.theory import gradient_magnitude

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawn = Sequence[tuple[Outcome, Style]]
"""Configurations, each with how it looks."""

MARKERS = "osD^vPX*"
TITLE = "What β does to a network's confidence"
LEAD = (
    "Gradient decay is cross-entropy with one more number. β = 1 is cross-entropy itself; a "
    "small β keeps pushing samples that are already right, a large β lets them go early. Here "
    "the same small network learns the same digits with several β, and nothing else changes."
)
CHOSEN = (
    "This setting was chosen so that the effect is plain to see: few training images, and a "
    "network that can fit all of them, without regularisation. With more data or another recipe "
    "the differences, and the best β, can be others."
)
WHY = (
    "Each sample pulls on its target's logit with a force between 1 and 0. Under cross-entropy "
    "that force is 1 − p. A small β keeps it near 1 until the sample is almost certain, so that "
    "training goes on driving confidence up; a large β lets it fade early, and confidence stops "
    "rising sooner."
)


def demo_page(setting: DemoSetting, outcomes: Sequence[Outcome]) -> str:
    """Return the demo's report as one HTML page."""
    drawn = list(zip(outcomes, looks_of(outcomes), strict=True))
    with house_style():
        sections = [
            Section(
                "What was found",
                [Bullets(findings(outcomes)), Text(CHOSEN), spread_figure(drawn)],
            ),
            Section("The numbers", [_table(setting, outcomes)]),
            Section("Why: how fast the gradient fades", [Text(WHY), gradient_figure(drawn)]),
            Section("How training went", [curves_figure(drawn)]),
            Section("Confidence against accuracy", [reliability_figure(drawn)]),
            Section("How this was made", _provenance(setting, outcomes)),
        ]
    return render_page(Page(TITLE, LEAD, sections, [look.tone for _, look in drawn]))


def write_report(setting: DemoSetting, outcomes: Sequence[Outcome], out: Path) -> Path:
    """Write the numbers and the page, each whole or not at all; return where the page is.

    Raises:
        OSError: where they cannot be written.
    """
    numbers, page = results.to_json(setting, outcomes), demo_page(setting, outcomes)
    out.mkdir(parents=True, exist_ok=True)
    write_file(out / "results.json", numbers)
    write_file(out / "index.html", page)
    return out / "index.html"


def findings(outcomes: Sequence[Outcome]) -> list[str]:
    """Return what the numbers say, without saying more than they do."""
    fixed = [outcome for outcome in outcomes if outcome.configuration.fixed]
    fixed.sort(key=lambda outcome: -outcome.configuration.beta)
    sentences = [_best_calibrated(fixed)]
    if len(fixed) > 1:
        sentences.append(_direction(fixed))
        sentences += _held_out(fixed, outcomes)
        accuracies = [100 * np.mean(outcome.values("accuracy")) for outcome in outcomes]
        sentences.append(
            "Mean test accuracy lies between "
            f"{min(accuracies):.1f} % and {max(accuracies):.1f} %: what differs is mostly how "
            "sure the networks are."
            if max(accuracies) - min(accuracies) < 2
            else f"Mean test accuracy goes from {min(accuracies):.1f} % to {max(accuracies):.1f} %."
        )
    fit = 100 * min(min(outcome.values("train_accuracy")) for outcome in outcomes)
    sentences.append(f"Every network classifies at least {fit:.1f} % of its training images right.")
    return sentences


def _best_calibrated(fixed: Sequence[Outcome]) -> str:
    best = min(fixed, key=lambda outcome: np.mean(outcome.values("ece")))
    name = f"β = {best.configuration.label}"
    error = f"ECE {100 * np.mean(best.values('ece')):.1f} %"
    plain = [outcome for outcome in fixed if outcome.configuration.beta == 1]
    if not plain or plain[0] is best:
        return f"{name} has the lowest calibration error of the fixed β: {error}."
    pairs = list(zip(best.values("ece"), plain[0].values("ece"), strict=True))
    wins = sum(ours < theirs for ours, theirs in pairs)
    of_seeds = f"; it was lower in {wins} of {len(pairs)} seeds" if len(pairs) > 1 else ""
    return (
        f"{name} has the lowest calibration error of the fixed β: {error}, against "
        f"{100 * np.mean(plain[0].values('ece')):.1f} % for cross-entropy (β = 1){of_seeds}."
    )


def _direction(fixed: Sequence[Outcome]) -> str:
    gaps = [100 * float(np.mean(outcome.values("gap"))) for outcome in fixed]
    steady = "rises with every step" if gaps == sorted(gaps) else "moves, not steadily,"
    first, last = (
        f"{abs(gaps[end]):.1f} % {'over' if gaps[end] > 0 else 'under'}-confident "
        f"at β = {fixed[end].configuration.label}"
        for end in (0, -1)
    )
    return (
        f"As β falls, mean confidence minus accuracy {steady}: from {first} to {last}. "
        "Above 0 the network claims to be right more often than it is."
    )


def _held_out(fixed: Sequence[Outcome], outcomes: Sequence[Outcome]) -> list[str]:
    """Return how the two that hold images out compare with the fixed β, if they were run."""
    both = [outcome for outcome in outcomes if outcome.configuration.held_out]
    if len(both) != 2:
        return []
    best = min(fixed, key=lambda outcome: np.mean(outcome.values("nll")))

    def numbers(outcome: Outcome) -> str:
        error, right = (100 * np.mean(outcome.values(name)) for name in ("ece", "accuracy"))
        loss = np.mean(outcome.values("nll"))
        return f"ECE {error:.1f} %, NLL {loss:.3f}, accuracy {right:.1f} %"

    return [
        f"With {100 * both[0].configuration.held_out:.0f} % of the images held out to calibrate "
        f"by, a temperature after β = 1 gives "
        f"{numbers(both[0])}, and the β that calibrates itself {numbers(both[1])}; the fixed β "
        f"with the lowest NLL, {best.configuration.label}, trains on all of them and gives "
        f"{numbers(best)}. But which β that is, only held-out images tell."
    ]


def _table(setting: DemoSetting, outcomes: Sequence[Outcome]) -> Table:
    spread = f"over {setting.num_seeds} seeds" if setting.num_seeds > 1 else "of one seed (no sd)"
    caption = (
        f"Test set, mean ± standard deviation {spread}. ECE: expected calibration error of each "
        "seed's own predictions, 10 right-closed bins. NLL: negative log-likelihood in nats, plain "
        "cross-entropy on the test images. "
        + results.describe_warm_up(setting)
        + " "
        + results.describe_held_out(setting)
    )
    columns = ["β", *(column.heading for column in results.COLUMNS)]
    rows = results.table_rows(outcomes)
    for row, outcome in zip(rows, outcomes, strict=True):
        if outcome.configuration.warm_up_from is not None:
            row[0] += " (warm-up)"
        elif outcome.configuration.fixed and outcome.configuration.beta == 1:
            row[0] += " (cross-entropy)"
    return Table(caption, columns, rows)


def _provenance(
    setting: DemoSetting, outcomes: Sequence[Outcome]
) -> list[Text | Code | Facts | Download]:
    pairing = (
        "Each seed draws its own training images, first weights and order of images; all β share "
        "them. The same command with the same versions gives the same numbers."
    )
    seeds = ", ".join(map(str, setting.seeds))
    facts = [("Setting", results.describe(setting)), ("Seeds", seeds), *results.versions().items()]
    return [
        Text(pairing),
        Code(results.command(setting)),
        Facts(facts),
        Download("results.json", results.to_json(setting, outcomes)),
    ]


# --- figures, each with the caption that goes under it


def looks_of(outcomes: Sequence[Outcome]) -> list[Style]:
    """Return how each configuration looks, the same in all figures."""
    looks = []
    for place, outcome in enumerate(outcomes):
        configuration = outcome.configuration
        label = "β calibrated" if configuration.steered else f"β = {configuration.label}"
        if configuration.warm_up_from is not None:
            looks.append(Style(label, GREEN, ">", "--"))
        elif configuration.held_out:
            tone = OTHERS[0] if configuration.steered else OTHERS[1]
            looks.append(Style(label, tone, "P" if configuration.steered else "X", ":"))
        else:
            tone = beta_tone(outcome.configuration.beta)
            looks.append(Style(label, tone, MARKERS[place % len(MARKERS)]))
    return looks


def spread_figure(drawn: Drawn) -> FigureGroup:
    """Return calibration error and over-confidence, one dot per seed."""
    panels = []
    for metric, title in (
        ("ece", "expected calibration error, %"),
        ("gap", "mean confidence − accuracy, %"),
    ):
        figure = figures.new_figure(5.0, 3.0)
        axes = figure.add_subplot()
        for place, (outcome, look) in enumerate(drawn):
            figures.draw_spread(axes, place, look, [100 * x for x in outcome.values(metric)])
        labels = [outcome.configuration.label for outcome, _ in drawn]
        axes.set_xticks(range(len(labels)), labels, rotation=0 if len(labels) < 9 else 45)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("β")
        axes.set_title(title, loc="left")
        if metric == "ece":
            axes.set_ylim(bottom=0)
        else:
            axes.axhline(0, color=MUTED.light, linewidth=1)
        description = f"Dots: {title}, for each β and seed. The means are in the table."
        panels.append(_svg(figure, f"spread-{metric}", description, drawn))
    caption = (
        "One dot per seed, a bar at their mean. The expected calibration error (ECE, 10 bins) "
        "says how far confidence is from accuracy; the difference of their means says in which "
        "direction: above 0 is over-confident, below 0 under-confident."
    )
    return FigureGroup(panels, caption)


def gradient_figure(drawn: Drawn) -> FigureGroup:
    """Return gradient magnitude over confidence, theory and measurement."""
    figure = figures.new_figure(5.0, 3.7)
    axes = figure.add_subplot()
    p = np.linspace(0, 1, 201)
    count, deviation = 0, 0.0
    for outcome, look in drawn:
        if not outcome.configuration.fixed:
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
    svg = _svg(figure, "gradients", description, drawn)
    caption = (
        "Lines: theory, (1 − p) / (1 + (β − 1) p). Points: gradients measured by autograd on the "
        f"training images in some epochs of this run, thinned evenly over p. Of all {count:,} "
        f"measured, the farthest is {deviation:.0e} from its line. Only fixed β are drawn."
    )
    return FigureGroup([svg], caption)


def curves_figure(drawn: Drawn) -> FigureGroup:
    """Return training loss and test accuracy by epoch."""
    loss, accuracy = figures.new_figure(5.0, 3.7), figures.new_figure(5.0, 3.7)
    loss_axes, accuracy_axes = loss.add_subplot(), accuracy.add_subplot()
    for outcome, look in drawn:
        figures.draw_curves(loss_axes, look, [run.train_loss for run in outcome.runs])
        percent = [[100 * x for x in run.test_accuracy] for run in outcome.runs]
        figures.draw_curves(accuracy_axes, look, percent)
    loss_axes.set_yscale("log")
    loss_axes.set_ylabel("training cross-entropy, nats")
    accuracy_axes.set_ylabel("test accuracy, %")
    last = max(float(np.mean(outcome.values("accuracy"))) for outcome, _ in drawn)
    accuracy_axes.set_ylim(bottom=max(0.0, 100 * last - 18))
    for axes in (loss_axes, accuracy_axes):
        _legend_above(axes)
    first = "Plain cross-entropy on the training images by epoch, for each β, on a log scale."
    second = "Accuracy on the test images by epoch, for each β."
    caption = (
        "Lines: median over seeds; bands: from the lowest to the highest seed. The loss shown is "
        "plain cross-entropy after each epoch, whatever β was trained with. The axis of test "
        "accuracy starts near the end result, not at 0."
    )
    svgs = [_svg(loss, "loss", first, drawn), _svg(accuracy, "accuracy", second, drawn)]
    return FigureGroup(svgs, caption)


def reliability_figure(drawn: Drawn) -> FigureGroup:
    """Return one reliability diagram per configuration, all seeds pooled."""
    panels = []
    for place, (outcome, look) in enumerate(drawn):
        figure = figures.new_figure(3.7, 4.1)
        grid = figure.add_gridspec(2, 1, height_ratios=(3.2, 1))
        axes = figure.add_subplot(grid[0])
        bins = outcome.pooled_bins()
        reliability_diagram(axes, bins, figure.add_subplot(grid[1]), color=look.tone.light)
        error = f"ECE {100 * np.mean(outcome.values('ece')):.1f} %"
        axes.set_title(look.label, loc="left")
        axes.set_title(error, loc="right")
        description = f"Reliability diagram for {look.label}: {error}."
        panels.append(_svg(figure, f"reliability-{place}", description, [(outcome, look)]))
    caption = (
        "Test predictions of all seeds pooled, in 10 bins. Bars: accuracy in the bin, with "
        "Wilson's 95 % interval, which counts every prediction as independent (the same image "
        "recurs in several seeds, so the true interval is somewhat wider). Hatched: the gap from "
        "accuracy to mean confidence. Dashed: perfect calibration. Below: how many predictions "
        "each bin holds; empty bins are not drawn. The ECE written in is the table's, the mean of "
        "the seeds' own: in the pooled bins errors of single seeds partly cancel."
    )
    return FigureGroup(panels, caption, panel_width=290)


def _svg(figure: Figure, name: str, description: str, drawn: Drawn) -> str:
    return figures.to_svg(figure, name, description, [look.tone for _, look in drawn])


def _legend_above(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.3)
