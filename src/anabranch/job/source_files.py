"""Files of a source, read in this process: which they are, which columns they have, and their rows.

    files = SourceFiles(declaration)
    stream = declare(declaration, files.columns())
    for rows in files.batches(stream):     # the stream's columns in its types
        items, dead = checked(rows, stream)

The columns, their types and the order of the rows are those that a job finds with Spark (spark/sources). The
formats are parquet, csv, json (an object per line) and xml, and of their options those that matter in
practice; NeedsSpark is raised for all else.
"""

from __future__ import annotations

import csv
import glob
import io
import itertools
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa

from anabranch.chain.items import ARROW_TYPES, arrow_schema, checked, json_lines
from anabranch.job.dtd import ATTRIBUTE, TEXT, Dtd, Elements, read_dtd
from anabranch.job.sources import has_wildcards, is_url
from anabranch.job.text_values import (
    MISSING,
    MOST,
    TextCounts,
    csv_lines,
    marked,
    parse_timestamp,
    typed_rows,
)
from anabranch.model.arrays import Bools
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError, RunError
from anabranch.model.files import written_atomically
from anabranch.model.job import FILE_FORMATS, Source, StreamDeclaration
from anabranch.model.stream import Stream

#: The format of a file by the end of its name; a compressed file has .gz or the like behind it.
SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".xml": "xml",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
COMPRESSED = (".gz", ".bz2", ".zst")

#: Types are taken from all files up to so many bytes, then from what was read by then.
INFERENCE_BYTES = 256 << 20
#: Rows of a batch; of CSV files bytes.
BATCH_ROWS, BLOCK_BYTES = 32_768, 1 << 20

#: A sample has so many items.
SAMPLE_ITEMS = 16_384

#: Options that say how Spark takes files into batches: they change no row.
_NO_MATTER = {"maxFilesPerTrigger", "maxBytesPerTrigger", "recursiveFileLookup", "inferSchema", "path"}

#: The names of an element and of those that it is in, from the outermost.
Names = tuple[str, ...]


class NeedsSpark(JobError):
    """The source has something that only Spark reads."""


class SourceFiles:
    """The files of one declared stream. What is not there or not readable here is said by a JobError."""

    def __init__(self, declaration: StreamDeclaration) -> None:
        self.name, self.source = declaration.name, declaration.source
        where = f"stream {self.name}"
        if self.source.format not in FILE_FORMATS or not self.source.path or is_url(self.source.path):
            raise NeedsSpark(f"{where}: only files on this machine are read without Spark")
        self.reader = _READERS[self.source.format](self.source, declaration.settings.get("time"))
        for option in self.source.options:
            if option not in self.reader.options and option not in _NO_MATTER:
                raise NeedsSpark(
                    f"{where}: the option {option} of {self.source.format} is known to Spark only"
                )
        self.paths = in_source_order(files_below(self.source.path))
        if not self.paths:
            what = "nothing matches" if has_wildcards(self.source.path) else "there is no"
            raise JobError(f"{where}: {what} {self.source.path}")

    def columns(self) -> tuple[Column, ...]:
        """Returns the columns, of a declared schema or else as the files have them."""
        if self.source.schema:
            return tuple(_declared(self.source.schema))
        with told_of(self.name, self.paths):
            columns = tuple(self.reader.columns(self.paths))
        if not columns:
            raise JobError(f"stream {self.name}: its source has no column of a type that a stream can hold")
        return columns

    def batches(self, stream: Stream) -> Iterator[pa.RecordBatch]:
        """Yields the rows in source order. They have the stream's columns and, where the format can be
        malformed, the columns CORRUPT and REASON.
        """
        unreadable = UnreadableFiles(stream)
        for path in self.paths:
            place = 0
            try:
                for rows in self.reader.batches(path, stream):
                    if rows.num_rows:
                        yield rows
                    place += rows.num_rows
            except UNREADABLE as error:
                reason = unreadable.reason(path, Damaged.at(place, error) if place else error)
                yield _corrupt([str(path)], stream, [reason])

    def sample(self, stream: Stream) -> tuple[pa.RecordBatch | None, str]:
        """Returns (items, "16,384 items of a.parquet"), or (None, the reason why there are none)."""
        name = self.paths[0].name
        batch = next(self.batches(stream), None)
        if batch is None:
            return None, f"{name} is empty"
        rows, _ = checked(batch.slice(0, SAMPLE_ITEMS), stream)
        if not rows.num_rows:
            return None, f"{name} begins with rows that are no items"
        return rows.select([column.name for column in stream.columns]), f"{rows.num_rows:,} items of {name}"


