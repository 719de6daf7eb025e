"""Finding and loading the compiled library, and doing without it."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from softmargin import cli
from softmargin._kernel import build, library
from softmargin.functional import _fused


def test_no_library(tmp_path, monkeypatch):
    monkeypatch.delenv(library.SWITCH, raising=False)
    assert library.load(tmp_path) == (None, "the package was installed without a compiled library")


@pytest.mark.parametrize("content", [b"", b"not a library", b"\x7fELF" + bytes(100)])
def test_a_broken_library(tmp_path, monkeypatch, content):
    monkeypatch.delenv(library.SWITCH, raising=False)
    (tmp_path / library.NAME).write_bytes(content)
    kernel, reason = library.load(tmp_path)
    assert kernel is None
    assert reason.startswith("the compiled library cannot be loaded: ")


@pytest.mark.parametrize("word", ["0", "off", "False"])
def test_the_switch(monkeypatch, word):
    monkeypatch.setenv(library.SWITCH, word)
    assert library.load() == (None, f"switched off by SOFTMARGIN_KERNEL={word}")


def test_another_version(kernel, monkeypatch):
    monkeypatch.delenv(library.SWITCH, raising=False)
    monkeypatch.setattr(library, "LAYOUT", library.struct.Struct("q"))
    if library.load()[1].startswith("the package was installed without"):
        pytest.skip("there is no installed library")
    assert library.load() == (
        None,
        "the compiled library belongs to another version of the package",
    )


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert "could not be started" in build.build(tmp_path / "made.so")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.build(tmp_path / "made.so") == "no C++ compiler was found"
    assert not (tmp_path / "made.so").exists()


def test_a_failure_shows_the_compilers_words(tmp_path, monkeypatch):
    command = [sys.executable, "-c", "raise SystemExit('no such flag')"]
    monkeypatch.setenv("CXX", shlex.join(command))
    assert "no such flag" in build.build(tmp_path / "made.so")


def test_the_doctor_names_the_path(capsys, kernel, monkeypatch):
    with _fused.using(kernel):
        assert cli.main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "by the fused kernel" in shown
    assert library.INSTRUCTIONS[kernel.instructions] in shown
    monkeypatch.setattr(_fused, "reason", "it rains")
    with _fused.using(None):
        assert cli.main(["doctor"]) == 0
    assert "by PyTorch's operations: it rains" in capsys.readouterr().out


def test_the_library_is_found_without_pytorch():
    code = "import sys, softmargin._kernel.library; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PyTorch has another OpenMP")
@pytest.mark.parametrize("scope", ["GLOBAL", "LOCAL"])
def test_the_threads_are_those_of_pytorch(scope):
    """Also where PyTorch does not load OpenMP for all to see, as its wheels for ARM."""
    if _fused.kernel is None:
        pytest.skip("there is no installed library")
    code = f"""
import ctypes
ctypes.RTLD_GLOBAL = ctypes.RTLD_{scope}
import torch
from softmargin._kernel import library
print(library.load()[0].threads)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.slow
@pytest.mark.skipif(build.compiler() is None, reason="there is no C++ compiler")
def test_sanitizers_find_nothing():
    done = subprocess.run(
        [sys.executable, "tests/kernel/sanitized.py"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
