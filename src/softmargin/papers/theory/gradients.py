"""GD's Figures 2 and 7: how the gradient of a sample fades as it becomes confident."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from softmargin import functional, theory
from softmargin.charts import Chart
from softmargin.papers.core import Finished, Scope
from softmargin.papers.outcome import Entry, Finding, Outcome, ResultTable
from softmargin.papers.theory.checks import Floats, agree, crossing, curve, verdict_of

BETAS = (10.0, 5.0, 2.0, 1.0, 0.5, 0.1, 0.01, 0.001)  # falling: the gradient rises
CLASSES = 10
AUTOGRAD = "every curve agrees with the gradient of the library's loss by autograd"
SETUP = {"data": "none: theory", "classes": str(CLASSES), "precision": "float64"}
Y_LABEL = "G = −∂J/∂z, gradient of the target's logit"


def by_confidence(setting: Scope, finished: Finished) -> Outcome:
    """Conclude gd-fig2: gradient magnitude against the target's probability."""
    betas, p = np.array(BETAS), np.linspace(0, 1, 201)
    curves = np.stack([theory.gradient_magnitude(p, beta) for beta in BETAS])
    measured = -gradients(logits_of_confidence(p[1:-1]))[..., 0]
    halves = crossing(lambda x: theory.gradient_magnitude(x, betas), 0 * betas, 0 * betas + 1)
    bends = np.diff(curves, 2, axis=1)
    convex = bool((bends[betas > 1] > 0).all() and (bends[betas < 1] < 0).all())
    checks = [
        agree(AUTOGRAD, (measured, curves[:, 1:-1])),
        _falls(curves),
        Finding("it goes from 1 at p = 0 to 0 at p = 1", _has_ends(curves, 1.0, 0.0)),
        _ordered(curves[:, 1:-1]),
        agree("half of it is left at p = 1/(1 + β)", (halves, 1 / (1 + betas))),
        Finding("curves are convex for β > 1 and concave for β < 1", convex),
    ]
    # a small β lets go so late that an even grid would cut the corner off
    drawn = np.concatenate([np.linspace(0, 0.95, 96), 1 - np.geomspace(0.05, 1e-4, 50)[1:], [1.0]])
    chart = Chart(
        "gradient-by-confidence",
        "Gradient magnitude against confidence",
        "line",
        "p, probability of the target class",
        Y_LABEL,
        [curve(f"β = {b:g}", drawn, theory.gradient_magnitude(drawn, b), b) for b in BETAS],
        note="Theory: G = (1 − p) / (1 + (β − 1) p). β = 1 is cross-entropy.",
    )
    notes = [
        "The paper calls the curves of β > 1 concave and those of β < 1 convex; in the usual sense "
        "of the words it is the other way round."
    ]
    table = _half_table("p", halves, 1 / (1 + betas))
    return Outcome(verdict_of(checks), [table], [chart], notes, SETUP)


def by_logit(setting: Scope, finished: Finished) -> Outcome:
    """Conclude gd-fig7: gradient magnitude and confidence against the target's logit."""
    betas, z = np.array(BETAS), np.linspace(0, 12, 241)
    curves = np.stack([theory.gradient_magnitude_path(z, beta, CLASSES) for beta in BETAS])
    confidence = theory.confidence_path(z, CLASSES)
    logits = logits_of_path(z)
    measured = gradients(logits)
    pull, others = -measured[..., 0], measured[..., 1:]
    halves = crossing(
        lambda x: theory.gradient_magnitude_path(x, betas, CLASSES), 0 * betas - 9, 0 * betas + 20
    )
    expected = (math.log(CLASSES - 1) - np.log(betas)) * (CLASSES - 1) / CLASSES
    checks = [
        agree(AUTOGRAD, (pull, curves)),
        agree("confidence agrees with the softmax", (confidence, logits.softmax(1)[:, 0].numpy())),
        agree(
            "the other classes share the opposite gradient equally, so that training stays on this "
            "path",
            (others, np.broadcast_to(pull[..., None] / (CLASSES - 1), others.shape)),
        ),
        _falls(curves),
        _ordered(curves),
        agree(
            "G = 1/2, where it falls fastest, lies at p = 1/(1 + β)",
            (theory.confidence_path(halves, CLASSES), 1 / (1 + betas)),
            (halves, expected),
        ),
        Finding("that point is at a larger z the smaller β is", bool((np.diff(halves) > 0).all())),
    ]
    charts = _path_charts(z, curves, confidence)
    return Outcome(verdict_of(checks), [_half_table("z", halves, expected)], charts, (), SETUP)


def gradients(logits: Tensor) -> Floats:
    """Return the gradients of the library's loss in all logits, for every β; class 0 is right."""
    target = torch.zeros(len(logits), dtype=torch.long)
    found = []
    for beta in BETAS:
        leaf = logits.detach().clone().requires_grad_()
        loss = functional.gradient_decay_loss(leaf, target, beta=beta, reduction="sum")
        found.append(torch.autograd.grad(loss, leaf)[0].numpy())
    return np.stack(found)


def logits_of_confidence(p: Floats) -> Tensor:
    """Return logits whose class 0 has these probabilities, the others level."""
    first = torch.from_numpy(p).logit() + math.log(CLASSES - 1)
    return torch.cat([first[:, None], first.new_zeros(len(p), CLASSES - 1)], 1)


def logits_of_path(z: Floats) -> Tensor:
    """Return logits that add up to 0, with z for class 0 and the others level."""
    first = torch.from_numpy(z)[:, None]
    return torch.cat([first, (-first / (CLASSES - 1)).expand(-1, CLASSES - 1)], 1)


def _falls(curves: Floats) -> Finding:
    return Finding("every curve falls", bool((np.diff(curves, axis=1) < 0).all()))


def _ordered(curves: Floats) -> Finding:
    says = "a smaller β leaves more gradient everywhere between"
    return Finding(says, bool((np.diff(curves, axis=0) > 0).all()))


def _has_ends(curves: Floats, first: float, last: float) -> bool:
    return bool((curves[:, 0] == first).all() and (curves[:, -1] == last).all())


def _path_charts(z: Floats, curves: Floats, confidence: Floats) -> list[Chart]:
    x_label = "z, the target's logit; each other logit is −z/9"
    note = "Theory, for 10 classes of which all but the target are level; training begins at z = 0."
    return [
        Chart(
            "gradient-by-logit",
            "Gradient magnitude as the target's logit grows",
            "line",
            x_label,
            Y_LABEL,
            [curve(f"β = {b:g}", z, y, b) for b, y in zip(BETAS, curves, strict=True)],
            note=note,
        ),
        Chart(
            "confidence-by-logit",
            "Confidence as the target's logit grows",
            "line",
            x_label,
            "p, probability of the target class",
            [curve("every β", z, confidence)],
            note=note,
        ),
    ]


def _half_table(name: str, found: Floats, expected: Sequence[float] | Floats) -> ResultTable:
    column = f"{name} where G = 1/2"
    entries = [
        Entry(f"{beta:g}", column, (float(ours),), float(paper))
        for beta, ours, paper in zip(BETAS, found, expected, strict=True)
    ]
    note = "Ours by bisection; the paper's follows from its inflection point, p = 1/(1 + β)."
    return ResultTable("Where half of the gradient is left", "", entries, 4, "β", note=note)
