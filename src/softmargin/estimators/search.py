"""β chosen by cross-validation, with all folds, values and seeds trained at once."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.validation import check_is_fitted, check_random_state

from softmargin._plain_checks import check_choice, check_count, check_flag
from softmargin._table import markdown_table
from softmargin.calibration._held_out import SCORES
from softmargin.estimators.candidates import Candidate, Runs
from softmargin.estimators.classifier import (
    LARGEST_SEED,
    Floats,
    MarginClassifier,
    checked_rows,
)
from softmargin.training import train_together

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = {"weight_decay": (0.0, 0.01, 0.1)}
SCALINGS = ("none", "temperature")
# what models trained together share
SHARED = ("hidden_sizes", "epochs", "batch_size", "optimizer")


class MarginClassifierCV(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A :class:`MarginClassifier` whose β and number of epochs are chosen by cross-validation.

    All folds, values and seeds are trained at once, in float32. Every candidate is also considered
    with a temperature, fitted on the other folds, so that the choice answers whether β is needed
    at all. The best candidate is trained again on all rows.

    Args:
        betas: values of β to try.
        estimator: a :class:`MarginClassifier` with all other settings; by default a fresh one.
        grid: other settings to try, by name; by default ``{"weight_decay": (0.0, 0.01, 0.1)}``.
        compensate: whether to try every β with ``compensate=True``, too.
        temperature: whether to try every candidate with a temperature, too.
        cv: number of folds, a splitter, or pairs of row numbers to train and to test on.
        seeds: networks per candidate and fold.
        scoring: ``"nll"``, ``"brier"`` or ``"accuracy"``.
        one_standard_error: whether to take, of all candidates within one standard error of the
            best, the plainest: no temperature, β nearest to 1, fewest epochs.
        looks: at how many numbers of epochs candidates are compared.
        random_state: seed of folds, weights and batches.

    Attributes:
        classes_: the classes.
        best_estimator_: the chosen classifier, trained on all rows.
        best_params_: its settings, with ``epochs`` and ``scaling``.
        best_score_: the score of the choice, by cross-validation.
        temperature_: what logits are divided by; 1 where no temperature was chosen.
        cv_results_: every candidate, as arrays by column.
        held_out_proba_: probabilities (N, C) of every row, by a candidate that was trained and
            chosen without its fold: how the whole procedure does on new rows.
        n_features_in_: the number of columns.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from softmargin.estimators import MarginClassifierCV
        >>> x, y = load_iris(return_X_y=True)
        >>> search = MarginClassifierCV([1.0, 10.0], random_state=0).fit(x, y)
        >>> sorted(search.best_params_)
        ['beta', 'epochs', 'scaling', 'weight_decay']
    """

    def __init__(
        self,
        betas: Sequence[float] = (0.3, 1.0, 3.0, 10.0),
        *,
        estimator: MarginClassifier | None = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
        compensate: bool = False,
        temperature: bool = True,
        cv: Any = 5,
        seeds: int = 1,
        scoring: str = "nll",
        one_standard_error: bool = False,
        looks: int = 10,
        random_state: Any = None,
    ) -> None:
        self.betas = betas
        self.estimator = estimator
        self.grid = grid
        self.compensate = compensate
        self.temperature = temperature
        self.cv = cv
        self.seeds = seeds
        self.scoring = scoring
        self.one_standard_error = one_standard_error
        self.looks = looks
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose on rows ``X`` (N, features), dense or sparse, and their classes ``y`` (N,)."""
        self._check()
        x, target = checked_rows(self, X, y)
        seed = int(check_random_state(self.random_state).randint(LARGEST_SEED))
        folds = self._folds(x, target, seed)
        runs = Runs(self._base(), folds, target, [seed + i for i in range(self.seeds)])
        runs.trainer = getattr(self, "_trainer", train_together)
        for settings in _grouped(self._settings()):
            runs.train(x.astype(np.float32), settings, self.looks)
        scalings = SCALINGS if self.temperature else SCALINGS[:1]
        self.candidates_ = [
            each for place in range(len(runs.settings)) for each in runs.judged(place, scalings)
        ]
        best = self._choice(self.candidates_)
        self.best_index_ = self.candidates_.index(best)
        self.best_params_ = {**best.settings, "epochs": best.epochs, "scaling": best.scaling}
        self.best_score_ = best.mean[self.scoring]
        self.temperature_ = 1.0
        if best.scaling == "temperature":
            self.temperature_ = runs.temperature(runs.place_of(best), runs.look_of(best))
        chosen = {**best.settings, "epochs": best.epochs, "random_state": seed}
        self.best_estimator_ = clone(self._base()).set_params(**chosen).fit(X, y)
        self.cv_results_ = _columns(self.candidates_, self.scoring)
        self.held_out_proba_ = self._held_out(runs)
        return self

    def _held_out(self, runs: Runs) -> Floats:
        """Return probabilities of rows by what would have been chosen without their fold."""
        found = np.full((len(runs.target), len(self.classes_)), np.nan)
        for number, fold in enumerate(runs.folds):
            chosen = self.candidates_[self.best_index_]
            if len(runs.folds) > 1:
                others = [
                    each.without(number, runs.sizes, self.scoring) for each in self.candidates_
                ]
                chosen = self.candidates_[others.index(self._choice(others))]
            place, look = runs.place_of(chosen), runs.look_of(chosen)
            log_p = runs.scaled(place, chosen.scaling)[look, 0].log_softmax(-1)
            found[fold.test] = log_p[runs.fold_of == number].exp().numpy()
        return found

    def _base(self) -> MarginClassifier:
        return MarginClassifier() if self.estimator is None else self.estimator

    def _check(self) -> None:
        check_choice("scoring", self.scoring, SCORES)
        check_count("seeds", self.seeds, 1)
        check_count("looks", self.looks, 1)
        for name in ("compensate", "temperature", "one_standard_error"):
            check_flag(name, getattr(self, name))
        if not len(self.betas):
            raise ValueError("betas must hold at least one value, but got none.")

    def _folds(
        self, x: NDArray[Any], target: NDArray[np.int64], seed: int
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        splitter = self.cv
        if isinstance(splitter, int):
            check_count("cv", splitter, 2)
            most = int(np.bincount(target).max())
            if most < 2:
                raise ValueError("y must hold a class with at least two rows, but got none.")
            splitter = StratifiedKFold(min(splitter, most), shuffle=True, random_state=seed)
        with warnings.catch_warnings():  # a class with fewer rows than folds is no mistake
            warnings.simplefilter("ignore", UserWarning)
            return list(check_cv(splitter, target, classifier=True).split(x, target))

    def _settings(self) -> list[dict[str, Any]]:
        """Return all settings to try."""
        given = GRID if self.grid is None else self.grid
        grid = {name: list(values) for name, values in given.items()}
        shared = dict(self._base().loss_options or {})
        found = []
        for beta, extra in itertools.product(self.betas, (False, True)[: 1 + self.compensate]):
            if extra and beta == 1:  # the same as without
                continue
            own: dict[str, Any] = {"beta": float(beta)}
            if extra:
                own["loss_options"] = {**shared, "compensate": True}
            for values in itertools.product(*grid.values()):
                found.append({**own, **dict(zip(grid, values, strict=True))})
        return found

    def _choice(self, candidates: Sequence[Candidate]) -> Candidate:
        sign = -1 if self.scoring == "accuracy" else 1

        def value(candidate: Candidate) -> float:
            found = sign * candidate.mean[self.scoring]
            return np.inf if np.isnan(found) else found

        best = min(candidates, key=value)
        if not self.one_standard_error:
            return best
        limit = value(best) + best.error(self.scoring)
        near = [each for each in candidates if value(each) <= limit]
        return min(
            near,
            key=lambda each: (
                each.scaling != "none",
                abs(np.log(each.settings["beta"])),
                each.epochs,
                value(each),
            ),
        )

    # --- prediction

    def decision_function(self, X: Any) -> Floats:
        """Return logits (N, C), or for two classes the log-odds (N,) of the second."""
        check_is_fitted(self)
        found: Floats = self.best_estimator_.decision_function(X) / self.temperature_
        return found

    def predict_log_proba(self, X: Any) -> Floats:
        """Return log-probabilities (N, C), in the order of ``classes_``."""
        check_is_fitted(self)
        logits = torch.from_numpy(self.best_estimator_.logits(X) / self.temperature_)
        found: Floats = logits.log_softmax(1).numpy()
        return found

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities (N, C), in the order of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row."""
        check_is_fitted(self)
        found: NDArray[Any] = self.best_estimator_.predict(X)
        return found

    def __sklearn_tags__(self) -> Any:
        """Say that sparse rows are taken, too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- explanation

    def summary(self) -> str:
        """Return the best candidate of every β and scaling as a Markdown table, best first."""
        check_is_fitted(self)
        rows = []
        for each in self._best_by_beta():
            settings = ", ".join(f"{k}={v}" for k, v in each.settings.items() if k != "beta")
            margin = 1.96 * each.error("nll")
            cells = [
                f"{each.settings['beta']:g}",
                settings or "–",
                each.scaling,
                str(each.epochs),
                f"{each.mean['nll']:.4f} ± {margin:.4f}",
                f"{each.mean['brier']:.4f}",
                f"{100 * each.mean['accuracy']:.2f}",
            ]
            mark = "**" if each is self.candidates_[self.best_index_] else ""
            rows.append([f"{mark}{cell}{mark}" for cell in cells])
        headings = ["β", "other settings", "scaling", "epochs", "NLL", "Brier", "accuracy, %"]
        return markdown_table(headings, rows, "rllrrrr")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the best score of every β, with and without a temperature, with its error."""
        check_is_fitted(self)
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        for scaling in SCALINGS if self.temperature else SCALINGS[:1]:
            best: dict[float, Candidate] = {}
            for each in self._best_by_beta():
                if each.scaling == scaling:
                    best.setdefault(each.settings["beta"], each)
            own = [best[beta] for beta in sorted(best)]
            ax.errorbar(
                [each.settings["beta"] for each in own],
                [each.mean[self.scoring] for each in own],
                [each.error(self.scoring) for each in own],
                marker="o",
                capsize=3,
                label="with a temperature" if scaling == "temperature" else "as trained",
            )
        ax.set_xscale("log")
        ax.set_xlabel("β")
        ax.set_ylabel(f"{self.scoring} by cross-validation")
        ax.legend()
        return ax

    def _best_by_beta(self) -> list[Candidate]:
        """Return the best number of epochs of every setting and scaling, best first."""
        sign = -1 if self.scoring == "accuracy" else 1
        best: dict[tuple[str, str], Candidate] = {}
        chosen = self.candidates_[self.best_index_]
        for each in sorted(self.candidates_, key=lambda each: sign * each.mean[self.scoring]):
            best.setdefault((repr(each.settings), each.scaling), each)
        best[repr(chosen.settings), chosen.scaling] = chosen
        return list(best.values())


def _grouped(settings: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield settings that differ only in what models trained together may differ in."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for each in settings:
        groups.setdefault(repr([each.get(name) for name in SHARED]), []).append(each)
    yield from groups.values()


def _columns(candidates: Sequence[Candidate], scoring: str) -> dict[str, Any]:
    """Return candidates as scikit-learn lays out its results."""
    names = dict.fromkeys(name for each in candidates for name in each.settings)
    found: dict[str, Any] = {
        f"param_{name}": np.array([each.settings.get(name) for each in candidates], dtype=object)
        for name in names
    }
    found["param_epochs"] = np.array([each.epochs for each in candidates])
    found["param_scaling"] = np.array([each.scaling for each in candidates])
    for score in SCORES:
        found[f"mean_test_{score}"] = np.array([each.mean[score] for each in candidates])
        found[f"std_test_{score}"] = np.array([each.by_fold[score].std() for each in candidates])
    order = found[f"mean_test_{scoring}"] * (-1 if scoring == "accuracy" else 1)
    found["rank_test"] = order.argsort().argsort() + 1
    found["params"] = [
        {**each.settings, "epochs": each.epochs, "scaling": each.scaling} for each in candidates
    ]
    return found
