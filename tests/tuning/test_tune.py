"""β chosen with a user's training function: scores, temperature, early stopping, resumption."""

import functools
import math
import random

import pytest
import torch
import tuned_functions
from tuned_functions import held_out, sharpness, train, train_with_reports

from softmargin import GradientDecayLoss, tune
from softmargin.calibration import TemperatureScaling
from softmargin.calibration.scaling import cross_validated
from softmargin.tuning.checks import ContractError, check_betas, check_seeds, declared
from softmargin.tuning.runs import FailedRunError, is_hopeless

BETAS = [1.0, 2.0, 5.0, 20.0]


def slow_scores(logits, target):
    """Return mean NLL, Brier score and accuracy in plain Python."""
    nll = brier = right = 0.0
    for row, c in zip(logits.tolist(), target.tolist(), strict=True):
        total = sum(math.exp(z) for z in row)
        p = [math.exp(z) / total for z in row]
        nll -= math.log(p[c])
        brier += sum((value - (k == c)) ** 2 for k, value in enumerate(p))
        right += max(range(len(row)), key=row.__getitem__) == c
    return {"nll": nll / len(target), "brier": brier / len(target), "accuracy": right / len(target)}


def test_scores_are_those_of_a_slow_reference():
    found = tune(train, BETAS)
    _, target = held_out()
    for each in found.candidates[: len(BETAS)]:
        logits, _ = train(GradientDecayLoss(each.beta))
        expected = slow_scores(logits, target)
        for score, value in expected.items():
            assert each.score[score] == pytest.approx(value, abs=1e-12)
    assert [each.beta for each in found.candidates] == [1, 2, 5, 20, 1]
    assert found.best_beta == 5
    assert found.best_temperature is None


def test_the_temperature_of_cross_entropy_stands_beside_fitted_on_other_rows():
    found = tune(train, BETAS, seeds=1)
    scaled = found.candidates[-1]
    logits, target = train(GradientDecayLoss(1.0))
    assert scaled.temperature == pytest.approx(sharpness(1.0), rel=0.15)
    expected = slow_scores(cross_validated(TemperatureScaling, logits, target).logits, target)
    assert scaled.score["nll"] == pytest.approx(expected["nll"], abs=1e-9)
    in_sample = slow_scores(logits / scaled.temperature, target)["nll"]
    assert scaled.score["nll"] > in_sample, "judged by rows it was not fitted on"
    assert all(each.temperature is None for each in tune(train, temperature=False).candidates)


def test_a_temperature_is_chosen_where_it_is_best():
    found = tune(train, [1.0, 2.0, 20.0])
    assert found.best_beta == 1
    assert found.best_temperature == pytest.approx(4, rel=0.15)
    assert "A temperature is enough here" in " ".join(found.sentences())


def test_differences_are_paired_and_cover_rows_and_seeds():
    found = tune(train, BETAS, seeds=3)
    one, five = found.candidates[0], found.candidates[2]
    assert one.seeds == 3
    assert one.difference["nll"] == one.difference_error["nll"] == 0
    gap = five.score["nll"] - one.score["nll"]
    assert five.difference["nll"] == pytest.approx(gap, abs=1e-12)
    rows = torch.stack(
        [_nll(*train(GradientDecayLoss(5.0), seed=seed)) for seed in range(3)]
    ) - torch.stack([_nll(*train(GradientDecayLoss(1.0), seed=seed)) for seed in range(3)])
    variance = rows.mean(0).var() / tuned_functions.ROWS + rows.mean(1).var() / 3
    assert five.difference_error["nll"] == pytest.approx(float(variance.sqrt()), rel=1e-9)
    low, high = five.difference_interval("nll")
    assert low < gap < high < 0


def _nll(logits, target):
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")


def test_intervals_stay_within_what_is_possible():
    def perfect(criterion):
        target = torch.arange(200) % 2
        return 50.0 * torch.nn.functional.one_hot(target).double(), target

    (found, *_) = tune(perfect, [1.0], temperature=False).candidates
    assert found.interval("accuracy") == (1.0, 1.0)
    assert found.interval("nll")[0] >= 0


