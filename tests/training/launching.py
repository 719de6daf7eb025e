"""Starting two real processes with PyTorch's launcher."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# PyTorch's threads for gloo now and then abort a process that has done its work and leaves
ABORTED = "terminate called without an active exception"


def launch(script: Path, arguments: Sequence[str], folder: Path) -> None:
    """Run a script in two processes that train in a folder.

    It is started anew where the launcher has lost the race for a port, as it can on a busy machine
    before any training, and where PyTorch has aborted a process at its end.
    """
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    launcher += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", str(script), *arguments]
    for _ in range(3):
        done = subprocess.run(launcher, capture_output=True, text=True, timeout=300)
        if not done.returncode:
            return
        if (folder / "metrics.jsonl").exists() and ABORTED not in done.stderr:
            break
        shutil.rmtree(folder, ignore_errors=True)
    raise AssertionError(done.stderr[-3000:])
