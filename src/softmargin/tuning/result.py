"""What tuning has found: how every candidate does on held-out rows, and which is best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softmargin._table import markdown_table
from softmargin.calibration._held_out import (
    LARGER_IS_BETTER,
    SCORES,
    cross_fitted,
    one_temperature,
    row_scores,
)
from softmargin.calibration.intervals import normal_quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.95
LABELS = {"nll": "NLL", "brier": "Brier", "accuracy": "accuracy"}
HIGHEST = {"nll": math.inf, "brier": 2.0, "accuracy": 1.0}
GIVEN_UP = "given up"


@dataclass(frozen=True)
class Tuned:
    """One candidate: a β, or a β with a temperature, and how it does on held-out rows.

    Attributes:
        beta: its β.
        temperature: what its logits are divided by, fitted on all held-out rows; None as trained.
        head: its head.
        seeds: how many networks were trained to the end.
        score: mean NLL, Brier score and accuracy; NaN where training diverged. With a
            temperature, those of rows that the temperature was not fitted on.
        error: standard errors of the scores, over rows and seeds.
        difference: scores minus those of β = 1 as trained, on the same rows and seeds.
        difference_error: standard errors of the differences.
    """

    beta: float
    temperature: float | None
    head: str
    seeds: int
    score: Mapping[str, float]
    error: Mapping[str, float]
    difference: Mapping[str, float]
    difference_error: Mapping[str, float]

    @property
    def name(self) -> str:
        """The candidate in words.

        Example:
            >>> Tuned(1.0, 2.5, "linear", 1, {}, {}, {}, {}).name
            'β = 1, temperature'
        """
        parts = [f"β = {self.beta:g}"]
        parts += [self.head] if self.head != "linear" else []
        parts += ["temperature"] if self.temperature is not None else []
        return ", ".join(parts)

    def interval(self, score: str) -> tuple[float, float]:
        """Return the 95 % interval of a score, within what is possible."""
        half = normal_quantile(LEVEL) * self.error[score]
        return max(0.0, self.score[score] - half), min(HIGHEST[score], self.score[score] + half)

    def difference_interval(self, score: str) -> tuple[float, float]:
        """Return the 95 % interval of the difference from β = 1."""
        half = normal_quantile(LEVEL) * self.difference_error[score]
        return self.difference[score] - half, self.difference[score] + half


@dataclass(frozen=True)
class TuningResult:
    """All candidates on the same held-out rows.

    Attributes:
        candidates: values of β as trained, by head, and β = 1 with a temperature.
        scoring: what they are judged by.
        rows: how many held-out rows there are.
        given_up: values of β whose training was stopped early as hopeless.

    Example:
        >>> import torch
        >>> from softmargin import tune_last_layer
        >>> generator = torch.Generator().manual_seed(0)
        >>> target = torch.arange(200) % 2
        >>> features = torch.randn(200, 4, generator=generator) + target[:, None]
        >>> found = tune_last_layer(features, target, [1.0, 10.0], seeds=1, epochs=5)
        >>> [each.name for each in found.candidates]
        ['β = 1', 'β = 10', 'β = 1, temperature']
        >>> found.best_beta in (1.0, 10.0)
        True
    """

    candidates: tuple[Tuned, ...]
    scoring: str
    rows: int
    given_up: tuple[float, ...] = ()

    @property
    def best(self) -> Tuned:
        """The candidate with the best mean score."""
        sign = -1 if self.scoring in LARGER_IS_BETTER else 1

        def value(each: Tuned) -> float:
            found = sign * each.score[self.scoring]
            return math.inf if math.isnan(found) else found

        return min(self.candidates, key=value)

    @property
    def best_beta(self) -> float:
        """The β of the best candidate: 1 where cross-entropy with a temperature is best."""
        return self.best.beta

    @property
    def best_temperature(self) -> float | None:
        """The temperature of the best candidate; None where it does best as trained."""
        return self.best.temperature

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the rows of the table, as text."""
        heads = {each.head for each in self.candidates} - {"linear"}
        headings = ["β", *(["head"] if heads else []), "temperature"]
        headings += [*(_heading(score) for score in SCORES), f"{_heading(self.scoring)} − β = 1"]
        rows = []
        for each in self.candidates:
            mark = " ←" if each is self.best else ""
            fitted = "–" if each.temperature is None else f"{each.temperature:.4g}"
            row = [f"{each.beta:g}{mark}", *([each.head] if heads else []), fitted]
            row += [_shown(score, each.score[score], each.interval(score)) for score in SCORES]
            gap, around = each.difference[self.scoring], each.difference_interval(self.scoring)
            rows.append([*row, "–" if math.isnan(gap) else _shown(self.scoring, gap, around)])
        for beta in self.given_up:
            rows.append([f"{beta:g}", GIVEN_UP, *[""] * (len(headings) - 2)])
        return headings, rows

    def summary(self) -> str:
        """Return a Markdown table of all candidates; ← is the choice."""
        headings, rows = self.cells()
        return markdown_table(headings, rows, "r" * len(headings))

    def sentences(self) -> list[str]:
        """Return what was chosen, and how sure that is."""
        best, plain = self.best, self.candidates[0]
        scaled = next((e for e in self.candidates if e.temperature is not None), None)
        said = [f"Best on held-out rows: {best.name}."]
        if best is plain:
            return [*said, "No other candidate does better than cross-entropy (β = 1)."]
        low, high = best.difference_interval(self.scoring)
        better = high < 0 if self.scoring not in LARGER_IS_BETTER else low > 0
        label = LABELS[self.scoring]
        clear = "clearly better" if better else "not clearly better"
        said.append(f"By {label} it is {clear} than cross-entropy (β = 1).")
        if scaled is not None and best is not scaled:
            gap = best.score[self.scoring] - scaled.score[self.scoring]
            shown = _shown(self.scoring, gap, None)
            said.append(f"{label} minus that of β = 1 with a temperature: {shown}.")
        if best.temperature is not None:
            said.append("A temperature is enough here: train with β = 1 and scale afterwards.")
        return said

    def legend(self) -> str:
        """Return an explanation of the table."""
        seeds = self.candidates[0].seeds
        return (
            f"{self.rows} held-out rows, {seeds} seed{'s' if seeds > 1 else ''}; ← is the choice; "
            f"in brackets: {100 * LEVEL:g} % intervals over rows and seeds, each on its own. The "
            "best of several candidates looks a little better here than it will on new rows."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything that was found, ready for JSON."""
        found = []
        for each in self.candidates:
            scores = {
                score: {
                    "value": _finite(each.score[score]),
                    "error": _finite(each.error[score]),
                    "difference": _finite(each.difference[score]),
                    "difference_error": _finite(each.difference_error[score]),
                }
                for score in SCORES
            }
            own = {"beta": each.beta, "temperature": each.temperature, "head": each.head}
            found.append({**own, "seeds": each.seeds, **scores})
        return {
            "scoring": self.scoring,
            "rows": self.rows,
            "best_beta": self.best_beta,
            "best_temperature": self.best_temperature,
            "candidates": found,
            "given_up": list(self.given_up),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the score of every β with its interval, and that of β = 1 with a temperature."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        score = self.scoring
        for head in dict.fromkeys(each.head for each in self.candidates):
            own = [e for e in self.candidates if e.head == head and e.temperature is None]
            own.sort(key=lambda each: each.beta)
            half = [normal_quantile(LEVEL) * each.error[score] for each in own]
            betas, values = [each.beta for each in own], [each.score[score] for each in own]
            label = "as trained" if head == "linear" else head
            ax.errorbar(betas, values, half, marker="o", capsize=3, label=label)
        for each in self.candidates:
            if each.temperature is not None:
                ax.axhline(each.score[score], linestyle="--", color="grey", label=each.name)
        ax.set_xscale("log")
        ax.set_xlabel("β")
        ax.set_ylabel(f"{LABELS[score]} on held-out rows")
        ax.legend()
        return ax

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        headings, rows = self.cells()
        head = "".join(f"<th>{escape(each)}</th>" for each in headings)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        )
        title = f'<caption style="text-align:left">{escape(" ".join(self.sentences()))}</caption>'
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __repr__(self) -> str:
        """Return the table and the choice."""
        return "\n".join([self.summary(), *self.sentences()])


def judged(
    trained: Mapping[tuple[float, str], Tensor],
    y: Tensor,
    fold_of: Tensor,
    *,
    scoring: str,
    temperature: bool,
    given_up: Sequence[float] = (),
) -> TuningResult:
    """Return how candidates do on held-out rows.

    Args:
        trained: logits (seeds, N, C) by β and head; the first is the reference, of β = 1.
        y: classes (N,).
        fold_of: the fold of every row, for temperatures that are fitted on the other folds.
        scoring: what candidates are judged by.
        temperature: whether to try β = 1 with a temperature, too.
        given_up: values of β that were not trained to the end.
    """
    exact = {key: logits.double() for key, logits in trained.items()}
    if not any(bool(logits.isfinite().all()) for logits in exact.values()):
        raise ValueError("train must give finite logits for one β at least, but all diverged.")
    first = next(iter(exact.values()))
    reference = _scores(first, y)
    found = [
        _candidate(beta, None, head, _scores(logits, y), reference)
        for (beta, head), logits in exact.items()
    ]
    if temperature:
        for (beta, head), logits in exact.items():
            if beta == 1 and bool(logits.isfinite().all()):
                rows = _scores(cross_fitted(logits, y, fold_of), y)
                fitted = one_temperature(logits, y)
                found.append(_candidate(beta, fitted, head, rows, reference))
    return TuningResult(tuple(found), scoring, len(y), tuple(given_up))


def _scores(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return the scores of every row and seed, NaN for candidates that diverged."""
    found = row_scores(logits, y)
    if bool(logits.isfinite().all()):
        return found
    return {score: torch.full_like(values, math.nan) for score, values in found.items()}


def _candidate(
    beta: float,
    temperature: float | None,
    head: str,
    rows: Mapping[str, Tensor],
    reference: Mapping[str, Tensor],
) -> Tuned:
    gaps = {score: rows[score] - reference[score] for score in SCORES}
    seeds = len(rows[SCORES[0]])
    measured = {score: _mean_and_error(rows[score]) for score in SCORES}
    compared = {score: _mean_and_error(gaps[score]) for score in SCORES}
    columns = [
        {score: pair[place] for score, pair in each.items()}
        for each in (measured, compared)
        for place in (0, 1)
    ]
    return Tuned(beta, temperature, head, seeds, *columns)


def _mean_and_error(values: Tensor) -> tuple[float, float]:
    """Return the mean of values (seeds, N) and its standard error over rows and seeds."""
    seeds, rows = values.shape
    variance = values.mean(0).var() / rows
    if seeds > 1:
        variance = variance + values.mean(1).var() / seeds
    return float(values.mean()), math.sqrt(float(torch.nan_to_num(variance, nan=math.inf)))


def _heading(score: str) -> str:
    return f"{LABELS[score]}, %" if score in LARGER_IS_BETTER else LABELS[score]


def _shown(score: str, value: float, interval: tuple[float, float] | None) -> str:
    """Return a score as text, accuracy in percent."""
    if math.isnan(value):
        return "diverged"
    factor, digits = (100, 2) if score in LARGER_IS_BETTER else (1, 4)
    text = f"{factor * value:.{digits}f}"
    if interval is None:
        return text
    low, high = (f"{factor * bound:.{digits}f}" for bound in interval)
    return f"{text} [{low}, {high}]"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
