"""``softmargin bench``: what it measures, and what it writes."""

from __future__ import annotations

import getpass
import json
import platform

import pytest
import torch

from softmargin import cli
from softmargin.bench import peers, run
from softmargin.bench.measure import best_by_part, exponent, peak_bytes, ratios


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_quick_run(tmp_path, capsys):
    parts = [f"--only={part}" for part in ("losses", "linear", "memory", "roofline")]
    out = tmp_path / "results"
    assert cli.main(["bench", "--quick", "--seconds=0.001", f"--out={out}", *parts]) == 0
    text = (out / "bench.json").read_text()
    results = json.loads(text)
    names = {row["name"] for row in results["ratios"]}
    assert {"cross-entropy", "gradient decay", "one-hot idiom", "shifted formula"} <= names
    for row in results["ratios"]:
        assert 0 < row["low"] <= row["high"]
        assert row["seconds"] > 0
    assert results["machine"]["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    for private in (platform.node(), getpass.getuser(), str(tmp_path)):
        assert not private or f'"{private}' not in text
    buffers = {row["name"]: row.get("buffers") for row in results["memory"]}
    assert buffers["cross-entropy"] >= 3
    shown = capsys.readouterr().out
    assert "Ratios to the first contender" in shown
    assert "Bytes moved beside a copy" in shown
    assert "<title>Time beside the usual choice</title>" in (out / "ratios.svg").read_text()


@pytest.mark.slow
def test_a_quick_run_of_everything(tmp_path):
    assert cli.main(["bench", "--quick", "--seconds=0.001", f"--out={tmp_path}"]) == 0
    results = json.loads((tmp_path / "bench.json").read_text())
    assert {row["group"] for row in results["ratios"]} == {*run.CASES, "smoothed"}
    assert {row["axis"] for row in results["growth"]} == {"N", "C", "K"}
    assert "<title>How time grows" in (tmp_path / "growth.svg").read_text()


def test_contenders_take_turns():
    turns = []
    work = {name: (lambda name=name: turns.append(name)) for name in "abc"}
    best = best_by_part(work, seconds=0.0, parts=2)
    assert "".join(turns) == "abc" * 3  # once before it counts
    assert {len(times) for times in best.values()} == {2}
    turns.clear()
    assert [row.name for row in ratios(work, 0.0, 1)] == ["a", "b", "c"]
    assert "".join(turns) == "abab" + "acac"


def test_shares_of_the_work_count(monkeypatch):
    monkeypatch.setattr(
        run, "ratios", lambda *_: [run_of("peer", 2.0, 1.0), run_of("us", 4.0, 2.0)]
    )
    case = peers.Case("g", "w", {}, bounds={"us": 0.5}, shares={"peer": 0.1})
    peer, us = run.compare(case, 1.0)
    assert (peer["seconds"], peer["ratio"], peer["bound"]) == (20.0, 1.0, None)
    assert (us["seconds"], us["ratio"], us["bound"]) == (4.0, pytest.approx(0.2), 0.5)


def test_bounds_are_beside_the_fastest_peer(monkeypatch):
    found = [run_of("peer", 2.0, 1.0), run_of("other", 1.0, 0.5), run_of("us", 0.6, 0.3)]
    monkeypatch.setattr(run, "ratios", lambda *_: found)
    case = peers.Case("g", "w", {}, bounds={"us": 0.5}, peers=("peer", "other"))
    assert [row["bound"] for row in run.compare(case, 1.0)] == [None, None, 0.25]


def run_of(name, seconds, ratio):
    from softmargin.bench.measure import Ratio

    return Ratio(name, seconds, ratio, ratio, ratio)


def test_missing_packages_are_named_once():
    peers.skipped.clear()
    assert not peers.found("no_such_package_here")
    assert not peers.found("no_such_package_here")
    assert peers.skipped == ["no-such-package-here: not installed"]


def test_the_ratio_of_the_first_is_1():
    first, second = ratios({"a": lambda: None, "b": lambda: sum(range(100))}, 0.001)
    assert first.ratio == first.low == first.high == 1
    assert 0 < second.low <= second.high


def test_peak_and_exponent():
    assert peak_bytes(lambda: torch.empty(1000, dtype=torch.float32)) == 4000
    assert exponent([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2)
