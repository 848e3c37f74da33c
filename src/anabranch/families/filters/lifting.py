"""The aggregates' part of `share`: the items of each derived stream, as slices for the zones of `compose`.

In: items, with the nodes that each belongs to. Out: PARTIAL packets, one a zone of `compose` that has
something coming. Where a derived stream has windows in time only, its items are cut at their edges and each
slice is aggregated here, so that few rows travel. Where it has windows in rows, its items travel raw: edges
are positions in the derived stream, and only `compose` sees all of it. Sums are exact in parts
(kernels/sums.py), so it does not matter for the results which zone looked at which items.

    PARTIAL rows: stream (its key, as a dictionary), number and time of the first item, items, layout, words
            facts: layouts, what the numbers in `layout` mean
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.families.filters.derived import DerivedStreams, Shape
from anabranch.families.filters.slices import empty_rows
from anabranch.families.filters.slots import used_only
from anabranch.families.filters.spec import Aggregate
from anabranch.kernels.fanout import owners_of
from anabranch.kernels.slices import ROW, Rows, cut, flush, pick_raw
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.zones.columns import Array, numbers_of, times_of
from anabranch.zones.packets import Kind, Packet

_MOST = np.int64(2**63 - 1)
_EMPTY = np.empty(0, np.int64)


class Lifting:
    def __init__(self, stream: Stream, zones: int, place: int) -> None:
        """`zones` and `place` are those of `compose` in the chain."""
        self.stream, self.zones, self.place = stream, zones, place
        self.derived = DerivedStreams(stream)
        self.derived.streams.add_column("peer", np.int64, -1)  # another derived stream of the same node
        self._slot_of_node = np.full(16, -1, np.int64)
        self._queries: dict[int, tuple[Aggregate, int, int, int]] = {}  # spec, node, slot, shape

    def add(self, number: int, spec: Aggregate, node: int, key: int) -> None:
        slot = self.derived.enter(key, spec)
        shape = Shape.of(spec.window, self.stream)
        place = self.derived.enter_shape(slot, shape) if shape.axis != ROW else -1
        self._attach(node, slot)
        self._queries[number] = (spec, node, slot, place)

    def _attach(self, node: int, slot: int) -> None:
        if node >= len(self._slot_of_node):
            grown = np.full(2 * node, -1, np.int64)
            grown[: len(self._slot_of_node)] = self._slot_of_node
            self._slot_of_node = grown
        if slot not in self._chain(node):
            self.derived.streams["peer"][slot] = self._slot_of_node[node]
            self._slot_of_node[node] = slot

    def _chain(self, node: int) -> list[int]:
        """The derived streams of a node: one, where normal forms tell apart all that differs."""
        chain, slot = [], int(self._slot_of_node[node])
        while slot >= 0:
            chain.append(slot)
            slot = int(self.derived.streams["peer"][slot])
        return chain

    def remove(self, number: int) -> None:
        spec, node, slot, place = self._queries.pop(number)
        if place >= 0:
            self.derived.leave_shape(place, Shape.of(spec.window, self.stream))
        chain = self._chain(node)
        if self.derived.leave(slot, spec):
            self._slot_of_node[node] = -1
            for other in chain:
                if other != slot:
                    self.derived.streams["peer"][other] = self._slot_of_node[node]
                    self._slot_of_node[node] = other

    def partials(
        self, items: pa.RecordBatch, offsets: Array, nodes: Array, origin: Time | None
    ) -> list[Packet]:
        """What these items are to the derived streams, for the zones of `compose`."""
        if not self._queries or not len(nodes):
            return []
        self.derived.begin_at(origin)
        known = self._slot_of_node
        if int(nodes.max()) >= len(known):
            known = np.r_[known, np.full(int(nodes.max()) + 1 - len(known), -1)]
        picks, slots = owners_of(offsets, nodes, known, self.derived.streams["peer"])
        if not len(picks):
            return []
        source, picks = self._source(items, picks)
        by_rows = self.derived.streams["by_rows"][slots] > 0
        if not by_rows.any():
            return self._packets([self._lifted(slots, picks, source)])
        parts = [self._raw(slots[by_rows], picks[by_rows], source)]
        if not by_rows.all():
            parts.append(self._lifted(slots[~by_rows], picks[~by_rows], source))
        return self._packets(parts)

    def _source(self, items: pa.RecordBatch, picks: Array) -> tuple[Rows, Array]:
        """The items that anyone picked, raw, with the columns that aggregates need; the picks among them."""
        columns = self.derived.columns
        needed = {self.stream.columns[column].name for column in columns} | {NUMBER, self.stream.time}
        items = items.select([name for name in items.schema.names if name in needed])
        used = np.zeros(items.num_rows, bool)
        used[picks] = True
        chosen = np.flatnonzero(used)
        if len(chosen) < items.num_rows:
            items = items.take(pa.array(chosen))
            picks = (np.cumsum(used) - 1)[picks]
        layout = self.derived.book.raw(columns)
        width = self.derived.book.width(layout)
        words = np.zeros((items.num_rows, width), np.int64)
        masks = width - len(columns)
        for bit, column in enumerate(columns):
            values, there = _words_of(items.column(self.stream.columns[column].name))
            words[:, bit >> 6] |= there.astype(np.int64) << np.int64(bit & 63)
            words[:, masks + bit] = values
        count = items.num_rows
        # Copies, since kernels are compiled anew for arrays that cannot be written to.
        times = times_of(items, self.stream).copy() if self.stream.time else np.zeros(count, np.int64)
        at = np.arange(count, dtype=np.int64) * width
        rows = Rows(
            numbers_of(items).copy(),
            times,
            np.zeros(count, np.int64),
            np.ones(count, np.int64),
            np.full(count, layout, np.int64),
            at,
            words.reshape(-1),
        )
        return rows, picks

    def _lifted(self, slots: Array, picks: Array, source: Rows) -> tuple[Array, Rows]:
        """(derived stream, slice): the picks of these derived streams, cut and aggregated."""
        layouts, streams = self.derived.book.arrays, self.derived.stream_arrays()
        widths = layouts.width[streams.layout]
        held = empty_rows(len(widths), int(widths.sum()), source.time.dtype)
        held.at[:] = np.cumsum(widths) - widths
        held.items[:] = 0
        out = empty_rows(len(picks), int(widths[slots].sum()), source.time.dtype)
        owners = np.empty(len(picks), np.int64)
        rows, words = cut(
            slots, picks, source, layouts, self.derived.shape_arrays(), streams, held, out, owners
        )
        rows, words = flush(self.derived.streams.live, layouts, held, out, rows, words, owners)
        return owners[:rows], Rows._make([*(part[:rows] for part in out[:-1]), out.words[:words]])

    def _raw(self, slots: Array, picks: Array, source: Rows) -> tuple[Array, Rows]:
        """(derived stream, item): the picks of these derived streams, with the columns that each needs."""
        layout = self.derived.streams["raw"][slots]
        layouts = self.derived.book.arrays
        widths = layouts.width[layout]
        at = np.cumsum(widths) - widths
        words = np.empty(int(widths.sum()), np.int64)
        pick_raw(picks, source, layouts, layout, at, words)
        picked = [part[picks] for part in (source.number, source.time, source.position, source.items)]
        return slots, Rows._make([*picked, layout, at, words])

    def _packets(self, parts: list[tuple[Array, Rows]]) -> list[Packet]:
        """Slices, dealt out to the zones of their derived streams."""
        slots, rows = parts[0] if len(parts) == 1 else _joined(parts)
        layouts = np.flatnonzero(np.bincount(rows.layout))
        local = np.zeros(len(self.derived.book.entries), np.int32)
        local[layouts] = np.arange(len(layouts), dtype=np.int32)
        offsets = pa.array(np.r_[rows.at, len(rows.words)].astype(np.int32))
        keys, codes = used_only(slots, self.derived.streams["key"])
        table = pa.record_batch(
            {
                "stream": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(keys)),
                "number": pa.array(rows.number),
                "time": pa.array(rows.time),
                "items": pa.array(rows.items),
                "layout": pa.array(local[rows.layout]),
                "words": pa.ListArray.from_arrays(offsets, pa.array(rows.words)),
            }
        )
        facts = {"layouts": self.derived.book.described(layouts.tolist())}
        zones = (keys % self.zones)[codes]
        out = []
        for zone in np.flatnonzero(np.bincount(keys % self.zones)).tolist():
            own = zones == zone
            dealt = table if own.all() else table.filter(pa.array(own))
            out.append(Packet(self.place, zone, Kind.PARTIAL, dealt, facts))
        return out


def _joined(parts: list[tuple[Array, Rows]]) -> tuple[Array, Rows]:
    """Rows of several parts as one."""
    base = np.cumsum([0, *(len(rows.words) for _, rows in parts)])
    at = np.concatenate([rows.at + before for (_, rows), before in zip(parts, base[:-1], strict=True)])
    columns = [np.concatenate(column) for column in zip(*(rows for _, rows in parts), strict=True)]
    return np.concatenate([slots for slots, _ in parts]), Rows(*columns)._replace(at=at)


def _words_of(column: pa.Array) -> tuple[Array, Array]:
    """A column as int64 words in which order is kept (kernels/slices.py), and where it is not missing."""
    there = column.is_valid()
    kind = column.type
    if pa.types.is_floating(kind):
        floats = pc.fill_null(column, float("nan")).to_numpy(zero_copy_only=False)
        bits = floats.view(np.int64)
        return np.where(bits >= 0, bits, bits ^ _MOST), ~np.isnan(floats)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    if pa.types.is_integer(column.type):
        return pc.fill_null(column, 0).to_numpy(zero_copy_only=False), there.to_numpy(zero_copy_only=False)
    return np.zeros(len(column), np.int64), there.to_numpy(zero_copy_only=False)
