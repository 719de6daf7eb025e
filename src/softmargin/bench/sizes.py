"""What grows with the size of the work: time, memory, and bytes moved beside those of a copy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import softmargin
from softmargin.bench.losses import BETA, of_linear, one_hot_idiom, shifted_formula, step
from softmargin.bench.measure import Contenders, best_times, exponent, peak_bytes
from softmargin.bench.together import members, several

ROWS = (64, 256, 1024, 4096)
CLASSES = (100, 1000, 10_000, 100_000)
MODELS = (1, 10, 100, 1000)
MOVED = ((1024, 1000), (512, 32000))

Row = dict[str, Any]


def growth(quick: bool, seconds: float) -> list[Row]:
    """Return the time by samples N, classes C and models K, with the exponent of a power law."""
    end = 2 if quick else None
    sizes = {
        "N": [(rows, 100) for rows in ROWS[:end]],
        "C": [(256, classes) for classes in CLASSES[:end]],
    }
    rows = []
    for axis, shapes in sizes.items():
        times = [
            best_times(
                {
                    "cross-entropy": step(nn.CrossEntropyLoss(), shape),
                    "gradient decay": step(softmargin.GradientDecayLoss(BETA), shape),
                },
                seconds,
            )
            for shape in shapes
        ]
        along = [shape[0 if axis == "N" else 1] for shape in shapes]
        for name in times[0]:
            rows.append(_law(axis, name, along, [each[name] for each in times]))
    counts = list(MODELS[:end])
    softmax: dict[str, Any] = {"softmax": {}}
    of_models = [best_times({"": several(*members(softmax, k))}, seconds, 1)[""] for k in counts]
    return [*rows, _law("K", "train_together", counts, of_models)]


def _law(axis: str, name: str, sizes: list[int], seconds: list[float]) -> Row:
    power = exponent(sizes, seconds)
    return {"axis": axis, "name": name, "sizes": sizes, "seconds": seconds, "exponent": power}


def memory(quick: bool) -> list[Row]:
    """Return the peak of what forward and backward allocate, in buffers of the logits' size."""
    shape = (64, 1000) if quick else (256, 10_000)
    size = shape[0] * shape[1] * 4
    criteria: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "cross-entropy": nn.CrossEntropyLoss(),
        "one-hot idiom": one_hot_idiom,
        "shifted formula": shifted_formula,
        "gradient decay": softmargin.GradientDecayLoss(BETA),
        "regularised": softmargin.RegularizedSoftmaxLoss(),
    }
    work = f"{shape[0]} × {shape[1]}"
    rows = [
        {"work": work, "name": name, "bytes": (peak := peak_bytes(step(each, shape)))}
        | {"buffers": peak / size}
        for name, each in criteria.items()
    ]
    for case in of_linear(quick):
        for name, contender in case.contenders.items():
            rows.append({"work": case.work, "name": name, "bytes": peak_bytes(contender)})
    return rows


def roofline(quick: bool, seconds: float) -> list[Row]:
    """Return the gigabytes per second of what must be moved: logits read, gradient written."""
    rows = []
    for shape in MOVED[: 1 if quick else None]:
        logits = torch.randn(shape)
        out = torch.empty_like(logits)
        contenders: Contenders = {
            "copy": partial(out.copy_, logits),
            "gradient decay": step(softmargin.GradientDecayLoss(BETA), shape),
            "cross-entropy": step(nn.CrossEntropyLoss(), shape),
        }
        best = best_times(contenders, seconds)
        moved = 2 * logits.numel() * logits.element_size()
        for name, time in best.items():
            rate = moved / time / 1e9
            share = best["copy"] / time
            work = f"{shape[0]} × {shape[1]}"
            rows.append({"work": work, "name": name, "gigabytes_per_second": rate, "share": share})
    return rows
