"""ag-fig1 and ag-fig2: the smoke scale run for real, angles and gradients another way."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("scipy")
pytest.importorskip("sklearn")

from softmargin.data import load_table
from softmargin.diagnostics import intra_class_angles
from softmargin.papers.core import Cell, Result
from softmargin.papers.cross_validation import configured, cross_validate, train_angles
from softmargin.papers.iris import Models, gaps, gradients
from softmargin.papers.outcome import Outcome
from softmargin.papers.tabular import CHOSEN, DEEP, GRID, SEVEN, TUNED, Regime, training
from softmargin.papers.tabular import EXPERIMENTS as OF_TABLES
from softmargin.training.ensemble import Fold, train_together

EXPERIMENTS = OF_TABLES[1:]
FIG1, FIG2 = EXPERIMENTS
NAMES = [method.name for method in SEVEN]


def nothing(share):
    pass


def entry(table, row, column):
    (found,) = (each for each in table.entries if (each.row, each.column) == (row, column))
    return found


@pytest.fixture(scope="module")
def depths(tmp_path_factory):
    cells = FIG2.cells(FIG2.scope("smoke"))
    folders = [tmp_path_factory.mktemp("depth") for _ in cells]
    return [
        (cell, cross_validate(cell.config, folder, nothing, threads=1))
        for cell, folder in zip(cells, folders, strict=True)
    ]


@pytest.fixture(scope="module")
def angles(tmp_path_factory):
    (cell,) = FIG1.cells(FIG1.scope("smoke"))
    told = []
    result = train_angles(cell.config, tmp_path_factory.mktemp("angles"), told.append, threads=1)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)
    return cell, result


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=["ag-fig1", "ag-fig2"])
class TestScales:
    def test_smoke_needs_no_data(self, experiment):
        cells = experiment.cells(experiment.scope("smoke"))
        assert all(cell.needs == () for cell in cells)

    def test_configuration_is_plain(self, experiment):
        for cell in experiment.cells(experiment.scope("desk")):
            assert cell.needs == ("uci/iris",)
            assert json.loads(json.dumps(cell.config)) == cell.config


class TestDepths:
    def test_desk_has_two_whole_regimes_and_paper_all_depths(self):
        cells = FIG2.cells(FIG2.scope("desk"))
        assert {Regime.of(cell) for cell in cells} == set(GRID)
        cells, others = cells[:9], cells[9:]
        assert all(len(cell.config["methods"]) == 1 for cell in others)  # Soft
        found = [cell.config["training"]["model_options"]["depth"] for cell in cells]
        assert found == [1, 2, 4, 6, 8, 10, 1, 4, 10]
        assert [Regime.of(cell) for cell in cells] == [DEEP] * 6 + [TUNED] * 3
        assert all(len(cell.config["methods"]) == 7 for cell in cells)
        assert [len(cell.config["runs"]) for cell in cells] == [10] * 6 + [3] * 3
        assert all(cell.config["folds"] == 10 for cell in cells)
        paper = FIG2.cells(FIG2.scope("paper"))
        found = [cell.config["training"]["model_options"]["depth"] for cell in paper]
        assert found[:10] == [*range(1, 11)]

    def test_conclusion(self, depths):
        outcome = FIG2.conclude(FIG2.scope("smoke"), depths[::-1])  # in any order
        assert outcome.verdict.word == "path only"
        deepest = {Regime.of(cell): 100 * result.arrays["accuracy"] for cell, result in depths}
        judged = min(deepest, key=lambda each: round(abs(deepest[each][0].mean() - 33.0)))
        of_judged = [(c, result) for c, result in depths if Regime.of(c) == judged]
        for (_, result), row in zip(of_judged, ("1", "4"), strict=True):
            for m, name in enumerate(NAMES):
                mean = 100 * result.arrays["accuracy"][m].mean()
                assert entry(outcome.tables[0], row, name).mean == pytest.approx(mean, abs=1e-3)
        for regime, accuracy in deepest.items():
            found = entry(outcome.tables[2], regime.name, "Soft")
            assert found.mean == pytest.approx(accuracy[0].mean(), abs=1e-3)
        chart, _ = outcome.charts
        assert [list(series.x) for series in chart.series] == [[1.0, 4.0]] * 8
        soft = chart.series[0]
        assert all(
            low <= y <= high for low, y, high in zip(soft.low, soft.y, soft.high, strict=True)
        )
        text = json.dumps(outcome.as_dict())
        assert Outcome.from_dict(json.loads(text)).as_dict() == json.loads(text)

    @pytest.mark.parametrize(
        ("at_end", "word"),
        [
            (dict.fromkeys(NAMES, 0.33) | {"ArcGrad 30": 0.9, "ArcGrad 5": 0.9}, "holds"),
            (dict.fromkeys(NAMES, 0.6) | {"ArcGrad 30": 0.9, "ArcGrad 5": 0.9}, "holds in part"),
            (dict.fromkeys(NAMES, 0.33) | {"M-Soft": 0.9}, "holds in part"),
            (dict.fromkeys(NAMES, 0.6) | {"ArcGrad 5": 0.9}, "holds in part"),
            (dict.fromkeys(NAMES, 0.6) | {"ArcFace": 0.9}, "does not hold"),
        ],
    )
    def test_verdict(self, at_end, word):
        finished = []
        for depth in (1, 2, 10):
            rng = np.random.default_rng(depth)
            accuracy = 0.95 + 0.001 * rng.standard_normal((7, 3, 4))
            if depth == 10:
                accuracy += np.array([at_end[name] - 0.95 for name in NAMES])[:, None, None]
            shared = training(**CHOSEN, depth=depth)
            config = {"training": shared, "runs": [0, 1, 2], "folds": 4}
            result = Result({"methods": NAMES}, {"accuracy": accuracy})
            finished.append((Cell("depths", config, str(depth)), result))
        outcome = FIG2.conclude(FIG2.scope("desk"), finished)
        assert outcome.verdict.word == word
        assert entry(outcome.tables[0], "10", "Soft").paper == 33.0
        assert entry(outcome.tables[0], "10", "Center").paper is None
        lost = entry(outcome.tables[1], "lost", "Soft").mean
        assert lost == pytest.approx(95 - 100 * at_end["Soft"], abs=0.5)

    @pytest.mark.parametrize(
        ("soft", "judged"),
        [
            ({DEEP: (0.9, 0.34), TUNED: (0.9, 0.9)}, DEEP),
            ({DEEP: (0.9, 0.6), TUNED: (0.9, 0.35)}, TUNED),
            ({DEEP: (0.9, 0.333), TUNED: (0.95, 0.331)}, TUNED),  # equal to a point: the better
        ],
    )
    def test_the_regime_follows_from_soft_alone(self, soft, judged):
        finished = []
        for regime, ends in soft.items():
            for depth, level in zip((1, 10), ends, strict=True):
                accuracy = np.full((7, 3, 4), 0.333)
                accuracy[0] = level + 0.001 * np.arange(12).reshape(3, 4)
                shared = training(32, regime.lr, regime.epochs, depth, regime.optimizer)
                config = {"training": shared, "runs": [0, 1, 2], "folds": 4}
                result = Result({"methods": NAMES}, {"accuracy": accuracy})
                finished.append((Cell("depths", config, str(depth)), result))
        outcome = FIG2.conclude(FIG2.scope("desk"), finished)
        assert f"This is {judged.name}, where Soft" in outcome.verdict.sentence


class TestAngles:
    def test_are_those_of_features_and_weights(self, angles):
        cell, result = angles
        iris = load_table("iris")
        rows = torch.arange(150)
        shared = cell.config["training"] | {"epochs": 2}
        method = {"head": "arcgrad", "head_options": {"scale": 40.0}}
        config = configured("iris", shared, method, 1)
        found = train_together([config], folds=[Fold(rows, rows)], dataset=iris, threads=1)
        model = found.classifier(0)
        z = (iris.whole.x - iris.whole.x.mean(0)) / iris.whole.x.std(0, unbiased=False)
        with torch.no_grad():
            features = model.features(z)
        own = intra_class_angles(features, iris.whole.y, model.head.weight)
        here = result.arrays["angles"][1, -1, 1]  # the second phase, s = 40, seed 1
        np.testing.assert_allclose(here[rows, iris.whole.y], own, atol=1e-6)

    def test_phases_are_one_training(self, angles):
        cell, _ = angles
        iris, rows = load_table("iris"), torch.arange(150)
        method = {"head": "arcgrad", "head_options": {"scale": 1.0}}
        histories = [
            train_together(
                [configured("iris", cell.config["training"] | {"epochs": epochs}, method, 0)],
                folds=[Fold(rows, rows)],
                dataset=iris,
                threads=1,
            ).history("train_loss")[0]
            for epochs in (2, 4)
        ]
        assert torch.equal(histories[0], histories[1][:2])

    @pytest.mark.parametrize("scale", [1.0, 40.0])
    def test_gradients_are_those_of_autograd(self, scale):
        rng = np.random.default_rng(0)
        theta, y = rng.uniform(0, math.pi, (20, 3)), rng.integers(0, 3, 20)
        leaf = torch.tensor(theta, requires_grad=True)
        F.cross_entropy(-scale * leaf, torch.tensor(y), reduction="sum").backward()
        np.testing.assert_allclose(
            gradients(theta, y, scale), leaf.grad.abs(), rtol=1e-9, atol=1e-12
        )

    def test_gaps_by_hand(self):
        theta, y = np.array([[0.1, 0.5, 0.3], [0.9, 0.4, 0.2]]), np.array([0, 1])
        np.testing.assert_allclose(gaps(theta, y), [0.2, -0.2])
        np.testing.assert_allclose(gaps(np.stack([theta, theta]), y), [[0.2, -0.2]] * 2)
        assert Models(40.0, theta, y).within.tolist() == [False, True]
        assert Models(1.0, theta, y).within.tolist() == [True, True]

    def test_conclusion(self, angles):
        outcome = FIG1.conclude(FIG1.scope("smoke"), [angles])
        assert outcome.verdict.word == "path only"
        gap, product, pull = outcome.tables
        for row, theoretical, paper in (("s = 1", 83.8, 84.0), ("s = 40", 2.1, 2.0)):
            found = entry(gap, row, "theoretical")
            assert (round(found.mean, 1), found.paper) == (theoretical, paper)
        arrays = angles[1].arrays
        median = np.median(np.degrees(gaps(arrays["angles"][2, 0], arrays["y"])), 1)
        assert entry(gap, "s = 1", "end (epoch 4)").mean == pytest.approx(median.mean(), abs=1e-3)
        for name in ("theoretical", "end (epoch 4)"):
            single, times = (entry(table, "s = 5", name).mean for table in (gap, product))
            assert times == pytest.approx(5 * single, abs=1e-3)
        constant = [each.mean for each in product.entries if each.column == "theoretical"]
        assert constant == pytest.approx([constant[0]] * 6)
        assert len({chart.name for chart in outcome.charts}) == len(outcome.charts) == 9
        points = [sum(len(series.x) for series in chart.series) for chart in outcome.charts[:6]]
        assert points == [450] * 6
        assert all(0 <= v <= 100 for each in pull.entries for v in each.values)
        text = json.dumps(outcome.as_dict())
        assert Outcome.from_dict(json.loads(text)).as_dict() == json.loads(text)
        assert len(text) < 100_000

    @pytest.mark.parametrize(
        ("gap", "word"),
        [
            ((100.0, 10.0), "holds"),
            ((50.0, 10.0), "holds in part"),  # all samples are within 84°
            ((0.5, 1.0), "does not hold"),
        ],
    )
    def test_verdict(self, angles, gap, word):
        cell, result = angles
        y = result.arrays["y"]
        made = np.full((3, 2, 4, len(y), 3), 0.2)
        rng = np.random.default_rng(0)
        for i, degrees in enumerate(gap):
            others = np.arange(3) != y[:, None]
            made[:, i] += others * math.radians(degrees) + 1e-4 * rng.random((3, 4, len(y), 1))
        config = dict(cell.config) | {"seeds": [0, 1, 2, 3], "scales": [1.0, 40.0]}
        finished = [(Cell("angles", config, ""), Result({}, {"angles": made, "y": y}))]
        assert FIG1.conclude(FIG1.scope("desk"), finished).verdict.word == word
