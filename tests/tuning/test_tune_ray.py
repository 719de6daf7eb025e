"""Tuning on a Ray cluster: the same choice, whatever happens to workers."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import tuned_functions
from tuned_functions import train

from softmargin import tune
from softmargin._ray import AUTHENTICATION

if find_spec("ray") is None:
    pytest.skip("needs ray", allow_module_level=True)

PATIENCE = 600  # seconds: a busy machine takes long to start workers
WORDS = ["tune", "tuned_functions:noting", "--betas", "5", "--ray", "local", "--jobs", "2"]


@pytest.mark.ray
def test_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {name: value for name, value in os.environ.items() if name not in AUTHENTICATION}
    environment |= {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}
    environment |= {tuned_functions.PLACE: str(tmp_path)}
    code = "import sys; from softmargin.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *WORDS, "--out", "tuned", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = tmp_path / "5-0"
    with subprocess.Popen(command, env=environment, cwd=tmp_path, text=True, **pipes) as driver:
        try:
            deadline = time.monotonic() + PATIENCE
            while not (first.exists() and first.read_text()):
                assert driver.poll() is None, driver.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            killed = int(first.read_text().split()[0])
            os.kill(killed, signal.SIGKILL)
            (tmp_path / "go").touch()
            output, errors = driver.communicate(timeout=PATIENCE)
        finally:
            driver.terminate()
    assert driver.returncode == 0, errors
    attempts = first.read_text().split()
    assert len(attempts) == 2
    assert int(attempts[1]) != killed
    assert json.loads(output.splitlines()[-1]) == tune(train, [1.0, 5.0]).as_dict()
