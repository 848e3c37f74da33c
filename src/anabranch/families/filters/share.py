"""The first stage: each zone looks at a run of consecutive items and finds the derived streams each belongs
to.

In: ITEMS, ACTIVATE, CANCEL and PROGRESS from order. Out: RESULT rows of the table `select` for delivery, and
PARTIAL slices of the derived streams that aggregates are computed on, for `compose`. Never: a look at more
than one item at a time; what needs positions or neighbours in the stream is for `compose`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from anabranch.families.filters.conditions import Conditions
from anabranch.families.filters.lifting import Lifting
from anabranch.families.filters.selections import Selections
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.model.stream import Stream, Time
from anabranch.zones import queries
from anabranch.zones.packets import DELIVER, Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State

MEMO = "derived streams"
COMPOSE = 2  # the place of the next stage in the chain


class Sharing:
    """The queries of a zone of `share`, brought up to date one by one."""

    def __init__(self, stream: Stream, zones: int, active: Iterable[queries.Active]) -> None:
        known = [(query, _spec(query)) for query in active]
        self.conditions = Conditions(stream, (spec.condition for _, spec in known))
        self.selections = Selections(stream)
        self.lifting = Lifting(stream, zones, COMPOSE)
        self._specs: dict[int, tuple[Select | Aggregate, int]] = {}  # number of the query -> spec, node
        for query, spec in known:
            self._begin(query, spec)

    def begin(self, query: queries.Active) -> None:
        self._begin(query, _spec(query))

    def _begin(self, query: queries.Active, spec: Select | Aggregate) -> None:
        node, key = self.conditions.enter(spec.condition)
        self._specs[query.number] = (spec, node)
        if isinstance(spec, Select):
            self.selections.add(query.number, query.name, spec, node)
        else:
            self.lifting.add(query.number, spec, node, key)

    def cease(self, number: int) -> None:
        found = self._specs.pop(number, None)
        if found is None:  # it never began
            return
        spec, node = found
        if isinstance(spec, Select):
            self.selections.remove(number, spec, node)
        else:
            self.lifting.remove(number)
        self.conditions.leave(spec.condition)


def _spec(query: queries.Active) -> Select | Aggregate:
    return Select.from_json(query.spec) if query.spec["kind"] == "select" else Aggregate.from_json(query.spec)


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
                began, ended = queries.apply(state, [packet])
                for query in began:
                    sharing.begin(query)
                for end in ended:
                    sharing.cease(end.number)
                state.renew(MEMO, state.keys(queries.PREFIX), sharing)
            elif packet.kind is Kind.ITEMS:
                out += self._segment(sharing, packet.rows, origin)
        return out

    def _built(self, state: State) -> Sharing:
        return Sharing(self.stream, self.zones, queries.active(state).values())

    def _segment(self, sharing: Sharing, items: pa.RecordBatch, origin: Time | None) -> list[Packet]:
        """What items between two changes of the queries give."""
        offsets, nodes = sharing.conditions.match(items)
        out = sharing.lifting.partials(items, offsets, nodes, origin)
        rows = sharing.selections.answers(items, offsets, nodes)
        if rows is not None:
            out.append(Packet(DELIVER, 0, Kind.RESULT, rows, {"table": "select"}))
        return out
