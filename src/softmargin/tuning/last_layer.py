"""The cheap way: β chosen on cached features, with all last layers trained at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from softmargin._plain_checks import check_choice, check_count, check_flag
from softmargin.calibration._held_out import SCORES
from softmargin.calibration.scaling import fold_numbers
from softmargin.tuning.checks import FEWEST, check_betas
from softmargin.tuning.result import TuningResult, judged


def tune_last_layer(
    features: Any,
    target: Any,
    betas: Sequence[float] = (1.0, 2.0, 5.0, 10.0, 20.0),
    *,
    held_out: tuple[Any, Any] | None = None,
    heads: Sequence[str] = ("linear",),
    seeds: int = 3,
    folds: int = 5,
    scoring: str = "nll",
    temperature: bool = True,
    epochs: int | None = None,
    learning_rate: float = 0.01,
    weight_decay: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> TuningResult:
    """Choose β for the last layer of a network, on features that were computed once.

    All values, heads and seeds are trained together, which takes seconds. Each candidate is
    judged by rows that it was not trained on. A β that helps here is worth training in full.

    Give the features of the rows that the network was trained on, as they are, those of held-out
    rows as ``held_out``, and the network's own ``weight_decay``: then the last layer over-fits
    much as the whole network does. Without ``held_out`` the features must be of rows that the
    network was not trained on; they are z-scored, and each fold is held out once. The last layer
    of so few rows needs a larger β than the network.

    Args:
        features: what the last layer gets, (N, D).
        target: classes (N,), from 0 on.
        betas: values to try; β = 1 is always among them.
        held_out: features (M, D) and classes (M,) of rows that the network was not trained on.
        heads: names of heads to try, such as ``"linear"`` or ``"arcface"``.
        seeds: networks per candidate and fold.
        folds: parts of the rows, each of which is held out once; with ``held_out``, parts of
            those, by which the temperature is fitted and judged.
        scoring: ``"nll"``, ``"brier"`` or ``"accuracy"``.
        temperature: whether to try β = 1 with a temperature, too.
        epochs: passes over the rows; by default 100, or 10 with ``held_out``.
        learning_rate: of Adam.
        weight_decay: of Adam.
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
    from softmargin.estimators.classifier import MarginClassifier, as_they_are
    from softmargin.estimators.resuming import Resuming

    chosen = check_betas(betas)
    check_choice("scoring", scoring, SCORES)
    check_flag("temperature", temperature)
    check_count("seeds", seeds, 1)
    check_count("folds", folds, 2)
    if not heads:
        raise ValueError("heads must hold at least one name, but got none.")
    x, y = _checked(features, target, folds)
    cut = _folds(y, folds)
    trainer: Callable[..., Any] = Resuming(None, progress)
    if held_out is not None:
        x, y, cut = _with_held_out(x, y, held_out, folds)
        trainer = partial(trainer, normalize=as_they_are(x.shape[1]))
    base = MarginClassifier(
        hidden_sizes=(),
        epochs=(100 if held_out is None else 10) if epochs is None else epochs,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
    )
    settings: list[dict[str, Any]] = [
        {"beta": beta, "head": head} for head in heads for beta in chosen
    ]
    runs = Runs(base, cut, y, range(seeds))
    runs.trainer = trainer
    runs.train(x, settings, looks=1)
    trained = {
        (each["beta"], each["head"]): runs.logits[place][0] for place, each in enumerate(settings)
    }
    fold_of = runs.fold_of if held_out is None else fold_numbers(runs.y, folds)
    return judged(trained, runs.y, fold_of, scoring=scoring, temperature=temperature)


def _with_held_out(
    x: Any, y: Any, held_out: Any, folds: int
) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    """Return all rows, their classes, and which of them to train and to test on."""
    if not isinstance(held_out, tuple | list) or len(held_out) != 2:
        many = f" of {len(held_out)}" if isinstance(held_out, tuple | list) else ""
        raise ValueError(
            "held_out must be a pair of features and classes, but got a "
            f"{type(held_out).__name__}{many}."
        )
    try:
        own, classes = _checked(held_out[0], held_out[1], folds)
    except ValueError as error:
        raise ValueError(f"held_out: {error}") from None
    if own.shape[1] != x.shape[1]:
        raise ValueError(
            f"held_out must have features of shape (M, {x.shape[1]}), as those to train on, but "
            f"got {own.shape}."
        )
    if not np.isin(classes, y).all():
        new = sorted(set(classes.tolist()) - set(y.tolist()))
        raise ValueError(f"held_out must have no classes that target has not, but got {new}.")
    rows = np.arange(len(x) + len(own))
    cut = [(rows[: len(x)], rows[len(x) :])]
    return np.concatenate([x, own]), np.concatenate([y, classes]), cut


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
    fold_of = fold_numbers(torch.from_numpy(y), folds).numpy()
    return [
        (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(folds)
    ]
