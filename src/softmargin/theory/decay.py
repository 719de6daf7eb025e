"""What β does to the gradient: its size, slope and curvature, by confidence and along a path."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.functional import margins
from softmargin.functional._checks import check_setting
from softmargin.theory._closed_form import ARGUMENTS, Value, closed_form

BETA_PER_CLASS = "gradient decay factor above 0: one value, or one per class, of shape (C,)."


@closed_form
def gradient_magnitude(p: Value, beta: Value) -> Value:
    r"""Return how strongly a sample of confidence p pulls on its target's logit (GD eq. 10).

    .. math:: G = -\frac{\partial J}{\partial z_c} = \frac{1 - p}{1 + (\beta - 1) p}

    The other classes' gradients add up to the same amount. Where the logits are known,
    ``sigmoid(ξ - log β)`` says the same and still resolves what rounds to p = 1 here.

    Example:
        >>> from softmargin.theory import gradient_magnitude
        >>> gradient_magnitude(0.5, beta=0.25)
        0.8
    """
    return (1 - p) / _denominator(p, beta)


@closed_form
def gradient_magnitude_slope(p: Value, beta: Value) -> Value:
    r"""Return how fast the gradient's magnitude falls with confidence (GD eq. 11).

    .. math:: \frac{\partial G}{\partial p} = \frac{-\beta}{(1 + (\beta - 1) p)^2}

    Example:
        >>> from softmargin.theory import gradient_magnitude_slope
        >>> gradient_magnitude_slope(0.0, beta=0.25)  # -β at first, -1/β at last
        -0.25
    """
    denominator = _denominator(p, beta)
    return -(beta / denominator) / denominator  # the square could overflow


@closed_form
def gradient_magnitude_curvature(p: Value, beta: Value) -> Value:
    r"""Return the second derivative of the gradient's magnitude in confidence (GD eq. 12).

    .. math:: \frac{\partial^2 G}{\partial p^2} = \frac{2 \beta (\beta - 1)}{(1 + (\beta - 1) p)^3}

    Above 0, so G is convex, for β > 1, and concave for β < 1; GD has the two words swapped.

    Example:
        >>> from softmargin.theory import gradient_magnitude_curvature
        >>> gradient_magnitude_curvature(0.0, beta=2.0)
        4.0
    """
    denominator = _denominator(p, beta)
    return 2 * (beta / denominator) * ((beta - 1) / denominator / denominator)


@closed_form
def curvature(p: Value, beta: Value) -> Value:
    r"""Return the loss's second derivative in the target's logit (GD eq. 13).

    .. math:: \frac{\partial^2 J}{\partial z_c^2}
              = \frac{\beta p (1 - p)}{(1 + (\beta - 1) p)^2} = G (1 - G)

    Example:
        >>> from softmargin.theory import curvature
        >>> curvature(0.5, beta=1.0)
        0.25
    """
    denominator = _denominator(p, beta)
    return ((1 - p) / denominator) * (beta * p / denominator)


@closed_form
def curvature_slope(p: Value, beta: Value) -> Value:
    r"""Return the loss's third derivative in the target's logit (GD eq. 14).

    .. math:: \frac{\partial^3 J}{\partial z_c^3}
              = \frac{\beta p (1 - p) (1 - (1 + \beta) p)}{(1 + (\beta - 1) p)^3}

    Example:
        >>> from softmargin.theory import curvature_slope
        >>> curvature_slope(0.5, beta=1.0)  # the inflection
        0.0
    """
    return curvature(p, beta) * ((1 - p - beta * p) / _denominator(p, beta))


@closed_form
def inflection(beta: Value) -> Value:
    r"""Return the confidence at which the gradient falls fastest (GD section 3.1).

    .. math:: p = \frac{1}{1 + \beta}

    There G is 1/2 and the curvature is 1/4, its maximum, whatever β is.

    Example:
        >>> from softmargin.theory import inflection
        >>> inflection(0.25)
        0.8
    """
    return 1 / (1 + beta)


@closed_form
def local_lipschitz(beta: Value, p_max: Value = 0.5) -> Value:
    r"""Return the largest curvature in z_c while the confidence is at most p_max (GD eq. 20).

    .. math:: L = \max_{0 \le p \le p_{max}} \frac{\partial^2 J}{\partial z_c^2}

    It is 1/4 once p_max has reached the :func:`inflection`, before that the curvature at p_max.
    It looks along z_c only; :func:`hessian_max_eigenvalue` looks in all directions.

    Example:
        >>> from softmargin.theory import local_lipschitz
        >>> round(local_lipschitz(0.25), 6), local_lipschitz(0.25, p_max=0.9)
        (0.16, 0.25)
    """
    return torch.where(p_max < inflection(beta), curvature(p_max, beta), 0.25)


@closed_form
@document_arguments(
    ARGUMENTS, p_max="end of the range of confidence, from 0 to 1; the step is infinite for 0."
)
def step_size(beta: Value, p_max: Value = 0.5) -> Value:
    r"""Return the step along z_c that lowers the loss's quadratic bound most (GD eq. 19).

    .. math:: \eta^* = 1 / L

    with L from :func:`local_lipschitz`. It is a step of the logit, not of the weights.

    Example:
        >>> from softmargin.theory import step_size
        >>> round(step_size(0.25), 6), step_size(1.0)
        (6.25, 4.0)
    """
    return 1 / local_lipschitz(beta, p_max)


@closed_form
@document_arguments(ARGUMENTS, beta=BETA_PER_CLASS)
def hessian(logits: Value, target: Value, beta: Value = 1.0) -> Value:
    r"""Return the loss's second derivatives in all logits, for real logits.

    .. math:: H = \operatorname{diag}(r) - r r^T
              = w (\operatorname{diag}(q) - q q^T) + w (1 - w) (q - e_c)(q - e_c)^T

    with w = sigmoid(ξ - log β), q the softmax over the non-target classes, and r = (w·q, 1 - w)
    the softmax after log β has been added to the target's logit. It needs C × C numbers a sample.

    Returns:
        H, of the target's shape followed by (C, C).

    Example:
        >>> import numpy as np
        >>> from softmargin.theory import hessian
        >>> hessian(np.zeros(2), 0, beta=1.0)
        array([[ 0.25, -0.25],
               [-0.25,  0.25]])
    """
    if not isinstance(target, Tensor):
        array = np.array(target)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"target must hold class indices, but got {target!r}.")
        target = torch.as_tensor(array, device=logits.device)
        target = target if target.is_floating_point() else target.long()
    logits, index, dim = margins.prepare(logits, target, 1.0)
    check_setting("beta", beta, logits.shape[dim])
    log_beta = (beta[index] if beta.ndim else beta).log().expand(index.shape)
    tilted = logits - logits.detach().amax(dim, keepdim=True)
    r = tilted.scatter_add(dim, index, log_beta).softmax(dim).movedim(dim, -1)
    pairs = r.unsqueeze(-1) * r.unsqueeze(-2)
    pairs = pairs * (1 - torch.eye(r.shape[-1], dtype=r.dtype, device=r.device))
    # rows sum to 0, and r_i(1 - r_i) as a sum over the others does not cancel near r_i = 1
    return torch.diag_embed(pairs.sum(-1)) - pairs


@closed_form
@document_arguments(ARGUMENTS, beta=BETA_PER_CLASS)
def hessian_max_eigenvalue(logits: Value, target: Value, beta: Value = 1.0) -> Value:
    r"""Return the largest eigenvalue of :func:`hessian`: the curvature in the steepest direction.

    .. math:: \lambda_{max}(H) \le 1/2

    The bound holds for every β, so a step of 2 in logit space never raises a sample's loss. GD
    eq. 17 asks for this norm, its eq. 20 for p ≤ 1/2 bounds the part along z_c only.

    Returns:
        one value per sample, of the target's shape.

    Example:
        >>> import numpy as np
        >>> from softmargin.theory import hessian_max_eigenvalue
        >>> hessian_max_eigenvalue(np.zeros((1, 2)), np.array([0]))
        array([0.5])
    """
    matrix = hessian(logits, target, beta)
    unknown = matrix.isnan().any(-1).any(-1)  # which the solver would refuse
    matrix = matrix.masked_fill(unknown[..., None, None], 0.0)
    return torch.linalg.eigvalsh(matrix)[..., -1].masked_fill(unknown, math.nan)


@closed_form
def confidence_path(z: Value, num_classes: Value = 10) -> Value:
    r"""Return the confidence when all other logits stay level and the sum stays 0 (GD Fig. 7).

    .. math:: p = \frac{e^{z}}{e^{z} + (m - 1) e^{-z / (m - 1)}}

    Example:
        >>> from softmargin.theory import confidence_path
        >>> round(confidence_path(0.0), 6)
        0.1
    """
    return torch.sigmoid(-_log_odds_path(z, num_classes))


@closed_form
def gradient_magnitude_path(z: Value, beta: Value, num_classes: Value = 10) -> Value:
    r"""Return the gradient's magnitude along :func:`confidence_path` (GD Fig. 7).

    .. math:: G = \operatorname{sigmoid}(\xi - \log \beta), \quad
              \xi = \log(m - 1) - \frac{m}{m - 1} z

    Example:
        >>> from softmargin.theory import gradient_magnitude_path
        >>> round(gradient_magnitude_path(0.0, beta=1.0), 6)
        0.9
    """
    return torch.sigmoid(_log_odds_path(z, num_classes) - beta.log())


def _denominator(p: Tensor, beta: Tensor) -> Tensor:
    # 1 + (β - 1)p without its cancellation: 1 - p is exact near p = 1
    return (1 - p) + beta * p


def _log_odds_path(z: Tensor, num_classes: Tensor) -> Tensor:
    others = num_classes - 1
    return others.log() - z * (num_classes / others)
