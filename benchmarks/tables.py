"""Held-out NLL of MarginClassifierCV beside scikit-learn's classifiers, by repeated CV.

``python -m benchmarks.tables run [--only CLASSIFIER] [NAME ...]`` fits every classifier on every
split and adds a line to ``results/estimators/scores.csv`` for each; lines that are there are not
computed again, so that it can be stopped at any time. ``nested`` instead of ``run`` times a search
inside every fold of the calibration, on the first split alone. ``python -m benchmarks.tables page``
writes the page beside them.

Everything runs on one thread, and seconds are those of the processor, so that other work on the
machine counts little.
"""

from __future__ import annotations

import csv
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from softmargin import data
from softmargin.estimators import MarginClassifier, MarginClassifierCV

SCORES = Path(__file__).parents[1] / "results" / "estimators" / "scores.csv"
NESTED_SCORES = SCORES.with_name("nested.csv")
COLUMNS = ("table", "split", "classifier", "nll", "accuracy", "seconds", "chosen")
FOLDS, REPEATS = 5, 2
TABLES = (  # by number of rows, the smallest first
    "breast_tissue",
    "iris",
    "teaching_assistant_evaluation",
    "hayes_roth",
    "breast_cancer_wisconsin_prognostic",
    "congressional_voting_records",
    "haberman",
    "vertebral_column",
    "pima_indians_diabetes",
    "user_knowledge_modeling",
    "wholesale_customers",
    "forest_type_mapping",
    "balance_scale",
    "website_phishing",
    "banknote_authentication",
    "digits",
    "mnist_features",
)
MOST_ROWS = 650  # of a table: searches over networks one by one take long
MNIST_TRAINED, MNIST_ROWS = 20_000, 2_000
OURS = "MarginClassifierCV"
LINEAR = "LogisticRegressionCV"
NETWORKS = {"sigmoid": "MLPs, sigmoid", "temperature": "MLPs, temperature"}
NESTED = "MLPs, search inside calibration"
BOOSTING = "HistGradientBoosting"
GRID = {  # as many settings as MarginClassifierCV has by default, 12
    "mlpclassifier__alpha": [1e-4, 1e-2, 1e-1, 1.0],
    "mlpclassifier__learning_rate_init": [1e-3, 3e-3, 1e-2],
}
Scored = Iterator[tuple[str, Any, float, str]]


