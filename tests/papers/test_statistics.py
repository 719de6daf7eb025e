"""Statistics against scipy, published numbers, and slow references written another way."""

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scipy")

from scipy import stats

from softmargin.papers import statistics
from softmargin.papers.statistics import (
    average_ranks,
    corrected_resampled_t_test,
    friedman,
    holm,
    paired_bootstrap,
    require_spread,
    sign_flip_p,
    summary,
    wins,
)

NAN = math.nan


def random_differences(n, seed=0, shift=0.3):
    return np.random.default_rng(seed).normal(shift, 1.0, n)


class TestSummary:
    def test_equals_scipy(self):
        values = random_differences(7)
        result = summary(values)
        expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert (result.low, result.high) == pytest.approx(tuple(expected), rel=1e-12)
        assert (result.mean, result.sd) == pytest.approx((values.mean(), stats.tstd(values)))
        assert result.n == 7

    def test_one_seed_has_a_mean_only(self):
        result = summary([0.25])
        assert (result.mean, result.n) == (0.25, 1)
        assert result.sd is result.low is result.high is None

    def test_equal_values_have_no_spread_at_all(self):
        assert np.full(7, 0.1).std(ddof=1) > 0  # which numpy's rounding would call a spread
        result = summary(np.full(7, 0.1))
        assert result.sd == 0.0
        assert result.low == result.high == result.mean == pytest.approx(0.1)


class TestCorrectedResampledTTest:
    def test_without_correction_is_the_paired_t_test(self):
        a, b = random_differences(30, 1), random_differences(30, 2, 0.0)
        expected = stats.ttest_rel(a, b)
        result = corrected_resampled_t_test(a - b, test_share=0.0)
        assert result.p == pytest.approx(expected.pvalue, rel=1e-9)
        interval = expected.confidence_interval(0.95)
        assert (result.low, result.high) == pytest.approx(tuple(interval), rel=1e-9)

    def test_by_hand(self):
        # mean 2, squares of deviations add up to 10, s² = 10/7; 1/8 + (1/4)/(3/4) = 11/24
        differences = [[2.0, 0.0, 4.0, 2.0], [1.0, 3.0, 2.0, 2.0]]
        error = math.sqrt(10 / 7 * 11 / 24)
        result = corrected_resampled_t_test(differences, test_share=0.25)
        assert result.difference == 2.0
        assert result.high - result.difference == pytest.approx(2.364624 * error, rel=1e-6)
        assert result.p == pytest.approx(2 * stats.t(7).sf(2 / error), rel=1e-12)
        assert result.n == 8

    def test_ten_times_ten_folds_as_in_the_literature(self):
        # Bouckaert and Frank's 1/(kr) + 1/(k - 1) for k folds: 1/100 + 1/9 for 10 x 10
        differences = random_differences(100).reshape(10, 10)
        plain = corrected_resampled_t_test(differences, test_share=0.0)
        corrected = corrected_resampled_t_test(differences, test_share=0.1)
        wider = (corrected.high - corrected.low) / (plain.high - plain.low)
        assert wider == pytest.approx(math.sqrt(1 + 100 / 9), rel=1e-9)

    @given(
        values=st.lists(st.floats(-10, 10), min_size=2, max_size=12).filter(
            lambda x: np.ptp(x) > 1e-3
        ),
        shares=st.tuples(st.floats(0, 0.9), st.floats(0, 0.9)).filter(lambda s: s[1] > s[0] + 0.01),
    )
    def test_larger_test_sets_widen_and_weaken(self, values, shares):
        less, more = (corrected_resampled_t_test(values, share) for share in shares)
        assert more.high - more.low > less.high - less.low
        assert more.p >= less.p

    def test_sign_and_swap(self):
        values = random_differences(20)
        there, back = (corrected_resampled_t_test(x, 0.2) for x in (values, -values))
        assert there.p == back.p
        assert (there.low, there.high) == (-back.high, -back.low)

    @pytest.mark.parametrize(("value", "p"), [(0.0, 1.0), (0.1, 0.0), (-3.0, 0.0)])
    def test_without_spread(self, value, p):
        result = corrected_resampled_t_test(np.full((10, 10), value), test_share=0.1)
        assert result.p == p
        assert result.low == result.high == result.difference == pytest.approx(value)
        assert "all folds equal" in result.method
        assert "equal" not in corrected_resampled_t_test([1.0, 2.0], test_share=0.1).method


