"""Reading files that strangers made: archives stay in their folder, pickles hold only numbers.

Neither runs code from the file, nor writes anywhere but where it was told to.
"""

from __future__ import annotations

import errno
import lzma
import os
import pickle
import stat
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from softmargin.data.errors import BrokenFileError

# what the standard library raises for archives that are broken, locked or packed in unknown ways
_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    ValueError,
    IndexError,
)


def extract(archive: Path, into: Path) -> None:
    """Unpack a tar or zip archive into a folder, all of it or nothing.

    It is first unpacked whole in a folder of its own there, and then moved in by renaming. A
    member that would be written outside, and a link or device in a zip, is refused by name.
    """
    with tempfile.TemporaryDirectory(dir=into, prefix=".unpacking-") as name:
        waiting = Path(name)
        try:
            if zipfile.is_zipfile(archive):
                _extract_zip(archive, waiting)
            else:
                with tarfile.open(archive) as opened:
                    opened.extractall(waiting, filter="data")
        except BrokenFileError:
            raise
        except tarfile.FilterError as error:
            _refuse(archive, f"its member {error.tarinfo.name!r} would leave the folder")
        except (*_UNREADABLE, OSError) as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise  # the disk's fault, not the archive's
            why = str(error).partition("\n")[0].rstrip(":.")  # tarfile lists all that it tried
            _refuse(archive, f"it cannot be read as an archive ({why})")
        _move_in(waiting, into)


def _move_in(source: Path, into: Path) -> None:
    for child in sorted(source.iterdir()):
        target = into / child.name
        if child.is_dir() and target.is_dir():  # a copy of which files were missing
            _move_in(child, target)
        else:
            os.replace(child, target)


def _extract_zip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            name = member.filename.replace("\\", "/")
            mode = member.external_attr >> 16
            outside = name.startswith("/") or ".." in name.split("/") or ":" in name
            if outside or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR)):
                _refuse(archive, f"its member {member.filename!r} would leave the folder")
        opened.extractall(into)


def _refuse(archive: Path, why: str) -> NoReturn:
    raise BrokenFileError(f"{archive} was not unpacked: {why}.") from None


def _latin1(text: str, _encoding: str = "latin1") -> bytes:
    return text.encode("latin1")


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1,  # how old protocols write bytes
}


class NumbersOnly(pickle.Unpickler):
    """An unpickler for dicts and lists of numbers, text and arrays, which runs no other code.

    The CIFAR files are pickles. Their arrays are rebuilt by three names of NumPy; a pickle that
    asks for any other name is refused.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the allowed names, or refuse."""
        try:
            return _ALLOWED[module.replace("._core.", ".core."), name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def read_numbers(file: IO[bytes], path: Path) -> dict[str, Any]:
    """Read a pickled dict of numbers, text and arrays; refuse anything else by the file's name."""
    try:
        content = NumbersOnly(file, encoding="latin1").load()
    except OSError:
        raise
    except Exception as error:  # a broken pickle can raise anything
        raise BrokenFileError(
            f"{path} must be a pickle of arrays, text and numbers only, but {error}."
        ) from None
    if not isinstance(content, dict):
        raise BrokenFileError(f"{path} must hold a dict, but holds {type(content).__name__}.")
    return {k.decode() if isinstance(k, bytes) else str(k): v for k, v in content.items()}
