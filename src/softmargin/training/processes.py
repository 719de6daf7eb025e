"""Where a run computes: its device, and the processes that a launcher has started."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed as dist

from softmargin.training.config import OptionError


def device_name(name: str, *, cuda: bool, mps: bool, local_rank: int) -> str:
    """Return which device a name stands for.

    ``"auto"`` is an accelerator if there is one. Processes on one machine take one GPU each, by
    their number, unless a GPU is named.
    """
    if name == "auto":
        name = "cuda" if cuda else "mps" if mps else "cpu"
    return f"cuda:{local_rank}" if name == "cuda" else name


def backend_for(device: torch.device) -> str:
    """Return what processes that compute on such a device talk through."""
    return "nccl" if device.type == "cuda" else "gloo"


def find_device(name: str) -> torch.device:
    """Return the device of that name; ``"auto"`` is an accelerator if there is one."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    try:
        device = torch.device(device_name(name, cuda=cuda, mps=mps, local_rank=rank))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise OptionError(
            "device", f"device must be auto, cpu, or one that is here, but got {name!r}: {reason}."
        ) from None
    return device


@contextmanager
def processes(device: torch.device) -> Iterator[tuple[int, int]]:
    """Join the other processes that a launcher such as ``torchrun`` has started, if any."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1 or dist.is_initialized():
        yield (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend_for(device))
    try:
        yield dist.get_rank(), dist.get_world_size()
    finally:
        gc.collect()  # what wraps the model holds the group, whose threads must end before us
        dist.destroy_process_group()
