"""The losses on ξ as Triton kernels: one program per row of logits.

Imported only where Triton is there. The formulas are those of the other paths: with q the softmax
over the classes that are not the target, the gradient by another logit is q_i·J'(ξ) and by the
target's -J'(ξ). With label smoothing, and for class probabilities, every class has a share s of
the loss; that part's gradient is p_i·Σ b - b_i with b = s·J'(ξ)/(1 - p). A divergence from level
(LM eq. 8-10) adds, with d_i = (z_i - top)/τ, q_i (d_i - W) for D(q‖u), where W is Σ q d, and
q_i - 1/(C-1) for D(u‖q). A class that is neither the target nor the top has at most half of the
probability: its q is p/(1 - p_c), and what all such classes pull follows from three sums over them,
of s/(1 - p), s·W/(1 - p) and s.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from softmargin.functional._triton_forms import (
    away_from_level,
    divergence_of,
    log1p,
    log_add_exp,
    loss_of,
    product,
    ratio_of,
    sigmoid,
    slope_of,
    softplus,
)

KEPT = tl.constexpr(13)
"""Numbers that are kept of every row."""


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
def rivals_of_top(own, third, tau, rest_of_third, weighted_of_third):
    # log Σ e^d and W of the largest of the others, whose rivals are the target and the rest, in
    # units of the largest of the rest: next to the top itself all of them may be nothing
    d = (own - third) / tau
    lead = d - tl.log(rest_of_third)
    weighted = product(sigmoid(-lead), weighted_of_third) + product(sigmoid(lead), d)
    return log_add_exp(tl.log(rest_of_third), d), weighted


@triton.jit
def weighted_without_each(z, classes, target, place, top, tau, log_all, weighted, xi):
    # log p, p and W of classes that are neither the target nor the top; of those p is 0
    log_p = (z - top) / tau - log_all
    p = tl.where((classes == target) | (classes == place), 0.0, tl.exp(log_p))
    of_all = product(sigmoid(xi), weighted - log_all) - product(sigmoid(-xi), softplus(xi))
    return log_p, p, (of_all - product(p, log_p)) / (1.0 - p)


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
    COMPENSATE: tl.constexpr,
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
    third, rest_of_third, weighted_of_third = own, zero, zero
    if SMOOTH and TO_UNIFORM + FROM_UNIFORM > 0:
        third = zero + LOWEST
        for start in range(0, size, BLOCK):
            classes, within, z = piece(logits, start, size, TYPE, BLOCK)
            z = tl.where((classes == target) | (classes == place), -float("inf"), z)
            third = tl.maximum(third, tl.max(z, 0))
        third = tl.where(third == LOWEST, own, third)
    rest, weighted, level, others = zero, zero, zero, zero + (size - 1)
    for start in range(0, size, BLOCK):
        classes, within, z = piece(logits, start, size, TYPE, BLOCK)
        skipped = (classes == target) | (classes == place)
        z = tl.where(skipped, -float("inf"), z)
        each = tl.exp((z - top) / tau)
        rest += tl.sum(each, 0)
        if SMOOTH and TO_UNIFORM + FROM_UNIFORM > 0:
            each_of_third = tl.exp((z - third) / tau)
            rest_of_third += tl.sum(each_of_third, 0)
            weighted_of_third += tl.sum(product(each_of_third, (z - third) / tau), 0)
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
    lam, divergence = tl.load(lam_at).to(TYPE), zero
    if TO_UNIFORM + FROM_UNIFORM > 0:
        weighted /= 1.0 + rest
        mass = log1p(rest) - tl.log(others)
        divergence = divergence_of(weighted, mass, level, LOWEST, TO_UNIFORM, FROM_UNIFORM)
        loss += lam * divergence
    loss = tl.where(share == 0, 0.0, share * loss)
    pulls, plain, damped = zero, zero, zero
    per_rest, weighted_per_rest, of_others = zero, zero, zero
    weighted_of_third /= tl.where(rest_of_third > 0, rest_of_third, 1.0)
    if SMOOTH:
        smooth = tl.load(smooths + row).to(TYPE)
        of_top = of_largest(rest, top, own, tau)
        log_all = log1p(rest) + softplus(-xi)
        lead = (own - top) / tau
        mass, without = rivals_of_top(own, third, tau, rest_of_third, weighted_of_third)
        of_place = divergence_of(
            without,
            mass - tl.log(others),
            level + lead / others - (third - top) / tau,
            LOWEST,
            TO_UNIFORM,
            FROM_UNIFORM,
        )
        for start in range(0, size, BLOCK):
            classes, within, z = piece(logits, start, size, TYPE, BLOCK)
            each = log_odds_by_class(z, classes, target, place, top, tau, xi, of_top, log_all)
            numbers = tl.load(parameters + classes * per_class, mask=within, other=1.0).to(TYPE)
            weight = shares_of(weights, probabilities, classes, within, smooth, keep, SOFT, TYPE)
            value = loss_of(each, numbers, FORM)
            if TO_UNIFORM + FROM_UNIFORM > 0:
                _, p, own_weighted = weighted_without_each(
                    z, classes, target, place, top, tau, log_all, weighted, xi
                )
                mean = level + (lead - tl.maximum((z - top) / tau, LOWEST)) / others - log_all
                of_each = divergence_of(
                    own_weighted,
                    log1p(-p) - tl.log(others),
                    mean,
                    LOWEST,
                    TO_UNIFORM,
                    FROM_UNIFORM,
                )
                of_each = tl.where(classes == place, of_place, of_each)
                value += lam * tl.where(classes == target, divergence, of_each)
                counted = (weight != 0) & (classes != target) & (classes != place)
                per_rest += tl.sum(tl.where(counted, weight / (1.0 - p), 0.0), 0)
                each_per_rest = tl.where(counted, weight * own_weighted / (1.0 - p), 0.0)
                weighted_per_rest += tl.sum(each_per_rest, 0)
                of_others += tl.sum(tl.where(counted, weight, 0.0), 0)
            loss += tl.sum(tl.where(weight == 0, 0.0, weight * value), 0)
            pulls += tl.sum(tl.where(weight == 0, 0.0, weight * ratio_of(each, numbers, FORM)), 0)
            if COMPENSATE and SOFT:
                # of the targets as given
                weight = shares_of(weights, probabilities, classes, within, zero, 1.0, SOFT, TYPE)
                plain += tl.sum(tl.where(weight == 0, 0.0, weight * sigmoid(each)), 0)
                damped += tl.sum(tl.where(weight == 0, 0.0, weight * sigmoid(each - numbers)), 0)
    tl.store(out + row, loss)
    kept += KEPT * row
    tl.store(kept, top)
    tl.store(kept + 1, rest)
    tl.store(kept + 2, xi)
    tl.store(kept + 3, pulls)
    tl.store(kept + 4, weighted)
    tl.store(kept + 5, per_rest)
    tl.store(kept + 6, weighted_per_rest)
    tl.store(kept + 7, of_others)
    tl.store(kept + 8, third)
    tl.store(kept + 9, rest_of_third)
    tl.store(kept + 10, weighted_of_third)
    tl.store(kept + 11, plain)
    tl.store(kept + 12, damped)
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
    kept += KEPT * row
    target, tau = tl.load(index + row), tl.load(tau_at).to(TYPE)
    good = (target >= 0) & (target < size)
    above = tl.load(upstream + row).to(TYPE) / tau
    top, rest = tl.load(kept), tl.load(kept + 1)
    xi, pulls = tl.load(kept + 2), tl.load(kept + 3)
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
    weighted, of_place = tl.load(kept + 4), 0.0 * share
    third, rest_of_third = tl.load(kept + 8), tl.load(kept + 9)
    mass, without = rivals_of_top(own, third, tau, rest_of_third, tl.load(kept + 10))
    if SMOOTH and TO_UNIFORM + FROM_UNIFORM > 0:
        # the shares of the target, as a class, and of the top
        share += shares_of(weights, probabilities, target, good, smooth, keep, SOFT, TYPE)
        of_place = shares_of(weights, probabilities, place, good, smooth, keep, SOFT, TYPE)
    for start in range(0, size, BLOCK):
        classes, within, z = piece(logits, start, size, TYPE, BLOCK)
        q = tl.exp(tl.where(classes == target, 0.0, (z - top) / tau - log_total))
        found = tl.where(classes == target, p_of_target * pulls - pull, q * (sure * pulls + pull))
        if SMOOTH:
            each = log_odds_by_class(z, classes, target, place, top, tau, xi, of_top, log_all)
            numbers = tl.load(parameters + classes * per_class, mask=within, other=1.0).to(TYPE)
            weight = shares_of(weights, probabilities, classes, within, smooth, keep, SOFT, TYPE)
            found -= tl.where(weight == 0, 0.0, weight * ratio_of(each, numbers, FORM))
        if TO_UNIFORM + FROM_UNIFORM > 0:
            d = (z - top) / tau
            other = away_from_level(q, d, weighted, others, share, TO_UNIFORM, FROM_UNIFORM)
            other = tl.where(classes == target, 0.0, other)
            if SMOOTH:
                d = (z - third) / tau
                q = tl.exp(tl.where(classes == place, 0.0, d - mass))
                rivals = away_from_level(q, d, without, others, of_place, TO_UNIFORM, FROM_UNIFORM)
                other += tl.where(classes == place, 0.0, rivals)
                log_p, p, own_weighted = weighted_without_each(
                    z, classes, target, place, top, tau, log_all, weighted, xi
                )
                counted = (classes != target) & (classes != place)
                weight = tl.where(counted, weight, 0.0)
                own_per_rest = weight / (1.0 - p)
                per_rest = tl.load(kept + 5) - own_per_rest
                weighted_per_rest = tl.load(kept + 6) - product(own_per_rest, own_weighted)
                pulled = product(per_rest, TO_UNIFORM * log_p + FROM_UNIFORM)
                pulled = product(tl.exp(log_p), pulled - TO_UNIFORM * weighted_per_rest)
                other += pulled - FROM_UNIFORM * (tl.load(kept + 7) - weight) / others
            found += lam * tl.where(z == -float("inf"), 0.0, other)
        tl.store(gradient + classes, found * above, mask=within)
