"""The demo's page: what was found, in words taken from the numbers, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from softmargin._files import write_file
from softmargin.demo import results
from softmargin.demo.figures import (
    curves_figure,
    gradient_figure,
    looks_of,
    reliability_figure,
    spread_figure,
)
from softmargin.demo.run import DemoSetting, Outcome
from softmargin.report.figures import house_style
from softmargin.report.page import (
    Bullets,
    Code,
    Download,
    Facts,
    Page,
    Section,
    Table,
    Text,
    render_page,
)

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
    looks = looks_of(outcomes)
    with house_style():
        sections = [
            Section(
                "What was found",
                [Bullets(findings(outcomes)), Text(CHOSEN), spread_figure(outcomes, looks)],
            ),
            Section("The numbers", [_table(setting, outcomes)]),
            Section(
                "Why: how fast the gradient fades", [Text(WHY), gradient_figure(outcomes, looks)]
            ),
            Section("How training went", [curves_figure(outcomes, looks)]),
            Section("Confidence against accuracy", [reliability_figure(outcomes, looks)]),
            Section("How this was made", _provenance(setting, outcomes)),
        ]
    return render_page(Page(TITLE, LEAD, sections, [look.tone for look in looks]))


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
    fixed = [outcome for outcome in outcomes if outcome.configuration.warm_up_from is None]
    fixed.sort(key=lambda outcome: -outcome.configuration.beta)
    sentences = [_best_calibrated(fixed)]
    if len(fixed) > 1:
        sentences.append(_direction(fixed))
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
    ends = [
        f"{abs(gap):.1f} % {'over' if gap > 0 else 'under'}-confident at β = {label}"
        for gap, label in zip(
            (gaps[0], gaps[-1]),
            (fixed[0].configuration.label, fixed[-1].configuration.label),
            strict=True,
        )
    ]
    return (
        f"As β falls, mean confidence minus accuracy {steady}: from {ends[0]} to {ends[1]}. "
        "Above 0 the network claims to be right more often than it is."
    )


def _table(setting: DemoSetting, outcomes: Sequence[Outcome]) -> Table:
    spread = f"over {setting.num_seeds} seeds" if setting.num_seeds > 1 else "of one seed (no sd)"
    caption = (
        f"Test set, mean ± standard deviation {spread}. ECE: expected calibration error of each "
        "seed's own predictions, 10 right-closed bins. NLL: negative log-likelihood in nats, plain "
        "cross-entropy on the test images. " + results.describe_warm_up(setting)
    )
    columns = ["β", *(column.heading for column in results.COLUMNS)]
    rows = results.table_rows(outcomes)
    for row, outcome in zip(rows, outcomes, strict=True):
        if outcome.configuration.warm_up_from is not None:
            row[0] += " (warm-up)"
        elif outcome.configuration.beta == 1:
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
