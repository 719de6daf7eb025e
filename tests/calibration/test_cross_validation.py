"""Held-out numbers: no label reaches its own row."""

import math

import numpy as np
import pytest
import torch
from scaling_cases import (
    BOTH,
    GOOD,
    LABELS,
    WITHOUT_WARNINGS,
    calibration_warnings,
    nll,
    numbers,
    synthetic,
)

from softmargin.calibration.scaling import (
    CalibrationWarning,
    TemperatureScaling,
    VectorScaling,
    cross_validated,
    held_out_calibrators,
)

pytestmark = WITHOUT_WARNINGS


LIKE_PROBABILITIES = "every row holds numbers of at least 0 with a sum of 1, like probabilities"


FITS = {
    "temperature": lambda z, y, **o: TemperatureScaling().fit(z, y, **o),
    "vector": lambda z, y, **o: VectorScaling().fit(z, y, **o),
    "cross_validated": lambda z, y, **o: cross_validated(TemperatureScaling, z, y, **o),
    "in sample, your own": lambda z, y, **o: cross_validated(Doubling, z, y, in_sample=True, **o),
    "held out, your own": lambda z, y, **o: list(held_out_calibrators(Doubling, z, y, **o)),
}


class Doubling:
    def fit(self, logits, target, *, sample_weight=None, ignore_index=None):
        return self

    def transform(self, logits):
        return 2 * logits


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_probabilities_are_not_fitted_as_logits(fit, dtype):
    logits, target = synthetic(600, 5)
    probabilities = logits.softmax(1).to(dtype)
    for rows in (probabilities, torch.eye(5, dtype=dtype)[target]):
        with pytest.raises(ValueError, match=LIKE_PROBABILITIES):
            fit(rows, target)
        if dtype != torch.bfloat16:
            with pytest.raises(ValueError, match=LIKE_PROBABILITIES):
                fit(rows.numpy(), target.numpy())
    ignored = target.clone()
    ignored[0] = -100
    probabilities[0] = 7.0  # a row that does not count does not make logits of the others
    with pytest.raises(ValueError, match=LIKE_PROBABILITIES):
        fit(probabilities, ignored, ignore_index=-100)


def test_a_fold_may_look_like_probabilities():
    logits = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]])
    target = torch.tensor([0, 1, 0])
    with pytest.warns(CalibrationWarning):  # three rows have no best temperature, but are no error
        result = cross_validated(TemperatureScaling, logits, target, folds=3)
    assert result.logits.shape == (3, 2)
    with pytest.raises(ValueError, match=LIKE_PROBABILITIES):
        TemperatureScaling().fit(logits[[0, 2]], target[[0, 2]])


class Memoriser:
    """A calibrator that knows every label it was shown, and nothing else."""

    def fit(self, logits, target, *, sample_weight=None, ignore_index=None):
        used = target != (-100 if ignore_index is None else ignore_index)
        rows, labels = logits[used].tolist(), target[used].tolist()
        self.known = {tuple(row): label for row, label in zip(rows, labels, strict=True)}
        return self

    def transform(self, logits):
        result = torch.zeros_like(logits)
        for number, row in enumerate(logits.tolist()):
            if tuple(row) in self.known:
                result[number, self.known[tuple(row)]] = 50.0
        return result


def test_no_label_leaks_into_its_own_row():
    logits, target = synthetic(300, 7)
    honest = cross_validated(Memoriser, logits, target)
    assert not honest.in_sample
    assert nll(honest.logits, target) == pytest.approx(math.log(7))
    cheating = cross_validated(Memoriser, logits, target, in_sample=True)
    assert cheating.in_sample
    assert nll(cheating.logits, target) < 1e-9
    assert len(honest.calibrator.known) == 300


@BOTH
def test_each_fold_is_fitted_on_the_others_only(scaler_class):
    logits, target = synthetic(1500, 4)
    result = cross_validated(scaler_class, logits, target, folds=3)
    assert torch.equal(numbers(result.calibrator), numbers(scaler_class().fit(logits, target)))
    for number, scaler in enumerate(result.fold_calibrators):
        held_out = result.fold == number
        alone = scaler_class().fit(logits[~held_out], target[~held_out])
        torch.testing.assert_close(numbers(scaler), numbers(alone), rtol=1e-9, atol=1e-9)
        assert torch.equal(result.logits[held_out], scaler.transform(logits[held_out]))


