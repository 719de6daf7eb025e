"""GD's Figures 2 and 7 and LM's Figures 1 and 4: curves, and what they are checked by.

How the gradient of a sample fades as it becomes confident; softmax as a loss with a margin; three
ways to level its logits. Checks are conditions by what they say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from softmargin import functional, theory
from softmargin.charts import Chart, Series
from softmargin.papers.core import Finished, Scope
from softmargin.papers.findings import Floats
from softmargin.papers.outcome import Entry, Finding, Outcome, ResultTable, Verdict
from softmargin.papers.theory import BETAS, BIAS_CLASSES, CLASSES, DIVERGENCES, LEVEL_CLASSES

TOLERANCE = 1e-9
HINGE_BIAS = 1.0
NAMED_BETAS = {f"β = {beta:g}": beta for beta in BETAS}
SETUP = {"data": "none: theory", "precision": "float64"}
GRADIENT_SETUP = {**SETUP, "classes": str(CLASSES)}
GRADIENT = "G = −∂J/∂z, gradient of the target's logit"
CONFIDENCE = "p, probability of the target class"
AUTOGRAD = "every curve agrees with the gradient of the library's loss by autograd"
FALLS = "every curve falls"
ORDERED = "a smaller β leaves more gradient everywhere between"


def verdict_of(checks: Mapping[str, ArrayLike]) -> Verdict:
    """Return "shown" where every check is met: a figure of theory has nothing else to test.

    Example:
        >>> verdict_of({"a rises": True, "b falls": [True, False]}).word
        'does not hold'
    """
    findings = tuple(Finding(says, bool(np.all(met))) for says, met in checks.items())
    word = "shown" if all(each.agrees for each in findings) else "does not hold"
    return Verdict(word, findings, "Checked numerically, equalities to 1e-9.")


def equal(a: ArrayLike, b: ArrayLike) -> bool:
    """Return whether arrays are equal within the tolerance; what is not finite equals nothing."""
    return bool(np.all(np.abs(np.asarray(a) - np.asarray(b)) <= TOLERANCE))


def crossing(
    falling: Callable[[Floats], Floats], low: float, high: float, value: float = 0.5
) -> Floats:
    """Return where falling functions, one per place, have a value, by bisection.

    Example:
        >>> crossing(lambda x: np.array([1, 2]) - x, 0, 2, value=0.25).round(9)
        array([0.75, 1.75])
    """
    left, right = np.array(low, np.float64), np.array(high, np.float64)
    for _ in range(64):
        middle = (left + right) / 2
        above = falling(middle) > value
        left, right = np.where(above, middle, left), np.where(above, right, middle)
    return (left + right) / 2


def library(function: Callable[..., Tensor], *logits: ArrayLike, **options: Any) -> Floats:
    """Return a function of the library by sample, of logits by class; class 0 is the target.

    Example:
        >>> library(functional.embedded_bias, 0.0, np.zeros(2), 0.0).round(4)
        array([0.6931, 0.6931])
    """
    values: Floats = function(*_sample(logits), **options).numpy()
    return values


def gradients(*logits: ArrayLike) -> Floats:
    """Return the gradients of the library's loss by β, sample and class, of logits by class."""
    leaf, target = _sample(logits)
    leaf.requires_grad_()
    losses = [
        functional.gradient_decay_loss(leaf, target, beta=beta, reduction="sum") for beta in BETAS
    ]
    return np.stack([torch.autograd.grad(loss, leaf)[0].numpy() for loss in losses])


def _sample(logits: Sequence[ArrayLike]) -> tuple[Tensor, Tensor]:
    """Return logits by sample and class, and targets of class 0."""
    columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(each, np.float64)) for each in logits))
    stacked = torch.from_numpy(np.stack(columns, 1))
    return stacked, torch.zeros(len(stacked), dtype=torch.long)


