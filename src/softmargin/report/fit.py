"""What ``softmargin fit`` says and shows: the table of candidates, what to do next, the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin.calibration.accumulator import CalibrationMetrics
from softmargin.calibration.result import CalibrationResult
from softmargin.charts.tones import BLUES, INK, Tone
from softmargin.data.columns import listed
from softmargin.estimators.candidates import Candidate
from softmargin.estimators.tables import TableModel, best_by_beta
from softmargin.report.figures import house_style, new_figure, reliability_panel, to_svg
from softmargin.report.page import (
    Bullets,
    Code,
    Download,
    Facts,
    FigureGroup,
    Page,
    Section,
    Table,
    render_page,
)

LEVEL = 0.95
HEADINGS = ["β", "temperature", "NLL", "Brier", "accuracy, %", "weight decay", "epochs"]
LEAD = (
    "Which β suits this table, whether a temperature is needed as well, and how far the "
    "probabilities of the chosen model can be trusted. All numbers are of rows that the models "
    "had not been trained on."
)
AXES = {"nll": "NLL", "brier": "Brier score", "accuracy": "accuracy"}
TONES: dict[str, Tone] = {"none": INK, "temperature": BLUES[0]}
MARKS = {"none": ("o", "as trained"), "temperature": ("s", "with a temperature")}
SMALL_SHIFT = 1.04  # sideways, so that intervals of one β do not hide each other


@dataclass(frozen=True)
class Fitted:
    """A model, what it was fitted on, and how the whole procedure did on held-out rows."""

    model: TableModel
    source: str
    target: str
    rows: int
    held_out: CalibrationResult


def fitted(model: TableModel, y: NDArray[Any], source: str, target: str) -> Fitted:
    """Return a fitted model with the scores of its held-out predictions."""
    proba = model.search.held_out_proba_
    numbers = np.searchsorted(model.classes, y)
    seen = ~np.isnan(proba[:, 0])
    metrics = CalibrationMetrics(len(model.classes), from_logits=False)
    normalised = proba[seen] / proba[seen].sum(1, keepdims=True)
    metrics.update(torch.from_numpy(normalised), torch.from_numpy(numbers[seen]))
    return Fitted(model, source, target, len(y), metrics.compute(LEVEL))


def interval(candidate: Candidate, score: str) -> tuple[float, float]:
    """Return Student's interval of a score over folds, within what is possible."""
    from scipy.stats import t

    folds = len(candidate.by_fold[score])
    mean = candidate.mean[score]
    half = float(t.ppf((1 + LEVEL) / 2, folds - 1)) * candidate.error(score) if folds > 1 else 0.0
    highest = {"nll": np.inf, "brier": 2.0, "accuracy": 1.0}[score]
    return max(0.0, mean - half), min(highest, mean + half)


def rows(found: Fitted) -> list[list[str]]:
    """Return the table: the best candidate of every β, as trained and with a temperature."""
    search = found.model.search
    chosen = search.candidates_[search.best_index_]
    table = []
    for each in best_by_beta(search):
        low, high = interval(each, "nll")
        decay = each.settings.get("weight_decay")
        table.append(
            [
                f"{each.settings['beta']:g}{' ←' if each is chosen else ''}",
                "yes" if each.scaling == "temperature" else "no",
                f"{each.mean['nll']:.4f} [{low:.4f}, {high:.4f}]",
                f"{each.mean['brier']:.4f}",
                f"{100 * each.mean['accuracy']:.2f}",
                "–" if decay is None else f"{decay:g}",
                str(each.epochs),
            ]
        )
    return table


def legend(found: Fitted) -> str:
    """Return an explanation of the table."""
    folds = len(found.model.search.candidates_[0].by_fold["nll"])
    return (
        f"The best of every β over {folds} folds; ← is the choice; in brackets: "
        f"{100 * LEVEL:g} % intervals over folds."
    )


def choice(found: Fitted) -> str:
    """Return one sentence on what was chosen."""
    search = found.model.search
    best = search.best_params_
    if best["scaling"] == "temperature":
        with_it = f"with temperature {search.temperature_:.4g}"
    else:
        with_it = "without a temperature"
    return f"Chosen: β = {best['beta']:g}, {with_it}, {best['epochs']} epochs."


def honest(found: Fitted) -> str:
    """Return one sentence on how the procedure does on rows that it has not seen at all."""
    result = found.held_out
    shown = {}
    for estimate in result.estimates():
        shown[estimate.name] = estimate
    nll, accuracy, ece = (shown[name] for name in ("nll", "accuracy", "ece"))
    return (
        f"On rows that neither training nor choice has seen: NLL {nll.value:.4f} "
        f"[{max(0.0, nll.low or 0):.4f}, {nll.high:.4f}], accuracy {100 * accuracy.value:.2f} %, "
        f"mean confidence {100 * result.mean_confidence:.2f} %, ECE {100 * ece.value:.2f} %."
    )


def left_out(found: Fitted) -> list[str]:
    """Return a sentence for each reason for which columns were not used."""
    reasons: dict[str, list[str]] = {}
    for name, why in found.model.preparation.left_out.items():
        reasons.setdefault(why, []).append(name)
    return [f"Left out, since {why}: {listed(names)}." for why, names in reasons.items()]


