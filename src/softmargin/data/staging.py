"""Where downloads are while they are unfinished: one hidden folder beside the data sets.

A data set has a lock there, and a folder that only the holder of the lock uses. So whatever is in
that folder when the lock is taken was left by a process that was killed, and is removed.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

FOLDER = ".downloads"


@contextlib.contextmanager
def staging(root: Path, name: str) -> Iterator[Path]:
    """Hold the lock of a data set below a data folder, and give its empty folder to work in."""
    place = root / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    own = place / name.replace("/", "-")
    with FileLock(f"{own}.lock"):
        _clear(place, own.name)
        own.mkdir()
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)


def _clear(place: Path, own: str) -> None:
    """Remove what killed processes left: of this data set, and of others that nobody fetches."""
    for left in [path for path in place.iterdir() if path.is_dir()]:
        if left.name == own:
            shutil.rmtree(left)
            continue
        with contextlib.suppress(Timeout), FileLock(f"{left}.lock", timeout=0):
            shutil.rmtree(left, ignore_errors=True)
