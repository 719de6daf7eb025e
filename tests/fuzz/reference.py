"""The losses once more, in extended precision, each value with the error it may have.

Nothing is shared with the library. A loss is a function of the log-odds ξ (or of the hard margin)
of one pair of a row and a class. What rounding may do to ξ is known, so that the allowed error of a
loss is how far the loss moves when ξ does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Wide = np.longdouble
ROUNDINGS = Wide(16)  # how many of them may add up
LOST = Wide(2)  # times the smallest normal number: below it an exponential may be taken for 0


class Pairs(NamedTuple):
    """What is known of P pairs (row, class): losses, gradients and their allowed errors."""

    loss: np.ndarray
    loss_error: np.ndarray
    gradient: np.ndarray
    gradient_error: np.ndarray
    smooth: np.ndarray  # whether the gradient is determined
    of_log_beta: np.ndarray
    of_log_beta_error: np.ndarray
    pull: np.ndarray  # sigmoid(ξ), and below sigmoid(ξ - log β), with their errors
    pull_error: np.ndarray
    own_pull: np.ndarray
    own_pull_error: np.ndarray


def softplus(x):
    return np.logaddexp(Wide(0), x)


def sigmoid(x):
    return np.exp(-np.logaddexp(Wide(0), -x))


def moved(function, x, by):
    """Return a function's values and how far they move when x moves."""
    value = function(x)
    with np.errstate(invalid="ignore"):
        change = np.maximum(np.abs(function(x + by) - value), np.abs(function(x - by) - value))
    return value, np.where(np.isfinite(change), change, 0)


