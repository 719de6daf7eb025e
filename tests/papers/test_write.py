"""Results as files: complete, readable back, the same bytes again."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("altair")
pytest.importorskip("scipy")

from softmargin.charts import Chart, Series
from softmargin.papers import write
from softmargin.papers.core import Cell, Experiment
from softmargin.papers.outcome import Entry, Finding, Outcome, ResultTable, Verdict
from softmargin.papers.pages import result_page
from softmargin.papers.statistics import Comparison
from softmargin.papers.write import dumps, read_result, write_index, write_result

VERSIONS = {"softmargin": "0.1.0", "torch": "2.0", "numpy": "2.0", "python": "3.12"}
BETTER = Comparison(1.5, 0.9, 2.1, 0.0004, 2, "paired bootstrap")
UNSURE = Comparison(-0.1, -0.8, 0.6, 0.5, 2, "paired bootstrap")
TABLE = ResultTable(
    "Test accuracy",
    "%",
    [
        Entry("iris", "β = 1", (95.0, 96.0), paper=95.1),
        Entry("iris", "β = 5", (96.5, 97.5), 97.0, 0.25, BETTER, adjusted=0.0008),
        Entry("wine | red", "β = 1", (90.0, 91.0), paper=90.0),
        Entry("wine | red", "β = 5", (90.0, 90.8), None, None, UNSURE, adjusted=0.5),
        Entry("sonar", "β = 1", (math.nan, 80.0), paper=81.25),
    ],
    row_heading="data set",
    better="higher",
    note="Two made-up seeds.",
)
CURVE = Series("β = 5", [1, 2, 3], [0.5, math.nan, 0.7], [0.4, math.nan, 0.6], beta=5.0)
CHART = Chart("by-epoch", "Accuracy [%]", "line", "epoch", "share", [replace(CURVE, low=())])
OUTCOME = Outcome(
    Verdict(
        "holds in part",
        [Finding("β = 5 wins on iris", True), Finding("the two are level on wine", None)],
        "Two seeds say little.",
    ),
    [TABLE],
    [replace(CHART, note="2 seeds.")],
    ["Nothing was tuned."],
    {"data": "three small tables", "network": "4-10-3"},
)


def cells(setting):
    return [
        Cell("nothing", {"epochs": 3, "rates": (0.1, 0.01), "seed": seed}, f"seed {seed}")
        for seed in setting.seeds
    ]


def made_up(name="gd-tab9", paper="GD", **rest):
    given = {
        "title": "accuracy by β",
        "where": "Table 9",
        "claim": "A large β helps everywhere.",
        "cells": cells,
        "conclude": lambda setting, finished: OUTCOME,
        "deviations": {"desk": "3 epochs instead of 100"},
        **rest,
    }
    return Experiment(name, paper=paper, **given)


def written(folder, outcome=OUTCOME, experiment=None, **facts):
    experiment = experiment or made_up()
    write_result(experiment, experiment.scope("desk", 2), outcome, folder, facts)
    return folder


PAGE = """\
# gd-tab9: accuracy by β

**The paper's claim holds in part:** A large β helps everywhere. (2 findings: 1 as claimed, \
1 left open.)

**The deciding number.** The two are level on wine.

Two seeds say little.

Table 9 of GD, Siyuan Zhang, Linbo Xie, Ying Chen: Probability-Dependent Gradient Decay in Large \
Margin Softmax, 2022, second version 2023. <https://arxiv.org/abs/2210.17145>

<details>
<summary>All 2 findings</summary>

As claimed:

- β = 5 wins on iris.

Left open:

- The two are level on wine.

</details>

<details>
<summary>Notes on how it is judged and measured</summary>

- Nothing was tuned.

</details>

## Numbers

### Test accuracy, %

| data set | β = 1 | β = 5 |
| :-- | --: | --: |
| iris | 95.50 ± 0.71 (paper 95.1) | 97.00 ± 0.71 † (paper 97.0 ± 0.25) |
| wine \\| red | 90.50 ± 0.71 (paper 90.0) | 90.40 ± 0.57 |
| sonar | – (paper 81.25) | – |

Mean ± standard deviation of 2 values. Higher is better. † differs from the baseline, p < 0.05 \
after Holm's correction. Two made-up seeds.

