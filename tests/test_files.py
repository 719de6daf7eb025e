"""One writer for every file: whole or not there, and damage is seen."""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile

import numpy as np
import pytest
import torch

from softmargin._files import (
    SEAL,
    DamagedFileError,
    read_json,
    read_sealed,
    seal,
    write_file,
    write_json,
)

REMEDY = "delete it and run the same command again"


def binary_files() -> dict[str, bytes]:
    archive, single, checkpoint = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez_compressed(archive, a=np.arange(50), b=np.ones((3, 4), np.float32))
    np.save(single, np.arange(100, dtype=np.float16))
    torch.save({"w": torch.arange(30.0), "step": 7}, checkpoint)
    buffers = {"x.npz": archive, "x.npy": single, "x.pt": checkpoint}
    return {name: buffer.getvalue() for name, buffer in buffers.items()}


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.pt"])
def test_sealed_files_are_read_by_everybody(tmp_path, name):
    original = binary_files()[name]
    path = tmp_path / name
    write_file(path, seal(original))
    assert read_sealed(path, REMEDY) == original
    if name == "x.pt":
        assert torch.load(path, weights_only=True)["step"] == 7
    elif name == "x.npz":
        assert np.load(path)["a"].tolist() == list(range(50))
        assert zipfile.ZipFile(path).testzip() is None
    else:
        assert np.load(path).shape == (100,)


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.pt"])
def test_every_flipped_byte_is_seen_or_harmless(tmp_path, name):
    original = binary_files()[name]
    sealed = seal(original)
    path = tmp_path / name
    for position in range(0, len(sealed), 7):
        damaged = bytearray(sealed)
        damaged[position] ^= 0x40
        path.write_bytes(damaged)
        if damaged[len(original) :].startswith(SEAL):
            with pytest.raises(DamagedFileError, match=f"{name}' is damaged: .*; {REMEDY}."):
                read_sealed(path, REMEDY)
        else:  # the mark itself was hit: what it protects is as it was
            assert read_sealed(path, REMEDY).startswith(original[:-2])


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"")
    with pytest.raises(DamagedFileError, match="is damaged: it is empty; delete it and"):
        read_sealed(tmp_path / "x.npz", REMEDY)


def test_json_round_trip_and_damage(tmp_path):
    path = tmp_path / "result.json"
    content = {"ece": 0.1 + 0.2, "names": ("β", "τ"), "nan": float("nan"), "n": 3}
    write_json(path, content)
    found = read_json(path, REMEDY)
    assert found["ece"] == content["ece"]
    assert found["names"] == ["β", "τ"]
    assert "sha256" in json.loads(path.read_text("utf-8"))
    path.write_text(path.read_text("utf-8").replace('"n": 3', '"n": 4'), "utf-8")
    with pytest.raises(DamagedFileError, match="does not match its checksum"):
        read_json(path, REMEDY)
    for text in (b"", b"{", b"[1]", b"\xff\xfe\x00"):
        path.write_bytes(text)
        with pytest.raises(DamagedFileError, match="result.json' is damaged"):
            read_json(path, REMEDY)


def test_files_of_earlier_versions_are_read(tmp_path):
    (tmp_path / "a.json").write_text('{"n": 3}')
    assert read_json(tmp_path / "a.json", REMEDY) == {"n": 3}
    (tmp_path / "x.npz").write_bytes(binary_files()["x.npz"])
    assert read_sealed(tmp_path / "x.npz", REMEDY) == binary_files()["x.npz"]


def test_writers_share_no_temporary_name_and_readers_see_whole_files(tmp_path):
    path = tmp_path / "shared"
    write_file(path, b"0" * 200_000)
    errors: list[BaseException] = []
    done = threading.Event()

    def write(letter: bytes) -> None:
        try:
            for _ in range(40):
                write_file(path, letter * 200_000)
        except BaseException as error:
            errors.append(error)

    def read() -> None:
        while not done.is_set():
            content = path.read_bytes()
            if len(content) != 200_000 or content != content[:1] * 200_000:
                errors.append(AssertionError("half a file"))

    writers = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    reader = threading.Thread(target=read)
    for thread in [reader, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not errors
    assert os.listdir(tmp_path) == ["shared"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_file(path, "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_written_files_have_the_usual_permissions(tmp_path):
    write_file(tmp_path / "ours", "x")
    (tmp_path / "theirs").write_text("x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_the_error_survives_the_way_between_processes(tmp_path):
    import pickle

    error = DamagedFileError(tmp_path / "x.pt", "it is empty", REMEDY)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
