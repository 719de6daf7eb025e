"""The closed forms of gradient decay, for plots, tests and choosing a β.

Notation: J = log(β + e^ξ) is :func:`softmargin.functional.gradient_decay_loss` of one sample,
z_c the target's logit, p its softmax probability, and G = -∂J/∂z_c the gradient's magnitude.

Every function takes numbers, NumPy arrays and tensors, mixed and broadcast. It returns a tensor
(of the tensors' dtype and device, differentiable) if one of them is a tensor, a float64 array if
one is an array, and otherwise a float.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeAlias

import numpy as np
import torch
from torch import Tensor

from softmargin.functional import margins
from softmargin.functional._checks import (
    DIVERGENCES,
    LARGE,
    check_choice,
    check_number,
    check_setting,
    value_range,
)

Value: TypeAlias = Any
"""A number, an array or a tensor; the result's kind follows the arguments' (module docstring)."""

# what an argument may be, by its name
PASSED_ON = ("target", "divergence")
PROBABILITIES = ("p", "p_max", "q")
LOWER_BOUNDS = {"beta": 0.0, "gap": 0.0, "scale": 0.0, "num_classes": 2.0, "x": 0.0}
BOUND_INCLUDED = ("num_classes", "x")

P = ParamSpec("P")


def closed_form(formula: Callable[P, Value]) -> Callable[P, Value]:
    """Let a formula on tensors take and return any :data:`Value`, and check it by its name."""
    signature = inspect.signature(formula)

    @functools.wraps(formula)
    def convert(*args: P.args, **kwargs: P.kwargs) -> Value:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = [value for value in bound.arguments.values() if isinstance(value, Tensor)]
        dtype = _common_dtype(given)
        compute = torch.float32 if dtype in margins.HALF else dtype
        device = given[0].device if given else None
        for name, value in bound.arguments.items():
            if name not in PASSED_ON:
                tensor = value if isinstance(value, Tensor) else _tensor(name, value)
                if tensor.is_complex():
                    raise TypeError(f"{name} must hold real numbers, but got {tensor.dtype}.")
                _check(name, tensor)
                bound.arguments[name] = tensor.to(device=device, dtype=compute)
        _check_shapes(bound.arguments)
        result = formula(*bound.args, **bound.kwargs)
        if given:
            return result.to(dtype)
        return result.numpy() if result.ndim else result.item()

    return convert


def _common_dtype(tensors: list[Tensor]) -> torch.dtype:
    """Return the floating-point dtype to answer in. As in torch, 0-d tensors follow the others."""
    dtypes = [tensor.dtype for tensor in tensors if tensor.ndim] or [t.dtype for t in tensors]
    dtype = functools.reduce(torch.promote_types, dtypes) if dtypes else torch.float64
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _tensor(name: str, value: Value) -> Tensor:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, int) and abs(value) >= LARGE:
            raise ValueError(f"{name} must be given as a float if it is so large, but got {value}.")
        return torch.tensor(float(value), dtype=torch.float64)  # torch.compile can trace this
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a number, an array or a tensor, but got {value!r}.")
    return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))


def _check(name: str, tensor: Tensor) -> None:
    for number in value_range(tensor) or ():  # NaN is both
        if name in PROBABILITIES and not 0 <= number <= 1:
            raise ValueError(f"{name} must be between 0 and 1, but got {number}.")
        if name in LOWER_BOUNDS:
            check_number(name, number, above=LOWER_BOUNDS[name], inclusive=name in BOUND_INCLUDED)


def _check_shapes(arguments: Mapping[str, Any]) -> None:
    """Raise unless the arguments of a formula on single numbers fit together."""
    if "logits" in arguments:
        return
    shapes = {n: tuple(v.shape) for n, v in arguments.items() if isinstance(v, Tensor)}
    try:
        torch.broadcast_shapes(*shapes.values())  # type: ignore[no-untyped-call]
    except RuntimeError:
        given = ", ".join(map(str, shapes.values()))
        names = " and ".join(shapes)
        raise ValueError(f"{names} must have shapes that broadcast, but got {given}.") from None


@closed_form
def gradient_magnitude(p: Value, beta: Value) -> Value:
    r"""Return how strongly a sample of confidence p pulls on its target's logit (GD eq. 10).

    .. math:: G = -\frac{\partial J}{\partial z_c} = \frac{1 - p}{1 + (\beta - 1) p}

    The other classes' gradients add up to the same amount. Where the logits are known,
    ``sigmoid(ξ - log β)`` says the same and still resolves what rounds to p = 1 here.

    Args:
        p: the target's probability, from 0 to 1.
        beta: gradient decay factor above 0.

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

    Args:
        p: the target's probability, from 0 to 1.
        beta: gradient decay factor above 0.

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

    Args:
        p: the target's probability, from 0 to 1.
        beta: gradient decay factor above 0.

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

    Args:
        p: the target's probability, from 0 to 1.
        beta: gradient decay factor above 0.

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

    Args:
        p: the target's probability, from 0 to 1.
        beta: gradient decay factor above 0.

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

    Args:
        beta: gradient decay factor above 0.

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

    Args:
        beta: gradient decay factor above 0.
        p_max: end of the range of confidence, from 0 to 1.

    Example:
        >>> from softmargin.theory import local_lipschitz
        >>> round(local_lipschitz(0.25), 6), local_lipschitz(0.25, p_max=0.9)
        (0.16, 0.25)
    """
    return torch.where(p_max < inflection(beta), curvature(p_max, beta), 0.25)


@closed_form
def step_size(beta: Value, p_max: Value = 0.5) -> Value:
    r"""Return the step along z_c that lowers the loss's quadratic bound most (GD eq. 19).

    .. math:: \eta^* = 1 / L

    with L from :func:`local_lipschitz`. It is a step of the logit, not of the weights.

    Args:
        beta: gradient decay factor above 0.
        p_max: end of the range of confidence, from 0 to 1; the step is infinite for 0.

    Example:
        >>> from softmargin.theory import step_size
        >>> round(step_size(0.25), 6), step_size(1.0)
        (6.25, 4.0)
    """
    return 1 / local_lipschitz(beta, p_max)


@closed_form
def hessian(logits: Value, target: Value, beta: Value = 1.0) -> Value:
    r"""Return the loss's second derivatives in all logits, for real logits.

    .. math:: H = \operatorname{diag}(r) - r r^T
              = w (\operatorname{diag}(q) - q q^T) + w (1 - w) (q - e_c)(q - e_c)^T

    with w = sigmoid(ξ - log β), q the softmax over the non-target classes, and r = (w·q, 1 - w)
    the softmax after log β has been added to the target's logit. It needs C × C numbers a sample.

    Args:
        logits: scores of shape (C), (N, C) or (N, C, d1, ...).
        target: class indices of shape (), (N) or (N, d1, ...).
        beta: gradient decay factor above 0: one value, or one per class, of shape (C,).

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
def hessian_max_eigenvalue(logits: Value, target: Value, beta: Value = 1.0) -> Value:
    r"""Return the largest eigenvalue of :func:`hessian`: the curvature in the steepest direction.

    .. math:: \lambda_{max}(H) \le 1/2

    The bound holds for every β, so a step of 2 in logit space never raises a sample's loss. GD
    eq. 17 asks for this norm, its eq. 20 for p ≤ 1/2 bounds the part along z_c only. Arguments
    as in :func:`hessian`.

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

    Args:
        z: the target's logit; the others are -z/(m - 1).
        num_classes: m of at least 2.

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

    Args:
        z: the target's logit; the others are -z/(m - 1).
        beta: gradient decay factor above 0.
        num_classes: m of at least 2.

    Example:
        >>> from softmargin.theory import gradient_magnitude_path
        >>> round(gradient_magnitude_path(0.0, beta=1.0), 6)
        0.9
    """
    return torch.sigmoid(_log_odds_path(z, num_classes) - beta.log())


