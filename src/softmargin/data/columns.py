"""Tables of any kind as columns: CSV, TSV and Parquet, also compressed, and .npz of embeddings.

A column is an array of numbers, float64 with NaN where a value is missing, or an array of text,
with None there. Nothing here imports PyTorch.
"""

from __future__ import annotations

import contextlib
import csv
import numbers
import re
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin._text import nearest, printable

Column = NDArray[Any]
Columns = dict[str, Column]
SEPARATED = (".csv", ".tsv", ".txt")
COMPRESSED = (".gz", ".bz2", ".zst")
KNOWN = ".csv, .tsv, .parquet or .npz, of which the first two may end in .gz, .bz2 or .zst"
MISSING = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "#na", "<na>", "?")
FEATURES = ("x", "features", "embeddings")
TARGETS = ("y", "labels", "target")
LARGEST_HEADER = 1 << 20
SHOWN = 12  # names in a message
INDEX = "__index_level_0__"  # numbers of rows that pandas writes, in CSV without a name


class TableError(ValueError):
    """A table that cannot be used; the message is one sentence."""


@dataclass(frozen=True)
class TableFile:
    """The columns of a file, and what its rows are called.

    Attributes:
        columns: numbers or text by name.
        features: names of the columns that hold one array of features, empty for other tables.
        first: number of the first row, as an editor or NumPy counts.
        unit: "line" or "row".
    """

    columns: Columns
    features: tuple[str, ...] = ()
    first: int = 0
    unit: str = "row"

    def place(self, row: int) -> str:
        """Return the place of a row in words."""
        return f"{self.unit} {self.first + row}"


