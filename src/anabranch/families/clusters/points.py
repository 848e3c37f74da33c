"""The points of a group that a window can still hold: what its chunks of state are made of.

In: items that a group of queries takes. Out: their times, ids and coordinates by position; chunks that
changed. Never: a point that no window can hold any more, but for those that share a chunk with one that is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import TRUE, Term
from anabranch.zones.columns import Array, floats_of, times_of
from anabranch.zones.state import State

PER_CHUNK = 4096
_ID, _TIME, _AXIS = "id", "time", "axis"


class Points:
    """Positions begin..stop of a group. Columns: id, time (if the stream has one), axis 0, axis 1, ..."""

    def __init__(self, stream: Stream, by: Sequence[str], condition: Term) -> None:
        self.stream, self.by, self.condition = stream, tuple(by), condition
        self.begin = 0
        self.stop = 0
        self._stored = 0  # positions before this are in the state as they are
        self._rows: list[pa.RecordBatch] = []
        self._times: Array | None = None
        self._coordinates: Array | None = None

    def take(self, items: pa.RecordBatch) -> int:
        """Appends the items that pass the condition and have all coordinates; returns how many."""
        mask = np.ones(items.num_rows, bool) if self.condition == TRUE else evaluate(self.condition, items)
        axes = [floats_of(items, name) for name in self.by]
        for axis in axes:
            mask = mask & ~np.isnan(axis)
        taken = int(np.count_nonzero(mask))
        if taken:
            columns = {_ID: items.column(self.stream.id or NUMBER).filter(pa.array(mask))}
            if self.stream.time is not None:
                columns[_TIME] = pa.array(times_of(items, self.stream)[mask])
            for number, axis in enumerate(axes):
                columns[f"{_AXIS} {number}"] = pa.array(axis[mask])
            self._rows.append(pa.record_batch(columns))
            self._times = self._coordinates = None
            self.stop += taken
        return taken

    def drop_before(self, position: int) -> None:
        position = min(position, self.stop)
        if position > self.begin:
            self._rows = [self._one().slice(position - self.begin)] if position < self.stop else []
            self.begin = position
            self._times = self._coordinates = None

    def at(self, time: Time) -> int:
        """The position of the first point at or after a time; that of the next point, if there is none."""
        return self.begin + int(np.searchsorted(self.times, time))

    @property
    def times(self) -> Array:
        if self._times is None:
            self._times = self._column(_TIME).to_numpy() if self._rows else np.empty(0, np.int64)
        return self._times

    @property
    def ids(self) -> pa.Array:
        return self._column(_ID)

    def coordinates(self, low: int, high: int) -> Array:
        """float64[high - low, axes] of the points at positions low..high"""
        if self._coordinates is None:
            axes = [self._column(f"{_AXIS} {number}").to_numpy() for number in range(len(self.by))]
            self._coordinates = np.column_stack(axes)
        return self._coordinates[low - self.begin : high - self.begin]

    def _column(self, name: str) -> pa.Array:
        return self._one().column(name)

    def _one(self) -> pa.RecordBatch:
        if len(self._rows) > 1:
            self._rows = [pa.concat_batches(self._rows)]
        return self._rows[0]

    # the state

    def rows(self) -> pa.RecordBatch | None:
        """All points, for another zone to take over; None if there are none."""
        return self._one() if self._rows else None

    def take_over(self, rows: pa.RecordBatch | None, stop: int) -> None:
        """Takes the points of another zone over; `stop` is the position of the next one."""
        self._rows = [] if rows is None else [rows]
        self.stop, self.begin = stop, stop - (rows.num_rows if rows is not None else 0)
        self._stored = self.begin

    def forget_stored(self) -> None:
        """The state has nothing of this: all is to be saved anew."""
        self._stored = self.begin

    def save(self, state: State, prefix: str) -> None:
        """Puts the chunks that have new points and drops those that nobody needs."""
        least = self.begin // PER_CHUNK
        for key in state.keys(prefix):
            if int(key.removeprefix(prefix)) < least or self.begin == self.stop:
                state.drop(key)
        if self.begin == self.stop:
            self._stored = self.stop
            return
        rows = self._one()
        for chunk in range(max(least, self._stored // PER_CHUNK), -(-self.stop // PER_CHUNK)):
            low = max(self.begin, chunk * PER_CHUNK)
            high = min(self.stop, (chunk + 1) * PER_CHUNK)
            if high > self._stored:
                state.put(f"{prefix}{chunk:012d}", rows.slice(low - self.begin, high - low))
        self._stored = self.stop

    def load(self, state: State, prefix: str, stop: int) -> None:
        """Takes the points over from the state; `stop` is the position of the next one."""
        self._rows = [rows for key in state.keys(prefix) if (rows := state.rows(key)) is not None]
        self.stop = self._stored = stop
        self.begin = stop - sum(rows.num_rows for rows in self._rows)
