"""Columns of packets as numpy arrays, and the Arrow types of a stream."""

from __future__ import annotations

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
