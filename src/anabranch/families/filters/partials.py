"""The aggregates' part of `share`: the items of each derived stream, as slices for the zones of `compose`.

Where a derived stream has windows in time only, its items are cut at their edges and each slice is aggregated
here, so that few rows travel. Where it has windows in rows, its items travel raw: edges are positions in the
derived stream, and only `compose` sees all of it. Sums are exact in parts (kernels/exact_sums.py), so it does
not matter for the results which zone looked at which items.

    PARTIAL rows: stream (its key, as a dictionary), number and time of the first item, items, layout, words
            facts: layouts, what the numbers in `layout` mean
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.arrow_columns import numbers_of, times_of
from anabranch.chain.packets import Kind, Packet
from anabranch.families.filters.derived_streams import DerivedStreams, WindowShape, float_words, time_words
from anabranch.families.filters.kernels.cut_slices import ROW, SliceRows, cut, flush, pick_raw
from anabranch.families.filters.kernels.fanout import owners_of
from anabranch.families.filters.slice_store import empty_rows, first_rows
from anabranch.families.filters.spec import Aggregate
from anabranch.model.arrays import Bools, Ints, Ints32
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.numeric.slots import grown, used_only


class PartialSlices:
    """The aggregate queries of a zone of `share`."""

    def __init__(self, stream: Stream, zones: int, depth: int) -> None:
        """`zones` and `depth` are those of `compose` in the chain."""
        self.stream, self.zones, self.depth = stream, zones, depth
        self.derived = DerivedStreams(stream)
        self.derived.streams.add_column("peer", np.int64, -1)  # another derived stream of the same node
        self._slot_of_node = np.full(16, -1, np.int64)
        self._queries: dict[int, tuple[Aggregate, int, int, int]] = {}  # spec, node, stream, shape

    def add(self, number: int, spec: Aggregate, node: int, key: int) -> None:
        stream = self.derived.add(key, spec)
        shape = WindowShape.of(spec.window, self.stream)
        slot = self.derived.add_shape(stream, shape) if shape.axis != ROW else -1
        self._attach(node, stream)
        self._queries[number] = (spec, node, stream, slot)

    def _attach(self, node: int, stream: int) -> None:
        known = len(self._slot_of_node)
        if node >= known:
            self._slot_of_node = grown(self._slot_of_node, 2 * node, known)
            self._slot_of_node[known:] = -1
        if stream not in self._streams_of(node):
            self.derived.streams["peer"][stream] = self._slot_of_node[node]
            self._slot_of_node[node] = stream

    def _streams_of(self, node: int) -> list[int]:
        """The derived streams of a node: one, except where the forest proved different normal forms equal."""
        streams, slot = [], int(self._slot_of_node[node])
        while slot >= 0:
            streams.append(slot)
            slot = int(self.derived.streams["peer"][slot])
        return streams

    def remove(self, number: int) -> None:
        spec, node, stream, slot = self._queries.pop(number)
        if slot >= 0:
            self.derived.remove_shape(slot, WindowShape.of(spec.window, self.stream))
        streams = self._streams_of(node)
        if self.derived.remove(stream, spec):
            self._slot_of_node[node] = -1
            for other in streams:
                if other != stream:
                    self.derived.streams["peer"][other] = self._slot_of_node[node]
                    self._slot_of_node[node] = other

    def packets(
        self, items: pa.RecordBatch, offsets: Ints, nodes: Ints32, origin: Time | None
    ) -> list[Packet]:
        """Returns the slices of these items, one packet per zone of `compose` that gets any. offsets, nodes:
        CSR item -> nodes.
        """
        if not self._queries or not len(nodes):
            return []
        self.derived.set_origin(origin)
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

    def _source(self, items: pa.RecordBatch, picks: Ints) -> tuple[SliceRows, Ints]:
        """The picked items, raw, with the columns that aggregates need; and the picks among them."""
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
            values, present = _words_of(items.column(self.stream.columns[column].name))
            words[:, bit >> 6] |= present.astype(np.int64) << np.int64(bit & 63)
            words[:, masks + bit] = values
        count = items.num_rows
        times = time_words(times_of(items, self.stream)) if self.stream.time else np.zeros(count, np.int64)
        rows = SliceRows(
            _writeable(numbers_of(items)),
            _writeable(times),
            np.zeros(count, np.int64),
            np.ones(count, np.int64),
            np.full(count, layout, np.int64),
            np.arange(count, dtype=np.int64) * width,
            words.reshape(-1),
        )
        return rows, picks

    def _lifted(self, slots: Ints, picks: Ints, source: SliceRows) -> tuple[Ints, SliceRows]:
        """(derived stream, slice): the picks of these derived streams, cut and aggregated."""
        layouts, streams = self.derived.book.arrays, self.derived.stream_arrays()
        widths = layouts.width[streams.layout]
        open_ = empty_rows(len(widths), int(widths.sum()))
        open_.at[:] = np.cumsum(widths) - widths
        open_.items[:] = 0
        out = empty_rows(len(picks), int(widths[slots].sum()))
        owners = np.empty(len(picks), np.int64)
        shapes = self.derived.shape_arrays()
        rows, words = cut(slots, picks, source, layouts, shapes, streams, open_, out, owners)
        rows, words = flush(self.derived.streams.live, layouts, open_, out, rows, words, owners)
        return owners[:rows], first_rows(out, rows, words)

    def _raw(self, slots: Ints, picks: Ints, source: SliceRows) -> tuple[Ints, SliceRows]:
        """(derived stream, item): the picks of these derived streams, with the columns that each needs."""
        layout = self.derived.streams["raw"][slots]
        layouts = self.derived.book.arrays
        widths = layouts.width[layout]
        at = np.cumsum(widths) - widths
        words = np.empty(int(widths.sum()), np.int64)
        pick_raw(picks, source, layouts, layout, at, words)
        picked = [part[picks] for part in (source.number, source.time, source.position, source.items)]
        return slots, SliceRows._make([*picked, layout, at, words])

    def _packets(self, parts: list[tuple[Ints, SliceRows]]) -> list[Packet]:
        """Sends slices to the zones of their derived streams."""
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
        facts = {"layouts": self.derived.book.to_json(layouts.tolist())}
        zones = (keys % self.zones)[codes]
        out = []
        for zone in np.flatnonzero(np.bincount(keys % self.zones)).tolist():
            own = zones == zone
            part = table if own.all() else table.filter(pa.array(own))
            out.append(Packet(self.depth, zone, Kind.PARTIAL, part, facts))
        return out


def _joined(parts: list[tuple[Ints, SliceRows]]) -> tuple[Ints, SliceRows]:
    """Rows of several parts as one."""
    base = np.cumsum([0, *(len(rows.words) for _, rows in parts)])
    at = np.concatenate([rows.at + before for (_, rows), before in zip(parts, base[:-1], strict=True)])
    columns = [np.concatenate(column) for column in zip(*(rows for _, rows in parts), strict=True)]
    return np.concatenate([slots for slots, _ in parts]), SliceRows(*columns)._replace(at=at)


def _writeable(values: Ints) -> Ints:
    """A kernel is compiled once more for arrays that cannot be written to, such as those of Arrow."""
    return values if values.flags.writeable else values.copy()


def _words_of(column: pa.Array) -> tuple[Ints, Bools]:
    """A column as int64 words in the same order (kernels/cut_slices.py), and where it is present."""
    present = column.is_valid()
    if pa.types.is_floating(column.type):
        floats = pc.fill_null(column, float("nan")).to_numpy(zero_copy_only=False)
        return float_words(floats), ~np.isnan(floats)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    flags = present.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type):
        return pc.fill_null(column, 0).to_numpy(zero_copy_only=False), flags
    return np.zeros(len(column), np.int64), flags
