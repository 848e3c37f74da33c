"""A home's recent buffer: items that some zone did not want on arrival and may want later.

In: new items, and which zone took which. Out: the items that wait, chunk by chunk, each with the zones that
have them. A chunk is a batch's items: the rows never change, the marks of who has them do; both go when the
youngest item is too old for everybody.
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
    def __init__(self, state: State, zones: int) -> None:
        self.state, self.zones = state, zones
        self.new: str | None = None
        self._new_rows: pa.RecordBatch | None = None
        self._sent: dict[str, Array] = {}
        self._taken: set[str] = set()
        self._new_cells: dict[By, Array] = {}
        #: (chunk, by) -> the chunk's token and its cells; what a worker holds, checked by token
        self._cells: dict[tuple[str, By], tuple[bytes, Array]] = state.derived("cells of waiting", [], dict)

    def add(self, items: pa.RecordBatch) -> None:
        """The new items; nobody has them yet."""
        self.new = f"{int(numbers_of(items)[0]):016d}"
        self._new_rows = items
        self._sent[self.new] = np.zeros((items.num_rows, self.zones), np.bool_)

    def chunks(self) -> list[str]:
        """The chunks by age, the new items last."""
        held = [key.removeprefix(ROWS) for key in self.state.keys(ROWS)]
        return held if self.new is None else [*held, self.new]

    def is_new(self, chunk: str) -> bool:
        return chunk == self.new

    def rows(self, chunk: str) -> pa.RecordBatch:
        rows = self._new_rows if chunk == self.new else self.state.rows(ROWS + chunk)
        assert rows is not None
        return rows

    def size(self, chunk: str) -> int:
        return int(self.rows(chunk).num_rows)

    def sent(self, chunk: str) -> Array:
        """Who has what: bool[items, zones]."""
        if chunk not in self._sent:
            held = self.state.get(SENT + chunk)
            assert held is not None
            size = self.size(chunk)
            self._sent[chunk] = (
                np.unpackbits(held["bits"], count=size * self.zones).view(np.bool_).reshape(size, -1)
            )
        return self._sent[chunk]

    def cells(self, chunk: str, by: By, cells: Cells) -> Array:
        """The cells of a chunk's items, -1 where a coordinate is missing."""
        if chunk == self.new:
            if by not in self._new_cells:
                self._new_cells[by] = cells.of(points_of(self.rows(chunk), by))
            return self._new_cells[by]
        token, held = self.state.tokens[ROWS + chunk], self._cells.get((chunk, by))
        if held is None or held[0] != token:
            held = self._cells[chunk, by] = (token, cells.of(points_of(self.rows(chunk), by)))
        return held[1]

    def take(self, chunk: str, zone: int, want: Array) -> list[pa.RecordBatch]:
        """The items of a chunk that a zone wants and does not have; it has them from now on."""
        sent = self.sent(chunk)
        now = want & ~sent[:, zone]
        if not now.any():
            return []
        self._taken.add(chunk)
        sent[:, zone] |= now
        rows = self.rows(chunk)
        return [rows if now.all() else rows.filter(pa.array(now))]

    def save(self, keep: list[tuple[int, int]]) -> None:
        """Keeps what a zone may still want: keep = (zone, number of the oldest such item)."""
        for chunk in self.chunks():
            numbers = numbers_of(self.rows(chunk))
            if not any(((numbers >= low) & ~self.sent(chunk)[:, zone]).any() for zone, low in keep):
                self.state.drop(ROWS + chunk)
                self.state.drop(SENT + chunk)
                for held in [held for held in self._cells if held[0] == chunk]:
                    del self._cells[held]
                continue
            if chunk == self.new:
                self.state.put(ROWS + chunk, self.rows(chunk))
                token = self.state.tokens[ROWS + chunk]
                self._cells.update({(chunk, by): (token, cells) for by, cells in self._new_cells.items()})
            if chunk == self.new or chunk in self._taken:
                self.state.put(SENT + chunk, {"bits": np.packbits(self.sent(chunk))})
