"""LM's Figures 1 and 4: softmax as a loss with a margin, and three ways to level its logits."""

from __future__ import annotations

import math

import numpy as np
import torch

from softmargin import functional, theory
from softmargin.charts import Chart, Series
from softmargin.papers.core import Finished, Scope
from softmargin.papers.outcome import Entry, Finding, Outcome, ResultTable
from softmargin.papers.theory.checks import Floats, agree, crossing, curve, verdict_of

LEVEL_CLASSES = (2, 10, 100)
BIAS_CLASSES = (3, 10, 100)
HINGE_BIAS = 1.0
DIVERGENCES = {
    "D(u‖q), uniform to softmax": "uniform_to_logits",
    "symmetric, their mean": "symmetric",
    "D(q‖u), softmax to uniform": "logits_to_uniform",
}
SETUP = {"data": "none: theory", "precision": "float64"}


def hinge_and_softplus(setting: Scope, finished: Finished) -> Outcome:
    """Conclude lm-fig1: both losses of a biased margin, and the biases that they come with."""
    xi, lead = np.linspace(-5, 5, 201), np.linspace(0, 8, 161)
    hinge, softplus = theory.hinge(xi), theory.softplus(xi)
    biased = {classes: theory.softplus(xi + math.log(classes - 1)) for classes in LEVEL_CLASSES}
    biases = np.stack([embedded_biases(lead, classes) for classes in BIAS_CLASSES])
    bounds = np.array([theory.embedded_bias_bound(classes) for classes in BIAS_CLASSES])
    reach, expected = _where_biases_meet()
    gap = softplus - hinge
    losses = [(biased[c], library_losses(xi, c)[1]) for c in LEVEL_CLASSES]
    losses.append((theory.hinge(xi + HINGE_BIAS), library_losses(xi, 10)[0]))
    checks = [
        agree("the curves agree with the library's hinge and cross-entropy of logits", *losses),
        Finding(
            "softplus is above the hinge, most at ξ = 0, and there by log 2",
            bool((gap > 0).all() and gap.argmax() == 100 and math.isclose(gap[100], math.log(2))),
        ),
        Finding("softplus pulls everywhere, the hinge only above 0", _pulls(xi)),
        agree("ρ̂ is log(C − 1) where all wrong classes are level", (biases[:, 0], bounds)),
        Finding(
            "ρ̂ falls towards 0 as one of them takes the lead",
            bool((np.diff(biases, axis=1) < 0).all() and (biases > 0).all()),
        ),
        agree("ρ̂ is the hinge's 1 at a lead of log((C − 2)/(e − 1))", (reach, expected)),
        Finding("with 3 classes ρ̂ is never 1", bool(biases[0].max() < HINGE_BIAS)),
    ]
    entries = [
        Entry(str(classes), "lead of the best wrong class", (float(found),))
        for classes, found in zip(BIAS_CLASSES[1:], reach, strict=True)
    ]
    table = ResultTable("Where softmax's bias is the hinge's 1", "logit", entries, 4, "classes")
    charts = [
        _loss_chart(xi, hinge, softplus),
        _biased_chart(xi, biased),
        _bias_chart(lead, biases),
    ]
    return Outcome(verdict_of(checks), [table], charts, (), SETUP)


def divergences(setting: Scope, finished: Finished) -> Outcome:
    """Conclude lm-fig4: three divergences of two categories from level."""
    q = np.linspace(0.005, 0.995, 199)
    curves = {name: theory.two_category_divergence(q, kind) for name, kind in DIVERGENCES.items()}
    to_softmax, symmetric, to_uniform = curves.values()
    library = [library_divergences(q, kind) for kind in DIVERGENCES.values()]
    stacked, middle = np.stack([to_softmax, symmetric, to_uniform]), len(q) // 2
    far = np.delete(np.arange(len(q)), middle)
    slopes = np.abs(np.diff(stacked, axis=1))
    falls = bool((np.diff(stacked[:, : middle + 1], axis=1) < 0).all())
    checks = [
        agree("the curves agree with the library's divergence of three logits", (stacked, library)),
        agree("all are 0 at q = 1/2", (stacked[:, middle], 0.0)),
        agree("they are the same for q and 1 − q", (stacked, stacked[:, ::-1])),
        Finding("they rise on both sides of 1/2", falls),
        agree("the symmetric one is the mean", (symmetric, (to_softmax + to_uniform) / 2)),
        Finding("D(u‖q) is above D(q‖u)", bool((to_softmax > to_uniform)[far].all())),
        Finding("it is nowhere less steep", bool((slopes[0] >= slopes[2] - 1e-12).all())),
        Finding("D(q‖u) stays below log 2, D(u‖q) has no bound", _is_bounded()),
    ]
    chart = Chart(
        "divergences",
        "How far two categories are from level, by three divergences",
        "line",
        "q, share of the first of two categories",
        "divergence (nats)",
        [curve(name, q, y) for name, y in curves.items()],
        note="Theory. u is the uniform distribution, q the softmax over the wrong classes.",
    )
    return Outcome(verdict_of(checks), (), [chart], (), SETUP)


