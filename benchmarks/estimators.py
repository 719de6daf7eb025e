"""How long MarginClassifierCV takes, and GridSearchCV over the same networks one by one.

``python -m benchmarks.estimators [NAME ...]`` times one search, 8 β × 10 folds × 3 seeds, and
``GridSearchCV`` on the same folds over networks of the same size with the same loss, optimiser,
batches and epochs, trained one after the other: as ``MarginClassifier``, and by a plain loop in
PyTorch. The grid searches are timed for one seed, and their time taken times three. Everything runs
on one thread, and seconds are those of the processor. The choices are compared among what all have
tried, β after the last epoch. ``results/estimators/speed.json`` keeps what came out, and
``python -m benchmarks.tables page`` puts it on the page.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from softmargin import data
from softmargin.estimators import MarginClassifier, MarginClassifierCV
from softmargin.losses import GradientDecayLoss

SPEED = Path(__file__).parents[1] / "results" / "estimators" / "speed.json"
BETAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FOLDS, SEEDS = 10, 3
EPOCHS, BATCH, HIDDEN, RATE = 100, 200, 64, 0.01  # MarginClassifier's own


class PlainNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The same network, trained by the loop that everybody writes, with Adam's fused steps."""

    def __init__(self, beta: float = 1.0, random_state: int = 0) -> None:
        self.beta = beta
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train."""
        torch.manual_seed(self.random_state)
        self.classes_, target = np.unique(y, return_inverse=True)
        self.scaler_ = StandardScaler().fit(X)
        x, y = torch.from_numpy(self.scaler_.transform(X)).float(), torch.from_numpy(target)
        self.module_ = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, len(self.classes_)),
        )
        criterion = GradientDecayLoss(self.beta)
        optimizer = torch.optim.Adam(self.module_.parameters(), lr=RATE, fused=True)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(x)).split(BATCH):
                optimizer.zero_grad()
                criterion(self.module_(x[rows]), y[rows]).backward()
                optimizer.step()
        return self

    @torch.no_grad()
    def predict_proba(self, X: Any) -> Any:
        """Return probabilities."""
        x = torch.from_numpy(self.scaler_.transform(X)).float()
        return self.module_(x).double().softmax(1).numpy()


PEERS = {"MarginClassifier": MarginClassifier(random_state=0), "plain PyTorch": PlainNetwork()}


def speed(name: str) -> dict[str, Any]:
    """Return how long a search takes, how long its peers, and what they choose."""
    whole = data.load_table(f"uci/{name}").whole
    x, y = whole.x.double().numpy(), whole.y.numpy()
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y))
    search = MarginClassifierCV(BETAS, grid={}, cv=folds, seeds=SEEDS, random_state=0)
    MarginClassifier(epochs=1, random_state=0).fit(x, y)  # what is loaded once is not timed
    seconds = _seconds(lambda: search.fit(x, y))
    last = {
        each.settings["beta"]: each.by_fold["nll"]
        for each in search.candidates_
        if each.epochs == EPOCHS and each.scaling == "none"
    }
    found: dict[str, Any] = {"table": name, "seconds": seconds, "peers": {}}
    found["chosen"], found["score"] = search.best_params_, search.best_score_
    for peer, network in PEERS.items():
        grid = GridSearchCV(network, {"beta": BETAS}, scoring="neg_log_loss", cv=folds, refit=False)
        taken = _seconds(lambda own=grid: own.fit(x, y)) * SEEDS
        columns = [grid.cv_results_[f"split{i}_test_score"] for i in range(FOLDS)]
        theirs = dict(zip(BETAS, -np.array(columns).T, strict=True))
        found["peers"][peer] = {
            "seconds": taken,
            "ratio": taken / seconds,
            "theirs": _best(theirs),
            "ours": _best(last),
        }
    return found


def _best(by_beta: dict[float, Any]) -> dict[str, Any]:
    """Return the β with the lowest NLL, and its NLL by fold."""
    beta = min(by_beta, key=lambda each: float(by_beta[each].mean()))
    return {"beta": beta, "nll": by_beta[beta].tolist()}


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main(names: Sequence[str] = ()) -> None:
    """Time, print, and keep what came out."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kept = json.loads(SPEED.read_text(encoding="utf-8")) if SPEED.exists() else {}
    for name in names or ("banknote_authentication", "website_phishing"):
        kept[name] = found = speed(name)
        for peer, own in found["peers"].items():
            print(
                f"{name}: {found['seconds']:.1f} s, {peer} one by one {own['seconds']:.0f} s, "
                f"{own['ratio']:.1f} ×; β {own['ours']['beta']:g} and {own['theirs']['beta']:g}",
                flush=True,
            )
        SPEED.parent.mkdir(parents=True, exist_ok=True)
        SPEED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
