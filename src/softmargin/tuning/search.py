"""``tune``: a user's training function run for several β and seeds, and the best of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from softmargin._files import read_json, write_json
from softmargin._plain_checks import check_choice, check_count, check_flag
from softmargin.calibration._held_out import SCORES
from softmargin.calibration.scaling import fold_numbers
from softmargin.losses import GradientDecayLoss
from softmargin.tuning.checks import ContractError, check_betas, check_seeds, declared
from softmargin.tuning.places import Place, here, in_processes, on_ray
from softmargin.tuning.result import TuningResult, judged
from softmargin.tuning.runs import Curve, Ended, Kept, Run

FOLDS = 5  # of the held-out rows, for the temperature of β = 1
OF, RESULT = "tune.json", "result.json"
ANEW = "delete the folder, or name another one, to begin anew"
Progress = Callable[[int, int, str], None]
"""(runs that have ended, of how many, what has just ended)."""


def tune(
    train: Callable[..., Any],
    betas: Sequence[float] = (1.0, 2.0, 5.0, 10.0, 20.0),
    *,
    criterion: Callable[..., nn.Module] = GradientDecayLoss,
    seeds: int | Sequence[int] = 1,
    scoring: str = "nll",
    temperature: bool = True,
    jobs: int | None = None,
    ray: str | None = None,
    out: Path | str | None = None,
    progress: Progress | None = None,
) -> TuningResult:
    """Choose β for your own model: train it for several values, and compare on held-out rows.

    ``train`` is your training loop as a function. It gets a criterion, trains a model with it and
    returns the logits (N, C) and the classes (N,) of rows it has not trained on, the same ones
    whenever it is called. If it has an argument ``seed`` it gets one; PyTorch is seeded by it
    anyway. If it has an argument ``report``, it may call ``report(logits, target)`` with those
    rows after every epoch or so. Then values of β that are in the worse half after half or three
    quarters of the reports, and worse than the best has ended, are given up: ``report`` raises an
    exception that ends the run. β = 1 and the best value so far are not.

    Args:
        train: the function.
        betas: values to try; β = 1 is always among them.
        criterion: makes a criterion when called with ``beta=``.
        seeds: how many per value, or which.
        scoring: ``"nll"``, ``"brier"`` or ``"accuracy"``.
        temperature: whether to try β = 1 with a temperature, too, fitted on other held-out rows
            than it is judged by.
        jobs: how many at a time, each in a process of its own; by default one, in this process,
            or on a cluster as many as it takes. With ``report``, so many runs are planned
            together, and which values are given up depends on it.
        ray: address of a Ray cluster to run on, ``"host:port"``, or ``"local"`` to start one here.
            A run whose worker dies is run again.
        out: a folder for runs that have ended. The same call goes on where it was stopped.
        progress: told of every run that has ended.

    Raises:
        ContractError: where ``train`` returns something else, in one sentence.
        FailedRunError: where it fails.

    Example:
        >>> import torch
        >>> from softmargin import tune
        >>> x = torch.randn(400, 5, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] + 0.5 * x[:, 1] > 0).long()
        >>> def train(criterion):
        ...     model = torch.nn.Linear(5, 2)
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        ...     for _ in range(20):
        ...         optimizer.zero_grad()
        ...         criterion(model(x[:200]), y[:200]).backward()
        ...         optimizer.step()
        ...     return model(x[200:]), y[200:]
        >>> found = tune(train, [0.1, 1.0, 10.0])
        >>> [each.name for each in found.candidates]
        ['β = 1', 'β = 0.1', 'β = 10', 'β = 1, temperature']
        >>> found.best_beta, found.best_temperature is None
        (1.0, False)
    """
    values, numbers, keywords = check_betas(betas), check_seeds(seeds), declared(train)
    check_choice("scoring", scoring, SCORES)
    check_flag("temperature", temperature)
    if jobs is not None:
        check_count("jobs", jobs, 1)
    with _folder(out, train, criterion) as folder, _place(jobs, ray) as (place, width):
        plan = _Plan(train, criterion, keywords, values, numbers, scoring, Kept(folder), progress)
        plan.run(place, width)
        logits, target = plan.logits()
        found = judged(
            logits,
            target,
            fold_numbers(target, FOLDS),
            scoring=scoring,
            temperature=temperature,
            given_up=sorted(plan.given_up),
        )
        write_json(folder / RESULT, found.as_dict())
        return found


class _Plan:
    """The runs of a search: what has ended, what comes next, what was given up."""

    def __init__(
        self,
        train: Callable[..., Any],
        criterion: Callable[..., nn.Module],
        keywords: tuple[str, ...],
        betas: Sequence[float],
        seeds: Sequence[int],
        scoring: str,
        kept: Kept,
        progress: Progress | None,
    ) -> None:
        self.kept, self.scoring, self.progress = kept, scoring, progress
        self.seeds, self.betas = seeds, betas
        self.stops = "report" in keywords
        self.runs = [
            Run(train, criterion, keywords, beta, seed, scoring) for seed in seeds for beta in betas
        ]
        self.ended: dict[tuple[float, int], Ended] = {}
        self.given_up: set[float] = set()

    def run(self, place: Place, width: int) -> None:
        """Run everything; with reports so many at a time, to compare with those before."""
        while waiting := self.waiting:
            wave = waiting[:width] if self.stops else waiting
            curves, safe = self.curves()
            wave = [run if run.beta in safe else replace(run, earlier=curves) for run in wave]
            missing = [run for run in wave if self.kept.read(run) is None]
            for run in wave:
                if run not in missing:
                    self.end(run)
            if missing:
                place(missing, self.kept, self.end)

    @property
    def waiting(self) -> list[Run]:
        """The runs that have not ended, without those of values that were given up."""
        return [
            run
            for run in self.runs
            if (run.beta, run.seed) not in self.ended and run.beta not in self.given_up
        ]

    def curves(self) -> tuple[tuple[Curve, ...], set[float]]:
        """Return what runs are compared with, and the values that are not given up."""
        found: dict[float, list[Curve]] = {}
        for (beta, _), each in self.ended.items():
            if beta not in self.given_up and (curve := each.curve(self.scoring)):
                found.setdefault(beta, []).append(curve)
        safe = {1.0}
        if found:
            safe.add(min(found, key=lambda beta: mean(curve[-1] for curve in found[beta])))
        return tuple(curve for own in found.values() for curve in own), safe

    def end(self, run: Run) -> None:
        """Take in a run that has ended."""
        found = self.kept.read(run)
        assert found is not None
        first = next((each for each in self.ended.values() if not each.stopped), found)
        if not found.stopped and not (
            torch.equal(first.target, found.target) and first.logits.shape == found.logits.shape
        ):
            self.kept.path(run).unlink()
            raise ContractError(
                "train must return logits of the same held-out rows whenever it is called, but "
                f"their target differs for {run.label}."
            )
        self.ended[run.beta, run.seed] = found
        if found.stopped:
            self.given_up.add(run.beta)
        if self.progress is not None:
            self.progress(len(self.ended), len(self.ended) + len(self.waiting), run.label)

    def logits(self) -> tuple[dict[tuple[float, str], Tensor], Tensor]:
        """Return the logits (seeds, N, C) of every β that was not given up, and the classes."""
        found = {
            (beta, "linear"): torch.stack([self.ended[beta, seed].logits for seed in self.seeds])
            for beta in self.betas
            if beta not in self.given_up
        }
        return found, self.ended[self.betas[0], self.seeds[0]].target


@contextmanager
def _place(jobs: int | None, ray: str | None) -> Iterator[tuple[Place, int]]:
    """Give where runs happen, and how many at a time."""
    if ray is not None:
        with on_ray(ray, jobs) as found:
            yield found
    elif jobs is None or jobs == 1:
        yield here, 1
    else:
        yield in_processes(jobs), jobs


@contextmanager
def _folder(
    out: Path | str | None, train: Callable[..., Any], criterion: Callable[..., nn.Module]
) -> Iterator[Path]:
    """Give the folder to keep runs in, refusing one of another function."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="softmargin-tune-") as name:
            yield Path(name)
        return
    from softmargin.training.folder import RunFolder

    folder = RunFolder(Path(out))
    of = {"train": _name(train), "criterion": _name(criterion)}
    with folder.locked():
        path = folder.path / OF
        known = read_json(path, ANEW) if path.exists() else of
        if {name: known.get(name) for name in of} != of:
            raise ValueError(
                f"out must be a new folder or one of the same function, but {str(folder.path)!r} "
                f"has runs of {known.get('train')!r} with {known.get('criterion')!r}."
            )
        if not path.exists() and any(folder.path.glob("*.npz")):
            raise ValueError(
                f"out must be a new folder or one of an earlier search, but got {str(out)!r}."
            )
        folder.clean()
        write_json(path, of)
        yield folder.path


def _name(function: Any) -> str:
    """Return what a function is called, with the arguments of a partial one."""
    inner = getattr(function, "func", None)
    if inner is not None and hasattr(function, "keywords"):
        return f"{_name(inner)} with {function.keywords!r}"
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    return f"{module}:{name}" if name else repr(type(function))
