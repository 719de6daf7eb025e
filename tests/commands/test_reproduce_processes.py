"""``softmargin reproduce`` in a process of its own: interrupted, and on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


@pytest.mark.slow
def test_an_interrupted_run_says_that_it_resumes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "softmargin.cli", "reproduce", "run", "gd-tab1", "--scale"]
    command += ["smoke", "--jobs", "2", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("out/.cells/*/cell.json")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.splitlines()[-1] == (  # a slow machine has told of progress before
        "softmargin reproduce: interrupted; the same command resumes where it stopped."
    )


@pytest.mark.ray
def test_a_cluster_started_here_gives_the_same_results(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    found = []
    for name, more in (("here", ()), ("ray", ("--ray", "local", "--jobs", "1"))):
        command = [sys.executable, "-m", "softmargin.cli", "reproduce", "run", "ag-tab1", *more]
        command += ["--scale", "smoke", "--out", str(tmp_path / name)]
        # a process of its own: Ray keeps what it knows of a cluster as long as the process lives
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        values = json.loads((tmp_path / name / "ag-tab1" / "numbers.json").read_text())
        found.append({key: values[key] for key in ("verdict", "tables", "charts")})
    assert found[0] == found[1]
    assert not (tmp_path / ".ray").exists(), "nothing is left in the home folder"
