"""Linear layer and loss in one.

From tens of thousands of classes on, the logits are the largest thing in memory by far. Here they
never exist as a whole.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.functional import _checks as checks
from softmargin.functional._chunks import Job, loss_of_products
from softmargin.functional._class_chunks import Decay
from softmargin.functional._criterion import LOSS_ARGUMENTS
from softmargin.functional._plain_directions import autocasts
from softmargin.functional._products import Products, Samples
from softmargin.functional.softmax import gradient_decay_loss, regularized_softmax_loss


@document_arguments(
    LOSS_ARGUMENTS,
    input="features of shape (D) or (N, D).",
    linear_weight="one row per class, of shape (C, D).",
    target="class indices of shape () or (N), or class probabilities of shape (C) or (N, C).",
    beta="gradient decay factor above 0: a number, a 0-d tensor or one value per class.",
    lam="λ of at least 0, the share of a divergence that levels the non-target logits.",
    divergence="which one, as in :func:`regularized_softmax_loss`.",
    linear_bias="one number per class, of shape (C,), or None.",
    floored="whether to subtract log β, so that the minimum is 0; not together with λ.",
)
def linear_gradient_decay_loss(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    beta: float | Tensor = 1.0,
    tau: float | Tensor = 1.0,
    lam: float | Tensor = 0.0,
    divergence: str = "symmetric",
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    floored: bool = False,
) -> Tensor:
    r"""Return the loss of a linear layer's logits without ever holding all of them.

    It is ``gradient_decay_loss(F.linear(input, linear_weight, linear_bias), target, ...)``, or
    ``regularized_softmax_loss`` where λ is not 0, with the same value and gradients, in the manner
    of ``F.linear_cross_entropy``. A loss that is reduced to one number computes its gradients in
    the forward pass; ``reduction="none"`` computes the logits again in the backward pass. Under
    compilers, function transforms and autocast, and where a setting is learned, the logits are
    computed as a whole.

    Example:
        >>> import torch
        >>> from softmargin.functional import linear_gradient_decay_loss
        >>> features, classes = torch.ones(2, 3), torch.eye(4, 3)
        >>> linear_gradient_decay_loss(features, classes, torch.tensor([0, 3]), beta=0.1)
        tensor(1.5071)
    """
    _check(input, linear_weight, linear_bias, target)
    checks.check_flag("floored", floored)
    checks.check_choice("reduction", reduction, checks.REDUCTIONS)
    checks.check_setting("lam", lam, inclusive=True)
    levels = isinstance(lam, Tensor) or lam != 0
    if levels and floored:
        raise ValueError("floored must be False where lam is not 0, but got True.")

    def of_logits(logits: Tensor, target: Tensor, reduction: str) -> Tensor:
        shared: dict[str, Any] = {
            "beta": beta,
            "tau": tau,
            "weight": weight,
            "ignore_index": ignore_index,
            "reduction": reduction,
            "label_smoothing": label_smoothing,
        }
        if levels:
            return regularized_softmax_loss(logits, target, lam, divergence, **shared)
        return gradient_decay_loss(logits, target, **shared, floored=floored)

    decay = Decay(beta, tau, floored, lam, divergence, label_smoothing)
    job = Job(of_logits, Samples(target, weight, ignore_index), reduction, decay)
    products = Products(input, linear_weight, linear_bias)
    if autocasts(input):
        return job.whole(products)
    return loss_of_products(products, job, beta, tau, lam)


def _check(
    input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None, target: Tensor
) -> None:
    for name, value in (("input", input), ("linear_weight", linear_weight)):
        checks.check_tensor(name, value)
        if not value.is_floating_point():
            raise NotImplementedError(f"{name} must be floating-point, but got {value.dtype}.")
    if linear_weight.ndim != 2:
        shape = tuple(linear_weight.shape)
        raise ValueError(f"linear_weight must have shape (C, D), but got {shape}.")
    classes, size = linear_weight.shape
    if input.ndim not in (1, 2) or input.shape[-1] != size:
        allowed = f"({size},) or (N, {size})"
        raise ValueError(f"input must have shape {allowed}, but got {tuple(input.shape)}.")
    if linear_bias is not None:
        checks.check_tensor("linear_bias", linear_bias)
        if linear_bias.shape != (classes,):
            shape = tuple(linear_bias.shape)
            raise ValueError(f"linear_bias must have shape ({classes},), but got {shape}.")
    for name, other in (("linear_weight", linear_weight), ("linear_bias", linear_bias)):
        if other is not None and (other.dtype, other.device) != (input.dtype, input.device):
            raise TypeError(
                f"{name} must be {input.dtype} on {input.device} like input, "
                f"but got {other.dtype} on {other.device}."
            )
    checks.check_tensor("target", target)
    checks.check_fit(input.new_empty((*input.shape[:-1], classes), device="meta"), target)
