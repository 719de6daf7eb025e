"""The losses as functions of the log-odds ξ, and divergences of their sums, in Triton.

Imported only where Triton is there.
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
def product(x, y):
    # where 0 times infinity is 0
    return tl.where((x == 0) | (y == 0), 0.0, x * y)


@triton.jit
def divergence_of(
    weighted,
    mass,
    level,
    LOWEST: tl.constexpr,
    TO_UNIFORM: tl.constexpr,
    FROM_UNIFORM: tl.constexpr,
):
    # `mass` is log(Σ e^d/(C-1)) and `level` the mean of d, which masked classes make infinite
    from_uniform = tl.minimum(mass - tl.maximum(level, LOWEST), -LOWEST)
    return TO_UNIFORM * (weighted - mass) + FROM_UNIFORM * from_uniform


@triton.jit
def away_from_level(
    q, d, weighted, others, share, TO_UNIFORM: tl.constexpr, FROM_UNIFORM: tl.constexpr
):
    # the gradient of a class's divergence by its rivals, times its share
    found = product(q, TO_UNIFORM * (d - weighted) + FROM_UNIFORM) - FROM_UNIFORM / others
    return tl.where(share == 0, 0.0, share * found)
