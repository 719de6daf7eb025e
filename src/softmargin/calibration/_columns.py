"""Which arrays or columns of a file hold the predictions and the labels, and of what kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from softmargin._text import printable
from softmargin.calibration._files import LOGITS, LONGEST_SHOWN, PROBABILITIES, quoted, stem_of

LABELS = ("labels", "label", "targets", "target", "y_true", "y", "class")
MOST_NAMES = 8  # that a sentence lists


@dataclass(frozen=True)
class Match:
    """What was chosen: places among the file's names, and whether these are logits.

    Attributes:
        predictions: places of the predictions, in the order of the classes.
        labels: place of the labels.
        from_logits: whether the predictions are logits.
        first_number: the number at the end of the first column's name, 0 if there is none.
        said: how it is known whether they are logits.
        shown: the predictions' names in words.
        label_shown: the labels' name in words.
    """

    predictions: list[int]
    labels: int
    from_logits: bool
    first_number: int
    said: str
    shown: str
    label_shown: str


def choose(
    names: Sequence[str],
    predictions: str | None,
    labels: str | None,
    from_logits: bool | None,
    file: str,
) -> Match:
    """Decide which names hold the predictions and the labels, and what kind they are."""
    _check_twice(names, predictions, labels, file)
    label = _one("labels", labels, [n for n in names if n.lower() in LABELS], names, file)
    rest = [name for name in names if name != label]
    if predictions is not None:
        exact = predictions in rest
        chosen = [predictions] if exact else [n for n in rest if n.startswith(predictions)]
        if not chosen:
            raise ValueError(_missing("predictions", predictions, names, file))
        stem = stem_of(predictions)
    else:
        stems: dict[str, list[str]] = {}
        for name in rest:
            if (stem := stem_of(name)) in (*LOGITS, *PROBABILITIES):
                stems.setdefault(stem, []).append(name)
        stem = _one("predictions", None, list(stems), names, file)
        chosen = stems[stem]
    said = "--logits says" if from_logits else "--probabilities says"
    if from_logits is None:
        if stem not in (*LOGITS, *PROBABILITIES):
            raise ValueError(
                f"say --logits or --probabilities: the name {quoted(stem)} in {file} does not tell."
            )
        from_logits, said = stem in LOGITS, "its name says"
    chosen, first = _in_order(chosen, file)
    places = [names.index(name) for name in chosen]
    shown = chosen[0] if len(chosen) == 1 else f"{chosen[0]} … {chosen[-1]}"
    place = names.index(label)
    return Match(places, place, from_logits, first, said, quoted(shown), quoted(label))


def _check_twice(
    names: Sequence[str], predictions: str | None, labels: str | None, file: str
) -> None:
    """Raise if a name that matters occurs twice: which of them is meant cannot be told."""
    seen: set[str] = set()
    for name in names:
        matters = name.lower() in LABELS or stem_of(name) in (*LOGITS, *PROBABILITIES)
        matters |= name == labels or (predictions is not None and name.startswith(predictions))
        if name in seen and matters:
            raise ValueError(f"{quoted(name)} occurs more than once in {file}: rename all but one.")
        seen.add(name)


def _one(what: str, given: str | None, found: list[str], names: Sequence[str], file: str) -> str:
    if given is not None:
        if given not in names:
            raise ValueError(_missing(what, given, names, file))
        return given
    if not found:
        raise ValueError(
            f"--{what} must name one of {_listed(names)} in {file}: none was recognised."
        )
    if len(found) > 1:
        raise ValueError(
            f"--{what} must choose one of {_listed(found)} in {file}: there is more than one."
        )
    return found[0]


def _missing(what: str, given: str, names: Sequence[str], file: str) -> str:
    return f"--{what} must be one of {_listed(names)} in {file}, but got {quoted(given)}."


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many there are beside them."""
    shown = ", ".join(printable(name, LONGEST_SHOWN) or "''" for name in names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else "")


def _in_order(names: list[str], file: str) -> tuple[list[str], int]:
    """Return columns by the number at their end, where they have one, and the first number.

    Without numbers the classes are in the order of the columns.
    """
    if len(names) == 1:
        return names, 0
    found = [re.search(r"(\d+)\]?$", name) for name in names]
    numbers = [int(each[1]) for each in found if each is not None]
    if not numbers:
        return names, 0
    if len(numbers) < len(names):
        odd = names[found.index(None)]
        raise ValueError(
            f"columns of predictions in {file} must all end in a number or none of them, but "
            f"{quoted(odd)} does not and {quoted(names[found.index(None) - 1])} does."
        )
    by_number = sorted(zip(numbers, names, strict=True))
    for expected, (number, name) in enumerate(by_number, start=min(1, by_number[0][0])):
        if number != expected:
            raise ValueError(
                f"columns of predictions in {file} must be numbered from 0 or 1 on, each number "
                f"once, but {quoted(name)} comes where {expected} should."
            )
    return [name for _, name in by_number], by_number[0][0]
