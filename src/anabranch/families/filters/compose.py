"""The second stage: each zone has some derived streams and composes the windows on them from their slices.

    PARTIAL slices from `share` --> SliceStore --> windows --> AggregateResults --> RESULT rows, for delivery

Control comes before the slices of the same batch, so the numbers of items tell what a query sees: its windows
in rows begin at the position that its derived stream has before item `first_item`, and end with the position
before item `end_item`. Windows in time are full when the time of the last item that left order has reached
their end. That is a little later than the progress of time allows where a stream has lateness, and necessary:
a query may still be cancelled at any moment after the last item.

Before windows are composed, those that have items are counted. A query that would get more of them than its
budget allows (chain/budget.py) is suspended before the first item of the batch. A select needs no budget: it
gets at most one row per item.

In the state, beside the queries and their slices (slice_store.py): `clock`, how far windows are composed,
`members`, for each query its derived stream and the position at which its windows in rows begin, and `made`,
the computed columns. Everything else is built from these when another worker takes over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.budget import Budget, suspended
from anabranch.chain.items import ARROW_TYPES, subscription_column
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.stages import RescalableStage
from anabranch.chain.state import Arrays, State
from anabranch.chain.windows import edge_columns, first_window_after
from anabranch.families.filters.computed_columns import made_of, widened
from anabranch.families.filters.derived_streams import WindowShape, column_index, stream_key
from anabranch.families.filters.kernels import compose_windows
from anabranch.families.filters.kernels.compose_windows import ComposedWindows
from anabranch.families.filters.kernels.cut_slices import FLOAT_TIME, FRACTION, ROW, LayoutArrays, ShapeArrays
from anabranch.families.filters.slice_store import DueShapes, IncomingSlices, SliceStore, rezone_slices
from anabranch.families.filters.spec import ITEMS, Aggregate, AggregateColumn, Function, normal_of
from anabranch.model.arrays import Array, Ints
from anabranch.model.columns import ColumnType
from anabranch.model.operators import Made
from anabranch.model.stream import Stream, Time
from anabranch.model.window import AtEnd
from anabranch.numeric.slots import Slots
from anabranch.numeric.window_edges import NEVER
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import TRUE, Term, to_json

FAMILY, AGGREGATE = "filters", "aggregate"
CLOCK, MEMBERS, MADE = "clock", "members", "made"
#: What the state keeps of a query beside its spec: its derived stream, and where its windows in rows begin.
MEMBER = ("number", "stream", "base")

_FUNCTIONS = {
    Function.COUNT: compose_windows.COUNTED,
    Function.MIN: compose_windows.LEAST,
    Function.MAX: compose_windows.GREATEST,
    Function.SUM: compose_windows.TOTAL,
    Function.AVG: compose_windows.MEAN,
}
_AT_END = {AtEnd.CUT: 0, AtEnd.GATHER: 1, AtEnd.RUN: 2}


class Compose(RescalableStage):
    name = "compose"

    def __init__(self, stream: Stream, zones: int, budget: Budget) -> None:
        """A query may get so many windows per batch and per item of its derived stream."""
        self.stream, self.zones, self.budget = stream, zones, budget

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        composer = state.cached("composer", state.keys(), lambda: self._load(state))
        own = self._own_control(zone, composer, packets)
        progress = next(packet.facts for packet in reversed(packets) if packet.kind is Kind.PROGRESS)
        if not (own or composer.queries or progress["ended"]):
            return []  # without a query there is nothing to keep but the end
        made = [made for packet in own if packet.kind is Kind.ACTIVATE for made in _made_by(packet)]
        if made and len(widened(composer.stream, made).columns) > len(composer.stream.columns):
            composer = self._load(state, made)  # built again, with columns that are new
        added, removed = control.apply(state, own)
        partials = [packet for packet in packets if packet.kind is Kind.PARTIAL]
        rows, excesses = composer.step(added, removed, partials, progress)
        out = [Packet(DELIVER, 0, Kind.RESULT, rows, {"table": AGGREGATE})] if rows is not None else []
        for excess in excesses:
            sent = suspended(FAMILY, excess.query, excess.item, excess.reason)
            control.apply(state, sent)  # it is cancelled here at once, in other zones with the next batch
            out += sent
        composer.save(state)
        state.cache("composer", state.keys(), composer)
        return out

    def _load(self, state: State, more: Iterable[Made] = ()) -> Composer:
        return Composer.load(self.stream, self.budget, state, more)

    def rezoned(self, zone: int, before: Sequence[State]) -> State:
        state = State()
        clocks = [clock for clock in (old.get_json(CLOCK) for old in before) if clock is not None]
        if not clocks:
            return state
        made = [Made.from_json(column) for old in before for column in old.get_json(MADE) or ()]
        made = list({column.name: column for column in made}.values())
        members: list[Arrays] = []
        for index, old in enumerate(before):
            queries = [query for query in control.queries(old).values() if self._is_own(zone, query)]
            numbers = np.array([query.number for query in queries], np.int64)
            control.copy(old, state, numbers)
            stored = old.get(MEMBERS)
            if stored is not None:
                own = np.isin(stored["number"], numbers)
                kept = {name: stored[name][own] for name in MEMBER}
                members.append(kept | {"stream": kept["stream"] * len(before) + index})
        if members:
            state.put(MEMBERS, {name: np.concatenate([part[name] for part in members]) for name in MEMBER})
        if made:
            state.put_json(MADE, [column.to_json() for column in made])
        stream = widened(self.stream, made)
        next_id = rezone_slices(stream, before, state, lambda key: key % self.zones == zone)
        latest = max(clocks, key=lambda clock: (clock[1] is not None, clock[1] or 0))
        origin = next((clock[0] for clock in clocks if clock[0] is not None), None)
        number = max(clock[4] for clock in clocks)
        state.put_json(CLOCK, [origin, latest[1], any(clock[2] for clock in clocks), next_id, number])
        return state

    def _own_control(self, zone: int, composer: Composer, packets: Sequence[Packet]) -> list[Packet]:
        """Returns the control for queries whose derived streams are in this zone."""
        own: list[Packet] = []
        activated: set[int] = set()
        for packet in packets:
            if packet.kind is Kind.ACTIVATE:
                are_own = [self._is_own(zone, query) for query in control.activated(packet)]
                rows = packet.rows.filter(pa.array(are_own, pa.bool_()))
                activated.update(rows.column("number").to_pylist())
            elif packet.kind is Kind.CANCEL:
                numbers = packet.rows.column("number").to_pylist()
                are_own = [number in composer.queries or number in activated for number in numbers]
                rows = packet.rows.filter(pa.array(are_own, pa.bool_()))
            else:
                continue
            if rows.num_rows:
                own.append(Packet(packet.stage, packet.zone, packet.kind, rows))
        return own

    def _is_own(self, zone: int, query: control.Query) -> bool:
        if query.spec["kind"] != AGGREGATE:
            return False
        return _key_of(Aggregate.from_json(query.spec), self.stream) % self.zones == zone


def _made_by(packet: Packet) -> list[Made]:
    return [made for query in control.activated(packet) for made in made_of(query.spec)]


def _key_of(spec: Aggregate, stream: Stream) -> int:
    """Returns the key of the derived stream that a query is on."""
    return stream_key(normal_of(spec, stream))


@dataclass
class AggregateQuery:
    """A query of a zone: its derived stream, the position where its windows in rows begin, its slot among the
    results and that of its shape.
    """

    query: control.Query
    spec: Aggregate
    stream: int
    base: int = 0
    slot: int = -1
    shape: int = -1


class Excess(NamedTuple):
    """A query that is to be suspended at an item."""

    query: control.Query
    item: int
    reason: str


class Composer:
    """What a zone knows: its queries, their derived streams and slices, and how far time has come."""

    def __init__(self, stream: Stream, budget: Budget, made: Iterable[Made] = ()) -> None:
        """`made` are the computed columns of the queries here, and of earlier ones."""
        self.budget = budget
        self.made = list({column.name: column for column in made}.values())
        self.stream = stream = widened(stream, self.made)
        self.slices = SliceStore(stream)
        self.derived = self.slices.derived
        self.results = AggregateResults(stream)
        self.queries: dict[int, AggregateQuery] = {}  # by number
        self.last: Time | None = None
        self.number = 0  # of the next item
        self.ended = False
        self._members_changed = False

    def step(
        self,
        added: Sequence[control.Query],
        removed: Sequence[control.Cancelled],
        partials: Sequence[Packet],
        progress: Mapping[str, Any],
    ) -> tuple[pa.RecordBatch | None, list[Excess]]:
        """Brings the queries up to date with a batch; returns rows of the table `aggregate`, and the queries
        that had to be suspended, which are gone.
        """
        if self.ended:
            return None, []
        self.derived.set_origin(progress["origin"])
        for query in added:  # derived streams first: the slices of this batch refer to them
            self._add(query)
        incoming = IncomingSlices.read(partials, self.derived)
        for query in added:
            self._start(query, incoming)
        for cancelled in removed:
            self._limit(cancelled, incoming)
        self.slices.append(incoming)
        rows, excesses = self._windows(progress, incoming)
        gone = [cancelled.number for cancelled in removed] + [excess.query.number for excess in excesses]
        for number in dict.fromkeys(gone):
            self._remove(number)
        self.slices.evict()
        return rows, excesses

    # queries

    def _add(self, query: control.Query) -> None:
        spec = Aggregate.from_json(query.spec)
        stream = self.slices.add(_key_of(spec, self.stream), spec)
        self.queries[query.number] = AggregateQuery(query, spec, stream)
        self._members_changed = True

    def _start(self, query: control.Query, incoming: IncomingSlices) -> None:
        """Gives a query its windows: from the position before its first item, or after its activation."""
        own = self.queries[query.number]
        if own.spec.window.by_rows:
            own.base = self._position(own.stream, query.first_item, incoming)
        low = self._add_windows(query, own)
        if self.derived.shapes["users"][own.shape] == 1:
            self.derived.shapes["next"][own.shape] = low

    def _position(self, stream: int, item: int, incoming: IncomingSlices) -> int:
        """Returns how many items a derived stream has before item `item` of the stream."""
        return int(self.derived.streams["passed"][stream]) + incoming.items_before(stream, item)

    def _add_windows(self, query: control.Query, own: AggregateQuery) -> int:
        """Adds a query to the results; returns the number of its first window."""
        shape = WindowShape.of(own.spec.window, self.stream)
        own.shape = self.derived.add_shape(own.stream, shape, own.base)
        own.slot = self.results.add(query.name, own.spec, own.shape, shape.axis)
        member = (query.number, self.derived.streams["id"][own.stream], own.base)
        for name, value in zip(MEMBER, member, strict=True):
            self.results.queries[name][own.slot] = value
        low = 0  # a query that is there before the first item gets all windows
        if not own.spec.window.by_rows and query.activate is not None and self.derived.origin is not None:
            low = first_window_after(query.activate, self.derived.origin, shape.step)
        self.results.queries["low"][own.slot] = low
        return low

    def _limit(self, cancelled: control.Cancelled, incoming: IncomingSlices) -> None:
        """Limits a query that is cancelled to the windows that are full at that moment."""
        own = self.queries[cancelled.number]
        shape, origin, high = WindowShape.of(own.spec.window, self.stream), self.derived.origin, 0
        if own.spec.window.by_rows:
            position = self._position(own.stream, cancelled.end_item, incoming)
            high = first_window_after(position, own.base, shape.step, shape.size)
        elif cancelled.cancel is not None and origin is not None:
            high = first_window_after(cancelled.cancel, origin, shape.step, shape.size)
        self.results.queries["high"][own.slot] = high

    def _remove(self, number: int) -> None:
        own = self.queries.pop(number)
        self.results.remove(own.slot, own.spec)
        self.derived.remove_shape(own.shape, WindowShape.of(own.spec.window, self.stream))
        self.slices.remove(own.stream, own.spec)
        self._members_changed = True

    # windows

    def _windows(
        self, progress: Mapping[str, Any], incoming: IncomingSlices
    ) -> tuple[pa.RecordBatch | None, list[Excess]]:
        """Returns the results of the windows that are full now or, at the end of the stream, have begun."""
        before, self.number = self.number, progress["number"]
        self.last, self.ended = progress["last"], progress["ended"]
        if not self.queries:
            return None, []
        due = self.slices.due(self.last, self.ended)
        excesses = self._excesses(due, incoming, before)
        composed = self.slices.compose(due)
        shapes = self.derived.shape_arrays()
        if self.ended:
            self.results.end_stream(shapes, self.derived.streams["passed"])
        rows = self.results.rows(composed, shapes, self.derived.book.arrays) if len(composed.k) else None
        return rows, excesses

    def _excesses(self, due: DueShapes, incoming: IncomingSlices, item: int) -> list[Excess]:
        """Finds the queries that would get more windows of this batch, which begins with item `item`, than
        they may. They get none, and `due` is narrowed to what the others on their shapes get.
        """
        next_ = self.derived.shapes["next"]
        suspects = np.flatnonzero(due.stops - next_[due.shapes] > self.budget.base)
        if not len(suspects):
            return []
        items = np.bincount(incoming.slots, incoming.rows.items, self.derived.streams.size).astype(np.int64)
        out: list[Excess] = []
        for at in suspects.tolist():
            shape, stop = int(due.shapes[at]), int(due.stops[at])
            seen = int(items[self.derived.shapes["stream"][shape]])
            first = int(next_[shape])
            if not self.budget.exceeded(self.slices.count(shape, first, stop), seen):
                continue
            lows, highs = [stop], [first]
            for number, low, high in self.results.users(shape):
                low, high = max(first, low), min(stop, high)
                count = self.slices.count(shape, low, high)
                if self.budget.exceeded(count, seen):
                    own = self.queries[number]
                    self.results.queries["high"][own.slot] = 0
                    reason = self.budget.reason("windows", count, seen)
                    out.append(Excess(own.query, max(item, own.query.first_item), reason))
                else:
                    lows.append(low)
                    highs.append(high)
            next_[shape], due.stops[at] = min(lows), max(highs)
        return sorted(out, key=lambda excess: excess.query.number)

    # in the state

    def save(self, state: State) -> None:
        """Puts what has changed. After the end of the stream only the end itself is kept."""
        clock = [self.derived.origin, self.last, self.ended, self.slices.next_id, self.number]
        state.put_json(CLOCK, clock)
        if self.made:
            state.put_json(MADE, [column.to_json() for column in self.made])
        if self.ended:
            state.drop(MEMBERS)
            self.slices.drop(state)
            return
        if self._members_changed:
            state.put(MEMBERS, self.results.members())
            self._members_changed = False
        self.slices.save(state)

    @staticmethod
    def load(stream: Stream, budget: Budget, state: State, more: Iterable[Made] = ()) -> Composer:
        """Builds it from the state; `more` are computed columns of queries that are to be added."""
        composer = Composer(stream, budget, [*map(Made.from_json, state.get_json(MADE) or ()), *more])
        clock = state.get_json(CLOCK)
        if clock is None:
            return composer
        composer.derived.origin, composer.last, composer.ended = clock[:3]
        composer.slices.next_id, composer.number = clock[3:]
        if not composer.ended:
            composer._load_queries(state)
        return composer

    def _load_queries(self, state: State) -> None:
        slot_of = self.slices.load_open(state)
        stored = state.get(MEMBERS)
        rows = [] if stored is None else zip(*(stored[name].tolist() for name in MEMBER), strict=True)
        members = {number: (slot_of[stream_id], base) for number, stream_id, base in rows}
        for number, query in control.queries(state).items():
            slot, base = members[number]
            own = self.queries[number] = AggregateQuery(query, Aggregate.from_json(query.spec), slot, base)
            self.derived.add(_key_of(own.spec, self.stream), own.spec, slot)
            self._add_windows(query, own)
        self.slices.load_closed(state, self.last)


# results


@dataclass
class _Having:
    """A HAVING condition of one or more queries."""

    number: int
    condition: Term
    columns: list[AggregateColumn]
    users: int = 0


class AggregateResults:
    """The queries of a zone, and their rows of the table `aggregate`. Query q gets the windows of its shape
    with low <= k < high. HAVING is decided once for all queries that have the same.

    Windows in time are in `window_start` and `window_end`, of the stream's time type (`window_start_float`
    and `window_end_float` where a stream of integer time has windows of fractions), windows in rows in
    `row_start` and `row_end`. `Aggregate.columns` says where the aggregates are.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        integer = np.int64
        self.queries = Slots(
            shape=(integer, 0),
            low=(integer, 0),
            high=(integer, NEVER),
            at_end=(integer, 0),
            having=(integer, -1),
        )
        for name in MEMBER:
            self.queries.add_column(name, integer, -1)
        self._names: list[str] = []
        self._types: dict[str, ColumnType] = {}  # of the columns of the table that queries fill
        self._edges: dict[int, tuple[str, str, ColumnType]] = {}  # by axis, see edge_columns
        self._havings: dict[str, _Having] = {}
        self._next_having = 0

    def add(self, name: str, spec: Aggregate, shape: int, axis: int) -> int:
        """Adds a query; returns its slot."""
        slot = self.queries.take(shape=shape, at_end=_AT_END[spec.window.end])
        if slot == len(self._names):
            self._names.append(name)
        self._names[slot] = name
        self._edges[axis] = edge_columns(spec.window, self.stream)
        columns = spec.columns(self.stream)
        for column in columns:
            if column.stored not in self._types:
                self._types[column.stored] = column.type
                self.queries.add_column(f"{column.stored} function", np.int64, -1)
                self.queries.add_column(f"{column.stored} column", np.int64, 0)
            function, of = compose_windows.ITEMS, 0
            if column.aggregation.column is not None:
                function = _FUNCTIONS[column.aggregation.function]
                of = column_index(self.stream, column.aggregation.column)
            self.queries[f"{column.stored} function"][slot] = function
            self.queries[f"{column.stored} column"][slot] = of
        if spec.having != TRUE:
            having = self._having(spec.having, columns)
            having.users += 1
            self.queries["having"][slot] = having.number
        return slot

    def remove(self, slot: int, spec: Aggregate) -> None:
        if spec.having != TRUE:
            key = _having_key(spec.having, spec.columns(self.stream))
            self._havings[key].users -= 1
            if not self._havings[key].users:
                del self._havings[key]
        self.queries.give_back(slot)

    def users(self, shape: int) -> list[tuple[int, int, int]]:
        """Returns the queries with this shape: the number of each, and its `low` and `high`."""
        live = self.queries.live
        own = live[self.queries["shape"][live] == shape]
        columns = (self.queries[name][own].tolist() for name in ("number", "low", "high"))
        return list(zip(*columns, strict=True))

    def members(self) -> dict[str, Array]:
        live = self.queries.live
        return {name: self.queries[name][live] for name in MEMBER}

    def _having(self, condition: Term, columns: list[AggregateColumn]) -> _Having:
        key = _having_key(condition, columns)
        if key not in self._havings:
            self._havings[key] = _Having(self._next_having, condition, columns)
            self._next_having += 1
        return self._havings[key]

    def end_stream(self, shapes: ShapeArrays, passed: Ints) -> None:
        """The stream has ended: decides which of the windows that are not full a query still gets. `passed`
        is how many items each derived stream has had.

        docs/decisions/windows-at-the-end.md
        """
        live = self.queries.live
        live = live[self.queries["high"][live] == NEVER]  # those that were not cancelled
        rule, low = self.queries["at_end"][live], self.queries["low"][live]
        shape = self.queries["shape"][live]
        next_ = shapes.next[shape]
        end_of_full = shapes.base[shape] + (next_ - 1) * shapes.step[shape] + shapes.size[shape]
        nothing_left = (
            (shapes.axis[shape] == ROW) & (next_ > 0) & (end_of_full == passed[shapes.stream[shape]])
        )
        gather = np.where(nothing_left, next_, np.maximum(low, next_) + 1)
        high = np.where(rule == _AT_END[AtEnd.CUT], next_, gather)
        self.queries["high"][live] = np.where(rule == _AT_END[AtEnd.RUN], NEVER, high)

    def rows(
        self, composed: ComposedWindows, shapes: ShapeArrays, layouts: LayoutArrays
    ) -> pa.RecordBatch | None:
        """Returns rows of the table: all windows of a query together and in order."""
        live = self.queries.live
        blocks = np.searchsorted(composed.shape, np.arange(len(shapes.axis) + 1))
        begin, count = np.empty(len(live), np.int64), np.empty(len(live), np.int64)
        queries = self.queries
        limits = queries["shape"], queries["low"], queries["high"]
        compose_windows.window_runs(live, *limits, blocks, composed.k, begin, count)
        total = int(count.sum())
        if not total:
            return None
        owners = np.repeat(live, count)
        windows = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(total)
        columns = self._edge_columns(composed, windows, shapes)
        columns[ITEMS] = pa.array(composed.items[windows])
        for stored in self._types:
            if (queries[f"{stored} function"][live[count > 0]] >= 0).any():
                columns[stored] = self._lowered(stored, owners, windows, composed, layouts)
        rows = pa.record_batch({"subscription": self._subscriptions(live, count), **columns})
        return self._having_rows(rows, owners)

    def _edge_columns(
        self, composed: ComposedWindows, windows: Ints, shapes: ShapeArrays
    ) -> dict[str, pa.Array]:
        """Where the windows begin and end, in the columns of their axis: base + k step, and that + size."""
        shape, k = composed.shape[windows], composed.k[windows]
        axis = shapes.axis[shape]
        base = np.where(axis == ROW, 0, shapes.base[shape])  # positions are shown from the activation on
        start = base + k * shapes.step[shape]
        end = start + shapes.size[shape]
        pairs = {False: (start, np.where(end < start, np.int64(2**63 - 1), end))}  # it may not fit an int64
        with np.errstate(over="ignore"):
            start = shapes.base_float[shape] + k * shapes.step_float[shape]
            pairs[True] = (start, start + shapes.size_float[shape])
        out: dict[str, pa.Array] = {}
        for code in np.unique(axis).tolist():
            first, last, kind = self._edges[code]
            other = axis != code
            for name, values in zip((first, last), pairs[code in (FLOAT_TIME, FRACTION)], strict=True):
                column = pa.array(values, mask=other if other.any() else None)
                out[name] = column.cast(ARROW_TYPES[kind])
        return out

    def _lowered(
        self, stored: str, owners: Ints, windows: Ints, composed: ComposedWindows, layouts: LayoutArrays
    ) -> pa.Array:
        """The values of one column of the table."""
        kind = self._types[stored]
        present = np.empty(len(owners), bool)
        what = self.queries[f"{stored} function"], self.queries[f"{stored} column"]
        values: Array = np.zeros(len(owners), np.float64 if kind is ColumnType.FLOAT else np.int64)
        lower = compose_windows.lower_float if kind is ColumnType.FLOAT else compose_windows.lower_int
        lower(owners, windows, *what, composed, layouts, values, present)
        return pa.array(values, mask=~present).cast(ARROW_TYPES[kind])

    def _subscriptions(self, live: Ints, count: Ints) -> pa.DictionaryArray:
        """The names of these queries, each as often as it has rows."""
        used = np.flatnonzero(count)
        codes = np.repeat(np.arange(len(used), dtype=np.int32), count[used])
        return subscription_column([self._names[slot] for slot in live[used].tolist()], codes)

    def _having_rows(self, rows: pa.RecordBatch, owners: Ints) -> pa.RecordBatch | None:
        """The rows that HAVING lets through."""
        conditions = self.queries["having"][owners]
        if not (conditions >= 0).any():
            return rows
        kept = np.ones(len(owners), bool)
        order = np.argsort(conditions, kind="stable")
        by_condition = conditions[order]
        for having in self._havings.values():
            first, stop = np.searchsorted(by_condition, [having.number, having.number + 1])
            if first < stop:
                own = order[first:stop]
                named = {column.name: rows.column(column.stored) for column in having.columns}
                tested = pa.record_batch({ITEMS: rows.column(ITEMS), **named}).take(pa.array(own))
                kept[own] = evaluate(having.condition, tested)
        return rows.filter(pa.array(kept)) if kept.any() else None


def _having_key(condition: Term, columns: list[AggregateColumn]) -> str:
    return json.dumps([to_json(condition), [[column.stored, column.name] for column in columns]])
