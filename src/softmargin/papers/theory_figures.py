"""GD's Figures 2 and 7 and LM's Figures 1 and 4: curves, and what they are checked by.

How the gradient of a sample fades as it becomes confident; softmax as a loss with a margin; three
ways to level its logits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
AUTOGRAD = "every curve agrees with the gradient of the library's loss by autograd"
SETUP = {"data": "none: theory", "precision": "float64"}
GRADIENT_SETUP = {"data": "none: theory", "classes": str(CLASSES), "precision": "float64"}
Y_LABEL = "G = −∂J/∂z, gradient of the target's logit"


def verdict_of(checks: Sequence[Finding]) -> Verdict:
    """Return "shown" where every check agrees: a figure of theory has nothing else to test.

    Example:
        >>> verdict_of([Finding("a rises", True), Finding("b falls", False)]).word
        'does not hold'
    """
    word = "shown" if all(each.agrees for each in checks) else "does not hold"
    return Verdict(word, tuple(checks), "Checked numerically, equalities to 1e-9.")


def agree(says: str, *pairs: tuple[ArrayLike, ArrayLike]) -> Finding:
    """Check that arrays are equal within the tolerance; what is not finite equals nothing."""
    deviations = [np.abs(np.asarray(a) - np.asarray(b)) for a, b in pairs]
    return Finding(says, all(bool((each <= TOLERANCE).all()) for each in deviations))


def crossing(
    falling: Callable[[Floats], Floats], low: ArrayLike, high: ArrayLike, value: float = 0.5
) -> Floats:
    """Return where falling functions, one per place, have a value, by bisection.

    Example:
        >>> crossing(lambda x: 1 - x, np.zeros(2), np.ones(2), value=0.25).round(9)
        array([0.75, 0.75])
    """
    left, right = np.asarray(low, np.float64), np.asarray(high, np.float64)
    for _ in range(64):
        middle = (left + right) / 2
        above = falling(middle) > value
        left, right = np.where(above, middle, left), np.where(above, right, middle)
    return (left + right) / 2


def curve(name: str, x: Floats, y: Floats, beta: float | None = None) -> Series:
    """Return arrays as a series."""
    return Series(name, x.tolist(), y.tolist(), beta=beta)


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
    return Outcome(verdict_of(checks), [table], [chart], notes, GRADIENT_SETUP)


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
    return Outcome(
        verdict_of(checks), [_half_table("z", halves, expected)], charts, (), GRADIENT_SETUP
    )


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
