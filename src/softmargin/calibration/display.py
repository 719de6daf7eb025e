"""A reliability diagram in the manner of scikit-learn's displays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin._docs import document_arguments
from softmargin.calibration._batch import check_bins
from softmargin.calibration.binning import BinStatistics, bin_statistics
from softmargin.calibration.metrics import top_label
from softmargin.calibration.reliability import reliability_diagram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ARGUMENTS = {
    "y_true": "the classes, of shape (N,): numbers or text.",
    "y_pred": """what ``predict_proba`` returns, of shape (N, C), or the probability of the second
        of two classes, of shape (N,); with ``from_logits``, logits.""",
    "estimator": "a fitted classifier with ``predict_proba``.",
    "X": "what it predicts for.",
    "y": "the classes of the rows of ``X``.",
    "labels": """the class of each column of ``y_pred``; by default the different values of
        ``y_true`` in order.""",
    "from_logits": "whether ``y_pred`` holds logits instead of probabilities.",
    "bins": "number of bins of equal width.",
    "name": "what to call the predictions; by default the estimator's class, if there is one.",
    "ax": "where to draw; by default new axes, and others below for the counts.",
    "color": "colour of the bars.",
}


@document_arguments(
    ARGUMENTS, statistics="the bins, such as ``bins`` of a :class:`CalibrationResult`."
)
class ReliabilityDisplay:
    """Accuracy per bin of confidence, as a display like those of scikit-learn.

    Use :meth:`from_estimator` or :meth:`from_predictions`; :meth:`plot` draws again elsewhere.

    Attributes:
        ax_: the axes of the diagram, after it was drawn.
        figure_: their figure.

    Example:
        >>> from softmargin.calibration import ReliabilityDisplay
        >>> y_prob = [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.7, 0.3]]
        >>> display = ReliabilityDisplay.from_predictions([0, 1, 1, 1], y_prob, name="mine")
        >>> print(f"{display.statistics.expected_calibration_error():.2f}")
        0.35
        >>> display.ax_.get_title("left")
        'mine'
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, statistics: BinStatistics, *, name: str | None = None) -> None:
        """Keep what to draw."""
        self.statistics, self.name = statistics, name

    @document_arguments(ARGUMENTS)
    def plot(self, ax: Axes | None = None, *, name: str | None = None, color: str = "C0") -> Self:
        """Draw the diagram, and return the display itself."""
        below = None
        if ax is None:
            from matplotlib import pyplot

            _, (ax, below) = pyplot.subplots(
                2, 1, height_ratios=(3.2, 1), figsize=(4.5, 5.5), layout="constrained"
            )
        reliability_diagram(ax, self.statistics, below, color=color)
        ax.set_title(self.name or "" if name is None else name, loc="left")
        figure: Any = ax.figure
        self.ax_, self.figure_ = ax, figure
        return self

    @classmethod
    @document_arguments(ARGUMENTS)
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        labels: Any = None,
        from_logits: bool = False,
        bins: int = 10,
        name: str | None = None,
        ax: Axes | None = None,
        color: str = "C0",
    ) -> Self:
        """Draw the reliability of predictions."""
        check_bins(bins, "right")
        target, values = _as_array("y_true", y_true), _as_array("y_pred", y_pred)
        if values.dtype.kind not in "fiu" or values.ndim not in (1, 2):
            raise ValueError(
                "y_pred must hold numbers of shape (N, C) or (N,), but got "
                f"{values.dtype} of shape {values.shape}."
            )
        values = values.astype(np.float64)
        if values.ndim == 1:
            other = np.zeros_like(values) if from_logits else 1 - values
            values = np.stack([other, values], 1)
        numbers = _numbers(target, values, labels)
        found = top_label(torch.from_numpy(values), numbers, from_logits=from_logits)
        statistics = bin_statistics(found.confidence, found.correct, bins=bins)
        return cls(statistics, name=name).plot(ax, color=color)

    @classmethod
    @document_arguments(ARGUMENTS)
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        bins: int = 10,
        name: str | None = None,
        ax: Axes | None = None,
        color: str = "C0",
    ) -> Self:
        """Draw the reliability of what a classifier predicts."""
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                "estimator must have a method predict_proba, but "
                f"{type(estimator).__name__} has none."
            )
        shown = type(estimator).__name__ if name is None else name
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            labels=getattr(estimator, "classes_", None),
            bins=bins,
            name=shown,
            ax=ax,
            color=color,
        )


def _as_array(name: str, value: Any) -> NDArray[Any]:
    if isinstance(value, torch.Tensor):
        return np.asarray(value.numpy(force=True))
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, but cannot be made one: {error}.") from None


def _numbers(target: NDArray[Any], values: NDArray[Any], labels: Any) -> torch.Tensor:
    """Return the column of each row's class."""
    if target.ndim != 1 or len(target) != len(values) or not len(target):
        raise ValueError(
            f"y_true must have shape ({len(values)},), one class for each prediction, but got "
            f"{target.shape}."
        )
    classes = _as_array("labels", np.unique(target) if labels is None else labels)
    if labels is None and target.dtype.kind in "iu":
        classes = np.arange(values.shape[1])  # classes from 0, of which some may not occur
    if len(classes) != values.shape[1]:
        raise ValueError(
            f"labels must name the {values.shape[1]} columns of y_pred, but there are "
            f"{len(classes)}."
        )
    places = {value: place for place, value in enumerate(classes.tolist())}
    missing = [each for each in target.tolist() if each not in places]
    if missing:
        raise ValueError(f"y_true must hold classes of labels, but got {missing[0]!r}.")
    return torch.tensor([places[each] for each in target.tolist()])
