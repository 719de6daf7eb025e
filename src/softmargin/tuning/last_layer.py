"""The cheap way: β chosen on cached features, with all last layers trained at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from softmargin._plain_checks import check_choice, check_count, check_flag
from softmargin.calibration._held_out import SCORES
from softmargin.tuning.checks import FEWEST, check_betas
from softmargin.tuning.result import TuningResult, judged


def tune_last_layer(
    features: Any,
    target: Any,
    betas: Sequence[float] = (1.0, 2.0, 5.0, 10.0, 20.0),
    *,
    heads: Sequence[str] = ("linear",),
    seeds: int = 3,
    folds: int = 5,
    scoring: str = "nll",
    temperature: bool = True,
    epochs: int = 100,
    learning_rate: float = 0.01,
    progress: Callable[[int, int], None] | None = None,
) -> TuningResult:
    """Choose β for the last layer of a network, on features that were computed once.

    All values, heads, folds and seeds are trained together, which takes seconds. Each candidate is
    judged by rows that it was not trained on. A β that helps here is worth training in full; a
    whole network can over-fit more than its last layer, and then needs a larger one.

    Take features of rows that the network was not trained on: of its training rows it is too
    sure already.

    Args:
        features: what the last layer gets, (N, D).
        target: classes (N,), from 0 on.
        betas: values to try; β = 1 is always among them.
        heads: names of heads to try, such as ``"linear"`` or ``"arcface"``.
        seeds: networks per candidate and fold.
        folds: parts of the rows, each of which is held out once.
        scoring: ``"nll"``, ``"brier"`` or ``"accuracy"``.
        temperature: whether to try β = 1 with a temperature, too.
        epochs: passes over the rows; give it about as many as the network will overfit in.
        learning_rate: of Adam.
        progress: called with epochs done, and of how many.

    Example:
        >>> import torch
        >>> from softmargin import tune_last_layer
        >>> generator = torch.Generator().manual_seed(0)
        >>> target = torch.arange(300) % 3
        >>> features = torch.randn(300, 8, generator=generator) + torch.eye(3, 8)[target]
        >>> found = tune_last_layer(features, target, [1.0, 5.0], seeds=1, epochs=20)
        >>> len(found.candidates)
        3
    """
    from softmargin.estimators.candidates import Runs
    from softmargin.estimators.classifier import MarginClassifier
    from softmargin.estimators.resuming import Resuming

    chosen = check_betas(betas)
    check_choice("scoring", scoring, SCORES)
    check_flag("temperature", temperature)
    check_count("seeds", seeds, 1)
    check_count("folds", folds, 2)
    if not heads:
        raise ValueError("heads must hold at least one name, but got none.")
    x, y = _checked(features, target, folds)
    base = MarginClassifier(hidden_sizes=(), epochs=epochs, learning_rate=learning_rate)
    settings: list[dict[str, Any]] = [
        {"beta": beta, "head": head} for head in heads for beta in chosen
    ]
    runs = Runs(base, _folds(y, folds), y, range(seeds))
    runs.trainer = Resuming(None, progress)
    runs.train(x, settings, looks=1)
    trained = {
        (each["beta"], each["head"]): runs.logits[place, 0] for place, each in enumerate(settings)
    }
    return judged(trained, runs.y, runs.fold_of, scoring=scoring, temperature=temperature)


def _checked(features: Any, target: Any, folds: int) -> tuple[Any, Any]:
    """Return features in float32 and classes, refusing what cannot be learned from."""
    x = np.asarray(torch.as_tensor(features).detach().cpu(), dtype=np.float32)
    y = np.asarray(torch.as_tensor(target).detach().cpu())
    if x.ndim != 2 or not x.shape[1]:
        raise ValueError(f"features must have shape (N, D), but got {x.shape}.")
    if y.shape != x.shape[:1]:
        raise ValueError(f"target must have shape ({len(x)},), as features, but got {y.shape}.")
    if not np.isfinite(x).all():
        raise ValueError("features must be finite, but got NaN or infinity.")
    if y.dtype.kind not in "iu" or y.min(initial=0) < 0:
        raise ValueError(
            "target must hold class numbers from 0 on, but got "
            f"{y.dtype if y.dtype.kind not in 'iu' else y.min()}."
        )
    if len(x) < FEWEST:
        raise ValueError(f"features must have at least {FEWEST} rows, but got {len(x)}.")
    if len(np.unique(y)) < 2:
        raise ValueError("target must hold at least two classes, but got one.")
    if folds > len(x):
        raise ValueError(f"folds must be at most the number of rows, {len(x)}, but got {folds}.")
    return x, y.astype(np.int64)


def _folds(y: Any, folds: int) -> list[tuple[Any, Any]]:
    """Return the rows to train and to test on, a fold each, class by class."""
    from softmargin.calibration.scaling import fold_numbers

    fold_of = fold_numbers(torch.from_numpy(y), folds).numpy()
    return [
        (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(folds)
    ]