class TestSeeds:
    def test_sign_flips_equal_a_slow_count(self):
        row = np.round(random_differences(9, shift=0.5), 1)
        sums = [abs(np.dot(signs, row)) for signs in itertools.product((-1, 1), repeat=9)]
        as_far = sum(x >= abs(row.sum()) - 1e-9 for x in sums)
        assert 2 < as_far < 400
        assert sign_flip_p(row) == as_far / 2**9

    def test_sign_flips_equal_scipy(self):
        row = random_differences(11)
        expected = stats.permutation_test(
            (row,), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert sign_flip_p(row) == pytest.approx(expected.pvalue, rel=1e-12)

    def test_equal_sums_count_as_equal_in_spite_of_rounding(self):
        # 0.1 + 0.2 - 0.3 is not 0 in floating point: all 8 patterns are at least as far as 0
        assert sign_flip_p([0.1, 0.2, -0.3]) == 1.0
        # and -0.1 - 0.2 + 0.3 + 0.7 must count as being as far as 0.7
        assert sign_flip_p([0.7, 0.1, 0.2, -0.3]) == sign_flip_p([7.0, 1.0, 2.0, -3.0])

    def test_drawn_sign_flips_are_near_the_exact_ones(self, monkeypatch):
        monkeypatch.setattr(statistics, "RESAMPLES", 20_000)
        row = random_differences(20, shift=0.25)
        exact = sign_flip_p(row)
        assert 0.02 < exact < 0.9
        drawn = sign_flip_p(np.append(row, 0.0), seed=1)  # a 0 changes nothing
        assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))
        assert drawn != exact

    def test_drawn_p_is_never_zero(self, monkeypatch):
        monkeypatch.setattr(statistics, "RESAMPLES", 99)
        assert sign_flip_p(np.ones(60)) == pytest.approx(0.01)

    @pytest.mark.parametrize("n", [2, 5, 8])
    def test_smallest_p_of_few_seeds(self, n):
        result = paired_bootstrap(np.arange(n) + 1.0, np.zeros(n), seed=0)
        assert result.p == 2 / 2**n
        assert result.low > 0

    def test_interval_equals_an_exact_enumeration(self, monkeypatch):
        monkeypatch.setattr(statistics, "RESAMPLES", 200_000)
        row = random_differences(5)
        means = np.sort([np.mean(x) for x in itertools.product(row, repeat=5)])
        result = paired_bootstrap(row + 2.0, np.full(5, 2.0), seed=3)
        # quantile 0.00096 by hand: Φ(-√1.25 · 2.776445)
        low, high = np.quantile(means, [0.000955, 1 - 0.000955])
        assert result.low == pytest.approx(low, abs=0.03)
        assert result.high == pytest.approx(high, abs=0.03)
        assert result.difference == pytest.approx(row.mean())

    def test_for_many_seeds_it_is_the_t_interval(self):
        row = random_differences(400)
        result = paired_bootstrap(row, np.zeros(400), seed=0)
        by_t = summary(row)
        assert (result.low, result.high) == pytest.approx((by_t.low, by_t.high), abs=0.01)
        assert "sampled" in result.method

    def test_coverage_for_five_seeds_is_what_the_docstring_says(self, monkeypatch):
        monkeypatch.setattr(statistics, "RESAMPLES", 1000)
        held = percentile_held = 0
        generator = np.random.default_rng(5)
        for trial in range(600):
            row = generator.normal(size=5)
            result = paired_bootstrap(row, np.zeros(5), seed=trial)
            held += result.low <= 0 <= result.high
            means = row[generator.integers(0, 5, (1000, 5))].mean(1)
            low, high = np.quantile(means, [0.025, 0.975])
            percentile_held += low <= 0 <= high
        assert 0.88 < held / 600 < 0.9375 + 0.02
        assert percentile_held / 600 < 0.87 < held / 600

    def test_same_seed_same_interval(self, monkeypatch):
        monkeypatch.setattr(statistics, "RESAMPLES", 500)
        a, b = random_differences(6, 1), random_differences(6, 2)
        first, again, other = (paired_bootstrap(a, b, seed=s) for s in (1, 1, 2))
        assert first == again
        assert (first.low, first.high) != (other.low, other.high)
        assert first.p == other.p  # exact: nothing was drawn for it


