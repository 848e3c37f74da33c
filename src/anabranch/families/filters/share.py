"""The first stage: each zone looks at a run of consecutive items and finds the derived streams each belongs
to.

In: ITEMS, ACTIVATE, CANCEL and PROGRESS from order. Out: RESULT rows of the table `select` for delivery, and
PARTIAL slices of the derived streams that aggregates are computed on, for `compose`. Never: a look at more
than one item at a time; what needs positions or neighbours in the stream is for `compose`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from anabranch.families.filters.conditions import Conditions
from anabranch.families.filters.lifting import Lifting
from anabranch.families.filters.made import made_of
from anabranch.families.filters.making import Making
from anabranch.families.filters.selections import Selections
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.model.stream import Stream, Time
from anabranch.zones import queries
from anabranch.zones.packets import DELIVER, Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State

MEMO = "derived streams"
COMPOSE = 2  # the place of the next stage in the chain


@dataclass(frozen=True)
class _Query:
    json: dict[str, Any]
    spec: Select | Aggregate
    node: int


class Sharing:
    """The queries of a zone of `share`, brought up to date one by one."""

    def __init__(self, stream: Stream, zones: int, active: Collection[queries.Active]) -> None:
        self.making = Making(stream, (made_of(query.spec) for query in active))
        stream = self.making.stream
        self.conditions = Conditions(stream, (query.spec for query in active))
        self.selections = Selections(stream)
        self.lifting = Lifting(stream, zones, COMPOSE)
        self._queries: dict[int, _Query] = {}
        for query in active:
            self.begin(query)

    def __len__(self) -> int:
        return len(self._queries)

    def knows(self, query: queries.Active) -> bool:
        """Whether all columns are there that operators make for it."""
        return self.making.knows(made_of(query.spec))

    def begin(self, query: queries.Active) -> None:
        self.making.begin(query.number, query.name, made_of(query.spec))
        node, key = self.conditions.enter(query.spec)
        if query.spec["kind"] == "select":
            select = Select.from_json(query.spec)
            self.selections.add(query.number, query.name, select, node)
            self._queries[query.number] = _Query(query.spec, select, node)
        else:
            aggregate = Aggregate.from_json(query.spec)
            self.lifting.add(query.number, aggregate, node, key)
            self._queries[query.number] = _Query(query.spec, aggregate, node)

    def cease(self, number: int) -> None:
        query = self._queries.pop(number, None)
        if query is None:  # it never began
            return
        if isinstance(query.spec, Select):
            self.selections.remove(number, query.spec, query.node)
        else:
            self.lifting.remove(number)
        self.conditions.leave(query.json)
        self.making.cease(number, query.spec.made)


class Share(Stage):
    name = "share"

    def __init__(self, stream: Stream, zones: int) -> None:
        self.stream, self.zones = stream, zones

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        sharing = state.derived(MEMO, state.keys(queries.PREFIX), lambda: self._built(state))
        origin = next(packet.facts["origin"] for packet in reversed(packets) if packet.kind is Kind.PROGRESS)
        out: list[Packet] = []
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                sharing = self._changed(state, sharing, packet)
            elif packet.kind is Kind.ITEMS:
                out += self._segment(sharing, packet.rows, origin)
        return out

    def _changed(self, state: State, sharing: Sharing, packet: Packet) -> Sharing:
        """The queries after ACTIVATE or CANCEL."""
        began, ended = queries.apply(state, [packet])
        if not all(map(sharing.knows, began)) or len(began) > max(100, len(sharing)):
            sharing = self._built(state)  # with columns that are new, or faster than one by one
        else:
            for query in began:
                sharing.begin(query)
        for end in ended:
            sharing.cease(end.number)
        state.renew(MEMO, state.keys(queries.PREFIX), sharing)
        return sharing

    def _built(self, state: State) -> Sharing:
        return Sharing(self.stream, self.zones, queries.active(state).values())

    def _segment(self, sharing: Sharing, items: pa.RecordBatch, origin: Time | None) -> list[Packet]:
        """What items between two changes of the queries give."""
        items = sharing.making.with_columns(items)
        offsets, nodes = sharing.conditions.match(items)
        out = sharing.lifting.partials(items, offsets, nodes, origin)
        for rows in sharing.selections.answers(items, offsets, nodes):
            out.append(Packet(DELIVER, 0, Kind.RESULT, rows, {"table": "select"}))
        return out