def draw(
    name: str,
    title: str,
    labels: tuple[str, str],
    x: Floats,
    curves: Mapping[str, Floats],
    note: str,
) -> Chart:
    """Return a chart of curves over the same places."""
    series = [
        Series(each, x.tolist(), y.tolist(), beta=NAMED_BETAS.get(each))
        for each, y in curves.items()
    ]
    return Chart(name, title, "line", *labels, series, note=note)


# --- GD: gradients


def by_confidence(scope: Scope, finished: Finished) -> Outcome:
    """Conclude gd-fig2: gradient magnitude against the target's probability."""
    betas, p = np.array(BETAS), np.linspace(0, 1, 201)
    curves = theory.gradient_magnitude(p, betas[:, None])
    inner, between = p[1:-1], curves[:, 1:-1]
    halves = crossing(lambda x: theory.gradient_magnitude(x, betas), 0, 1)
    own = np.log(inner) - np.log1p(-inner) + math.log(CLASSES - 1)
    bends = np.diff(curves, 2)
    checks = {
        AUTOGRAD: equal(-gradients(own, *[0.0] * (CLASSES - 1))[..., 0], between),
        FALLS: np.diff(curves) < 0,
        "it goes from 1 at p = 0 to 0 at p = 1": curves[:, [0, -1]] == [1, 0],
        ORDERED: np.diff(between, axis=0) > 0,
        "half of it is left at p = 1/(1 + β)": equal(halves, 1 / (1 + betas)),
        "curves are convex for β > 1 and concave for β < 1": (bends[betas > 1] > 0).all()
        and (bends[betas < 1] < 0).all(),
    }
    # a small β lets go so late that an even grid would cut the corner off
    drawn = np.concatenate([np.linspace(0, 0.95, 96), 1 - np.geomspace(0.05, 1e-4, 50)[1:], [1.0]])
    chart = draw(
        "gradient-by-confidence",
        "Gradient magnitude against confidence",
        (CONFIDENCE, GRADIENT),
        drawn,
        {name: theory.gradient_magnitude(drawn, beta) for name, beta in NAMED_BETAS.items()},
        "Theory: G = (1 − p) / (1 + (β − 1) p). β = 1 is cross-entropy.",
    )
    notes = [
        "The paper calls the curves of β > 1 concave and those of β < 1 convex; in the usual sense "
        "of the words it is the other way round."
    ]
    table = half_table("p", halves, 1 / (1 + betas))
    return Outcome(verdict_of(checks), [table], [chart], notes, GRADIENT_SETUP)


def by_logit(scope: Scope, finished: Finished) -> Outcome:
    """Conclude gd-fig7: gradient magnitude and confidence against the target's logit."""
    betas, z, wrong = np.array(BETAS), np.linspace(0, 12, 241), CLASSES - 1
    curves = theory.gradient_magnitude_path(z, betas[:, None], CLASSES)
    confidence = theory.confidence_path(z, CLASSES)
    logits = [z, *[-z / wrong] * wrong]
    measured, softmax = gradients(*logits), library(lambda z, _: z.softmax(1), *logits)
    pull = -measured[..., 0]
    halves = crossing(lambda x: theory.gradient_magnitude_path(x, betas, CLASSES), -9, 20)
    expected = (math.log(wrong) - np.log(betas)) * wrong / CLASSES
    checks = {
        AUTOGRAD: equal(pull, curves),
        "confidence agrees with the softmax": equal(confidence, softmax[:, 0]),
        "the other classes share the opposite gradient equally, so that training stays on this "
        "path": equal(measured[..., 1:], pull[..., None] / wrong),
        FALLS: np.diff(curves) < 0,
        ORDERED: np.diff(curves, axis=0) > 0,
        "G = 1/2, where it falls fastest, lies at p = 1/(1 + β)": equal(halves, expected)
        and equal(theory.confidence_path(halves, CLASSES), 1 / (1 + betas)),
        "that point is at a larger z the smaller β is": np.diff(halves) > 0,
    }
    x_label = "z, the target's logit; each other logit is −z/9"
    note = "Theory, for 10 classes of which all but the target are level; training begins at z = 0."
    charts = [
        draw(
            "gradient-by-logit",
            "Gradient magnitude as the target's logit grows",
            (x_label, GRADIENT),
            z,
            dict(zip(NAMED_BETAS, curves, strict=True)),
            note,
        ),
        draw(
            "confidence-by-logit",
            "Confidence as the target's logit grows",
            (x_label, CONFIDENCE),
            z,
            {"every β": confidence},
            note,
        ),
    ]
    table = half_table("z", halves, expected)
    return Outcome(verdict_of(checks), [table], charts, (), GRADIENT_SETUP)


