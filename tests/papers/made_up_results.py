"""Results to look at: made-up numbers of every kind that an experiment can conclude."""

import math
from unittest import mock

import numpy as np

from softmargin._files import write_json
from softmargin.charts import Chart, Series
from softmargin.papers import write
from softmargin.papers.core import Cell, Experiment
from softmargin.papers.outcome import Entry, Outcome, ResultTable, Verdict
from softmargin.papers.statistics import corrected_resampled_t_test, holm, paired_bootstrap

BETAS = (20.0, 5.0, 1.0, 0.1, 0.01)
METHODS = ("Soft", "Center", "M-Soft", "ArcFace", "AdaCos", "ArcGrad 30", "ArcGrad 5")
SETS = ("Iris", "Wine", "Glass", "Sonar", "Seeds", "Ionosphere", "Pima", "Vehicle")


def curves(rng, name="accuracy-by-epoch", epochs=60, betas=BETAS):
    x = np.arange(1, epochs + 1)
    series = []
    for place, beta in enumerate(betas):
        middle = 96 - 30 * np.exp(-x / (4 + 3 * place)) + 0.3 * rng.standard_normal(epochs)
        spread = 2 * np.exp(-x / 30) + 0.3
        y = middle.round(3).tolist()
        low, high = (middle - spread).round(3).tolist(), (middle + spread).round(3).tolist()
        if place == 1 and epochs > 30:  # a gap
            y[20] = low[20] = high[20] = math.nan
        series.append(Series(f"β = {beta:g}", x.tolist(), y, low, high, beta=beta))
    series.append(Series("paper, β = 1", [1, epochs], [95.2, 95.2], dashed=True))
    note = "Lines are means over 5 seeds, bands from the lowest to the highest."
    labels = "epoch", "test accuracy (%)"
    return Chart(name, "Test accuracy by epoch", "line", *labels, series, note=note)


def cloud(rng, name="features", points=60):
    series = []
    for digit in range(10):
        centre = 10 * np.array([math.cos(0.628 * digit), math.sin(0.628 * digit)])
        spots = centre + rng.standard_normal((points, 2))
        series.append(Series(f"digit {digit}", *spots.T.round(3).tolist()))
    labels = "first feature", "second feature"
    return Chart(name, "Features of test images", "points", *labels, series)


def named_points(rng, name="by-set"):
    series = []
    for method in METHODS[:3]:
        y = 85 + 10 * rng.random(len(SETS))
        ends = (y - 1.5).tolist(), (y + 1.5).tolist()
        series.append(Series(method, list(range(len(SETS))), y.tolist(), *ends))
    title = "Accuracy on test rows by data set"
    return Chart(name, title, "points", "data set", "accuracy (%)", series, categories=SETS)


def bars(rng, name="counts", log=True):
    categories = [f"{a / 5:g} < p ≤ {(a + 1) / 5:g}" for a in range(5)]
    series = []
    for beta in BETAS[1:]:
        y = np.array([900, 300, 250, 600, 57000]) * (0.7 + 0.6 * rng.random(5))
        ends = (0.9 * y).tolist(), (1.1 * y).tolist()
        series.append(Series(f"β = {beta:g}", list(range(5)), y.tolist(), *ends, beta=beta))
    labels = "confidence p in the true class", "training samples"
    title = "Training samples by final confidence"
    return Chart(name, title, "bars", *labels, series, log_y=log, categories=categories)


def histogram(rng, name="angles", bins=36):
    edges = np.linspace(0, 90, bins + 1)
    series = []
    for epoch, middle in ((1, 60), (20, 40), (100, 22)):
        counts, _ = np.histogram(middle + 9 * rng.standard_normal(4000), edges)
        series.append(Series(f"epoch {epoch}", edges.tolist(), counts.tolist()))
    labels = "angle to its class weight (degrees)", "samples"
    return Chart(name, "Angles within classes", "histogram", *labels, series)


def reliability(rng, name="reliability", betas=(20.0, 10.0, 1.0, 0.1), bins=15):
    series = []
    for place, beta in enumerate(betas):
        x = ((np.arange(bins) + 0.5) / bins).tolist()
        y = [min(1.0, max(0.0, c + 0.12 * (place - 1.3) * -c)) for c in x]
        size = (4000 * np.linspace(0.05, 1, bins) ** 3 * (0.5 + rng.random(bins))).astype(int)
        size[: 2 + place] = 0
        holes = [math.nan if n == 0 else c for c, n in zip(x, size, strict=True)]
        looks = dict(size=size.tolist(), beta=beta)
        series.append(Series(f"β = {beta:g}", holes, y, **looks))
    title = "Confidence against accuracy on test images"
    return Chart(name, title, "reliability", "confidence", "accuracy", series)


