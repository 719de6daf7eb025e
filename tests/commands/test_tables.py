"""Tables and paragraphs fit any terminal, and say what they leave out."""

import contextlib
import os
import subprocess
import sys

import pytest

from softmargin._table import table_lines
from softmargin.cli import main

ROWS = [
    ("id", "paper", "what", "cells", "share"),
    ("gd-fig1", "GD Figure 1", "Features in two dimensions by β, with a long title", "5", "12.5 %"),
    ("sm-compensation", "SM the outlook", "mean gradient", "1234", "100.0 %"),
    ("x", "", "aword" * 12, "", "\x1b[31m"),
]
COMMANDS = {
    "reproduce list": ("id", "what"),
    "reproduce status": ("id", "cells"),
    "reproduce plan gd-fig2 ag-tab1 --scale smoke": ("trains", "steps"),
    "data list": ("name", "where"),
}


@pytest.mark.parametrize("width", [1, 40, 41, 60, 80, 200])
def test_no_line_is_too_long_and_nothing_is_lost_unnamed(width):
    lines = table_lines(ROWS, right=("cells", "share"), width=width)
    assert max(map(len, lines)) <= max(40, width)
    said = " ".join(lines)
    squeezed = said.replace(" ", "")
    assert "\x1b" not in said
    for place, name in enumerate(ROWS[0]):
        assert name in said  # as a heading, or as one that was left out
        if name not in said.partition("Too wide")[2]:
            for row in ROWS[1:]:
                for word in row[place].replace("\x1b", r"\x1b").split():
                    assert word in squeezed or len(word) > 20


def test_only_what_does_not_fit_is_left_out():
    assert "Too wide" not in " ".join(table_lines(ROWS, width=200))
    assert "Too wide" not in " ".join(table_lines(ROWS))
    note = " ".join(table_lines(ROWS, right=("cells", "share"), width=55))
    assert note.endswith("Too wide for this terminal: share.")


def test_numbers_stand_to_the_right_and_without_a_width_nothing_is_wrapped():
    lines = table_lines([("a", "n"), ("word " * 50 + "end", "1"), ("b", "100")], right=("n",))
    assert [len(line) for line in lines] == [258, 258, 258]
    assert lines[1].endswith("end    1")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_every_table_fits(command, width, tmp_path, monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(command.split()) == 0
    output = capsys.readouterr().out
    # sentences between tables are not tables; a terminal wraps those
    sentences = (" at smoke scale: ", "in all ")
    lines = [line for line in output.splitlines() if not any(x in line for x in sentences)]
    assert max(map(len, lines)) <= width
    for name in COMMANDS[command]:
        assert name in output


def printed(width, folder):
    """Return what ``data list`` prints to a terminal of a width, or to a pipe without one."""
    words = [sys.executable, "-m", "softmargin", "data", "list"]
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    if width is None:
        return subprocess.run(words, capture_output=True, env=env, cwd=folder).stdout.decode()
    termios = pytest.importorskip("termios")
    terminal, side = os.openpty()
    termios.tcsetwinsize(side, (24, width))
    process = subprocess.Popen(words, stdout=side, stdin=side, cwd=folder, env=env)
    os.close(side)
    output = b""
    with contextlib.suppress(OSError):  # once the other side is closed
        while part := os.read(terminal, 1 << 16):
            output += part
    os.close(terminal)
    assert process.wait(timeout=300) == 0
    return output.decode()


@pytest.mark.parametrize("width", [None, 60, 0])
def test_a_table_fits_the_terminal_and_is_whole_in_a_file(width, tmp_path):
    output = printed(width, tmp_path)
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 60 if width else "Too wide" not in output
    assert "where" in output
