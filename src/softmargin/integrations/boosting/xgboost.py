"""A classifier of XGBoost with the β loss that starts where XGBoost's own objectives do."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from softmargin.integrations._extras import need
from softmargin.integrations.boosting.objective import XGBoostObjective, log_frequencies

xgboost = need("xgboost", "boosting", "3.1")


class GradientDecayXGBClassifier(xgboost.XGBClassifier):  # type: ignore[name-defined]
    """``XGBClassifier`` with the β loss.

    XGBoost starts a custom objective from 0. Here boosting starts from the classes' frequencies, as
    it does with XGBoost's own objectives, unless ``base_score`` is given. β = 1 gives the
    predictions of ``XGBClassifier()``.

    Args:
        beta: gradient decay factor above 0, a number or one per class.
        **options: those of ``xgboost.XGBClassifier``, without ``objective``.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import GridSearchCV
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GradientDecayXGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)
        >>> search = GridSearchCV(model, {"beta": [0.5, 2.0]}, scoring="neg_log_loss").fit(X, y)
        >>> search.best_estimator_.predict_proba(X[:2]).shape
        (2, 3)
    """

    objective: Any
    base_score: Any

    def __init__(self, *, beta: float | ArrayLike = 1.0, **options: Any) -> None:
        """Keep β for the objective, which is made when fitting."""
        super().__init__(**options)
        self.beta = beta

    def fit(self, X: Any, y: ArrayLike, *, sample_weight: Any = None, **options: Any) -> Self:
        """Fit as ``XGBClassifier`` does, starting from the classes' frequencies."""
        objective, base_score = self.objective, self.base_score
        if objective not in (None, "binary:logistic"):  # the default
            raise ValueError(
                f"objective must be left out, for it is the β loss, but got {objective!r}."
            )
        self.objective = XGBoostObjective(self.beta)
        if self.base_score is None:
            start = log_frequencies(y, sample_weight)
            binary = len(start) == 2
            self.base_score = float(np.exp(start[1])) if binary else (start - start.mean()).tolist()
        try:
            super().fit(X, y, sample_weight=sample_weight, **options)
        finally:
            self.objective, self.base_score = objective, base_score
        return self

    def get_xgb_params(self) -> dict[str, Any]:
        """Return the parameters that XGBoost knows."""
        params: dict[str, Any] = super().get_xgb_params()
        params.pop("beta", None)
        return params
