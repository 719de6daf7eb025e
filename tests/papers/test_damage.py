"""Files that were damaged: one sentence that names them, and never other numbers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_up_runs
import pytest
from made_up_runs import EXPERIMENT, ID, run

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from softmargin.cli import main
from softmargin.papers.run import check_folder
from softmargin.papers.store import CellStore
from softmargin.papers.verify import verify
from softmargin.papers.write import read_result

PUBLISHED = Path(__file__).parents[2] / "results"
CELL = EXPERIMENT.cells(EXPERIMENT.scope("smoke"))[0]
FILES = (
    f".cells/{CELL.key}/result.json",
    f".cells/{CELL.key}/arrays.npz",
    f".cells/{CELL.key}/cell.json",
    f"{ID}/numbers.json",
    f"{ID}/README.md",
    f"{ID}/of-2.svg",
    "README.md",
)
HARMLESS = ("cell.json",)  # no number is in it


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made_up_runs.add(monkeypatch)
    run(tmp_path / "out", ID)
    return tmp_path / "out"


def damages(content: bytes) -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "half", content[: len(content) // 2]
    yield "cut", content[:-1]
    for position in range(0, len(content), max(1, len(content) // 100)):
        for bit in (0x01, 0x40):
            flipped = bytearray(content)
            flipped[position] ^= bit
            yield f"byte {position} ^ {bit}", bytes(flipped)


def numbers(out: Path) -> Any:
    """Return all numbers, as readers get them: in results, and from cells."""
    meta, outcome = read_result(out / ID)
    results = [CellStore(out).result(cell) for cell in EXPERIMENT.cells(EXPERIMENT.scope("smoke"))]
    arrays = [{name: own.tolist() for name, own in each.arrays.items()} for each in results]
    return meta["seeds"], outcome.as_dict(), [each.numbers for each in results], arrays


def read(out: Path) -> tuple[Any, str]:
    """Return all numbers, or why they cannot be read."""
    try:
        return numbers(out), ""
    except ValueError as error:
        return None, str(error)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_damage_is_seen_or_harmless(out: Path, name: str) -> None:
    path, expected = out / name, numbers(out)
    content = path.read_bytes()
    seen = 0
    for what, damaged in damages(content):
        path.write_bytes(damaged)
        problems = [line for checked in verify(out) for line in checked.problems] or ["none"]
        assert all("\n" not in line for line in problems), what
        named = any(path.name in line for line in problems)
        found, error = read(out)
        if error:
            assert str(path) in error, what
            assert re.search(r"run .* again|another version", error), what
            assert named, what
            with pytest.raises(ValueError, match=re.escape(str(path))):
                check_folder(out, [CELL])
        else:
            assert found == expected, what
            # a checksum that lost its name is none; line ends are all the same to readers
            unread = b"sha256" not in damaged if path.suffix == ".json" else b"\r" in damaged
            assert named or unread or path.name in HARMLESS or damaged.strip() == content.strip()
        seen += named
    assert seen > 100 or path.name in HARMLESS


@pytest.mark.parametrize("name", FILES[:2])
@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "deleted"])
def test_commands_say_it_in_one_sentence(
    out: Path, capsys: pytest.CaptureFixture[str], name: str, damage: str
) -> None:
    path = out / name
    content = path.read_bytes()
    flipped = content[:40] + bytes([content[40] ^ 1]) + content[41:]
    changed = {"empty": b"", "truncated": content[:60], "flipped": flipped}
    if damage == "deleted":
        path.unlink()
    else:
        path.write_bytes(changed[damage])
    capsys.readouterr()
    code = main(["reproduce", "verify", "--out", str(out)])
    output, errors = capsys.readouterr()
    if (damage, path.name) == ("deleted", "result.json"):  # an unfinished cell is no damage
        assert (code, errors) == (0, "")
        return
    assert (code, errors) == (1, "")
    (line,) = output.splitlines()
    assert str(path) in line
    for action in (["run", ID], ["status"]):
        code = main(["reproduce", *action, "--scale", "smoke", "--out", str(out)])
        output, errors = capsys.readouterr()
        assert (code, output) == (2, "")
        assert errors.count("\n") == 1
        assert str(path) in errors
        assert f"delete the folder {str(path.parent)!r} and run the same command again" in errors
    shutil.rmtree(path.parent)  # as it says
    assert main(["reproduce", "run", ID, "--scale", "smoke", "--out", str(out)]) == 0
    assert main(["reproduce", "verify", "--out", str(out)]) == 0


@pytest.mark.parametrize("action", [["run", ID, "--scale", "smoke"], ["status"], ["report"]])
def test_damaged_numbers_stop_every_command(
    out: Path, capsys: pytest.CaptureFixture[str], action: list[str]
) -> None:
    path = out / ID / "numbers.json"
    path.write_text(path.read_text().replace('"mean"', '"nean"', 1))
    capsys.readouterr()
    assert main(["reproduce", *action, "--out", str(out)]) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert f"{str(path)!r} is damaged: it does not match its checksum; restore it" in errors


def test_cells_without_a_checksum_are_read(out: Path) -> None:
    expected = numbers(out)
    path = CellStore(out).folder(CELL) / "result.json"
    stored = json.loads(path.read_text())
    for name in ("sha256", "arrays", "format"):
        del stored[name]
    path.write_text(json.dumps(stored))
    assert numbers(out) == expected
    arrays = path.with_name("arrays.npz")
    arrays.write_bytes(arrays.read_bytes()[:100])
    with pytest.raises(ValueError, match="arrays.npz' is damaged: it cannot be read"):
        numbers(out)


@pytest.mark.parametrize(
    "path", sorted(PUBLISHED.glob("*/numbers.json")), ids=lambda p: p.parent.name
)
def test_published_numbers_cannot_change_unnoticed(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert '"sha256"' in text
    copy = shutil.copytree(path.parent, tmp_path / path.parent.name)
    read_result(copy)
    begin = text.index('"values": [') if '"values": [' in text else text.index('"y": [')
    number = re.compile(r"\d").search(text, begin + 11)
    assert number is not None
    changed = str((int(number[0]) + 1) % 10)
    at = number.start()
    (copy / "numbers.json").write_text(text[:at] + changed + text[at + 1 :], encoding="utf-8")
    problems = [line for checked in verify(tmp_path) for line in checked.problems]
    assert any("numbers.json' is damaged: " in line for line in problems)
