"""Post-hoc scaling against PyTorch's strong-Wolfe LBFGS to the same accuracy, one thread."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import best_times, report
from softmargin.calibration.scaling import TemperatureScaling, VectorScaling

ACCURACY = 1e-6  # of a temperature, relative
ROWS, CLASSES = 10_000, 100


def data(temperature: float, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return float32 logits and targets whose best temperature is near ``temperature * scale``."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(ROWS, CLASSES, generator=generator)
    target = torch.multinomial((logits / temperature).softmax(1), 1, generator=generator)
    return scale * logits, target.squeeze(1)


def minimise(parameters: list[Tensor], loss: Callable[[], Tensor], tolerance: float) -> None:
    """Run LBFGS with strong Wolfe steps."""
    optimizer = torch.optim.LBFGS(
        parameters,
        max_iter=1000,
        tolerance_grad=tolerance,
        tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)


def lbfgs_temperature(logits: Tensor, target: Tensor, tolerance: float) -> float:
    """Return T by LBFGS on log(1/T); float64, as float32 would stop 1e-4 away."""
    logits = logits.double()
    log_inverse = torch.zeros((), dtype=torch.float64, requires_grad=True)
    loss = lambda: F.cross_entropy(logits * log_inverse.exp(), target)  # noqa: E731
    minimise([log_inverse], loss, tolerance)
    return math.exp(-log_inverse.item())


def lbfgs_vector(logits: Tensor, target: Tensor) -> float:
    """Return the NLL of vector scaling by LBFGS."""
    logits = logits.double()
    scale = torch.ones(CLASSES, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(CLASSES, dtype=torch.float64, requires_grad=True)
    loss = lambda: F.cross_entropy(logits * scale + bias, target)  # noqa: E731
    minimise([scale, bias], loss, 1e-6)
    return loss().item()


def exact_temperature(logits: Tensor, target: Tensor) -> float:
    """Return T by bisection to 1e-12."""
    ahead = logits.double() - logits.double().gather(1, target.unsqueeze(1))
    low, high = -20.0, 20.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        p = (math.exp(middle) * ahead).softmax(1)
        low, high = (low, middle) if (p * ahead).sum(1).mean() > 0 else (middle, high)
    return math.exp(-(low + high) / 2)


def compare_temperature(what: str, logits: Tensor, target: Tensor) -> tuple[str, float, float]:
    """Time both fits, with the loosest tolerance that lets LBFGS reach the accuracy."""
    exact = exact_temperature(logits, target)
    for tolerance in (1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12):
        theirs = abs(lbfgs_temperature(logits, target, tolerance) / exact - 1)
        if theirs <= ACCURACY:
            break
    ours = abs(TemperatureScaling().fit(logits, target).temperature.item() / exact - 1)
    best = best_times(
        {
            "peer": lambda: lbfgs_temperature(logits, target, tolerance),
            "ours": lambda: TemperatureScaling().fit(logits, target),
        },
        seconds=4.0,
    )
    faster = best["peer"] / best["ours"]
    print(f"{what}: T = {exact:.6g}, error {theirs:.0e} and ours {ours:.0e}; {faster:.1f}x faster")
    return what, best["peer"], best["ours"]


def main() -> None:
    """Print the ratios; a temperature must take at most a fifth of LBFGS's time."""
    torch.set_num_threads(1)
    print(f"\nTemperature, {ROWS} x {CLASSES}, to {ACCURACY:g} relative")
    settings = {"over-confident": (1.7, 1.0), "under-confident": (0.7, 1.0)}
    settings["logits x 100"] = (1.7, 100.0)
    rows = [
        (*compare_temperature(what, *data(temperature, scale)), 0.2)
        for what, (temperature, scale) in settings.items()
    ]
    report("TemperatureScaling.fit against LBFGS with strong Wolfe steps", rows)
    logits, target = data(1.7)
    scaler = VectorScaling().fit(logits, target)
    ours = F.cross_entropy(scaler.transform(logits.double()), target).item()
    print(f"\nVector scaling: NLL {lbfgs_vector(logits, target) - ours:.0e} above ours")
    best = best_times(
        {
            "peer": lambda: lbfgs_vector(logits, target),
            "ours": lambda: VectorScaling().fit(logits, target),
        },
    )
    row = (f"{ROWS} x {CLASSES}", best["peer"], best["ours"], None)
    report("VectorScaling.fit against LBFGS with strong Wolfe steps", [row])


if __name__ == "__main__":
    main()
