"""Reports that wait at home until their tick is final.

Reports come at the end, in stream order, and leave at the front. So a batch costs what it brings and what is
due, not what waits, and it stores only the last chunk again. Of several reports of an object in one tick only
the last counts; the others are dropped when the tick is due, or when so many wait that it pays.
"""

from __future__ import annotations

import numpy as np

from anabranch.chain.state import Arrays, State
from anabranch.families.moving.kernels.home_moves import last_of_tick
from anabranch.families.moving.ticks import Ticks
from anabranch.model.arrays import Array, Bools
from anabranch.numeric.slots import grown

PENDING = "pending/"

#: Columns of a report; `time` decides its tick once the origin is known.
COLUMNS = ("time", "index", "x", "y", "number", "truths")
#: Rows per chunk of long columns.
CHUNK_ROWS = 8192


class PendingReports:
    def __init__(self) -> None:
        self._columns: Arrays = {}  # with room for more than there are
        self._tick = np.zeros(0, np.int64)  # of the first reports; the others follow
        self._count = 0
        self._stored = 0  # so many at the front are stored as they are
        self._single = 0  # reports that were left when superseded ones were last dropped

    def append(self, columns: Arrays) -> None:
        """Adds reports that are later than all others."""
        count = self._count + len(columns["index"])
        if self._columns:
            self._fit_words(columns["truths"].shape[1])
        for name, column in columns.items():
            old = self._columns.get(name, column[:0])
            if count > len(old):
                old = self._columns[name] = grown(old, max(count, 2 * len(old)), self._count)
            if name == "truths":
                old[self._count : count, column.shape[1] :] = 0
                old[self._count : count, : column.shape[1]] = column
            else:
                old[self._count : count] = column
        self._count = count

    def _fit_words(self, words: int) -> None:
        truths = self._columns["truths"]
        if words > truths.shape[1]:
            self._columns["truths"] = with_words(truths, words)
            self._stored = 0

    def take_due(self, ticks: Ticks, final: int, objects: int) -> Arrays | None:
        """Returns the reports of ticks up to `final`, each object's last in a tick, with their ticks; None if
        there are none. There are `objects` objects.
        """
        if not self._count:
            return None
        if len(self._tick) < self._count:
            new = ticks.first_at(self._columns["time"][len(self._tick) : self._count])
            self._tick = np.concatenate([self._tick, new])
        due = int(np.searchsorted(self._tick, final, side="right"))
        if not due:
            if self._count > 2 * self._single + CHUNK_ROWS:
                self._drop_superseded(objects)
            return None
        columns = {name: column[:due] for name, column in self._columns.items()} | {"tick": self._tick[:due]}
        self._keep(slice(due, self._count))
        last = last_of_tick(columns["tick"], columns["index"], objects)
        return columns if last.all() else {name: column[last] for name, column in columns.items()}

    def _drop_superseded(self, objects: int) -> None:
        last = last_of_tick(self._tick, self._columns["index"][: self._count], objects)
        if not last.all():
            self._keep(last)
        self._single = self._count

    def _keep(self, rows: slice | Bools) -> None:
        """Drops all others. What is there now is not changed: somebody may have it."""
        columns = {name: column[: self._count][rows].copy() for name, column in self._columns.items()}
        self._columns, self._tick = columns, self._tick[rows]
        self._count, self._stored, self._single = len(self._tick), 0, 0

    def save(self, state: State) -> None:
        """Stores what changed since the last call."""
        first = self._stored // CHUNK_ROWS
        columns = {name: column[: self._count] for name, column in self._columns.items()}
        put_columns(state, PENDING, columns if self._count else None, first)
        self._stored = self._count

    @staticmethod
    def load(state: State) -> PendingReports:
        reports = PendingReports()
        columns = get_columns(state, PENDING)
        if columns is not None:
            reports.append({name: columns[name] for name in COLUMNS})
            reports._stored = reports._count
        return reports


def with_words(truths: Array, words: int) -> Array:
    """Returns the truths of reports with at least so many words; the bits of later conditions are 0."""
    if truths.shape[1] >= words:
        return truths
    out = np.zeros((len(truths), words), np.uint64)
    out[:, : truths.shape[1]] = truths
    return out


def put_columns(state: State, prefix: str, columns: Arrays | None, first: int = 0) -> None:
    """Stores columns of equal length, in chunks, in place of those that were there; none where there are
    none. Chunks before the one numbered `first` are stored already.
    """
    length = 0 if columns is None else len(next(iter(columns.values())))
    count = -(-length // CHUNK_ROWS)
    for chunk in range(first, count):
        assert columns is not None
        rows = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
        state.put(f"{prefix}{chunk:08d}", {name: column[rows].copy() for name, column in columns.items()})
    for key in state.keys(prefix)[count:]:
        state.drop(key)


def get_columns(state: State, prefix: str) -> Arrays | None:
    parts = [state.get(key) or {} for key in state.keys(prefix)]
    if not parts:
        return None
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
