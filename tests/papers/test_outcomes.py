"""Every experiment concludes from made-up results what it always did, number by number.

``golden/keys.json`` has the keys of all cells at all scales: a key that changes means training
again. ``golden/<id>.json`` has what the experiment concludes from the results that
:mod:`made_up_cells` makes: at desk scale all numbers, at paper scale the means and the paper's
numbers. Wording is stored under ``told`` for people and is not compared.

Where a change is meant, write the files again, all of them or those of some ids, and look at the
difference::

    PYTHONPATH=src python tests/papers/test_outcomes.py [ID ...]
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import made_up_cells
import pytest
from one_of_each import one_of_each_paper

from softmargin.papers.core import SCALES, experiments
from softmargin.papers.outcome import Entry, Outcome

GOLDEN = Path(__file__).parent / "golden"
DIGITS = 9
LONGEST = 12  # values of a series that are stored one by one; longer ones as sums
CLOSE = {"rel_tol": 1e-8, "abs_tol": 1e-12}
IDS = list(experiments())


@pytest.mark.parametrize("scale", SCALES)
def test_cells_have_the_keys_they_always_had(scale):
    assert keys(scale) == json.loads((GOLDEN / "keys.json").read_text())[scale]


@pytest.mark.parametrize("name", list(one_of_each_paper(IDS)))
def test_tables_charts_and_setup_are_the_same(name):
    golden, found = stored(name), facts(name)
    compared = ("tables", "charts", "setup", "paper")
    wrong = [each for part in compared for each in differences(golden[part], found[part], part)]
    assert wrong[:20] == []


@pytest.mark.parametrize("name", list(one_of_each_paper(IDS)))
def test_verdicts_are_the_same(name):
    golden, found = stored(name)["verdict"], facts(name)["verdict"]
    for scale, expected in golden.items():
        assert found[scale]["word"] == expected["word"]
        if None not in (found[scale]["findings"], expected["findings"]):
            assert found[scale]["findings"] == expected["findings"]


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ([[1.0, 2.0], "a", None], []),
        ([[1.0], "a", None], ["x/0"]),
        ([[1.0, 2.0 + 1e-6], "b", 0], ["x/0/1", "x/1", "x/2"]),
        ({"a": 1}, ["x"]),
    ],
)
def test_a_changed_number_is_found(changed, where):
    found = differences([[1.0, 2.0 + 2e-9], "a", None], changed, "x")
    assert [each.partition(":")[0] for each in found] == where


def test_a_changed_number_in_a_long_series_is_found():
    long = [0.01 * place for place in range(50)]
    swapped = [*long[:20], long[21], long[20], *long[22:]]
    assert list(differences(summed(long), summed(list(long)), "x")) == []
    assert list(differences(summed(long), summed([*long[:-5], 1.0, *long[-4:]]), "x")) != []
    assert list(differences(summed(long), summed(swapped), "x")) != []


# --- what is compared


def keys(scale: str) -> dict[str, list[str]]:
    """Return the keys of all cells of every experiment, in an order of their own."""
    return {
        name: sorted(cell.key for cell in each.cells(each.scope(scale)))
        for name, each in experiments().items()
    }


@cache
def facts(name: str) -> dict[str, Any]:
    """Return everything that is stored of an experiment, as plain values."""
    desk, paper = concluded(name, "desk"), concluded(name, "paper")
    return {
        "verdict": {"desk": judged(desk), "paper": judged(paper)},
        "setup": dict(desk.setup),
        "tables": [
            {
                "unit": table.unit,
                "digits": table.digits,
                "better": table.better,
                "entries": [entry_facts(entry) for entry in table.entries],
            }
            for table in desk.tables
        ],
        "charts": [
            {
                "name": chart.name,
                "kind": chart.kind,
                "log": [chart.log_x, chart.log_y],
                "categories": list(chart.categories),
                "extra": plain(dict(chart.extra)),
                "series": [
                    {
                        "name": each.name,
                        "beta": each.beta,
                        "dashed": each.dashed,
                        **{
                            axis: summed(getattr(each, axis))
                            for axis in ("x", "y", "low", "high", "size")
                            if len(getattr(each, axis))
                        },
                    }
                    for each in chart.series
                ],
            }
            for chart in desk.charts
        ],
        "paper": [
            [
                [entry.row, entry.column, *plain([entry.mean, entry.paper, entry.paper_sd])]
                for entry in table.entries
            ]
            for table in paper.tables
        ],
        "told": {
            "verdict": getattr(desk.verdict, "sentence", ""),
            "tables": [[table.title, table.note] for table in desk.tables],
            "charts": [[chart.title, chart.note] for chart in desk.charts],
            "notes": list(desk.notes),
        },
    }


def concluded(name: str, scale: str) -> Outcome:
    """Return what an experiment concludes from made-up results."""
    experiment = experiments()[name]
    setting = experiment.scope(scale)
    return experiment.conclude(setting, made_up_cells.finished(experiment.cells(setting)))


def judged(outcome: Outcome) -> dict[str, Any]:
    """Return the verdict's word and what each finding says, where a verdict has findings."""
    findings = getattr(outcome.verdict, "findings", None)
    agree = None if findings is None else [each.agrees for each in findings]
    return {"word": outcome.verdict.word, "findings": agree}


