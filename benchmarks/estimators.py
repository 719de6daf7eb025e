"""MarginClassifierCV against what a user of scikit-learn would do.

``python -m benchmarks.estimators`` times one search, 8 β × 10 folds × 3 seeds, against
``GridSearchCV`` over the same networks one after the other (timed on one seed and two folds, taken
times the rest). ``python -m benchmarks.estimators nll [NAME ...]`` compares held-out NLL on UCI
tables by repeated cross-validation, with the time each takes, and prints a table in Markdown.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import data
from softmargin._table import markdown_table
from softmargin.estimators import MarginClassifier, MarginClassifierCV

BETAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FOLDS, SEEDS = 10, 3
TABLES = (
    "balance_scale",
    "banknote_authentication",
    "breast_cancer_wisconsin_prognostic",
    "breast_tissue",
    "congressional_voting_records",
    "forest_type_mapping",
    "haberman",
    "hayes_roth",
    "iris",
    "pima_indians_diabetes",
    "teaching_assistant_evaluation",
    "user_knowledge_modeling",
    "vertebral_column",
    "website_phishing",
    "wholesale_customers",
)


def rows(name: str) -> tuple[Any, Any]:
    """Return the rows and classes of a UCI table."""
    whole = data.load_table(f"uci/{name}").whole
    return whole.x.double().numpy(), whole.y.numpy()


def speed(name: str) -> str:
    """Return how long a search takes, and the same networks one after the other."""
    x, y = rows(name)
    base = MarginClassifier(random_state=0)
    search = MarginClassifierCV(
        BETAS, estimator=base, grid={}, cv=FOLDS, seeds=SEEDS, random_state=0
    )
    together = _seconds(lambda: search.fit(x, y))
    one_by_one = GridSearchCV(base, {"beta": BETAS}, scoring="neg_log_loss", cv=2, refit=False)
    share = FOLDS * SEEDS / 2 * (1 - 1 / FOLDS) / (1 - 1 / 2)  # folds are larger, too
    alone = share * _seconds(lambda: one_by_one.fit(x, y))
    return f"{name}: {together:.1f} s against {alone:.0f} s one by one, {alone / together:.0f} ×"


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _network() -> Any:
    grid = {"mlpclassifier__alpha": [1e-4, 1e-2, 1.0]}
    network = make_pipeline(StandardScaler(), MLPClassifier((64, 64), max_iter=200))
    return CalibratedClassifierCV(GridSearchCV(network, grid, scoring="neg_log_loss"))


def _linear() -> Any:
    model = LogisticRegressionCV(scoring="neg_log_loss", max_iter=5000)
    return make_pipeline(StandardScaler(), model)


RIVALS: dict[str, Callable[[], Any]] = {
    "MarginClassifierCV": lambda: MarginClassifierCV(random_state=0),
    "LogisticRegressionCV": _linear,
    "grid of MLPs, calibrated": _network,
    "HistGradientBoosting": HistGradientBoostingClassifier,
}


def compared(name: str, repeats: int) -> list[list[str]]:
    """Return held-out NLL, accuracy, seconds, and the paired difference to ours, by rival."""
    x, y = rows(name)
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0).split(x, y)
    losses: dict[str, list[float]] = {rival: [] for rival in RIVALS}
    right: dict[str, list[float]] = {rival: [] for rival in RIVALS}
    seconds = dict.fromkeys(RIVALS, 0.0)
    for train, test in folds:
        for rival, make in RIVALS.items():
            started = time.perf_counter()
            fitted = make().fit(x[train], y[train])
            seconds[rival] += time.perf_counter() - started
            p = fitted.predict_proba(x[test])
            losses[rival].append(log_loss(y[test], p, labels=np.unique(y)))
            right[rival].append(float((fitted.classes_[p.argmax(1)] == y[test]).mean()))
    ours = np.array(losses["MarginClassifierCV"])
    found = []
    for rival in RIVALS:
        own = np.array(losses[rival])
        gap, half = _difference(ours - own)
        beside = "–" if rival == "MarginClassifierCV" else f"{gap:+.3f} ± {half:.3f}"
        scores = [f"{own.mean():.3f}", beside, f"{100 * np.mean(right[rival]):.1f}"]
        found.append([name, rival, *scores, f"{seconds[rival]:.0f}"])
    return found


def _difference(gaps: Any) -> tuple[float, float]:
    """Return a mean over repeated folds and half its 95 % interval (corrected resampled t)."""
    spread = np.sqrt((1 / len(gaps) + 1 / 4) * gaps.var(ddof=1))  # five folds: test : train = 1/4
    return float(gaps.mean()), float(stats.t.ppf(0.975, len(gaps) - 1) * spread)


def main(arguments: Sequence[str] = ()) -> None:
    """Print what was asked for."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if not arguments:
        for name in ("banknote_authentication", "website_phishing"):
            print(speed(name), flush=True)
        return
    found = []
    for name in arguments[1:] or TABLES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found += compared(name, repeats=2)
    headings = ["table", "classifier", "NLL", "ours less it", "accuracy, %", "seconds"]
    print(markdown_table(headings, found, "llrrrr"))


if __name__ == "__main__":
    main(sys.argv[1:])