def ranks(rng, name="ranks"):
    found = np.sort(1 + 5.5 * rng.random(len(METHODS)))
    series = [Series(m, [r], [r]) for m, r in zip(METHODS, found.tolist(), strict=True)]
    extra = {"cd": 1.9, "sets": 15.0}
    title = "Average rank of 7 methods over 15 data sets"
    return Chart(name, title, "ranks", "average rank (1 is best)", "", series, extra=extra)


def log_lines(rng, name="loss"):
    x = np.geomspace(1, 1e4, 40)
    series = [
        Series(f"β = {b:g}", x.tolist(), (b * x**-0.8).tolist(), beta=b) for b in (10.0, 1.0, 0.1)
    ]
    labels = "steps", "training loss (nats)"
    return Chart(name, "Loss by steps", "line", *labels, series, log_x=True, log_y=True)


def table(rng, rows=SETS, columns=METHODS, title="Accuracy on test rows", n=10):
    entries = []
    for row in rows:
        plain = 85 + 8 * rng.random() + rng.standard_normal(n)
        own = []
        for place, column in enumerate(columns):
            values = plain + (0 if place == 0 else rng.normal(0.4, 0.9) + rng.normal(0, 0.4, n))
            found = None
            if place:
                test = corrected_resampled_t_test if n >= 10 else paired_bootstrap
                extra = {"test_share": 0.1} if n >= 10 else {}
                found = test(values - plain, **extra)
            own.append((column, values, found))
        adjusted = iter(holm([found.p for *_, found in own if found]).tolist())
        for place, (column, values, found) in enumerate(own):
            paper = round(float(values.mean()) + 0.4, 2) if place < 5 else None
            p = next(adjusted) if found else None
            entry = Entry(row, column, values.round(4).tolist(), paper, None, found, p)
            entries.append(entry)
    note = "Made-up numbers."
    return ResultTable(title, "%", entries, 2, "data set", "higher", note)


def outcome(place=0, charts=None, rows=SETS, sentence=None):
    rng = np.random.default_rng(place)
    words = ("holds", "holds in part", "does not hold", "path only")
    sentence = sentence or "β = 5 lies above β = 1 on all sets but two, where intervals overlap."
    if charts is None:
        makers = curves, bars, reliability, cloud, histogram, ranks, log_lines, named_points
        charts = [maker(rng) for maker in makers]
    setup = {"data": "made up", "network": "784-50-20-10", "optimiser": "SGD, momentum 0.9"}
    verdict = Verdict(words[place % 4], remark=sentence)
    return Outcome(verdict, [table(rng, rows)], charts, ["Nothing was tuned."], setup)


def cells(setting):
    return [Cell("nothing", {"seed": seed}, f"seed {seed}") for seed in setting.seeds]


def experiment(name, paper="GD", **rest):
    given = {
        "title": "Accuracy and calibration by β",
        "where": "Table 9",
        "claim": "A large β gives better calibrated networks that are as accurate.",
        "cells": cells,
        "conclude": None,
        "deviations": {"desk": "10,000 images and 40 epochs instead of 50,000 and 200"},
        **rest,
    }
    return Experiment(name, paper=paper, **given)


def write_made_up(folder, name, found, paper="GD", **rest):
    """Write the numbers of a result, without its figures, which take their time."""
    made = experiment(name, paper, **rest)
    with mock.patch.object(write, "svg", return_value="<svg/>"):
        write.write_result(made, made.scope("desk", 5), found, folder / name)


def many(folder, number=45):
    """Write as many results as there are tables and figures, each larger than most of them are."""
    for place in range(3):
        rng = np.random.default_rng(place)
        charts = [
            curves(rng, epochs=200),
            curves(rng, "loss-by-epoch", epochs=200),
            cloud(rng, points=150),
            reliability(rng),
            histogram(rng),
        ]
        rows = [f"set {i}" for i in range(15)]
        paper = ("GD", "LM", "AG")[place]
        write_made_up(folder, f"x-{place}", outcome(place, charts, rows), paper)
    for place in range(3, number):
        values = write.read_numbers(folder / f"x-{place % 3}")
        (folder / f"x-{place}").mkdir()
        named = {**values, "id": f"x-{place}"}
        write_json(folder / f"x-{place}" / write.NUMBERS, named, write.dumps)
