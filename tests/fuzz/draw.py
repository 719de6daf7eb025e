"""What random calls are made of: numbers of all sizes, tensors of all types and layouts."""

from __future__ import annotations

import contextlib

import numpy as np
import torch

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
HALF = (torch.bfloat16, torch.float16)
MODES = (contextlib.nullcontext, contextlib.nullcontext, torch.no_grad, torch.inference_mode)


def pick(rng, choices, p=None):
    """Return one of some things, which NumPy does not turn into an array."""
    return choices[int(rng.choice(len(choices), p=p))]


def chance(rng, p):
    return bool(rng.random() < p)


def compute_precision(dtype):
    return torch.finfo(torch.float32 if dtype in HALF else dtype)


def logits(rng, shape, dim, dtype):
    """Return finite numbers of some magnitude, maybe with ties, a giant or masked classes."""
    size = pick(rng, [1e-30, 1e-6, 1e-2, 1.0, 1.0, 3.0, 3.0, 20.0, 300.0, 1e4, 1e10, 1e30])
    values = rng.standard_normal(shape) * size
    kind = pick(rng, ["plain", "plain", "ties", "equal", "huge", "offset", "masked", "lowest"])
    some = rng.random(shape) < 0.3
    if kind == "ties":
        values = np.round(values / size) * size
    elif kind == "equal":
        values = np.full(shape, values.flat[0] if values.size else 0.0)
    elif kind == "huge":
        values = np.where(some, values * pick(rng, [1e3, 1e10, 1e25]), values)
    elif kind == "offset":
        values = values + pick(rng, [-1e8, 1e8, 1e4, -30.0])
    highest = torch.finfo(dtype).max
    tensor = torch.from_numpy(np.clip(values, -highest, highest)).to(dtype)
    tensor = tensor.clamp(-highest, highest)
    if kind in ("masked", "lowest") and tensor.numel():
        # never a whole row
        keep = torch.from_numpy(rng.integers(shape[dim], size=[*shape[:dim], 1, *shape[dim + 1 :]]))
        mask = torch.from_numpy(some).scatter(dim, keep, False)
        tensor = tensor.masked_fill(mask, -torch.inf if kind == "masked" else -highest)
    return tensor


def laid_out(rng, tensor):
    """Return the same values in some other layout of memory."""
    kind = pick(rng, ["plain", "transposed", "sliced", "channels_last", "offset"])
    if kind == "transposed" and tensor.ndim >= 2:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == "sliced" and tensor.ndim:
        wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    if kind == "channels_last" and tensor.ndim == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    if kind == "offset" and tensor.numel():
        return torch.cat([tensor.flatten()[:1], tensor.flatten()])[1:].view(tensor.shape)
    return tensor


def setting(rng, value, learned=False):
    """Return a number as itself or as a 0-d tensor; and the number that it then is."""
    if not learned and chance(rng, 0.6):
        return value, value
    dtype = pick(rng, (torch.float64, torch.float32, torch.bfloat16))
    tensor = torch.tensor(value, dtype=dtype)
    return tensor, tensor.double().item()


def numbers(tensor):
    """Return a tensor's values in NumPy's float64, exactly."""
    return tensor.detach().to(torch.float64).numpy()


def layout_of(tensor):
    return f"{tensor.dtype} {tuple(tensor.shape)} strides {tensor.stride()}"
