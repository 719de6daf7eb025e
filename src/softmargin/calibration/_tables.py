"""Readers of CSV and Parquet files of predictions, by pyarrow."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softmargin.calibration._files import MOST_CLASSES, Blocks, Reader, quoted, sentence

LONGEST_LINE = 1 << 24  # bytes, and how much is read at once
MOST_COLUMNS = MOST_CLASSES + 1000
EMPTY = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "#na", "<na>")


class Arrow(Reader):
    """A table that pyarrow reads batch by batch."""

    def batches(self, columns: list[int]) -> Iterator[list[Any]]:
        """Yield arrays of some columns."""
        raise NotImplementedError

    def blocks(self, chosen: list[int], label: int) -> Blocks:
        """Yield rows of the predictions and their labels."""
        done, width = 0, 0
        places = [*chosen, label]
        with self.readable():
            for arrays in self.batches(places):
                columns = [
                    self._numbers(array, place, done, width)
                    for array, place in zip(arrays, places, strict=True)
                ]
                labels = columns.pop()
                if labels.ndim != 1 or (len(columns) > 1 and any(c.ndim > 1 for c in columns)):
                    raise ValueError(
                        f"FILE {self.file} must hold predictions in one column of lists or in "
                        f"several of numbers, and labels in one of numbers, but "
                        f"{quoted(self.names[chosen[0]])} … {quoted(self.names[label])} are not."
                    )
                values = columns[0] if columns[0].ndim == 2 else np.stack(columns, 1)
                width = values.shape[1]
                yield values, labels
                done += len(labels)

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Turn pyarrow's errors into a sentence."""
        from pyarrow import ArrowException

        try:
            yield
        except ArrowException as error:
            raise ValueError(f"FILE {self.file} cannot be read: {sentence(error)}.") from error

    def _numbers(self, column: Any, place: int, done: int, width: int) -> NDArray[Any]:
        """Return a column of numbers, or of lists of numbers that all have the same length."""
        from pyarrow import compute, types

        name = f"column {quoted(self.names[place])}"

        def refuse(wrong: Any, rule: str, found: str = "is empty") -> None:
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"{name} must hold {rule}, but {self.place(done + row)} {found}.")

        def plain(array: Any) -> NDArray[Any]:
            return np.asarray(array.to_numpy(zero_copy_only=False))

        def holds_numbers(kind: Any) -> bool:
            return bool(types.is_integer(kind) or types.is_floating(kind))

        if column.null_count:
            refuse(plain(column.is_null()), "numbers")
        kind = column.type
        if holds_numbers(kind):
            return plain(column)
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        if not (is_list and holds_numbers(kind.value_type)):
            raise ValueError(
                f"{name} in {self.file} must hold numbers or lists of numbers, but holds "
                f"{quoted(str(kind))}."
            )
        lengths = plain(compute.list_value_length(column))
        width = width or (int(lengths[0]) if len(lengths) else 0)
        wrong = lengths != width
        if wrong.any():
            rule = f"lists of one length, {width} as in the first row"
            refuse(wrong, rule, f"has {int(lengths[wrong][0])}")
        flat = column.flatten()
        if flat.null_count:
            row = int(np.flatnonzero(plain(flat.is_null()))[0]) // width
            raise ValueError(
                f"{name} must hold lists of numbers, but one in {self.place(done + row)} is empty."
            )
        return plain(flat).reshape(len(column), width)


