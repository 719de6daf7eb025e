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
        >>> model = GradientDecayLGBMClassifier(beta=2.0, n_estimators=20, n_jobs=1, verbose=-1)
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
        """Fit as ``LGBMClassifier`` does, starting from the classes' frequencies.

        Sets to evaluate on start there too, and their metric is the negative log-likelihood unless
        ``eval_metric`` is a function: LightGBM's own would take scores for probabilities.
        """
        for name in ("init_score", "eval_init_score"):
            if options.get(name) is not None:
                raise ValueError(
                    f"{name} must be left out: it is that of the classes' frequencies."
                )
        start = log_frequencies(y, sample_weight)
        self._start = start[1:] - start[:1] if len(start) == 2 else start
        if options.get("eval_set") is not None:
            sets = options["eval_set"]
            sets = [sets] if isinstance(sets, tuple) else sets
            options["eval_init_score"] = [self._scores_at_start(target) for _, target in sets]
            if not callable(options.setdefault("eval_metric", negative_log_likelihood)):
                raise ValueError(
                    "eval_metric must be a function of classes and scores, but got "
                    f"{options['eval_metric']!r}."
                )
        self.set_params(objective=LightGBMObjective(self.beta))
        try:
            super().fit(
                X,
                y,
                sample_weight=sample_weight,
                init_score=self._scores_at_start(y),
                **options,
            )
        finally:
            self.objective = None  # as it was given; predicting needs to know it still
        return self

    def _scores_at_start(self, target: ArrayLike) -> Any:
        scores = np.tile(self._start, (len(np.asarray(target)), 1))
        return scores if len(self._start) > 1 else scores[:, 0]

    def _process_params(self, stage: str) -> dict[str, Any]:
        """Return the parameters that LightGBM knows, without a metric of its own."""
        params: dict[str, Any] = super()._process_params(stage)
        params.pop("beta", None)
        params["metric"] = "None"
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


def negative_log_likelihood(
    target: Any, scores: Any, weight: Any = None
) -> tuple[str, float, bool]:
    """Return the name, the mean and that less is better, as LightGBM asks of a metric.

    Example:
        >>> negative_log_likelihood(np.array([0, 1]), np.zeros((2, 4)))[1].round(4)
        np.float64(1.3863)
    """
    own = class_probabilities(scores)[np.arange(len(target)), np.asarray(target, dtype=np.int64)]
    return "nll", np.average(-np.log(np.maximum(own, 1e-300)), weights=weight), False
