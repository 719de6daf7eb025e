"""The closed forms of gradient decay, for plots, tests and choosing a β.

Notation: J = log(β + e^ξ) is :func:`softmargin.functional.gradient_decay_loss` of one sample,
z_c the target's logit, p its softmax probability, and G = -∂J/∂z_c the gradient's magnitude.

Every function takes numbers, NumPy arrays and tensors, mixed and broadcast. It returns a tensor
(of the tensors' dtype and device, differentiable) if one of them is a tensor, a float64 array if
one is an array, and otherwise a float.
"""

from softmargin.theory.decay import (
    confidence_path,
    curvature,
    curvature_slope,
    gradient_magnitude,
    gradient_magnitude_curvature,
    gradient_magnitude_path,
    gradient_magnitude_slope,
    hessian,
    hessian_max_eigenvalue,
    inflection,
    local_lipschitz,
    step_size,
)
from softmargin.theory.margins import (
    embedded_bias_bound,
    gap,
    hinge,
    lambert_w,
    scale,
    softplus,
    two_category_divergence,
)

__all__ = [
    "confidence_path",
    "curvature",
    "curvature_slope",
    "embedded_bias_bound",
    "gap",
    "gradient_magnitude",
    "gradient_magnitude_curvature",
    "gradient_magnitude_path",
    "gradient_magnitude_slope",
    "hessian",
    "hessian_max_eigenvalue",
    "hinge",
    "inflection",
    "lambert_w",
    "local_lipschitz",
    "scale",
    "softplus",
    "step_size",
    "two_category_divergence",
]