def entry_facts(entry: Entry) -> list[Any]:
    """Return row, column, values, the paper's mean and sd, the comparison, and adjusted p."""
    found, comparison = entry.comparison, None
    if found is not None:
        comparison = [found.difference, found.low, found.high, found.p, found.n]
    numbers = [list(entry.values), entry.paper, entry.paper_sd, comparison, entry.adjusted]
    return [entry.row, entry.column, *plain(numbers)]


def summed(values: Sequence[float | None]) -> Any:
    """Return values, or what any change of one of many values changes."""
    if len(values) <= LONGEST:
        return plain(list(values))
    numbers = [math.nan if value is None else float(value) for value in values]
    there = [(place, value) for place, value in enumerate(numbers) if math.isfinite(value)]
    ends = [numbers[0], min(v for _, v in there), max(v for _, v in there), numbers[-1]]
    sums = [sum(v for _, v in there), sum(math.cos(place) * v for place, v in there)]
    return plain({"count": len(numbers), "finite": len(there), "ends": ends, "sums": sums})


def plain(value: Any) -> Any:
    """Return nested values with floats at the digits that are stored; what is not finite, None."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def differences(expected: Any, found: Any, where: str) -> Iterator[str]:
    """Yield where nested values differ, numbers by more than rounding."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for key in expected:
            yield from differences(expected[key], found[key], f"{where}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for place, pair in enumerate(zip(expected, found, strict=True)):
            yield from differences(*pair, f"{where}/{place}")
    elif _is_number(expected) and _is_number(found):
        if not math.isclose(expected, found, **CLOSE):
            yield f"{where}: {expected!r} is now {found!r}"
    elif expected != found:
        yield f"{where}: {expected!r} is now {found!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# --- the files


@cache
def stored(name: str) -> dict[str, Any]:
    """Return what a file has of an experiment."""
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return found


def write(names: Sequence[str]) -> None:
    """Write the files of some experiments; findings stay where verdicts do not have them."""
    GOLDEN.mkdir(exist_ok=True)
    keys_of = {scale: keys(scale) for scale in SCALES}
    (GOLDEN / "keys.json").write_text(json.dumps(keys_of, indent=1) + "\n")
    for name in names:
        found = json.loads(json.dumps(facts(name)))
        path = GOLDEN / f"{name}.json"
        if path.exists():
            for scale, own in found["verdict"].items():
                own["findings"] = own["findings"] or stored(name)["verdict"][scale]["findings"]
        path.write_text(_by_lines(found) + "\n", encoding="utf-8")


def _by_lines(value: Any, indent: str = "\n") -> str:
    """Return JSON in which short values take one line each, so that differences can be read."""
    flat = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(value, (dict, list)) or len(flat) < 300 or _is_numbers(value):
        return flat
    deeper = f"{indent} "
    if isinstance(value, list):
        return f"[{deeper}{f',{deeper}'.join(_by_lines(each, deeper) for each in value)}{indent}]"
    parts = [f"{json.dumps(key)}:{_by_lines(each, deeper)}" for key, each in value.items()]
    return f"{{{deeper}{f',{deeper}'.join(parts)}{indent}}}"


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(each, (dict, list)) for each in value)


if __name__ == "__main__":
    write(sys.argv[1:] or IDS)
