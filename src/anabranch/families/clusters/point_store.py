"""The points of a group that a window can still hold, by position.

A point is an item that passes the condition of the group's queries and has all coordinates. Of an item only
its id, its time and its coordinates are kept. Positions count the points of the group in stream order. In
state they are chunks of 4096 positions each, so that a batch writes only the chunks that got points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.chain.arrow_columns import floats_of, times_of
from anabranch.chain.state import State
from anabranch.model.arrays import Array, Floats
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import TRUE, Term

PER_CHUNK = 4096
_ID, _TIME, _AXIS = "id", "time", "axis"


class PointStore:
    """Positions first..stop of a group. Columns: id, time (if the stream has one), axis 0, axis 1, ..."""

    def __init__(self, stream: Stream, by: Sequence[str], condition: Term) -> None:
        self.stream, self.by, self.condition = stream, tuple(by), condition
        self.first = 0
        self.stop = 0  # the position of the next point
        self._saved = 0  # positions before this are in the state
        self._rows: list[pa.RecordBatch] = []
        self._times: Array | None = None
        self._coordinates: Floats | None = None

    def add(self, items: pa.RecordBatch) -> int:
        """Adds the items that pass the condition and have all coordinates; returns how many."""
        mask = np.ones(items.num_rows, bool) if self.condition == TRUE else evaluate(self.condition, items)
        axes = [floats_of(items, name) for name in self.by]
        for axis in axes:
            mask = mask & ~np.isnan(axis)
        added = int(np.count_nonzero(mask))
        if added:
            columns = {_ID: items.column(self.stream.id or NUMBER).filter(pa.array(mask))}
            if self.stream.time is not None:
                columns[_TIME] = pa.array(times_of(items, self.stream)[mask])
            for number, axis in enumerate(axes):
                columns[f"{_AXIS} {number}"] = pa.array(axis[mask])
            self._rows.append(pa.record_batch(columns))
            self._times = self._coordinates = None
            self.stop += added
        return added

    def drop_before(self, position: int) -> None:
        position = min(position, self.stop)
        if position > self.first:
            self._rows = [self._joined().slice(position - self.first)] if position < self.stop else []
            self.first = position
            self._times = self._coordinates = None

    def position_at(self, time: Time) -> int:
        """The position of the first point at or after a time; that of the next point, if there is none."""
        return self.first + int(np.searchsorted(self.times, time))

    @property
    def times(self) -> Array:
        if self._times is None:
            self._times = self._column(_TIME).to_numpy() if self._rows else np.empty(0, np.int64)
        return self._times

    @property
    def ids(self) -> pa.Array:
        return self._column(_ID)

    def coordinates(self, low: int, high: int) -> Floats:
        """[high - low, axes] of the points at positions low..high"""
        if self._coordinates is None:
            axes = [self._column(f"{_AXIS} {number}").to_numpy() for number in range(len(self.by))]
            self._coordinates = np.column_stack(axes)
        return self._coordinates[low - self.first : high - self.first]

    def _column(self, name: str) -> pa.Array:
        return self._joined().column(name)

    def _joined(self) -> pa.RecordBatch:
        if len(self._rows) > 1:
            self._rows = [pa.concat_batches(self._rows)]
        return self._rows[0]

    # the state

    def rows(self) -> pa.RecordBatch | None:
        """All points, for another zone; None if there are none."""
        return self._joined() if self._rows else None

    def restore(self, rows: pa.RecordBatch | None, stop: int) -> None:
        """Takes the points that another zone had; `stop` is the position of the next one."""
        self._rows = [] if rows is None else [rows]
        self.stop, self.first = stop, stop - (rows.num_rows if rows is not None else 0)
        self._saved = self.first

    def save_all_again(self) -> None:
        """For a group that gets another key: nothing is in the state under that key."""
        self._saved = self.first

    def save(self, state: State, prefix: str) -> None:
        """Puts the chunks that have new points and drops those that no window needs."""
        least = self.first // PER_CHUNK
        for key in state.keys(prefix):
            if int(key.removeprefix(prefix)) < least or self.first == self.stop:
                state.drop(key)
        if self.first == self.stop:
            self._saved = self.stop
            return
        rows = self._joined()
        for chunk in range(max(least, self._saved // PER_CHUNK), -(-self.stop // PER_CHUNK)):
            low = max(self.first, chunk * PER_CHUNK)
            high = min(self.stop, (chunk + 1) * PER_CHUNK)
            if high > self._saved:
                state.put(f"{prefix}{chunk:012d}", rows.slice(low - self.first, high - low))
        self._saved = self.stop

    def load(self, state: State, prefix: str, stop: int) -> None:
        """Reads the points from the state; `stop` is the position of the next one."""
        self._rows = [rows for key in state.keys(prefix) if (rows := state.rows(key)) is not None]
        self.stop = self._saved = stop
        self.first = stop - sum(rows.num_rows for rows in self._rows)
