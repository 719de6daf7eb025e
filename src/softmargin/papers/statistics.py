"""Statistics over seeds, folds and data sets: how sure a difference between methods is.

``docs/statistics.md`` says which to ask for, what they cannot say, and where they come from.
Scores over data sets have the shape (data sets, methods), with NaN where a method is not defined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softmargin._plain_checks import check_choice, check_number

Floats = NDArray[np.float64]
ROUNDING = 1e-12  # values that differ by less than this share of their size differ by rounding
LEVEL = 0.95  # of every interval
EXACT_UP_TO = 20  # 2²⁰ sign patterns take a few milliseconds
RESAMPLES = 10_000


@dataclass(frozen=True)
class Summary:
    """Mean over seeds with its spread; one seed has a mean only."""

    mean: float
    sd: float | None  # of single values, with n - 1
    n: int
    low: float | None  # ends of the confidence interval of the mean
    high: float | None


@dataclass(frozen=True)
class Comparison:
    """A mean paired difference, its confidence interval and its two-sided p-value."""

    difference: float
    low: float
    high: float
    p: float  # of "no difference"
    n: int  # pairs
    method: str  # how interval and p-value were found, in words


class RankTest(NamedTuple):
    """A test of "all methods rank the same": its statistic and p-value."""

    statistic: float
    p: float


def summary(values: ArrayLike) -> Summary:
    """Return mean, standard deviation and Student's t interval of the mean, mean ± t·sd/√n.

    It is for independent values, such as one per seed, not for folds that share training data: for
    these see :func:`corrected_resampled_t_test`.

    Example:
        >>> over_seeds = summary([91.0, 92.0, 93.0])
        >>> over_seeds.sd, round(over_seeds.low, 3), round(over_seeds.high, 3)
        (1.0, 89.516, 94.484)
    """
    row = _finite_values("values", values)
    if row.size == 1:
        return Summary(float(row[0]), None, 1, None, None)
    mean, sd = _mean_and_sd(row)
    half = t_quantile(row.size) * sd / math.sqrt(row.size)
    return Summary(mean, sd, row.size, mean - half, mean + half)


def require_spread(seeds: int) -> None:
    """Raise ``ValueError`` where a spread is asked of fewer than two seeds."""
    if seeds < 2:
        raise ValueError(f"seeds must be at least 2 where a spread is asked for, but got {seeds}.")


def corrected_resampled_t_test(differences: ArrayLike, test_share: float) -> Comparison:
    """Compare two methods on the same folds of repeated cross-validation.

    Folds share most of their training data, so that their differences are correlated and the
    usual variance of a mean, s²/n, is too small. The correction of Nadeau and Bengio takes

        t = d̄ / √((1/n + n_test/n_train) · s²),  n - 1 degrees of freedom,

    for n = runs·folds differences of mean d̄ and variance s²; ``test_share`` is the share of the
    data in a test fold, 0.1 for 10 folds. If all differences are equal there is no spread: p is 1
    where they are 0 and otherwise 0, and ``method`` says so.

    Example:
        >>> differences = [[0.02, 0.00, 0.04, 0.02], [0.01, 0.03, 0.02, 0.02]]
        >>> result = corrected_resampled_t_test(differences, test_share=0.25)
        >>> round(result.low, 4), round(result.high, 4), round(result.p, 4)
        (0.0009, 0.0391, 0.0427)
    """
    check_number("test_share", test_share, inclusive=True, below=1.0)
    row = _finite_values("differences", differences)
    n = row.size
    if n < 2:
        raise ValueError(f"differences must hold at least 2 values to test, but got {n}.")
    method = f"corrected resampled t-test, {LEVEL} interval"
    mean, sd = _mean_and_sd(row)
    if sd == 0.0:
        return Comparison(mean, mean, mean, float(mean == 0.0), n, f"{method}; all folds equal")
    error = sd * math.sqrt(1 / n + test_share / (1 - test_share))
    half = t_quantile(n) * error
    return Comparison(mean, mean - half, mean + half, t_test_p(mean, error, n), n, method)


def t_quantile(n: int) -> float:
    """Return half the width of the interval of a mean of n values, in its standard errors."""
    return float(scipy_stats().t.ppf(0.5 + LEVEL / 2, n - 1))


def t_test_p(mean: float, error: float, n: int) -> float:
    """Return the two-sided p-value of a mean of n values with a standard error."""
    return 2 * float(scipy_stats().t.sf(abs(mean) / error, n - 1))


def paired_bootstrap(a: ArrayLike, b: ArrayLike, seed: int) -> Comparison:
    """Compare two methods over seeds: bootstrap interval of mean(a - b), sign-flip p-value.

    The interval is Hesterberg's expanded percentile interval: the quantiles α' and 1 - α' of the
    resampled means, with α' = Φ(-√(n/(n - 1))·t), where t is Student's quantile for n - 1 degrees
    of freedom. It corrects both reasons why plain percentiles are too narrow for few seeds: sd with
    n, and normal instead of t. The p-value is that of :func:`sign_flip_p`. The values of method and
    baseline must be of the same seeds in the same order; ``seed`` is that of the resampling.

    Example:
        >>> a, b = [91.2, 90.8, 91.9, 91.4, 91.1], [90.9, 90.1, 91.0, 90.9, 90.5]
        >>> result = paired_bootstrap(a, b, seed=0)
        >>> round(result.difference, 2), result.p
        (0.6, 0.0625)
    """
    first, second = _finite_values("a", a), _finite_values("b", b)
    n = first.size
    if n != (other := second.size):
        raise ValueError(f"a and b must hold one value per seed each, but got {n} and {other}.")
    require_spread(n)
    row = first - second
    means = row[np.random.default_rng([seed, 0]).integers(0, n, (RESAMPLES, n))].mean(1)
    tail = float(scipy_stats().norm.cdf(-math.sqrt(n / (n - 1)) * t_quantile(n)))
    low, high = np.quantile(means, [tail, 1 - tail])
    kind = "exact" if n <= EXACT_UP_TO else "sampled"
    method = f"paired bootstrap, expanded percentile {LEVEL} interval; {kind} sign-flip p"
    p = sign_flip_p(row, seed)
    return Comparison(float(row.mean()), float(low), float(high), p, n, method)


def paired_t_test(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Compare two methods over seeds by Student's t: interval and p-value of mean(a - b).

    It takes differences for normal, and can find for a few seeds what the exact test cannot. If
    all differences are equal there is no spread: p is 1 where they are 0 and otherwise 0.

    Example:
        >>> a, b = [91.2, 90.8, 91.9, 91.4, 91.1], [90.9, 90.1, 91.0, 90.9, 90.5]
        >>> result = paired_t_test(a, b)
        >>> round(result.low, 2), round(result.high, 2), round(result.p, 4)
        (0.32, 0.88, 0.0039)
    """
    first, second = _finite_values("a", a), _finite_values("b", b)
    n = first.size
    if n != (other := second.size):
        raise ValueError(f"a and b must hold one value per seed each, but got {n} and {other}.")
    require_spread(n)
    mean, sd = _mean_and_sd(first - second)
    method = f"paired t-test, {LEVEL} interval"
    if sd == 0.0:
        return Comparison(mean, mean, mean, float(mean == 0.0), n, f"{method}; all seeds equal")
    error = sd / math.sqrt(n)
    half = t_quantile(n) * error
    return Comparison(mean, mean - half, mean + half, t_test_p(mean, error, n), n, method)