|  |  | n | mean [95 %] | paper | ours − paper | ours − baseline [interval] | p | p, Holm |
| :-- | :-- | --: | --: | --: | --: | --: | --: | --: |
| iris | β = 1 | 2 | 95.50 [89.15, 101.85] | 95.1 | 0.40 | – | – | – |
| iris | β = 5 | 2 | 97.00 [90.65, 103.35] | 97.0 | 0.00 | 1.50 [0.90, 2.10] | < 0.001 | < 0.001 † |
| wine \\| red | β = 1 | 2 | 90.50 [84.15, 96.85] | 90.0 | 0.50 | – | – | – |
| wine \\| red | β = 5 | 2 | 90.40 [85.32, 95.48] | – | – | -0.10 [-0.80, 0.60] | 0.500 | 0.500 |

Interval of a mean: Student's t over seeds. Difference from the baseline: paired bootstrap.

## Figures

![Accuracy (%). 2 seeds.](by-epoch.svg)

## Setup

|  |  |
| :-- | :-- |
| scale | desk: sized for two cores |
| seeds | 2 (0, 1) |
| data | three small tables |
| network | 4-10-3 |
| differs from the paper's recipe | 3 epochs instead of 100 |

## Run it again

```sh
softmargin reproduce run gd-tab9 --scale desk --seeds 2
```

