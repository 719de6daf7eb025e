"""Which copy of the data a result is of, in numbers and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softmargin._papers import PAPERS
from softmargin.papers import provenance
from softmargin.papers.core import Cell, Result
from softmargin.papers.layout import layout
from softmargin.papers.outcome import Entry, ResultTable

TINY = {
    "train": 2500,
    "test": 500,
    "classes": 10,
    "is_subset": True,
    "note": "",
    "files": {"tiny.zip": "276280ab4bba445a5c2527832aa2d6d9"},
}
WHOLE = {
    "train": 50_000,
    "test": 10_000,
    "classes": 10,
    "is_subset": False,
    "note": "re-packed",
    "files": {},
}


def meta(data: dict[str, Any], **tasks: str) -> dict[str, Any]:
    cells = [{"config": {"data": name, "task": task}} for name, task in tasks.items()]
    return {"configuration": {"common": {}, "cells": cells}, "data": data}


def test_copies_are_told_in_words() -> None:
    found = meta({"tiny_imagenet": TINY}, tiny_imagenet="tiny", cifar10="ten")
    assert provenance.told(found) == {
        "Tiny-ImageNet": "10 classes, 2,500 training and 500 test images, a part of the published "
        "set, tiny.zip 276280ab4bba…",
        "CIFAR-10": "which copy was used was not recorded",
    }
    later = {**WHOLE, "recorded": "afterwards"}
    found = meta({"cifar10": [WHOLE, later]}, cifar10="ten")
    one = "10 classes, 50,000 training and 10,000 test images, re-packed"
    two = f"{one}; another copy: {one}, looked up after training"
    assert provenance.told(found) == {"CIFAR-10": two}


def test_numbers_of_another_test_are_marked_and_not_subtracted() -> None:
    both = meta({"tiny_imagenet": TINY, "cifar10": WHOLE}, tiny_imagenet="tiny", cifar10="ten")
    why = "our copy of Tiny-ImageNet has 10 of 200 classes and 500 of 10,000 test images"
    assert provenance.not_comparable(both) == {"tiny": why}
    alone = meta({"tiny_imagenet": TINY}, tiny_imagenet="tiny")
    assert provenance.not_comparable(alone) == {"": why}
    entries = [Entry(row, "β = 1", (1.0, 2.0), paper=3.0) for row in ("tiny", "ten")]
    found = layout(ResultTable("ECE", "", entries), 2, provenance.not_comparable(both))
    assert [found.rows[row][0].paper for row in ("tiny", "ten")] == ["3.0 ‡", "3.0"]
    assert [detail[4:6] for detail in found.details] == [["3.0 ‡", "–"], ["3.0", "-1.50"]]
    assert f"‡ The paper's number is of another test: {why}." in found.caption


def test_other_copies_are_named() -> None:
    other = {**TINY, "files": {"tiny.zip": "0"}}
    found = list(provenance.other_copies({"tiny_imagenet": TINY}, {"tiny_imagenet": other}))
    assert found == ["tiny_imagenet is another copy: the checksums of its files differ"]
    assert list(provenance.other_copies({"a": TINY}, {"a": TINY})) == []
    assert len(list(provenance.other_copies({"a": TINY}, {}))) == 1


def test_results_name_every_copy_they_are_of() -> None:
    cell = Cell("train", {}, "")
    results = [Result(data={"a": copy}) for copy in (TINY, TINY, WHOLE)]
    assert provenance.of_results([(cell, each) for each in results[:2]]) == {"a": TINY}
    assert provenance.of_results([(cell, each) for each in results]) == {"a": [TINY, WHOLE]}


def test_a_cell_records_the_copy_on_this_machine() -> None:
    pytest.importorskip("sklearn")
    (copy,) = provenance.of_cell(Cell("train", {"data": "iris"}, "")).values()
    assert (copy["rows"], copy["classes"], copy["files"]) == (150, 3, {})
    assert provenance.of_cell(Cell("train", {"data": "unheard_of"}, "")) == {}
    assert provenance.of_cell(Cell("nothing", {}, "")) == {}
    old = provenance.completed(Cell("train", {"data": "iris"}, ""), Result({"classes": 3}))
    assert old.data["iris"]["recorded"] == "afterwards"
    other = provenance.completed(Cell("train", {"data": "iris"}, ""), Result({"classes": 4}))
    assert other.data == {}


def test_the_page_of_papers_has_the_same_references() -> None:
    page = Path(__file__).parents[2] / "docs" / "papers.md"
    words = " ".join(page.read_text(encoding="utf-8").replace("*", "").split())
    for paper in PAPERS.values():
        if not paper.is_ours:
            assert paper.reference in words
            assert paper.link in words
