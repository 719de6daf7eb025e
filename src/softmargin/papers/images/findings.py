"""Findings about one score of two methods on a task."""

from __future__ import annotations

from collections.abc import Sequence

from softmargin.papers import findings
from softmargin.papers.core import Scope
from softmargin.papers.findings import RULE, compare, monotone
from softmargin.papers.images.runs import Runs, Score
from softmargin.papers.images.tasks import Task
from softmargin.papers.outcome import Finding, Verdict

__all__ = ["RULE", "Finding", "compare", "monotone", "of_score", "verdict"]

DIRECTIONS = "At this scale only the direction of an effect can be judged."


def verdict(setting: Scope, found: Sequence[Finding]) -> Verdict:
    """Return what the findings say together; at desk scale, about directions alone."""
    remark = DIRECTIONS if setting.scale == "desk" else ""
    return findings.verdict(setting.scale, found, remark)


def of_score(runs: Runs, score: Score, task: Task, names: tuple[str, str], sign: int) -> Finding:
    """Find whether one method's score lies above or below another's on a task."""
    values = {name: score.of(runs, task, name) for name in names}
    unit = f" in {score.unit}" if score.unit else ""
    what = f"on {task.name}, {_lower(score.title)}{unit}"
    return compare(what, values, names, sign, score.digits)


def _lower(title: str) -> str:
    return title if title.isupper() else title[0].lower() + title[1:]
