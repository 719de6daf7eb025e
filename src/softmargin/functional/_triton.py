"""Losses by the Triton kernels of :mod:`softmargin.functional._triton_rows`, on CUDA devices.

What they do not know is left to PyTorch's operations. Nothing here waits for the device: settings
stay where they are, and a class that does not exist makes the loss NaN.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from softmargin.functional import _checks as checks
from softmargin.functional._criterion import result_dtype
from softmargin.functional._fused_settings import Given
from softmargin.functional._products import Samples
from softmargin.functional.divergences import SHARES
from softmargin.functional.margins import LIMITS, compute_dtype, needs_plain_operations

DEVICES = {"cuda"}
"""Types of devices that the kernels are used on."""

MOST_CLASSES_AT_A_TIME = 4096
FORMS = {"decay": 0, "floored": 1, "margin": 1, "focal": 2}
Again = Callable[[Tensor], Tensor]


@functools.cache
def kernels() -> ModuleType | None:
    """Return the kernels, None where there is no Triton."""
    if importlib.util.find_spec("triton") is None:
        return None
    return importlib.import_module("softmargin.functional._triton_rows")


def loss(given: Given, again: Again) -> Tensor:
    """Return a loss by Triton, or by PyTorch's operations."""
    if not _takes(given) or kernels() is None:
        return again(given.input)
    input, weight = given.input, given.weight
    checks.check_choice("reduction", given.reduction, checks.REDUCTIONS)
    checks.check_label_smoothing(given.label_smoothing)
    checks.check_ignore_index(given.ignore_index)
    checks.check_setting("tau", given.tau)
    classes = input.shape[1]
    if weight is not None:
        checks.check_weight(weight, classes)
    if given.form in ("decay", "floored"):
        checks.check_setting("beta", given.setting, classes)
    return _Loss.apply(input, Call(given, again))  # type: ignore[no-any-return, no-untyped-call]


def _takes(given: Given) -> bool:
    """Whether the kernels know this kind of arguments, and nobody follows the operations."""
    input, target = given.input, given.target
    if not isinstance(input, Tensor) or input.device.type not in DEVICES:
        return False
    if needs_plain_operations() or torch._C._len_torch_dispatch_stack():
        return False
    if torch._C._get_tracing_state() is not None or input.dtype not in LIMITS:
        return False
    settings = given.setting, given.tau, given.weight, given.lam
    tensors = [input, target, *(x for x in settings if isinstance(x, Tensor))]
    if any(type(x) not in (Tensor, nn.Parameter) for x in tensors):
        return False
    if any(x.ndim and x.device != input.device for x in tensors):
        return False
    if any(x.requires_grad for x in tensors[1:]) or input.ndim != 2 or input.shape[1] < 2:
        return False
    if len(input) == 0:
        return False
    if target.is_floating_point():
        return target.shape == input.shape and given.ignore_index < 0
    return target.dtype in (torch.int64, torch.uint8) and target.shape == input.shape[:1]


