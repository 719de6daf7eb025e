"""A classifier of LightGBM with the β loss, whose probabilities are probabilities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from softmargin.integrations._extras import need
from softmargin.integrations.boosting.objective import (
    LightGBMObjective,
    class_probabilities,
    log_frequencies,
)

lightgbm = need("lightgbm", "boosting", "4.0")


class GradientDecayLGBMClassifier(lightgbm.LGBMClassifier):  # type: ignore[name-defined]
    """``LGBMClassifier`` with the β loss.

    LightGBM knows nothing of what a custom objective starts from and predicts: it starts from 0
    and returns scores from ``predict`` and ``predict_proba``. Here boosting starts from the
    classes' frequencies, as LightGBM's own objectives do, and both return what they say. β = 1
    gives the predictions of ``LGBMClassifier()``.

    Args:
        beta: gradient decay factor above 0, a number or one per class.
        **options: those of ``lightgbm.LGBMClassifier``, without ``objective``.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import cross_val_score
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GradientDecayLGBMClassifier(beta=2.0, n_estimators=20, verbose=-1)
        >>> bool(cross_val_score(model, X, y, scoring="neg_log_loss").mean() > -0.3)
        True
    """

    def __init__(self, *, beta: float | ArrayLike = 1.0, **options: Any) -> None:
        """Keep β for the objective, which is made when fitting."""
        if options.get("objective") is not None:
            raise ValueError(
                "objective must be left out, for it is the β loss, "
                f"but got {options['objective']!r}."
            )
        super().__init__(**options)
        self.beta = beta

    def fit(self, X: Any, y: ArrayLike, sample_weight: Any = None, **options: Any) -> Self:
        """Fit as ``LGBMClassifier`` does, starting from the classes' frequencies."""
        if "init_score" in options:
            raise ValueError("init_score must be left out: it is that of the classes' frequencies.")
        start = log_frequencies(y, sample_weight)
        if len(start) == 2:
            start = start[1:] - start[:1]
        self._start = start
        init_score = np.tile(start, (len(np.asarray(y)), 1))
        self.set_params(objective=LightGBMObjective(self.beta))
        try:
            super().fit(
                X,
                y,
                sample_weight=sample_weight,
                init_score=init_score if len(start) > 1 else init_score[:, 0],
                **options,
            )
        finally:
            self.objective = None  # as it was given; predicting needs to know it still
        return self

    def _process_params(self, stage: str) -> dict[str, Any]:
        """Return the parameters that LightGBM knows."""
        params: dict[str, Any] = super()._process_params(stage)
        params.pop("beta", None)
        return params

    def decision_function(self, X: Any, **options: Any) -> Any:
        """Return the scores that the probabilities are of."""
        scores = np.asarray(super().predict_proba(X, raw_score=True, **options))
        return scores + (self._start if scores.ndim == 2 else self._start[0])

    def predict_proba(self, X: Any, **options: Any) -> Any:
        """Return class probabilities of shape (N, C)."""
        return class_probabilities(self.decision_function(X, **options))

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the most probable class of every row."""
        return self.classes_[self.predict_proba(X, **options).argmax(axis=1)]
