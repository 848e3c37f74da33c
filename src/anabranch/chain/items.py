"""Items as Arrow columns: the types of a stream, numbers and times as numpy arrays, rows as JSON; and dead
letters, which are the rows that are no items or came late, each with a reason and its original content.

`checked` finds the rows that can be no items. Which items are late is known only in stream order; the stage
`order` finds those.
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.arrays import Array
from anabranch.model.columns import ColumnType
from anabranch.model.stream import NUMBER, Stream

ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.INT: pa.int64(),
    ColumnType.FLOAT: pa.float64(),
    ColumnType.STRING: pa.string(),
    ColumnType.BOOL: pa.bool_(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.POINT: pa.list_(pa.float64()),
}

_NUMBER_FIELD = pa.field(NUMBER, pa.int64())


def arrow_schema(stream: Stream) -> pa.Schema:
    """The columns of an item, without its number."""
    return pa.schema([(column.name, ARROW_TYPES[column.type]) for column in stream.columns])


def with_numbers(rows: pa.RecordBatch, numbers: Array) -> pa.RecordBatch:
    """The rows with their numbers in the stream as the first column."""
    if rows.schema.metadata is not None:
        rows = rows.replace_schema_metadata()
    return rows.add_column(0, _NUMBER_FIELD, integers(numbers))


def integers(values: Array) -> pa.Array:
    """An array of int64 or int32 as a column, in place. For small arrays faster than `pa.array`, which first
    finds out what it was given.
    """
    kind = pa.int32() if values.dtype == np.int32 else pa.int64()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def numbers_of(rows: pa.RecordBatch) -> Array:
    return np.asarray(rows.column(NUMBER).to_numpy())


def times_of(rows: pa.RecordBatch, stream: Stream) -> Array:
    """The items' times in stored units: int64 for integers and timestamps, float64 for floats. Never
    missing.
    """
    assert stream.time is not None
    column = rows.column(stream.time)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def floats_of(rows: pa.RecordBatch, name: str) -> Array:
    """A number column as float64, NaN where a value is missing."""
    column = rows.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = pc.fill_null(column, float("nan"))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def subscription_column(names: list[str] | pa.StringArray, codes: Array) -> pa.DictionaryArray:
    """A column of subscription names: `names[codes[i]]` for row i."""
    known = pa.array(names, pa.string()) if isinstance(names, list) else names
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), known)


# rows as JSON


def json_lines(rows: pa.RecordBatch) -> list[str]:
    return [json.dumps(json_row(row), ensure_ascii=False) for row in _python_rows(rows)]


def _python_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    try:
        return list(rows.to_pylist())
    except (OverflowError, ValueError):  # a timestamp before the year 1 or after 9999: Python has none
        columns = [
            column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column
            for column in rows.columns
        ]
        return list(pa.record_batch(columns, names=rows.schema.names).to_pylist())


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _json_value(value) for name, value in row.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [_json_value(entry) for entry in value]
    return value


# dead letters

DEAD_LETTERS = pa.schema([("reason", pa.string()), ("content", pa.string())])

LATE, MALFORMED = "late", "malformed"
LEAP = "leap: its time is more than max_step ahead of the greatest time before it"
AHEAD = "leap: its time is more than max_step ahead of the clock"

#: A column beside those of the stream: the time on the clock, in microseconds since 1970. Spark keeps it with
#: the batch, so that it is the same when the batch is repeated.
NOW = "#now"

#: Columns beside those of the stream: the text of a row that its format could not read, null for all others;
#: and why it could not, null where that is not known.
CORRUPT, REASON = "#corrupt", "#reason"


def dead_letters(rows: pa.RecordBatch, stream: Stream, reason: str) -> pa.RecordBatch:
    """Returns rows for the dead letters; the content is the row as JSON. Slow: for the few rows that are
    wrong.
    """
    names = [column.name for column in stream.columns if column.name in rows.schema.names]
    return _letters(reason, pa.array(json_lines(rows.select(names)), pa.string()))


def dead_letter(reason: str, content: str) -> pa.RecordBatch:
    """Returns one row for the dead letters: something that is no row, such as a file."""
    return pa.record_batch([[reason], [content]], schema=DEAD_LETTERS)


def checked(batch: pa.RecordBatch, stream: Stream) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Returns the rows that are items, and dead letters of the others."""
    dead: list[pa.RecordBatch] = []
    names = batch.schema.names
    if CORRUPT in names:
        corrupt = batch.column(CORRUPT)
        if corrupt.null_count < batch.num_rows:
            wrong = pc.is_valid(corrupt)
            known = REASON in names
            reasons = batch.column(REASON).filter(wrong).fill_null(MALFORMED) if known else MALFORMED
            dead.append(_letters(reasons, corrupt.filter(wrong).cast(pa.string())))
            batch = batch.filter(pc.invert(wrong))
    timeless = _timeless(batch, stream)
    if timeless is not None and timeless.any():
        reason = f"no time: column {stream.time!r} is missing or not finite"
        dead.append(dead_letters(batch.filter(pa.array(timeless)), stream, reason))
        batch = batch.filter(pa.array(~timeless))
    if stream.max_ahead is not None and NOW in names and batch.num_rows:
        ahead = pc.greater(
            batch.column(stream.time).cast(pa.int64()), pc.add(batch.column(NOW), stream.max_ahead)
        )
        if pc.any(ahead).as_py():
            dead.append(dead_letters(batch.filter(ahead), stream, AHEAD))
            batch = batch.filter(pc.invert(ahead))
    return batch, pa.concat_batches(dead) if dead else pa.record_batch([[], []], schema=DEAD_LETTERS)


def kind_of(reason: str) -> str:
    """Returns a reason without the value that it names: `O3: 'abc' is not a number` is `O3: not a number`."""
    return re.sub(r"^(.*?): '.*' is not ", r"\1: not ", reason, flags=re.DOTALL)


def _letters(reason: str | pa.Array, contents: pa.Array) -> pa.RecordBatch:
    reasons = pa.array([reason] * len(contents), pa.string()) if isinstance(reason, str) else reason
    return pa.record_batch([reasons, contents], schema=DEAD_LETTERS)


def _timeless(batch: pa.RecordBatch, stream: Stream) -> Array | None:
    """Returns for each row whether its time is missing; None if no row's is."""
    if stream.time is None or not batch.num_rows:
        return None
    column = batch.column(stream.time)
    if pa.types.is_floating(column.type):
        finite = pc.fill_null(pc.is_finite(column), False)
        return np.asarray(~finite.to_numpy(zero_copy_only=False))
    return np.asarray(column.is_null()) if column.null_count else None