@closed_form
def hinge(xi: Value) -> Value:
    r"""Return the support vector machine's loss of a biased margin (LM Fig. 1a).

    .. math:: \max(0, \xi)

    Args:
        xi: by how much the other classes, plus a bias, are ahead of the target.

    Example:
        >>> from softmargin.theory import hinge
        >>> hinge(-2.0), hinge(3.0)
        (0.0, 3.0)
    """
    return xi.relu()


@closed_form
def softplus(xi: Value) -> Value:
    r"""Return softmax cross-entropy's loss of a biased margin (LM eq. 3, Fig. 1a).

    .. math:: \log(1 + e^{\xi})

    Args:
        xi: by how much the other classes, plus a bias, are ahead of the target.

    Example:
        >>> from softmargin.theory import softplus
        >>> round(softplus(0.0), 6)
        0.693147
    """
    return margins.softplus(xi)


@closed_form
def two_category_divergence(q: Value, divergence: str = "symmetric") -> Value:
    r"""Return how far two non-target classes of softmax (q, 1 - q) are from level (LM Fig. 4).

    - ``"logits_to_uniform"``: :math:`\log 2 + q \log q + (1 - q) \log(1 - q)`, log 2 at both ends
    - ``"uniform_to_logits"``: :math:`-\frac12 \log(4 q (1 - q))`, infinite at both ends
    - ``"symmetric"``: their mean, :math:`\frac12 (q - \frac12) \log \frac{q}{1 - q}`

    It is :func:`softmargin.functional.logit_divergence` of three classes (LM eq. 8-10).

    Args:
        q: the first class's share, from 0 to 1.
        divergence: one of the three names above.

    Example:
        >>> from softmargin.theory import two_category_divergence
        >>> two_category_divergence(0.5), two_category_divergence(0.0)
        (0.0, inf)
    """
    check_choice("divergence", divergence, DIVERGENCES)
    if divergence == "symmetric":
        return (q - 0.5) * torch.logit(q) / 2
    if divergence == "uniform_to_logits":
        return (4 * q * (1 - q)).log() / -2
    entropy = torch.special.entr(q) + torch.special.entr(1 - q)
    return (math.log(2) - entropy).clamp(min=0)  # rounding must not make it negative


