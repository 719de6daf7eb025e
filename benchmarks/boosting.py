"""Calibration of gradient boosting with the β loss against the libraries' own softmax.

Every row is the mean and the standard deviation over seeds. A seed draws five folds; each row of
the table is predicted by a model that has not seen it, and the metrics are over all of them.

    python -m benchmarks.boosting --seeds 5
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from softmargin import data
from softmargin._table import markdown_table
from softmargin.calibration import TemperatureScaling, calibration_metrics, cross_validated

SETS = ("uci/website_phishing", "uci/balance_scale", "uci/forest_type_mapping")
BETAS = (0.2, 2.0, 5.0, 20.0)
FOLDS = 5
METRICS = {"accuracy": 100.0, "nll": 1.0, "ece": 100.0}
Make = Callable[[], Any]


def libraries() -> Iterator[tuple[str, Make, Callable[[float], Make]]]:
    """Yield each library with its own classifier and ours for a β, with default options."""
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    from softmargin.integrations.boosting import (
        GradientDecayLGBMClassifier,
        GradientDecayXGBClassifier,
    )

    yield (
        "XGBoost",
        lambda: XGBClassifier(n_jobs=1),
        lambda beta: lambda: GradientDecayXGBClassifier(beta=beta, n_jobs=1),
    )
    yield (
        "LightGBM",
        lambda: LGBMClassifier(n_jobs=1, verbose=-1),
        lambda beta: lambda: GradientDecayLGBMClassifier(beta=beta, n_jobs=1, verbose=-1),
    )


def unseen_predictions(make: Make, table: data.Table, seed: int) -> tuple[Any, Any]:
    """Return the log-probabilities of every row by a model without it, and the classes."""
    logits, target = [], []
    for train, test in table.folds(FOLDS, seed):
        model = make().fit(train.x.numpy(), train.y.numpy())
        probabilities = np.asarray(model.predict_proba(test.x.numpy()), dtype=np.float64)
        logits.append(torch.from_numpy(np.log(np.maximum(probabilities, 1e-30))))
        target.append(test.y)
    return torch.cat(logits), torch.cat(target).long()


def measured(logits: Any, target: Any) -> list[float]:
    """Return the metrics, those in percent as such."""
    result = calibration_metrics(logits, target, from_logits=True)
    return [factor * getattr(result, name) for name, factor in METRICS.items()]


def compare(name: str, own: Make, ours: Callable[[float], Make], seeds: int) -> list[list[str]]:
    """Return a row of text for the library's softmax, the same scaled, and every β."""
    table = data.load_table(name)
    found: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        logits, target = unseen_predictions(own, table, seed)
        found.setdefault("softmax", []).append(measured(logits, target))
        scaled = cross_validated(TemperatureScaling, logits, target, seed=seed).logits
        found.setdefault("softmax and a temperature", []).append(measured(scaled, target))
        for beta in BETAS:
            predictions = unseen_predictions(ours(beta), table, seed)
            found.setdefault(f"β = {beta:g}", []).append(measured(*predictions))
    rows = []
    for method, values in found.items():
        columns = zip(*values, strict=True)
        rows.append([method, *(f"{mean(each):.3g} ± {stdev(each):.2g}" for each in columns)])
    return rows


def main() -> None:
    """Print one table for each data set and library."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, at least 2")
    seeds = parser.parse_args().seeds
    for name in SETS:
        for library, own, ours in libraries():
            print(f"\n{name}, {library}, {seeds} seeds of {FOLDS} folds\n")
            print(
                markdown_table(
                    ["", "accuracy, %", "NLL", "ECE, %"], compare(name, own, ours, seeds)
                )
            )


if __name__ == "__main__":
    main()
