"""``softmargin calibrate`` on files past all limits."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import numpy as np
import pytest

LIMITS = """
import resource, sys
import numpy, pyarrow.csv, pyarrow.parquet, rich.progress, softmargin.report.calibration
import softmargin.calibration.audit
from softmargin.cli import main
from softmargin.commands.parser import build_parser

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in sys.argv[1:]:
    assert main(["calibrate", name, "--out", "report"]) == 2, name
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_files_past_all_limits_get_a_sentence_in_bounded_memory(tmp_path):
    """A bomb, an array that is not there, a million columns, lines of 200 MB."""
    block = bytes(1 << 24)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, shape in (("logits", (1 << 22, 10)), ("labels", (1 << 22,))):
            with file.open(f"{name}.npy", "w") as member:
                header = {"descr": "<f8", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                for _ in range(np.prod(shape) * 8 // len(block)):
                    member.write(block)
    with zipfile.ZipFile(tmp_path / "hollow.npz", "w") as file:
        for name, shape in (("logits", (10**9, 10)), ("labels", (10**9,))):
            with file.open(f"{name}.npy", "w") as member:
                header = {"descr": "<f8", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
    names = ",".join(f"z{i}" for i in range(10**6))
    (tmp_path / "wide.csv").write_text(f"{names},label\n")
    for name, start in (("header.csv", ""), ("line.csv", "z0,z1,label\n1,2,0\n")):
        with (tmp_path / name).open("w") as file:
            file.write(start)
            file.truncate(200 << 20)
    files = ["bomb.npz", "hollow.npz", "wide.csv", "header.csv", "line.csv"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITS, *files], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        f"softmargin calibrate: {sentence}"
        for sentence in (
            done.stderr.splitlines()[0].removeprefix("softmargin calibrate: "),
            "'labels' in 'hollow.npz' ends too early: it is truncated.",
            "FILE 'wide.csv' must have at most 101,000 columns, but has 1,000,001.",
            "FILE 'header.csv' must have lines of at most 16 MB, but line 1 is longer.",
            "FILE 'line.csv' must have lines of at most 16 MB, but line 3 is longer.",
        )
    ]
    assert "'logits' in 'bomb.npz' must not be compressed more than 200 times" in done.stderr
    assert int(done.stdout) < 400 << 10  # kB