@closed_form
def embedded_bias_bound(num_classes: Value) -> Value:
    r"""Return the largest margin that softmax itself contains (LM eq. 7).

    .. math:: \max \hat\rho = \log(C - 1)

    :func:`softmargin.functional.embedded_bias` reaches it when the other classes are level.

    Args:
        num_classes: C of at least 2.

    Example:
        >>> from softmargin.theory import embedded_bias_bound
        >>> round(embedded_bias_bound(100), 6)
        4.59512
    """
    return (num_classes - 1).log()


@closed_form
def lambert_w(x: Value) -> Value:
    r"""Return the W ≥ 0 that solves W·e^W = x (Lambert's function, principal branch).

    .. math:: W \leftarrow \frac{W}{1 + W} \left(1 + \log \frac{x}{W}\right)

    is Newton's method on W + log W = log x (Iacono and Boyd, 2017): it neither overflows nor
    loses small x. Three steps from Winitzki's start (2003) reach machine precision everywhere.

    Args:
        x: finite, of at least 0.

    Example:
        >>> import math
        >>> from softmargin.theory import lambert_w
        >>> lambert_w(math.e)
        1.0
    """
    normal = x > torch.finfo(x.dtype).tiny  # below, W(x) is x
    positive = torch.where(normal, x, 1.0)
    start = positive.log1p()
    w = start * (1 - start.log1p() / (2 + start))
    for _ in range(3):  # each squares the relative error, which starts at 2 %
        w = w / (1 + w) * (1 + (positive / w).log())
    return torch.where(normal, w, x)


@closed_form
def gap(num_classes: Value, scale: Value) -> Value:
    r"""Return the gap between angles, in radians, that scale s makes ArcGrad open (AG eq. 19).

    .. math:: \tilde m = \frac{W((C - 1) / e) + 1}{s}

    Of all scales, s pulls hardest on a sample whose wrong classes are this much further away
    than its own: :func:`scale` turned round.

    Args:
        num_classes: C of at least 2.
        scale: s above 0.

    Example:
        >>> import math
        >>> from softmargin.theory import gap
        >>> round(math.degrees(gap(3, scale=1.0)), 1)
        83.8
    """
    return (lambert_w((num_classes - 1) / math.e) + 1) / scale


@closed_form
def scale(num_classes: Value, gap: Value) -> Value:
    r"""Return the scale s that pulls hardest on samples with a given gap of angles (AG eq. 19).

    .. math:: s = \frac{W((C - 1) / e) + 1}{\tilde m}
              = \arg\max_s \frac{s (C - 1) e^{-s \tilde m}}{1 + (C - 1) e^{-s \tilde m}}

    Args:
        num_classes: C of at least 2.
        gap: m̃ above 0: the wrong classes' angle less the target's, in radians.

    Example:
        >>> import math
        >>> from softmargin.theory import scale
        >>> round(scale(10, gap=math.radians(15)), 1)
        8.0
    """
    return (lambert_w((num_classes - 1) / math.e) + 1) / gap


def _denominator(p: Tensor, beta: Tensor) -> Tensor:
    # 1 + (β - 1)p without its cancellation: 1 - p is exact near p = 1
    return (1 - p) + beta * p


def _log_odds_path(z: Tensor, num_classes: Tensor) -> Tensor:
    others = num_classes - 1
    return others.log() - z * (num_classes / others)