class Csv(Arrow):
    """Comma-separated values with names in the first line."""

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        with closing(self._records()) as records:
            self.header_lines, header = next(records, (0, []))
        if not any(name.strip() for name in header):
            raise ValueError(
                f"FILE {self.file} must hold names in its first line, but that is empty."
            )
        if len(header) > MOST_COLUMNS:
            raise ValueError(
                f"FILE {self.file} must have at most {MOST_COLUMNS:,} columns, but has "
                f"{len(header):,}."
            )
        self.names = [name.strip().strip('"') for name in header]

    def batches(self, columns: list[int]) -> Iterator[list[Any]]:
        """Yield arrays of some columns."""
        from pyarrow import ArrowInvalid, float64
        from pyarrow import csv as arrow_csv

        # columns by index: names may be repeated or hold blanks
        keys = [str(place) for place in range(len(self.names))]
        wanted = [keys[place] for place in columns]
        read = arrow_csv.ReadOptions(
            block_size=LONGEST_LINE, column_names=keys, skip_rows=self.header_lines
        )
        parse = arrow_csv.ParseOptions(newlines_in_values=True)
        convert = arrow_csv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(wanted, float64())
        )
        done = 0
        try:
            for batch in arrow_csv.open_csv(self.path, read, parse, convert):
                arrays = [batch.column(i) for i in range(len(wanted))]
                if any(array.null_count for array in arrays):
                    self._explain(columns, done)
                yield arrays
                done += batch.num_rows
        except ArrowInvalid as error:
            if str(error).startswith("Empty CSV"):
                return
            self._explain(columns, done)
            raise

    def place(self, row: int) -> str:
        """Return the line on which a row begins, as an editor numbers it."""
        after = itertools.islice(self._records(), row + 1, None)
        return f"line {next(after, (0, []))[0]}"

    def _explain(self, columns: list[int], done: int) -> None:
        """Raise an error with the line of the first invalid row after ``done`` rows."""
        for line, cells in itertools.islice(self._records(), done + 1, None):
            if len(cells) != len(self.names):
                raise ValueError(
                    f"FILE {self.file} must hold {len(self.names)} values in every line, as its "
                    f"first does, but line {line} holds {len(cells)}."
                )
            for place in columns:
                name, cell = quoted(self.names[place]), cells[place].strip()
                if cell.lower() not in EMPTY and _is_number(cell):
                    continue
                found = f"holds {quoted(cell)}" if cell else "is empty"
                raise ValueError(f"column {name} must hold numbers, but line {line} {found}.")

    def _records(self) -> Generator[tuple[int, list[str]]]:
        """Yield every record that is not blank, and its first line; for the header, its last."""
        before = csv.field_size_limit(LONGEST_LINE)
        first, done = True, 0
        with self.path.open("rb") as file:
            reader = csv.reader(self._lines(file))
            try:
                for record in reader:
                    if record:
                        yield (reader.line_num if first else done + 1), record
                        first = False
                    done = reader.line_num
            except csv.Error as error:
                raise ValueError(
                    f"FILE {self.file} cannot be read: line {reader.line_num}: {sentence(error)}."
                ) from None
            finally:
                csv.field_size_limit(before)

    def _lines(self, file: IO[bytes]) -> Iterator[str]:
        """Yield the lines of a file, none of which may be longer than a block."""
        for number in itertools.count(1):
            line = file.readline(LONGEST_LINE + 1)
            if not line:
                return
            if len(line) > LONGEST_LINE:
                raise ValueError(
                    f"FILE {self.file} must have lines of at most {LONGEST_LINE >> 20} MB, "
                    f"but line {number} is longer."
                )
            yield line.decode("utf-8-sig" if number == 1 else "utf-8", "replace")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


class Parquet(Arrow):
    """A Parquet file."""

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        from pyarrow import parquet

        with self.readable():
            self.table = self.stack.enter_context(parquet.ParquetFile(path))
        self.names = list(self.table.schema_arrow.names)
        self.rows = int(self.table.metadata.num_rows)

    def batches(self, columns: list[int]) -> Iterator[list[Any]]:
        """Yield arrays of some columns."""
        names = [self.names[place] for place in columns]
        # in a column of lists, a row may hold thousands of numbers
        size = 1 << 11 if len(columns) == 2 else max(1, min(1 << 16, (1 << 22) // len(columns)))
        for batch in self.table.iter_batches(batch_size=size, columns=names):
            places = [batch.schema.get_field_index(name) for name in names]
            if min(places) < 0:
                raise ValueError(
                    f"FILE {self.file} cannot be read: no column {quoted(names[places.index(-1)])}."
                )
            yield [batch.column(place) for place in places]