def read_columns(path: Path, text: Collection[str] = ()) -> TableFile:
    """Read a table; raise :class:`TableError` for a file that is none.

    Args:
        path: the file.
        text: names of columns to leave as text even where all of it are numbers.
    """
    suffixes = [each.lower() for each in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in COMPRESSED
    kind = suffixes[-2 if packed and len(suffixes) > 1 else -1] if suffixes else ""
    if not path.is_file():
        raise TableError(f"FILE must be a file that exists, but got {_quoted(str(path))}.")
    try:
        if kind in SEPARATED:
            found = _separated(path, kind, text)
        elif kind == ".parquet" and not packed:
            found = _parquet(path)
        elif kind == ".npz" and not packed:
            found = _npz(path)
        else:
            raise TableError(f"FILE must end in {KNOWN}, but got {_quoted(path.name)}.")
    except TableError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:  # pyarrow's are of these
        said = str(error).splitlines()
        reason = printable(said[0].rstrip(".")) if said else type(error).__name__
        raise TableError(f"FILE {_quoted(path.name)} cannot be read: {reason}.") from None
    lengths = {len(column) for column in found.columns.values()}
    if not found.columns or lengths == {0}:
        raise TableError(f"FILE {_quoted(path.name)} must hold rows, but there are none in it.")
    return found


def as_columns(table: Any) -> Columns:
    """Return columns by name of a mapping, a frame or an array (N, D)."""
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        named = table if isinstance(table, Mapping) else {c: table[c] for c in table.columns}
        found = {str(name): as_column(values) for name, values in named.items()}
        if len(found) < len(named):
            raise TableError("X must have columns of different names, but two have the same.")
    else:
        array = np.asarray(table)
        if array.ndim != 2:
            raise TableError(f"X must have shape (N, D), but got {array.shape}.")
        found = {f"x{i}": as_column(array[:, i]) for i in range(array.shape[1])}
    if len({len(column) for column in found.values()}) > 1:
        raise TableError("X must have columns of one length, but they differ.")
    return found


def as_column(values: Any) -> Column:
    """Return values as numbers with NaN or as text with None."""
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.dtype.kind in "iuf":
        return np.asarray(array, dtype=np.float64)
    cells = [None if _is_missing(each) else each for each in array.tolist()]
    known = [each for each in cells if each is not None]
    if known and all(isinstance(k, numbers.Real) and not isinstance(k, bool) for k in known):
        return np.array([np.nan if each is None else each for each in cells], dtype=np.float64)
    found = np.empty(len(cells), dtype=object)
    found[:] = [None if each is None else str(each) for each in cells]
    return found


def column_named(columns: Columns, name: str, what: str) -> Column:
    """Return a column; where there is none, list those there are and the nearest name."""
    if name in columns:
        return columns[name]
    close = nearest(name, columns)
    meant = f"; did you mean {_quoted(close[0])}?" if close else "."
    raise TableError(
        f"{what} must name one of the columns {listed(columns)}, but got {_quoted(name)}{meant}"
    )


def listed(names: Any) -> str:
    """Return names for a message, not too many of them."""
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(_quoted(name) for name in names[:SHOWN]) + more


def _quoted(text: str) -> str:
    return f"'{printable(text, 60)}'"


def _is_missing(value: object) -> bool:
    if value is None or (isinstance(value, float) and value != value):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def _separated(path: Path, kind: str, text: Collection[str]) -> TableFile:
    import pyarrow
    from pyarrow import csv as arrow_csv

    with pyarrow.input_stream(path, compression="detect") as stream:
        head = stream.read(LARGEST_HEADER)
    if not head.strip():
        raise TableError(f"FILE {_quoted(path.name)} must hold a table, but it is empty.")
    line = head.decode("utf-8-sig", "replace").splitlines()[0]
    separator = "\t" if kind == ".tsv" else max(",;\t", key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
    if len(names) > 1 and not names[0]:
        names[0] = INDEX
    _check_names(path, names)
    keys = [str(place) for place in range(len(names))]
    with pyarrow.input_stream(path, compression="detect") as stream:
        table = arrow_csv.read_csv(
            stream,
            arrow_csv.ReadOptions(column_names=keys, skip_rows=1),
            arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(keys, pyarrow.string())),
        )
    comma = separator == ";"
    columns = {name: _typed(table.column(i), comma, name in text) for i, name in enumerate(names)}
    columns.pop(INDEX, None)
    return TableFile(columns, first=2, unit="line")


def _check_names(path: Path, names: list[str]) -> None:
    file = _quoted(path.name)
    if not names or not all(names):
        raise TableError(
            f"FILE {file} must name every column in its first line, but column "
            f"{names.index('') + 1 if names else 1} has no name."
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise TableError(
            f"FILE {file} must name every column once, but {_quoted(twice[0])} came twice."
        )


def _typed(texts: Any, comma: bool, as_text: bool) -> Column:
    """Return a column of text as numbers where all that is there are numbers."""
    import pyarrow
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(texts)
    missing = compute.is_in(compute.utf8_lower(trimmed), value_set=pyarrow.array(MISSING))
    trimmed = compute.if_else(missing, None, trimmed)
    plain = compute.replace_substring(trimmed, ",", ".") if comma else trimmed
    if not as_text:
        with contextlib.suppress(pyarrow.ArrowInvalid):
            return np.array(plain.cast(pyarrow.float64()).to_numpy(), dtype=np.float64)
    found = np.empty(len(trimmed), dtype=object)
    found[:] = trimmed.to_pylist()
    return found


def _parquet(path: Path) -> TableFile:
    from pyarrow import parquet, types

    with parquet.ParquetFile(path) as file:
        table = file.read()
    _check_names(path, list(table.column_names))
    columns: Columns = {}
    for name in table.column_names:
        if name == INDEX:
            continue
        column = table.column(name)
        kind = column.type
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            columns.update(_spread(name, column.to_pylist()))
        elif types.is_nested(kind) or types.is_binary(kind):
            raise TableError(
                f"column {_quoted(name)} must hold numbers, text or lists of numbers, but holds "
                f"{_quoted(str(kind))}."
            )
        else:
            columns[name] = _of_arrow(column)
    return TableFile(columns)


def _of_arrow(column: Any) -> Column:
    """Return a plain column of a Parquet file."""
    import pyarrow
    from pyarrow import types

    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return np.array(column.cast(pyarrow.float64()).to_numpy(), dtype=np.float64)
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    return as_column(np.array([*column.to_pylist(), None], dtype=object)[:-1])


def _spread(name: str, lists: list[Any]) -> Columns:
    """Return a column of lists of numbers as one column for each of their places."""
    sizes = {len(each) for each in lists if each is not None}
    if len(sizes) != 1 or None in lists:
        raise TableError(f"column {_quoted(name)} must hold lists of one length, but does not.")
    array = np.array(lists, dtype=np.float64)
    return {f"{name}[{i}]": array[:, i] for i in range(array.shape[1])}


def _npz(path: Path) -> TableFile:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no .npz archive")
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if not arrays:
        raise TableError(f"FILE {_quoted(path.name)} must hold arrays, but there are none in it.")
    columns: Columns = {}
    lower = {name.lower(): name for name in arrays}
    chosen = next((lower[name] for name in FEATURES if name in lower), None)
    if chosen is None:
        raise TableError(
            f"FILE {_quoted(path.name)} must hold features as an array named "
            f"{', '.join(FEATURES[:-1])} or {FEATURES[-1]}, but got {listed(arrays)}."
        )
    features = arrays.pop(chosen)
    if features.ndim != 2 or features.dtype.kind not in "iuf":
        raise TableError(
            f"array {_quoted(chosen)} must hold numbers of shape (N, D), but got "
            f"{features.dtype} of shape {features.shape}."
        )
    x = np.asarray(features, dtype=np.float64)
    columns |= {f"{chosen}[{i}]": x[:, i] for i in range(x.shape[1])}
    names = tuple(columns)
    for name, array in arrays.items():
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.shape == x.shape[:1]:
            columns[name] = as_column(array)
    return TableFile(columns, names)


def target_of_npz(file: TableFile) -> str | None:
    """Return the name of the labels beside features in an .npz file, where it is a usual one."""
    rest = {name.lower(): name for name in file.columns if name not in file.features}
    return next((rest[name] for name in TARGETS if name in rest), None)


def as_labels(column: Column) -> NDArray[Any]:
    """Return classes as whole numbers where all are, and as text otherwise."""
    if column.dtype.kind == "f":
        whole = column.astype(np.int64)
        if (whole == column).all():
            return whole
        return np.array([repr(float(each)) for each in column])
    texts = [str(each) for each in column]
    if all(re.fullmatch(r"0|-?[1-9]\d{0,17}", each) for each in texts):
        return np.array(texts, dtype=np.int64)
    return np.array(texts)


def check_classes(target: NDArray[Any], name: str = "y") -> None:
    """Refuse classes that cannot be cross-validated: one alone, or one with a single row."""
    values, counts = np.unique(target, return_counts=True)
    if len(values) < 2:
        raise TableError(
            f"{name} must hold at least two classes, but got one, {_shown(values[0])}."
        )
    alone = values[counts < 2]
    if len(alone) > 1 and 2 * len(alone) > len(values):
        raise TableError(
            f"{name} must hold classes with at least 2 rows each, but {len(alone)} of its "
            f"{len(values)} values have one row, as if they were measurements."
        )
    if len(alone):
        more = f" and {len(alone) - 1} more classes have" if len(alone) > 1 else " has"
        raise TableError(
            f"{name} must hold at least 2 rows of every class, one to train on and one to test "
            f"on, but {_shown(alone[0])}{more} one row; leave it out or add rows."
        )


def _shown(value: Any) -> str:
    return repr(value.item() if hasattr(value, "item") else value)
