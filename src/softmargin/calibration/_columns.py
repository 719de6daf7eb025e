"""Which columns or arrays of a file hold the predictions and the labels, by their names.

Whether predictions are logits or probabilities is never guessed from their values: a name or the
caller must say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from softmargin._text import printable
from softmargin.calibration._files import (
    KNOWN,
    LOGITS,
    LONGEST_SHOWN,
    Reader,
    quoted,
    stem_of,
)

LABELS = ("labels", "label", "targets", "target", "y_true", "y", "class")
SCORES = ("score", "scores", "y_score")  # of one class; the name does not tell of what kind
CONFIDENCES = ("confidence", "conf", "max_probability", "max_prob")
CORRECT = ("correct", "is_correct", "right")
MOST_NAMES = 8  # that an error lists
NAMED = re.compile(rf"({'|'.join(KNOWN)})[_.\-:\[ ]+(.+?)\]?", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """What the caller says about a file; None is for the file to tell."""

    predictions: str | None = None
    labels: str | None = None
    from_logits: bool | None = None
    needs_labels: bool = True


@dataclass(frozen=True)
class Columns:
    """Which columns of a file hold what, and how errors show them."""

    predictions: list[int]  # indices among the file's names, in the order of the classes
    labels: list[int]
    kind: str  # "logits", "probabilities" or "confidence"
    first_number: int  # at the end of the first column's name, 0 if there is none
    class_names: list[list[str]]  # by which labels that are text may call the classes
    said: str  # what says of which kind they are
    shown: str
    label_shown: str

    def own_names(self, classes: int) -> tuple[str, ...] | None:
        """Return what the file calls its classes, without what all columns begin with."""
        names = self.class_names[-1] if self.class_names else []
        return tuple(names) if len(names) == classes else None


@dataclass(frozen=True)
class _Group:
    """Columns of predictions, how their names begin, and what of the names tells the class."""

    names: list[str]
    stem: str
    endings: list[str]


def choose(table: Reader, asked: Asked) -> Columns:
    """Choose the columns of the predictions and the labels, and their kind."""
    names, file = table.names, table.file
    _check_twice(names, asked.predictions, asked.labels, file)
    pair = _confidence_pair(names, asked)
    labels = [pair[1]] if pair else _label_columns(names, asked, file)
    rest = [name for name in names if name not in labels]
    group = _Group([pair[0]], "", []) if pair else _predictions(table, rest, labels, asked)
    kind, said = ("confidence", "its name says") if pair else _kind(group, asked, file)
    chosen, first = in_order(group.names, file)
    endings = group.endings if chosen == group.names else []
    places = [names.index(name) for name in chosen]
    shown = chosen[0] if len(chosen) == 1 else f"{chosen[0]} … {chosen[-1]}"
    label_shown = labels[0] if len(labels) == 1 else f"{labels[0]} … {labels[-1]}" if labels else ""
    several = len(chosen) > 1
    own = table.class_names()
    known = [own] if own else [chosen, endings] if several else []
    return Columns(
        places,
        [names.index(label) for label in labels],
        kind,
        first,
        [each for each in known if each],
        said,
        quoted(shown),
        quoted(label_shown),
    )


def _confidence_pair(names: Sequence[str], asked: Asked) -> tuple[str, str] | None:
    """Return the columns of confidence and correctness, if that is what the file holds."""

    def pick(known: Sequence[str], given: str | None) -> str | None:
        if given is not None:
            return given if given in names and given.lower() in known else None
        found = [name for name in names if name.lower() in known]
        return found[0] if len(found) == 1 else None

    confidence, correct = pick(CONFIDENCES, asked.predictions), pick(CORRECT, asked.labels)
    others = asked.predictions is None and any(stem_of(name) in KNOWN for name in names)
    if confidence is None or correct is None or others:
        return None
    return confidence, correct


def _label_columns(names: Sequence[str], asked: Asked, file: str) -> list[str]:
    """Return the column of the labels, or the columns of one-hot labels."""
    if not asked.needs_labels:
        known = [name for name in names if name == asked.labels or name.lower() in LABELS]
        return known if len(known) == 1 else []
    given = asked.labels
    if given is not None and given not in names:
        several = [name for name in names if name.startswith(given)]
        if len(several) > 1:
            return in_order(several, file)[0]
    found = [name for name in names if name.lower() in LABELS]
    if given is None and not found:
        several = [name for name in names if stem_of(name) in LABELS]
        if len(several) > 1:
            return in_order(several, file)[0]
    return [_one("labels", given, found, names, file)]


def _predictions(table: Reader, rest: list[str], labels: list[str], asked: Asked) -> _Group:
    """Return the columns of the predictions: those asked for, or those with known names."""
    file, given = table.file, asked.predictions
    if given is not None:
        return _given(table, rest, given)
    stems: dict[str, list[str]] = {}
    named: dict[str, list[tuple[str, str]]] = {}
    for name in rest:
        if (stem := stem_of(name)) in (*KNOWN, *SCORES):
            stems.setdefault(stem, []).append(name)
        elif match := NAMED.fullmatch(name):
            named.setdefault(match[1].lower(), []).append((name, match[2]))
    if not stems:
        found = {stem: pairs for stem, pairs in named.items() if len(pairs) > 1}
        if len(found) == 1:
            ((stem, pairs),) = found.items()
            return _Group([name for name, _ in pairs], stem, [ending for _, ending in pairs])
        numbers = [name for name in rest if name.isdecimal()]
        if not found and len(numbers) > 1:
            return _Group(numbers, "", [])
        if not found and (texts := _texts(table, labels)):
            return _named_as(texts, table, rest, asked)
        stems = {stem: [name for name, _ in pairs] for stem, pairs in found.items()}
    stem = _one("predictions", None, list(stems), table.names, file)
    return _Group(stems[stem], stem, [])


def _given(table: Reader, rest: list[str], given: str) -> _Group:
    """Return one column, the columns of a list with commas, or those that begin like this."""
    listed = given.split(",")
    if given in rest:
        return _Group([given], stem_of(given), [])
    if len(listed) > 1 and all(name in rest for name in listed):
        return _Group(listed, "", [])
    chosen = [name for name in rest if name.startswith(given)]
    if not chosen:
        raise ValueError(_missing("predictions", given, table.names, table.file))
    endings = [name.removeprefix(given).strip("_.-: []") for name in chosen]
    return _Group(chosen, stem_of(given), endings)


def _texts(table: Reader, labels: list[str]) -> list[str]:
    """Return the different labels, if they are text."""
    return table.label_texts([table.names.index(name) for name in labels]) or [] if labels else []


def _named_as(texts: list[str], table: Reader, rest: list[str], asked: Asked) -> _Group:
    """Return the columns that have the names of labels."""
    chosen = [name for name in rest if name in texts]
    others = [name for name in rest if name not in texts]
    if len(chosen) < 2:
        raise ValueError(_none_recognised("predictions", table.names, table.file))
    if others and asked.from_logits:
        # a class that no label has would be left out; of probabilities, the sums would tell
        raise ValueError(
            f"--predictions must name the columns of the classes in {table.file}, such as "
            f"{','.join(printable(x, 40) for x in chosen[:3])},…: {quoted(others[0])} may be one "
            "that no label has."
        )
    return _Group(chosen, "", [])


def _kind(group: _Group, asked: Asked, file: str) -> tuple[str, str]:
    """Return whether predictions are logits or probabilities, and what says so."""
    if asked.from_logits is not None:
        return (
            ("logits", "--logits says")
            if asked.from_logits
            else ("probabilities", "--probabilities says")
        )
    if group.stem not in KNOWN:
        name = quoted(group.stem or group.names[0])
        raise ValueError(
            f"say --logits or --probabilities: the name {name} in {file} does not tell."
        )
    return ("logits" if group.stem in LOGITS else "probabilities"), "its name says"


def _check_twice(
    names: Sequence[str], predictions: str | None, labels: str | None, file: str
) -> None:
    """Raise if a name that matters occurs twice, which is ambiguous."""
    seen: set[str] = set()
    for name in names:
        matters = name.lower() in LABELS or stem_of(name) in KNOWN
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
        raise ValueError(_none_recognised(what, names, file))
    if len(found) > 1:
        raise ValueError(
            f"--{what} must choose one of {_listed(found)} in {file}: there is more than one."
        )
    return found[0]


def _none_recognised(what: str, names: Sequence[str], file: str) -> str:
    return f"--{what} must name one of {_listed(names)} in {file}: none was recognised."


def _missing(what: str, given: str, names: Sequence[str], file: str) -> str:
    return f"--{what} must be one of {_listed(names)} in {file}, but got {quoted(given)}."


def _listed(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(printable(name, LONGEST_SHOWN) or "''" for name in names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else "")


def in_order(names: list[str], file: str) -> tuple[list[str], int]:
    """Return the columns sorted by the number at their end, and the first number.

    Without numbers, the classes are in the order of the columns.
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
