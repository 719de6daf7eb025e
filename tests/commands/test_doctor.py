"""What ``softmargin doctor`` says of packages and data, also where they are missing or broken."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from softmargin.cli import main
from softmargin.commands import COMMANDS, doctor

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
NOT_FOR_USERS = {"dev", "docs"}


def shown(capsys, command="doctor"):
    assert main([command]) == 0
    return capsys.readouterr().out


def row(text, name):
    return next(line for line in text.splitlines() if line.startswith(name))


def test_it_knows_every_extra_as_the_project_declares_it():
    declared = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(doctor.EXTRAS) == set(declared) - NOT_FOR_USERS
    for extra, (_, packages) in doctor.EXTRAS.items():
        wanted = set()
        for line in declared[extra]:
            name, least = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", line).groups()
            wanted.add((name.removesuffix("-cpu"), least))
        assert set(packages.items()) == wanted


def test_info_says_the_same(capsys):
    assert COMMANDS["info"].run is COMMANDS["doctor"].run
    assert shown(capsys, "info") == shown(capsys)


def test_missing_and_old_packages_are_named_with_what_brings_them(capsys, monkeypatch):
    versions = {"ray": "2.9.3", "skorch": "1.0", "lightgbm": "4.0"}

    def version(name):
        if name not in versions:
            raise doctor.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(doctor, "version", version)
    text = shown(capsys)
    assert row(text, "ray").endswith("ray 2.9.3 too old")
    assert row(text, "skorch").endswith("skorch 1.0")
    assert row(text, "boosting").endswith("lightgbm 4.0, xgboost missing")
    wanted = "calibrate,lab,ray,transformers,lightning,torchmetrics,boosting,export"
    assert text.splitlines()[-1].endswith(f'pip install --upgrade "softmargin[{wanted}]"')


def test_data_that_is_there_and_that_is_not(capsys, monkeypatch, tmp_path):
    pytest.importorskip("sklearn")
    monkeypatch.setenv("SOFTMARGIN_DATA", str(tmp_path))
    monkeypatch.setenv("SOFTMARGIN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "iris.csv").write_text("")
    text = shown(capsys)
    assert row(text, "data folders").endswith(f"{tmp_path}, {tmp_path / 'cache'}")
    assert row(text, "data found").split(maxsplit=2)[2].startswith("digits, iris, uci (1 of ")
    assert row(text, "data not found").split(maxsplit=3)[3].startswith("mnist, ")
    monkeypatch.setenv("SOFTMARGIN_DATA", str(tmp_path / "none"))
    assert "SOFTMARGIN_DATA must name a folder that exists" in row(shown(capsys), "data folders")


def test_a_broken_pytorch_is_named_and_the_rest_is_shown(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so: cannot open')\n")
    places = [str(tmp_path), str(Path(doctor.__file__).parents[2])]
    done = subprocess.run(
        [sys.executable, "-m", "softmargin", "doctor"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert row(done.stdout, "PyTorch").endswith("cannot be imported: libtorch_cpu.so: cannot open")
    assert row(done.stdout, "extra").endswith("packages")