def evaluate(name, z, c, options, precision):
    """Return :class:`Pairs` of logits (P, C) and classes (P,); ``precision`` is a finfo."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        return _evaluate(name, z.astype(Wide), c, options, precision)


def _evaluate(name, z, c, options, precision):
    eps = ROUNDINGS * Wide(precision.eps)
    tau = Wide(options.get("tau", 1.0))
    pairs = np.arange(len(c))
    shifted = (z - z.max(1, keepdims=True)) / tau
    depth = -shifted
    own = shifted[pairs, c]
    others = shifted.copy()
    others[pairs, c] = -np.inf
    rival = others.max(1)
    level = np.where(np.isfinite(rival), rival, 0)
    if name in HARD:
        return _hard(name, others, own, rival, c, options, eps, tau)
    exponentials = np.exp(others - level[:, None])
    total = exponentials.sum(1)
    q = exponentials / np.where(total > 0, total, 1)[:, None]
    xi = rival - own + np.log(np.where(total > 0, total, 1))
    off = eps * (2 + np.abs(xi) - level - np.where(np.isfinite(own), own, 0))
    off = np.where(np.isfinite(xi), off, 0)
    log_beta = np.broadcast_to(_log_beta(name, options, c), xi.shape)
    argument = xi - log_beta
    off_argument = off + eps * np.abs(log_beta)
    if name == "focal":
        loss, loss_error, pull, pull_error = _focal(xi, off, Wide(options.get("gamma", 2.0)), eps)
    else:
        loss, loss_error = moved(softplus, argument, off_argument)
        pull, pull_error = moved(sigmoid, argument, off_argument)
        if name in ("gradient_decay", "regularized") and not options.get("floored"):
            loss = np.where(argument > 0, xi + softplus(-argument), log_beta + loss)
            loss_error = loss_error + eps * (np.abs(log_beta) + np.where(xi > log_beta, 0, 0))
    loss_error = loss_error + eps * np.where(np.isfinite(loss), np.abs(loss), 0)
    pull_error = pull_error + eps * pull
    relative = np.expm1(np.minimum(eps * (2 + np.where(np.isfinite(depth), depth, 0)), 50))
    relative = relative + np.expm1(np.minimum(eps * -level, 50))[:, None]
    q_error = np.where(q > 0, np.minimum(1, q * relative), 0)
    # a share this small counts for nothing, even where weights and 1/τ make its gradient larger
    q_error = q_error + np.minimum(q, LOST * Wide(precision.tiny))
    gradient = pull[:, None] * q
    gradient_error = pull_error[:, None] * q + (pull + pull_error)[:, None] * q_error
    gradient[pairs, c] = -pull
    gradient_error[pairs, c] = pull_error
    smooth = np.ones(len(c), bool)
    if name == "regularized":
        added = _divergence(others, c, q, q_error, depth, options, eps, precision)
        lam = Wide(options.get("lam", 0.3))
        loss, loss_error = loss + lam * added[0], loss_error + lam * added[1]
        gradient, gradient_error = gradient + lam * added[2], gradient_error + lam * added[3]
        smooth = added[4]
    floored = Wide(1 if options.get("floored") else 0)
    of_beta, of_beta_error = moved(sigmoid, -argument, off_argument)
    plain, plain_error = moved(sigmoid, xi, off)
    return Pairs(
        loss,
        loss_error,
        gradient / tau,
        gradient_error / tau,
        smooth,
        np.where(floored, -sigmoid(argument), of_beta),
        np.where(floored, pull_error, of_beta_error) + eps * of_beta,
        plain,
        plain_error + eps * plain,
        sigmoid(argument),
        pull_error,
    )


HARD = ("hard_bias", "max_hinge", "mean_hinge")


def _log_beta(name, options, c):
    """Return log β; a margin m is β = e^(-m)."""
    if name == "soft_margin":
        return Wide(-options["margin"])
    if name == "modified":
        return Wide(-options.get("rho", 1.0))
    beta = np.asarray(options.get("beta", 1.0), Wide)
    return np.log(beta[c] if beta.ndim else beta)


def _focal(xi, off, gamma, eps):
    def value(x):
        return np.exp(-gamma * softplus(-x)) * softplus(x)

    def slope(x):
        weight = np.exp(-gamma * softplus(-x))
        return weight * (sigmoid(x) + gamma * sigmoid(-x) * softplus(x))

    with np.errstate(invalid="ignore"):
        exponent = np.where(np.isfinite(xi), gamma * softplus(-xi), 0)
    relative = eps * (1 + exponent)
    loss, loss_error = moved(value, xi, off)
    pull, pull_error = moved(slope, xi, off)
    infinite = xi == np.inf
    loss, pull = np.where(infinite, np.inf, loss), np.where(infinite, 1, pull)
    nothing = xi == -np.inf
    loss, pull = np.where(nothing, 0, loss), np.where(nothing, 0, pull)
    finite = np.where(infinite, 0, loss)
    return loss, loss_error + relative * finite, pull, pull_error + relative * pull


def _divergence(others, c, q, q_error, depth, options, eps, precision):
    """Return a KL divergence from level, its error, its gradient, the error, and if it has one."""
    kind = options.get("divergence", "symmetric")
    lowest = Wide(precision.min)
    pairs, count = np.arange(len(c)), others.shape[1] - 1
    z = np.maximum(others, lowest)
    top = np.where(np.arange(others.shape[1]) == c[:, None], -np.inf, z).max(1)
    log_q = z - top[:, None]
    exponentials = np.exp(log_q)
    exponentials[pairs, c] = 0
    level = np.log(exponentials.sum(1))
    log_q = np.maximum(log_q - level[:, None], lowest)
    q = exponentials / exponentials.sum(1, keepdims=True)
    log_q[pairs, c] = 0
    entropy = (q * log_q).sum(1)
    mean = log_q.sum(1) / count
    spread = np.where(np.isfinite(depth), depth, -lowest)
    q_off = np.where(q > 0, np.minimum(1, q_error + q * eps * (3 + spread - top[:, None])), 0)
    to_uniform = entropy + np.log(Wide(count))
    to_uniform_error = (q_off * (np.abs(log_q) + 1)).sum(1) + eps * (np.log(Wide(count)) + 1)
    from_uniform = -mean - np.log(Wide(count))
    from_uniform_error = eps * (spread.mean(1) * 2 + 1 + np.log(Wide(count)) - top)
    slope_to = q * (log_q - entropy[:, None])
    slope_from = q - Wide(1) / count
    slope_from[pairs, c] = slope_to[pairs, c] = 0
    slope_to_error = q_off * (np.abs(log_q - entropy[:, None]) + 1)
    slope_to_error = slope_to_error + q * to_uniform_error[:, None] + eps
    slope_from_error = q_off + eps
    share = {"symmetric": 0.5, "logits_to_uniform": 1.0, "uniform_to_logits": 0.0}[kind]
    share = Wide(share)
    smooth = (spread < -lowest / 4).all(1) if share < 1 else np.ones(len(c), bool)
    if count == 1:
        nothing = np.zeros_like(slope_to)
        off = eps * (1 + spread.mean(1))
        return nothing[:, 0], nothing[:, 0] + off, nothing, nothing + eps, smooth
    return (
        share * to_uniform + (1 - share) * from_uniform,
        share * to_uniform_error + (1 - share) * from_uniform_error,
        share * slope_to + (1 - share) * slope_from,
        share * slope_to_error + (1 - share) * slope_from_error,
        smooth,
    )


def _hard(name, others, own, rival, c, options, eps, tau):
    pairs = np.arange(len(c))
    extra = Wide(options.get("rho" if name == "hard_bias" else "margin", 1.0))
    gradient = np.zeros_like(others)
    if name == "mean_hinge":
        lead = others - own[:, None] + extra
        lead[pairs, c] = -np.inf
        count = others.shape[1] - 1
        loss = np.maximum(lead, 0).sum(1) / count
        off = eps * (np.where(np.isfinite(own), -own, 0) + extra) * np.sqrt(Wide(count + 1))
        gradient = (lead > 0).astype(Wide) / count
        gradient[pairs, c] = -gradient.sum(1)
        near = np.abs(lead) <= 2 * eps * (np.abs(own)[:, None] + np.abs(extra))
        smooth = ~near.any(1)
        error = off + eps * np.abs(np.where(np.isfinite(loss), loss, 0)) * np.sqrt(Wide(count))
        return _pairs(loss, error, gradient, np.full_like(gradient, eps), smooth)
    lead = rival - own
    where_top = others.argmax(1)
    second = others.copy()
    second[pairs, where_top] = -np.inf
    with np.errstate(invalid="ignore"):
        tied = rival - second.max(1) <= 2 * eps * (np.abs(rival) + 1)
    off = eps * (np.where(np.isfinite(lead), np.abs(lead), 0) + np.abs(extra) + 1)
    off = off + eps * np.where(np.isfinite(own), -own, 0)
    if name == "hard_bias":
        loss, error = moved(softplus, lead + extra, off)
        pull, pull_error = moved(sigmoid, lead + extra, off)
        smooth = ~tied
    else:
        loss, error = moved(lambda x: np.maximum(x, 0), lead + extra, off)
        pull = (lead + extra > 0).astype(Wide)
        pull_error = np.zeros_like(pull)
        smooth = ~tied & (np.abs(lead + extra) > 2 * off)
    gradient[pairs, where_top] = pull
    gradient[pairs, c] = -pull
    gradient_error = np.abs(gradient) * eps + pull_error[:, None] * (gradient != 0)
    error = error + eps * np.where(np.isfinite(loss), loss, 0)
    return _pairs(loss, error, gradient / tau, gradient_error / tau, smooth)


def _pairs(loss, error, gradient, gradient_error, smooth):
    nothing = np.zeros_like(loss)
    return Pairs(loss, error, gradient, gradient_error, smooth, *[nothing] * 6)
