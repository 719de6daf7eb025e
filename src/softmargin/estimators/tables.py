"""β chosen for a table as it is, with categories and missing values, and the model as a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from softmargin.data.columns import Columns, as_columns, check_classes
from softmargin.estimators.candidates import Candidate
from softmargin.estimators.classifier import Floats
from softmargin.estimators.preparation import Preparation
from softmargin.estimators.resuming import Resuming
from softmargin.estimators.search import MarginClassifierCV


class TableModel:
    """A :class:`MarginClassifierCV` with the preparation of its table, saved without pickle.

    Columns of text become categories, missing values are filled in, and both are kept with the
    classifier, so that later tables are read in the same way.

    Args:
        search: how β is chosen; by default ``MarginClassifierCV(random_state=0)``.

    Attributes:
        search: the search; once fitted, what it has chosen.
        preparation: what is done with the columns, once fitted.

    Example:
        >>> import numpy as np
        >>> from softmargin.estimators import MarginClassifier, MarginClassifierCV, TableModel
        >>> table = {"size": [1.0, 2.0, None, 4.0] * 5, "colour": ["red", "blue"] * 10}
        >>> quick = MarginClassifierCV([1.0], estimator=MarginClassifier(epochs=5), cv=2)
        >>> model = TableModel(quick).fit(table, ["yes", "no"] * 10)
        >>> model.predict_proba(table).shape
        (20, 2)
    """

    def __init__(self, search: MarginClassifierCV | None = None) -> None:
        """Start unfitted."""
        self.search = MarginClassifierCV(random_state=0) if search is None else search
        self.preparation = Preparation()

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, in the order of the probabilities."""
        found: NDArray[Any] = self.search.classes_
        return found

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        progress: Callable[[int, int], None] | None = None,
        work: Path | None = None,
    ) -> Self:
        """Prepare the columns, choose β and train.

        Args:
            X: columns by name, a frame, or an array (N, D).
            y: classes (N,).
            progress: called with epochs done, and of how many, while candidates are trained.
            work: a folder for checkpoints; the same call goes on where it was stopped.
        """
        columns = as_columns(X)
        target = np.asarray(y)
        rows = len(next(iter(columns.values()), ()))
        if target.shape != (rows,):
            raise ValueError(f"y must have shape ({rows},), as X has rows, got {target.shape}.")
        check_classes(target)
        self.preparation = Preparation().fit(columns)
        x = self.preparation.transform(columns)
        self.search._trainer = Resuming(work, progress)
        try:
            self.search.fit(x, target)
        finally:
            del self.search._trainer
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return calibrated probabilities (N, C) of the rows of a table."""
        return self.search.predict_proba(self._matrix(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return logarithms of calibrated probabilities (N, C) of the rows of a table."""
        return self.search.predict_log_proba(self._matrix(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row."""
        return self.search.predict(self._matrix(X))

    def unknown(self, X: Any) -> dict[str, list[str]]:
        """Return categories that were not there in training, by column."""
        return self.preparation.unknown(as_columns(X))

    def save(self, folder: Path | str) -> None:
        """Write the model to a folder as JSON and arrays, with checksums and without pickle."""
        from softmargin.estimators.storage import save

        save(self, Path(folder))

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read a model that :meth:`save` has written; its probabilities are the same."""
        from softmargin.estimators.storage import load

        result = cls()
        result.search, result.preparation = load(Path(folder))
        return result

    def _matrix(self, X: Any) -> Floats:
        columns: Columns = as_columns(X)
        return self.preparation.transform(columns)


def best_by_beta(search: MarginClassifierCV) -> list[Candidate]:
    """Return the best candidate of every β, without and with a temperature, by β.

    Of the chosen β and scaling, it is the chosen one.
    """
    sign = -1 if search.scoring == "accuracy" else 1
    chosen = search.candidates_[search.best_index_]
    found = {(chosen.settings["beta"], chosen.scaling): chosen}
    for each in sorted(search.candidates_, key=lambda each: sign * each.mean[search.scoring]):
        found.setdefault((each.settings["beta"], each.scaling), each)
    return [found[key] for key in sorted(found)]
