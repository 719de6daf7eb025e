"""What tuning refuses: values of β, functions that cannot be called, answers of wrong shape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from softmargin._plain_checks import check_count, check_number

FEWEST = 100  # held-out rows: with fewer, an accuracy has a standard error of up to 5 points
OFFERED = ("seed", "report")  # what a function gets if it declares it


class ContractError(ValueError):
    """A function of the user's that does not do what it should; the message says what."""


def check_betas(betas: Sequence[float]) -> list[float]:
    """Return the values to try: β = 1 first, then the others in their order, each once."""
    given = [betas] if isinstance(betas, (int, float)) else list(betas)
    for beta in given:
        check_number("every value of betas", beta)
    if not given:
        raise ValueError("betas must hold at least one value, but got none.")
    return list(dict.fromkeys([1.0, *map(float, given)]))


def check_seeds(seeds: int | Sequence[int]) -> list[int]:
    """Return the seeds; a number stands for so many, from 0 on."""
    if isinstance(seeds, int):
        check_count("seeds", seeds, 1)
        return list(range(seeds))
    for seed in seeds:
        check_count("every value of seeds", seed, 0)
    if not seeds:
        raise ValueError("seeds must hold at least one value, but got none.")
    return list(dict.fromkeys(seeds))


def declared(train: Callable[..., Any]) -> tuple[str, ...]:
    """Return which of seed and report a function takes, refusing one that cannot be called."""
    if not callable(train):
        raise TypeError(f"train must be a function, but got {type(train).__name__}.")
    try:
        parameters = inspect.signature(train).parameters
    except ValueError:  # of some functions written in C
        return ()
    kinds = {each.kind for each in parameters.values()}
    names: tuple[str, ...] = OFFERED
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names = tuple(
            name for name in OFFERED if name in parameters and parameters[name].kind in by_name
        )
    try:
        inspect.signature(train).bind(None, **dict.fromkeys(names))
    except TypeError as error:
        raise TypeError(
            "train must take a criterion, and may take seed and report by name, but "
            f"{getattr(train, '__name__', train)!r} cannot be called so: {error}."
        ) from None
    return names


def checked_logits(what: str, answer: Any) -> tuple[Tensor, Tensor]:
    """Return held-out logits and classes on the CPU, refusing anything else.

    Args:
        what: who gives them, ``"train"`` or ``"report"``.
        answer: what should be a pair (logits, target).
    """
    wanted = f"{what} must {'return' if what == 'train' else 'be given'} held-out logits (N, C) and"
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        got = f"{type(answer).__name__}"
        if isinstance(answer, (tuple, list)):
            got += f" of {len(answer)}"
        raise ContractError(f"{wanted} their target (N,), but got a {got}.")
    try:
        logits, target = (torch.as_tensor(each).detach().cpu() for each in answer)
    except (TypeError, ValueError, RuntimeError):
        got = " and ".join(type(each).__name__ for each in answer)
        raise ContractError(f"{wanted} their target (N,), but got {got}.") from None
    shapes = f"{tuple(logits.shape)} and {tuple(target.shape)}"
    if logits.ndim != 2 or logits.shape[1] < 2 or target.shape != logits.shape[:1]:
        raise ContractError(f"{wanted} their target (N,), but got shapes {shapes}.")
    if not logits.is_floating_point() or target.is_floating_point() or target.dtype == torch.bool:
        raise ContractError(
            f"{wanted} class numbers (N,), but got {logits.dtype} and {target.dtype}.".replace(
                "torch.", ""
            )
        )
    if len(target) < FEWEST:
        raise ContractError(
            f"{wanted} target of at least {FEWEST} rows to choose by, but got {len(target)}."
        )
    if int(target.min()) < 0 or int(target.max()) >= logits.shape[1]:
        raise ContractError(
            f"{wanted} classes from 0 to {logits.shape[1] - 1}, but got {int(target.min())} to "
            f"{int(target.max())}."
        )
    return logits, target.long()
