"""Arrays of predictions need only the small extra: no Parquet, no Ray, no scikit-learn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import softmargin
from softmargin.commands import common, doctor

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

# names of modules that the small extra does not bring
MISSING = (
    *("altair", "filelock", "pandas", "platformdirs", "pyarrow", "python_calamine", "ray"),
    *("scipy", "shtab", "sklearn", "vl_convert", "yaml"),
)
PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(","), None))
from softmargin.cli import main
sys.exit(main(sys.argv[2:]))
"""


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(MISSING), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(softmargin.__file__).parents[1])},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_arrays_need_only_the_small_extra(tmp_path):
    label = np.arange(90) % 3
    logits = np.eye(3)[label] + np.eye(3)[label // 30]
    np.savez(tmp_path / "a.npz", logits=logits, labels=label)
    done = run(tmp_path, "calibrate", "a.npz", "--save", "c.json")
    assert done.returncode == 0, done.stderr
    assert "Report: a-npz-calibration/index.html" in done.stdout
    assert (tmp_path / "a-npz-calibration" / "index.html").stat().st_size > 5000
    done = run(tmp_path, "apply", "c.json", "a.npz")
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "a-calibrated.npz")["logits"].shape == (90, 3)

    (tmp_path / "a.csv").write_text("logits_0,logits_1,label\n1,2,0\n")
    done = run(tmp_path, "calibrate", "a.csv")
    assert done.returncode == 2
    assert 'needs pyarrow, which is missing: pip install "softmargin[lab]".' in done.stderr


def test_the_small_extra_is_part_of_the_large_one():
    small, large = (doctor.EXTRAS[extra][1] for extra in ("calibrate", "lab"))
    assert small.items() <= large.items()
    assert set(common.EXTRAS["calibrate"]) == set(small)
    assert set(common.EXTRAS["calibrate"]) <= set(common.EXTRAS["lab"])
    assert not {"pyarrow", "ray"} & set(small)
