"""Readers of CSV and Parquet files of predictions, by pyarrow."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from softmargin.calibration._files import (
    HARMLESS_BYTES,
    MOST_CLASSES,
    MOST_EXPANSION,
    Blocks,
    Convert,
    Reader,
    quoted,
    sentence,
)

LONGEST_LINE = 1 << 24  # bytes, and how much is read at once
MOST_COLUMNS = MOST_CLASSES + 1000
SEPARATORS = (",", ";", "\t")
DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
EMPTY = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "#na", "<na>")


class Arrow(Reader):
    """A table that pyarrow reads batch by batch."""

    def batches(self, columns: list[int], labels: list[int]) -> Iterator[list[Any]]:
        """Yield arrays of some columns and of the labels."""
        raise NotImplementedError

    def blocks(self, chosen: list[int], labels: list[int]) -> Blocks:
        """Yield rows of the predictions and their labels."""
        done, width = 0, 0
        with self.readable():
            for arrays in self.batches(chosen, labels):
                columns = [
                    self._numbers(array, place, done, width)
                    for array, place in zip(arrays, chosen, strict=False)
                ]
                targets = [
                    self._labels(array, place, done)
                    for array, place in zip(arrays[len(chosen) :], labels, strict=True)
                ]
                if any(
                    len(each) > 1 and any(c.ndim > 1 for c in each) for each in (columns, targets)
                ):
                    raise ValueError(
                        f"FILE {self.file} must hold predictions in one column of lists or in "
                        f"several of numbers, and labels likewise, but "
                        f"{quoted(self.names[chosen[0]])} and {quoted(self.names[labels[0]])} "
                        "are not."
                    )
                values = _together(columns) if columns else np.empty((len(arrays[0]), 0))
                width = values.shape[1]
                yield values, targets[0] if len(targets) == 1 else np.stack(targets, 1)
                done += len(values)

    def label_texts(self, labels: list[int]) -> list[str] | None:
        """Return the different labels if they are text."""
        texts: set[str] = set()
        for _, targets in self.blocks([], labels):
            if targets.ndim > 1 or targets.dtype.kind not in "UO":
                return None
            texts.update(map(str.strip, targets.tolist()))
            if len(texts) > MOST_CLASSES:
                return None
        return sorted(texts)

    def _labels(self, column: Any, place: int, done: int) -> NDArray[Any]:
        """Return a column of numbers, truth values or text, or of lists of numbers."""
        from pyarrow import types

        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        plain = types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind)
        if not plain or column.null_count:
            return self._numbers(column, place, done, 0)
        found = np.asarray(column.to_numpy(zero_copy_only=False))
        return found.astype(np.bool_) if types.is_boolean(kind) else found

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


def _together(columns: list[NDArray[Any]]) -> NDArray[Any]:
    return columns[0] if columns[0].ndim == 2 else np.stack(columns, 1)


class Csv(Arrow):
    """Values separated by commas, semicolons or tabs, with names in the first line.

    The separator is the one that the first line has most of. After semicolons or tabs, numbers
    may have a decimal comma. Files that end in ``.gz`` are unpacked while they are read.
    """

    separator, decimal = ",", "."

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        self.separator = self._find_separator()
        with closing(self._records()) as records:
            self.header_lines, header = next(records, (0, []))
            _, self.first = next(records, (0, []))
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
        if self.separator != "," and any(DECIMAL_COMMA.fullmatch(x.strip()) for x in self.first):
            self.decimal = ","

    def _find_separator(self) -> str:
        with closing(self._records()) as records:
            _, header = next(records, (0, []))
        text = self.separator.join(header)
        return max(SEPARATORS, key=lambda each: (text.count(each), each == ","))

    def batches(self, columns: list[int], labels: list[int]) -> Iterator[list[Any]]:
        """Yield arrays of some columns and of the labels."""
        from pyarrow import ArrowInvalid, float64, string
        from pyarrow import csv as arrow_csv

        # columns by index: names may be repeated or hold blanks
        keys = [str(place) for place in range(len(self.names))]
        texts = [place for place in labels if not self._begins_with_number(place)]
        places = [*columns, *labels]
        wanted = [keys[place] for place in places]
        kinds = {key: float64() for key in wanted} | {keys[place]: string() for place in texts}
        read = arrow_csv.ReadOptions(
            block_size=LONGEST_LINE, column_names=keys, skip_rows=self.header_lines
        )
        parse = arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        convert = arrow_csv.ConvertOptions(
            include_columns=wanted, column_types=kinds, decimal_point=self.decimal
        )
        numbers, done = [place for place in places if place not in texts], 0
        try:
            with self._open() as file:
                for batch in arrow_csv.open_csv(file, read, parse, convert):
                    arrays = [batch.column(i) for i in range(len(wanted))]
                    if any(array.null_count for array in arrays):
                        self._explain(numbers, done)
                    yield arrays
                    done += batch.num_rows
        except ArrowInvalid as error:
            if str(error).startswith("Empty CSV"):
                return
            self._explain(numbers, done)
            raise

    def _begins_with_number(self, place: int) -> bool:
        """Return whether a column's first cell is a number, or missing."""
        cell = self.first[place].strip() if place < len(self.first) else ""
        return cell.lower() in EMPTY or self._is_number(cell)

    def _is_number(self, text: str) -> bool:
        try:
            float(text.replace(self.decimal, "."))
        except ValueError:
            return False
        return "_" not in text

    def _open(self) -> IO[bytes]:
        if self.path.suffix.lower() != ".gz":
            return self.path.open("rb")
        most = max(HARMLESS_BYTES, MOST_EXPANSION * self.path.stat().st_size)
        return cast(IO[bytes], Unpacked(self.path, most))

    def rewrite(self, out: Path, chosen: list[int], convert: Convert) -> None:
        """Write the same lines with other numbers in some columns."""
        opened: Any = gzip.open if self.path.suffix.lower() == ".gz" else open
        with opened(out, "wt", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=self.separator, lineterminator="\n")
            with closing(self._records()) as records:
                writer.writerow(next(records)[1])
            self._rewrite_rows(writer, chosen, convert)

    def _rewrite_rows(self, writer: Any, chosen: list[int], convert: Convert) -> None:
        rows = itertools.islice(self._records(), 1, None)
        done = 0
        for values, _ in self.blocks(chosen, chosen[:1]):
            if not done:
                self.check_width(values.shape[1], chosen[0])
            for numbers, (_, cells) in zip(convert(values).tolist(), rows, strict=False):
                for place, number in zip(chosen, numbers, strict=True):
                    cells[place] = repr(number).replace(".", self.decimal)
                writer.writerow(cells)
            done += len(values)
        self.check_not_empty(done)

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
                if cell.lower() not in EMPTY and self._is_number(cell):
                    continue
                found = f"holds {quoted(cell)}" if cell else "is empty"
                raise ValueError(f"column {name} must hold numbers, but line {line} {found}.")

    def _records(self) -> Generator[tuple[int, list[str]]]:
        """Yield every record that is not blank, and its first line; for the header, its last."""
        before = csv.field_size_limit(LONGEST_LINE)
        first, done = True, 0
        with self._open() as file:
            reader = csv.reader(self._lines(file), delimiter=self.separator)
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


