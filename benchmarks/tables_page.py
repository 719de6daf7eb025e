"""The page of ``python -m benchmarks.tables``, from its scores alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.tables import (
    BOOSTING,
    FOLDS,
    LINEAR,
    MOST_ROWS,
    NESTED,
    NETWORKS,
    OURS,
    REPEATS,
    TABLES,
)
from softmargin._files import write_file
from softmargin._table import markdown_table

RIVALS = (*NETWORKS.values(), LINEAR, BOOSTING)
SEARCHED = NETWORKS["temperature"]  # the rival whose time is compared
Scores = dict[tuple[str, str], dict[int, tuple[float, float, float]]]

INTRODUCTION = """# MarginClassifierCV beside scikit-learn's classifiers

`MarginClassifierCV` as it is by default, on tables of the UCI repository, scikit-learn's digits,
and features of MNIST (the 64 hidden units of a network that was trained on 20,000 other images, of
2,000 test images), beside the classifiers below. Of tables with more than {most} rows, {most} are
drawn class by class, since the search over networks one by one takes long.

- **MLPs, sigmoid** and **MLPs, temperature**: `GridSearchCV` over `MLPClassifier` with 64 units, at
  most 100 epochs and 12 settings (4 of `alpha` × 3 of the learning rate), then
  `CalibratedClassifierCV` of the settings found. Ours has 12 settings, too: 4 β × 3 weight decays;
- **LogisticRegressionCV** by NLL, on standardised columns;
- **HistGradientBoosting** as it is by default, for the record.

All choose on the training rows alone, by five folds. The splits are {repeats} × {folds}-fold
cross-validation, stratified, the same for all. Everything runs on one thread, and seconds are those
of the processor.
"""
CAUTION = """With few splits and small tables the intervals are wide: within the interval means that
these rows cannot tell the two apart, not that they are equal. Of many intervals of 95 % a few leave
out 0 by chance. `CalibratedClassifierCV` averages five networks where ours is one. Large
tables were cut for want of time. That was decided by the clock, but one split of mnist_features
with all rows had been seen in a trial.
"""
WRITTEN = """Written by `python -m benchmarks.tables page` from `scores.csv`, one line per split and
classifier, and `speed.json`.
"""


def write_page(lines: Sequence[dict[str, str]], path: Path) -> None:
    """Write the page over all tables that have every classifier."""
    scores = _scores(lines)
    names = [name for name in TABLES if _shared(scores, name)]
    parts = [
        INTRODUCTION.format(repeats=REPEATS, folds=FOLDS, most=MOST_ROWS),
        _words(scores, names),
        _table(scores, names),
        _times(scores, names),
        _nested(scores),
        _speed(path.parent / "speed.json"),
        WRITTEN,
    ]
    write_file(path, "\n".join(part for part in parts if part))


def _scores(lines: Sequence[dict[str, str]]) -> Scores:
    found: Scores = {}
    for line in lines:
        values = float(line["nll"]), float(line["accuracy"]), float(line["seconds"])
        found.setdefault((line["table"], line["classifier"]), {})[int(line["split"])] = values
    return found


def _shared(scores: Scores, name: str) -> list[int]:
    """Return the splits that every classifier was fitted on: whole repetitions only."""
    own = [set(scores.get((name, each), ())) for each in (OURS, *RIVALS)]
    every = set.intersection(*own)
    repeats = [range(FOLDS * r, FOLDS * (r + 1)) for r in range(REPEATS)]
    return [split for repeat in repeats if every.issuperset(repeat) for split in repeat]


def _column(scores: Scores, name: str, classifier: str, place: int) -> Any:
    return np.array([scores[name, classifier][split][place] for split in _shared(scores, name)])


def difference(gaps: Any, folds: int = FOLDS) -> tuple[float, float]:
    """Return a mean over repeated folds and half its 95 % interval (corrected resampled t)."""
    share = 1 / (folds - 1)  # test rows per training row
    spread = np.sqrt((1 / len(gaps) + share) * gaps.var(ddof=1))
    return float(gaps.mean()), float(stats.t.ppf(0.975, len(gaps) - 1) * spread)


def _gap(scores: Scores, name: str, rival: str) -> tuple[float, float]:
    return difference(_column(scores, name, OURS, 0) - _column(scores, name, rival, 0))


def _word(gap: float, half: float) -> str:
    if abs(gap) <= half:
        return "open"
    return "lower" if gap < 0 else "higher"


def _words(scores: Scores, names: Sequence[str]) -> str:
    lines = ["## What came out", ""]
    missing = [name for name in TABLES if name not in names]
    if missing:
        lines += [f"Not run to the end yet, and left out: {', '.join(missing)}.", ""]
    for rival in RIVALS:
        gaps = {name: _gap(scores, name, rival) for name in names}
        words = {name: _word(*gap) for name, gap in gaps.items()}
        count = Counter(words.values())
        line = (
            f"- against **{rival}**: lower NLL on {count['lower']} of {len(names)} tables, higher "
            f"on {count['higher']}, within the interval on {count['open']}; mean difference "
            f"{np.mean([gap for gap, _ in gaps.values()]):+.3f} nats"
        )
        worse = [name for name, word in words.items() if word == "higher"]
        lines.append(line + (f". Higher on {', '.join(worse)}." if worse else "."))
    return "\n".join([*lines, "", CAUTION])


def _table(scores: Scores, names: Sequence[str]) -> str:
    rows = []
    for name in names:
        nll = {each: _column(scores, name, each, 0).mean() for each in (OURS, *RIVALS)}
        row = [name, str(len(_shared(scores, name))), f"{nll[OURS]:.3f}"]
        for rival in RIVALS:
            gap, half = _gap(scores, name, rival)
            mark = "**" if _word(gap, half) != "open" else ""
            row.append(f"{nll[rival]:.3f} ({mark}{gap:+.3f} ± {half:.3f}{mark})")
        rows.append(row)
    headings = ["table", "splits", OURS, *RIVALS]
    return f"""## Held-out NLL

