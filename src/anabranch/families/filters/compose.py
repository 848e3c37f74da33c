"""The second stage: each zone holds some derived streams and composes the windows on them from their slices.

In: PARTIAL slices from `share`, ACTIVATE, CANCEL and PROGRESS from order. Out: RESULT rows of the table
`aggregate`. Never: an item of its own accord; what an item is to a derived stream, `share` has found out.

Control comes before the slices of the same batch, so here a query that begins or ends is placed by the
numbers of items: its windows in rows begin at the position that its derived stream has before item `start`,
and end with the position before item `stop`. Windows in time are full when the time of the last item that
left order has reached their end. That is a little later than the progress of time allows where a stream has
lateness, and necessary: a query may still be cancelled at any moment after the last item.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from anabranch.families.filters.composer import Composer
from anabranch.families.filters.conditions import key_of
from anabranch.families.filters.made import made_of, widened
from anabranch.model.operators import Made
from anabranch.model.stream import Stream
from anabranch.zones import queries
from anabranch.zones.packets import DELIVER, Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State

MEMO = "composer"
AGGREGATE = "aggregate"


class Compose(Stage):
    name = "compose"

    def __init__(self, stream: Stream, zones: int) -> None:
        self.stream, self.zones = stream, zones

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        composer = state.derived(MEMO, state.keys(), lambda: Composer.load(self.stream, state))
        own = self._own(zone, composer, packets)
        made = [made for packet in own if packet.kind is Kind.ACTIVATE for made in _made_by(packet)]
        if len(widened(composer.stream, made).columns) > len(composer.stream.columns):
            composer = Composer.load(self.stream, state, made)  # made anew, with columns that are new
        began, ended = queries.apply(state, own)
        progress = next(packet.facts for packet in reversed(packets) if packet.kind is Kind.PROGRESS)
        partials = [packet for packet in packets if packet.kind is Kind.PARTIAL]
        rows = composer.step(began, ended, partials, progress)
        composer.save(state)
        state.renew(MEMO, state.keys(), composer)
        return [Packet(DELIVER, 0, Kind.RESULT, rows, {"table": AGGREGATE})] if rows is not None else []

    def _own(self, zone: int, composer: Composer, packets: Sequence[Packet]) -> list[Packet]:
        """Control for the queries whose derived streams are in this zone."""
        own: list[Packet] = []
        begun: set[int] = set()
        for packet in packets:
            if packet.kind is Kind.ACTIVATE:
                mine = [self._is_here(zone, query) for query in queries.begun(packet)]
                rows = packet.rows.filter(pa.array(mine, pa.bool_()))
                begun.update(rows.column("number").to_pylist())
            elif packet.kind is Kind.CANCEL:
                numbers = packet.rows.column("number").to_pylist()
                mine = [number in composer.asked or number in begun for number in numbers]
                rows = packet.rows.filter(pa.array(mine, pa.bool_()))
            else:
                continue
            if rows.num_rows:
                own.append(Packet(packet.stage, packet.zone, packet.kind, rows))
        return own

    def _is_here(self, zone: int, query: queries.Active) -> bool:
        return query.spec["kind"] == AGGREGATE and key_of(query.spec, self.stream) % self.zones == zone


def _made_by(packet: Packet) -> list[Made]:
    return [made for query in queries.begun(packet) for made in made_of(query.spec)]
