"""Windows in the simulation: parts of each window of items, and coarser windows out of finer ones.

The result is a record batch with the number of the window, the count of its items and the parts; windows
without items are left out. The engine's sums are exact, these are numpy's.

Composition is SELECTAGGREGATEVALUES (algorithm 5) on arrays. Windows of 20 every 10 into windows of 60 every
40: window j is made of the finer windows 4j, 4j + 2 and 4j + 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.families.filters.spec import Function
from anabranch.model.arrays import Array
from anabranch.model.stream import Time
from anabranch.model.window import AtEnd, Window
from anabranch.planning.properties import ITEMS, WINDOW, Aggregated, AggregatePart

_REDUCE: dict[Function, np.ufunc] = {
    Function.MIN: np.minimum,
    Function.MAX: np.maximum,
    Function.SUM: np.add,
    Function.COUNT: np.add,
}


@dataclass(frozen=True)
class StreamSpan:
    """The times of the first and the last item of the registered stream."""

    origin: Time
    last: Time


def numbers(column: pa.Array) -> tuple[Array, Array]:
    """Returns values as int64 or float64, and where they are present."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    kind = pa.float64() if pa.types.is_floating(column.type) else pa.int64()
    column = column.cast(kind)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return values, present & ~np.isnan(values) if kind == pa.float64() else present


def from_items(
    aggregated: Aggregated, rows: pa.RecordBatch, time: str | None, span: StreamSpan
) -> pa.RecordBatch:
    """`rows` are the selected items, in order."""
    window = aggregated.window
    if window.by_rows:
        starts = np.arange(0, rows.num_rows, window.step)
        ends = starts + int(window.size)
        full = ends <= rows.num_rows
        remains = rows.num_rows not in ends
    else:
        assert time is not None, "bound queries with RANGE windows are on streams that have a time"
        times, _ = numbers(rows.column(time))
        count = int((span.last - span.origin) // window.step) + 1
        edges = span.origin + np.arange(count) * window.step
        full = edges + window.size <= span.last
        starts, ends = np.searchsorted(times, edges), np.searchsorted(times, edges + window.size)
        remains = True
    ends = np.minimum(ends, rows.num_rows)
    kept = np.flatnonzero((starts < ends) & _due(full, remains, window.end))
    starts, ends = starts[kept], ends[kept]
    columns = {WINDOW: pa.array(kept, pa.int64()), ITEMS: pa.array(ends - starts, pa.int64())}
    edges = np.ravel(np.column_stack([starts, ends]))
    for part in sorted(aggregated.parts, key=lambda part: part.name):
        values, present = numbers(rows.column(part.column))
        columns[part.name] = _parts(part.function, values, present, edges)
    return pa.record_batch(columns)


def _due(full: Array, remains: bool, end: AtEnd) -> Array:
    """Returns which windows give a result; `remains`: there are items beyond the last full one."""
    if end is AtEnd.RUN:
        return np.ones_like(full)
    due = full.copy()
    if end is AtEnd.GATHER and remains and not full.all():
        due[np.argmin(full)] = True
    return due


def _parts(function: Function, values: Array, present: Array, edges: Array) -> pa.Array:
    """Returns a value per pair of edges: reduceat computes one from each edge to the next, every other
    counts."""
    if not len(edges):
        return pa.array([], pa.int64() if function is Function.COUNT else pa.from_numpy_dtype(values.dtype))
    counts = np.add.reduceat(np.append(present, False).astype(np.int64), edges)[::2]
    if function is Function.COUNT:
        return pa.array(counts)
    filled = np.append(np.where(present, values, _neutral(function, values)), _neutral(function, values))
    return pa.array(_REDUCE[function].reduceat(filled, edges)[::2], mask=counts == 0)


def _neutral(function: Function, values: Array) -> int | float:
    if function in (Function.SUM, Function.COUNT):
        return 0
    ends = (np.inf, -np.inf) if values.dtype.kind == "f" else (2**63 - 1, -(2**63))
    return ends[function is Function.MAX]


def from_windows(wide: Window, narrow: Aggregated, rows: pa.RecordBatch, span: StreamSpan) -> pa.RecordBatch:
    """`rows` are the results of the windows `wide`, ascending."""
    window, count = narrow.window, round(narrow.window.size / wide.size)
    known, _ = numbers(rows.column(WINDOW))
    most = int(known[-1] * wide.step // window.step) + 1 if len(known) else 0
    stride, inner = round(window.step / wide.step), round(wide.size / wide.step) if count > 1 else 0
    wanted = np.arange(most)[:, None] * stride + np.arange(count)[None, :] * inner
    indices = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    there = known[indices] == wanted if len(known) else np.zeros_like(wanted, bool)
    if not window.by_rows:
        kept = there.any(axis=1)
        if window.end is AtEnd.CUT:
            starts = span.origin + np.arange(most) * window.step
            kept &= starts + window.size <= span.last
    else:  # windows of rows are never empty: the first one or the last one says whether all is there
        kept = there[:, -1] if window.end is AtEnd.CUT else there[:, 0]
    there, indices = there[kept], indices[kept]
    columns = {WINDOW: pa.array(np.flatnonzero(kept), pa.int64())}
    columns[ITEMS] = _combined(Function.COUNT, rows.column(ITEMS), indices, there)
    for part in sorted(narrow.parts, key=lambda part: part.name):
        columns[part.name] = _combined(part.function, rows.column(part.name), indices, there)
    return pa.record_batch(columns)


def _combined(function: Function, column: pa.Array, indices: Array, there: Array) -> pa.Array:
    values, present = numbers(column)
    if not len(indices):
        return pa.array([], pa.from_numpy_dtype(values.dtype))
    chosen, known = values[indices], present[indices] & there
    filled = np.where(known, chosen, np.array(_neutral(function, values), values.dtype))
    return pa.array(_REDUCE[function].reduce(filled, axis=1), mask=~known.any(axis=1))


def average(rows: pa.RecordBatch, column: str) -> pa.Array:
    """Returns averages. They are computed where the subscriber is: the sum and the count travel."""
    sums, present = numbers(rows.column(AggregatePart(Function.SUM, column).name))
    counts, _ = numbers(rows.column(AggregatePart(Function.COUNT, column).name))
    return pa.array(sums / np.maximum(counts, 1), mask=~present)
