"""What an experiment concludes: numbers beside the paper's, charts, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from softmargin.charts import Chart
from softmargin.papers.statistics import Comparison, seeds_needed, summary

SIGNIFICANT, POWER = 0.05, 0.8
VERDICTS = {
    "holds": "every part of the claim that was tested was found",
    "holds in part": "some parts were found; the page says which",
    "does not hold": "no part was found, and at least one was contradicted",
    "left open": "no part was found or contradicted: differences are within the spread over seeds",
    "shown": "a figure of theory, whose curves were checked numerically",
    "path only": "smoke scale, which shows that everything runs and concludes nothing",
}


@dataclass(frozen=True)
class Entry:
    """One number of a table: ours over seeds or folds, and the paper's.

    Attributes:
        row: name of the row.
        column: name of the column.
        values: ours, one per seed or fold.
        paper: the paper's number, or None where it has none.
        paper_sd: the paper's standard deviation, or None.
        comparison: of ours against the baseline, or None.
        adjusted: its p-value after Holm's correction, or None.
        baseline: row and column of the entry it is compared with, or None.
    """

    row: str
    column: str
    values: Sequence[float]
    paper: float | None = None
    paper_sd: float | None = None
    comparison: Comparison | None = None
    adjusted: float | None = None
    baseline: tuple[str, str] | None = None

    @property
    def mean(self) -> float:
        """The mean of ours."""
        return math.fsum(self.values) / len(self.values) if self.values else math.nan

    @property
    def spread(self) -> float | None:
        """The standard deviation, or None for one seed or where a value is not finite."""
        if len(self.values) < 2 or not all(map(math.isfinite, self.values)):
            return None
        return summary(self.values).sd

    @property
    def is_significant(self) -> bool:
        """Whether it differs from its baseline, after Holm's correction where there is one."""
        if self.comparison is None:
            return False
        return (self.comparison.p if self.adjusted is None else self.adjusted) < SIGNIFICANT


@dataclass(frozen=True)
class ResultTable:
    """A table in long form: entries, which the writers lay out by row and column."""

    title: str
    unit: str
    entries: Sequence[Entry]
    digits: int = 2
    row_heading: str = ""
    better: str = ""  # "higher", "lower" or ""
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """A part of a claim.

    Attributes:
        text: the numbers in words.
        agrees: whether they agree with the claim; None if that is open.
        p: of the paired t-test, where two methods are compared over seeds.
        exact: p-value of the exact test of the same.
        adjusted: p after Holm's correction over the findings of the verdict.
        pairs: how many seeds were compared.
    """

    text: str
    agrees: bool | None
    p: float | None = None
    exact: float | None = None
    adjusted: float | None = None
    pairs: int | None = None

    @property
    def told(self) -> str:
        """The text with its p-values, where it has them.

        Example:
            >>> Finding("a is 1 above b", True, 0.0039, 0.0625, 0.0117).told
            'a is 1 above b; p = 0.004 by paired t-test, 0.012 after Holm, 0.062 exact'
            >>> Finding("a is 1 above b", True, 2e-6, 0.0625, 4e-5).told
            'a is 1 above b; p < 0.001 by paired t-test, < 0.001 after Holm, 0.062 exact'
        """
        if self.p is None or self.exact is None or self.adjusted is None:
            return self.text
        t, holm, exact = (p_told(p) for p in (self.p, self.adjusted, self.exact))
        equals = "" if t.startswith("<") else "= "
        return f"{self.text}; p {equals}{t} by paired t-test, {holm} after Holm, {exact} exact"


