"""Columns of a table as one matrix of numbers: missing values and categories, and as JSON."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from softmargin._text import printable
from softmargin.data.columns import Column, Columns, TableError, listed

Floats = NDArray[np.float64]
ABSENT = "(missing)"  # the category of a text that is missing
FEWEST = 2  # rows of a category of its own; rarer ones share one
MOST = 32  # categories of a column; the rarest beyond share one


class Preparation:
    """What a table went through before training, the same for every later table.

    Missing numbers become the median, with a column that says so; categories become columns of 0
    and 1, where rare ones and those seen later for the first time share one. Both are
    scikit-learn's transformers. Columns that say nothing are left out.

    Attributes:
        names: all columns, in their order.
        numbers: names of columns of numbers.
        words: names of columns of categories.
        left_out: why each other column is not used, by name.
    """

    def __init__(self) -> None:
        """Start unfitted."""
        self.names: list[str] = []
        self.numbers: list[str] = []
        self.words: list[str] = []
        self.left_out: dict[str, str] = {}

    def fit(self, columns: Columns) -> Self:
        """Learn medians and categories from the columns of a table."""
        self.names = list(columns)
        for name, column in columns.items():
            _check_finite(name, column)
            reason = _useless(column)
            if reason:
                self.left_out[name] = reason
            else:
                (self.numbers if column.dtype.kind == "f" else self.words).append(name)
        if not self.numbers and not self.words:
            why = "; ".join(
                f"'{printable(k, 60)}': {v}" for k, v in list(self.left_out.items())[:3]
            )
            given = f" ({why})" if why else ""
            raise TableError(
                f"FILE must have a column to learn from beside the target, but has none{given}."
            )
        self._build(self._numbers(columns), self._words(columns), FEWEST, MOST)
        return self

    def _build(self, numbers: Floats, words: NDArray[Any], fewest: int, most: int | None) -> None:
        """Fit the two transformers."""
        self.imputer = SimpleImputer(strategy="median", add_indicator=True)
        absent = SimpleImputer(missing_values=None, strategy="constant", fill_value=ABSENT)
        self.encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=fewest,
            max_categories=most,
            sparse_output=False,
        )
        self.categories = Pipeline([("absent", absent), ("encoder", self.encoder)])
        if self.numbers:
            self.imputer.fit(numbers)
        if self.words:
            self.categories.fit(words)

    def transform(self, columns: Columns) -> Floats:
        """Return the matrix (N, D) of a table with the same columns."""
        self.check(columns)
        parts = []
        if self.numbers:
            parts.append(self.imputer.transform(self._numbers(columns)))
        if self.words:
            with warnings.catch_warnings():  # new categories are counted, see unknown
                warnings.simplefilter("ignore", UserWarning)
                parts.append(self.categories.transform(self._words(columns)))
        found: Floats = np.hstack(parts)
        return found

    def check(self, columns: Columns) -> None:
        """Refuse a table without the columns that were learned from, or of another kind."""
        needed = [*self.numbers, *self.words]
        if missing := [name for name in needed if name not in columns]:
            raise TableError(
                f"FILE must have the columns that the model was fitted on, but {listed(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} not among {listed(columns)}."
            )
        for name in self.numbers:
            column = columns[name]
            if column.dtype.kind != "f" and any(each is not None for each in column):
                found = next(str(each) for each in column if each is not None and not _number(each))
                raise TableError(
                    f"column '{printable(name, 60)}' must hold numbers, as when the model was "
                    f"fitted, but holds '{printable(found, 60)}'."
                )
            _check_finite(name, column)

    def unknown(self, columns: Columns) -> dict[str, list[str]]:
        """Return values of categories that were not there when this was fitted, by column."""
        self.check(columns)
        found = {}
        for name, known in zip(self.words, self._known(), strict=True):
            values = _texts(columns[name])
            if new := [value for value in values if (value or ABSENT) not in known]:
                found[name] = [value or ABSENT for value in new]
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return all that was learned, for JSON."""
        medians, absent = [], []
        if self.numbers:
            medians = self.imputer.statistics_.tolist()
            absent = self.imputer.indicator_.features_.tolist()
        rare = self.encoder.infrequent_categories_ if self.words else []
        return {
            "names": self.names,
            "numbers": self.numbers,
            "medians": medians,
            "with_missing": absent,
            "words": self.words,
            "categories": [sorted(known) for known in self._known()],
            "rare": [[] if each is None else each.tolist() for each in rare],
            "left_out": self.left_out,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what :meth:`as_dict` was made of.

        The transformers are fitted again, on a small table with the same medians and categories:
        that needs nothing of how a version of scikit-learn keeps what it has learned.
        """
        result = cls()
        result.numbers, result.words = list(content["numbers"]), list(content["words"])
        result.names, result.left_out = list(content["names"]), dict(content["left_out"])
        numbers = np.array([content["medians"]] * 2, dtype=np.float64)
        for place in content["with_missing"]:
            numbers[1, place] = np.nan
        columns = []
        for known, rare in zip(content["categories"], content["rare"], strict=True):
            often = sorted(set(known) - set(rare))
            columns.append([*often, *often, *rare])
        rows = max(map(len, columns), default=0)
        words = np.empty((rows, len(columns)), dtype=object)
        for place, column in enumerate(columns):
            words[:, place] = [*column, *[column[0]] * (rows - len(column))]
        result._build(numbers, words, 2, None)
        return result

    def _known(self) -> list[set[str]]:
        return [set(each.tolist()) for each in self.encoder.categories_] if self.words else []

    def _numbers(self, columns: Columns) -> Floats:
        rows = len(next(iter(columns.values())))
        found = np.empty((rows, len(self.numbers)))
        for place, name in enumerate(self.numbers):
            column = columns[name]
            found[:, place] = column if column.dtype.kind == "f" else np.nan
        return found

    def _words(self, columns: Columns) -> NDArray[Any]:
        rows = len(next(iter(columns.values())))
        found = np.empty((rows, len(self.words)), dtype=object)
        for place, name in enumerate(self.words):
            found[:, place] = _texts(columns[name])
        return found


def _texts(column: Column) -> list[str | None]:
    """Return a column as text; whole numbers as they are written in a file."""
    if column.dtype.kind != "f":
        return list(column)
    return [None if x != x else str(int(x)) if x == int(x) else repr(x) for x in column.tolist()]


def _check_finite(name: str, column: Column) -> None:
    if column.dtype.kind == "f" and np.isinf(column).any():
        raise TableError(f"column '{printable(name, 60)}' must hold finite numbers, but holds inf.")


def _number(text: object) -> bool:
    try:
        float(str(text))
    except ValueError:
        return False
    return True


def _useless(column: Column) -> str:
    """Return why nothing can be learned from a column, or nothing."""
    if column.dtype.kind == "f":
        known = column[~np.isnan(column)]
        if not len(known):
            return "it is empty"
        if (column == column[0]).all():
            return "all values are the same"
        if len(column) > FEWEST and (column == column[0] + np.arange(len(column))).all():
            return "it numbers the rows"
        return ""
    values, counts = np.unique([each for each in column if each is not None], return_counts=True)
    if not len(values):
        return "it is empty"
    if counts.max() < FEWEST:
        return "all values are different"
    if len(values) == 1 and counts[0] == len(column):
        return "all values are the same"
    return ""
