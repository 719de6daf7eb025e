"""Parts, folds and label noise: exact counts, every seed."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softmargin.data import (
    Dataset,
    Provenance,
    Split,
    label_noise,
    load,
    load_table,
    pollute_labels,
    subset,
)

LABELS = st.lists(st.integers(0, 6), min_size=2, max_size=200)


def half_up(value):
    return math.floor(round(value, 9) + 0.5)


@settings(max_examples=150)
@given(LABELS, st.floats(0.0, 0.99), st.integers(0, 2**40))
def test_label_noise_hits_the_rate_and_never_keeps_a_label(labels, rate, seed):
    y = torch.tensor(labels)
    noisy = label_noise(y, rate, 7, seed)
    changed = noisy != y
    assert int(changed.sum()) == half_up(rate * len(y))
    assert noisy.min() >= 0
    assert noisy.max() < 7
    for c in range(7):  # stratified: every class loses its share to within one
        assert abs(int(changed[y == c].sum()) - rate * int((y == c).sum())) < 1 + 1e-6
    assert torch.equal(noisy, label_noise(y, rate, 7, seed))
    assert y.tolist() == labels


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.3, 0.4, 0.5])
def test_label_noise_of_table_3(rate):
    y = torch.arange(50_000) % 100
    noisy = label_noise(y, rate, 100, seed=1)
    changed = noisy != y
    assert int(changed.sum()) == round(rate * 50_000)
    assert torch.bincount(y[changed], minlength=100).tolist() == [round(rate * 500)] * 100
    moved = (noisy - y)[changed] % 100  # every other class is as likely
    counts = torch.bincount(moved, minlength=100)
    assert counts[0] == 0
    mean = int(changed.sum()) / 99
    chi_square = ((counts[1:] - mean).square() / mean).sum().item()
    assert chi_square < 98 + 5 * math.sqrt(2 * 98)


def test_label_noise_depends_on_the_seed():
    y = torch.arange(1000) % 10
    assert not torch.equal(label_noise(y, 0.5, 10, 0), label_noise(y, 0.5, 10, 1))
    assert torch.equal(label_noise(y, 0.0, 10), y)


def test_the_old_name_of_label_noise():
    y = torch.arange(100) % 10
    with pytest.warns(DeprecationWarning, match="pollute_labels is called label_noise now"):
        assert torch.equal(pollute_labels(y, 0.3, 10, 2), label_noise(y, 0.3, 10, 2))


@settings(max_examples=150)
@given(LABELS, st.floats(0.01, 1.0), st.integers(0, 2**40))
def test_subset_is_stratified_and_exact(labels, fraction, seed):
    y = torch.tensor(labels)
    split = Split(torch.arange(len(y))[:, None], y)
    if not half_up(fraction * len(y)):
        with pytest.raises(ValueError, match="at least one"):
            subset(split, fraction, seed)
        return
    part = subset(split, fraction, seed)
    kept = part.x[:, 0]
    assert len(part) == half_up(fraction * len(y))
    assert torch.equal(kept, kept.unique())  # in order, none twice
    assert torch.equal(part.y, y[kept])
    for c in range(7):
        assert abs(int((part.y == c).sum()) - fraction * int((y == c).sum())) < 1 + 1e-6
    assert torch.equal(kept, subset(split, fraction, seed).x[:, 0])


@pytest.mark.parametrize("fraction", [0.9, 0.8, 0.7, 0.6, 0.5])
def test_subset_of_table_3(fraction):
    y = torch.arange(50_000) % 100
    part = Split(torch.arange(50_000)[:, None], y).subset(fraction, seed=2)
    assert part.class_counts(100) == [round(500 * fraction)] * 100


def test_subset_of_a_dataset_keeps_the_test_split():
    digits = load("digits")
    part = subset(digits, 0.25, seed=4)
    assert isinstance(part, Dataset)
    assert part.is_subset
    assert not digits.is_subset
    assert len(part.train) == half_up(0.25 * len(digits.train))
    assert torch.equal(part.test.x, digits.test.x)
    assert not subset(digits, 1.0).is_subset
    loaded = load("digits", fraction=0.25, seed=0)
    assert torch.equal(loaded.train.x, subset(load("digits"), 0.25).train.x)


@pytest.mark.parametrize("k", [2, 5, 10])
def test_folds_hold_every_sample_once(k):
    table = load_table("iris")
    for seed in (0, 1):
        folds = table.folds(k, seed)
        assert len(folds) == k
        tested = torch.cat([test.x for _, test in folds])
        assert torch.equal(tested.sort(0).values, table.whole.x.sort(0).values)
        for train, test in folds:
            assert len(train) + len(test) == 150
            assert all(abs(n - 50 / k) < 1 for n in test.class_counts(3))
    first, second = table.folds(k, 0)[0][1], table.folds(k, 1)[0][1]
    assert not torch.equal(first.x, second.x)
    assert torch.equal(first.x, table.folds(k, 0)[0][1].x)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=12, max_size=80), st.integers(2, 12))
def test_fold_sizes_differ_by_at_most_one(labels, k):
    from softmargin.data.sampling import stratified_folds

    y = torch.tensor(labels)
    folds = stratified_folds(y, k)
    sizes = torch.bincount(folds, minlength=k)
    assert sizes.max() - sizes.min() <= 1
    for c in range(6):
        counts = torch.bincount(folds[y == c], minlength=k)
        assert counts.max() - counts.min() <= 1


def test_split_is_a_map_style_dataset():
    from torch.utils.data import DataLoader

    train, test = load("digits")
    x, y = next(iter(DataLoader(train, batch_size=7)))
    assert x.shape == (7, 1, 8, 8)
    assert torch.equal(y, train.batch(torch.arange(7))[1])
    noisy = train.with_labels(label_noise(train.y, 0.1, 10))
    assert noisy.x is train.x
    assert "(180" in repr(test)
    with pytest.raises(ValueError, match="one class per sample, 3, but got 2"):
        Split(torch.zeros(3, 2), torch.zeros(2, dtype=torch.int64))


def test_features_can_be_left_out():
    iris = load_table("iris")
    part = iris.without("petal width (cm)")
    assert part.feature_names == iris.feature_names[:3]
    assert torch.equal(part.test.x, iris.test.x[:, :3])
    with pytest.raises(ValueError, match="petal width .*, but got 'hobby'"):
        iris.without("hobby")


Y = torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        *((lambda r=r: label_noise(Y, r, 3), ("rate", str(r))) for r in (-0.1, 1.0, math.nan)),
        (lambda: label_noise(Y, "much", 3), ("rate", "much")),
        (lambda: label_noise(Y, 0.1, 1), ("num_classes", "at least 2", "1")),
        (lambda: label_noise(Y, 0.1, 2), ("0 to 1", "2")),
        (lambda: label_noise(Y.float(), 0.1, 3), ("y", "int64", "float32")),
        (lambda: label_noise([0, 1], 0.1, 3), ("y", "Tensor", "list")),
        (lambda: label_noise(Y, 0.1, 3, seed=-1), ("seed", "-1")),
        *((lambda f=f: load("digits", fraction=f), ("fraction", "above 0 and at most 1", str(f)))
          for f in (0, -1, 1.5, math.nan)),
        (lambda: load("digits", fraction="half"), ("fraction", "half")),
        (lambda: subset(Y, 0.5), ("dataset", "Tensor")),
        (lambda: load_table("iris").folds(1), ("k", "at least 2", "1")),
        (lambda: load_table("iris").folds(151), ("k", "150", "151")),
        (lambda: load("digits", seed=0.5), ("seed", "0.5")),
        (lambda: load_table("mnist"), ("name", "without a split", "mnist")),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.endswith(".")
    assert "\n" not in message


def test_provenance_of_bundled_data():
    digits = load("digits")
    assert isinstance(digits.provenance, Provenance)
    assert "scikit-learn 1." in digits.provenance.note
    assert digits.describe() == {
        "name": "digits",
        "classes": 10,
        "train": 1617,
        "test": 180,
        "is_subset": False,
        "source": digits.provenance.source,
        "note": digits.provenance.note,
        "verified": False,
        "files": {},
    }
    assert digits.train.images.max() == 16
    assert [len(load(name).class_names) for name in ("digits", "iris")] == [10, 3]
