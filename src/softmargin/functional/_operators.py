"""The fused kernel as registered operators, for code that ``torch.compile`` compiles.

There are two: ``softmargin::loss`` returns the loss and, where it is learned from, its gradient,
which the backward pass multiplies; ``softmargin::loss_gradient`` is the backward pass of
half-precision logits, whose gradient is rounded once. What the kernel declines when it runs, they
compute by PyTorch's operations. Eager code does not come here: it goes around the dispatcher.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from softmargin._kernel import library
from softmargin.functional import _fused
from softmargin.functional._criterion import result_dtype
from softmargin.functional._fused_settings import FORMS, PLAIN, TYPES, Given, knows, settle
from softmargin.functional.margins import HALF

FEWEST_CLASSES = 256
"""With fewer classes, calling an operator takes longer than what a compiler makes of the loss."""


def _again(given: Given, input: Tensor) -> Tensor:
    """Return the same loss of some logits."""
    from softmargin.functional import softmax  # whose functions come here

    options: dict[str, Any] = {
        "tau": given.tau,
        "weight": given.weight,
        "ignore_index": given.ignore_index,
        "reduction": given.reduction,
        "label_smoothing": given.label_smoothing,
    }
    if given.lam is not None:
        options |= {"lam": given.lam, "divergence": given.divergence, "beta": given.setting}
        return softmax.regularized_softmax_loss(input, given.target, **options)
    if given.form == "focal":
        return softmax.focal_loss(input, given.target, gamma=given.setting, **options)
    if given.form == "margin":
        return softmax.soft_margin_softmax_loss(
            input, given.target, margin=given.setting, **options
        )
    options |= {"floored": given.form == "floored", "compensate": given.compensate}
    return softmax.gradient_decay_loss(input, given.target, beta=given.setting, **options)


ARGUMENTS = (
    "Tensor input, Tensor target, str form, Tensor setting, Tensor tau, Tensor? weight, "
    "SymInt ignore_index, str reduction, Tensor label_smoothing, Tensor? lam, str divergence, "
    "bool compensate, ScalarType dtype"
)
"""Numbers are tensors: a compiler would compile again for every other number. ``dtype`` is the
loss's."""

REDUCTION = 7
"""The place of that argument."""