def seeds_needed(p: float, pairs: int, alpha: float, power: float) -> int:
    """Return how many seeds a paired t-test needs if spread and difference stay what they are.

    Args:
        p: of the test over the seeds that there are.
        pairs: how many these are.
        alpha: p below which a difference counts as significant.
        power: the probability with which it is to be found.

    Returns:
        The least number, 1,000 at most.

    Example:
        >>> seeds_needed(0.05, 5, alpha=0.05, power=0.8)
        8
    """
    stats = scipy_stats()
    effect = stats.t.isf(p / 2, pairs - 1) / math.sqrt(pairs)  # the difference by its spread
    counts = np.arange(3, 1001)
    critical = stats.t.isf(alpha / 2, counts - 1)
    found = stats.nct.sf(critical, counts - 1, effect * np.sqrt(counts)) >= power
    return int(counts[found.argmax()]) if found.any() else int(counts[-1])


def sign_flip_p(differences: ArrayLike, seed: int = 0) -> float:
    """Return the two-sided p-value of the paired permutation test on the mean.

    If the two methods of a pair could be exchanged, every pattern of signs of the differences
    would be as likely as the one seen. The p-value is the share of patterns whose mean is at
    least as far from 0. Up to 20 pairs all 2ⁿ patterns are counted, so that it is exact and at
    least 2/2ⁿ; beyond, some are drawn, and the one seen counts as one more.

    Example:
        >>> sign_flip_p([1.0, 2.0, 3.0, 4.0, 5.0]) == 2 / 32
        True
    """
    row = _finite_values("differences", differences)
    # sums that are equal but for rounding are equal
    reached = abs(float(row.sum())) - ROUNDING * float(np.abs(row).sum())
    if row.size <= EXACT_UP_TO:
        sums = np.abs(row[:1])  # the other sign of the first is the mirror image of all patterns
        for value in row[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= reached).mean())
    drawn = np.random.default_rng([seed, 1]).integers(0, 2, (RESAMPLES, row.size))
    as_far = int((np.abs((2.0 * drawn - 1.0) @ row) >= reached).sum())
    return (1 + as_far) / (1 + RESAMPLES)


def holm(p_values: ArrayLike) -> Floats:
    """Return p-values, of any shape, adjusted by Holm's step-down method.

    Of m p-values, the i-th smallest (from i = 0) is multiplied by m - i; each result is then
    raised to the largest one before it, and cut at 1. Rejecting what is at most α keeps the
    chance of even one false rejection at α, however the tests depend on each other. NaN is a
    comparison that was not made: it stays NaN and does not count in m.

    Example:
        >>> holm([0.01, float("nan"), 0.04, 0.03])
        array([0.03,  nan, 0.06, 0.06])
    """
    found = np.array(p_values, dtype=np.float64)
    tested = ~np.isnan(found)
    p = found[tested]
    if bad := int(((p < 0) | (p > 1)).sum()):
        raise ValueError(f"p_values must be from 0 to 1 or NaN, but {bad} of {found.size} are not.")
    order = np.argsort(p, kind="stable")
    p[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)).clip(max=1.0)
    found[tested] = p
    return found