def test_pytorch_is_seeded_and_left_as_it_was():
    before = torch.get_rng_state()
    first = tune(tuned_functions.train_without_seed, [1.0], seeds=2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    assert tune(tuned_functions.train_without_seed, [1.0], seeds=2) == first
    other = tune(tuned_functions.train_without_seed, [1.0], seeds=[2, 3])
    assert other.candidates[0].score != first.candidates[0].score


def test_scoring_decides():
    def accurate_but_sure(criterion):
        logits, target = train(criterion)
        if float(criterion.beta) == 20:
            logits = logits + 30 * torch.nn.functional.one_hot(target, 3)
            logits[:5] = torch.tensor([500.0, -500.0, 0.0])
        return logits, target

    assert tune(accurate_but_sure, BETAS, scoring="accuracy").best_beta == 20
    assert tune(accurate_but_sure, BETAS, scoring="nll").best_beta == 5


def test_a_value_that_diverges_is_shown_and_not_chosen():
    def diverging(criterion):
        logits, target = train(criterion)
        return (logits * math.nan if float(criterion.beta) == 2 else logits), target

    found = tune(diverging, BETAS)
    assert found.best_beta == 5
    assert "diverged" in found.summary()
    assert found.as_dict()["candidates"][1]["nll"]["value"] is None
    with pytest.raises(ValueError, match="all diverged"):
        tune(lambda criterion: (torch.full((100, 2), math.nan), torch.arange(100) % 2))


# --- early stopping


def test_hopeless_values_are_given_up_and_others_are_not():
    found = tune(train_with_reports, [1.0, 2.0, 5.0, 0.1, 0.2, 20.0])
    assert found.given_up == (0.1, 0.2)  # more over-confident than β = 1
    assert found.best_beta == 5
    assert "given up" in found.summary()
    everything = tune(train, [1.0, 2.0, 5.0, 0.1, 0.2, 20.0])
    assert everything.best_beta == found.best_beta
    assert everything.given_up == ()


def test_cross_entropy_and_the_best_so_far_are_never_given_up():
    found = tune(train_with_reports, [5.0, 2.0, 0.1], seeds=3)
    assert found.given_up == (0.1,)
    assert [each.beta for each in found.candidates] == [1, 5, 2, 1]


def test_a_run_is_judged_at_half_and_three_quarters_only():
    earlier = [(3.0, 2.0, 1.0, 1.0, 1.0), (3.0, 2.5, 2.0, 1.5, 1.5)]
    bad = [is_hopeless(9.0, number, earlier) for number in (1, 2, 3, 4)]
    assert bad == [False, True, True, False]
    assert not is_hopeless(2.2, 2, earlier), "in the better half"
    assert is_hopeless(math.nan, 2, earlier)
    assert not is_hopeless(9.0, 2, earlier[:1]), "one run is no reason"


def test_what_ends_badly_does_not_stop_what_is_slow():
    overfits = [(0.5, 1.0, 2.0, 3.0, 3.0), (0.5, 1.1, 2.1, 3.1, 3.1)]
    assert not is_hopeless(1.5, 2, overfits), "already better than they end"


# --- resumption


def test_finished_runs_are_kept(tmp_path):
    calls = []

    def interrupted(criterion):
        calls.append(float(criterion.beta))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return train(criterion)

    with pytest.raises(KeyboardInterrupt):
        tune(interrupted, BETAS, out=tmp_path)
    found = tune(interrupted, BETAS, out=tmp_path)
    assert calls == [1, 2, 5, 5, 20]
    assert found == tune(train, BETAS)
    assert tune(interrupted, [*BETAS, 50.0], out=tmp_path).best_beta == 5
    assert calls[5:] == [50]
    assert (tmp_path / "result.json").exists()


def test_given_up_runs_are_kept_too(tmp_path):
    betas = [1.0, 2.0, 5.0, 0.1]
    first = tune(train_with_reports, betas, out=tmp_path)
    assert first.given_up == (0.1,)
    assert tune(train_with_reports, betas, out=tmp_path) == first
    by_accuracy = tune(train_with_reports, betas, out=tmp_path, scoring="accuracy")
    assert by_accuracy.given_up == (), "what another score gave up is run again"


def test_a_folder_of_another_function_is_refused(tmp_path):
    tune(train, [1.0], out=tmp_path)
    with pytest.raises(ValueError, match="same function.*tuned_functions:train"):
        tune(tuned_functions.train_without_seed, [1.0], out=tmp_path)
    smooth = functools.partial(GradientDecayLoss, label_smoothing=0.1)
    with pytest.raises(ValueError, match="same function"):
        tune(train, [1.0], criterion=smooth, out=tmp_path)


def test_a_damaged_run_is_refused(tmp_path):
    tune(train, [1.0], out=tmp_path)
    (path,) = tmp_path.glob("*.npz")
    content = bytearray(path.read_bytes())
    content[random.Random(0).randrange(200, len(content) - 200)] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged.*delete it"):
        tune(train, [1.0], out=tmp_path)


def test_progress_is_told():
    told = []
    tune(train, [1.0, 5.0], seeds=2, progress=lambda *told_now: told.append(told_now))
    assert told[0] == (1, 4, "β = 1, seed 0")
    assert [each[:2] for each in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]


# --- bad input


LOGITS, TARGET = torch.zeros(100, 3), torch.zeros(100, dtype=torch.int64)
ANSWERS = {
    "a tensor": (LOGITS, "got a Tensor"),
    "three": ((LOGITS, TARGET, TARGET), "got a tuple of 3"),
    "words": ((["a"], TARGET), "got list and Tensor"),
    "one axis": ((LOGITS[:, 0], TARGET), "got shapes (100,) and (100,)"),
    "one class": ((LOGITS[:, :1], TARGET), "got shapes (100, 1) and (100,)"),
    "other rows": ((LOGITS, TARGET[:50]), "got shapes (100, 3) and (50,)"),
    "whole logits": ((LOGITS.long(), TARGET), "got int64 and int64"),
    "probabilities as target": ((LOGITS, TARGET.float()), "got float32 and float32"),
    "few": ((LOGITS[:20], TARGET[:20]), "at least 100 rows to choose by, but got 20"),
    "classes": ((LOGITS, TARGET + 3), "classes from 0 to 2, but got 3 to 3"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_wrong_answer_is_refused_in_a_sentence(case):
    answer, expected = ANSWERS[case]
    with pytest.raises(ContractError) as caught:
        tune(lambda criterion: answer)
    assert str(caught.value).startswith("train must return held-out logits (N, C) and")
    assert expected in str(caught.value)
    if isinstance(answer, tuple) and len(answer) == 2:
        with pytest.raises(ContractError, match="report must be given held-out logits"):
            tune(lambda criterion, report: report(*answer))


def test_held_out_rows_must_be_the_same():
    def shuffled(criterion):
        logits, target = train(criterion)
        return logits, target.roll(int(criterion.beta))

    with pytest.raises(ContractError, match="the same held-out rows.*differs for β = 5, seed 0"):
        tune(shuffled, [1.0, 5.0])


def test_an_error_of_the_function_says_where():
    expected = r"train failed for β = 1, seed 0: KeyError: 'no such layer' \(tuned_functions.py, l"
    with pytest.raises(FailedRunError, match=expected) as caught:
        tune(tuned_functions.failing)
    assert isinstance(caught.value.__cause__, KeyError)


def test_functions_of_other_shapes_are_refused():
    assert declared(lambda criterion: None) == ()
    assert declared(lambda criterion, *, report: None) == ("report",)
    assert declared(lambda criterion, **rest: None) == ("seed", "report")
    for bad in (lambda: None, lambda criterion, model: None):
        with pytest.raises(TypeError, match="train must take a criterion, and may take seed"):
            tune(bad)
    with pytest.raises(TypeError, match="train must be a function, but got str"):
        tune("train")


def test_values_are_checked():
    assert check_betas([5, 1, 5]) == [1.0, 5.0]
    assert check_seeds([3, 4, 3]) == [3, 4]
    for options, message in (
        ({"betas": []}, "betas must hold at least one value"),
        ({"betas": [0.0]}, "every value of betas must be a finite number above 0"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seeds": []}, "seeds must hold at least one"),
        ({"scoring": "ece"}, "scoring must be one of nll, brier, accuracy"),
        ({"jobs": 0}, "jobs must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            tune(train, **options)


# --- what is shown


def test_results_are_shown():
    found = tune(train, BETAS)
    headings, rows = found.cells()
    assert {len(row) for row in rows} == {len(headings)}
    assert [row[0] for row in rows if "←" in row[0]] == ["5 ←"]
    assert found.summary() in repr(found)
    html = found._repr_html_()
    assert html.count("<tr>") == 1 + len(rows)
    assert "Best on held-out rows: β = 5." in html
    axes = found.plot()
    assert axes.get_ylabel() == "NLL on held-out rows"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "β = 1, temperature",
        "as trained",
    ]


@pytest.mark.slow
def test_processes_give_the_same_result_even_if_one_dies(tmp_path, monkeypatch):
    monkeypatch.setenv(tuned_functions.PLACE, str(tmp_path))
    found = tune(tuned_functions.dying_once, BETAS, jobs=2)
    assert (tmp_path / "died").exists()
    assert found == tune(train, BETAS)
    with pytest.raises(ContractError, match=r"got shapes \(100,\) and \(100,\)"):
        tune(tuned_functions.of_wrong_shape, jobs=2)
    with pytest.raises(FailedRunError, match="KeyError: 'no such layer'"):
        tune(tuned_functions.failing, jobs=2)
    with pytest.raises(ContractError, match="that other processes can import"):
        tune(lambda criterion: None, jobs=2)
