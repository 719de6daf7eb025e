"""The page that ``softmargin calibrate`` writes."""

from __future__ import annotations

import json
import math
from typing import Any

from softmargin.calibration.audit import Audit
from softmargin.calibration.result import IN_PERCENT, CalibrationResult
from softmargin.calibration.scaling import Calibrator, TemperatureScaling
from softmargin.charts.tones import BLUES, GREEN, INK, Tone
from softmargin.report.figures import RELIABILITY, house_style, reliability_panel
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

TITLES = {"given": "as given", "temperature": "temperature scaling", "vector": "vector scaling"}
TONES: dict[str, Tone] = {"given": INK, "temperature": BLUES[0], "vector": GREEN}
LEAD = (
    "How confident the predictions are, and how often they are right. Every number after scaling "
    "comes from calibrators that were fitted without the rows they scale."
)
BIAS = (
    "ECE and MCE are biased upwards: noise in the bins looks like miscalibration, especially with "
    "few predictions per bin. Their intervals cover the error that infinite data would show, so "
    "they reach further down than up. The debiased error corrects for the noise."
)


def results(audit: Audit) -> dict[str, CalibrationResult]:
    """Return the results by name, the predictions as given first."""
    return {"given": audit.given, **audit.scaled}


def best(audit: Audit) -> str:
    """Return the method with the lowest NLL on held-out folds."""
    return min(audit.scaled, key=lambda name: audit.scaled[name].nll)


def size(audit: Audit) -> str:
    """Return how many predictions there are, and of how many classes."""
    count = f"{audit.given.samples} predictions"
    return f"{count}, {audit.num_classes} classes" if audit.num_classes else count


def verdict(result: CalibrationResult) -> str:
    """Return one sentence on whether predictions are over- or under-confident."""
    low, high = result.intervals.get("overconfidence", (math.nan, math.nan))
    gap = result.overconfidence
    direction = "Over" if gap > 0 else "Under"
    if gap < 0:  # "under-confident by" has the opposite sign
        low, high = -high, -low
    sentence = (
        f"{direction}-confident by {shown(abs(gap), low, high, True)}: mean confidence "
        f"{_percent(result.mean_confidence)}, accuracy {_percent(result.accuracy)}."
    )
    if low <= 0 <= high:
        sentence += " The interval includes 0: the difference may be chance."
    return sentence


def rows(audit: Audit) -> list[list[str]]:
    """Return the table: one row per metric, one column per result, with intervals."""
    columns = [list(result.estimates()) for result in results(audit).values()]
    table = []
    for estimates in zip(*columns, strict=True):
        percent = estimates[0].name in IN_PERCENT
        cells = [shown(e.value, e.low, e.high, percent) for e in estimates]
        table.append([estimates[0].label, *cells])
    return table


def _percent(value: float) -> str:
    return shown(value, None, None, True)


def shown(value: float, low: float | None, high: float | None, percent: bool) -> str:
    """Return a number with its interval, in percent if it is a share."""

    def plain(number: float) -> str:
        text = f"{100 * number:.2f}" if percent else f"{number:.4f}"
        return text.lstrip("-") if not text.strip("-0.") else text

    sign = " %" if percent else ""
    if low is None or high is None or math.isnan(low):
        return plain(value) + sign
    return f"{plain(value)}{sign} [{plain(low)}, {plain(high)}]"


def legend(audit: Audit) -> str:
    """Return an explanation of the brackets and columns of the table."""
    sentence = f"In brackets: {100 * (audit.given.confidence_level or 0):g} % intervals."
    if audit.scaled:
        sentence += f" Scaled columns: {audit.folds} held-out folds."
    return sentence


def describe(calibrator: Calibrator) -> str:
    """Return a calibrator's numbers in a few words."""
    if isinstance(calibrator, TemperatureScaling):
        return f"T = {calibrator.temperature.item():.6g}"
    return f"{calibrator.num_classes} scales and biases"


def as_dict(audit: Audit) -> dict[str, Any]:
    """Return everything that was found, ready for JSON."""
    return {
        "source": audit.source,
        "samples": audit.given.samples,
        "classes": audit.num_classes,
        "folds": audit.folds,
        "results": {name: result.as_dict() for name, result in results(audit).items()},
        "calibrators": {
            method: {name: getattr(each, name).tolist() for name in each.numbers}
            for method, each in audit.calibrators.items()
        },
        "notes": audit.notes,
    }


def calibration_page(audit: Audit, command: str) -> str:
    """Return the report as one HTML page."""
    facts = [("Predictions", audit.source), ("Size", size(audit))]
    found = [verdict(audit.given), *audit.notes["given"]]
    for name, result in audit.scaled.items():
        found.append(
            f"After {TITLES[name]} ({describe(audit.calibrators[name])}): ECE "
            f"{_percent(audit.given.ece)} → {_percent(result.ece)}, NLL {audit.given.nll:.4f} "
            f"→ {result.nll:.4f}."
        )
        found += audit.notes[name]
    columns = ["", *(TITLES[name] for name in results(audit))]
    with house_style():
        sections = [
            Section("What was found", [Bullets(found)]),
            Section("Confidence against accuracy", [_diagrams(audit)]),
            Section("The numbers", [Table(legend(audit), columns, rows(audit)), Text(BIAS)]),
            Section(
                "How this was made",
                [
                    Code(command),
                    Facts(facts),
                    Download("calibration.json", json.dumps(as_dict(audit), indent=1)),
                ],
            ),
        ]
    page = Page("How calibrated are these predictions?", LEAD, sections, TONES.values())
    return render_page(page)


def _diagrams(audit: Audit) -> FigureGroup:
    panels = []
    for name, result in results(audit).items():
        title = TITLES[name]
        description = f"Reliability diagram, {title}: ECE {_percent(result.ece)}."
        panels.append(reliability_panel(name, result.bins, TONES[name], description, title=title))
    return FigureGroup(panels, RELIABILITY, 300)