def p_told(p: float) -> str:
    """Return a p-value as tables and findings have it.

    Example:
        >>> p_told(0.0625), p_told(0.0002)
        ('0.062', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


@dataclass(frozen=True)
class Shortfall:
    """A task whose networks reach less than half of the accuracy that the paper prints.

    Attributes:
        task: its name.
        ours: accuracy of the baseline, mean over seeds, in %.
        paper: that of the paper, in %.
    """

    task: str
    ours: float
    paper: float


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds.

    Attributes:
        word: one of ``VERDICTS``.
        findings: what it rests on.
        remark: what to know when reading them, one or more sentences.
        shortfalls: tasks that it rests on although their networks are far from the paper's.
    """

    word: str
    findings: Sequence[Finding] = ()
    remark: str = ""
    shortfalls: Sequence[Shortfall] = ()

    @property
    def told(self) -> str:
        """The word, and where networks are far from the paper's, that.

        Example:
            >>> Verdict("holds", shortfalls=[Shortfall("CIFAR-100", 15.66, 73.5)]).told
            "holds, on networks with less than half of the paper's accuracy"
        """
        return self.word + (f", {FAR}" if self.shortfalls else "")

    @property
    def level(self) -> str:
        """How far networks are from the paper's, with numbers; nothing where they are not far.

        Example:
            >>> Verdict("holds", shortfalls=[Shortfall("CIFAR-100", 15.66, 73.5)]).level
            "on networks with less than half of the paper's accuracy (CIFAR-100: 15.7 of 73.5 %)"
        """
        listed = [f"{each.task}: {each.ours:.1f} of {each.paper:.1f} %" for each in self.shortfalls]
        return f"{FAR} ({'; '.join(listed)})" if listed else ""

    @property
    def groups(self) -> dict[str, list[str]]:
        """The findings in words, by whether they agree with the claim."""
        return {
            title: texts
            for title, agrees in AGREEMENT.items()
            if (texts := [each.told for each in self.findings if each.agrees is agrees])
        }

    @property
    def counts(self) -> str:
        """How many findings agree with the claim, in words; nothing where there are none."""
        found = [f"{len(texts)} {title}" for title, texts in self.groups.items()]
        many = f"{len(self.findings)} finding{'s' if len(self.findings) > 1 else ''}"
        return f"{many}: {', '.join(found)}" if found else ""

    @property
    def significance(self) -> str:
        """How many comparisons are significant after Holm's correction, in a sentence."""
        tested = [each for each in self.findings if each.adjusted is not None]
        found = [each for each in tested if each.adjusted < SIGNIFICANT]  # type: ignore[operator]
        if not tested:
            return ""
        said = (
            f"Of the {len(tested)} comparison{'s' if len(tested) > 1 else ''} that it rests on, "
            f"{len(found) or 'none'} {'are' if len(found) > 1 else 'is'} significant after Holm's "
            f"correction (paired t-test, p < {SIGNIFICANT:g})."
        )
        if not found and (needed := self.seeds_needed):
            said += (
                f" With the measured spread, the clearest of them would need {needed} seeds "
                f"(power {100 * POWER:.0f} %)."
            )
        return said

    @property
    def seeds_needed(self) -> int | None:
        """How many seeds make the clearest comparison significant; None where that is unknown.

        Example:
            >>> Verdict("left open", [Finding("a", None, 0.2, 0.25, 0.4, 5)] * 2).seeds_needed
            23
        """
        pairs = [(each.p, each.pairs) for each in self.findings if each.p and each.pairs]
        if not pairs:
            return None
        alpha = SIGNIFICANT / sum(each.p is not None for each in self.findings)
        return min(seeds_needed(p, count, alpha, POWER) for p, count in pairs)

    @property
    def deciding(self) -> str:
        """The finding that decides the word: the first against the claim, or open, or for it."""
        for agrees in (False, None, True):
            for each in self.findings:
                if each.agrees is agrees:
                    return each.text
        return ""

    @property
    def sentence(self) -> str:
        """All findings and the remark, to be read in one go.

        Example:
            >>> Verdict("holds", [Finding("a is 1", True), Finding("b is 2", None)]).sentence
            'As claimed, a is 1; left open, b is 2.'
        """
        told = "; ".join(f"{title}, {'; '.join(texts)}" for title, texts in self.groups.items())
        findings = f"{told[:1].upper()}{told[1:]}." if told else ""
        return " ".join(part for part in (findings, self.remark) if part)


FAR = "on networks with less than half of the paper's accuracy"
AGREEMENT = {"as claimed": True, "unlike the claim": False, "left open": None}


@dataclass(frozen=True)
class Outcome:
    """Everything that is written about an experiment."""

    verdict: Verdict
    tables: Sequence[ResultTable] = ()
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    setup: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        charts = [chart.as_dict() for chart in self.charts]
        found: dict[str, Any] = plain({**asdict(self), "charts": charts})
        return found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Outcome:
        """Return the outcome of plain values."""
        values = _with_nan(values)
        tables = [
            ResultTable(**{**table, "entries": [_entry(each) for each in table["entries"]]})
            for table in values["tables"]
        ]
        charts = [Chart.from_dict(each) for each in values["charts"]]
        said = values["verdict"]
        said["findings"] = [Finding(**each) for each in said["findings"]]
        said["shortfalls"] = [Shortfall(**each) for each in said.get("shortfalls", ())]
        verdict = Verdict(**said)
        return cls(verdict, tables, charts, values["notes"], values["setup"])


def _entry(values: Mapping[str, Any]) -> Entry:
    comparison, baseline = values["comparison"], values["baseline"]
    if comparison is not None:
        missing = {key: math.nan for key, each in comparison.items() if each is None}
        comparison = Comparison(**{**comparison, **missing})
    baseline = None if baseline is None else tuple(baseline)
    return Entry(**{**values, "comparison": comparison, "baseline": baseline})


def _with_nan(value: Any) -> Any:
    """Return stored values with NaN where a number is missing in a list."""
    if isinstance(value, list):
        return [math.nan if each is None else _with_nan(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_nan(each) for key, each in value.items()}
    return value


def plain(value: Any) -> Any:
    """Return values as JSON has them: NumPy's as Python's, and None for what is not finite.

    Example:
        >>> plain({"a": (1.0, float("inf"), np.float32(0.5))})
        {'a': [1.0, None, 0.5]}
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def rounded(values: Iterable[float]) -> list[float]:
    """Return plain numbers with four decimals, as tables of folds keep them."""
    return [round(float(value), 4) for value in values]