def library_losses(margin: Floats, classes: int) -> tuple[Floats, Floats]:
    """Return the library's hinge and cross-entropy where level wrong classes lead by a margin."""
    target = torch.zeros(len(margin), dtype=torch.long)
    first = -torch.from_numpy(margin)[:, None]
    logits = torch.cat([first, first.new_zeros(len(margin), classes - 1)], 1)
    hinge = functional.max_hinge_loss(logits, target, margin=HINGE_BIAS, reduction="none")
    entropy = functional.gradient_decay_loss(logits, target, beta=1.0, reduction="none")
    return hinge.numpy(), entropy.numpy()


def embedded_biases(lead: Floats, classes: int) -> Floats:
    """Return ρ̂ where one wrong class leads the other ones, which are level."""
    behind = -torch.from_numpy(np.atleast_1d(lead))[:, None].expand(-1, classes - 2)
    logits = torch.cat([behind.new_zeros(len(behind), 2), behind], 1)
    target = torch.zeros(len(logits), dtype=torch.long)
    found: Floats = functional.embedded_bias(logits, target).numpy()
    return found


def library_divergences(q: Floats, kind: str) -> Floats:
    """Return the library's divergence of three logits, the first of which is the target's."""
    share = torch.from_numpy(q)
    logits = torch.stack([0 * share, share.log(), (1 - share).log()], 1)
    target = torch.zeros(len(logits), dtype=torch.long)
    found: Floats = functional.logit_divergence(logits, target, kind).numpy()
    return found


def _where_biases_meet() -> tuple[Floats, Floats]:
    """Return the lead at which softmax's bias is the hinge's: measured, and in closed form."""
    several = BIAS_CLASSES[1:]

    def at(lead: Floats) -> Floats:
        pairs = zip(lead, several, strict=True)
        return np.concatenate([embedded_biases(each, classes) for each, classes in pairs])

    found = crossing(at, np.zeros(len(several)), np.full(len(several), 9.0), HINGE_BIAS)
    return found, np.log((np.array(several) - 2) / math.expm1(HINGE_BIAS))


def _pulls(xi: Floats) -> bool:
    """Whether softplus has a gradient everywhere and the hinge only above 0, by autograd."""
    leaf = torch.from_numpy(xi).clone().requires_grad_()
    (soft,) = torch.autograd.grad(theory.softplus(leaf).sum(), leaf)
    (hard,) = torch.autograd.grad(theory.hinge(leaf).sum(), leaf)
    return bool((soft > 0).all() and ((hard > 0) == (leaf > 0)).all())


def _is_bounded() -> bool:
    small = np.array([1e-3, 1e-6, 1e-12, 1e-100])
    to_uniform = theory.two_category_divergence(small, "logits_to_uniform")
    to_softmax = theory.two_category_divergence(small, "uniform_to_logits")
    grows = np.diff(to_softmax) > 0.4 * -np.diff(np.log(small))
    return bool((to_uniform <= math.log(2)).all() and grows.all())


def _loss_chart(xi: Floats, hinge: Floats, softplus: Floats) -> Chart:
    return Chart(
        "losses",
        "Hinge and softplus of a biased margin",
        "line",
        "ξ, biased margin (logits)",
        "loss",
        [curve("hinge, max(0, ξ)", xi, hinge), curve("softplus, log(1 + exp ξ)", xi, softplus)],
        note="Theory. ξ = best wrong logit − target's logit + bias.",
    )


def _biased_chart(xi: Floats, biased: dict[int, Floats]) -> Chart:
    series = [curve("hinge, ρ = 1", xi, theory.hinge(xi + HINGE_BIAS))]
    for classes, loss in biased.items():
        series.append(curve(f"softmax, {classes} classes", xi, loss))
    return Chart(
        "losses-with-bias",
        "Both losses with the biases that they come with",
        "line",
        "best wrong logit − target's logit",
        "loss",
        series,
        note="Theory. Softmax with all wrong classes level, where its bias is largest: log(C − 1).",
    )


def _bias_chart(lead: Floats, biases: Floats) -> Chart:
    named = zip(BIAS_CLASSES, biases, strict=True)
    series = [curve(f"softmax, {classes} classes", lead, bias) for classes, bias in named]
    ends = [float(lead[0]), float(lead[-1])]
    series.append(Series("hinge, ρ = 1", ends, [HINGE_BIAS, HINGE_BIAS], dashed=True))
    return Chart(
        "embedded-bias",
        "The bias that softmax contains, against the hinge's",
        "line",
        "lead of the best wrong class over the other wrong ones (logits)",
        "bias ρ̂ (logits)",
        series,
        note="Theory. The other wrong classes are level.",
    )
