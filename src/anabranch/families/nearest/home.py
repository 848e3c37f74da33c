"""First stage: the items' homes. A home keeps recent items and knows which zones are interested in which
cells.

It gets items, control and progress from order, and the space and the mergers from rendezvous (back packets).
It sends items to the zones that want them: on arrival if their cell is of interest, and later when interest
has grown to cover it while they were still in the buffer. Of a query it only needs to know which zone owns
it.

A zone gets everything where a cell is not enough to decide: before the space is known, in the batch that
brings it a new query or queries of another zone, and in a batch so long that the guards of one of its
queries may leave the window (interest.Merger.holds).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from anabranch.chain.balance import HURRY, Patience, division
from anabranch.chain.items import numbers_of
from anabranch.chain.packets import Kind, Packet, message_note
from anabranch.chain.stages import RescalableStage
from anabranch.chain.state import State
from anabranch.families.nearest import interest
from anabranch.families.nearest.interest import (
    ALL,
    HomeInterest,
    Merger,
    MergerTable,
    StreamProgress,
    receive_splits,
    wanted_items,
)
from anabranch.families.nearest.space import (
    By,
    CellGrid,
    CoordinateSpace,
    load_space,
    measured_extent,
    number_columns,
    points_of,
    save_space,
)
from anabranch.model.arrays import Array, Bools, Ints
from anabranch.model.stream import NUMBER, Stream

#: Whether the number of zones has changed since the last batch.
RESCALED = "rescaled"


class ItemHome(RescalableStage):
    name = "home"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience
        self.number_columns = number_columns(stream)

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        receivers = receive_splits(state, packets)
        if state.get_json(RESCALED):
            receivers = set(range(self.zones))
            state.drop(RESCALED)
        space = self._space(state, packets)
        arrived = [packet.rows for packet in packets if packet.kind is Kind.ITEMS]
        items = pa.concat_batches(arrived) if len(arrived) > 1 else arrived[0] if arrived else None
        counters = {interest.NOTIFY_RENDEZVOUS: items.num_rows if items is not None else 0}
        if space is None:
            out = self._to_all(items)
        else:
            table = self._mergers(state, packets, space)
            out = self._forward(state, space, table, items, packets, receivers)
            out += self._divide(space, packets)
        counters[interest.NOTIFY_INTERESTED] = sum(
            packet.rows.num_rows
            for packet in out
            if interest.is_message(packet, interest.ITEMS) and packet.zone != zone
        )
        return out + message_note(self.name, zone, counters)

    def rezoned(self, zone: int, before: Sequence[State]) -> State:
        """Zone 0 has all that waits. With the next batch all zones of rendezvous get what is at homes, and
        tell their interest, as zones do that take over queries (rebalance.py).
        """
        state = State()
        space = load_space(before[0], self.stream, len(before))
        if space is None:
            return state
        save_space(state, space)
        state.put_json(RESCALED, True)
        for old in before if zone == 0 else ():
            for key in old.keys(_ROWS):
                rows = old.rows(key)
                assert rows is not None
                marks = np.zeros((rows.num_rows, self.zones), np.bool_)
                state.put(key, rows)
                state.put(_SENT + key.removeprefix(_ROWS), {"bits": np.packbits(marks)})
        return state

    def _space(self, state: State, packets: Sequence[Packet]) -> CoordinateSpace | None:
        for packet in packets:
            if interest.is_message(packet, interest.SPACE):
                bounds = {name: (low, high) for name, (low, high) in packet.facts["bounds"].items()}
                save_space(state, CoordinateSpace(self.stream, bounds, self.zones))
        return load_space(state, self.stream, self.zones)

    def _to_all(self, items: pa.RecordBatch | None) -> list[Packet]:
        """Sends the first items to every zone, with what is needed to agree on the space."""
        if items is None:
            return []
        extent = measured_extent(items, self.number_columns)
        out = []
        for zone in range(self.zones):
            out.append(interest.message(interest.EXTENT, interest.RENDEZVOUS, zone, extent=extent))
            out.append(interest.message(interest.ITEMS, interest.RENDEZVOUS, zone, items))
        return out

    def _mergers(self, state: State, packets: Sequence[Packet], space: CoordinateSpace) -> MergerTable:
        """Returns the mergers of all zones, with what they have just sent."""
        table = MergerTable(state)
        for packet in packets:
            if interest.is_message(packet, interest.MERGER):
                cells = space.grid(tuple(packet.facts["by"])).grid.count
                table.update(packet.facts["zone"], dict(packet.facts), packet.rows, cells)
        return table

    def _forward(
        self,
        state: State,
        space: CoordinateSpace,
        table: MergerTable,
        items: pa.RecordBatch | None,
        packets: Sequence[Packet],
        receivers: set[int],
    ) -> list[Packet]:
        """Sends items to the zones that want them. `receivers` are zones that take over queries of others:
        they get all that is here.
        """
        progress = StreamProgress.of(packets)
        with_new_queries = _owners_of_new(packets, space)
        buffer = RecentBuffer(self.stream, state, self.zones, items)
        out: list[Packet] = []
        keep: list[tuple[int, int]] = []  # zone, number of the oldest item that it may still want
        for zone in range(self.zones):
            mergers = table.mergers(zone)
            new_query = zone in with_new_queries
            if not mergers and not new_query and zone not in receivers:
                continue
            if zone in receivers:
                first, want = 0, np.ones(buffer.size, np.bool_)
            else:
                interests = [self._interest(space, table, buffer, zone, merger) for merger in mergers]
                first, want = wanted_items(interests, new_query, progress, buffer.first_new, buffer.size)
            rows = buffer.take(zone, want, first)
            if rows:
                whole = pa.concat_batches(rows) if len(rows) > 1 else rows[0]
                out.append(interest.message(interest.ITEMS, interest.RENDEZVOUS, zone, whole))
            out += self._passed(space, buffer, zone, mergers)
            lows = [merger.low for merger in mergers if merger.want != ALL]
            if lows:
                keep.append((zone, min(lows)))
        buffer.save(keep)
        return out

    def _interest(
        self, space: CoordinateSpace, table: MergerTable, buffer: RecentBuffer, zone: int, merger: Merger
    ) -> HomeInterest:
        grid = space.grid(merger.by).grid
        return HomeInterest(
            merger,
            (zone, merger.by) in table.grown,
            partial(table.flags, zone, merger.by, grid.count),
            partial(buffer.cells, merger.by, grid),
        )

    def _passed(
        self, space: CoordinateSpace, buffer: RecentBuffer, zone: int, mergers: list[Merger]
    ) -> list[Packet]:
        """Tells a zone of the new items that it does not get, for windows that count them."""
        bys = [merger.by for merger in mergers if merger.counts]
        if not bys:
            return []
        names = [NUMBER] if self.stream.time is None else [NUMBER, self.stream.time]
        indices, columns = buffer.unsent(zone, names)
        if not len(indices):
            return []
        for index, by in enumerate(bys):
            cells = buffer.cells(by, space.grid(by).grid)
            columns[f"present{index}"] = pa.array(cells[indices] >= 0)
        rows = pa.record_batch(columns)
        return [
            interest.message(interest.PASSED, interest.RENDEZVOUS, zone, rows, by=[list(by) for by in bys])
        ]

    def _divide(self, space: CoordinateSpace, packets: Sequence[Packet]) -> list[Packet]:
        """Tells the zone that has far more to do than the others to give some of it away."""
        reports = [packet.facts for packet in packets if interest.is_message(packet, interest.WORK)]
        patience = HURRY if any(facts["requested"] for facts in reports) else self.patience
        work = {facts["zone"]: facts["work"] for facts in reports}
        divide = division(work, self.zones, len(space.splits), patience) if work else None
        if divide is None:
            return []
        return [
            interest.message(
                interest.DIVIDE, interest.RENDEZVOUS, divide.hot, other=divide.other, share=divide.share
            )
        ]


def _owners_of_new(packets: Sequence[Packet], space: CoordinateSpace) -> set[int]:
    """Returns the zones that get a query in this batch."""
    out: set[int] = set()
    for packet in packets:
        if packet.kind is Kind.ACTIVATE:
            out.update(space.owners_of_specs(packet.column("spec").to_pylist()).tolist())
    return out


# the recent buffer

_ROWS, _SENT = "buffer/", "sent/"


class RecentBuffer:
    """The items that some zone did not want on arrival and may want later, each with the zones that have it.

    A chunk of state holds the items of one batch. Its rows never change, the marks of who has them do; both
    are dropped when no zone may still want one of them. In memory all chunks lie side by side, the new items
    last.
    """

    def __init__(self, stream: Stream, state: State, zones: int, new: pa.RecordBatch | None) -> None:
        self.stream, self.state, self.zones = stream, state, zones
        self.chunks = [key.removeprefix(_ROWS) for key in state.keys(_ROWS)]
        self._rows = [self._stored_rows(chunk) for chunk in self.chunks]
        marks = [
            self._stored_marks(chunk, rows.num_rows)
            for chunk, rows in zip(self.chunks, self._rows, strict=True)
        ]
        self.first_new = sum(rows.num_rows for rows in self._rows)
        self.has_new = new is not None
        if new is not None:
            self.chunks.append(f"{int(numbers_of(new)[0]):016d}")
            self._rows.append(new)
            marks.append(np.zeros((new.num_rows, zones), np.bool_))
        #: where each chunk begins
        self.starts: Ints = np.cumsum([0, *(rows.num_rows for rows in self._rows)])
        self.numbers: Ints = _joined([numbers_of(rows) for rows in self._rows], np.int64)
        #: who has what: [items, zones]
        self.sent: Bools = _joined(marks, np.bool_).reshape(-1, zones)
        self._changed: set[int] = set()
        #: (chunk, by) -> the chunk's token and its cells; kept for the next batches
        self._chunk_cells: dict[tuple[str, By], tuple[bytes | None, Ints]] = state.cached(
            "cells of the buffer", [], dict
        )
        self._cells: dict[By, Ints] = {}

    @property
    def size(self) -> int:
        return len(self.numbers)

    def _stored_rows(self, chunk: str) -> pa.RecordBatch:
        rows = self.state.rows(_ROWS + chunk)
        assert rows is not None
        return rows

    def _stored_marks(self, chunk: str, size: int) -> Bools:
        stored = self.state.get(_SENT + chunk)
        assert stored is not None
        return np.unpackbits(stored["bits"], count=size * self.zones).view(np.bool_).reshape(size, -1)

    def cells(self, by: By, grid: CellGrid) -> Ints:
        """Returns the cells of all items, -1 where a coordinate is missing."""
        if by not in self._cells:
            parts = []
            for chunk, rows in zip(self.chunks, self._rows, strict=True):
                token, known = self.state.tokens.get(_ROWS + chunk), self._chunk_cells.get((chunk, by))
                if known is None or known[0] != token:
                    cells = grid.cells_of(points_of(self.stream, rows, by))
                    known = self._chunk_cells[chunk, by] = (token, cells)
                parts.append(known[1])
            self._cells[by] = _joined(parts, np.int64)
        return self._cells[by]

    def take(self, zone: int, want: Bools, first: int) -> list[pa.RecordBatch]:
        """Returns the items from index `first` on, where a chunk begins, that a zone wants and does not have;
        it has them from now on.
        """
        now = want & ~self.sent[first:, zone]
        if not now.any():
            return []
        self.sent[first:, zone] |= now
        out = []
        for index, rows in enumerate(self._rows):
            if self.starts[index] < first:
                continue
            here = now[self.starts[index] - first : self.starts[index + 1] - first]
            if here.any():
                self._changed.add(index)
                out.append(rows if here.all() else rows.filter(pa.array(here)))
        return out

    def unsent(self, zone: int, names: list[str]) -> tuple[Ints, dict[str, pa.Array]]:
        """Returns the indices of the new items that a zone does not have, and some of their columns."""
        if not self.has_new:
            return np.empty(0, np.int64), {}
        missing = ~self.sent[self.first_new :, zone]
        columns = {name: self._rows[-1].column(name).filter(pa.array(missing)) for name in names}
        return self.first_new + np.flatnonzero(missing), columns

    def save(self, keep: list[tuple[int, int]]) -> None:
        """Keeps what a zone may still want: keep = (zone, number of the oldest such item)."""
        zones, lows = [zone for zone, _ in keep], np.array([low for _, low in keep], np.int64)
        wanted = np.any((self.numbers[:, None] >= lows) & ~self.sent[:, zones], axis=1)
        for index, chunk in enumerate(self.chunks):
            new = self.has_new and index == len(self.chunks) - 1
            span = slice(self.starts[index], self.starts[index + 1])
            if not wanted[span].any():
                self.state.drop(_ROWS + chunk)
                self.state.drop(_SENT + chunk)
                continue
            if new:
                self.state.put(_ROWS + chunk, self._rows[index])
                for by, cells in self._cells.items():
                    self._chunk_cells[chunk, by] = (self.state.tokens[_ROWS + chunk], cells[span])
            if new or index in self._changed:
                self.state.put(_SENT + chunk, {"bits": np.packbits(self.sent[span])})
        tokens = self.state.tokens
        for key in [key for key in self._chunk_cells if tokens.get(_ROWS + key[0]) is None]:
            del self._chunk_cells[key]


def _joined(parts: list[Array], dtype: type[np.int64] | type[np.bool_]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype)
