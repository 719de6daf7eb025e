"""From numbers to a verdict, by rules fixed before the runs were made.

A claim is cut into findings. Each is about a direction: which of two values is the larger. At desk
scale, with other networks and fewer images, nothing else can be judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from softmargin.papers.experiment import Setting
from softmargin.papers.findings import Finding, Floats, direction, interval, shown
from softmargin.papers.findings import verdict as verdict_of
from softmargin.papers.images.runs import Runs, Score, against
from softmargin.papers.images.tasks import Task
from softmargin.papers.outcome import Verdict

__all__ = ["RULE", "Finding", "course", "lies", "of_score", "verdict"]

RULE = (
    "One value is called above or below another where the 95 % bootstrap interval of the paired "
    "difference over seeds leaves out 0, which for three seeds means that all three differences "
    "have one sign; otherwise the finding is left open. The claim holds if all findings agree "
    "with it, holds in part if some do, does not hold if none does, and is left open if all are."
)


def verdict(setting: Setting, findings: Sequence[Finding]) -> Verdict:
    """Return what the findings say together; at desk scale, about directions alone."""
    found = verdict_of(setting.scale, findings)
    if setting.scale != "desk":
        return found
    return replace(found, sentence=f"Of directions at this scale only. {found.sentence}")


def lies(
    what: str, values: Mapping[str, Floats], names: tuple[str, str], sign: int, digits: int = 2
) -> Finding:
    """Find whether the first lies above (sign 1) or below (-1) the second beyond the spread."""
    a, b = names
    comparison = against(values[a], values[b])
    if comparison is None:
        return Finding(f"{what} of {a} and {b} cannot be compared", None)
    text = (
        f"{what} is {shown(values[a], digits)} for {a} against {shown(values[b], digits)} for {b} "
        f"({interval(comparison, digits)})"
    )
    clear = direction(comparison)
    return Finding(text, None if clear == 0 else clear == sign)


def of_score(runs: Runs, score: Score, task: Task, names: tuple[str, str], sign: int) -> Finding:
    """Find whether one method's score lies above or below another's on a task."""
    values = {name: score.of(runs, task, name) for name in names}
    unit = f" in {score.unit}" if score.unit else ""
    what = f"on {task.name}, {_lower(score.title)}{unit}"
    return lies(what, values, names, sign, score.digits)


def course(what: str, values: Mapping[str, Floats], sign: int, digits: int) -> Finding:
    """Find whether means never move against a direction from each name to the next."""
    means = [float(own.mean()) for own in values.values()]
    listed = ", ".join(f"{mean:.{digits}f}" for mean in means)
    text = f"the mean {what} goes {listed} along {', '.join(values)}"
    return Finding(text, bool((sign * np.diff(means) >= 0).all()))


def _lower(title: str) -> str:
    return title if title.isupper() else title[0].lower() + title[1:]