{markdown_table(headings, rows, "lrrrrrr")}

Means over splits; in brackets ours less the rival's, with its 95 % interval (paired by split,
corrected for overlapping training rows), bold where it leaves out 0. Below 0 ours is better.
"""


def _times(scores: Scores, names: Sequence[str]) -> str:
    rows, ratios = [], []
    for name in names:
        seconds = {each: _column(scores, name, each, 2).mean() for each in (OURS, *RIVALS)}
        right = {each: _column(scores, name, each, 1).mean() for each in (OURS, *RIVALS)}
        ratios.append(seconds[SEARCHED] / seconds[OURS])
        cells = [f"{seconds[each]:.2f} ({100 * right[each]:.1f})" for each in (OURS, *RIVALS)]
        rows.append([name, *cells, f"{ratios[-1]:.1f}"])
    told = (
        f"{np.median(ratios):.1f} (from {min(ratios):.1f} to {max(ratios):.1f})" if ratios else ""
    )
    many = sum(ratio >= 10 for ratio in ratios)
    headings = ["table", OURS, *RIVALS, "MLPs over ours"]
    return f"""## Seconds, and accuracy

By the median over tables, the search over MLPs and its calibration takes
{told} times as long as ours; ten times or more on {many} of {len(ratios)}.
It trains 66 networks, 5 for each of 12 settings, one with the best, and 5 for calibration; ours
trains 61, and compares each after ten numbers of epochs.

{markdown_table(headings, rows, "lrrrrrr")}

Seconds of the processor for one fit, and accuracy in % in brackets; means over splits.
"""


def _nested(scores: Scores) -> str:
    """Return how long it takes to search inside every fold of the calibration."""
    timed = [name for name in TABLES if (name, NESTED) in scores and 0 in scores[name, OURS]]
    if not timed:
        return ""
    ratios = [scores[name, NESTED][0][2] / scores[name, OURS][0][2] for name in timed]
    each = ", ".join(f"{name} {ratio:.1f}" for name, ratio in zip(timed, ratios, strict=True))
    return f"""`CalibratedClassifierCV(GridSearchCV(MLPClassifier))`, which searches anew in every
fold of the calibration so that no row is used twice, trains 305 networks. On the first split it
takes so many times as long as ours: {each}.
"""


def _speed(path: Path) -> str:
    if not path.exists():
        return ""
    rows = []
    for name, found in json.loads(path.read_text(encoding="utf-8")).items():
        for peer, own in found["peers"].items():
            ours, theirs = own["ours"], own["theirs"]
            gap, half = difference(np.subtract(ours["nll"], theirs["nll"]), len(ours["nll"]))
            rows.append(
                [
                    name,
                    peer,
                    f"{found['seconds']:.1f}",
                    f"{own['seconds']:.0f}",
                    f"{own['ratio']:.1f}",
                    f"{ours['beta']:g} ({np.mean(ours['nll']):.4f})",
                    f"{theirs['beta']:g} ({np.mean(theirs['nll']):.4f})",
                    f"{gap:+.4f} ± {half:.4f}",
                ]
            )
    headings = ["table", "peer", "ours, s", "peer, s", "ratio", "our β (NLL)", "its β (NLL)", "gap"]
    return f"""## The same networks one by one

One search over 8 β × 10 folds × 3 seeds, with ten numbers of epochs and a temperature each, against
`GridSearchCV` over the same networks one after the other, for β alone. The peer was timed for one
seed, and its time taken times three. Here both choose β after the last epoch and without a
temperature, by NLL on the same folds; ours by three seeds, the peer by one. The gap is ours less
the peer's, with its 95 % interval. `MarginClassifier` takes its steps by the same kernel as ours,
which makes it several times as fast as the plain loop in PyTorch, also for one network at a time.

{markdown_table(headings, rows, "llrrrrrr")}
"""
