"""Whatever is typed: one sentence that names it and what is allowed, or an answer."""

import argparse
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import softmargin
from softmargin.cli import main
from softmargin.commands import COMMANDS
from softmargin.commands.parser import build_parser


@pytest.fixture
def idle(monkeypatch):
    """Let no command do its work: only what was typed is looked at."""
    for name, command in COMMANDS.items():
        monkeypatch.setitem(COMMANDS, name, replace(command, run=lambda options: 0))


def leaves(parser=None, words=()):
    """Return every command and action with its parser."""
    parser = parser or build_parser()
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not below:
        return [(words, parser)]
    return [leaf for name, own in below[0].choices.items() for leaf in leaves(own, (*words, name))]


def needed(parser, but):
    """Return what a command cannot do without; before one by its place, only what precedes it."""
    words = []
    by_place = but is not None and not but.option_strings
    for action in parser._actions:
        if action is but:
            by_place = None  # those after it come after it
        elif not action.option_strings and by_place is not False:
            words += ["x"] if by_place else []
        elif action.required:
            words += [*action.option_strings[:1], "x"]
    return words


def answer(words, capsys):
    """Return exit code and standard error of a command line."""
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    return code, capsys.readouterr().err


def check_sentence(error):
    """Check for one line, of bounded length, safe to show, and without names of the source."""
    assert error.startswith("softmargin")
    assert error.endswith("\n")
    assert error.count("\n") == 1
    assert error[:-1].isprintable()
    assert len(error) < 1500
    assert not re.search(r"invalid \w+ value|Errno|Traceback|PosixPath|Namespace|<\w+", error)


# what is typed, and how it is shown
WRONG = {
    "": "''",
    "  ": "''",
    "x": "'x'",
    "nan": "'nan'",
    "inf": "'inf'",
    "-inf": "'-inf'",
    "1e400": "'1e400'",
    "\x1b[31mred": r"'\x1b[31mred'",
    "1\n2": r"'1\n2'",
    "\u202e1": r"'\u202e1'",
    "\udcff": r"'\udcff'",
    "0x10": "'0x10'",
    "9" * 5000 + "x": f"'{'9' * 200}…'",
}
NUMBERS = [
    (words, action.option_strings[0])
    for words, parser in leaves()
    for action in parser._actions
    if action.option_strings and action.type not in (None, str)
    if getattr(action.type, "__name__", "") in ("float", "count", "seed", "number")
]


def test_there_are_numbers_to_get_wrong():
    assert len(NUMBERS) > 15
    assert {words[0] for words, _ in NUMBERS} >= {"demo", "calibrate", "train", "reproduce"}


@pytest.mark.parametrize("value", WRONG, ids=lambda text: ascii(text[:20]))
def test_every_number_that_is_none_is_refused_by_its_name(value, idle, capsys):
    parsers = dict(leaves())
    for words, flag in NUMBERS:
        rest = needed(parsers[words], None)
        code, error = answer([*words, *rest, flag, value], capsys)
        assert code == 2, (words, flag)
        check_sentence(error)
        assert f"argument {flag}: must be a" in error
        assert f"but got {WRONG[value]}." in error


def test_every_folder_and_file_needs_a_name(idle, capsys):
    seen = 0
    for words, parser in leaves():
        for action in parser._actions:
            if action.type is Path or getattr(action.type, "__name__", "") in ("folder", "file"):
                flag = action.option_strings[:1]
                for value in ("", " ", "a\0b"):
                    line = [*words, *needed(parser, action), *flag, value]
                    code, error = answer(line, capsys)
                    assert code == 2, line
                    check_sentence(error)
                    assert f"argument {''.join(flag) or action.metavar}: must name a" in error
                    seen += 1
    assert seen > 15


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo", "--seeds", "\x1b" * 999], ["--seeds", "…'", "whole number"]),
        (["dmeo"], ["'dmeo'", "demo", "calibrate", "reproduce"]),
        (["\x1b[2J"], [r"\x1b[2J", "demo"]),
        (["x" * 5000], ["x" * 150, "…", "demo"]),
        (["demo", "--bets", "1"], ["'--bets'", "softmargin demo --help"]),
        (["demo", "extra"], ["'extra'", "softmargin demo --help"]),
        (["demo", "--see", "1"], ["'--see'", "softmargin demo --help"]),
        (["data", "list", "--roo", "x"], ["'--roo'", "softmargin data list --help"]),
        (["demo", "\x1b]0;x\x07", *"abcd"], [r"'\x1b]0;x\x07', 'a', 'b' and 2 more"]),
        (["losses", "y" * 9999], [f"'{'y' * 200}…'", "such as GradientDecayLoss"]),
        (["losses", "\x1b[2J"], [r"'\x1b[2J'", "such as GradientDecayLoss"]),
        (["losses", ""], ["''", "such as GradientDecayLoss"]),
        (["reproduce", "nothing"], ["'nothing'", "list", "verify"]),
        (["reproduce"], ["required: ACTION"]),
        (["reproduce", "list", "--scale", "big"], ["--scale", "'big'", "smoke"]),
        (["calibrate"], ["required: FILE"]),
        (["demo", "--betas", "2," + "z" * 999], ["--betas", f"'{'z' * 200}…'", "above 0"]),
        (["demo", "--betas", "\x9b1"], ["--betas", r"'\x9b1'", "above 0"]),
    ],
)
def test_a_mistake_gets_one_sentence(words, said, capsys):
    code, error = answer(words, capsys)
    assert code == 2
    check_sentence(error)
    for word in said:
        assert word in error


@pytest.mark.slow
def test_no_random_line_gets_a_traceback(idle, capsys):
    """What argparse makes of a line is its own; it must be an answer or a sentence."""
    pieces = random.Random(0)
    known = [word for words, _ in leaves() for word in words]
    known += [flag for _, parser in leaves() for flag in parser._option_string_actions]
    odd = ["", " ", "-", "--", "---", "=", "-1", "-.5", "--out=", "--seed=1e400", "--seeds=\x1b"]
    odd += [*WRONG, "%s", "%(prog)s", "{}", "@x", "--betas=-1,2", "\0", "日本", "1", "0.5", "a=b"]
    codes = set()
    for _ in range(600):
        line = pieces.choices(known, k=pieces.randrange(0, 3))
        line += pieces.choices([*known, *odd], k=pieces.randrange(0, 6))
        if pieces.random() < 0.8:
            line = [*pieces.choice(leaves_words), *line]
        code, error = answer(line, capsys)
        codes.add(code)
        assert code in (0, 2), line
        if code == 2:
            check_sentence(error)
        else:
            assert error == "", line
    assert codes == {0, 2}


leaves_words = [words for words, _ in leaves()]


def test_the_package_is_the_command_under_the_same_name():
    done = subprocess.run(
        [sys.executable, "-m", "softmargin", "demo", "--seeds", "0"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("softmargin demo: argument --seeds: must be a whole number")


def test_importing_the_command_line_does_not_import_pytorch():
    code = "import sys, softmargin.cli; print('torch' in sys.modules, 'enum' in sys.modules)"
    here = os.environ | {"PYTHONPATH": str(Path(softmargin.__file__).parents[1])}
    command = [sys.executable, "-S", "-c", code]  # what site imports is not ours
    done = subprocess.run(command, capture_output=True, text=True, env=here)
    assert done.stdout == "False False\n"
