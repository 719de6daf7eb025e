"""The command line, run as users run it: in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import softmargin
from softmargin.cli import main
from softmargin.commands.common import UsageError
from softmargin.commands.parser import build_parser

for package in ("jinja2", "matplotlib", "rich", "sklearn"):
    pytest.importorskip(package)

SMALL = ("--seeds", "2", "--betas", "1,0.1")


def run(*arguments, before="pass", cwd=None):
    """Run ``softmargin``; ``before`` is Python to execute first."""
    code = f"import sys; {before}; from softmargin.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"},
    )


def check_refusal(code, output, errors, words):
    """Check for exit code 2 and one sentence on standard error that holds the words."""
    assert code == 2, errors
    assert output == ""
    lines = errors.strip().splitlines()
    assert len(lines) == 1, errors
    for word in ("softmargin", *words):
        assert word in lines[0]


def refused(done, *words):
    check_refusal(done.returncode, done.stdout, done.stderr, words)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return run("demo", *SMALL, cwd=folder), folder / "softmargin-demo"


@pytest.mark.slow
def test_demo_prints_a_table_and_says_where_the_report_is(demo):
    done, folder = demo
    assert done.returncode == 0, done.stderr
    for word in ("accuracy", "ECE", "NLL", "confidence", "±", "0.1", "0.01→1", "warm-up"):
        assert word in done.stdout
    for word in ("300 images to train", "1497 to test", "64-128-10", "SGD", "60 epochs", "seeds 0"):
        assert word in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1] == f"Report: {os.path.join(folder.name, 'index.html')}"
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_demo_writes_a_page_and_the_numbers(demo):
    done, folder = demo
    assert sorted(os.listdir(folder)) == ["index.html", "results.json"]
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    labels = [each["label"] for each in content["configurations"]]
    assert labels == ["1", "0.1", "0.01→1", "1 + T", "calibrated"]
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert content["command"] in page
    assert str(folder.parent) not in page
    for each in content["configurations"]:
        mean = f"{100 * each['summary']['accuracy']['mean']:.1f} ±"
        assert mean in page
        assert mean in done.stdout


@pytest.mark.slow
def test_the_command_it_names_gives_the_same_files(demo, tmp_path):
    _, folder = demo
    command = json.loads((folder / "results.json").read_text(encoding="utf-8"))["command"]
    # betas by spaces, another folder that does not exist yet: the same numbers
    out = tmp_path / "a" / "b"
    arguments = [*command.split()[1:], "--out", str(out)]
    place = arguments.index("--betas") + 1
    arguments[place : place + 1] = arguments[place].split(",")
    assert run(*arguments).returncode == 0
    for name in ("results.json", "index.html"):
        assert (out / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--betas", "0"], ["--betas", "'0'", "above 0"]),
        (["--betas", "-1"], ["--betas", "'-1'", "above 0"]),
        (["--betas", "-1,0.5"], ["--betas", "'-1'", "above 0"]),
        (["--betas", "-inf"], ["--betas", "'-inf'", "above 0"]),
        (["--betas", "5,nan"], ["--betas", "'nan'", "finite number above 0"]),
        (["--betas", "1", "inf"], ["--betas", "'inf'", "finite number above 0"]),
        (["--betas", "1e400"], ["--betas", "'1e400'", "finite"]),
        (["--betas", "large"], ["--betas", "'large'", "finite number above 0"]),
        (["--betas", ""], ["--betas", "''", "at least one"]),
        (["--betas", " , "], ["--betas", "at least one"]),
        (["--betas"], ["--betas", "at least one"]),
        (["--betas", "1,0.1,1.0"], ["--betas", "1 came twice"]),
        (["--seeds", "0"], ["--seeds", "'0'", "from 1"]),
        (["--seeds", "2.5"], ["--seeds", "'2.5'", "whole number"]),
        (["--seed", "-1"], ["--seed", "'-1'", "from 0"]),
        (["--seed", "x"], ["--seed", "'x'", "whole number"]),
        (["--seed", str(2**64)], ["--seed", str(2**64)]),
        (["--out", ""], ["--out", "''", "folder"]),
        (["--out", os.path.join(os.devnull, "report")], ["--out", "written to"]),
    ],
)
def test_bad_arguments_get_one_sentence(arguments, words, capsys):
    try:
        code = main(["demo", *arguments])
    except SystemExit as end:
        code = end.code
    check_refusal(code, *capsys.readouterr(), words)


def test_a_refusal_ends_the_process_without_a_traceback():
    refused(run("demo", "--betas", "0"), "argument --betas", "'0'", "finite number above 0")


def test_out_may_not_be_a_file(tmp_path):
    file = tmp_path / "taken"
    file.write_text("mine")
    refused(run("demo", "--out", str(file)), "--out", "taken")
    assert file.read_text() == "mine"


@pytest.mark.parametrize("error", [KeyboardInterrupt, UsageError])
def test_out_is_looked_at_before_the_work_and_made_after_it(error, tmp_path, monkeypatch, capsys):
    tried = []

    def work(setting, progress):
        tried.append(setting)
        raise error

    monkeypatch.setattr("softmargin.demo.run_demo", work)
    file = tmp_path / "taken"
    file.write_text("mine")
    assert main(["demo", "--out", str(file)]) == 2
    check_refusal(2, *capsys.readouterr(), ["--out", "taken", "it is a file"])
    assert tried == []
    assert main(["demo", "--out", str(tmp_path / "a" / "b")]) in (2, 130)
    assert len(tried) == 1
    assert os.listdir(tmp_path) == ["taken"]


def test_demo_and_calibrate_do_not_share_a_folder():
    demo, other = (build_parser().parse_args(x) for x in (["demo"], ["calibrate", "p.npz"]))
    assert demo.out != other.out


def test_unknown_words_get_one_sentence(capsys):
    for arguments in (["dmeo"], ["demo", "--bets", "1"], ["demo", "extra"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        check_refusal(end.value.code, *capsys.readouterr(), arguments[-1:])


@pytest.mark.parametrize("package", ["matplotlib", "sklearn"])
def test_a_missing_extra_is_named(package):
    done = run("demo", before=f"sys.modules[{package!r}] = None")
    refused(done, package, 'pip install "softmargin[lab]"')


def test_help_and_version_need_no_extra():
    missing = "; ".join(
        f"sys.modules[{name!r}] = None" for name in ("matplotlib", "sklearn", "rich", "jinja2")
    )
    done = run(before=missing)
    assert done.returncode == 0
    for word in ("β", "demo", "example", "GradientDecayLoss"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert run("--version", before=missing).stdout == f"softmargin {softmargin.__version__}\n"


def test_each_help_can_be_read(capsys):
    for arguments, words in (
        (["--help"], ("usage: softmargin", "commands:", "demo")),
        (["demo", "--help"], ("--out", "--seed", "--seeds", "--betas", "20,5,1,0.1,0.01")),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        output = capsys.readouterr().out
        assert all(word in output for word in words)


def test_it_runs_as_a_module_and_without_greek_letters():
    done = subprocess.run(
        [sys.executable, "-m", "softmargin.cli", "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert b"demo" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_control_c_ends_in_one_line(tmp_path):
    # the script, as a user types it: under "python -m", CPython ends with the signal instead of
    # the exit code if the interrupt has passed through an exec() of a string, as in some imports
    process = subprocess.Popen(
        [Path(sys.executable).with_name("softmargin"), "demo", "--seeds", "1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        # a parent that ignores the signal must not make this test hang
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert "Training" in process.stderr.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert output == ""
    assert errors.strip().splitlines()[-1] == "softmargin demo: interrupted."
    assert "Traceback" not in errors
    assert os.listdir(tmp_path) == []
