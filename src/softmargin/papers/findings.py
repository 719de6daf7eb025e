"""What experiments conclude from values over seeds: three kinds of finding, one rule.

A finding is declared as :class:`Compare` (one method above or below another), :class:`Monotone`
(along a list of methods) or :class:`Best` (of all methods), and judged on the runs of every task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softmargin.papers.outcome import Finding, Verdict
from softmargin.papers.statistics import Comparison, holm, paired_bootstrap, paired_t_test

if TYPE_CHECKING:
    from softmargin.papers.grid import Task
    from softmargin.papers.runs import Runs, Score

Floats = NDArray[np.float64]
Rule = Callable[["Runs", "Task"], Sequence[Finding]]
"""What is judged of every task: one of the three kinds, or a function for what none of them says"""


@dataclass(frozen=True)
class Compare:
    """A method lies above (sign 1) or below (-1) another beyond the spread over seeds.

    Attributes:
        score: by which score.
        method: the one that is claimed to be above or below.
        sign: 1 or -1.
        other: the method that it is compared with, by default the experiment's baseline.
        data: the data sets that it is claimed of, by default all.
        margin: how far it may lie on the wrong side and still count as not worse; 0 claims a
            difference.
    """

    score: Score
    method: str
    sign: int
    other: str = ""
    data: tuple[str, ...] = ()
    margin: float = 0.0

    def __call__(self, runs: Runs, task: Task) -> list[Finding]:
        """Judge it; nothing is found on other data, or where a method was not trained."""
        names = self.method, self.other or runs.baseline
        if not runs.has(task, names) or (self.data and task.data not in self.data):
            return []
        values = {name: self.score.of(runs, task, name) for name in names}
        what, digits = self.score.on(task), self.score.digits
        return [compare(what, values, names, self.sign, digits, self.margin)]


@dataclass(frozen=True)
class Monotone:
    """The mean never moves against a direction (1 up, -1 down) from each method to the next.

    Attributes:
        score: of which score.
        sign: 1 or -1.
        methods: those that it moves along, by default all of the task; small scales have fewer.
        data: the data sets that it is claimed of, by default all.
    """

    score: Score
    sign: int
    methods: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    def __call__(self, runs: Runs, task: Task) -> list[Finding]:
        """Judge it; nothing is found on other data."""
        if self.data and task.data not in self.data:
            return []
        order = self.methods or tuple(method.name for method in runs.methods(task))
        values = {name: self.score.of(runs, task, name) for name in order if runs.has(task, [name])}
        means = [float(own.mean()) for own in values.values()]
        listed = ", ".join(f"{mean:,.{self.score.digits}f}" for mean in means)
        text = f"{self.score.on(task)} goes {listed} on average along {', '.join(values)}"
        return [Finding(text, bool((self.sign * np.diff(means) >= 0).all()))]


@dataclass(frozen=True)
class Best:
    """A method lies above all others (sign 1), or below them (-1), beyond the spread over seeds.

    The one that counts is the best of the others: within the spread the finding is left open.

    Attributes:
        score: of which score.
        method: the one that is claimed to be the best.
        sign: 1 or -1.
        among: the names of the others, by default all of the task; small scales have fewer.
    """

    score: Score
    method: str
    sign: int = 1
    among: tuple[str, ...] = ()

    def __call__(self, runs: Runs, task: Task) -> list[Finding]:
        """Judge it; a method that diverged is not the best."""
        if not runs.has(task, [self.method]):
            return []
        wanted = {self.method, *(self.among or (each.name for each in runs.methods(task)))}
        values = {
            each.name: self.score.of(runs, task, each)
            for each in runs.methods(task)
            if each.name in wanted
        }
        means = {name: self.sign * float(own.mean()) for name, own in values.items()}
        ranked = sorted(values, key=lambda name: -np.nan_to_num(means[name], nan=-np.inf))
        best = ranked[0]
        which, digits = "highest" if self.sign > 0 else "lowest", self.score.digits
        text = f"{self.score.on(task)} is {which} for {best}, {shown(values[best], digits)}"
        rival = next((name for name in ranked if name != self.method), self.method)
        if best != self.method:
            text += f" ({self.method} has {shown(values[self.method], digits)})"
        elif np.isfinite(means[rival]):
            text += f" ({rival} has {shown(values[rival], digits)})"
        if not np.isfinite(means[self.method]) or not np.isfinite(means[rival]):
            return [Finding(text, best == self.method)]
        return [judged(text, values[self.method], values[rival], self.sign)]


# --- the rule


def verdict(scale: str, findings: Sequence[Finding], remark: str = "") -> Verdict:
    """Return what the findings say together: the one rule for every experiment."""
    if scale == "smoke":
        return Verdict("path only", remark=SMOKE)
    agreeing = sum(each.agrees is True for each in findings)
    if agreeing == len(findings):
        word = "holds"
    elif agreeing:
        word = "holds in part"
    else:
        word = "left open" if all(each.agrees is None for each in findings) else "does not hold"
    return Verdict(word, corrected(findings), remark)


def corrected(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with p-values after Holm's correction over those that have one."""
    found = holm([np.nan if each.p is None else each.p for each in findings])
    return tuple(
        each if each.p is None else replace(each, adjusted=float(p))
        for each, p in zip(findings, found, strict=True)
    )


