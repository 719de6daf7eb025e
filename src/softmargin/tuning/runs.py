"""One run of a user's function: with one β and one seed, stopped early where it is hopeless."""

from __future__ import annotations

import math
import statistics
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softmargin.calibration._held_out import LARGER_IS_BETTER, SCORES, row_scores
from softmargin.training.arrays import read_arrays, write_arrays
from softmargin.tuning.checks import ContractError, checked_logits

LOOKS = (0.5, 0.75)  # after which share of the reports a run may be given up
FEWEST_CURVES = 2  # that a run is compared with
REMEDY = "delete it and run the same command again"

Curve = tuple[float, ...]
"""What a run has reported, and how it ended, with a lower value for a better one."""


class HopelessError(Exception):
    """Raised by ``report`` to end a run that will not be the best."""


class FailedRunError(RuntimeError):
    """A run that failed by an error of the user's function; the message says which and where."""


@dataclass(frozen=True)
class Run:
    """A call of the user's function.

    Attributes:
        train: the function.
        criterion: what makes its criterion, called with ``beta=``.
        keywords: which of seed and report it takes.
        beta: the β of the criterion.
        seed: of PyTorch's generator, and of the function if it takes one.
        scoring: what runs are compared by.
        earlier: the curves of runs that had ended when this one was planned.
    """

    train: Callable[..., Any]
    criterion: Callable[..., nn.Module]
    keywords: tuple[str, ...]
    beta: float
    seed: int
    scoring: str
    earlier: tuple[Curve, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file, without the ending."""
        return f"beta-{self.beta!r}-seed-{self.seed}"

    @property
    def label(self) -> str:
        """What it is, in words."""
        return f"β = {self.beta:g}, seed {self.seed}"

    def arrays(self) -> dict[str, Any]:
        """Call the function; return what is kept of it, refusing wrong answers."""
        report = Report(self.scoring, self.earlier)
        offered = {"seed": self.seed, "report": report}
        given = {name: offered[name] for name in self.keywords}
        logits, target, stopped = torch.empty(0, 0), torch.empty(0, dtype=torch.int64), False
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            try:
                answer = self.train(self.criterion(beta=self.beta), **given)
                logits, target = checked_logits("train", answer)
            except HopelessError:
                stopped = True
        return {
            "logits": logits.double().numpy() if logits.dtype == torch.float64 else _single(logits),
            "target": target.numpy(),
            "reports": np.array(report.seen, dtype=np.float64).reshape(-1, len(SCORES)),
            "stopped": np.array(self.scoring if stopped else ""),
        }

    def failure(self, error: Exception) -> str:
        """Return one sentence on an error of the user's function."""
        here = [each for each in traceback.extract_tb(error.__traceback__)]
        place = f" ({Path(here[-1].filename).name}, line {here[-1].lineno})" if here else ""
        said = " ".join(str(error).split()).rstrip(".")[:500]
        return f"train failed for {self.label}: {type(error).__name__}: {said}{place}."


class Report:
    """What a user's function may call with held-out logits while it trains."""

    def __init__(self, scoring: str, earlier: Sequence[Curve]) -> None:
        """Start with nothing reported."""
        self.scoring, self.earlier = scoring, earlier
        self.seen: list[tuple[float, ...]] = []

    def __call__(self, logits: Any, target: Any) -> None:
        """Note how held-out rows do; ends the run where it is hopeless."""
        rows = row_scores(*_exact(*checked_logits("report", (logits, target))))
        self.seen.append(tuple(float(rows[score].mean()) for score in SCORES))
        if is_hopeless(cost(self.seen[-1], self.scoring), len(self.seen), self.earlier):
            raise HopelessError


def is_hopeless(value: float, number: int, earlier: Sequence[Curve]) -> bool:
    """Whether a run is given up at its ``number``-th report, a value of which lower is better.

    It is at half and at three quarters of the reports, if it is worse than the median of the
    earlier runs was there, and worse than the best of them ended. Large values of β begin slowly,
    and small ones end badly: that is why not sooner, and why the ends count.

    Example:
        >>> earlier = [(2.0, 1.0, 0.9, 0.8, 0.8), (2.0, 1.2, 1.1, 1.0, 1.0)]  # the last: the end
        >>> is_hopeless(3.0, 1, earlier), is_hopeless(3.0, 2, earlier), is_hopeless(1.0, 2, earlier)
        (False, True, False)
    """
    complete = [curve for curve in earlier if len(curve) > number]
    if len(complete) < FEWEST_CURVES:
        return False
    reports = max(len(curve) - 1 for curve in complete)
    if number not in {math.ceil(share * reports) for share in LOOKS}:
        return False
    if math.isnan(value):
        return True
    middle = statistics.median(curve[number - 1] for curve in complete)
    return value > middle and value > min(curve[-1] for curve in complete)


def cost(scores: Sequence[float], scoring: str) -> float:
    """Return the score that is judged by, so that lower is better."""
    value = scores[SCORES.index(scoring)]
    return -value if scoring in LARGER_IS_BETTER else value


@dataclass(frozen=True)
class Ended:
    """A run that has ended: its held-out logits, unless it was given up, and what it reported."""

    logits: Tensor
    target: Tensor
    reports: Any
    stopped: bool

    def curve(self, scoring: str) -> Curve | None:
        """Return what later runs are compared with; None if it cannot be compared with."""
        if self.stopped or not bool(self.logits.isfinite().all()):
            return None
        rows = row_scores(*_exact(self.logits, self.target))
        end = [float(rows[score].mean()) for score in SCORES]
        return tuple(cost(scores, scoring) for scores in [*self.reports.tolist(), end])


class Kept:
    """The files of runs that have ended, in a folder."""

    def __init__(self, folder: Path) -> None:
        """Keep them in a folder that is there."""
        self.folder = folder

    def path(self, run: Run) -> Path:
        """Return the file of a run."""
        return self.folder / f"{run.name}.npz"

    def write(self, run: Run, arrays: dict[str, Any]) -> None:
        """Keep what is left of a run."""
        write_arrays(self.path(run), arrays)

    def read(self, run: Run) -> Ended | None:
        """Return a run that has ended, None where it has not, or was given up by another score."""
        path = self.path(run)
        if not path.exists():
            return None
        found = read_arrays(path, REMEDY)
        logits, target = (torch.from_numpy(found[name]) for name in ("logits", "target"))
        stopped = str(found["stopped"])
        if stopped not in ("", run.scoring):
            return None
        return Ended(logits, target, found["reports"], bool(stopped))


def attempt(run: Run, threads: int | None = None) -> dict[str, Any] | tuple[str, bool]:
    """Run elsewhere; return what is kept, or what went wrong and whether it is our contract."""
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        return run.arrays()
    except ContractError as error:
        return str(error), True
    except Exception as error:
        return run.failure(error), False


def _exact(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    return logits.double(), target


def _single(logits: Tensor) -> Any:
    return logits.float().numpy()
