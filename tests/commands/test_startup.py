"""Help, completion and every mistake in what was typed are answered without PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from softmargin.commands import COMMANDS

# the modules that are in the way of a quick answer are named at the end of standard error
PROGRAM = """
import atexit, sys
SLOW = {"torch", "scipy", "numpy", "matplotlib"}
atexit.register(
    lambda: print("slow:", *(SLOW & {*sys.modules}), file=sys.stderr)
)
from softmargin.cli import main
sys.exit(main())
"""

ANSWERS = [
    ["--help"],
    ["--version"],
    [],
    *([name, "--help"] for name in COMMANDS),
    *(["data", action, "--help"] for action in ("list", "fetch", "verify", "path")),
    *(["reproduce", action, "--help"] for action in ("list", "plan", "run", "status", "verify")),
    *(["completion", shell] for shell in ("bash", "zsh", "fish")),
]
MISTAKES = {
    "nothing": "'nothing'",
    "demo --bets 1": "'--bets'",
    "demo --betas 0": "--betas",
    "demo --seeds x": "--seeds",
    "demo --betas 1,1": "--betas",
    "demo --out file/folder": "--out",
    "fit": "FILE",
    "fit none.csv --target y": "FILE",
    "fit file --betas 0": "--betas",
    "fit file --betas 1,1": "--betas",
    "fit file --folds 1": "--folds",
    "fit file --scoring x": "--scoring",
    "fit file --out file/folder": "--out",
    "fit file --out .": "--out",
    "predict": "MODEL",
    "predict none": "FILE",
    "predict none file": "MODEL",
    "calibrate": "FILE",
    "calibrate none.npz": "FILE",
    "calibrate file --save x --scaling none": "--save",
    "calibrate file --example": "--example",
    "calibrate .": "without predictions.npz",
    "calibrate file --logits --probabilities": "--probabilities",
    "apply": "CALIBRATOR",
    "apply none file": "CALIBRATOR",
    "apply file none": "FILE",
    "apply file file --out no/file": "--out",
    "compare file": "OTHER",
    "compare file none": "FILE",
    "compare file ./file": "twice",
    "compare file other --test none": "--test",
    "tune": "WHAT",
    "tune mymodel": "WHAT",
    "tune none.npz": "WHAT",
    "tune my.module:train --heads linear": "--heads",
    "tune my.module:train --betas 0": "--betas",
    "tune my.module:train --seeds x": "--seeds",
    "tune my.module:train --out file/folder": "--out",
    "train": "--out",
    "train --out file/folder": "--out",
    "train --out run --epochs 0": "--epochs",
    "train --out run --lr -1": "--lr",
    "train --out run --data mnits": "such as mnist",
    "train --out run --model resnet": "such as resnet",
    "train --out run --head arcfaces": "arcface",
    "train --out run --loss focus": "--loss",
    "train --out run --optimizer x": "--optimizer",
    "train --out run --precision 8": "--precision",
    "train --out run --lr-schedule up": "--lr-schedule",
    "train --out run --fraction 2": "--fraction",
    "train --out run --config none.yaml": "--config",
    "bench --threads 0": "--threads",
    "bench --seconds 0": "--seconds",
    "bench --only all": "--only",
    "bench --out file/folder": "--out",
    "evaluate": "RUN",
    "evaluate none": "RUN",
    "data": "ACTION",
    "data fetch": "NAME",
    "data fetch mnits": "such as mnist",
    "data path mnits": "such as mnist",
    "data list --root none": "--root",
    "losses ArcFace": "ArcFaceHead",
    "reproduce": "ACTION",
    "reproduce run": "ID",
    "reproduce run gd-tab": "such as gd-tab",
    "reproduce plan gd-tab": "such as gd-tab",
    "reproduce run gd-tab1 --only beta": "--only",
    "reproduce status --scale big": "--scale",
    "reproduce report --out none": "--out",
    "reproduce verify --out none": "--out",
    "completion ksh": "ksh",
}


def first_of_each(lines):
    """Return lines as parameters: but for one of each command, they are slow."""
    commands = set()
    for words in lines:
        later = tuple(words[:1]) in commands
        commands.add(tuple(words[:1]))
        yield pytest.param(words, id=" ".join(words), marks=[pytest.mark.slow] if later else [])


def answer(words, folder):
    """Run the command line; return its exit code, what it said, and slow modules it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"},
    )
    *said, slow = done.stderr.splitlines()
    return done.returncode, done.stdout, said, slow.split()[1:]


@pytest.mark.parametrize("words", list(first_of_each(ANSWERS)))
def test_an_answer_needs_no_torch(words, tmp_path):
    code, output, said, slow = answer(words, tmp_path)
    assert (code, said, slow) == (0, [], [])
    assert "softmargin" in output


@pytest.mark.parametrize("words", list(first_of_each(map(str.split, MISTAKES))))
def test_a_mistake_needs_no_torch(words, tmp_path):
    (tmp_path / "file").write_text("mine")
    code, output, said, slow = answer(words, tmp_path)
    assert (code, output, len(said), slow) == (2, "", 1, [])
    assert MISTAKES[" ".join(words)] in said[0]
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.slow
def test_the_package_shows_all_names_without_torch():
    code = (
        "import sys, softmargin; assert 'GradientDecayLoss' in dir(softmargin); "
        "assert 'torch' not in sys.modules; from softmargin import *; "
        "assert GradientDecayLoss is softmargin.losses.GradientDecayLoss; "
        "assert softmargin.functional is functional; "
        "assert softmargin.calibration.CalibrationMetrics"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