def half_table(name: str, found: Floats, expected: Floats) -> ResultTable:
    """Return where half of the gradient is left, by β."""
    entries = [
        Entry(f"{beta:g}", f"{name} where G = 1/2", (float(ours),), float(paper))
        for beta, ours, paper in zip(BETAS, found, expected, strict=True)
    ]
    note = "Ours by bisection; the paper's follows from its inflection point, p = 1/(1 + β)."
    return ResultTable("Where half of the gradient is left", "", entries, 4, "β", note=note)


# --- LM: margins


def hinge_and_softplus(scope: Scope, finished: Finished) -> Outcome:
    """Conclude lm-fig1: both losses of a biased margin, and the biases that they come with."""
    xi, lead = np.linspace(-5, 5, 201), np.linspace(0, 8, 161)
    losses = {"hinge, max(0, ξ)": theory.hinge(xi), "softplus, log(1 + exp ξ)": theory.softplus(xi)}
    biased = {"hinge, ρ = 1": theory.hinge(xi + HINGE_BIAS)}
    measured = [level_loss(functional.max_hinge_loss, xi, 10, margin=HINGE_BIAS)]
    for classes in LEVEL_CLASSES:
        biased[f"softmax, {classes} classes"] = theory.softplus(xi + math.log(classes - 1))
        measured.append(level_loss(functional.gradient_decay_loss, xi, classes, beta=1.0))
    biases = np.stack([embedded_bias(lead, classes) for classes in BIAS_CLASSES])
    bounds = [theory.embedded_bias_bound(classes) for classes in BIAS_CLASSES]
    hinge, softplus = losses.values()
    gap = softplus - hinge
    reach = {
        classes: crossing(partial(embedded_bias, classes=classes), 0, 9, HINGE_BIAS).item()
        for classes in BIAS_CLASSES[1:]
    }
    expected = [math.log((classes - 2) / math.expm1(HINGE_BIAS)) for classes in reach]
    checks = {
        "the curves agree with the library's hinge and cross-entropy of logits": equal(
            list(biased.values()), measured
        ),
        "softplus is above the hinge, most at ξ = 0, and there by log 2": (gap > 0).all()
        and gap.argmax() == 100
        and math.isclose(gap[100], math.log(2)),
        "softplus pulls everywhere, the hinge only above 0": _pulls(xi),
        "ρ̂ is log(C − 1) where all wrong classes are level": equal(biases[:, 0], bounds),
        "ρ̂ falls towards 0 as one of them takes the lead": (np.diff(biases) < 0).all()
        and (biases > 0).all(),
        "ρ̂ is the hinge's 1 at a lead of log((C − 2)/(e − 1))": equal(
            list(reach.values()), expected
        ),
        "with 3 classes ρ̂ is never 1": biases[0] < HINGE_BIAS,
    }
    entries = [
        Entry(str(classes), "lead of the best wrong class", (found,))
        for classes, found in reach.items()
    ]
    table = ResultTable("Where softmax's bias is the hinge's 1", "logit", entries, 4, "classes")
    charts = margin_charts(xi, losses, biased, lead, biases)
    return Outcome(verdict_of(checks), [table], charts, (), SETUP)


