"""The catalogue knows every loss and head, and the documentation shows the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from softmargin import catalogue, heads, losses
from softmargin.cli import main

EVERYTHING = {
    *(cls.__name__ for cls in losses.LogitLoss.__subclasses__()),
    *(name for name in heads.__all__ if name != "Head"),
    "CenterLoss",
}


def test_nothing_is_missing():
    listed = [entry.name for entries in catalogue.SECTIONS.values() for entry in entries]
    assert set(listed) == EVERYTHING
    assert len(listed) == len(EVERYTHING)


def test_the_page_is_up_to_date():
    page = Path(__file__).parents[1] / "docs" / "catalogue.md"
    assert page.read_text(encoding="utf-8") == catalogue.as_markdown()


def test_the_command_lists_all(capsys):
    assert main(["losses"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name}(" in shown for name in EVERYTHING)
    assert "as β: e^(−m), floored" in shown


def test_the_command_explains_one(capsys):
    assert main(["losses", "arcfacehead"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("ArcFaceHead(scale=64.0, margin=0.5, beyond='monotone')")
    assert "past" in shown.lower()


def test_an_unknown_name_gets_near_ones(capsys):
    assert main(["losses", "arcface"]) == 2
    error = capsys.readouterr().err
    assert "ArcFaceHead" in error
    assert error.count("\n") == 1
    with pytest.raises(ValueError, match="GradientDecayLoss"):
        catalogue.find("gradient_decay")
