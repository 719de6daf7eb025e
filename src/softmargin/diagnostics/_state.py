"""What a recorder's state must be, looked at before any of it is taken over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

SIZES = ("num_samples", "models")
BY_EPOCH = ("confidences", "histograms", "biases")
BINS = 5


def check_state(state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless a recorder of the same size as our own has given this state."""
    _check_names("state", state, own)
    ours, theirs = ({name: s[name] for name in SIZES} for s in (own, state))
    if ours != theirs:
        raise ValueError(
            "state must be of a recorder with (num_samples, models) = "
            f"{tuple(ours.values())}, but got {tuple(theirs.values())}."
        )
    for name in ("under_way", "final"):
        _check_tensor(f"state[{name!r}]", state[name], own[name])
    _check_names("state['totals']", state["totals"], own["totals"])
    for name, total in own["totals"].items():
        _check_tensor(f"state['totals'][{name!r}]", state["totals"][name], total)
    _check_epochs(state, own["final"])


def _check_epochs(state: Mapping[str, Any], final: Tensor) -> None:
    """Check that every epoch has confidences, counts and a mean bias, for every model."""
    models, lengths = len(final), []
    likes = final.half(), final.new_zeros(models, BINS).long(), final.new_zeros(models)
    for name, like in zip(BY_EPOCH, likes, strict=True):
        if not isinstance(state[name], list):
            raise ValueError(
                f"state[{name!r}] must be a list, but got {type(state[name]).__name__}."
            )
        lengths.append(len(state[name]))
        for epoch, value in enumerate(state[name]):
            _check_tensor(f"state[{name!r}][{epoch}]", value, like)
    if len(set(lengths)) > 1:
        raise ValueError(
            f"state must hold as many {', '.join(BY_EPOCH)} as epochs, but got {lengths}."
        )
    for epoch, confidence in enumerate(state["confidences"]):
        if bool(((confidence < 0) | (confidence > 1)).any()):
            raise ValueError(f"state['confidences'][{epoch}] must be between 0 and 1, but is not.")


def _check_names(name: str, value: Any, wanted: Mapping[str, Any]) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a dict, but got {type(value).__name__}.")
    if missing := [key for key in wanted if key not in value]:
        raise ValueError(f"{name} must hold {', '.join(wanted)}, but {missing[0]!r} is missing.")


def _check_tensor(name: str, value: Any, like: Tensor) -> None:
    wanted = f"a tensor of {like.dtype} and shape {tuple(like.shape)}"
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be {wanted}, but got {type(value).__name__}.")
    if value.dtype != like.dtype or value.shape != like.shape:
        raise ValueError(f"{name} must be {wanted}, but got {value.dtype}, {tuple(value.shape)}.")
