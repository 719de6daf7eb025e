"""Arrays in a file with its checksum."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from softmargin._files import read_sealed, seal, write_file


def write_arrays(path: Path, arrays: dict[str, Any]) -> bytes:
    """Write an .npz file with its checksum, and return its content."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    content = seal(buffer.getvalue())
    write_file(path, content)
    return content


def read_arrays(path: Path, remedy: str) -> dict[str, Any]:
    """Read what :func:`write_arrays` has written; it can hold no code."""
    with np.load(io.BytesIO(read_sealed(path, remedy)), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
