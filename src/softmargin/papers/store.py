"""Where cells keep their results: one folder each, safe to interrupt at any moment.

``.cells/<key>/`` holds ``cell.json`` (what it is), ``result.json`` and ``arrays.npz`` once it is
finished, ``error.txt`` where it failed, ``progress`` while it runs, and whatever checkpoints the
work itself keeps there, which are removed when it is finished. ``result.json`` has its own
checksum and that of the arrays: a cell that was damaged afterwards is refused.

``cells/<key>.json`` holds the same without test logits, rounded and small enough to be committed
(:mod:`softmargin.papers.compact`). It is written when a cell finishes, and read where the folder of
the cell is not there: what is committed is not trained again.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import shutil
import time
import traceback
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from softmargin._files import UNFINISHED, DamagedFileError, read_json, write_file, write_json
from softmargin.papers import compact, provenance
from softmargin.papers.core import Cell, Result, find_work
from softmargin.training.folder import RunFolder

CELLS, COMMITTED = ".cells", "cells"
RESULT, ARRAYS, ERROR, PROGRESS = "result.json", "arrays.npz", "error.txt", "progress"
FORMAT = 1  # of a cell's files; those before it was written down are of the first
FULL = (errno.ENOSPC, errno.EDQUOT)  # no other cell would find space either


class CellStore:
    """The cells of a results folder."""

    def __init__(self, root: Path) -> None:
        """Name the results folder; nothing is written yet."""
        self.root = root

    def locked(self) -> AbstractContextManager[None]:
        """Let one process at a time write results, so that the page over all of them has all."""
        return RunFolder(self.root / CELLS).locked(wait=True)

    def folder(self, cell: Cell) -> Path:
        """Return the folder of a cell."""
        return self.root / CELLS / cell.key

    def committed(self, cell: Cell) -> Path:
        """Return the file with what a cell commits."""
        return self.root / COMMITTED / f"{cell.key}.json"

    def is_full(self, cell: Cell) -> bool:
        """Whether the cell has a result with all its arrays."""
        return (self.folder(cell) / RESULT).exists()

    def is_finished(self, cell: Cell) -> bool:
        """Whether the cell has a result, here or committed."""
        return self.is_full(cell) or self.committed(cell).exists()

    def error(self, cell: Cell) -> str | None:
        """Return what a cell failed with, if it did."""
        path = self.folder(cell) / ERROR
        return path.read_text(encoding="utf-8") if path.exists() else None

    def keep_error(self, cell: Cell, text: str) -> None:
        """Note what a cell failed with."""
        self.folder(cell).mkdir(parents=True, exist_ok=True)
        write_file(self.folder(cell) / ERROR, text)

    def progress(self, cell: Cell) -> float:
        """Return how far a cell is, from 0 to 1."""
        if self.is_finished(cell):
            return 1.0
        try:
            return float((self.folder(cell) / PROGRESS).read_text())
        except (OSError, ValueError):
            return 0.0

    def run(self, cell: Cell, report: Callable[[float], None] = lambda _: None) -> None:
        """Run a cell that is not finished, and keep its result or its error.

        A second process that wants the same cell waits for the first and finds it finished.

        Raises:
            OSError: where the disk is full.
        """
        folder, told = self.folder(cell), 0.0

        def tell(share: float) -> None:
            """Pass progress on, and to a file once a second, where other processes can read it."""
            nonlocal told
            report(share)
            if (now := time.monotonic()) - told > 1:
                told = now
                with suppress(OSError):  # results do not depend on it
                    write_file(folder / PROGRESS, f"{share:.4f}")

        with RunFolder(folder).locked(wait=True):
            if self.is_finished(cell):
                return
            (folder / ERROR).unlink(missing_ok=True)
            described = {"work": cell.work, "config": dict(cell.config), "label": cell.label}
            write_json(folder / "cell.json", described)
            started = time.monotonic()
            try:
                result = find_work(cell.work)(cell.config, folder, tell)
                seconds = time.monotonic() - started
                _keep(folder, result, seconds, provenance.of_cell(cell))
                self._commit(cell)
            except Exception as error:
                if isinstance(error, OSError) and error.errno in FULL:
                    raise
                text = f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"
                self.keep_error(cell, text)

    def tidy(self, cell: Cell) -> None:
        """Do what is left to do where a process was killed just after it had finished a cell."""
        folder = self.folder(cell)
        if not self.is_full(cell):
            return
        if any(map(_has_served, folder.iterdir())) or not self.committed(cell).exists():
            with RunFolder(folder).locked(wait=True):
                self._commit(cell)
                _tidy(folder)

    def _commit(self, cell: Cell) -> None:
        """Write what a finished cell commits, unless it is there; its folder is locked."""
        path = self.committed(cell)
        for left in path.parent.glob(f".{path.name}.*{UNFINISHED}"):  # by a killed writer
            left.unlink(missing_ok=True)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, compact.packed(cell, self.result(cell)), compact.dumps)

    def result(self, cell: Cell) -> Result:
        """Return the result of a finished cell as conclusions read it, which is rounded.

        Where it was committed and is not here in full, it has no test logits.

        Raises:
            DamagedFileError: where a file of the cell is not what was written.
            ValueError: where it is of another version.
        """
        if self.is_full(cell):
            return compact.rounded(cell, provenance.completed(cell, self._full(cell)))
        return self.committed_result(cell)

    def committed_result(self, cell: Cell) -> Result:
        """Return what a cell has committed; raises as :meth:`result` does."""
        path = self.committed(cell)
        remedy = "restore it, or delete it and run the same command again"
        stored = read_format(path, "committed cells", compact.FORMAT, remedy)
        try:
            if Cell(stored["work"], stored["config"], "").key != cell.key:
                raise DamagedFileError(path, "it has the numbers of another cell", remedy)
            return compact.unpacked(stored)
        except (KeyError, TypeError, AttributeError, zlib.error) as error:
            raise DamagedFileError(path, f"it cannot be read ({error})", remedy) from None

    def _full(self, cell: Cell) -> Result:
        """Return the result in a cell's folder.

        Cells of earlier versions do not say whether they have arrays, and have no checksum.
        """
        folder = self.folder(cell)
        remedy = (
            f"delete the folder {str(folder)!r} and run the same command again, which computes "
            "this cell again unless its numbers are committed"
        )
        stored = read_format(folder / RESULT, "cells", FORMAT, remedy, unsaid=1)
        for name, kind in (("numbers", dict), ("seconds", (int, float))):
            if not isinstance(stored.get(name), kind):
                raise DamagedFileError(folder / RESULT, f"it has no {name}", remedy)
        numbers, seconds = stored["numbers"], float(stored["seconds"])
        data = stored.get("data", {})
        path, expected = folder / ARRAYS, stored.get("arrays", ...)
        if expected is None or (expected is ... and not path.exists()):
            return Result(numbers, {}, seconds, data)
        if not path.exists():
            raise DamagedFileError(path, "it is missing", remedy)
        content = path.read_bytes()
        if expected is not ... and checksum(content) != expected:
            raise DamagedFileError(path, "it does not match its checksum", remedy)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return Result(numbers, dict(arrays), seconds, data)
        except Exception as error:  # of an archive without a checksum anything may be broken
            raise DamagedFileError(path, f"it cannot be read ({error})", remedy) from None


def _keep(folder: Path, result: Result, seconds: float, data: Mapping[str, Any]) -> None:
    """Write the files of a result, the one that says "finished" last."""
    content: dict[str, Any] = {"format": FORMAT, "numbers": result.numbers, "arrays": None}
    if result.arrays:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **result.arrays)  # type: ignore[arg-type]
        write_file(folder / ARRAYS, buffer.getvalue())
        content["arrays"] = checksum(buffer.getvalue())
    write_json(folder / RESULT, {**content, "seconds": round(seconds, 2), "data": data})
    _tidy(folder)


def checksum(content: bytes) -> str:
    """Return the checksum of a file."""
    return hashlib.sha256(content).hexdigest()


def _tidy(folder: Path) -> None:
    for path in filter(_has_served, folder.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _has_served(path: Path) -> bool:
    """Whether it only served to finish a cell: checkpoints, progress, what a kill has left."""
    return path.is_dir() or path.name == PROGRESS or path.suffix == UNFINISHED


def read_format(
    path: Path, what: str, expected: int, remedy: str, unsaid: int | None = None
) -> dict[str, Any]:
    """Return what :func:`softmargin._files.write_json` wrote, refusing other formats and damage.

    Args:
        path: the file.
        what: it is part of, such as ``"cells"``.
        expected: the only format that this version reads.
        remedy: what to do about a damaged file.
        unsaid: the format of files that do not say theirs.

    Raises:
        DamagedFileError: where it is not what was written.
        ValueError: where it is of another format; that is checked first, since another version
            may have another kind of checksum.
    """
    try:
        content = json.loads(path.read_bytes())
    except ValueError:  # read_json says what is wrong with it
        content = None
    if isinstance(content, dict) and (found := content.get("format", unsaid)) != expected:
        raise ValueError(
            f"{what} must be of format {expected}, but got format {found!r} in {str(path)!r}: it "
            "is from another version of softmargin."
        )
    return read_json(path, remedy)
