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

from anabranch.chain import control
from anabranch.chain.arrow_columns import integers
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.stages import Stage
from anabranch.chain.state import State
from anabranch.families.filters.computed_columns import ComputedColumns, made_of
from anabranch.families.filters.derived_streams import stream_key
from anabranch.families.filters.forest import Forest
from anabranch.families.filters.kernels.fanout import fan_out, renumber
from anabranch.families.filters.partials import PartialSlices
from anabranch.families.filters.spec import Aggregate, Select, normal_of, spec_of
from anabranch.model.arrays import Ints, Ints32
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.predicates.conjunction import Normal

COMPOSE_DEPTH = 2
SUBSCRIPTIONS = "subscriptions"
#: So many pairs of an item and a subscription are in one batch of rows at most; Arrow counts them in 32 bits.
MOST_PAIRS = 2**30


class Share(Stage):
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
        self.aggregates = PartialSlices(stream, zones, COMPOSE_DEPTH)
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
    places: Ints32
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
        used = renumber(codes, users.places)
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
