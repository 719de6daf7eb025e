"""The numbers that the papers print: whole, possible, and equal where they are printed twice."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from softmargin.papers import printed as package
from softmargin.papers.core import experiments
from softmargin.papers.printed import printed, printed_means
from softmargin.papers.statistics import wins

FILES = sorted(Path(package.__file__).parent.glob("*.csv"))
NAMES = ["paper", "place", "score", "row", "column", "value", "sd"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_of_one_table_and_has_every_number_once(path):
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = list(csv.reader(file))
    assert header == NAMES
    experiment = experiments()[path.stem]
    assert {line[0] for line in lines} == {experiment.paper}
    assert len({line[1] for line in lines}) == 1
    assert len({tuple(line[2:5]) for line in lines}) == len(lines) > 0


def test_a_table_of_several_scores_needs_to_be_told_which():
    with pytest.raises(ValueError, match="score must be one of 'ECE', 'MCE' for the table gd-tab3"):
        printed("gd-tab3")
    assert printed("gd-tab4", "Mean confidence") == {}
    with pytest.raises(FileNotFoundError, match="gd-tab99"):
        printed("gd-tab99")


def test_transcribed_tables_are_whole():
    assert len(printed("gd-tab2")) == 13
    assert {len(row) for row in printed("gd-tab2").values()} == {8}
    for table in (printed("gd-v1-tab2"), printed("gd-v1-tab3"), printed("gd-v1-tab4")):
        assert [len(row) for row in table.values()] == [6] * 4
    assert {len(row) for row in printed("lm-tab1").values()} == {9}
    assert {len(row) for row in printed("lm-tab3").values()} == {10}
    assert {len(row) for row in printed("ag-tab7").values()} == {6}
    assert {len(row) for row in printed("ag-tab1").values()} == {7}
    # every mean of single tables has a standard deviation, averages and wins have none
    pairs = [sum(isinstance(v, tuple) for v in row.values()) for row in printed("ag-tab1").values()]
    assert pairs == [7] * 15 + [0] * 2


def test_counts_are_of_all_training_images():
    counts = [list(row.values()) for row in printed_means("gd-tab1").values()]
    assert [sum(row) for row in counts] == [60_000] * 5
    assert [row[0] for row in counts] == [903, 828, 1105, 1325, 2375]
    assert [row[-1] for row in counts] == [56824, 58237, 58453, 58392, 57174]


def test_numbers_that_the_papers_print_twice_agree():
    # the first version's SVHN is the second's
    for row, values in printed("gd-v1-tab3").items():
        assert {name: printed("gd-tab2")[row][name] for name in values} == values
    # β of Tables 3, 4 and 5 are those of Table 2, and each other's
    for network in ("ResNet18", "ResNet34"):
        row = f"CIFAR-100, {network}"
        for name in ("β = 20", "β = 10", "β = 1", "β = 0.1"):
            for score in ("ECE", "MCE"):
                table_3, table_4 = printed("gd-tab3", score), printed("gd-tab4", score)
                assert table_3[row][name] == table_4[row][name]
        for name in ("β = 5", "β = 1", "β = 0.1"):
            assert printed("gd-tab4", "Top-1 accuracy")[row][name] == printed("gd-tab2")[row][name]
    tiny = "Tiny-ImageNet, ResNet34"
    for name in ("β = 5", "β = 1", "β = 0.1", "β = 0.01"):
        assert printed("gd-tab5", "Top-1 accuracy")[tiny][name] == printed("gd-tab2")[tiny][name]
    for table, network in (("gd-tab5", "34"), ("gd-tab6", "50")):
        row = f"Tiny-ImageNet, ResNet{network}"
        for name in ("β = 20", "β = 10", "β = 1", "β = 0.1"):
            for score in ("ECE", "MCE"):
                assert printed(table, score)[row][name] == printed("gd-tab3", score)[row][name]
    ours = printed("lm-tab2")["regularised, λ = 0.3"]["error rate"]
    assert printed("lm-tab1")["D̃(q)"]["λ = 0.3"] == ours


def test_averages_and_wins_follow_from_the_table():
    rows = printed_means("ag-tab1")
    means = np.array([list(row.values()) for row in rows.values()])[:15]
    assert means.mean(0).round(2) == pytest.approx(list(rows["Average"].values()))
    assert list(wins(means)) == list(rows["Wins"].values())


def test_transcribed_numbers_are_possible():
    for name in ("gd-tab2", "gd-v1-tab4", "lm-tab4", "ag-tab7"):
        for row in printed_means(name).values():
            assert all(0 < value < 100 for value in row.values())
    for row, values in printed("gd-tab3", "ECE").items():
        largest = printed("gd-tab3", "MCE")[row]
        assert all(value < largest[name] < 1 for name, value in values.items())
    for top_1, top_5 in (
        (printed("gd-v1-tab4"), printed("gd-v1-tab5")),
        (printed("ag-tab5", "Top-1 accuracy"), printed("ag-tab5", "Top-5 accuracy")),
        (printed("gd-tab5", "Top-1 accuracy"), printed("gd-tab5", "Top-5 accuracy")),
    ):
        for row in top_1:
            assert all(top_1[row][name] < top_5[row][name] for name in top_1[row])
    assert all(0 < value < math.pi for row in printed("ag-tab6").values() for value in row.values())
    # fewer images and more wrong labels are harder
    for row in printed("lm-tab3").values():
        means = [mean for mean, _ in row.values()]
        assert means[:5] == sorted(means[:5])
        assert means[5:] == sorted(means[5:])