def margin_charts(
    xi: Floats,
    losses: Mapping[str, Floats],
    biased: Mapping[str, Floats],
    lead: Floats,
    biases: Floats,
) -> list[Chart]:
    """Draw the losses of a biased margin, those with their biases, and the biases."""
    contained = draw(
        "embedded-bias",
        "The bias that softmax contains, against the hinge's",
        ("lead of the best wrong class over the other wrong ones (logits)", "bias ρ̂ (logits)"),
        lead,
        {f"softmax, {c} classes": own for c, own in zip(BIAS_CLASSES, biases, strict=True)},
        "Theory. The other wrong classes are level.",
    )
    constant = Series("hinge, ρ = 1", [lead[0], lead[-1]], [HINGE_BIAS] * 2, dashed=True)
    return [
        draw(
            "losses",
            "Hinge and softplus of a biased margin",
            ("ξ, biased margin (logits)", "loss"),
            xi,
            losses,
            "Theory. ξ = best wrong logit − target's logit + bias.",
        ),
        draw(
            "losses-with-bias",
            "Both losses with the biases that they come with",
            ("best wrong logit − target's logit", "loss"),
            xi,
            biased,
            "Theory. Softmax with all wrong classes level, where its bias is largest: log(C − 1).",
        ),
        replace(contained, series=[*contained.series, constant]),
    ]


def level_loss(loss: Callable[..., Tensor], xi: Floats, classes: int, **options: float) -> Floats:
    """Return a loss of the library where the wrong classes, all level, lead by ξ."""
    return library(loss, -xi, *[0.0] * (classes - 1), reduction="none", **options)


def embedded_bias(lead: Floats, classes: int) -> Floats:
    """Return ρ̂ where one wrong class leads the other ones, which are level."""
    return library(functional.embedded_bias, 0.0, 0.0, *[-lead] * (classes - 2))


def _pulls(xi: Floats) -> bool:
    """Whether softplus has a gradient everywhere and the hinge only above 0, by autograd."""
    leaf = torch.from_numpy(xi).clone().requires_grad_()
    (soft,) = torch.autograd.grad(theory.softplus(leaf).sum(), leaf)
    (hard,) = torch.autograd.grad(theory.hinge(leaf).sum(), leaf)
    return bool((soft > 0).all() and ((hard > 0) == (leaf > 0)).all())


def divergences(scope: Scope, finished: Finished) -> Outcome:
    """Conclude lm-fig4: three divergences of two categories from level."""
    q, small = np.linspace(0.005, 0.995, 199), np.array([1e-3, 1e-6, 1e-12, 1e-100])
    kinds, middle = DIVERGENCES.values(), len(q) // 2
    curves = np.stack([theory.two_category_divergence(q, kind) for kind in kinds])
    logits = 0.0, np.log(q), np.log1p(-q)
    measured = [library(functional.logit_divergence, *logits, divergence=kind) for kind in kinds]
    to_softmax, symmetric, to_uniform = curves
    far_to_softmax, _, far_to_uniform = (theory.two_category_divergence(small, k) for k in kinds)
    slopes = np.abs(np.diff(curves))
    checks = {
        "the curves agree with the library's divergence of three logits": equal(curves, measured),
        "all are 0 at q = 1/2": equal(curves[:, middle], 0.0),
        "they are the same for q and 1 − q": equal(curves, curves[:, ::-1]),
        "they rise on both sides of 1/2": np.diff(curves[:, : middle + 1]) < 0,
        "the symmetric one is the mean": equal(symmetric, (to_softmax + to_uniform) / 2),
        "D(u‖q) is above D(q‖u)": np.delete(to_softmax > to_uniform, middle),
        "it is nowhere less steep": slopes[0] >= slopes[2] - 1e-12,
        "D(q‖u) stays below log 2, D(u‖q) has no bound": (far_to_uniform <= math.log(2)).all()
        and (np.diff(far_to_softmax) > 0.4 * -np.diff(np.log(small))).all(),
    }
    chart = draw(
        "divergences",
        "How far two categories are from level, by three divergences",
        ("q, share of the first of two categories", "divergence (nats)"),
        q,
        dict(zip(DIVERGENCES, curves, strict=True)),
        "Theory. u is the uniform distribution, q the softmax over the wrong classes.",
    )
    return Outcome(verdict_of(checks), (), [chart], (), SETUP)