def complete_sets(scores: ArrayLike) -> Floats:
    """Return the rows of the data sets on which all methods are defined.

    Ranks are over these rows alone: a rank among fewer methods is a different number.
    """
    table = _score_table(scores)
    complete = table[~np.isnan(table).any(1)]
    if not len(complete):
        raise ValueError(
            f"scores must have a data set on which all {table.shape[1]} methods are defined, "
            f"but each of the {len(table)} lacks one."
        )
    return complete


def average_ranks(scores: ArrayLike) -> Floats:
    """Return each method's mean rank over data sets; the highest score of a data set has rank 1.

    Equal scores share the mean of the ranks they take up. Scores are equal if they are equal to
    the last bit: round them first. Data sets on which some method is NaN are left out.

    Example:
        >>> average_ranks([[0.9, 0.8, 0.8], [0.7, 0.9, 0.6]])
        array([1.5 , 1.75, 2.75])
    """
    return np.asarray(scipy_stats().rankdata(-complete_sets(scores), axis=1).mean(0))


def friedman(scores: ArrayLike) -> RankTest:
    """Return Friedman's test, corrected for ties, that all methods, at least 3, rank the same.

    It is scipy's. If all methods are tied on every data set, the statistic is 0 and p is 1.

    Example:
        >>> statistic, p = friedman([[3, 2, 1], [3, 1, 2], [3, 2, 1], [2, 3, 1]])
        >>> round(statistic, 4), round(p, 4)
        (4.5, 0.1054)
    """
    complete = complete_sets(scores)
    if len(complete) < 2 or complete.shape[1] < 3:
        raise ValueError(
            "scores must have at least 2 data sets on which all methods, at least 3, are defined "
            f"to test ranks, but got {len(complete)} with {complete.shape[1]}."
        )
    if (complete == complete[:, :1]).all():
        return RankTest(0.0, 1.0)
    statistic, p = scipy_stats().friedmanchisquare(*complete.T)
    return RankTest(float(statistic), float(p))


def critical_difference(methods: int, sets: int) -> float:
    """Return Nemenyi's critical difference of two average ranks, at level 0.95.

    CD = q·√(k(k + 1)/(6n)) for k methods on n data sets on which all are defined, where q is the
    quantile of the studentised range of k normal values, divided by √2. Two methods whose average
    ranks are at least that far apart differ, at this level for all pairs together.

    Example:
        >>> round(critical_difference(methods=7, sets=15), 3)
        2.326
    """
    quantile = float(scipy_stats().studentized_range.ppf(LEVEL, methods, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * sets))


def wins(scores: ArrayLike, ties: str = "first") -> NDArray[np.int64]:
    """Return on how many data sets each method has the highest score; NaN never does.

    With ``ties="first"`` a tie counts for the first of the tied columns alone, as in Table I of
    the ArcGrad paper, with ``"each"`` for all.

    Example:
        >>> accuracy = [[97.5, 97.5, 97.0], [83.1, 84.4, 84.1]]
        >>> wins(accuracy), wins(accuracy, ties="each")
        (array([1, 1, 0]), array([1, 2, 0]))
    """
    check_choice("ties", ties, ("first", "each"))
    table = _score_table(scores)
    tied = table == np.where(np.isnan(table), -np.inf, table).max(1, keepdims=True)
    if ties == "first":
        tied &= tied.cumsum(1) == 1
    return np.asarray(tied.sum(0, dtype=np.int64))


def scipy_stats() -> Any:
    """Return ``scipy.stats``, or say what to install."""
    try:
        from scipy import stats
    except ImportError:
        raise ImportError(
            'Statistics need scipy, which is missing: pip install "softmargin[lab]".'
        ) from None
    return stats


def _finite_values(name: str, values: ArrayLike) -> Floats:
    """Return values as one row of finite numbers, whatever their shape."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    if not flat.size:
        raise ValueError(f"{name} must hold at least one value, but got none.")
    if bad := int((~np.isfinite(flat)).sum()):
        raise ValueError(f"{name} must be finite, but {bad} of {flat.size} values are not.")
    return flat


def _score_table(scores: ArrayLike) -> Floats:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or not table.size or np.isinf(table).any():
        raise ValueError(
            "scores must be of shape (data sets, methods), finite or NaN, but got shape "
            f"{table.shape} with {np.isinf(table).sum()} infinite."
        )
    return table


def _mean_and_sd(values: Floats) -> tuple[float, float]:
    """Return mean and standard deviation; exactly 0 where values differ by rounding only."""
    is_spread = np.ptp(values) > ROUNDING * np.abs(values).max()
    return float(values.mean()), float(values.std(ddof=1)) if is_spread else 0.0
