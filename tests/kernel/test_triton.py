"""The Triton kernels, in a process of their own: Triton's interpreter is for a whole process."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no Triton here"),
]


def test_in_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(HERE / "triton_interpreted.py")],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]


COMPILE = """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from softmargin.functional import _triton_rows as rows

for kernel in (rows.losses, rows.gradients):
    for element, form, smooth, soft, shares, kind in (
        ("fp32", 0, True, False, (0.0, 0.0), tl.float32),
        ("bf16", 2, True, True, (0.0, 0.0), tl.float32),
        ("fp64", 1, False, False, (0.5, 0.5), tl.float64),
        ("fp32", 0, False, False, (1.0, 0.0), tl.float32),
        ("fp64", 2, True, True, (0.0, 0.0), tl.float64),
        ("fp32", 0, True, False, (0.5, 0.5), tl.float32),
        ("bf16", 0, True, True, (0.0, 1.0), tl.float32),
    ):
        wide = "*fp64" if kind == tl.float64 else "*fp32"
        types = dict.fromkeys(kernel.arg_names, wide)
        types |= {"logits": "*" + element, "gradient": "*" + element, "index": "*i64"}
        types |= {"places": "*i64", "parameters": "*fp64", "tau_at": "*fp64", "lam_at": "*fp64"}
        types |= {"stride": "i64", "stride_of_probabilities": "i64"}
        types |= {"per_class": "i32", "size": "i32"}
        known = {"FORM": form, "SMOOTH": smooth, "SOFT": soft, "TYPE": kind, "BLOCK": 64}
        known |= {"TO_UNIFORM": shares[0], "FROM_UNIFORM": shares[1], "LOWEST": -3e38}
        known |= {"COMPENSATE": form == 0}
        known = {name: value for name, value in known.items() if name in kernel.arg_names}
        types = {name: types[name] for name in kernel.arg_names} | dict.fromkeys(known, "constexpr")
        source = triton.compiler.ASTSource(kernel, types, known)
        assert "ptx" in triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm
"""


def test_compiles_for_a_gpu(tmp_path):
    """The interpreter knows no types; the compiler does, and needs no GPU."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-5000:]