class Call:
    """One call of the kernels: their arguments, and what the backward pass needs."""

    def __init__(self, given: Given, again: Again) -> None:
        input, target, smoothing = given.input, given.target, given.label_smoothing
        device, classes, self.again = input.device, input.shape[1], again
        self.reduction, self.compensate = given.reduction, given.compensate
        self.dtype, self.result = compute_dtype(input), result_dtype(input, target)
        self.form, self.soft = FORMS[given.form], target.is_floating_point()
        self.smooth = self.soft or smoothing > 0
        samples = Samples(target, given.weight, given.ignore_index)
        self.weights = torch.ones(classes, dtype=self.dtype, device=device)
        if given.weight is not None:
            self.weights = given.weight.detach().to(self.dtype).contiguous()
        if self.soft:
            # every class has a share; the largest logit is the one that others are compared with
            self.index = input.detach().argmax(1)
            self.probabilities = _by_row(target.detach())
            counted = self.samples = torch.ones(len(input), dtype=self.dtype, device=device)
            self.norm: Tensor | int = len(input)
        else:
            index = samples.index()
            assert index is not None
            self.index = index.squeeze(1).contiguous()
            self.probabilities = input.detach()  # they are not read
            counted = samples.counted().to(self.dtype)
            self.samples = samples.shares().to(self.dtype)
            self.norm = self.samples.sum()
        self.shares = self.samples * (1 - smoothing)
        self.smooths = counted * (smoothing / classes)
        self.parameters = _parameters(given.form, given.setting, device)
        self.tau = _on_device(given.tau, device)
        self.lam = _on_device(0.0 if given.lam is None else given.lam, device)
        self.divergence = (0.0, 0.0) if given.lam is None else SHARES[given.divergence]
        self.factor: Tensor | float = 1.0
        self.block = min(MOST_CLASSES_AT_A_TIME, 2 ** math.ceil(math.log2(classes)))
        rows = kernels()
        assert rows is not None
        self.kept = torch.empty((len(input), rows.KEPT.value), dtype=self.dtype, device=device)
        self.places = torch.empty_like(self.index)

    def arguments(self, logits: Tensor) -> tuple[Any, ...]:
        """Return those that both kernels have first."""
        per_class = 1 if self.parameters.ndim else 0
        rows = logits, logits.stride(0), self.index
        soft = self.probabilities, self.probabilities.stride(0)
        settings = self.parameters, per_class, self.tau, self.lam
        return (*rows, *soft, *settings, self.weights, self.shares, self.smooths)

    def options(self, rows: ModuleType) -> dict[str, Any]:
        """Return what the kernels are compiled for."""
        kind = rows.tl.float64 if self.dtype == torch.float64 else rows.tl.float32
        to_uniform, from_uniform = self.divergence
        return {
            "FORM": self.form,
            "SMOOTH": self.smooth,
            "SOFT": self.soft,
            "TO_UNIFORM": to_uniform,
            "FROM_UNIFORM": from_uniform,
            "TYPE": kind,
            "BLOCK": self.block,
        }

    def losses(self, logits: Tensor) -> Tensor:
        """Return the loss of every row, and keep what the gradient needs."""
        rows = kernels()
        assert rows is not None
        out = self.kept.new_empty(len(logits))
        rest = out, self.kept, self.places, logits.shape[1]
        lowest = LIMITS[logits.dtype][0]
        grid = (len(logits),)
        options = {"LOWEST": lowest, "COMPENSATE": self.compensate, **self.options(rows)}
        rows.losses[grid](*self.arguments(logits), *rest, **options)
        if self.compensate:
            self.factor = self._compensation()
        return out * self.factor

    def _compensation(self) -> Tensor:
        """Return the mean of 1 - p over the mean of the gradient's magnitude (GD eq. 10)."""
        xi, log_beta = self.kept[:, 2], self.parameters.to(self.dtype)
        if self.soft:
            plain, own = self.kept[:, -2:].sum(0)  # by the kernel, from the classes' shares
        else:
            if log_beta.ndim:
                log_beta = log_beta[self.index]
            plain = (torch.sigmoid(xi) * self.samples).sum()
            own = (torch.sigmoid(xi - log_beta) * self.samples).sum()
        return torch.where(own > 0, plain / torch.where(own > 0, own, 1.0), 1.0)

    def gradient(self, logits: Tensor, upstream: Tensor) -> Tensor:
        """Return the gradient of the logits for one of the loss."""
        rows = kernels()
        assert rows is not None
        above = upstream.to(self.dtype) * self.factor
        if self.reduction == "mean":
            above = above / self.norm
        above = above.expand(len(logits)).contiguous()
        found = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        rest = above, self.kept, self.places, found, logits.shape[1]
        rows.gradients[(len(logits),)](*self.arguments(logits), *rest, **self.options(rows))
        return found


def _parameters(form: str, setting: float | Tensor, device: torch.device) -> Tensor:
    """Return log β, one per class where there is that, or γ, in float64 on the device."""
    value = _on_device(setting, device)
    if form == "focal":
        return value
    return -value if form == "margin" else value.log().contiguous()


def _by_row(matrix: Tensor) -> Tensor:
    """Return a matrix whose rows are contiguous."""
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def _on_device(setting: float | Tensor, device: torch.device) -> Tensor:
    """Return a setting in float64; a number is filled in there, which a captured graph can do."""
    if isinstance(setting, Tensor):
        return setting.detach().to(torch.float64).to(device, non_blocking=True)
    return torch.full((), float(setting), dtype=torch.float64, device=device)


class _Loss(torch.autograd.Function):
    """The kernels as one function of the logits."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, call: Call) -> Tensor:
        losses = call.losses(_by_row(input.detach()))
        ctx.save_for_backward(input)
        ctx.call = call
        if call.reduction != "none":
            losses = losses.sum()
        if call.reduction == "mean":
            losses = losses / call.norm
        return losses.to(call.result)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (input,) = ctx.saved_tensors
        call: Call = ctx.call
        if torch.is_grad_enabled() or needs_plain_operations():
            with torch.enable_grad():
                loss = call.again(input).to(call.result)
            create = torch.is_grad_enabled()
            return torch.autograd.grad(loss, input, upstream, create_graph=create)[0], None
        return call.gradient(_by_row(input.detach()), upstream), None
