"""Statistics over seeds, folds and data sets: how sure a difference between methods is.

``docs/statistics.md`` says which to ask for, what they cannot say, and where they come from.
Scores over data sets have the shape (data sets, methods), with NaN where a method is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softmargin._plain_checks import check_choice, check_number

Floats = NDArray[np.float64]
ROUNDING = 1e-12  # values that differ by less than this share of their size differ by rounding
EXACT_UP_TO = 20  # 2²⁰ sign patterns take a few milliseconds
DRAWS_AT_A_TIME = 1 << 21


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


def summary(values: ArrayLike, level: float = 0.95) -> Summary:
    """Return mean, standard deviation and Student's t interval of the mean, mean ± t·sd/√n.

    It is for independent values, such as one per seed, not for folds that share training data: for
    these see :func:`corrected_resampled_t_test`.

    Example:
        >>> over_seeds = summary([91.0, 92.0, 93.0])
        >>> over_seeds.sd, round(over_seeds.low, 3), round(over_seeds.high, 3)
        (1.0, 89.516, 94.484)
    """
    check_number("level", level, below=1.0)
    row = _finite_values("values", values)
    if row.size == 1:
        return Summary(float(row[0]), None, 1, None, None)
    mean, sd = _mean_and_sd(row)
    half = float(scipy_stats().t.ppf(0.5 + level / 2, row.size - 1)) * sd / math.sqrt(row.size)
    return Summary(mean, sd, row.size, mean - half, mean + half)


def require_spread(seeds: int) -> None:
    """Raise ``ValueError`` where a spread is asked of fewer than two seeds."""
    if seeds < 2:
        raise ValueError(f"seeds must be at least 2 where a spread is asked for, but got {seeds}.")


def corrected_resampled_t_test(
    differences: ArrayLike, test_share: float, level: float = 0.95
) -> Comparison:
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
    check_number("level", level, below=1.0)
    check_number("test_share", test_share, inclusive=True, below=1.0)
    row = _finite_values("differences", differences)
    n = row.size
    if n < 2:
        raise ValueError(f"differences must hold at least 2 values to test, but got {n}.")
    method = f"corrected resampled t-test, {level:.4g} interval"
    mean, sd = _mean_and_sd(row)
    if sd == 0.0:
        return Comparison(mean, mean, mean, float(mean == 0.0), n, f"{method}; all folds equal")
    error = sd * math.sqrt(1 / n + test_share / (1 - test_share))
    t = scipy_stats().t
    half = float(t.ppf(0.5 + level / 2, n - 1)) * error
    p = 2 * float(t.sf(abs(mean) / error, n - 1))
    return Comparison(mean, mean - half, mean + half, p, n, method)


def paired_bootstrap(
    a: ArrayLike, b: ArrayLike, seed: int, resamples: int = 10_000, level: float = 0.95
) -> Comparison:
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
    check_number("level", level, below=1.0)
    first, second = _finite_values("a", a), _finite_values("b", b)
    n = first.size
    if n != (other := second.size):
        raise ValueError(f"a and b must hold one value per seed each, but got {n} and {other}.")
    require_spread(n)
    row = first - second
    p = sign_flip_p(row, seed, resamples)
    generator = np.random.default_rng([seed, 0])
    means = np.concatenate(
        [row[generator.integers(0, n, (size, n))].mean(1) for size in _portions(resamples, n)]
    )
    stats = scipy_stats()
    tail = float(stats.norm.cdf(-math.sqrt(n / (n - 1)) * stats.t.ppf(0.5 + level / 2, n - 1)))
    low, high = np.quantile(means, [tail, 1 - tail])
    kind = "exact" if n <= EXACT_UP_TO else "sampled"
    method = f"paired bootstrap, expanded percentile {level:.4g} interval; {kind} sign-flip p"
    return Comparison(float(row.mean()), float(low), float(high), p, n, method)


def sign_flip_p(differences: ArrayLike, seed: int = 0, resamples: int = 10_000) -> float:
    """Return the two-sided p-value of the paired permutation test on the mean.

    If the two methods of a pair could be exchanged, every pattern of signs of the differences
    would be as likely as the one seen. The p-value is the share of patterns whose mean is at
    least as far from 0. Up to 20 pairs all 2ⁿ patterns are counted, so that it is exact and at
    least 2/2ⁿ; beyond, ``resamples`` patterns are drawn, and the one seen counts as one more.

    Example:
        >>> sign_flip_p([1.0, 2.0, 3.0, 4.0, 5.0]) == 2 / 32
        True
    """
    _check_count("seed", seed, 0)
    _check_count("resamples", resamples, 2)
    row = _finite_values("differences", differences)
    # sums that are equal but for rounding are equal
    reached = abs(float(row.sum())) - ROUNDING * float(np.abs(row).sum())
    if row.size <= EXACT_UP_TO:
        sums = np.abs(row[:1])  # the other sign of the first is the mirror image of all patterns
        for value in row[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= reached).mean())
    generator = np.random.default_rng([seed, 1])
    as_far = 0
    for size in _portions(resamples, row.size):
        signs = 2.0 * generator.integers(0, 2, (size, row.size)) - 1.0
        as_far += int((np.abs(signs @ row) >= reached).sum())
    return (1 + as_far) / (1 + resamples)


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
    """Return the rows of the data sets on which all methods, at least two, are defined.

    Ranks are over these rows alone: a rank among fewer methods is a different number.
    """
    table = _score_table(scores, least_methods=2)
    complete = table[~np.isnan(table).any(1)]
    if not len(complete):
        raise ValueError(
            f"scores must have a data set on which all {table.shape[1]} methods are defined, "
            f"but each of the {len(table)} lacks one."
        )
    return complete


def average_ranks(scores: ArrayLike, higher_is_better: bool = True) -> Floats:
    """Return each method's mean rank over data sets; the best method of a data set has rank 1.

    Equal scores share the mean of the ranks they take up. Scores are equal if they are equal to
    the last bit: round them first. Data sets on which some method is NaN are left out.

    Example:
        >>> average_ranks([[0.9, 0.8, 0.8], [0.7, 0.9, 0.6]])
        array([1.5 , 1.75, 2.75])
    """
    complete = complete_sets(scores) * (-1 if higher_is_better else 1)
    return np.asarray(scipy_stats().rankdata(complete, axis=1).mean(0))


def friedman(scores: ArrayLike) -> RankTest:
    """Return Friedman's test, corrected for ties, that all methods rank the same.

    It is scipy's, whose χ² with k - 1 degrees of freedom is conservative for few data sets; see
    :func:`iman_davenport`. For two methods, which scipy refuses, the sign test is the same. If all
    methods are tied on every data set, the statistic is 0 and p is 1.

    Example:
        >>> statistic, p = friedman([[3, 2, 1], [3, 1, 2], [3, 2, 1], [2, 3, 1]])
        >>> round(statistic, 4), round(p, 4)
        (4.5, 0.1054)
    """
    complete = complete_sets(scores)
    if len(complete) < 2:
        raise ValueError(
            "scores must have at least 2 data sets on which all methods are defined to test "
            f"ranks, but got {len(complete)}."
        )
    first, second, *others = complete.T
    if (first == complete.T).all():
        return RankTest(0.0, 1.0)
    if others:
        statistic, p = scipy_stats().friedmanchisquare(*complete.T)
    else:
        statistic, p = scipy_stats().chisquare([(first > second).sum(), (first < second).sum()])
    return RankTest(float(statistic), float(p))


def iman_davenport(scores: ArrayLike) -> RankTest:
    """Return Iman and Davenport's version of Friedman's test, less conservative.

    F = (n - 1)·χ² / (n(k - 1) - χ²) for k methods on n data sets, with k - 1 and (k - 1)(n - 1)
    degrees of freedom. If all data sets have the same order of methods, it is infinite.

    Example:
        >>> statistic, p = iman_davenport([[3, 2, 1], [3, 1, 2], [3, 2, 1], [2, 3, 1]])
        >>> round(statistic, 4), round(p, 4)
        (3.8571, 0.0837)
    """
    chi = friedman(scores).statistic
    sets, methods = complete_sets(scores).shape
    largest = sets * (methods - 1)
    if math.isclose(chi, largest):
        return RankTest(math.inf, 0.0)
    f = (sets - 1) * chi / (largest - chi)
    return RankTest(f, float(scipy_stats().f.sf(f, methods - 1, (methods - 1) * (sets - 1))))


def critical_difference(methods: int, sets: int, level: float = 0.95) -> float:
    """Return Nemenyi's critical difference of two average ranks.

    CD = q·√(k(k + 1)/(6n)) for k methods on n data sets on which all are defined, where q is the
    quantile of the studentised range of k normal values, divided by √2. Two methods whose average
    ranks are at least that far apart differ, at this level for all pairs together.

    Example:
        >>> round(critical_difference(methods=7, sets=15), 3)
        2.326
    """
    _check_count("methods", methods, 2)
    _check_count("sets", sets, 1)
    check_number("level", level, below=1.0)
    quantile = float(scipy_stats().studentized_range.ppf(level, methods, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * sets))


def cliques(ranks: ArrayLike, cd: float) -> list[tuple[int, ...]]:
    """Return the largest groups of methods of which no two differ by the critical difference.

    Groups are positions in ``ranks``, from the best rank to the worst, and may overlap. A method
    that differs from all others is in none.

    Example:
        >>> cliques([3.1, 1.0, 1.9, 2.5], cd=1.0)
        [(1, 2), (2, 3), (3, 0)]
    """
    check_number("cd", cd)
    row = _finite_values("ranks", ranks)
    order = np.argsort(row, kind="stable")
    ends = np.searchsorted(row[order], row[order] + cd, side="left")
    groups, reached = [], 0
    for start, end in enumerate(ends.tolist()):
        if end > max(reached, start + 1):
            groups.append(tuple(order[start:end].tolist()))
            reached = end
    return groups


def wins(
    scores: ArrayLike, tolerance: float = 0.0, *, ties: str = "first", higher_is_better: bool = True
) -> NDArray[np.int64]:
    """Return how many data sets each method wins; NaN never does.

    What is within the tolerance of the best is a tie. With ``ties="first"`` it counts for the
    first of the tied columns alone, as in Table I of the ArcGrad paper, with ``"each"`` for all.

    Example:
        >>> accuracy = [[97.5, 97.5, 97.0], [83.1, 84.4, 84.1]]
        >>> wins(accuracy), wins(accuracy, ties="each")
        (array([1, 1, 0]), array([1, 2, 0]))
    """
    check_choice("ties", ties, ("first", "each"))
    check_number("tolerance", tolerance, inclusive=True)
    table = _score_table(scores) * (1 if higher_is_better else -1)
    best = np.where(np.isnan(table), -np.inf, table).max(1, keepdims=True)
    tied = table >= best - tolerance  # NaN is no tie
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


def _check_count(name: str, value: int, least: int) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, but got {value!r}.")


def _finite_values(name: str, values: ArrayLike) -> Floats:
    """Return values as one row of finite numbers, whatever their shape."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    if not flat.size:
        raise ValueError(f"{name} must hold at least one value, but got none.")
    if bad := int((~np.isfinite(flat)).sum()):
        raise ValueError(f"{name} must be finite, but {bad} of {flat.size} values are not.")
    return flat


def _score_table(scores: ArrayLike, least_methods: int = 1) -> Floats:
    """Return scores of shape (data sets, methods), each finite or NaN."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < least_methods:
        raise ValueError(
            f"scores must have shape (data sets, methods) with at least {least_methods} "
            f"method{'s'[: least_methods > 1]}, but got {table.shape}."
        )
    if bad := int(np.isinf(table).sum()):
        raise ValueError(
            "scores must be finite, or NaN where a method is not defined, "
            f"but {bad} of {table.size} are infinite."
        )
    return table


def _mean_and_sd(values: Floats) -> tuple[float, float]:
    """Return mean and standard deviation; exactly 0 where values differ by rounding only."""
    is_spread = np.ptp(values) > ROUNDING * np.abs(values).max()
    return float(values.mean()), float(values.std(ddof=1)) if is_spread else 0.0


def _portions(resamples: int, n: int) -> Iterator[int]:
    """Yield how many resamples of n values to draw at a time, so that they fit in memory."""
    most = max(1, DRAWS_AT_A_TIME // n)
    yield from (min(most, resamples - start) for start in range(0, resamples, most))
