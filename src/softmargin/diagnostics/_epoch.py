"""The current epoch: the results of every sample, in memory that does not depend on C.

An update only copies its input to a buffer. A full buffer is processed at once, so a step costs
three small copies and its share of a few long vector operations.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softmargin.calibration._batch import worker
from softmargin.diagnostics._tensor_checks import check_floating, check_integers
from softmargin.functional._checks import check_classes, value_range

# Logits in the buffer: in float64 they fit the cache of a processor core.
WAITING = 1 << 16
ACCELERATOR_WAITING = 1 << 22  # an accelerator needs more at once
STEPS = 64  # in the buffer at most; more would hardly lower the cost per step
COLUMNS = 3  # margin, ρ̂, whether it was right (NaN if the sample was not seen)


class Step(NamedTuple):
    """Buffered steps: samples and target of shape (..., B), logits (..., B, C)."""

    samples: Tensor
    logits: Tensor
    target: Tensor


class Epoch:
    """The latest margin, ρ̂ and correctness of every sample, and steps not yet processed."""

    def __init__(self, num_samples: int, models: int | None, device: torch.device) -> None:
        """Start with nothing seen."""
        self.num_samples, self.models = num_samples, models
        self.rows = torch.full(((models or 1) * num_samples, COLUMNS), math.nan, device=device)
        self._offset = torch.arange(models or 1, device=device).unsqueeze(-1) * num_samples
        self._kind: Any = None  # shapes and types of the buffered steps
        self._buffer: Step | None = None
        self._slots: list[Step] = []  # views of the buffer, one per step
        self._used = 0

    def add(self, index: Tensor, logits: Tensor, target: Tensor) -> None:
        """Copy a step to the buffer; its tensors may change afterwards."""
        tensors = isinstance(index, Tensor) and isinstance(logits, Tensor)
        if not (tensors and isinstance(target, Tensor)):
            _check_step(index, logits, target, self.models)
        logits = logits.detach()
        kind = index.shape, logits.shape, target.shape, index.dtype, logits.dtype, target.dtype
        if kind != self._kind or logits.device != self._slots[0].logits.device:
            self.settle()
            _check_step(index, logits, target, self.models)
            if logits.numel() > _limit(logits) and logits.shape[-2] > 1:
                self._add_parts(index, logits, target)
                return
            self._prepare(logits)
            self._kind = kind
        if not self._used:
            # Mistakes are rarely made only once. Checking the values of every step would cost more
            # than everything else, so the first is checked now and the others when processed.
            self._check_values(index, target, logits.shape[-1])
        slot = self._slots[self._used]
        slot.samples.copy_(index)  # broadcasts if all models share it
        slot.logits.copy_(logits)
        slot.target.copy_(target)
        self._used += 1
        if self._used == len(self._slots):
            self.settle()

    def settle(self) -> None:
        """Process the buffered steps; if one raises an error, they are lost."""
        used, self._used = self._used, 0
        if not used or self._buffer is None:
            return
        step = Step(*(each[:used] for each in self._buffer))
        classes = step.logits.shape[-1]
        samples = step.samples.to(self.rows.device)
        if used > 1 or not step.logits.is_cpu:  # the first step was checked when it was added
            self._check_values(samples.cpu(), step.target, classes)
        place, kept = self._places(samples)
        logits, target = step.logits.view(-1, classes), step.target.view(-1)
        if kept is not None:
            on_device = kept.to(logits.device)
            place, logits, target = place[kept], logits[on_device], target[on_device]
        self._write(place, measure(logits, target).to(self.rows.device))

    def clear(self) -> None:
        """Start another epoch."""
        self.rows.fill_(math.nan)

    def _prepare(self, logits: Tensor) -> None:
        """Allocate a buffer for steps like this one, at least one."""
        count = min(STEPS, max(1, _limit(logits) // max(1, logits.numel())))
        device, shape = logits.device, (count, *logits.shape)
        wide = torch.float32 if device.type == "mps" else torch.float64
        with torch.inference_mode(False):  # or an evaluation could leave a read-only buffer
            samples, target = (
                torch.empty(shape[:-1], dtype=torch.int64, device=device) for _ in range(2)
            )
            self._buffer = Step(samples, torch.empty(shape, dtype=wide, device=device), target)
            self._slots = [Step(*each) for each in zip(*self._buffer, strict=True)]

    def _add_parts(self, index: Tensor, logits: Tensor, target: Tensor) -> None:
        """Add a step that is larger than the buffer, a few rows at a time."""
        rows = logits.shape[-2]
        size = max(1, _limit(logits) * rows // logits.numel())
        for start in range(0, rows, size):
            part = slice(start, start + size)
            self.add(index[..., part], logits[..., part, :], target[..., part])

    def _check_values(self, index: Tensor, target: Tensor, classes: int) -> None:
        check_index(index, self.num_samples, padded=self.models is not None)
        check_classes(target, classes)

    def _places(self, samples: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the row of every entry, model by model, and which are not padding."""
        if self.models is None:
            return samples.view(-1), None
        place = (samples + self._offset).view(-1)
        if not samples.numel() or int(samples.min()) >= 0:
            return place, None
        return place, (samples >= 0).view(-1)

    def _write(self, place: Tensor, values: Tensor) -> None:
        self.rows.index_copy_(0, place, values)
        # A sample that occurs twice may hold either value now. Rows with NaN are rewritten.
        if not torch.equal(self.rows.index_select(0, place), values):
            last = _last_of_each(place)
            self.rows.index_copy_(0, place[last], values[last])


