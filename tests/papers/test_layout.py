"""How tables are laid out: what stands in a place, and what in the lines below."""

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("scipy")

from softmargin.papers.layout import DETAILS, layout
from softmargin.papers.outcome import Entry, ResultTable
from softmargin.papers.statistics import Comparison, paired_bootstrap

ABOVE = Comparison(1.5, 0.9, 2.1, 0.0004, 5, "paired bootstrap")
UNSURE = Comparison(-0.1, -0.8, 0.6, 0.5, 5, "paired bootstrap")


def laid_out(*entries, **rest):
    return layout(ResultTable("Accuracy", "%", entries, **rest), seeds=2)


def test_one_line_has_everything_about_a_number():
    entries = (
        Entry("iris", "β = 1", (95.0, 96.0), paper=95.1),
        Entry("iris", "β = 5", (96.5, 97.5), 97.0, 0.25, ABOVE, adjusted=0.0008),
        Entry("iris", "β = 9", (95.0, math.nan), None, None, UNSURE, adjusted=0.5),
    )
    found = laid_out(*entries, better="higher")
    plain, above, unsure = found.details
    assert all(len(row) == len(DETAILS) for row in found.details)
    assert plain[2:] == ["2", "95.50 [89.15, 101.85]", "95.1", "0.40", "–", "–", "–"]
    assert above[4:] == ["97.0", "0.00", "1.50 [0.90, 2.10]", "< 0.001", "< 0.001 †"]
    assert unsure[2:] == ["2", "–", "–", "–", "-0.10 [-0.80, 0.60]", "0.500", "0.500"]
    assert "† differs from the baseline, p < 0.05 after Holm's correction" in found.caption
    first, second, third = found.rows["iris"]
    assert (first.ours, first.paper, first.mark) == ("95.50 ± 0.71", "95.1", "")
    assert (second.paper, second.mark) == ("97.0 ± 0.25", "†")
    assert second.says == "significantly better than the baseline"
    assert (third.ours, third.paper, third.mark) == ("–", "", "")


@pytest.mark.parametrize(
    ("count", "shown"), [(1, False), (2, False), (3, True), (5, True), (50, False)]
)
def test_values_of_enough_seeds_have_an_interval(count, shown):
    entries = [Entry("a", "b", tuple(map(float, range(count))))]
    found = layout(ResultTable("t", "", entries), seeds=5)
    assert any("[" in cell for row in found.details for cell in row) == shown


def test_numbers_without_spread_or_comparison_have_no_line():
    found = laid_out(Entry("better", "a", (3.0,)), Entry("better", "b", (4.0,)), digits=0)
    assert [each.ours for each in found.rows["better"]] == ["3", "4"]
    assert found.details == []


@pytest.mark.parametrize(
    ("better", "word"), [("higher", "better"), ("lower", "worse"), ("", "higher")]
)
def test_direction_depends_on_what_is_better(better, word):
    found = laid_out(Entry("a", "b", (1.0, 2.0), comparison=ABOVE), better=better)
    assert found.rows["a"][0].says == f"significantly {word} than the baseline"


def test_significance_is_that_after_correction():
    entry = Entry("a", "b", (1.0, 2.0), comparison=ABOVE, adjusted=0.2)
    assert not entry.is_significant
    assert replace(entry, adjusted=None).is_significant
    assert not replace(entry, comparison=None).is_significant


@pytest.mark.parametrize(("seeds", "said"), [(5, True), (6, False)])
def test_too_few_seeds_for_significance_are_said(seeds, said):
    values = np.arange(float(seeds))
    compared = paired_bootstrap(values + 1, values, seed=0)
    found = laid_out(Entry("a", "b", tuple(values + 1), comparison=compared))
    assert ("an exact p is at least 0.062" in found.methods) == said
