"""Ctrl-C at any moment: one line, no traceback, and whether the same command resumes."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from softmargin import cli
from softmargin.commands import COMMANDS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
for package in ("jinja2", "matplotlib", "rich", "sklearn"):
    pytest.importorskip(package)

DEMO = ("demo", "--seeds", "100000")


def start(code, *arguments, folder, handler=signal.SIG_DFL):
    """Start a process that runs some code and then the command line.

    The import of ``main`` comes first: before it is there, Python itself answers the signal.
    """
    code = f"import sys\nfrom softmargin.cli import main\n{code}\nsys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )


def end(process):
    try:
        return process.communicate(timeout=120)
    finally:
        process.kill()


def check_interrupted(process, folder):
    _, errors = end(process)
    assert "Traceback" not in errors
    assert "KeyboardInterrupt" not in errors
    assert process.returncode == 130, errors
    last = errors.splitlines()[-1]
    assert last in ("softmargin: interrupted.", "softmargin demo: interrupted.")
    assert os.listdir(folder) == []


# the signal comes with the k-th import after the command line has begun
AT_IMPORT = """
import os, sys
def count(event, arguments, left=[{number}]):
    if event == "import" and "softmargin._text" in sys.modules:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), 2)
sys.addaudithook(count)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 30, 300, 1500, 2000, 2500])
def test_ctrl_c_within_an_import_ends_in_one_line(number, tmp_path):
    code = AT_IMPORT.format(number=number)
    check_interrupted(start(code, *DEMO, folder=tmp_path), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.05, 0.3, 0.8, 1.5, 3.0])
def test_ctrl_c_after_any_time_ends_in_one_line(delay, tmp_path):
    process = start("print('begun', flush=True)", *DEMO, folder=tmp_path)
    assert process.stdout.readline() == "begun\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    check_interrupted(process, tmp_path)


WORKS = """
import dataclasses, signal, time
from softmargin.commands import COMMANDS
def run(options):
    {work}
COMMANDS["losses"] = dataclasses.replace(COMMANDS["losses"], run=run)
"""
SWALLOWED = """
    class Odd:
        def __del__(self):
            signal.raise_signal(2)
            time.sleep(0)
    Odd()
    time.sleep(60)
"""
DISGUISED = """
    try:
        signal.raise_signal(2)
        time.sleep(60)
    except KeyboardInterrupt:
        raise ImportError("failed to initialise") from None
"""


@pytest.mark.parametrize("work", [SWALLOWED, DISGUISED])
def test_an_interrupt_that_a_library_hides_still_counts(work, tmp_path):
    process = start(WORKS.format(work=work.strip()), "losses", folder=tmp_path)
    _, errors = end(process)
    assert (process.returncode, errors) == (130, "softmargin losses: interrupted.\n")


def test_a_second_ctrl_c_while_ending_is_quiet(tmp_path):
    slow_end = "import atexit; atexit.register(lambda: (signal.raise_signal(2), time.sleep(60)))"
    work = f"{slow_end}; signal.raise_signal(2); time.sleep(60)"
    process = start(WORKS.format(work=work), "losses", folder=tmp_path)
    _, errors = end(process)
    assert (process.returncode, errors) == (130, "softmargin losses: interrupted.\n")


def test_ctrl_c_that_the_parent_ignores_is_ignored(tmp_path):
    process = start(
        WORKS.format(work="signal.raise_signal(2)"),
        "losses",
        folder=tmp_path,
        handler=signal.SIG_IGN,
    )
    assert end(process) == ("", "")
    assert process.returncode == 0


RESUMES = "; the same command resumes where it stopped"


@pytest.mark.parametrize(
    ("words", "resumes"),
    [
        (["train", "--out", "run"], RESUMES),
        (["reproduce", "run", "gd-fig2"], RESUMES),
        (["fit", "table.csv"], RESUMES),
        (["predict", "model", "table.csv"], ""),
        (["reproduce", "list"], ""),
        (["demo"], ""),
        (["losses"], ""),
        (["calibrate", "p.npz"], ""),
        (["evaluate", "run"], ""),
        (["data", "list"], ""),
    ],
)
def test_it_says_whether_the_same_command_resumes(words, resumes, monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    name = words[0]
    monkeypatch.setitem(COMMANDS, name, replace(COMMANDS[name], run=interrupt))
    assert cli.main(words) == 130
    assert capsys.readouterr().err == f"softmargin {name}: interrupted{resumes}.\n"
