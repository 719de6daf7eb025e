"""The MNIST experiments: every cell is trained for real at smoke scale, then concluded."""

import itertools
import json

import numpy as np
import pytest
import torch
from smoke_runs import MNIST, conclude_all, run_all

from softmargin import data
from softmargin.papers import desk, gd_mnist, measure
from softmargin.papers.core import Result
from softmargin.papers.findings import verdict
from softmargin.papers.outcome import Outcome
from softmargin.papers.printed import printed_means
from softmargin.papers.regimes import nearest
from softmargin.papers.runs import Runs
from softmargin.papers.store import CellStore
from softmargin.papers.train import PIXELS, mnist_config, train_mnist
from softmargin.training.batches import order_of_epoch
from softmargin.training.ensemble import train_together

BY_ID = {experiment.id: experiment for experiment in MNIST}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run_all(MNIST, CellStore(tmp_path_factory.mktemp("results")))


@pytest.fixture(scope="module")
def outcomes(finished):
    return conclude_all(MNIST, finished)


@pytest.fixture(scope="module")
def digits():
    return data.load("digits", seed=0)


@pytest.fixture(scope="module")
def alone(finished, digits):
    """Train the ensembles of both regimes again, without the work function."""
    found = []
    for (cell, _), normalize in zip(finished["gd-tab1"], (None, PIXELS), strict=True):
        configs = [
            mnist_config({**cell.config, "seed": seed}, variant)
            for seed in cell.config["seeds"]
            for variant in cell.config["variants"]
        ]
        found.append(
            train_together(configs, dataset=digits, record=True, threads=2, normalize=normalize)
        )
    return found


def test_a_warm_up_starts_at_its_first_beta_and_ends_at_its_last():
    config = desk.CONFIDENCES.cell(3).config
    warm, constant = (mnist_config(config, name) for name in ("0.01→0.1", "0.1"))
    assert tuple(warm.schedules) == ("beta=linear:0.01:0.1:30%",)
    assert tuple(constant.schedules) == ()
    assert constant.loss_options == {"beta": 0.1}
    assert constant.seed == warm.seed == 3
    assert constant.model_options == {"widths": [50, 20], "last_activation": True}


@pytest.mark.slow
def test_every_count_is_of_all_samples(finished):
    for results in finished.values():
        for _, result in results:
            for name in ("histogram", "trained_histogram"):
                sums = np.array(result.numbers[name]).sum(1)
                assert sums.tolist() == [result.numbers["samples"]] * len(sums)


@pytest.mark.slow
def test_scores_agree_with_their_curves_and_with_the_logits(finished, digits):
    for _, result in finished["gd-fig4"]:
        final = result.numbers["final"]
        for name in ("accuracy", "nll", "ece"):
            assert result.arrays[name].shape == (5, 8)
            np.testing.assert_allclose(result.arrays[name][:, -1], final[name], rtol=1e-5)
    logits = finished["gd-fig4"][0][1].arrays["test_logits"]
    assert logits.dtype == np.float16
    right = (logits.argmax(-1) == digits.test.y.numpy()).mean(1)
    np.testing.assert_allclose(right, finished["gd-fig4"][0][1].numbers["final"]["accuracy"])


@pytest.mark.parametrize("regime", [0, 1], ids=["z-scored", "in [0, 1]"])
def test_the_table_equals_a_slow_count_with_the_final_weights(finished, alone, digits, regime):
    x = digits.train.x.double() / 255
    if regime == 0:
        x = (x - x.mean()) / x.std(correction=0)
    counts, right = [], []
    for number in range(len(alone[regime])):
        with torch.no_grad():
            p = alone[regime].classifier(number).double()(x).softmax(1).numpy()
        own = p[np.arange(len(p)), digits.train.y.numpy()]
        edges = [-1, 0.2, 0.4, 0.6, 0.8, 1]
        pairs = itertools.pairwise(edges)
        counts.append([int(((own > low) & (own <= high)).sum()) for low, high in pairs])
        right.append((p.argmax(1) == digits.train.y.numpy()).mean())
    numbers = finished["gd-tab1"][regime][1].numbers
    assert numbers["histogram"] == counts
    np.testing.assert_allclose(numbers["train_accuracy"], right)


def recorded_confidence(alone, number, samples):
    """Return by epoch, and of the last one in full, what training met."""
    recorder, place = alone.recorder(number)
    confidence = recorder.confidence[place, :, :samples].double().numpy()
    return confidence, recorder.final_confidence[place, :samples].numpy()