Made with softmargin 0.1.0, torch 2.0, numpy 2.0, python 3.12. seconds: 7. Every number and the \
configuration of every cell are in [numbers.json](numbers.json).
"""


def test_page_is_word_for_word_as_it_should_be(tmp_path):
    meta, outcome = read_result(written(tmp_path, seconds="7"))
    assert result_page({**meta, "versions": VERSIONS}, outcome) == PAGE
    assert result_page(meta, outcome) == (tmp_path / "README.md").read_text(encoding="utf-8")


def test_folder_holds_numbers_page_and_figures_and_nothing_else(tmp_path):
    folder = written(tmp_path / "results" / "gd-tab9")
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "by-epoch.svg",
        "numbers.json",
    }
    assert (folder / "by-epoch.svg").read_text(encoding="utf-8").startswith("<svg")


def test_numbers_are_strict_json_with_all_that_was_run(tmp_path):
    def refuse(word):
        raise AssertionError(word)

    text = (written(tmp_path) / "numbers.json").read_text(encoding="utf-8")
    values = json.loads(text, parse_constant=refuse)
    assert values["format"] == 2
    assert (values["id"], values["scale"], values["seeds"]) == ("gd-tab9", "desk", [0, 1])
    assert set(values["versions"]) == set(VERSIONS)
    assert values["tables"][0]["entries"][4]["values"] == [None, 80.0]
    assert values["charts"][0]["series"][0]["y"] == [0.5, None, 0.7]
    assert values["configuration"]["common"] == {"epochs": 3, "rates": [0.1, 0.01]}
    found = values["configuration"]["cells"]
    assert [each["config"] for each in found] == [{"seed": 0}, {"seed": 1}]
    assert [each["key"] for each in found] == [c.key for c in cells(made_up().scope("desk", 2))]
    assert not re.search(r"20\d\d-\d\d-\d\d", text)
    assert max(map(len, text.splitlines())) < 200


def test_what_is_read_is_what_was_written(tmp_path):
    meta, outcome = read_result(written(tmp_path, host="desk"))
    assert dumps(outcome.as_dict()) == dumps(OUTCOME.as_dict())
    assert math.isnan(outcome.tables[0].entries[4].values[0])
    assert math.isnan(outcome.charts[0].series[0].y[1])
    assert outcome.tables[0].entries[1].comparison == BETTER
    assert meta["facts"] == {"host": "desk"}
    assert meta["deviations"] == "3 epochs instead of 100"
    assert "format" not in meta
    assert "charts" not in meta


def test_same_run_writes_same_bytes(tmp_path):
    first, second = written(tmp_path / "a"), written(tmp_path / "b")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


def test_figures_of_an_earlier_run_are_removed_and_other_files_stay(tmp_path):
    written(tmp_path)
    (tmp_path / "mine.svg").write_text("mine")
    written(tmp_path, replace(OUTCOME, charts=[replace(CHART, name="other")]))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"README.md", "numbers.json", "mine.svg", "other.svg"}


def test_an_interrupted_write_leaves_the_old_result_whole(tmp_path, monkeypatch):
    written(tmp_path)
    before = (tmp_path / "numbers.json").read_bytes()

    def full(chart, beside):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write, "svg", full)
    with pytest.raises(OSError, match="No space left"):
        written(tmp_path, replace(OUTCOME, notes=["new"]))
    assert (tmp_path / "numbers.json").read_bytes() == before
    assert read_result(tmp_path)[1].notes == ["Nothing was tuned."]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "results must be folders with a readable numbers.json"),
        ("", "numbers.json' is damaged: .*; restore it, or delete it and run its id again"),
        ("{", "numbers.json' is damaged: .*; restore it, or delete it and run its id again"),
        ("[]", "numbers.json' is damaged: .*; restore it, or delete it and run its id again"),
        ('{"id": "gd-tab1"}', "results must be of format 2, but got format None"),
        ('{"format": 1}', "results must be of format 2, but got format 1 .* another version"),
        ('{"format": 2}', "results must be whole, .* 'id' is missing"),
        ('{"format": 2, "tables": [3], "charts": []}', "results must be whole"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path, content, words):
    if content is not None:
        (tmp_path / "numbers.json").write_text(content)
    with pytest.raises(ValueError, match=words) as caught:
        read_result(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../up", "a b", "", ".hidden", "A"])
def test_chart_names_must_be_file_names(tmp_path, name):
    with pytest.raises(ValueError, match="charts must have names"):
        written(tmp_path / "new", replace(OUTCOME, charts=[replace(CHART, name=name)]))
    with pytest.raises(ValueError, match="charts must have names"):
        written(tmp_path / "new", replace(OUTCOME, charts=[CHART, CHART]))
    assert not (tmp_path / "new").exists()


def test_two_entries_in_one_place_are_refused(tmp_path):
    doubled = replace(TABLE, entries=[*TABLE.entries, TABLE.entries[0]])
    with pytest.raises(ValueError, match="entries of table 'Test accuracy' must have one place"):
        written(tmp_path, replace(OUTCOME, tables=[doubled]))


def test_wide_tables_have_the_papers_values_apart(tmp_path):
    entries = [Entry("iris", f"method {i}", (90.0 + i,), paper=91.0 + i) for i in range(8)]
    table = ResultTable("Accuracy", "%", entries, digits=1)
    page = (written(tmp_path, Outcome(OUTCOME.verdict, [table])) / "README.md").read_text()
    ours, papers = page.split("The paper's:")
    assert "| iris | 90.0 | 91.0 | 92.0 |" in ours
    assert "| iris | 91.0 | 92.0 | 93.0 |" in papers
    assert "(paper" not in page
    assert "Mean ±" not in page  # one value each has no spread


def test_many_intervals_are_folded_away(tmp_path):
    entries = [Entry(f"set {i}", "a", (1.0, 2.0, 3.0)) for i in range(12)]
    outcome = Outcome(Verdict("shown"), [ResultTable("Accuracy", "%", entries)])
    page = (written(tmp_path, outcome) / "README.md").read_text(encoding="utf-8")
    assert page.count("<details>") == page.count("</details>") == 1
    assert "2.00 |" in page
    assert "[" not in re.search(r"\| set 3 \| a \| 3 \|.*", page)[0]  # 3 values are not 2 seeds


def test_counts_have_no_decimals_and_an_experiment_without_spread_no_seeds(tmp_path):
    table = ResultTable("Counts", "samples", [Entry("≤ 0.2", "β = 1", (903.0,), 828.0)], digits=0)
    experiment = made_up(spread=False, deviations={})
    page = (
        written(tmp_path, Outcome(OUTCOME.verdict, [table]), experiment) / "README.md"
    ).read_text()
    assert "903 (paper 828)" in page
    assert "reproduce run gd-tab9 --scale desk\n" in page
    assert "no known differences" in page


def test_index_lists_all_in_the_order_of_the_papers(tmp_path):
    for name, paper in [
        ("ag-tab1", "AG"),
        ("gd-fig10", "GD"),
        ("gd-fig9", "GD"),
        ("lm-fig1", "LM"),
    ]:
        written(tmp_path / name, experiment=made_up(name, paper))
    (tmp_path / ".cells" / "0123").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    write_index(tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert rows[0] == (
        "| [gd-fig9](gd-fig9/README.md) | GD, Table 9 | A large β helps everywhere. | – | desk, 2 "
        "| holds in part | – |"
    )
    assert re.findall(r"\| \[([a-z0-9-]+)\]", page) == ["gd-fig9", "gd-fig10", "lm-fig1", "ag-tab1"]


def test_index_of_nothing_is_an_empty_table(tmp_path):
    write_index(tmp_path / "results")
    assert "| id |" in (tmp_path / "results" / "README.md").read_text(encoding="utf-8")


def test_json_is_short_and_plain():
    value = {"row": np.arange(60), "nested": [{"a": np.float64(0.5), "b": np.inf}] * 5}
    text = dumps(value)
    assert json.loads(text) == {"row": list(range(60)), "nested": [{"a": 0.5, "b": None}] * 5}
    assert text.count("\n") < 10