def format_of(path: str) -> str:
    """Returns the format of the files at a path, by their names."""
    for file in files_below(path):
        name = file.with_suffix("") if file.suffix in COMPRESSED else file
        if name.suffix.lower() in SUFFIXES:
            return SUFFIXES[name.suffix.lower()]
        raise JobError(
            f"the format of {file.name} cannot be seen from its name; it must be one of "
            f"{', '.join(FILE_FORMATS)}: add --set format=csv, for example"
        )
    what = "nothing matches" if has_wildcards(path) else "there is no"
    raise JobError(f"{what} {path}")


def files_below(path: str) -> Iterator[Path]:
    """Yields the files below a path, by name. Like Spark, leaves out what begins with _ or a dot."""
    for found in sorted(glob.glob(path)) if has_wildcards(path) else [path]:
        if not os.path.isdir(found):
            yield from [Path(found)] if os.path.isfile(found) else []
            continue
        for file in sorted(Path(found).rglob("*")):
            hidden = any(part[0] in "_." for part in file.relative_to(found).parts)
            if file.is_file() and not hidden:
                yield file


def in_source_order(files: Iterable[Path]) -> list[Path]:
    """Returns the files by time of modification in milliseconds, then path as source-order.md says."""
    return sorted(files, key=lambda file: (file.stat().st_mtime_ns // 1_000_000, file.absolute().as_uri()))


#: What readers raise for a file that is not what it should be; OSError also for disks that fail.
UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ElementTree.ParseError)


@contextmanager
def told_of(stream: str, paths: Sequence[Path]) -> Iterator[None]:
    """Says of which stream and file an error of a reader is."""
    try:
        yield
    except UNREADABLE as error:
        where = f"stream {stream}: {paths[0]}" + (" or another file" if len(paths) > 1 else "")
        raise JobError(f"{where} cannot be read: {_cause(error)}") from None


class Damaged(pa.ArrowInvalid):  # type: ignore[misc]
    """A file that can be read up to a row."""

    row = 0

    @classmethod
    def at(cls, row: int, error: Exception) -> Exception:
        """Returns the error; of a disk that fails, as it is."""
        if isinstance(error, OSError) and error.errno is not None:
            return error
        made = cls(str(error))
        made.row = row
        return made


def _cause(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]


class UnreadableFiles:
    """What becomes of files that cannot be read: half-written ones, and those with a column of another type.

        try:
            ...                                                # read it
        except UNREADABLE as error:
            reason = unreadable.reason(path, error)            # or RunError, where the stream says "stop"

    A dead letter has the path as its content. With a `folder` the reason is written there first: a batch that
    is repeated then finds it, even if somebody has completed the file meanwhile.
    """

    def __init__(self, stream: Stream, folder: Path | None = None) -> None:
        self.stream, self.folder = stream, folder

    def known(self, path: Path) -> str | None:
        """Returns the reason why a file was not read earlier; None if it is not known to be unreadable."""
        record = self._record(path)
        return json.loads(record.read_bytes())["reason"] if record is not None and record.exists() else None

    def reason(self, path: Path, error: Exception) -> str:
        """A file that is gone, or a disk that fails, is a RunError."""
        stops = self.stream.on_bad_file == "stop" or (isinstance(error, OSError) and error.errno is not None)
        if stops:
            raise RunError(f"stream {self.stream.name}: {path} cannot be read: {_cause(error)}") from None
        if isinstance(error, Damaged):
            return f"file cannot be read from row {error.row:,} on: {_cause(error)}"
        reason = f"file cannot be read: {_cause(error)}"
        record = self._record(path)
        if record is not None:
            with written_atomically(record) as file:
                file.write_text(json.dumps({"path": str(path), "reason": reason}))
        return reason

    def _record(self, path: Path) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{sha256(str(path).encode()).hexdigest()[:32]}.json"


_DDL_TYPES = {
    **dict.fromkeys(("byte", "tinyint", "short", "smallint", "int", "integer"), ColumnType.INT),
    **dict.fromkeys(("long", "bigint"), ColumnType.INT),
    **dict.fromkeys(("float", "real", "double", "decimal", "dec", "numeric"), ColumnType.FLOAT),
    **dict.fromkeys(("string", "varchar", "char"), ColumnType.STRING),
    **dict.fromkeys(("timestamp", "timestamp_ntz", "timestamp_ltz", "date"), ColumnType.TIMESTAMP),
    "boolean": ColumnType.BOOL,
}
_DDL_FIELD = re.compile(
    r"\s*(?:`([^`]+)`|(\w+))\s*:?\s+(\w+)\s*(?:\([\d\s,]*\))?(?:\s+not\s+null)?\s*(?:,|$)", re.I
)


def _declared(schema: str) -> Iterator[Column]:
    """Yields the columns of a schema in Spark's DDL."""
    end = 0
    while end < len(schema):
        found = _DDL_FIELD.match(schema, end)
        if found is None or found[3].lower() not in _DDL_TYPES:
            raise NeedsSpark(f"the schema {schema!r} is understood by Spark only")
        yield Column(found[1] or found[2], _DDL_TYPES[found[3].lower()])
        end = found.end()


class FileReader(ABC):
    """What reads one format."""

    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, source: Source, time: str | None) -> None:
        """`time` is the column that orders the stream."""
        self.source, self.time = source, time

    @abstractmethod
    def columns(self, paths: Sequence[Path]) -> Iterable[Column]:
        """Returns the columns that the files have."""

    @abstractmethod
    def batches(self, path: Path, stream: Stream) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file."""

    def option(self, *names: str, default: str) -> str:
        return next(
            (str(self.source.options[name]) for name in names if name in self.source.options), default
        )


def _until_enough(paths: Sequence[Path]) -> Iterator[Path]:
    """Yields the files that types are taken from."""
    left = INFERENCE_BYTES
    for path in paths:
        if left > 0:
            yield path
        left -= path.stat().st_size


# --- parquet ---


class ParquetReader(FileReader):
    def columns(self, paths: Sequence[Path]) -> Iterable[Column]:
        import pyarrow.parquet as pq

        return _leaves(pq.read_schema(readable_parquet(paths) or paths[0]))

    def batches(self, path: Path, stream: Stream) -> Iterator[pa.RecordBatch]:
        if path.stat().st_size:  # Spark passes over empty files
            yield from (rows for _, rows in parquet_rows(path, stream, BATCH_ROWS))


def readable_parquet(paths: Iterable[Path]) -> Path | None:
    """Returns the first file whose footer can be read."""
    import pyarrow.parquet as pq

    for path in paths:
        with suppress(*UNREADABLE):
            pq.read_schema(path)
            return path
    return None


def parquet_rows(
    path: Path, stream: Stream, most: int, part: int = 0, parts: int = 1
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows of a file, or of one of its parts, in batches of at most `most`: (place of the first
    row in the file, rows). A part has whole row groups.

    Only the stream's columns are read. One that the file lacks is missing in all rows. Raises Damaged where
    the file is whole and its rows are not.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        groups = range(part * len(sizes) // parts, (part + 1) * len(sizes) // parts)
        leaves = _named_alike(stream, [file.schema.column(leaf).path for leaf in range(len(file.schema))])
        _check_types(file.schema_arrow, stream, leaves)
        place = sum(sizes[: groups.start])
        if not groups:
            return
        try:
            for rows in file.iter_batches(most, row_groups=groups, columns=list(leaves.values())):
                yield place, _fitted(pa.Table.from_batches([rows]), stream, leaves)
                place += rows.num_rows
        except UNREADABLE as error:
            raise Damaged.at(place, error) from None


def _named_alike(stream: Stream, leaves: Sequence[str]) -> dict[str, str]:
    """Returns by column of the stream the leaf that it is in; like in Spark, RA may be called ra."""
    exact, lower = set(leaves), {leaf.lower(): leaf for leaf in leaves}
    found = {
        column.name: column.name if column.name in exact else lower.get(column.name.lower())
        for column in stream.columns
    }
    return {name: leaf for name, leaf in found.items() if leaf is not None}


def _leaves(fields: Iterable[pa.Field]) -> Iterator[Column]:
    """Yields the columns of a stream: nested ones under their paths."""
    for name, found in _leaf_types(fields):
        kind = _column_type(found)
        if kind is not None:
            yield Column(name, kind)


def _column_type(kind: pa.DataType) -> ColumnType | None:
    """Returns None for what a stream cannot hold: lists, maps, binary."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return ColumnType.BOOL
    if pa.types.is_uint64(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ColumnType.FLOAT  # Spark has no unsigned long: it reads a decimal
    if pa.types.is_integer(kind):
        return ColumnType.INT
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ColumnType.STRING
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return ColumnType.TIMESTAMP
    return None


def _fitted(table: pa.Table, stream: Stream, leaves: Mapping[str, str]) -> pa.RecordBatch:
    """Returns the stream's columns in its types. `leaves` names the leaf of the table that a column is in; a
    column without one is missing.
    """
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    columns = [
        _of_type(table[leaves[column.name]].combine_chunks(), column)
        if column.name in leaves
        else pa.nulls(table.num_rows, ARROW_TYPES[column.type])
        for column in stream.columns
    ]
    return pa.record_batch(columns, schema=arrow_schema(stream))


def _of_type(values: pa.Array, column: Column) -> pa.Array:
    """Returns the values as Spark reads them into a column of this type; ArrowInvalid where it would not."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind, wanted = values.type, ARROW_TYPES[column.type]
    if pa.types.is_null(kind) or kind == wanted:
        return values.cast(wanted)
    if pa.types.is_decimal(kind):
        values = values.cast(pa.string())  # directly, the last bit is often wrong
    return values.cast(wanted, safe=column.type in (ColumnType.INT, ColumnType.STRING))


def _check_types(schema: pa.Schema, stream: Stream, leaves: Mapping[str, str]) -> None:
    """Raises ArrowInvalid for a file with a column that cannot be read into that of the stream."""
    kinds = dict(_leaf_types(schema))
    for column in stream.columns:
        kind = kinds.get(leaves.get(column.name, ""))
        if kind is None or pa.types.is_null(kind):
            continue
        if pa.types.is_duration(
            kind
        ):  # plain integers in the file; only Arrow says beside them what they are
            kind = pa.int64()
        found = ColumnType.STRING if _is_bytes(kind) else _column_type(kind)
        if found is not column.type and (found, column.type) != (ColumnType.INT, ColumnType.FLOAT):
            raise pa.ArrowInvalid(
                f"its column {column.name} is of type {kind}, that of the stream {column.type}"
            )


def _leaf_types(fields: Iterable[pa.Field], above: str = "") -> Iterator[tuple[str, pa.DataType]]:
    for field in fields:
        name = f"{above}{field.name}"
        if pa.types.is_struct(field.type):
            yield from _leaf_types(field.type, f"{name}.")
        else:
            yield name, field.type


def _is_bytes(kind: pa.DataType) -> bool:
    """Texts without a mark that says so; they are columns only of a declared schema."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


# --- csv ---


def missing_words(source: Source) -> tuple[str, ...]:
    """Returns the texts that are missing values in columns of numbers, booleans and timestamps."""
    words = source.options.get("missing", MISSING)
    return (words,) if isinstance(words, str) else tuple(words)


class CsvReader(FileReader):
    """A file has a header. Names come from the first file; the others follow it by position."""

    options = ("sep", "delimiter", "header", "quote", "escape", "missing")

    def __init__(self, source: Source, time: str | None) -> None:
        super().__init__(source, time)
        self.separator = self.option("sep", "delimiter", default=",").replace("\\t", "\t")
        self.quote = self.option("quote", default='"')
        self.header = self.option("header", default="true").lower() == "true"
        self.missing = missing_words(source)
        if self.option("escape", default='"') != '"' or len(self.separator) != 1:
            raise NeedsSpark("a separator of several letters, or an escape other than a doubled quote")
        self._names: list[str] | None = None  # of the columns, in the order in which the files have them

    def columns(self, paths: Sequence[Path]) -> Iterable[Column]:
        names = self._header(paths[0])
        counts = [TextCounts() for _ in names]
        for path in _until_enough(paths):
            for rows, _ in self._texts(path, names):
                for count, texts in zip(counts, rows.columns, strict=True):
                    count.add(texts, self.missing)
        self._names = names
        return [
            Column(name, count.type(name == self.time)) for name, count in zip(names, counts, strict=True)
        ]

    def batches(self, path: Path, stream: Stream) -> Iterator[pa.RecordBatch]:
        declared = [column.name for column in stream.columns] if self.source.schema else None
        names = self._names or declared or self._header(path)
        for texts, broken in self._texts(path, names):
            yield typed_rows(texts, stream, self.missing, self._lines)
            if broken:
                yield _corrupt(broken, stream)

    def _lines(self, rows: pa.RecordBatch) -> list[str]:
        return csv_lines(rows, self.separator)

    def _header(self, path: Path) -> list[str]:
        """Returns the names of columns as Spark makes them of the first line."""
        with _opened(path) as file:
            first = next(csv.reader(file, delimiter=self.separator, quotechar=self.quote), [])
        if not self.header:
            return [f"_c{index}" for index in range(len(first))]
        lower = [name.lower() for name in first]
        return [
            f"_c{index}" if not name else f"{name}{index}" if lower.count(name.lower()) > 1 else name
            for index, name in enumerate(first)
        ]

    def _texts(self, path: Path, names: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
        """Yields rows as texts, and the lines that have more or fewer fields."""
        import pyarrow.csv as pacsv

        broken: list[str] = []

        def skip(row: Any) -> str:
            broken.append(row.text)
            return "skip"

        with _opened(path) as file:
            skipped = 1 if self.header else 0
            if not next(itertools.islice((line for line in file if line.strip()), skipped, None), None):
                return  # pyarrow refuses a file without a row
        options = {
            "read_options": pacsv.ReadOptions(
                column_names=list(names), skip_rows=skipped, block_size=BLOCK_BYTES
            ),
            "parse_options": pacsv.ParseOptions(
                delimiter=self.separator, quote_char=self.quote, invalid_row_handler=skip
            ),
            "convert_options": pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }
        with (
            pa.input_stream(str(path), compression="detect") as file,
            pacsv.open_csv(file, **options) as reader,
        ):
            for rows in reader:
                found, broken[:] = list(broken), []
                yield rows, found
            if broken:
                yield pa.record_batch([[]] * len(names), reader.schema), broken


def _opened(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        pa.input_stream(str(path), compression="detect"), encoding="utf-8", errors="replace"
    )


def _corrupt(contents: Sequence[str], stream: Stream, reasons: Sequence[str] | None = None) -> pa.RecordBatch:
    """Returns rows of which only the content is known."""
    columns = [pa.nulls(len(contents), ARROW_TYPES[column.type]) for column in stream.columns]
    return marked(columns, stream, np.ones(len(contents), bool), contents, reasons)


# --- json ---


class JsonReader(FileReader):
    """A line is an object, or a list of objects."""

    def columns(self, paths: Sequence[Path]) -> Iterable[Column]:
        """Like Spark, in order of their names. What is an object in some rows and text in others is text."""
        kinds: dict[Names, JsonKinds] = {}
        for path in _until_enough(paths):
            for _, row in _json_rows(path):
                for leaf, value in _leaf_values(row) if isinstance(row, dict) else ():
                    kinds.setdefault(leaf, JsonKinds()).add(value, ".".join(leaf) == self.time)
        objects = {leaf[:length] for leaf in kinds for length in range(1, len(leaf))}
        texts = {leaf for leaf in objects if leaf in kinds and kinds[leaf].present}
        for leaf in sorted(kinds):
            inside_text = any(leaf[:length] in texts for length in range(1, len(leaf)))
            if inside_text or (leaf in objects and leaf not in texts):
                continue
            kind = ColumnType.STRING if leaf in texts else kinds[leaf].type()
            if kind is not None:
                yield Column(".".join(leaf), kind)

    def batches(self, path: Path, stream: Stream) -> Iterator[pa.RecordBatch]:
        for part in _batched(_json_rows(path), BATCH_ROWS):
            leaves = [
                {".".join(leaf): value for leaf, value in _leaf_values(row)} if isinstance(row, dict) else {}
                for _, row in part
            ]
            wrong = np.array([not isinstance(row, dict) for _, row in part], bool)
            columns = []
            for column in stream.columns:
                values, bad = _json_values([row.get(column.name) for row in leaves], column.type)
                columns.append(pa.array(values, ARROW_TYPES[column.type]))
                wrong |= bad
            yield marked(columns, stream, wrong, [part[index][0] for index in np.flatnonzero(wrong)])


@dataclass
class JsonKinds:
    """How many values of a column are of each kind. In JSON `7` is a number, and `"7"` is none."""

    present: int = 0
    whole: int = 0
    number: int = 0
    boolean: int = 0
    lists: int = 0
    timestamp: int = 0

    def add(self, value: Any, is_time: bool) -> None:
        if value is None:
            return
        self.present += 1
        if isinstance(value, bool):
            self.boolean += 1
        elif isinstance(value, int | float):
            self.number += 1
            self.whole += isinstance(value, int) and _fits(value)
        elif isinstance(value, list):
            self.lists += 1
        elif is_time:  # text is of no use as a time
            self.timestamp += parse_timestamp(value) is not None

    def type(self) -> ColumnType | None:
        """Returns None for lists, which a stream cannot hold."""
        if self.present and self.present in (self.boolean, self.lists):
            return ColumnType.BOOL if self.boolean else None
        if self.number >= max(1, MOST * self.present):
            return ColumnType.INT if self.whole == self.number else ColumnType.FLOAT
        timed = self.timestamp >= max(1, MOST * self.present)
        return ColumnType.TIMESTAMP if timed else ColumnType.STRING


def _json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields (line, what it says); None is said by what cannot be read."""
    with _opened(path) as file:
        for line in file:
            text = line.strip()
            if not text:
                continue
            try:
                said = json.loads(text)
            except ValueError:
                said = None
            for row in said if isinstance(said, list) else [said]:
                yield text, row


def _leaf_values(row: Mapping[str, Any], above: Names = ()) -> Iterator[tuple[Names, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _leaf_values(value, (*above, name))
        else:
            yield (*above, name), value


def _json_values(values: list[Any], kind: ColumnType) -> tuple[list[Any], Bools]:
    """Returns the values in a type, and for each row whether it has a value of another type."""
    read, wrong = _JSON_VALUES[kind], np.zeros(len(values), bool)
    for index, value in enumerate(values):
        if value is None:
            continue
        values[index] = read(value)
        wrong[index] = values[index] is None
    return values, wrong


def _fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


#: What a value is in a column of a type; None where it cannot be one.
_JSON_VALUES: dict[ColumnType, Callable[[Any], Any]] = {
    ColumnType.INT: lambda value: value if type(value) is int and _fits(value) else None,
    ColumnType.FLOAT: lambda value: float(value) if type(value) in (int, float) else None,
    ColumnType.BOOL: lambda value: value if type(value) is bool else None,
    ColumnType.STRING: lambda value: (
        value if type(value) is str else json.dumps(value, separators=(",", ":"))
    ),
    ColumnType.TIMESTAMP: lambda value: parse_timestamp(value) if type(value) is str else None,
}


def _batched(rows: Iterator[Any], count: int) -> Iterator[list[Any]]:
    while part := list(itertools.islice(rows, count)):
        yield part


# --- xml ---


class XmlReader(FileReader):
    """An element called `rowTag` is an item; elements and attributes in it are its columns."""

    options = ("row", "rowTag", "dtd")

    def __init__(self, source: Source, time: str | None) -> None:
        super().__init__(source, time)
        row = self.option("rowTag", "row", default="") or None
        self.dtd = _read_dtd(str(source.options["dtd"]), row) if "dtd" in source.options else None
        self.item = self.dtd.item if self.dtd else row or "item"

    def columns(self, paths: Sequence[Path]) -> Iterable[Column]:
        """Like Spark, in order of their names; with a DTD, in its order."""
        counts: dict[Names, TextCounts] = {}
        lists: set[Names] = set()
        for path in _until_enough(paths):
            for part in _batched(self._items(path), BATCH_ROWS):
                texts: dict[Names, list[str]] = {}
                for values, repeated in part:
                    lists |= repeated
                    for leaf, text in values.items():
                        texts.setdefault(leaf, []).append(text)
                for leaf, found in texts.items():
                    counts.setdefault(leaf, TextCounts()).add(pa.array(found, pa.string()), ("",))
        if self.dtd is not None:
            leaves = list(_dtd_leaves(self.dtd.elements))
        else:
            leaves = sorted({_beside_attributes(leaf, counts) for leaf in counts})
        for leaf in leaves:
            if any(leaf[:length] in lists for length in range(1, len(leaf) + 1)):
                continue
            count = TextCounts()
            for one in {leaf, leaf[:-1] if leaf[-1] == TEXT else leaf} & set(counts):
                count += counts[one]
            yield Column(".".join(leaf), count.type(".".join(leaf) == self.time))

    def batches(self, path: Path, stream: Stream) -> Iterator[pa.RecordBatch]:
        paths = [tuple(column.name.split(".")) for column in stream.columns]
        for part in _batched(self._items(path), BATCH_ROWS):
            columns = [
                pa.array(
                    [
                        values.get(leaf, values.get(leaf[:-1]) if leaf[-1] == TEXT else None)
                        for values, _ in part
                    ],
                    pa.string(),
                )
                for leaf in paths
            ]
            texts = pa.record_batch(columns, names=[column.name for column in stream.columns])
            yield typed_rows(texts, stream, ("",), json_lines)

    def _items(self, path: Path) -> Iterator[tuple[dict[Names, str], set[Names]]]:
        """Yields the texts of an item by their paths, and the paths of elements that it has several times."""
        with pa.input_stream(str(path), compression="detect") as file:
            for _, element in ElementTree.iterparse(file):
                if _local(element.tag) == self.item:
                    texts: dict[Names, str] = {}
                    lists: set[Names] = set()
                    _add_element(element, (), texts, lists)
                    element.clear()
                    yield texts, lists


def _add_element(
    element: ElementTree.Element, above: Names, texts: dict[Names, str], lists: set[Names]
) -> None:
    for name, value in element.attrib.items():
        texts[*above, ATTRIBUTE + _local(name)] = value
    if not len(element) and above:
        leaf = (*above, TEXT) if element.attrib else above
        texts[leaf] = (element.text or "").strip()
    seen: set[str] = set()
    for child in element:
        name = _local(child.tag)
        if name in seen:
            lists.add((*above, name))
        seen.add(name)
        _add_element(child, (*above, name), texts, lists)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _beside_attributes(leaf: Names, known: Container[Names]) -> Names:
    """Returns where the text of an element is that has attributes in other items: `t` is `t._VALUE` there."""
    return (*leaf, TEXT) if (*leaf, TEXT) in known else leaf


def _dtd_leaves(elements: Elements, above: Names = ()) -> Iterator[Names]:
    for name, inner in elements.items():
        yield from _dtd_leaves(inner, (*above, name)) if inner else [(*above, name)]


def _read_dtd(path: str, row: str | None) -> Dtd:
    try:
        return read_dtd(Path(path).read_text(encoding="utf-8"), os.path.basename(path), row)
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"the DTD {path} cannot be read: {error}") from None


_READERS: dict[str, type[FileReader]] = {
    "parquet": ParquetReader,
    "csv": CsvReader,
    "json": JsonReader,
    "xml": XmlReader,
}


def sample_of(declaration: StreamDeclaration | None, stream: Stream) -> tuple[pa.RecordBatch | None, str]:
    """Returns what SourceFiles.sample does; or None and the reason, where the source is not readable here."""
    if declaration is None:
        return None, "its source is not known"
    try:
        return SourceFiles(declaration).sample(stream)
    except JobError as error:
        return None, str(error).removeprefix(f"stream {stream.name}: ")