RULE = (
    "One value is called above or below another where the 95 % bootstrap interval of the paired "
    "difference over seeds leaves out 0, which for three seeds means that all three differences "
    "have one sign; otherwise the finding is left open. A method is called the highest or lowest "
    "of all where it is so against the best of the others; within that spread it is left open. "
    "p-values "
    "after Holm's correction are over the comparisons that the verdict rests on; its word does not "
    "depend on them. The claim holds if all findings agree "
    "with it, holds in part if some do, is left open if all findings are, and otherwise does not "
    "hold."
)
SMOKE = "Smoke scale shows that data, training and page work, and says nothing else."


# --- values over seeds


def compare(
    what: str,
    values: Mapping[str, Floats],
    names: tuple[str, str],
    sign: int,
    digits: int = 2,
    margin: float = 0.0,
) -> Finding:
    """Find whether the first lies above (sign 1) or below (-1) the second beyond the spread.

    With a margin: whether it is not worse by more than that.
    """
    a, b = names
    comparison = against(values[a], values[b])
    if comparison is None:
        return Finding(f"{what} of {a} and {b} cannot be compared", None)
    allowed = f"; {margin:g} the worse is allowed" if margin else ""
    text = (
        f"{what} is {shown(values[a], digits)} for {a} against {shown(values[b], digits)} for {b} "
        f"({interval(comparison, digits)}{allowed})"
    )
    return judged(text, values[a] + sign * margin, values[b], sign)


def judged(text: str, a: Floats, b: Floats, sign: int) -> Finding:
    """Find whether a lies above (sign 1) or below (-1) b beyond the spread, with p-values."""
    comparison = against(a, b)
    if comparison is None:
        return Finding(text, None)
    clear = direction(comparison)
    agrees = None if clear == 0 else clear == sign
    return Finding(text, agrees, paired_t_test(a, b).p, comparison.p, pairs=len(a))


def against(a: Floats, b: Floats) -> Comparison | None:
    """Compare over the seeds that both have; None where there are fewer than two."""
    if len(a) != len(b) or len(a) < 2 or not np.isfinite([a, b]).all():
        return None
    return paired_bootstrap(a, b, seed=0)


def direction(comparison: Comparison) -> int:
    """Return 1 or -1 where the interval leaves out 0, otherwise 0."""
    return int(comparison.low > 0) - int(comparison.high < 0)


def interval(comparison: Comparison, digits: int) -> str:
    """Return a paired difference and its interval."""
    low, high = (f"{end:+,.{digits}f}" for end in (comparison.low, comparison.high))
    return f"paired difference {comparison.difference:+,.{digits}f}, {low} to {high}"


def shown(values: Floats, digits: int) -> str:
    """Return mean ± standard deviation over seeds."""
    spread = f" ± {values.std(ddof=1):,.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():,.{digits}f}{spread}"
