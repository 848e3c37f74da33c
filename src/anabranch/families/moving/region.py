"""The second stage of moving: the regional servers. A zone is one of them, or several that are folded into
one.

In: moves, departures and focal updates from the home zones, by tick; activations and cancellations. Out:
fragments for the assemblers: plus and minus tuples, local counts and extremes, local lists of the k nearest;
and how much it had to do, for home 0, which may tell it to give objects to another zone (regions). Never: a
look at another region's objects, or a tick that is not final.

Queries for the k nearest are not cut by regions but spread over the zones by their number: each zone has a
second server for its own ones, with the objects in their search regions (nearest_server). Their results are
sent once they are proven, so they are always `complete` (docs/decisions/nearest-objects.md). With one zone
the two servers are one.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.chain.balance import HURRY, Patience, asked, note_work
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.stages import Stage
from anabranch.chain.state import State
from anabranch.families.moving import regions
from anabranch.families.moving import server_messages as messages
from anabranch.families.moving.kernels.arrays import NEAREST, ROW, Metric
from anabranch.families.moving.kernels.region_layout import RegionLayout, participates
from anabranch.families.moving.kernels.region_tick import row_columns
from anabranch.families.moving.nearest_server import NearestServer
from anabranch.families.moving.object_names import ObjectNames, has_integers
from anabranch.families.moving.query_plans import (
    ConditionBits,
    MovingPlan,
    apply_control,
    finish,
    last_ticks,
    plan_of,
    plans,
)
from anabranch.families.moving.regional_server import RegionalServer, focal_events, moves_in, query_events
from anabranch.families.moving.ticks import (
    Ticks,
    final_before,
    final_tick,
    progress_of,
    put_final,
    ticks_known,
)
from anabranch.model.arrays import Array
from anabranch.model.stream import Stream

SERVERS = "regional servers"


class Region(Stage):
    name = "region"

    def __init__(
        self, stream: Stream, zones: int, layout: RegionLayout, metric: Metric, patience: Patience
    ) -> None:
        self.stream, self.zones, self.layout, self.metric = stream, zones, layout, metric
        self.patience = patience
        self.integers = has_integers(stream)

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        server, nearest = state.cached(SERVERS, state.keys(), lambda: self._loaded(state))
        out = self._carry_out_splits(zone, state, server, packets)
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                self._apply_control(zone, state, server, nearest, packet)
        for packet in messages.of_kind(packets, messages.NAMES):
            server.names.add(*messages.names_in(packet))
        progress = progress_of(packets)
        ticks = ticks_known(state, self.stream, progress)
        if nearest is not None:
            proven, search = nearest.step(zone, self.zones, state, packets, ticks, final_before(state))
            for rows in proven:
                out += self._fragments(zone, rows)
            out += search
        if progress and ticks is not None:
            out += self._run(zone, state, server, nearest, packets, ticks, final_tick(ticks, progress))
        out += self._split(zone, state, server, packets)
        server.names.save(state)
        server.conditions.save(state)
        server.save(state)
        state.cache(SERVERS, state.keys(), (server, nearest))
        return out

    def _loaded(self, state: State) -> tuple[RegionalServer, NearestServer | None]:
        """Returns the server of this zone's region, and that for nearest objects if they are two."""
        server = RegionalServer(self.metric, ObjectNames.load(state), ConditionBits.load(state))
        server.load(state, plans(state, self.integers))
        return server, NearestServer(state, server, self.integers) if self.zones > 1 else None

    def _run(
        self,
        zone: int,
        state: State,
        server: RegionalServer,
        nearest: NearestServer | None,
        packets: Sequence[Packet],
        ticks: Ticks,
        final: int,
    ) -> list[Packet]:
        """Returns the fragments of the region's own server up to tick `final`, and how much it had to do."""
        moves = moves_in(messages.of_kind(packets, messages.MOVES), server)
        last = last_ticks(state, ticks)
        events = query_events(state, server, focal_events(packets, server), ticks, last, final)
        rows = server.run(moves, events, final)
        others = {n: tick for n, tick in last.items() if nearest is None or n not in nearest}
        for number in finish(state, final, others):
            if number in server.slot_of:
                server.remove(number)
        work = len(moves.records) + len(rows)
        return self._fragments(zone, rows) + self._work(zone, state, work, final, asked(packets))

    def _apply_control(
        self,
        zone: int,
        state: State,
        server: RegionalServer,
        nearest: NearestServer | None,
        packet: Packet,
    ) -> None:
        activated, cancelled = apply_control(state, packet)
        for query in activated:
            plan, condition = plan_of(query, self.integers), server.conditions.add(query)
            if nearest is None or plan.mode != NEAREST:
                server.add(plan, condition, self._participates(zone, state, plan))
            elif plan.number % self.zones == zone:
                nearest.add(plan, condition)
        for gone in cancelled:
            server.conditions.remove(gone)

    def _participates(self, zone: int, state: State, plan: MovingPlan) -> bool:
        """Whether this zone participates in a query with a fixed focal point."""
        if plan.point is None:
            return False
        layout = regions.layout_now(state, self.layout)
        return bool(participates(self.metric, layout, zone, plan.shape, plan.a, plan.b, *plan.point))

    def _fragments(self, zone: int, rows: Array) -> list[Packet]:
        out = []
        for other in range(self.zones):
            mine = rows[rows["query"] % self.zones == other] if self.zones > 1 else rows
            if len(mine):
                columns = dict(zip(ROW.names or (), row_columns(mine), strict=True))
                out.append(messages.message(messages.ASSEMBLE, other, messages.FRAGMENTS, columns, zone))
        return out

    # splits of hot zones

    def _carry_out_splits(
        self, zone: int, state: State, server: RegionalServer, packets: Sequence[Packet]
    ) -> list[Packet]:
        """Returns the fragments of objects that change servers, where a new table of splits has come."""
        out: list[Packet] = []
        for packet in messages.of_kind(packets, messages.SPLITS):
            regions.put_splits(state, messages.splits_in(packet))
            layout = regions.layout_now(state, self.layout)
            rows = regions.carry_out_split(server, layout, zone, packet.facts["tick"], packets)
            out += self._fragments(zone, rows)
        return out

    def _work(self, zone: int, state: State, work: int, final: int, hurry: bool) -> list[Packet]:
        """Returns a message that says how much this zone had to do, when it is due."""
        if self.zones == 1:
            return []
        put_final(state, final)
        due = note_work(state, HURRY if hurry else self.patience, work)
        facts = {"work": due, "asked": hurry}
        return [messages.message(messages.HOME, 0, messages.WORK, {}, zone, **facts)] if due else []

    def _split(
        self, zone: int, state: State, server: RegionalServer, packets: Sequence[Packet]
    ) -> list[Packet]:
        """Returns what this zone hands over, if home 0 tells it to."""
        out: list[Packet] = []
        for packet in messages.of_kind(packets, messages.DIVIDE):
            layout, tick = regions.layout_now(state, self.layout), final_before(state)
            other, share = packet.facts["other"], packet.facts["share"]
            out += regions.split_messages(server, layout, zone, other, share, tick)
        return out