def test_groups_equal_an_independent_computation(finished, alone):
    result = finished["gd-fig3"][0][1]
    samples = result.numbers["samples"]
    for number in range(len(alone[0])):
        confidence, last = recorded_confidence(alone[0], number, samples)
        order = np.argsort(last, kind="stable")
        ends = [-(-samples * k // 5) for k in range(6)]
        groups = [order[start:end] for start, end in itertools.pairwise(ends)]
        slow = [[row[group].mean() for group in groups] for row in confidence]
        np.testing.assert_allclose(result.arrays["groups"][number], slow, rtol=1e-6)
        edges = itertools.pairwise([-1, 0.2, 0.4, 0.6, 0.8, 1])
        inside = [(last > low) & (last <= high) for low, high in edges]
        slow = [[row[own].mean() if own.any() else np.nan for own in inside] for row in confidence]
        np.testing.assert_allclose(result.arrays["intervals"][number], slow, rtol=1e-5)


def test_training_cross_entropy_is_that_of_the_samples_as_they_came(finished, alone):
    cell, result = finished["gd-fig3"][0]
    samples, epochs = result.numbers["samples"], cell.config["epochs"]
    for number in range(len(alone[0])):
        confidence, _ = recorded_confidence(alone[0], number, samples)
        nll = -np.log(np.maximum(confidence, 2.0**-24))
        np.testing.assert_allclose(result.arrays["train_nll"][number], nll.mean(1), rtol=1e-4)
        seed = alone[0].configs[number].seed
        first = nll[0][order_of_epoch(seed, 0, samples).numpy()][: round(0.1 * epochs * samples)]
        slow = [part.mean() for part in np.array_split(first, 24)]
        np.testing.assert_allclose(result.arrays["first_nll"][number], slow, rtol=1e-4)


def test_traces_are_the_same_samples_for_every_beta(finished, alone):
    cell, result = finished["gd-fig3"][0]
    traced = result.arrays["traced"]
    assert len(set(traced.tolist())) == measure.TRACES
    assert len(result.arrays["traces"]) == len(cell.config["variants"])  # of the first seed
    for number in range(len(cell.config["variants"])):
        recorder, place = alone[0].recorder(number)
        expected = recorder.confidence[place].float().numpy()[:, traced]
        np.testing.assert_array_equal(result.arrays["traces"][number], expected)


def test_a_cell_of_several_seeds_is_read_seed_by_seed(finished):
    row, scope = gd_mnist.TABLE_1, BY_ID["gd-tab1"].scope("smoke")
    runs = Runs(scope, finished["gd-tab1"], row.plan)
    for (cell, result), task in zip(finished["gd-tab1"], runs.judged, strict=True):
        assert cell.config["seeds"] == [0, 1]
        place = cell.config["variants"].index("0.1")
        names = result.numbers["variants"]
        assert names[place] == "0.1, seed 0"
        assert names[place + len(names) // 2] == "0.1, seed 1"
        counts = result.numbers["histogram"]
        expected = [counts[place], counts[place + len(names) // 2]]
        assert runs.numbers(task, "β = 0.1", "histogram").tolist() == expected


def test_a_variant_does_not_depend_on_its_company_so_variants_are_paired(finished, digits):
    """Each starts from the seed's weights and sees the seed's batches, as it would alone."""
    cell, result = finished["gd-fig4"][0]
    for variant in ("0.01", "0.01→0.1"):
        own = train_together([mnist_config(cell.config, variant)], dataset=digits, threads=1)
        place = result.numbers["variants"].index(variant)
        np.testing.assert_allclose(
            own.history("train_loss")[0], result.arrays["train_loss"][place], rtol=1e-4
        )
    others = finished["gd-fig4"][1][1]
    assert (result.arrays["accuracy"] != others.arrays["accuracy"]).any()


def test_features_of_a_stratified_sample_are_returned_and_their_spread(finished, digits):
    for _, result in finished["gd-fig1"]:
        arrays, spread = result.arrays, result.numbers["spread"]
        count = len(arrays["labels"])
        assert arrays["features"].shape == (3, count, 2)
        assert arrays["weights"].shape == (3, 10, 2)
        assert np.bincount(arrays["labels"]).max() <= measure.SHOWN_PER_CLASS
        # digits has so few test images that the sample is all of them
        assert count == len(digits.test)
        for place, x in enumerate(arrays["features"].astype(float)):
            centres = np.stack([x[arrays["labels"] == k].mean(0) for k in range(10)])
            away = np.linalg.norm(x - centres[arrays["labels"]], axis=1)
            assert spread["rms"][place] == pytest.approx(np.sqrt((away**2).mean()), rel=1e-5)
            assert spread["median"][place] == pytest.approx(np.sort(away)[(count - 1) // 2], 1e-5)
            pairs = [np.linalg.norm(a - b) for i, a in enumerate(centres) for b in centres[:i]]
            assert spread["between"][place] == pytest.approx(np.mean(pairs), rel=1e-5)


def test_progress_goes_from_0_to_1(tmp_path):
    (cell, _) = BY_ID["gd-fig1"].cells(BY_ID["gd-fig1"].scope("smoke"))
    config = {**cell.config, "epochs": 2, "variants": ["1", "0.1"]}
    shares = []
    first = train_mnist(config, tmp_path, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    again = train_mnist(config, tmp_path, shares.append)  # goes on from the end: trains nothing
    assert first.numbers == again.numbers
    for name, array in first.arrays.items():  # an interval without samples is NaN in both
        np.testing.assert_array_equal(again.arrays[name], array)


def test_every_outcome_is_whole_and_small(outcomes):
    for name, outcome in outcomes.items():
        content = outcome.as_dict()
        text = json.dumps(content, allow_nan=False)
        assert Outcome.from_dict(json.loads(text)).as_dict() == content
        assert outcome.verdict.word == "path only"
        assert len({chart.name for chart in outcome.charts}) == len(outcome.charts) >= 1, name
        for chart in outcome.charts:
            assert chart.x_label
            assert chart.y_label
            assert "scale" in chart.note
            assert "." not in chart.name
            for series in chart.series:
                assert series.name
                assert len(series.x) == len(series.y)
                assert not series.low or len(series.low) == len(series.high) == len(series.y)
        for table in outcome.tables:
            assert table.unit
            assert table.entries


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_ID)
def test_charts_of_the_full_size_stay_below_100_kb(finished, name):
    """Results as long as at desk scale: all variants, all epochs, 1,000 features."""
    experiment = BY_ID[name]
    setting = experiment.scope("desk")
    full = [(cell, _full_size(cell)) for cell in experiment.cells(setting)]
    outcome = experiment.conclude(setting, full)
    assert len(json.dumps([chart.as_dict() for chart in outcome.charts])) < 100_000
    wanted = {"gd-tab1": 2, "gd-fig1": 5, "gd-fig3": 13, "gd-fig4": 2, "gd-fig5": 6}
    assert len(outcome.charts) == wanted[name]


def _full_size(cell):
    config, rng = cell.config, np.random.default_rng(cell.config["seed"])
    seeds = config.get("seeds", [config["seed"]])
    count, epochs = len(config["variants"]) * len(seeds), config["epochs"]
    names = [f"{each}, seed {seed}" for seed in seeds for each in config["variants"]]
    histogram = rng.multinomial(60_000, [0.02, 0.01, 0.01, 0.02, 0.94], count)
    scores = {each: rng.random(count).tolist() for each in ("accuracy", "nll", "ece", "mce")}
    histograms = rng.multinomial(60_000, [0.02, 0.01, 0.01, 0.02, 0.94], (count, epochs))
    numbers = {
        "variants": names if "seeds" in config else config["variants"],
        "samples": 60_000,
        "inputs": 784,
        "final": scores,
        "histogram": histogram.tolist(),
        "trained_histogram": histogram.tolist(),
        "train_accuracy": rng.random(count).tolist(),
        "spread": {each: rng.random(count).tolist() for each in ("median", "rms", "between")},
    }
    arrays = {
        **{each: rng.random((count, epochs)) for each in ("accuracy", "nll", "train_nll")},
        **{each: np.sort(rng.random((count, epochs, 5))) for each in ("groups", "intervals")},
        "first_nll": rng.random((count, 24)),
        "traces": rng.random((count, epochs, 20)),
        "histograms": histograms,
        "traced": rng.integers(0, 60_000, 20),
        "features": rng.normal(0, 20, (count, 1000, 2)),
        "labels": np.arange(1000) % 10,
        "weights": rng.normal(0, 1, (count, 10, 2)),
    }
    return Result(numbers, arrays)


def test_the_table_has_the_papers_counts_beside_ours_at_full_size_only():
    experiment = BY_ID["gd-tab1"]
    setting = experiment.scope("desk")
    full = [(cell, _full_size(cell)) for cell in experiment.cells(setting)]
    first, far, low, high, during, *_ = experiment.conclude(setting, full).tables
    for table in (first, during):
        assert len(table.entries) == 25
        assert sum(entry.paper for entry in table.entries) == 5 * 60_000
        one = next(e for e in table.entries if (e.row, e.column) == ("β = 0.001", "p ≤ 0.2"))
        assert one.paper == 2375
    judged = min(far.entries, key=lambda entry: entry.values[0]).row
    assert first.title.endswith(judged)
    found = next(e for e in first.entries if (e.row, e.column) == ("β = 0.001", "p ≤ 0.2"))
    same = next(e for e in low.entries if (e.row, e.column) == (judged, "β = 0.001"))
    assert list(found.values) == list(same.values)
    assert found.comparison.difference == pytest.approx(same.comparison.difference)
    assert {entry.row for entry in high.entries} == {entry.row for entry in far.entries}


@pytest.mark.parametrize("place", [0, 3, 5])
def test_the_regime_is_the_one_in_which_cross_entropy_is_where_it_is_in_the_paper(place):
    row, experiment = gd_mnist.TABLE_1, BY_ID["gd-tab1"]
    setting = experiment.scope("desk")
    task = [own for own, _ in row.plan.grid("desk")][place]
    in_print = list(printed_means("gd-tab1")["β = 1"].values())
    full = []
    for cell in experiment.cells(setting):
        result = _full_size(cell)
        if cell.label.startswith(f"{task.name}, "):
            for number, name in enumerate(result.numbers["variants"]):
                # whatever other β have there
                result.numbers["histogram"][number] = [60_000, 0, 0, 0, 0]
                if name.startswith("1,"):
                    result.numbers["histogram"][number] = [each + 1 for each in in_print]
        full.append((cell, result))
    found = nearest(Runs(setting, full, row.plan))
    assert found.name == task.name
    outcome = experiment.conclude(setting, full)
    assert all(finding.text.startswith(f"on {task.name}, ") for finding in outcome.verdict.findings)
    assert "904 samples at p ≤ 0.2 and 56,825 above 0.8" in outcome.verdict.remark


def test_smoke_has_no_paper_beside_it(outcomes):
    entries = [entry for table in outcomes["gd-tab1"].tables for entry in table.entries]
    assert all(entry.paper is None for entry in entries)
    baseline = [entry for entry in entries if "β = 1" in (entry.row, entry.column)]
    assert all(entry.comparison is None for entry in baseline)
    others = [entry for entry in entries if entry.comparison is not None]
    assert len(others) > len(baseline)
    assert all(entry.adjusted >= entry.comparison.p for entry in others)


@pytest.mark.parametrize("turned", [False, True])
def test_table_1s_rule_confirms_the_papers_own_counts(turned):
    """With the paper's numbers and a small spread the claim holds, and not backwards."""
    row, scope = gd_mnist.TABLE_1, BY_ID["gd-tab1"].scope("desk", 4)
    rows = [list(counts.values()) for counts in printed_means("gd-tab1").values()]
    counts = dict(zip(printed_means("gd-tab1"), rows[:: -1 if turned else 1], strict=True))
    finished = []
    for cell in row.plan.cells(scope):
        of = [counts.get(f"β = {each}", rows[0]) for each in cell.config["variants"]]
        seeds = zip(cell.config["seeds"], (-3.0, -1.0, 1.0, 3.0), strict=False)  # two in some
        found = {
            f"{each}, seed {seed}": [x + jitter for x in own]
            for seed, jitter in seeds
            for each, own in zip(cell.config["variants"], of, strict=True)
        }
        numbers = {"variants": list(found), "histogram": list(found.values())}
        finished.append((cell, Result(numbers)))
    runs = Runs(scope, finished, row.plan)
    found = [each for rule in row.findings for task in runs.judged for each in rule(runs, task)]
    judged = verdict("desk", found)
    assert len(found) == 4
    assert (judged.word == "holds") is not turned
    told = "2,375 ± 3 for β = 0.001 against 903 ± 3 for β = 1"
    assert (told in judged.sentence) is not turned
