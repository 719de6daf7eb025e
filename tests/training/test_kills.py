"""Runs that are killed at any moment end as if they had never been; see ``killing.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from killing import SCENARIOS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked"),
]
PROGRAM = Path(__file__).with_name("killing.py")


def killed(*arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_every_write_and_between_every_two(tmp_path: Path, name: str) -> None:
    """Every file is in the end what it is without a kill, and nothing else is left."""
    found = killed(name, str(tmp_path))
    assert found["moments"] >= 20
    assert found["wrong"] == {}


@pytest.mark.parametrize("lifetime", [28, 31])
def test_killed_ten_times_it_ends_as_if_never_stopped(tmp_path: Path, lifetime: int) -> None:
    """One run, killed again and again, among it within the write of a checkpoint."""
    found = killed("many epochs", str(tmp_path), str(lifetime))
    assert found["kills"] >= 10
    assert found["same"] is True