def _limit(logits: Tensor) -> int:
    """Return how many logits the buffer may hold."""
    return WAITING if logits.is_cpu else ACCELERATOR_WAITING


def measure(logits: Tensor, target: Tensor) -> Tensor:
    """Return margin, ρ̂ and correctness of logits (M, C), computed in float64, as float32 (M, 3).

    The confidence needs no column: its log-odds are the margin minus ρ̂. Logits that are already
    float64 are overwritten.
    """
    logits = logits.to(worker(logits.device), torch.float64)
    count, classes = logits.shape
    target = target.to(logits.device)
    places = torch.arange(0, count * classes, classes, device=logits.device) + target
    others = logits.view(-1)
    mine = others.index_select(0, places)
    # the lowest finite number, not -inf: see functional.margins.without_target
    others.index_fill_(0, places, torch.finfo(logits.dtype).min)
    rival = logits.amax(1)
    margin = mine - rival
    logits.sub_(rival.unsqueeze(1))
    # count the target as e^0 and subtract that: e^(lowest) takes ten times as long
    others.index_fill_(0, places, 0.0)
    bias = logits.exp_().sum(1).sub_(1.0).clamp_min_(1.0).log_()
    right = margin > 0
    level = margin == 0
    if bool(level.any()):  # of equal predictions the first counts; all of those are e^0 now
        right[level] = logits[level].argmax(1) == target[level]
    return torch.stack((margin, bias, right.double()), 1).float()


def _last_of_each(place: Tensor) -> Tensor:
    """Return the index of the last occurrence of each place."""
    ordered, order = place.sort(stable=True)
    ends = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=ends[:-1])
    return order[ends]


def _check_step(index: Tensor, logits: Tensor, target: Tensor, models: int | None) -> None:
    """Raise unless the shapes and types of one step fit together; values are not checked."""
    check_floating("logits", logits)
    lead = logits.shape[:-1]
    if models is None:
        good, wanted = len(lead) == 1, "(B, C)"
    else:
        good, wanted = len(lead) == 2 and lead[0] == models, f"({models}, B, C)"
    if not good or logits.shape[-1] < 2:
        raise ValueError(
            f"logits must have shape {wanted} with at least 2 classes, "
            f"but got {tuple(logits.shape)}."
        )
    for name, value in (("index", index), ("target", target)):
        check_integers(name, value)
        if value.shape != lead and value.shape != lead[-1:]:
            shapes = " or ".join(str(tuple(s)) for s in dict.fromkeys((lead, lead[-1:])))
            raise ValueError(
                f"{name} must have shape {shapes} for these logits, but got {tuple(value.shape)}."
            )


def check_index(index: Tensor, num_samples: int, *, padded: bool) -> None:
    """Raise ``IndexError`` if an index names a sample that does not exist."""
    extremes = value_range(index)
    if extremes is None:
        return
    lowest, highest = extremes
    if lowest < (-1 if padded else 0) or highest >= num_samples:
        wrong = int(highest if highest >= num_samples else lowest)
        allowed = f"samples from 0 to {num_samples - 1}" + (" or -1 for padding" if padded else "")
        raise IndexError(f"index must hold {allowed}, but got {wrong}.")
