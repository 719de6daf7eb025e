"""Progress: a bar on a terminal, plain lines elsewhere, neither before there is anything to say."""

import contextlib
import os
import subprocess
import sys
import threading
import time

import pytest

from softmargin import _progress
from softmargin._progress import Progress, progress


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(_progress, "SAY_EVERY", 0.02)


def wait_for_lines(capsys, number):
    """Return lines on standard error as soon as there are as many."""
    said = ""
    for _ in range(3000):
        said += capsys.readouterr().err
        if said.count("\n") >= number:
            break
        time.sleep(0.01)
    return said.splitlines()


def test_lines_come_without_calls_and_say_the_latest(hurried, capsys):
    with progress() as show:
        assert wait_for_lines(capsys, 2)[0] == "starting"
        show(1, 4, "epoch 2\x1b[31m of 4", left=600)
        assert wait_for_lines(capsys, 2)[-1] == r"25 %, about 10 min left: epoch 2\x1b[31m of 4"
    capsys.readouterr()
    assert capsys.readouterr().err == ""


def test_lines_end_with_the_work_also_when_it_fails(hurried):
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), progress():
            raise error
    assert "progress" not in [thread.name for thread in threading.enumerate()]


def test_a_short_work_says_nothing(capsys):
    with progress() as show:
        show(1, 2)
    with progress(hidden=True) as show:
        show(1, 2)
    assert capsys.readouterr().err == ""


def test_the_time_left_follows_the_speed_since_the_work_was_taken_up(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock[0])
    state = Progress()
    state(50, 100, "resumed")
    assert state.left is None
    clock[0] += 10
    state(60, 100, "on")
    assert state.left == pytest.approx(40)
    state(0, 7, "something else")
    assert state.left is None
    assert state.line() == "0 %: something else"
    state(3, 0, "of an unknown whole")
    assert state.line() == "of an unknown whole"


# a step ends once the test has seen it shown
CODE = """
import sys
from softmargin import _progress
_progress.SAY_EVERY = 0.05
with _progress.progress() as show:
    for step in range(1, 5):
        show(step, 5, f"step {step}")
        sys.stdin.readline()
        print("done", step, flush=True)
"""


def shown(terminal, **env):
    """Return what is printed to standard output, a pipe, and to standard error, a terminal."""
    main, side = os.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=side,
        env={**os.environ, "TERM": "xterm", **env},
    )
    os.close(side)
    errors, step = b"", 1
    with contextlib.suppress(OSError):  # once the other side is closed
        while part := os.read(main, 1 << 16):
            errors += part
            if b"step %d" % step in errors and step <= 4:
                process.stdin.write(b"\n")
                process.stdin.flush()
                step += 1
    os.close(main)
    return process.communicate(timeout=300)[0].decode(), errors.decode()


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("terminal", "env", "bar"),
    [
        (True, {}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_a_bar_is_only_drawn_where_it_can_be(terminal, env, bar):
    pytest.importorskip("rich")
    output, errors = shown(terminal, **env)
    assert ("\x1b" in errors) == bar
    assert "step 4" in errors
    assert "nan" not in errors
    assert output.split("\n")[:-1] == [f"done {step}" for step in range(1, 5)]
