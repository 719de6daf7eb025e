"""Batch normalisation over the batches of all processes, as one process would see them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm

from softmargin.functional.margins import at_least_float32


class _Sum(torch.autograd.Function):
    """The sum over all processes, whose gradient is the sum of theirs."""

    @staticmethod
    def forward(_ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total


def _summed(values: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
    return total


class SynchronizedBatchNorm(_BatchNorm):
    """Batch normalisation by the mean and variance over the batches of all processes.

    What ``nn.SyncBatchNorm`` is on GPUs, for the CPU and every other device. Shares of a batch may
    differ in size and even be empty. Parameters, buffers and their names are those of
    ``nn.BatchNorm2d``: checkpoints fit either.

    Shape:
        input and output (N, C, ...).
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised batch; every process must call it as often."""
        self._check_input_dim(input)
        if not self.training:
            normalised: Tensor = super().forward(input)
            return normalised
        x = at_least_float32(input)
        over = [0, *range(2, x.ndim)]
        shape = (1, -1, *(1 for _ in over[1:]))
        count = x.new_full((1,), x.numel() / x.shape[1])
        sums = _summed(torch.cat([x.sum(over), count]))
        total = sums[-1].detach()
        if total <= 1:
            raise ValueError(
                "input must hold more than 1 value per channel over all processes when training, "
                f"but got shape {tuple(input.shape)}."
            )
        mean = sums[:-1] / total
        gaps = x - mean.view(shape)
        squares = _summed(gaps.square().sum(over))  # of the gaps, so that nothing cancels
        scale = (squares / total + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight
        output = gaps * scale.view(shape)
        if self.bias is not None:
            output = output + self.bias.view(shape)
        self._keep(mean.detach(), squares.detach() / (total - 1))
        return output.to(input.dtype)

    def _keep(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics, as ``nn.BatchNorm2d`` does."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        rate = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        for running, new in ((self.running_mean, mean), (self.running_var, variance)):
            running.mul_(1 - rate).add_(rate * new.to(running.dtype))

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"input must have shape (N, C, ...), but got {tuple(input.shape)}.")


def synchronize_batch_norm(model: nn.Module, device: torch.device) -> None:
    """Let the batch normalisations of a model go over the batches of all processes.

    Parameters and buffers stay the same objects, on GPUs within ``nn.SyncBatchNorm``.
    """
    if device.type == "cuda":
        nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        return
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                made = SynchronizedBatchNorm(child.num_features, child.eps, child.momentum)
                made._parameters, made._buffers = child._parameters, child._buffers
                made.train(child.training)
                setattr(parent, name, made)
