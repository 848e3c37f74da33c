"""The second stage: each zone has some derived streams and composes the windows on them from their slices.

    PARTIAL slices from `share` --> SliceStore --> windows --> AggregateResults --> RESULT rows, for delivery

Control comes before the slices of the same batch, so the numbers of items tell what a query sees: its windows
in rows begin at the position that its derived stream has before item `first_item`, and end with the position
before item `end_item`. Windows in time are full when the time of the last item that left order has reached
their end. That is a little later than the progress of time allows where a stream has lateness, and necessary:
a query may still be cancelled at any moment after the last item.

In the state, beside the queries and their slices (slice_store.py): `clock`, how far windows are composed,
`members`, for each query its derived stream and the position at which its windows in rows begin, and `made`,
the computed columns. Everything else is built from these when another worker takes over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.stages import Stage
from anabranch.chain.state import State
from anabranch.chain.windows import first_window_after
from anabranch.families.filters.aggregate_results import MEMBER, AggregateResults
from anabranch.families.filters.computed_columns import made_of, widened
from anabranch.families.filters.derived_streams import WindowShape, stream_key
from anabranch.families.filters.slice_store import IncomingSlices, SliceStore
from anabranch.families.filters.spec import Aggregate, normal_of
from anabranch.model.operators import Made
from anabranch.model.stream import Stream, Time

AGGREGATE = "aggregate"
CLOCK, MEMBERS, MADE = "clock", "members", "made"


class Compose(Stage):
    name = "compose"

    def __init__(self, stream: Stream, zones: int) -> None:
        self.stream, self.zones = stream, zones

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        composer = state.cached("composer", state.keys(), lambda: Composer.load(self.stream, state))
        own = self._own_control(zone, composer, packets)
        progress = next(packet.facts for packet in reversed(packets) if packet.kind is Kind.PROGRESS)
        if not (own or composer.queries or progress["ended"]):
            return []  # without a query there is nothing to keep but the end
        made = [made for packet in own if packet.kind is Kind.ACTIVATE for made in _made_by(packet)]
        if len(widened(composer.stream, made).columns) > len(composer.stream.columns):
            composer = Composer.load(self.stream, state, made)  # built again, with columns that are new
        added, removed = control.apply(state, own)
        partials = [packet for packet in packets if packet.kind is Kind.PARTIAL]
        rows = composer.step(added, removed, partials, progress)
        composer.save(state)
        state.cache("composer", state.keys(), composer)
        return [Packet(DELIVER, 0, Kind.RESULT, rows, {"table": AGGREGATE})] if rows is not None else []

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

    spec: Aggregate
    stream: int
    base: int = 0
    slot: int = -1
    shape: int = -1


class Composer:
    """What a zone knows: its queries, their derived streams and slices, and how far time has come."""

    def __init__(self, stream: Stream, made: Iterable[Made] = ()) -> None:
        """`made` are the computed columns of the queries here, and of earlier ones."""
        self.made = list({column.name: column for column in made}.values())
        self.stream = stream = widened(stream, self.made)
        self.slices = SliceStore(stream)
        self.derived = self.slices.derived
        self.results = AggregateResults(stream)
        self.queries: dict[int, AggregateQuery] = {}  # by number
        self.last: Time | None = None
        self.ended = False
        self._members_changed = False

    def step(
        self,
        added: Sequence[control.Query],
        removed: Sequence[control.Cancelled],
        partials: Sequence[Packet],
        progress: Mapping[str, Any],
    ) -> pa.RecordBatch | None:
        """Brings the queries up to date with a batch; returns rows of the table `aggregate`."""
        if self.ended:
            return None
        self.derived.set_origin(progress["origin"])
        for query in added:  # derived streams first: the slices of this batch refer to them
            self._add(query)
        incoming = IncomingSlices.read(partials, self.derived)
        for query in added:
            self._start(query, incoming)
        for cancelled in removed:
            self._limit(cancelled, incoming)
        self.slices.append(incoming)
        rows = self._windows(progress)
        for cancelled in removed:
            self._remove(cancelled.number)
        self.slices.evict()
        return rows

    # queries

    def _add(self, query: control.Query) -> None:
        spec = Aggregate.from_json(query.spec)
        self.queries[query.number] = AggregateQuery(spec, self.slices.add(_key_of(spec, self.stream), spec))
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

    def _windows(self, progress: Mapping[str, Any]) -> pa.RecordBatch | None:
        """Returns the results of the windows that are full now or, at the end of the stream, have begun."""
        self.last, self.ended = progress["last"], progress["ended"]
        if not self.queries:
            return None
        composed = self.slices.compose(self.last, self.ended)
        shapes = self.derived.shape_arrays()
        if self.ended:
            self.results.end_stream(shapes, self.derived.streams["passed"])
        if not len(composed.k):
            return None
        return self.results.rows(composed, shapes, self.derived.book.arrays)

    # in the state

    def save(self, state: State) -> None:
        """Puts what has changed. After the end of the stream only the end itself is kept."""
        state.put_json(CLOCK, [self.derived.origin, self.last, self.ended, self.slices.next_id])
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
    def load(stream: Stream, state: State, more: Iterable[Made] = ()) -> Composer:
        """Builds it from the state; `more` are computed columns of queries that are to be added."""
        composer = Composer(stream, [*map(Made.from_json, state.get_json(MADE) or ()), *more])
        clock = state.get_json(CLOCK)
        if clock is None:
            return composer
        composer.derived.origin, composer.last, composer.ended, composer.slices.next_id = clock
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
            own = self.queries[number] = AggregateQuery(Aggregate.from_json(query.spec), slot, base)
            self.derived.add(_key_of(own.spec, self.stream), own.spec, slot)
            self._add_windows(query, own)
        self.slices.load_closed(state, self.last)
