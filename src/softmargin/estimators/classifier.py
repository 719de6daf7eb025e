"""A linear or fully connected classifier as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_random_state,
    validate_data,
)

from softmargin._plain_checks import check_count, check_number
from softmargin.data import Dataset, Normalize, Provenance, Split
from softmargin.data.sampling import stratified_indices
from softmargin.models import Classifier
from softmargin.training import Fold, TrainingConfig, train_together
from softmargin.training.parts import loss_takes

Floats = NDArray[np.float64]
LARGEST_BATCH = 200  # of batch_size="auto", as in scikit-learn
LARGEST_SEED = 2**31


class MarginClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear or fully connected classifier with any loss and head of the library.

    Columns are standardised. The network is trained by :func:`softmargin.training.train_together`.

    Args:
        beta: β of the loss, where it has one: above 1 for calibration, below 1 for a margin.
        loss: name of a loss such as ``"gradient_decay"`` or ``"focal"``, or a class of your own.
        loss_options: its other arguments, such as ``{"compensate": True}``.
        head: name of a head such as ``"linear"`` or ``"arcface"``, or a class of your own.
        head_options: its arguments.
        hidden_sizes: units of the hidden layers; ``()`` is a linear classifier.
        epochs: passes over the data; at most so many with ``early_stopping``.
        batch_size: rows of a step; ``"auto"`` is all of them up to 200.
        learning_rate: of the optimiser.
        optimizer: ``"adam"``, ``"adamw"`` or ``"sgd"``.
        weight_decay: of all weights.
        early_stopping: whether the number of epochs is chosen by NLL on rows that are held out for
            it; the classifier is then trained on all rows for as long.
        validation_fraction: share of the rows to hold out for that.
        class_weight: weights by class, ``"balanced"``, or None.
        warm_start: whether ``fit`` goes on from the weights of the last one.
        random_state: seed of weights and batches.

    Attributes:
        classes_: the classes.
        module_: the trained ``nn.Module``, from standardised rows to logits.
        n_iter_: the number of epochs.
        n_features_in_: the number of columns.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from softmargin.estimators import MarginClassifier
        >>> x, y = load_iris(return_X_y=True)
        >>> MarginClassifier(beta=5.0, epochs=50, random_state=0).fit(x, y).score(x, y) > 0.9
        True
    """

    def __init__(
        self,
        beta: float = 1.0,
        *,
        loss: Any = "gradient_decay",
        loss_options: Mapping[str, Any] | None = None,
        head: Any = "linear",
        head_options: Mapping[str, Any] | None = None,
        hidden_sizes: Sequence[int] = (64,),
        epochs: int = 100,
        batch_size: int | str = "auto",
        learning_rate: float = 0.01,
        optimizer: str = "adam",
        weight_decay: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.beta = beta
        self.loss = loss
        self.loss_options = loss_options
        self.head = head
        self.head_options = head_options
        self.hidden_sizes = hidden_sizes
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows ``X`` (N, features), dense or sparse, and their classes ``y`` (N,)."""
        x, target = checked_rows(self, X, y)
        weight = _weights(self, X, y, sample_weight)
        seen = weight > 0
        x, target, weight = x[seen], target[seen], weight[seen]
        self.mean_ = np.average(x, axis=0, weights=weight)
        spread = np.sqrt(np.average((x - self.mean_) ** 2, axis=0, weights=weight))
        self.scale_ = np.where(spread > 10 * np.finfo(x.dtype).eps * np.abs(self.mean_), spread, 1)
        scaled = ((x - self.mean_) / self.scale_).astype(x.dtype)
        data = as_dataset(scaled, target, len(self.classes_))
        seed = int(check_random_state(self.random_state).randint(LARGEST_SEED))
        epochs = self.epochs
        if self.early_stopping:
            epochs = self._best_epochs(data, weight, seed)
        every = torch.arange(len(target))
        found = train_together(
            [configuration(self, len(target), seed, x.dtype, epochs=epochs)],
            folds=[Fold(every, every[:1])],
            dataset=data,
            normalize=as_they_are(x.shape[1]),
            sample_weight=_if_they_differ(weight),
            start=self._start(),
            evaluate_every=None,
            threads=1,
        )
        self.module_: Classifier = found.classifier(0).double()
        self.n_iter_ = epochs
        return self

    def _start(self) -> list[Classifier] | None:
        before: Classifier | None = getattr(self, "module_", None)
        return [before] if self.warm_start and before is not None else None

    def _best_epochs(self, data: Dataset, weight: Floats, seed: int) -> int:
        """Return after how many epochs rows that are held out have the lowest NLL."""
        check_number("validation_fraction", self.validation_fraction, below=1.0)
        y = data.train.y
        held_out = stratified_indices(y, self.validation_fraction, seed)
        rest = torch.ones(len(y), dtype=torch.bool)
        rest[held_out] = False
        train = rest.nonzero()[:, 0]
        config = configuration(self, len(train), seed, data.train.x.numpy().dtype)
        found = train_together(
            [config],
            folds=[Fold(train, held_out)],
            dataset=data,
            normalize=as_they_are(data.train.x.shape[1]),
            sample_weight=_if_they_differ(weight),
            threads=1,
        )
        return int(found.history("nll")[0].argmin()) + 1

    def logits(self, X: Any) -> Floats:
        """Return the logits (N, C) of rows, in float64."""
        check_is_fitted(self)
        x = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        scaled = (_dense(x).astype(np.float64) - self.mean_) / self.scale_
        with torch.no_grad():
            logits: Floats = self.module_(torch.from_numpy(scaled)).numpy()
        return logits

    def decision_function(self, X: Any) -> Floats:
        """Return logits (N, C), or for two classes the log-odds (N,) of the second."""
        logits = self.logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_log_proba(self, X: Any) -> Floats:
        """Return log-probabilities (N, C), in the order of ``classes_``."""
        found: Floats = torch.from_numpy(self.logits(X)).log_softmax(1).numpy()
        return found

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities (N, C), in the order of ``classes_``."""
        found: Floats = torch.from_numpy(self.logits(X)).softmax(1).numpy()
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row."""
        chosen = self.logits(X).argmax(1)
        found: NDArray[Any] = self.classes_[chosen]
        return found

    def __sklearn_tags__(self) -> Any:
        """Say that sparse rows are taken, too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def checked_rows(estimator: Any, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Check rows and classes, set ``classes_``, and return dense rows and class numbers."""
    x, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
    check_classification_targets(y)
    estimator.classes_, target = np.unique(y, return_inverse=True)
    if len(estimator.classes_) < 2:
        raise ValueError(
            f"y must hold at least two classes, but got one class, {estimator.classes_[0]!r}."
        )
    return _dense(x), target.astype(np.int64)


def _dense(x: Any) -> NDArray[Any]:
    found: NDArray[Any] = x.toarray() if hasattr(x, "toarray") else np.asarray(x)
    return found


def _weights(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Floats:
    """Return how much each row counts."""
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if estimator.class_weight is not None:
        weight = weight * compute_sample_weight(estimator.class_weight, y)
    if not weight.any():
        raise ValueError("sample_weight must hold a weight above 0, but got none.")
    found: Floats = weight
    return found


def _if_they_differ(weight: Floats) -> torch.Tensor | None:
    return None if (weight == weight[0]).all() else torch.from_numpy(weight)


def as_dataset(x: NDArray[Any], y: NDArray[np.int64], classes: int) -> Dataset:
    """Return rows as a data set whose rows folds number."""
    rows = Split(torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(y))
    names = tuple(str(number) for number in range(classes))
    return Dataset("X", rows, rows.select(torch.arange(0)), names, Provenance("the caller", ""))


def as_they_are(columns: int) -> Normalize:
    """Return the z-score that changes nothing."""
    return Normalize((0.0,) * columns, (1.0,) * columns)


def configuration(
    estimator: Any, rows: int, seed: int, dtype: np.dtype[Any], epochs: int | None = None
) -> TrainingConfig:
    """Return how an estimator trains on a number of rows, for its own number of epochs or fewer."""
    check_count("epochs", estimator.epochs, 1)
    batch = estimator.batch_size
    if batch == "auto":
        batch = LARGEST_BATCH
    check_count("batch_size", batch, 1)
    check_number("learning_rate", estimator.learning_rate)
    for size in estimator.hidden_sizes:
        check_count("every number of hidden_sizes", size, 1)
    loss_options = dict(estimator.loss_options or {})
    if loss_takes(estimator.loss, "beta"):
        loss_options.setdefault("beta", estimator.beta)
    elif estimator.beta != 1:
        raise ValueError(
            f"beta must be left at 1 for the loss {estimator.loss!r}, which has none, but got "
            f"{estimator.beta!r}."
        )
    return TrainingConfig(
        "X",
        "fcnn",
        model_options={"widths": list(estimator.hidden_sizes)},
        head=estimator.head,
        head_options=dict(estimator.head_options or {}),
        loss=estimator.loss,
        loss_options=loss_options,
        epochs=estimator.epochs if epochs is None else epochs,
        batch=min(batch, rows),
        lr=estimator.learning_rate,
        optimizer=estimator.optimizer,
        weight_decay=estimator.weight_decay,
        precision="64" if dtype == np.float64 else "32",
        seed=seed,
    )
