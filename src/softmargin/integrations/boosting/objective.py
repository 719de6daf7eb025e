"""Gradient and diagonal Hessian of the β loss in closed form, as boosting libraries take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softmargin._plain_checks import check_number

Numbers = NDArray[np.float64]
LEAST_HESSIAN = 1e-16  # XGBoost's own floor


def gradient_and_hessian(
    scores: ArrayLike, target: ArrayLike, beta: float | ArrayLike = 1.0
) -> tuple[Numbers, Numbers]:
    r"""Return the gradient and the diagonal of the Hessian of log(β + e^ξ) for every sample.

    With :math:`s = \sigma(\xi - \log\beta)` and :math:`q_j`, the softmax over the classes other
    than the target c,

    .. math:: g_c = -s, \quad g_j = s q_j, \quad
              h_c = s (1 - s), \quad h_j = s (1 - s) q_j^2 + s q_j (1 - q_j)

    β = 1 gives p - y and p (1 - p). No entry of the Hessian is negative, whatever β is.

    Args:
        scores: logits of shape (N, C), or for two classes of shape (N,), those of class 1 against
            class 0.
        target: class indices of shape (N,).
        beta: β above 0, a number or one per class.

    Returns:
        Two float64 arrays of the shape of ``scores``.

    Example:
        >>> gradient, hessian = gradient_and_hessian([[0.0, 0.0]], [0], beta=3.0)
        >>> gradient, hessian
        (array([[-0.25,  0.25]]), array([[0.1875, 0.1875]]))
    """
    z, y = np.asarray(scores, dtype=np.float64), _classes(target)
    if z.ndim not in (1, 2) or len(z) != len(y):
        raise ValueError(
            f"scores must have shape ({len(y)}, C), or ({len(y)},) for two classes, "
            f"but got {z.shape}."
        )
    num_classes = z.shape[1] if z.ndim == 2 else 2
    if len(y) and not (y.min() >= 0 and y.max() < num_classes):
        wrong = y.max() if y.max() >= num_classes else y.min()
        raise ValueError(f"target must hold classes from 0 to {num_classes - 1}, but got {wrong}.")
    log_beta = np.log(checked_beta(beta, num_classes))
    own_log_beta = log_beta[y] if log_beta.ndim else log_beta
    if z.ndim == 1:
        sign = np.where(y == 1, -1.0, 1.0)
        slope = _sigmoid(sign * z - own_log_beta)
        return sign * slope, slope * (1 - slope)
    return _of_many(z, y, own_log_beta)


def _of_many(z: Numbers, y: NDArray[np.int64], log_beta: Numbers) -> tuple[Numbers, Numbers]:
    rows = np.arange(len(z))
    others = z.copy()
    others[rows, y] = -np.inf
    peak = others.max(axis=1)
    share = np.exp(others - peak[:, None])
    total = share.sum(axis=1)
    share /= total[:, None]  # q, and 0 at the target
    slope = _sigmoid(peak + np.log(total) - z[rows, y] - log_beta)
    gradient = slope[:, None] * share
    hessian = gradient * (1 - share) + (slope * (1 - slope))[:, None] * share**2
    gradient[rows, y] = -slope
    hessian[rows, y] = slope * (1 - slope)
    return gradient, hessian


class GradientDecayObjective:
    """Base of the objectives: gradient and Hessian as a boosting library calls for them.

    Called as ``objective(y_true, y_pred, sample_weight)``, as scikit-learn estimators do, or as
    ``objective(predictions, data)``, as ``xgboost.train`` and ``lightgbm.train`` do.

    Args:
        beta: gradient decay factor above 0, a number or one per class. β = 1 is the library's own
            softmax objective; above 1 samples stay together, and probabilities less extreme.
    """

    def __init__(self, beta: float | ArrayLike = 1.0) -> None:
        """Keep β, checked."""
        checked_beta(beta, None)
        self.beta = beta

    def hessian_factor(self, num_classes: int, *, one_column: bool) -> float:
        """Return what the library's own objective multiplies its Hessian by."""
        raise NotImplementedError

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> tuple[Numbers, Numbers]:
        """Return gradient and Hessian, of the shape of the predictions."""
        if hasattr(y_pred, "get_label"):
            y_true, y_pred, sample_weight = y_pred.get_label(), y_true, y_pred.get_weight()
        scores = np.asarray(y_pred)
        gradient, hessian = gradient_and_hessian(scores, y_true, self.beta)
        columns = scores.shape[1] if scores.ndim == 2 else 2
        hessian *= self.hessian_factor(columns, one_column=scores.ndim == 1)
        hessian = np.maximum(hessian, LEAST_HESSIAN)
        if sample_weight is not None and np.size(sample_weight):
            weight = np.asarray(sample_weight, dtype=np.float64)
            weight = weight[:, None] if scores.ndim == 2 else weight
            gradient, hessian = gradient * weight, hessian * weight
        return gradient, hessian

    def __repr__(self) -> str:
        """Show β."""
        return f"{type(self).__name__}(beta={self.beta!r})"