@cache
def rows(name: str) -> tuple[Any, Any]:
    """Return the rows and classes of a table, at most ``MOST_ROWS`` of them, class by class."""
    if name == "digits":
        x, y = load_digits(return_X_y=True)
    elif name == "mnist_features":
        x, y = _mnist_features()
    else:
        whole = data.load_table(f"uci/{name}").whole
        x, y = whole.x.double().numpy(), whole.y.numpy()
    if len(x) > MOST_ROWS:
        x, _, y, _ = train_test_split(x, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    return x, y


def _mnist_features() -> tuple[Any, Any]:
    """Return the 64 hidden units of a network, for test images that it was not trained on."""
    mnist = data.load("mnist")
    some = slice(MNIST_TRAINED)
    x, y = mnist.train.x[some].flatten(1).float().numpy(), mnist.train.y[some].numpy()
    network = MarginClassifier(epochs=5, learning_rate=0.001, random_state=0).fit(x, y)
    pictures = mnist.test.x[:MNIST_ROWS].flatten(1).double().numpy()
    scaled = torch.from_numpy((pictures - network.mean_) / network.scale_)
    with torch.no_grad():
        return network.module_.features(scaled).numpy(), mnist.test.y[:MNIST_ROWS].numpy()


# --- classifiers: each yields name, fitted, seconds of the processor and what it has chosen


def _ours(x: Any, y: Any, seed: int) -> Scored:
    fitted, seconds = _timed(lambda: MarginClassifierCV(random_state=seed).fit(x, y))
    yield OURS, fitted, seconds, _told(fitted.best_params_)


def _linear(x: Any, y: Any, seed: int) -> Scored:
    model = LogisticRegressionCV(scoring="neg_log_loss", max_iter=5000, random_state=seed)
    fitted, seconds = _timed(lambda: make_pipeline(StandardScaler(), model).fit(x, y))
    yield LINEAR, fitted, seconds, ""


def _search(seed: int) -> Any:
    network = MLPClassifier((64,), max_iter=100, random_state=seed)
    return GridSearchCV(make_pipeline(StandardScaler(), network), GRID, scoring="neg_log_loss")


def _networks(x: Any, y: Any, seed: int) -> Scored:
    """Search, then calibrate the settings found: the cheaper order of the two."""
    found, searching = _timed(lambda: _search(seed).fit(x, y))
    for method, name in NETWORKS.items():
        calibrated = CalibratedClassifierCV(found.best_estimator_, method=method, cv=5)
        fitted, calibrating = _timed(lambda own=calibrated: own.fit(x, y))
        chosen = {key.rpartition("__")[2]: value for key, value in found.best_params_.items()}
        yield name, fitted, searching + calibrating, _told(chosen)


def _nested(x: Any, y: Any, seed: int) -> Scored:
    """Search anew for every fold of the calibration; on the first split alone, for its time."""
    if seed == 0:
        calibrated = CalibratedClassifierCV(_search(seed), cv=5)
        fitted, seconds = _timed(lambda: calibrated.fit(x, y))
        yield NESTED, fitted, seconds, ""


def _boosting(x: Any, y: Any, seed: int) -> Scored:
    model = HistGradientBoostingClassifier(random_state=seed)
    fitted, seconds = _timed(lambda: model.fit(x, y))
    yield BOOSTING, fitted, seconds, ""


KINDS: dict[Callable[[Any, Any, int], Scored], tuple[str, ...]] = {
    _ours: (OURS,),
    _linear: (LINEAR,),
    _boosting: (BOOSTING,),
    _networks: tuple(NETWORKS.values()),
}


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def _told(settings: dict[str, Any]) -> str:
    return "; ".join(f"{name}={value}" for name, value in settings.items())


# --- running


def read_scores(path: Path) -> list[dict[str, str]]:
    """Return the lines that are there whole."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return list(csv.DictReader(whole.splitlines()))


def run(path: Path, names: Sequence[str], only: str | None) -> None:
    """Fit what is not there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    there = read_scores(path)
    with path.open("w", encoding="utf-8", newline="") as file:  # a line cut short goes
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(there)
        done = {(each["table"], int(each["split"]), each["classifier"]) for each in there}
        for repeat in range(REPEATS):
            for name in names:
                for split, (train, test) in enumerate(_splits(name)):
                    if split // FOLDS != repeat:
                        continue
                    for line in _missing(name, split, train, test, done, only):
                        writer.writerow(line)
                        file.flush()
                        os.fsync(file.fileno())


def _splits(name: str) -> Iterator[tuple[Any, Any]]:
    folds = RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=REPEATS, random_state=0)
    yield from folds.split(*rows(name))


def _missing(
    name: str, split: int, train: Any, test: Any, done: set[Any], only: str | None
) -> Iterator[dict[str, Any]]:
    x, y = rows(name)
    for fit, own in KINDS.items():
        wanted = [each for each in own if only in (None, each)]
        if all((name, split, each) in done for each in wanted):
            continue
        for classifier, fitted, seconds, chosen in fit(x[train], y[train], split):
            if (name, split, classifier) in done:
                continue
            p = fitted.predict_proba(x[test])
            right = float((fitted.classes_[p.argmax(1)] == y[test]).mean())
            nll = log_loss(y[test], p, labels=np.unique(y))
            values = (name, split, classifier, f"{nll:.6f}", f"{right:.6f}", f"{seconds:.3f}")
            print(*values, flush=True)
            yield dict(zip(COLUMNS, (*values, chosen), strict=True))


def main(arguments: Sequence[str]) -> None:
    """Run, or write the page."""
    command, *names = arguments or ["page"]
    path = SCORES
    if command == "nested":
        path = NESTED_SCORES
        KINDS.clear()
        KINDS[_nested] = (NESTED,)
    if command == "page":
        from benchmarks.tables_page import write_page

        lines = [*read_scores(SCORES), *read_scores(NESTED_SCORES)]
        write_page(lines, SCORES.parent / "README.md")
        return
    only = None
    if names[:1] == ["--only"]:
        only, names = names[1], names[2:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with threadpool_limits(1):
        run(path, names or TABLES, only)


if __name__ == "__main__":
    main(sys.argv[1:])
