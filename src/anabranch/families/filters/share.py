"""The first stage: each zone looks at a run of consecutive items and finds the derived streams of each.

    items --> computed columns --> forest: which conditions hold --> select: RESULT rows, for delivery
                                                                 --> aggregates: PARTIAL slices, for `compose`

A zone looks at one item at a time. What needs positions or neighbours in the stream is for `compose`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain import control
from anabranch.chain.items import integers, numbers_of, times_of
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.stages import RescalableStage
from anabranch.chain.state import State
from anabranch.families.filters.computed_columns import ComputedColumns, made_of
from anabranch.families.filters.derived_streams import (
    DerivedStreams,
    WindowShape,
    float_words,
    stream_key,
    time_words,
)
from anabranch.families.filters.forest import Forest
from anabranch.families.filters.kernels.cut_slices import (
    ROW,
    SliceRows,
    cut,
    empty_rows,
    first_rows,
    flush,
    pick_raw,
)
from anabranch.families.filters.kernels.matching import fan_out, owners_of, renumber
from anabranch.families.filters.spec import Aggregate, Select, normal_of, spec_of
from anabranch.model.arrays import Bools, Ints, Ints32
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.numeric.slots import grown, used_only
from anabranch.predicates.conjunction import Normal

COMPOSE_DEPTH = 2
SUBSCRIPTIONS = "subscriptions"
#: So many pairs of an item and a subscription are in one batch of rows at most; Arrow counts them in 32 bits.
MOST_PAIRS = 2**30


class Share(RescalableStage):
    name = "share"

    def __init__(self, stream: Stream, zones: int) -> None:
        self.stream, self.zones = stream, zones

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        queries = state.cached("shared queries", state.keys(control.PREFIX), lambda: self._build(state))
        origin = next(packet.facts["origin"] for packet in reversed(packets) if packet.kind is Kind.PROGRESS)
        out: list[Packet] = []
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                queries = self._apply(state, queries, packet)
            elif packet.kind is Kind.ITEMS:
                out += queries.packets(packet.rows, origin)
        return out

    def rezoned(self, zone: int, before: Sequence[State]) -> State:
        return before[0].copy()  # every zone has all queries

    def _apply(self, state: State, queries: SharedQueries, packet: Packet) -> SharedQueries:
        """Returns the queries after ACTIVATE or CANCEL."""
        added, removed = control.apply(state, [packet])
        if not all(map(queries.covers, added)) or len(added) > max(100, len(queries)):
            queries = self._build(
                state
            )  # with columns that are new, or because that is faster than one by one
        else:
            for query in added:
                queries.add(query)
        for cancelled in removed:
            queries.remove(cancelled.number)
        state.cache("shared queries", state.keys(control.PREFIX), queries)
        return queries

    def _build(self, state: State) -> SharedQueries:
        return SharedQueries(self.stream, self.zones, control.queries(state).values())


@dataclass(frozen=True)
class _SharedQuery:
    spec: Select | Aggregate
    node: int


class SharedQueries:
    """The queries of a zone of `share`."""

    def __init__(self, stream: Stream, zones: int, active: Collection[control.Query]) -> None:
        self.columns = ComputedColumns(stream, (made_of(query.spec) for query in active))
        self.stream = stream = self.columns.stream
        specs = [spec_of(query.spec) for query in active]
        normals = [normal_of(spec, stream) for spec in specs]
        self.forest = Forest.build(normals, stream)
        self.selects = SelectResults(stream)
        self.aggregates = PartialSlices(stream, zones)
        self._queries: dict[int, _SharedQuery] = {}
        for query, spec, normal in zip(active, specs, normals, strict=True):
            self._add(query, spec, normal, self.forest.node_of(normal))

    def __len__(self) -> int:
        return len(self._queries)

    def covers(self, query: control.Query) -> bool:
        """Returns whether all columns are known that the query has computed."""
        return self.columns.covers(made_of(query.spec))

    def add(self, query: control.Query) -> None:
        spec = spec_of(query.spec)
        normal = normal_of(spec, self.stream)
        self._add(query, spec, normal, self.forest.add(normal))

    def _add(self, query: control.Query, spec: Select | Aggregate, normal: Normal, node: int) -> None:
        self.columns.add(query.number, query.name, spec.made)
        if isinstance(spec, Select):
            self.selects.add(query.number, query.name, spec, node)
        else:
            self.aggregates.add(query.number, spec, node, stream_key(normal))
        self._queries[query.number] = _SharedQuery(spec, node)

    def remove(self, number: int) -> None:
        query = self._queries.pop(number, None)
        if query is None:  # it was never activated
            return
        if isinstance(query.spec, Select):
            self.selects.remove(number, query.spec, query.node)
        else:
            self.aggregates.remove(number)
        self.forest.remove(query.node)
        self.columns.remove(number, query.spec.made)

    def packets(self, items: pa.RecordBatch, origin: Time | None) -> list[Packet]:
        """Returns what the stage sends for these items."""
        if self.columns.calls:
            items = self.columns.compute(items)
        offsets, nodes = self.forest.match(items)
        out = self.aggregates.packets(items, offsets, nodes, origin)
        for rows in self.selects.rows(items, offsets, nodes):
            out.append(Packet(DELIVER, 0, Kind.RESULT, rows, {"table": "select"}))
        return out


class _NodeUsers(NamedTuple):
    """CSR node -> codes of queries, and what is the same for every batch until queries change: how many
    queries a node has at most, all names by code, room for `renumber`, the columns of the table.
    """

    offsets: Ints
    codes: Ints32
    most: int
    names: pa.StringArray
    new_codes: Ints32
    columns: list[str]


class SelectResults:
    """The select queries of a zone: which items each gets, and with which columns. The table `select` has one
    row per item that is a result of at least one subscription.

    Every query has a code, its index in `names`; codes are used again when their query has been removed.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._names: list[str] = []
        self._free: list[int] = []
        self._codes: dict[int, int] = {}  # number of the query -> code
        self._by_node: dict[int, dict[int, None]] = {}  # node -> codes, in order of activation
        self._columns: Counter[str] = Counter()
        self._users: _NodeUsers | None = None

    def add(self, number: int, name: str, spec: Select, node: int) -> None:
        if self._free:
            code = self._free.pop()
            self._names[code] = name
        else:
            code = len(self._names)
            self._names.append(name)
        self._codes[number] = code
        self._by_node.setdefault(node, {})[code] = None
        self._columns.update({output.column for output in spec.outputs})
        self._users = None

    def remove(self, number: int, spec: Select, node: int) -> None:
        code = self._codes.pop(number)
        self._free.append(code)
        users = self._by_node[node]
        del users[code]
        if not users:
            del self._by_node[node]
        for column in {output.column for output in spec.outputs}:
            self._columns[column] -= 1
        self._users = None

    def rows(self, items: pa.RecordBatch, offsets: Ints, nodes: Ints32) -> list[pa.RecordBatch]:
        """Returns the rows of the table for these items, given the nodes of each, in as few batches as
        Arrow's lists allow.
        """
        if not self._by_node or not len(nodes):
            return []
        users = self._node_users(int(nodes.max()) + 1)
        if items.num_rows > 1 and len(nodes) * users.most > MOST_PAIRS:
            if np.diff(users.offsets)[nodes].sum() > MOST_PAIRS:
                half = items.num_rows // 2
                cut = offsets[half]
                return [
                    *self.rows(items.slice(0, half), offsets[: half + 1], nodes[:cut]),
                    *self.rows(items.slice(half), offsets[half:] - cut, nodes[cut:]),
                ]
        kept, list_offsets, codes = fan_out(offsets, nodes, users.offsets, users.codes)
        if not len(kept):
            return []
        used = renumber(codes, users.new_codes)
        shown = pa.DictionaryArray.from_arrays(integers(codes), users.names.take(integers(used)))
        lists = pa.ListArray.from_arrays(integers(list_offsets), shown)
        rows = items.select(users.columns)
        if len(kept) < items.num_rows:
            rows = rows.take(integers(kept))
        number, *columns = rows.columns
        names = [NUMBER, SUBSCRIPTIONS, *users.columns[1:]]
        return [pa.RecordBatch.from_arrays([number, lists, *columns], names=names)]

    def _node_users(self, least: int) -> _NodeUsers:
        """For at least `least` nodes; kept until queries change."""
        if self._users is None or len(self._users.offsets) <= least:
            size = max(least, max(self._by_node) + 1)
            counts = np.zeros(size + 1, np.int64)
            for node, users in self._by_node.items():
                counts[node + 1] = len(users)
            codes = [code for node in sorted(self._by_node) for code in self._by_node[node]]
            self._users = _NodeUsers(
                np.cumsum(counts),
                np.array(codes, np.int32),
                int(counts.max()),
                pa.array(self._names, pa.string()),
                np.full(len(self._names), -1, np.int32),
                [NUMBER, *(c.name for c in self.stream.columns if self._columns[c.name] > 0)],
            )
        return self._users


class PartialSlices:
    """The aggregate queries of a zone: the items of each derived stream, as slices for `compose`.

    Where a derived stream has windows in time only, its items are cut at their edges and each slice is
    aggregated here, so that few rows travel. Where it has windows in rows, its items travel raw: edges are
    positions in the derived stream, and only `compose` sees all of it. Sums are exact in parts
    (kernels/exact_sums.py), so it does not matter for the results which zone looked at which items.

        PARTIAL rows: stream (its key), number and time of the first item, items, layout, words
                facts: layouts, what the numbers in `layout` mean
    """

    def __init__(self, stream: Stream, zones: int) -> None:
        """`zones` are those of `compose`."""
        self.stream, self.zones = stream, zones
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
            out.append(Packet(COMPOSE_DEPTH, zone, Kind.PARTIAL, part, facts))
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
