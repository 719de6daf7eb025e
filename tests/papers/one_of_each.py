"""Experiments as parameters of tests, of which fast runs take some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest


def one_of_each_paper(ids: Iterable[str]) -> Iterator[Any]:
    """Return ids as parameters: but for the first of each paper, they are slow."""
    papers = set()
    for name in ids:
        paper = name.split("-")[0]
        yield pytest.param(name, id=name, marks=[pytest.mark.slow] if paper in papers else [])
        papers.add(paper)
