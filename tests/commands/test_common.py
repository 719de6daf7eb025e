"""What the commands share: checks of --out, warnings, safe text."""

import errno
import os
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from softmargin import cli
from softmargin._text import one_line, printable
from softmargin.commands import COMMANDS
from softmargin.commands.common import UsageError, check_out, writing_to


@pytest.fixture
def losses_does(monkeypatch):
    """Return a function that replaces what ``softmargin losses`` does."""

    def replace_by(run):
        monkeypatch.setitem(COMMANDS, "losses", replace(COMMANDS["losses"], run=run))

    return replace_by


@pytest.mark.parametrize("name", [".", "new", "a/b/c", "ends/"])
def test_a_folder_that_can_be_made_is_not_made_yet(tmp_path, name):
    check_out(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("taken", "is not: it is a file."),
        ("taken/below/it", "taken' is a file."),
        ("link", "is not: it is a link to nothing."),
        ("x" * 300, "file name too long"),
        (f"a/{'x' * 300}/b", "file name too long"),
    ],
)
def test_a_folder_that_cannot_be_made_is_refused(tmp_path, name, reason):
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match="argument --results: must be a folder") as caught:
        check_out(tmp_path / name, "--results")
    assert reason in str(caught.value)
    assert "Errno" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(UsageError, match="argument --out: must be .* is not: [a-z]") as caught:
        check_out(tmp_path / "new")
    assert "Errno" not in str(caught.value)


@pytest.mark.parametrize(
    ("resumes", "words"), [(True, "what is finished is kept"), (False, "nothing was written")]
)
def test_a_full_disk_is_named(resumes, words):
    with pytest.raises(UsageError, match=words), writing_to(Path("x"), resumes=resumes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


ODD = {
    "\x1b[2J": r"\x1b[2J",
    "\x07\x00\x7f": r"\x07\x00\x7f",
    "\x9b31m\x85": r"\x9b31m\x85",
    "\u202eabc\u2066\u200b\ufeff": r"\u202eabc\u2066\u200b\ufeff",
    "a\r\nb\tc\u2028": r"a\r\nb\tc\u2028",
    "\udcff": r"\udcff",
    "β→日本\u00a0é%s": "β→日本\u00a0é%s",
}


@pytest.mark.parametrize("text", ODD)
def test_what_is_no_visible_sign_becomes_an_escape(text):
    assert printable(text) == ODD[text]


def test_long_text_is_cut_and_a_message_is_one_line():
    assert printable("x" * 1000) == "x" * 200 + "…"
    assert one_line(" a\n\t b\x1b" + "x" * 500) == r"a b\x1b" + "x" * 500


@pytest.mark.parametrize("text", ODD)
def test_no_error_steers_the_terminal(losses_does, capsys, text):
    def fail(_):
        raise UsageError(f"NAME must be known, but got {text}.")

    losses_does(fail)
    assert cli.main(["losses"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(sign.isprintable() or sign == "\u00a0" for sign in error[:-1])


def test_a_warning_is_one_line_once_without_the_source(losses_does, capsys):
    def warn(_):
        for _ in range(3):
            warnings.warn("this is\n  odd\x1b (Triggered internally at /x/y.cpp:1.)", stacklevel=1)
        warnings.warn("another", RuntimeWarning, stacklevel=1)

    losses_does(warn)
    before = warnings.showwarning
    assert cli.main(["losses"]) == 0
    expected = "softmargin: warning: this is odd\\x1b\nsoftmargin: warning: another\n"
    assert capsys.readouterr().err == expected
    assert warnings.showwarning is before
