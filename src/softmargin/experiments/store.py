"""Where cells keep their results: one folder each, whole at every moment.

``.cells/<key>/`` holds ``cell.json`` (what it is), ``result.json`` and ``arrays.npz`` once it is
finished, ``error.txt`` where it failed, ``progress`` while it runs, and whatever checkpoints the
work itself keeps there, which are removed when it is finished.
"""

from __future__ import annotations

import errno
import io
import json
import shutil
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from softmargin.experiments.experiment import Cell, Result
from softmargin.experiments.work import find_work
from softmargin.training.folder import RunFolder

CELLS = ".cells"
FORMAT = 1  # of a cell's files; those before it was written down are of the first
FULL = (errno.ENOSPC, errno.EDQUOT)


class CellStore:
    """The cells of a results folder."""

    def __init__(self, root: Path) -> None:
        """Name the results folder; nothing is written yet."""
        self.root = root

    def folder(self, cell: Cell) -> RunFolder:
        """Return the folder of a cell."""
        return RunFolder(self.root / CELLS / cell.key)

    def is_finished(self, cell: Cell) -> bool:
        """Whether the cell has a result."""
        return (self.folder(cell).path / "result.json").exists()

    def result(self, cell: Cell) -> Result:
        """Return the result of a finished cell."""
        path, arrays = self.folder(cell).path, {}
        numbers = self._stored(cell)["numbers"]
        if (path / "arrays.npz").exists():
            with np.load(path / "arrays.npz", allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        return Result(numbers, arrays)

    def seconds(self, cell: Cell) -> float:
        """Return how long a finished cell took."""
        return float(self._stored(cell)["seconds"])

    def check_format(self, cell: Cell) -> None:
        """Refuse a finished cell whose files another version has written in another way."""
        if self.is_finished(cell):
            self._stored(cell)

    def error(self, cell: Cell) -> str | None:
        """Return what a cell failed with, if it did."""
        path = self.folder(cell).path / "error.txt"
        return path.read_text(encoding="utf-8") if path.exists() else None

    def progress(self, cell: Cell) -> float:
        """Return how far a cell is, from 0 to 1."""
        if self.is_finished(cell):
            return 1.0
        try:
            return float((self.folder(cell).path / "progress").read_text())
        except (OSError, ValueError):
            return 0.0

    def run(self, cell: Cell, report: Callable[[float], None] | None = None) -> None:
        """Run a cell that is not finished, and keep its result or its error.

        A second process that wants the same cell waits for the first and finds it finished.
        """
        folder = self.folder(cell)
        with folder.locked(wait=True):
            if self.is_finished(cell):
                return
            (folder.path / "error.txt").unlink(missing_ok=True)
            described = {"work": cell.work, "config": dict(cell.config), "label": cell.label}
            folder.write("cell.json", json.dumps(described, indent=1, ensure_ascii=False))
            tell = _Teller(folder, report)
            started = time.monotonic()
            try:
                result = find_work(cell.work)(cell.config, folder.path, tell)
            except Exception as error:
                text = f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"
                with suppress(OSError):  # where not even this can be written, the error says why
                    folder.write("error.txt", text)
                raise
            self._keep(folder, result, time.monotonic() - started)

    def _keep(self, folder: RunFolder, result: Result, seconds: float) -> None:
        if result.arrays:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **result.arrays)  # type: ignore[arg-type]
            folder.write("arrays.npz", buffer.getvalue())
        content = {"format": FORMAT, "numbers": result.numbers, "seconds": round(seconds, 2)}
        folder.write("result.json", json.dumps(content, indent=1, ensure_ascii=False))
        for path in folder.path.iterdir():  # checkpoints have served
            if path.is_dir():
                shutil.rmtree(path)
        (folder.path / "progress").unlink(missing_ok=True)

    def _stored(self, cell: Cell) -> dict[str, Any]:
        path = self.folder(cell).path / "result.json"
        try:
            stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"cells must have a readable result.json, but got {str(path)!r}: {error}."
            ) from None
        if (found := stored.get("format", 1)) != FORMAT:
            raise ValueError(
                f"cells must be of format {FORMAT}, but got format {found!r} in {str(path)!r}: it "
                "is from another version of softmargin."
            )
        return stored


def is_full(error: BaseException) -> bool:
    """Whether an error says that there is no space left, which no other cell would find either."""
    return isinstance(error, OSError) and error.errno in FULL


class _Teller:
    """Passes progress on, and to a file once a second, where other processes can read it."""

    def __init__(self, folder: RunFolder, report: Callable[[float], None] | None) -> None:
        self.path, self.report, self.told = folder.path / "progress", report, 0.0

    def __call__(self, share: float) -> None:
        if self.report is not None:
            self.report(share)
        if (now := time.monotonic()) - self.told > 1:
            self.told = now
            with suppress(OSError):  # nobody's result hangs on it
                self.path.write_text(f"{share:.4f}")