class Unpacked(gzip.GzipFile):
    """A compressed file that ends with an error if it unpacks to far too much."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path)
        self.most = most

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes."""
        return self._counted(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line, or its beginning."""
        return self._counted(super().readline(size))

    def _counted(self, data: bytes) -> bytes:
        if self.tell() > self.most:
            raise ValueError(
                f"FILE {quoted(Path(str(self.name)).name)} must not be compressed more than "
                f"{MOST_EXPANSION} times; unpack it first if that is what you mean."
            )
        return data


class Parquet(Arrow):
    """A Parquet file."""

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        from pyarrow import parquet

        with self.readable():
            self.table = self.stack.enter_context(parquet.ParquetFile(path))
        self.names = list(self.table.schema_arrow.names)
        self.rows = int(self.table.metadata.num_rows)

    def batches(self, columns: list[int], labels: list[int]) -> Iterator[list[Any]]:
        """Yield arrays of some columns and of the labels."""
        names = [self.names[place] for place in (*columns, *labels)]
        # in a column of lists, a row may hold thousands of numbers
        size = 1 << 11 if len(columns) == 1 else max(1, min(1 << 16, (1 << 22) // len(names)))
        for batch in self.table.iter_batches(batch_size=size, columns=names):
            places = [batch.schema.get_field_index(name) for name in names]
            if min(places) < 0:
                raise ValueError(
                    f"FILE {self.file} cannot be read: no column {quoted(names[places.index(-1)])}."
                )
            yield [batch.column(place) for place in places]

    def rewrite(self, out: Path, chosen: list[int], convert: Convert) -> None:
        """Write a table with the same other columns."""
        import pyarrow as pa
        from pyarrow import parquet

        schema, done = self.table.schema_arrow, 0
        with self.readable(), parquet.ParquetWriter(out, schema) as writer:
            for batch in self.table.iter_batches(batch_size=1 << 11):
                columns = [self._numbers(batch.column(i), i, done, 0) for i in chosen]
                values = convert(_together(columns))
                arrays = list(batch.columns)
                for number, place in enumerate(chosen):
                    one = columns[0].ndim == 2
                    new = pa.array(list(values) if one else values[:, number])
                    arrays[place] = new.cast(schema.field(place).type)
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
                done += len(values)
        self.check_not_empty(done)
