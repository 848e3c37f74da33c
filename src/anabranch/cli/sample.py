"""A few thousand items of a source, for commands that must not need Spark for it.

In: a declaration and the stream it became. Out: items with the stream's columns, and where they are from; or
why there are none. Never: a whole file.
"""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from anabranch.catalog.sources import is_url
from anabranch.cli.schema import files_below
from anabranch.model.job import StreamDeclaration
from anabranch.model.stream import Stream
from anabranch.zones.columns import ARROW_TYPES

ITEMS = 16_384
#: Of json and csv files so much is read.
BYTES = 4 << 20


def sample_of(declaration: StreamDeclaration | None, stream: Stream) -> tuple[pa.RecordBatch | None, str]:
    """(items, "16,384 items of a.parquet") or (None, the reason)."""
    source = None if declaration is None else declaration.source
    if source is None or source.format not in ("parquet", "json", "csv"):
        return None, f"a {source.format} source is not read here" if source else "its source is not known"
    if not source.path or is_url(source.path):
        return None, "its files are not on this machine"
    file = next(files_below(source.path), None)
    if file is None:
        return None, f"there is no file yet at {source.path}"
    try:
        table = _READERS[source.format](file, {key: str(v) for key, v in source.options.items()})
        rows = _fitted(table.slice(0, ITEMS), stream)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
        return None, f"{file.name} is not read here: {(str(error).splitlines() or ['no reason given'])[0]}"
    if not rows.num_rows:
        return None, f"{file.name} is empty"
    return rows, f"{rows.num_rows:,} items of {file.name}"


def _parquet(file: Path, _: dict[str, str]) -> pa.Table:
    with pq.ParquetFile(file) as opened:
        batches = list(itertools.islice(opened.iter_batches(batch_size=ITEMS), 1))
        return pa.Table.from_batches(batches, opened.schema_arrow)


def _lines(file: Path) -> io.BytesIO:
    """The first lines, without one that is cut off."""
    with file.open("rb") as opened:
        text = opened.read(BYTES)
        return io.BytesIO(text if not opened.read(1) else text[: text.rfind(b"\n") + 1])


def _json(file: Path, options: dict[str, str]) -> pa.Table:
    if options.get("multiLine", "false").lower() == "true":
        raise ValueError("an item may take several lines")
    return pyarrow.json.read_json(_lines(file))


def _csv(file: Path, options: dict[str, str]) -> pa.Table:
    if options.get("header", "true").lower() != "true":
        raise ValueError("it has no header")
    form = pyarrow.csv.ParseOptions(delimiter=options.get("sep", options.get("delimiter", ",")))
    return pyarrow.csv.read_csv(_lines(file), parse_options=form)


_READERS = {"parquet": _parquet, "json": _json, "csv": _csv}


def _fitted(table: pa.Table, stream: Stream) -> pa.RecordBatch:
    """Nested columns as paths, the stream's columns in its types; a column that is not there is missing."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    columns = {}
    for column in stream.columns:
        kind = ARROW_TYPES[column.type]
        if column.name not in table.schema.names:
            columns[column.name] = pa.nulls(table.num_rows, kind)
            continue
        values = table[column.name].combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        columns[column.name] = values.cast(kind, safe=False)
    return pa.record_batch(columns)
