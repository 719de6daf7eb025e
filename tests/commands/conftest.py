"""A fitted model for the tests of several commands."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from table_models import QUICK, cells, text_of

from softmargin.cli import main


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Return a folder with a table and the model fitted on it."""
    folder = tmp_path_factory.mktemp("fit")
    (folder / "trees.csv").write_text(text_of(cells()))
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["fit", "trees.csv", "--target", "kind", *QUICK]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """Return a copy of it to work in."""
    shutil.copytree(made, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"
