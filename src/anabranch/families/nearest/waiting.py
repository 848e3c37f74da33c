"""A home's recent buffer: items that some zone did not want on arrival and may want later.

In: new items, and which zone took which. Out: the items that wait, each with the zones that have them. A
chunk of state is a batch's items: the rows never change, the marks of who has them do; both go when no
zone may still want one of them. In memory all chunks lie side by side, the new items last.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.families.nearest.space import By, points_of
from anabranch.zones.cells import Cells
from anabranch.zones.columns import Array, numbers_of
from anabranch.zones.state import State

ROWS, SENT = "waits/", "sent/"


class Waiting:
    def __init__(self, state: State, zones: int, new: pa.RecordBatch | None) -> None:
        self.state, self.zones = state, zones
        self.chunks = [key.removeprefix(ROWS) for key in state.keys(ROWS)]
        self._rows = [_rows(state, chunk) for chunk in self.chunks]
        marks = [
            self._marks(chunk, rows.num_rows) for chunk, rows in zip(self.chunks, self._rows, strict=True)
        ]
        self.old = sum(rows.num_rows for rows in self._rows)
        self.has_new = new is not None
        if new is not None:
            self.chunks.append(f"{int(numbers_of(new)[0]):016d}")
            self._rows.append(new)
            marks.append(np.zeros((new.num_rows, zones), np.bool_))
        #: where each chunk begins
        self.starts = np.cumsum([0, *(rows.num_rows for rows in self._rows)])
        self.numbers = _joined([numbers_of(rows) for rows in self._rows], np.int64)
        #: who has what: bool[items, zones]
        self.sent = _joined(marks, np.bool_).reshape(-1, zones)
        self._changed: set[int] = set()
        #: (chunk, by) -> the chunk's token and its cells; what a worker holds, checked by token
        self._held: dict[tuple[str, By], tuple[bytes | None, Array]] = state.derived(
            "cells of waiting", [], dict
        )
        self._cells: dict[By, Array] = {}

    @property
    def size(self) -> int:
        return len(self.numbers)

    def _marks(self, chunk: str, size: int) -> Array:
        held = self.state.get(SENT + chunk)
        assert held is not None
        return np.unpackbits(held["bits"], count=size * self.zones).view(np.bool_).reshape(size, -1)

    def cells(self, by: By, cells: Cells) -> Array:
        """The cells of all items, -1 where a coordinate is missing."""
        if by not in self._cells:
            parts = []
            for chunk, rows in zip(self.chunks, self._rows, strict=True):
                token, held = self.state.tokens.get(ROWS + chunk), self._held.get((chunk, by))
                if held is None or held[0] != token:
                    held = self._held[chunk, by] = (token, cells.of(points_of(rows, by)))
                parts.append(held[1])
            self._cells[by] = _joined(parts, np.int64)
        return self._cells[by]

    def take(self, zone: int, want: Array, first: int) -> list[pa.RecordBatch]:
        """The items from place `first` on, where a chunk begins, that a zone wants and does not have; it
        has them from now on.
        """
        now = want & ~self.sent[first:, zone]
        if not now.any():
            return []
        self.sent[first:, zone] |= now
        out = []
        for place, rows in enumerate(self._rows):
            if self.starts[place] < first:
                continue
            here = now[self.starts[place] - first : self.starts[place + 1] - first]
            if here.any():
                self._changed.add(place)
                out.append(rows if here.all() else rows.filter(pa.array(here)))
        return out

    def unsent(self, zone: int, names: list[str]) -> tuple[Array, dict[str, pa.Array]]:
        """The places of the new items that a zone does not have, and some of their columns."""
        if not self.has_new:
            return np.empty(0, np.int64), {}
        missing = ~self.sent[self.old :, zone]
        columns = {name: self._rows[-1].column(name).filter(pa.array(missing)) for name in names}
        return self.old + np.flatnonzero(missing), columns

    def save(self, keep: list[tuple[int, int]]) -> None:
        """Keeps what a zone may still want: keep = (zone, number of the oldest such item)."""
        zones, lows = [zone for zone, _ in keep], np.array([low for _, low in keep], np.int64)
        wanted = np.any((self.numbers[:, None] >= lows) & ~self.sent[:, zones], axis=1)
        for place, chunk in enumerate(self.chunks):
            new = self.has_new and place == len(self.chunks) - 1
            span = slice(self.starts[place], self.starts[place + 1])
            if not wanted[span].any():
                self.state.drop(ROWS + chunk)
                self.state.drop(SENT + chunk)
                continue
            if new:
                self.state.put(ROWS + chunk, self._rows[place])
                for by, cells in self._cells.items():
                    self._held[chunk, by] = (self.state.tokens[ROWS + chunk], cells[span])
            if new or place in self._changed:
                self.state.put(SENT + chunk, {"bits": np.packbits(self.sent[span])})
        tokens = self.state.tokens
        for held in [held for held in self._held if tokens.get(ROWS + held[0]) is None]:
            del self._held[held]


def _rows(state: State, chunk: str) -> pa.RecordBatch:
    rows = state.rows(ROWS + chunk)
    assert rows is not None
    return rows


def _joined(parts: list[Array], dtype: type[np.int64] | type[np.bool_]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype)
