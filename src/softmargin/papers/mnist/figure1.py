"""GD Figure 1: where features of two dimensions lie, class by class."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import Floats, verdict
from softmargin.papers.mnist.cells import (
    FEATURE_BETAS,
    SMOKE_DEVIATION,
    feature_cells,
    file_name,
    label,
)
from softmargin.papers.mnist.findings import RULE, compare
from softmargin.papers.mnist.seeds import ByVariant, Seeds, compared_entries
from softmargin.papers.outcome import Finding, Outcome, ResultTable

SPREADS = {"median": "median distance", "rms": "root mean square distance"}
ACCURACY, GIVEN_UP = "test accuracy", "training samples at p ≤ 0.2"
CLAIM = (
    "With smaller β well separated samples of a class lie closer together, while some hard ones "
    "are given up."
)
DEVIATION = (
    "The paper gives no recipe for this figure: it is that of Table 1, with a further layer of two "
    "units without ReLU before the last one. Features are those of test images."
)
MEASURES = (
    "Spread is the distance of test features to their class's centre, over the mean distance "
    "between centres, so that a mere change of scale does not count. The median speaks of most "
    "samples, the root mean square also of the few that are far away."
)


def conclude(setting: Scope, finished: Finished) -> Outcome:
    """Return the features of one seed, spreads over all seeds, and what they say."""
    seeds = Seeds(setting, finished)
    variants = seeds.present(FEATURE_BETAS)
    spreads = {
        title: {v: _relative(seeds, v, name) for v in variants} for name, title in SPREADS.items()
    }
    prices = {
        ACCURACY: {v: 100 * seeds.numbers(v, "final", "accuracy") for v in variants},
        GIVEN_UP: {v: 100 * seeds.numbers(v, "histogram")[:, 0] / seeds.samples for v in variants},
    }
    tables = [
        ResultTable(
            "Spread within classes, over the distance between them",
            "ratio",
            compared_entries(spreads),
            digits=3,
            row_heading="trained with",
            better="lower",
            note=f"{seeds.note}: mean ± sd. The paper has pictures only. Differences are against "
            "β = 1, Holm's correction is over the table.",
        ),
        ResultTable(
            "What it costs",
            "%",
            compared_entries(prices),
            row_heading="trained with",
            note=f"{seeds.note}: mean ± sd.",
        ),
    ]
    charts = [_chart(seeds, variant) for variant in variants]
    found = _findings(spreads, prices)
    return Outcome(verdict(setting.scale, found), tables, charts, [MEASURES, RULE], seeds.setup)


def _relative(seeds: Seeds, variant: str, name: str) -> Floats:
    between = seeds.numbers(variant, "spread", "between")
    ratio: Floats = seeds.numbers(variant, "spread", name) / between
    return ratio


def _findings(spreads: Mapping[str, ByVariant], prices: Mapping[str, ByVariant]) -> list[Finding]:
    median = spreads[SPREADS["median"]]
    what = "the median distance within classes over that between them"
    given_up = "the share of training samples at p ≤ 0.2 in %"
    return [
        compare(what, median, "0.01", -1, 3),
        compare(what, median, "5", 1, 3),
        compare(given_up, prices[GIVEN_UP], "0.01", 1, 2),
    ]


def _chart(seeds: Seeds, variant: str) -> Chart:
    """Draw the features of the first seed: other seeds turn and mirror the plane."""
    first = seeds.results[0].arrays
    place = seeds.variants.index(variant)
    features, weights = first["features"][place], first["weights"][place]
    series = []
    for k in np.unique(first["labels"]):
        x, y = (_short(each) for each in features[first["labels"] == k].T)
        series.append(Series(f"digit {k}", x, y))
    reach = np.linalg.norm(features, axis=1).max()
    tips = reach * _unit(weights)
    # from the origin to each tip, with a gap before the next
    rays = np.stack([np.zeros_like(tips), tips, np.full_like(tips, np.nan)], axis=1)
    x, y = (_short(each) for each in rays.reshape(-1, 2).T)
    series.append(Series("class weights", x, y, dashed=True))
    return Chart(
        file_name("features", variant),
        f"Features of test images, {label(variant)}",
        "points",
        "first feature",
        "second feature",
        series,
        note=f"{seeds.setting.scale.capitalize()} scale, {seeds.config['data']}, the first seed; "
        "at most 100 test images per class, the first ones; weights' directions on a circle "
        "around all of them.",
        extra={"equal": 1.0},
    )


def _unit(rows: Floats) -> Floats:
    directions: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return directions


def _short(values: Floats) -> list[float]:
    """Return values with three significant digits: enough for a picture."""
    return [float(f"{value:.3g}") for value in values]


FIGURE_1 = Experiment(
    "gd-fig1",
    "Features in two dimensions by β",
    "GD",
    "Figure 1",
    CLAIM,
    feature_cells,
    conclude,
    deviations={"smoke": SMOKE_DEVIATION, "desk": DEVIATION, "paper": DEVIATION},
)
