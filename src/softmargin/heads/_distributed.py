"""One batch out of the batches of all processes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch import distributed as dist


def gathered(values: Tensor) -> Tensor:
    """Return the values of all processes in one vector; just these where there is one process."""
    if not (dist.is_available() and dist.is_initialized()):
        return values
    length = torch.tensor([len(values)], device=values.device)
    lengths = [torch.zeros_like(length) for _ in range(dist.get_world_size())]
    dist.all_gather(lengths, length)
    counts = [int(count) for count in lengths]
    padded = values.new_zeros(max(counts))
    padded[: len(values)] = values
    parts = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
