"""Items as codes: int64[columns, rows], in which every bound is two comparisons of integers.

In: a record batch and the columns that are asked about. Out: codes, MISSING where there is no value.
Never: a copy of a string; strings become ranks among the constants in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernels.select_codes import Constants, float_codes, text_codes
from anabranch.model.columns import ColumnType
from anabranch.predicates.codes import MISSING

Array = np.ndarray[Any, Any]


def fill_codes(column: pa.Array, kind: ColumnType, constants: Constants | None, codes: Array) -> None:
    """Writes the codes of one column into int64[rows]. `constants` for strings: see kernels.select_codes."""
    if kind is ColumnType.FLOAT:
        float_codes(_plain(column, pa.float64()).view(np.int64), codes)
    elif kind is ColumnType.STRING:
        assert constants is not None
        _fill_texts(column, constants, codes)
    else:
        whole = column.cast(pa.uint8()) if kind is ColumnType.BOOL else column
        if kind is ColumnType.TIMESTAMP and column.type.unit != "us":
            whole = column.cast(pa.timestamp("us", column.type.tz))
        np.maximum(_plain(whole, pa.int64()), MISSING + 1, out=codes)
    if column.null_count:
        codes[column.is_null().to_numpy(zero_copy_only=False)] = MISSING


def fill_signs(left: pa.Array, right: pa.Array, codes: Array) -> None:
    """-1, 0 or 1 for each row of two string columns, MISSING where one is missing."""
    less, greater = pc.less(left, right), pc.greater(left, right)
    np.subtract(_flags(greater), _flags(less), out=codes)
    if less.null_count:
        codes[less.is_null().to_numpy(zero_copy_only=False)] = MISSING


def sample_of(rows: pa.RecordBatch, most: int) -> pa.RecordBatch:
    """At most so many rows, evenly spread."""
    step = max(1, -(-rows.num_rows // most))
    return rows.take(pa.array(np.arange(0, rows.num_rows, step))) if step > 1 else rows


def _plain(column: pa.Array, kind: pa.DataType) -> Array:
    """The values of a column as they lie in memory, whatever is where they are null."""
    if column.type != kind:
        column = column.cast(kind)
    if not len(column):
        return np.empty(0, kind.to_pandas_dtype())
    return _from_buffer(column.buffers()[1], kind.to_pandas_dtype())[
        column.offset : column.offset + len(column)
    ]


def _fill_texts(column: pa.Array, constants: Constants, codes: Array) -> None:
    if not len(column):
        return
    if column.type != pa.string():
        column = column.cast(pa.string())
    _, start, data = column.buffers()
    starts = _from_buffer(start, np.int32)[column.offset : column.offset + len(column) + 1]
    text_codes(starts, _from_buffer(data or b"\0", np.uint8), constants, codes)


def _from_buffer(data: Any, kind: Any) -> Array:
    """Never writeable, though some buffers of Arrow are: a kernel is compiled once for each of the two."""
    values = np.frombuffer(data, kind)
    values.flags.writeable = False
    return values


def _flags(column: pa.Array) -> Array:
    flags: Array = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
    return flags