def next_step(found: Fitted, folder: str) -> str:
    """Return one line on what to do next."""
    search = found.model.search
    betas = sorted({each.settings["beta"] for each in search.candidates_})
    best = search.best_params_
    unclear = _is_within_chance(found)
    if len(betas) > 1 and not unclear and best["beta"] in (betas[0], betas[-1]):
        further = best["beta"] * (3.0 if best["beta"] == betas[-1] else 1 / 3)
        edge = "largest" if best["beta"] == betas[-1] else "smallest"
        return (
            f"Do this next: fit again with --betas {best['beta']:g},{further:.3g} --overwrite, "
            f"since the {edge} β was the best."
        )
    if _needs_longer(found):
        return (
            f"Do this next: fit again with --epochs {2 * best['epochs']} --overwrite, since the "
            "longest training was the best."
        )
    return f"Do this next: softmargin predict {folder} new-data.csv"


def _needs_longer(found: Fitted) -> bool:
    """Return whether the longest training was the best, by more than one standard error."""
    search = found.model.search
    chosen = search.candidates_[search.best_index_]
    own = [
        each
        for each in search.candidates_
        if each.settings == chosen.settings and each.scaling == chosen.scaling
    ]
    if chosen.epochs < max(each.epochs for each in own):
        return False
    half = [each for each in own if each.epochs <= chosen.epochs / 2]
    gains = [abs(each.mean[search.scoring] - chosen.mean[search.scoring]) for each in half]
    return min(gains, default=0.0) > chosen.error(search.scoring)


def _is_within_chance(found: Fitted) -> bool:
    """Return whether plain cross-entropy is within one standard error of the choice."""
    search = found.model.search
    chosen = search.candidates_[search.best_index_]
    sign = -1 if search.scoring == "accuracy" else 1
    plain = [each for each in search.candidates_ if each.settings["beta"] == 1]
    values = [sign * each.mean[search.scoring] for each in plain]
    limit = sign * chosen.mean[search.scoring] + chosen.error(search.scoring)
    return min(values, default=np.inf) <= limit


def remarks(found: Fitted) -> list[str]:
    """Return what was found, in sentences."""
    beta = found.model.search.best_params_["beta"]
    said = [choice(found)]
    if beta != 1 and _is_within_chance(found):
        said.append("β = 1, cross-entropy, is within one standard error of it.")
    return [*said, honest(found), *left_out(found)]


def as_dict(found: Fitted) -> dict[str, Any]:
    """Return all candidates and held-out scores, ready for JSON."""
    search = found.model.search
    return {
        "source": found.source,
        "target": found.target,
        "rows": found.rows,
        "classes": [str(each) for each in found.model.classes],
        "choice": search.best_params_,
        "temperature": search.temperature_,
        "held_out": found.held_out.as_dict(),
        "candidates": [
            {
                **each.settings,
                "epochs": each.epochs,
                "scaling": each.scaling,
                **each.mean,
                "by_fold": {name: values.tolist() for name, values in each.by_fold.items()},
            }
            for each in search.candidates_
        ],
    }


def fit_page(found: Fitted, command: str, next_line: str) -> str:
    """Return the report as one HTML page."""
    model = found.model
    used = model.preparation
    facts = [
        ("Table", f"{found.source}, {found.rows} rows"),
        ("Target", f"{found.target}: {', '.join(str(each) for each in model.classes[:20])}"),
        ("Columns of numbers", _names(used.numbers)),
        ("Columns of categories", _names(used.words)),
    ]
    said = [*remarks(found), next_line]
    with house_style():
        sections = [
            Section("What was found", [Bullets([each.replace(" %", "\u00a0%") for each in said])]),
            Section("Candidates, and what the choice is worth", [_figures(found)]),
            Section("The numbers", [Table(legend(found), HEADINGS, rows(found))]),
            Section(
                "How this was made",
                [
                    Code(command),
                    Facts(facts),
                    Download("fit.json", json.dumps(as_dict(found), indent=1)),
                ],
            ),
        ]
    return render_page(Page(f"Which β for {found.target}?", LEAD, sections, TONES.values()))


def _figures(found: Fitted) -> FigureGroup:
    caption = (
        f"Curves: the best candidate of every β, with {100 * LEVEL:g} % intervals over folds. "
        "Bars, of predictions for each fold by what would have been chosen and trained without it: "
        "accuracy in each bin of confidence, with its 95 % interval; hatched: the gap to mean "
        "confidence; dashed: perfect calibration. Below: how many rows each bin holds."
    )
    return FigureGroup([_candidates(found), _reliability(found)], caption, 330)


def _names(names: list[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return (", ".join(names[:20]) + more) or "none"


def _candidates(found: Fitted) -> str:
    search = found.model.search
    best = best_by_beta(search)
    figure = new_figure(4.6, 4.4)
    axes = figure.subplots()
    for place, (scaling, (marker, label)) in enumerate(MARKS.items()):
        own = [each for each in best if each.scaling == scaling]
        if not own:
            continue
        tone = TONES[scaling].light
        betas = [each.settings["beta"] * SMALL_SHIFT ** (2 * place - 1) for each in own]
        means = [each.mean[search.scoring] for each in own]
        ends = np.array([interval(each, search.scoring) for each in own])
        axes.vlines(betas, ends[:, 0], ends[:, 1], color=tone, linewidth=1.4)
        axes.plot(betas, means, color=tone, marker=marker, markersize=5, label=label)
    axes.set_xscale("log")
    ticks = sorted({each.settings["beta"] for each in best})
    axes.set_xticks(ticks, [f"{beta:g}" for beta in ticks])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="β", ylabel=f"{AXES[search.scoring]} by cross-validation")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    text = f"{AXES[search.scoring]} by β, as trained and with a temperature."
    return to_svg(figure, "candidates", text, TONES.values())


def _reliability(found: Fitted) -> str:
    text = f"Reliability diagram of held-out rows: ECE {100 * found.held_out.ece:.2f} %."
    return reliability_panel(
        "reliability", found.held_out.bins, TONES["temperature"], text, width=4.6
    )
