"""The losses on ξ as Triton kernels: one program per row of logits.

Imported only where Triton is there. The formulas are those of the other paths: with q the softmax
over the classes that are not the target, the gradient by another logit is q_i·J'(ξ) and by the
target's -J'(ξ). With label smoothing, and for class probabilities, every class has a share s of
the loss; that part's gradient is p_i·Σ b - b_i with b = s·J'(ξ)/(1 - p). A divergence from level
(LM eq. 8-10) adds, with d_i = (z_i - top)/τ, q_i (d_i - Σ q d) for D(q‖u) and q_i - 1/(C-1) for
D(u‖q).
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

DECAY = tl.constexpr(0)
FLOORED = tl.constexpr(1)
FOCAL = tl.constexpr(2)


@triton.jit
def log1p(u):
    # exact to the last digits for a small u, where log(1 + u) is not
    w = 1.0 + u
    return tl.where(w == 1.0, u, tl.log(w) * (u / tl.where(w == 1.0, 1.0, w - 1.0)))


@triton.jit
def sigmoid(x):
    small = tl.exp(-tl.abs(x))
    return tl.where(x >= 0, 1.0, small) / (1.0 + small)


@triton.jit
def log_add_exp(x, y):
    return tl.maximum(x, y) + log1p(tl.exp(-tl.abs(x - y)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def focal_power(xi, gamma):
    # sigmoid(ξ)^γ
    return tl.exp(gamma * (tl.minimum(xi, 0.0) - log1p(tl.exp(-tl.abs(xi)))))


@triton.jit
def loss_of(xi, parameter, FORM: tl.constexpr):
    if FORM == FOCAL:
        return focal_power(xi, parameter) * softplus(xi)
    elif FORM == FLOORED:
        return softplus(xi - parameter)
    else:
        return log_add_exp(xi, parameter)


@triton.jit
def slope_of(xi, parameter, FORM: tl.constexpr):
    # J'(ξ)
    if FORM == FOCAL:
        # where the entropy is large, sigmoid(-ξ) has long been 0
        entropy = tl.minimum(softplus(xi), 1e3)
        return focal_power(xi, parameter) * (sigmoid(-xi) * entropy * parameter + sigmoid(xi))
    else:
        return sigmoid(xi - parameter)


@triton.jit
def ratio_of(xi, parameter, FORM: tl.constexpr):
    # J'(ξ)/(1 - p), finite where both are 0
    sure = sigmoid(xi)
    if FORM == FOCAL:
        entropy = tl.minimum(softplus(xi), 1e3)
        relative = tl.where(sure > 0, entropy / tl.where(sure > 0, sure, 1.0), 1.0)
        return focal_power(xi, parameter) * (sigmoid(-xi) * relative * parameter + 1.0)
    else:
        return 1.0 / (sure + sigmoid(-xi) * tl.exp(parameter))


@triton.jit
def piece(logits, start, size, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    classes = start + tl.arange(0, BLOCK)
    within = classes < size
    z = tl.load(logits + classes, mask=within, other=-float("inf")).to(TYPE)
    return classes, within, z


@triton.jit
def log_odds_by_class(z, classes, target, place, top, tau, xi, of_top, log_all):
    log_p = (z - top) / tau - log_all
    p = tl.where((classes == place) | (classes == target), 0.5, tl.exp(log_p))
    by_class = log1p(-p) - log_p
    return tl.where(classes == target, xi, tl.where(classes == place, of_top, by_class))


@triton.jit
def of_largest(rest, top, own, tau):
    # the ξ of the largest of the others
    return log_add_exp(tl.log(rest), (own - top) / tau)


@triton.jit
def shares_of(
    weights, probabilities, classes, within, smooth, keep, SOFT: tl.constexpr, TYPE: tl.constexpr
):
    # of the loss, by class
    share = smooth
    if SOFT:
        share += keep * tl.load(probabilities + classes, mask=within, other=0.0).to(TYPE)
    return share * tl.load(weights + classes, mask=within, other=0.0).to(TYPE)


@triton.jit
def losses(
    logits,
    stride,
    index,
    probabilities,
    stride_of_probabilities,
    parameters,
    per_class,
    tau_at,
    lam_at,
    weights,
    shares,
    smooths,
    out,
    kept,
    places,
    size,
    LOWEST: tl.constexpr,
    FORM: tl.constexpr,
    SMOOTH: tl.constexpr,
    SOFT: tl.constexpr,
    TO_UNIFORM: tl.constexpr,
    FROM_UNIFORM: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write every row's loss to ``out``, and what its gradient needs to ``kept`` and ``places``."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    probabilities += row * stride_of_probabilities
    target, tau = tl.load(index + row), tl.load(tau_at).to(TYPE)
    good = (target >= 0) & (target < size)  # what is outside of the logits is not read
    own = tl.load(logits + target, mask=good, other=float("nan")).to(TYPE)
    zero = tau * 0.0
    top, place = zero + LOWEST, target * 0
    for start in range(0, size, BLOCK):
        classes, within, z = piece(logits, start, size, TYPE, BLOCK)
        z = tl.where(classes == target, -float("inf"), z)
        best = tl.max(z, 0)
        place = tl.where(best > top, start + tl.argmax(z, 0), place)
        top = tl.maximum(best, top)
    rest, weighted, level, others = zero, zero, zero, zero + (size - 1)
    for start in range(0, size, BLOCK):
        classes, within, z = piece(logits, start, size, TYPE, BLOCK)
        skipped = (classes == target) | (classes == place)
        z = tl.where(skipped, -float("inf"), z)
        each = tl.exp((z - top) / tau)
        rest += tl.sum(each, 0)
        if TO_UNIFORM + FROM_UNIFORM > 0:
            # of a masked class the lowest number, of which 0·d is still 0
            d = tl.where(skipped | (classes >= size), 0.0, tl.maximum((z - top) / tau, LOWEST))
            weighted += tl.sum(each * d, 0)
            level += tl.sum(d / others, 0)
    xi = (top - own) / tau + log1p(rest)
    parameter = tl.load(parameters + target * per_class, mask=good, other=1.0).to(TYPE)
    share = tl.load(shares + row).to(TYPE)
    keep = share
    if SOFT:
        share = zero  # of the target alone
    loss = loss_of(xi, parameter, FORM)
    pulls = zero
    if TO_UNIFORM + FROM_UNIFORM > 0:
        weighted /= 1.0 + rest
        mass = log1p(rest) - tl.log(others)
        from_uniform = tl.minimum(mass - tl.maximum(level, LOWEST), -LOWEST)
        divergence = TO_UNIFORM * (weighted - mass) + FROM_UNIFORM * from_uniform
        loss += tl.load(lam_at).to(TYPE) * divergence
        pulls = weighted  # there is no smoothing then
    loss = tl.where(share == 0, 0.0, share * loss)
    if SMOOTH:
        smooth = tl.load(smooths + row).to(TYPE)
        of_top = of_largest(rest, top, own, tau)
        log_all = log1p(rest) + softplus(-xi)
        for start in range(0, size, BLOCK):
            classes, within, z = piece(logits, start, size, TYPE, BLOCK)
            each = log_odds_by_class(z, classes, target, place, top, tau, xi, of_top, log_all)
            numbers = tl.load(parameters + classes * per_class, mask=within, other=1.0).to(TYPE)
            weight = shares_of(weights, probabilities, classes, within, smooth, keep, SOFT, TYPE)
            loss += tl.sum(tl.where(weight == 0, 0.0, weight * loss_of(each, numbers, FORM)), 0)
            pulls += tl.sum(tl.where(weight == 0, 0.0, weight * ratio_of(each, numbers, FORM)), 0)
    tl.store(out + row, loss)
    tl.store(kept + 4 * row, top)
    tl.store(kept + 4 * row + 1, rest)
    tl.store(kept + 4 * row + 2, xi)
    tl.store(kept + 4 * row + 3, pulls)
    tl.store(places + row, place)


@triton.jit
def gradients(
    logits,
    stride,
    index,
    probabilities,
    stride_of_probabilities,
    parameters,
    per_class,
    tau_at,
    lam_at,
    weights,
    shares,
    smooths,
    upstream,
    kept,
    places,
    gradient,
    size,
    FORM: tl.constexpr,
    SMOOTH: tl.constexpr,
    SOFT: tl.constexpr,
    TO_UNIFORM: tl.constexpr,
    FROM_UNIFORM: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient of the logits, every row's times its entry of ``upstream``."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    probabilities += row * stride_of_probabilities
    gradient += row * size
    target, tau = tl.load(index + row), tl.load(tau_at).to(TYPE)
    good = (target >= 0) & (target < size)
    above = tl.load(upstream + row).to(TYPE) / tau
    top, rest = tl.load(kept + 4 * row), tl.load(kept + 4 * row + 1)
    xi, pulls = tl.load(kept + 4 * row + 2), tl.load(kept + 4 * row + 3)
    place = tl.load(places + row)
    parameter = tl.load(parameters + target * per_class, mask=good, other=1.0).to(TYPE)
    share = tl.load(shares + row).to(TYPE)
    keep, others = share, 0.0 * share + (size - 1)
    if SOFT:
        share = 0.0 * share
    pull = tl.where(share == 0, 0.0, share * slope_of(xi, parameter, FORM))
    sure, p_of_target, log_total = sigmoid(xi), sigmoid(-xi), log1p(rest)
    smooth, lam = tl.load(smooths + row).to(TYPE), tl.load(lam_at).to(TYPE)
    own = tl.load(logits + target, mask=good, other=float("nan")).to(TYPE)
    of_top = of_largest(rest, top, own, tau)
    log_all = log_total + softplus(-xi)
    for start in range(0, size, BLOCK):
        classes, within, z = piece(logits, start, size, TYPE, BLOCK)
        q = tl.exp((z - top) / tau - log_total)
        if TO_UNIFORM + FROM_UNIFORM > 0:
            d = tl.where(q > 0, (z - top) / tau, 0.0)
            other = q * (TO_UNIFORM * (d - pulls) + FROM_UNIFORM) - FROM_UNIFORM / others
            other = tl.where(z == -float("inf"), 0.0, share * lam * other)
            other = tl.where(share == 0, 0.0, other)
            found = tl.where(classes == target, -pull, q * pull + other)
        else:
            found = tl.where(
                classes == target, p_of_target * pulls - pull, q * (sure * pulls + pull)
            )
        if SMOOTH:
            each = log_odds_by_class(z, classes, target, place, top, tau, xi, of_top, log_all)
            numbers = tl.load(parameters + classes * per_class, mask=within, other=1.0).to(TYPE)
            weight = shares_of(weights, probabilities, classes, within, smooth, keep, SOFT, TYPE)
            found -= tl.where(weight == 0, 0.0, weight * ratio_of(each, numbers, FORM))
        tl.store(gradient + classes, found * above, mask=within)
