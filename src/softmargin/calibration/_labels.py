"""Labels as files hold them: class numbers, truth values, text, one column or one per class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin._text import printable

MOST_TEXTS = 100_000
TRUTH = {"false": 0, "true": 1}
SHOWN = 6  # names that an error lists


class LabelError(ValueError):
    """A rule that a label breaks; which row holds it, and what it holds."""

    def __init__(self, rule: str, row: int, held: str) -> None:
        super().__init__(rule, row, held)
        self.rule, self.row, self.held = rule, row, held


class RawLabels:
    """Labels read block by block, and the classes that they mean once all are there."""

    def __init__(self) -> None:
        self.blocks: list[NDArray[Any]] = []
        self.texts: dict[str, int] = {}  # every text and its code
        self.kind = "numbers"
        self.width: int | None = None  # of one-hot labels

    def add(self, labels: NDArray[Any], done: int) -> None:
        """Add the labels of the rows after the first ``done``."""
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim == 2:
            labels = self._one_hot(labels, done)
        elif labels.dtype.kind in "USO":
            self.kind = "text"
            labels = self._codes(labels, done)
        elif labels.dtype.kind == "b":
            self.kind = "truth values"
        self.blocks.append(labels)

    def _one_hot(self, labels: NDArray[Any], done: int) -> NDArray[Any]:
        self.width = labels.shape[1]
        if labels.dtype.kind not in "fiub":
            raise LabelError("one class each", done, "more than one text")
        ones = labels == 1
        wrong = (~ones & (labels != 0)).any(1) | (ones.sum(1) != 1)
        if wrong.any():
            row = int(np.argmax(wrong))
            held = " ".join(f"{float(x):g}" for x in labels[row][:SHOWN])
            rule = "classes, or one-hot rows with a single 1 and else 0"
            raise LabelError(rule, done + row, held + " …" * (self.width > SHOWN))
        return np.asarray(ones.argmax(1))

    def _codes(self, labels: NDArray[Any], done: int) -> NDArray[np.int64]:
        decoded = [x.decode(errors="replace") if isinstance(x, bytes) else str(x) for x in labels]
        codes = np.empty(len(labels), np.int64)
        for row, text in enumerate(map(str.strip, decoded)):
            if not text:
                raise LabelError("classes", done + row, "nothing")
            codes[row] = self.texts.setdefault(text, len(self.texts))
        if len(self.texts) > MOST_TEXTS:
            raise LabelError(f"at most {MOST_TEXTS:,} different texts", done, "one more")
        return codes

    def numbers(
        self, classes: int, names: Sequence[Sequence[str]], positive: str | None
    ) -> NDArray[np.int64]:
        """Return the number of each row's class; raise :class:`LabelError` if one has none.

        Args:
            classes: number of classes.
            names: lists of names of the classes, in order; the first that holds a text counts.
            positive: of a score of two classes, the text of class 1.
        """
        labels = np.concatenate(self.blocks)
        if self.width is not None and self.width != classes:
            rule = f"classes, or one-hot rows of {classes} numbers"
            raise LabelError(rule, 0, f"{self.width}")
        if self.kind == "text":
            return np.asarray(self._meanings(classes, names, positive)[labels])
        if positive is not None and self.kind == "numbers":
            return self._positive_number(labels, positive)
        if self.kind == "truth values" and classes != 2:
            raise LabelError(f"classes from 0 to {classes - 1}", 0, "a truth value")
        rules = {
            "whole numbers": labels != np.floor(labels) if labels.dtype.kind == "f" else np.False_,
            f"classes from 0 to {classes - 1}": (labels < 0) | (labels >= classes)
            if self.kind == "numbers"
            else np.False_,
        }
        for rule, wrong in rules.items():
            if wrong.any():
                row = int(np.argmax(wrong))
                raise LabelError(rule, row, f"{labels[row]:g}")
        return labels.astype(np.int64, copy=False)

    def _positive_number(self, labels: NDArray[Any], positive: str) -> NDArray[np.int64]:
        values = np.unique(labels).tolist()
        shown = [f"{value:g}" for value in values]
        if len(values) > 2 or positive not in shown:
            raise LabelError(f"two numbers, one of them {printable(positive)}", 0, shown[0])
        return np.asarray(labels == values[shown.index(positive)], np.int64)

    def _meanings(
        self, classes: int, names: Sequence[Sequence[str]], positive: str | None
    ) -> NDArray[np.int64]:
        """Return the class of every text, by its code."""
        texts = list(self.texts)
        if positive is not None:
            if len(texts) > 2 or positive not in texts:
                held = next(text for text in texts if text != positive)
                rule = f"two texts, one of them '{printable(positive)}'"
                raise LabelError(rule, self._first(held), f"'{printable(held)}'")
            return np.array([int(text == positive) for text in texts])
        known = {str(number): number for number in range(classes)}
        options = [{name: place for place, name in enumerate(each)} for each in names]
        options += [known]
        if classes == 2:
            options += [{name: TRUTH[name.lower()] for name in texts if name.lower() in TRUTH}]
        best = max(options, key=lambda option: sum(text in option for text in texts))
        for text in texts:
            if text not in best:
                listed = ", ".join(printable(name, 40) for name in list(best or known)[:SHOWN])
                more = " …" if len(best) > SHOWN else ""
                held = f"'{printable(text, 80)}'"
                raise LabelError(f"one of {listed}{more}", self._first(text), held)
        return np.array([best[text] for text in texts])

    def _first(self, text: str) -> int:
        """Return the first row with a text."""
        return int(np.argmax(np.concatenate(self.blocks) == self.texts[text]))