def slow_holm(p_values):
    """Return the smallest α at which the step-down procedure rejects, without sorting."""
    tested = [p for p in p_values if p == p]
    adjusted = []
    for p in p_values:
        if p != p:
            adjusted.append(NAN)
            continue
        smaller = [q for q in tested if q <= p]
        # at each smaller q, as many tests as are not below it are still in the race
        needed = [q * sum(other >= q for other in tested) for q in smaller]
        adjusted.append(min(1.0, max(needed)))
    return adjusted


class TestHolm:
    def test_by_hand(self):
        adjusted = holm([0.01, 0.04, 0.03, 0.005])
        assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])

    @given(st.lists(st.floats(0, 1) | st.just(NAN), max_size=12))
    def test_equals_a_slow_reference(self, p_values):
        np.testing.assert_allclose(holm(p_values), slow_holm(p_values), rtol=1e-12)

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
    def test_monotone_between_plain_and_bonferroni(self, p_values):
        p, adjusted = np.array(p_values), holm(p_values)
        assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
        assert (adjusted >= p).all()
        assert (adjusted <= np.minimum(1.0, len(p) * p)).all()
        assert adjusted.min() == min(1.0, len(p) * p.min())

    def test_shape_stays_and_all_nan_is_fine(self):
        assert holm([[0.01, NAN], [0.02, 0.5]]).shape == (2, 2)
        assert np.isnan(holm([NAN, NAN])).all()


BAD = [
    (lambda: require_spread(1), "seeds must be at least 2 where a spread is asked for, but got 1."),
    (
        lambda: paired_bootstrap([1.0], [0.5], seed=0),
        "seeds must be at least 2 where a spread is asked for, but got 1.",
    ),
    (lambda: summary([]), "values must hold at least one value, but got none."),
    (lambda: summary([1.0, NAN]), "values must be finite, but 1 of 2 values are not."),
    (
        lambda: corrected_resampled_t_test([0.1], 0.1),
        "differences must hold at least 2 values to test, but got 1.",
    ),
    (
        lambda: corrected_resampled_t_test([0.1, 0.2], 1.0),
        "test_share must be a finite number of at least 0 and below 1, but got 1.0.",
    ),
    (
        lambda: paired_bootstrap([1.0, 2.0], [1.0, 2.0, 3.0], seed=0),
        "a and b must hold one value per seed each, but got 2 and 3.",
    ),
    (lambda: holm([0.5, 1.5]), "p_values must be from 0 to 1 or NaN, but 1 of 2 are not."),
    (
        lambda: average_ranks([[0.1, NAN], [NAN, 0.2]]),
        "scores must have a data set on which all 2 methods are defined, "
        "but each of the 2 lacks one.",
    ),
    (
        lambda: average_ranks([0.1, 0.2]),
        "scores must be of shape (data sets, methods), finite or NaN, but got shape (2,) "
        "with 0 infinite.",
    ),
    (
        lambda: wins(np.zeros((3, 0))),
        "scores must be of shape (data sets, methods), finite or NaN, but got shape (3, 0) "
        "with 0 infinite.",
    ),
    (
        lambda: wins([[1.0, math.inf]]),
        "scores must be of shape (data sets, methods), finite or NaN, but got shape (1, 2) "
        "with 1 infinite.",
    ),
    (
        lambda: friedman([[1.0, 2.0], [NAN, 1.0]]),
        "scores must have at least 2 data sets on which all methods, at least 3, are defined "
        "to test ranks, but got 1 with 2.",
    ),
    (lambda: wins([[1.0]], ties="half"), "ties must be one of first, each, but got 'half'."),
]


@pytest.mark.parametrize(("call", "sentence"), BAD)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises(ValueError) as raised:
        call()
    assert str(raised.value) == sentence


def test_without_scipy_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ImportError, match=r'pip install "softmargin\[lab\]"'):
        summary([1.0, 2.0])