class XGBoostObjective(GradientDecayObjective):
    """The β loss for XGBoost.

    For ``XGBClassifier(objective=...)``, or for ``xgboost.train(params, data, obj=...)`` with
    ``"objective": "multi:softprob"`` and ``num_class`` in ``params``; probabilities then come out
    as usual. XGBoost then starts from 0 instead of the classes' frequencies, unless ``base_score``
    says otherwise; :class:`GradientDecayXGBClassifier` takes care of it. As in XGBoost, the Hessian
    of several classes is doubled.

    Example:
        >>> objective = XGBoostObjective(beta=5.0)
        >>> objective
        XGBoostObjective(beta=5.0)
    """

    def hessian_factor(self, num_classes: int, *, one_column: bool) -> float:
        """Return 2, and 1 for a single column."""
        return 1.0 if one_column else 2.0


class LightGBMObjective(GradientDecayObjective):
    """The β loss for LightGBM.

    For ``lightgbm.train({"objective": ..., "num_class": C}, data)``. LightGBM then starts from 0
    instead of the classes' frequencies and predicts scores, see :func:`class_probabilities`;
    :class:`GradientDecayLGBMClassifier` takes care of both. As in LightGBM, the Hessian of C
    classes is multiplied by C/(C - 1).

    Example:
        >>> LightGBMObjective(beta=5.0)
        LightGBMObjective(beta=5.0)
    """

    def hessian_factor(self, num_classes: int, *, one_column: bool) -> float:
        """Return C/(C - 1), and 1 for a single column."""
        return 1.0 if one_column else num_classes / (num_classes - 1)


def class_probabilities(scores: ArrayLike) -> Numbers:
    """Return class probabilities (N, C) of scores (N, C), or (N, 2) of those of class 1 (N,).

    Example:
        >>> class_probabilities([[0.0, np.log(3.0)]]).round(4)
        array([[0.25, 0.75]])
        >>> class_probabilities([np.log(3.0)]).round(4)
        array([[0.25, 0.75]])
    """
    z = np.asarray(scores, dtype=np.float64)
    if z.ndim == 1:
        z = np.stack([np.zeros_like(z), z], axis=1)
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def log_frequencies(target: ArrayLike, sample_weight: ArrayLike | None = None) -> Numbers:
    """Return the logarithms of the classes' shares, where boosting starts.

    Example:
        >>> np.exp(log_frequencies(["a", "b", "b", "b"])).round(4)
        array([0.25, 0.75])
    """
    classes, place = np.unique(np.asarray(target), return_inverse=True)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    share = np.bincount(place, weights=weights, minlength=len(classes))
    return np.asarray(np.log(np.maximum(share / share.sum(), 1e-15)))


def checked_beta(beta: float | ArrayLike, num_classes: int | None) -> Numbers:
    """Return β as an array; raise unless it is a number above 0, or one for each class."""
    values = np.asarray(beta, dtype=np.float64)
    for value in values.flat:
        check_number("beta", float(value))
    if values.ndim > 1 or (values.ndim and num_classes not in (None, len(values))):
        allowed = "(C,)" if num_classes is None else f"({num_classes},)"
        raise ValueError(f"beta must be a number or of shape {allowed}, but got {values.shape}.")
    return values


def _classes(target: ArrayLike) -> NDArray[np.int64]:
    """Return class indices, which the libraries hold as floating-point numbers."""
    given = np.asarray(target)
    if given.ndim != 1:
        raise ValueError(f"target must have shape (N,), but got {given.shape}.")
    classes = given.astype(np.int64)
    if not np.array_equal(classes, given):
        raise ValueError("target must hold class indices, but some are no whole numbers.")
    return classes


def _sigmoid(x: Numbers) -> Numbers:
    """Return 1/(1 + e^-x) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1 + small))