def test_held_out_numbers_are_worse_than_those_in_sample():
    logits, target = synthetic(600, 10)
    honest = cross_validated(VectorScaling, logits, target)
    inside = cross_validated(VectorScaling, logits, target, in_sample=True)
    new_logits, new_target = synthetic(20_000, 10, seed=1)
    truth = nll(honest.calibrator.transform(new_logits), new_target)
    assert nll(inside.logits, target) < nll(honest.logits, target) - 0.02
    assert inside.fold is None
    assert nll(logits / 1.7, target) < nll(honest.logits, target)
    assert truth > nll(new_logits / 1.7, new_target)


def test_folds_are_balanced_seeded_and_cover_every_row_once():
    logits, target = synthetic(503, 4)
    first = cross_validated(TemperatureScaling, logits, target, seed=3)
    again = cross_validated(TemperatureScaling, logits, target, seed=3)
    other = cross_validated(TemperatureScaling, logits, target, seed=4)
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.fold, again.fold)
    assert not torch.equal(first.fold, other.fold)
    for label in range(4):
        counts = first.fold[target == label].bincount(minlength=5)
        assert counts.max() - counts.min() <= 1
    assert sorted(first.fold.bincount().tolist()) == [100, 100, 101, 101, 101]
    rows = [rows for rows, _ in held_out_calibrators(TemperatureScaling, logits, target)]
    assert torch.cat(rows).sort().values.equal(torch.arange(503))


def test_the_global_generator_is_left_alone():
    state = torch.random.get_rng_state()
    cross_validated(TemperatureScaling, *synthetic(100, 3))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_ignored_rows_are_transformed_but_never_fitted():
    logits, target = synthetic(400, 3)
    target[::4] = 1
    result = cross_validated(TemperatureScaling, logits, target, ignore_index=1)
    kept = target != 1
    assert result.logits.isfinite().all()
    alone = TemperatureScaling().fit(logits[kept], target[kept]).temperature.item()
    assert result.calibrator.temperature.item() == pytest.approx(alone, rel=1e-12)


def test_cross_validation_of_numpy_half_and_weights():
    logits, target = synthetic(400, 3)
    result = cross_validated(
        TemperatureScaling,
        logits.numpy().astype(np.float16),
        target.numpy(),
        sample_weight=np.ones(400),
    )
    assert isinstance(result.logits, np.ndarray)
    assert result.logits.dtype == np.float32
    plain = cross_validated(TemperatureScaling, logits.half(), target)
    assert np.allclose(result.logits, plain.logits.numpy(), rtol=1e-6)


def test_folds_warn_once_and_only_if_the_fit_on_all_did_not():
    logits, target = synthetic(300, 5)
    with pytest.warns(CalibrationWarning) as record:
        cross_validated(TemperatureScaling, logits, logits.argmax(1))
    assert len(calibration_warnings(record)) == 1
    rare = torch.where(target == 4, 3, target)
    rare[0] = 4
    with pytest.warns(CalibrationWarning, match="VectorScaling") as record:
        cross_validated(VectorScaling, logits, rare)
    assert len(calibration_warnings(record)) == 1


@pytest.mark.parametrize("folds", [1, 0, 4, 2.0, True, "5"])
def test_folds_must_fit_the_rows(folds):
    with pytest.raises(ValueError, match=r"folds must be an integer from 2 to .* that count, 3"):
        cross_validated(TemperatureScaling, GOOD, LABELS, folds=folds)


def test_cross_validation_checks_its_input():
    with pytest.raises(ValueError, match="but got 3 in row 1"):
        cross_validated(TemperatureScaling, GOOD, LABELS + 1, folds=2)
    with pytest.raises(TypeError, match="integer class indices"):
        next(held_out_calibrators(TemperatureScaling, GOOD, LABELS.float(), folds=2))
    with pytest.raises(ValueError, match="but got -1 in row 0"):
        next(held_out_calibrators(TemperatureScaling, GOOD, LABELS - 1, folds=2))
