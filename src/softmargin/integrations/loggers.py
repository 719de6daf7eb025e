"""One small protocol for loggers: TensorBoard, MLflow, Weights & Biases, Lightning's, or your own.

Nothing of theirs is imported: what is given is asked what it can do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Logger(Protocol):
    """What the callbacks of this package write to: numbers by name, at a step."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write the numbers of a step."""


def as_logger(target: Any) -> Logger:
    """Return a logger that writes to ``target``.

    ============================  =============================================================
    ``target``                    is used by
    ============================  =============================================================
    a TensorBoard SummaryWriter   ``add_scalar(name, value, step)`` for each number
    the module ``mlflow``, or     ``log_metrics(metrics, step=step)``
    a logger of Lightning
    a run of Weights & Biases     ``log(metrics, step=step)``
    a :class:`Logger`             ``log(metrics, step=step)``
    a function                    calling it with ``(metrics, step)``
    ============================  =============================================================

    Example:
        >>> lines = []
        >>> logger = as_logger(lambda metrics, step: lines.append((step, metrics)))
        >>> logger.log({"beta": 0.5}, step=3)
        >>> lines
        [(3, {'beta': 0.5})]
    """
    if callable(getattr(target, "add_scalar", None)):
        return _Calling(_by_scalar(target.add_scalar))
    for name in ("log_metrics", "log"):
        write = getattr(target, name, None)
        if callable(write):
            return _Calling(_by_keyword(write))
    if callable(target):
        return _Calling(target)
    raise TypeError(
        "logger must be a TensorBoard SummaryWriter, the module mlflow, a run of Weights & Biases "
        "or have a method log(metrics, step), but got "
        f"{type(target).__name__}."
    )


@dataclass(frozen=True)
class _Calling:
    """A logger made of a function."""

    write: Callable[[dict[str, float], int], Any]

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.write({name: float(value) for name, value in metrics.items()}, int(step))


def _by_scalar(add_scalar: Callable[..., Any]) -> Callable[[dict[str, float], int], None]:
    def write(metrics: dict[str, float], step: int) -> None:
        for name, value in metrics.items():
            add_scalar(name, value, step)

    return write


def _by_keyword(log: Callable[..., Any]) -> Callable[[dict[str, float], int], None]:
    def write(metrics: dict[str, float], step: int) -> None:
        log(metrics, step=step)

    return write
