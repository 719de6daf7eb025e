"""Reading the JSON files of results: of a format that this version knows, and undamaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from softmargin._files import read_json


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
        ValueError: where it is of another format; that comes first, since another version may
            have another kind of checksum.
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