def _flat(given: Given, dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the arguments as the operators have them."""
    return (
        *(given.input, given.target, given.form, _tensor(given.setting), _tensor(given.tau)),
        *(given.weight, given.ignore_index, given.reduction, _tensor(given.label_smoothing)),
        *(None if given.lam is None else _tensor(given.lam), given.divergence, given.compensate),
        dtype,
    )


def _tensor(setting: float | Tensor) -> Tensor:
    if isinstance(setting, Tensor):
        return setting
    # a product: to fill a tensor with a number would fix it in the graph
    return torch.ones((), dtype=torch.float64) * setting


def _given(
    input: Tensor,
    target: Tensor,
    form: str,
    setting: Tensor,
    tau: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: Tensor,
    lam: Tensor | None,
    divergence: str,
    compensate: bool,
) -> Given:
    """Return the arguments of an operator that runs as those of a loss."""
    return Given(
        form,
        setting if setting.ndim else setting.item(),
        input,
        target,
        tau.item(),
        weight,
        ignore_index,
        reduction,
        label_smoothing.item(),
        None if lam is None else lam.item(),
        divergence,
        compensate,
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _followed() -> bool:
    """Whether somebody follows the operations whom an operator would stop, as far as one can tell.

    That is ``torch.export``, ``torch.func`` or forward mode, at the time of compiling.
    """
    exporting = getattr(torch.compiler, "is_exporting", None)
    if exporting is None or exporting():  # PyTorch 2.6 does not say
        return True
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def takes(given: Given) -> bool:
    """Whether the operators know this kind of arguments; values are looked at when they run."""
    input, target = given.input, given.target
    if _fused.kernel is None or _followed() or not isinstance(target, Tensor):
        return False
    if not _fused.usual(input, target) or input.shape[input.ndim > 1] < FEWEST_CLASSES:
        return False
    settings = (given.setting, given.tau, 0.0 if given.lam is None else given.lam)
    if not all(map(_constant, settings)) or given.form not in FORMS:
        return False
    if given.weight is not None and not _constant(given.weight):
        return False
    if type(given.ignore_index) is not int or given.reduction not in library.REDUCTIONS:
        return False
    if type(given.label_smoothing) not in (float, int):
        return False
    return knows(given)


def _constant(setting: float | Tensor) -> bool:
    """Whether a setting is a number or a tensor of the CPU that is not learned."""
    if not isinstance(setting, Tensor):
        return type(setting) in (float, int)
    if type(setting) not in PLAIN or setting.requires_grad:
        return False
    return setting.is_cpu and setting.dtype in TYPES


def loss(given: Given) -> Tensor:
    """Return the loss by the operator; only what it takes."""
    learning = given.input.requires_grad and torch.is_grad_enabled()
    dtype = result_dtype(given.input, given.target)
    found: Tensor = torch.ops.softmargin.loss(*_flat(given, dtype), learning)[0]
    return found


def _loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    *flat, dtype, learning = arguments
    given = _given(*flat)
    done = _by_kernel(given, dtype, learning)
    if done is not None:
        found, gradient = done
    else:
        found, gradient = _by_operations(given, dtype, learning)
    return found, given.input.new_empty(0) if gradient is None else gradient


def _gradient(upstream: Tensor, *arguments: Any) -> Tensor:
    *flat, dtype = arguments
    given = _given(*flat)
    done = _by_kernel(given, dtype, True, upstream.contiguous())
    if done is None:
        done = _by_operations(given, dtype, True, upstream)
    gradient = done[1]
    assert gradient is not None
    return gradient


Done = tuple[Tensor, Tensor | None]


def _by_kernel(
    given: Given, dtype: torch.dtype, learning: bool, upstream: Tensor | None = None
) -> Done | None:
    input = given.input.contiguous()  # the gradient is
    settled = settle(given)
    if settled is None:
        return None
    done = _fused.run(input, given.target, settled, learning, upstream, dtype)
    return None if done is None else done[:2]


def _by_operations(
    given: Given, dtype: torch.dtype, learning: bool, upstream: Tensor | None = None
) -> Done:
    """Return loss and gradient by PyTorch's operations; without ``upstream``, not in half."""
    if not learning:
        return _again(given, given.input).to(dtype), None
    with _recording():
        leaf = given.input.detach().requires_grad_()
        found = _again(given, leaf).to(dtype)
        gradient = None
        if upstream is not None or leaf.dtype not in HALF:
            upstream = torch.ones_like(found) if upstream is None else upstream
            (gradient,) = torch.autograd.grad(found, leaf, upstream)
            gradient = gradient.contiguous()
    return found.detach(), gradient


@contextlib.contextmanager
def _recording() -> Iterator[None]:
    """Let autograd see operations inside an operator, where it is past."""
    autograd = torch._C.DispatchKey.AutogradFunctionality
    with torch._C._SetExcludeDispatchKeyGuard(autograd, False), torch.enable_grad():
        yield


def _fake_loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    input, target, *_, dtype, learning = arguments
    shape = target.shape
    if arguments[REDUCTION] != "none":
        shape = torch.Size()
    elif target.is_floating_point():
        shape = input.shape[: input.ndim > 1] + input.shape[2:]
    early = learning and input.dtype not in HALF
    return input.new_empty(shape, dtype=dtype), input.new_empty(input.shape if early else 0)


def _fake_gradient(_upstream: Tensor, input: Tensor, *_arguments: Any) -> Tensor:
    return input.new_empty(input.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    tensors = [each if isinstance(each, Tensor) else None for each in inputs]
    ctx.save_for_backward(*tensors, output[1])
    ctx.others = [None if isinstance(each, Tensor) else each for each in inputs]


def _backward(ctx: Any, upstream: Tensor | None, _: object) -> tuple[Tensor | None, ...]:
    nothing = (None,) * (len(ctx.others) - 1)
    if upstream is None:
        return None, *nothing
    *tensors, gradient = ctx.saved_tensors
    pairs = zip(tensors, ctx.others, strict=True)
    *flat, dtype, _learning = (other if tensor is None else tensor for tensor, other in pairs)
    input = flat[0]
    if torch.is_grad_enabled():  # a gradient that may itself be differentiated
        found = _again(_given(*flat), input).to(dtype)
        (of_input,) = torch.autograd.grad(found, input, upstream, create_graph=True)
        return of_input, *nothing
    if input.dtype in HALF:
        return torch.ops.softmargin.loss_gradient(upstream, *flat, dtype), *nothing
    if flat[REDUCTION] == "none" and input.ndim > 1:
        upstream = upstream.unsqueeze(1)
    return (gradient * upstream).to(input.dtype), *nothing


def _register() -> torch.library.Library:
    """Define the operators; they live as long as what is returned."""
    operators: Any = torch.library.Library("softmargin", "FRAGMENT")  # type: ignore[no-untyped-call]
    operators.define(f"loss({ARGUMENTS}, bool learning) -> (Tensor, Tensor)")
    operators.define(f"loss_gradient(Tensor upstream, {ARGUMENTS}) -> Tensor")
    operators.impl("loss", _loss, "CPU")
    operators.impl("loss_gradient", _gradient, "CPU")
    torch.library.register_fake("softmargin::loss", _fake_loss, lib=operators)
    torch.library.register_fake("softmargin::loss_gradient", _fake_gradient, lib=operators)
    torch.library.register_autograd(
        "softmargin::loss", _backward, setup_context=_keep, lib=operators
    )
    return operators  # type: ignore[no-any-return]


operators = _register()
