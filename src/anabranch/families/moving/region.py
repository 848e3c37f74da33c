"""The second stage of moving: the regional servers. A zone is one of them, or several that are folded into
one.

In: moves, departures and focal updates from the home zones, by tick; activations and cancellations. Out:
fragments for the assemblers: plus and minus tuples, local counts and extremes, local lists of the k
nearest; and what it has to do, for home 0, which may have it give objects to another zone (splits.py).
Never: a look at another region's objects, and never a tick that is not final.

Queries for the k nearest are not cut by regions, but dealt to the zones by their number: each zone has a
second server for its own ones, with the objects in their search regions (near.py). Answers are told once they
are proven, so they are always `complete` (docs/decisions/nearest-objects.md). With one zone the two servers
are one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.families.moving import handover, messages, splits, stored
from anabranch.families.moving.events import events_of, focal_updates, starts_of
from anabranch.families.moving.handover import moves_of
from anabranch.families.moving.held import give_back, take
from anabranch.families.moving.messages import FRAGMENTS, MOVES, NAMES, SPLITS
from anabranch.families.moving.names import has_integers
from anabranch.families.moving.near import NearServer
from anabranch.families.moving.plans import Plan, finish, last_ticks, note_control, plan_of, plans
from anabranch.families.moving.server import RegionalServer
from anabranch.families.moving.ticks import (
    Ticks,
    final_before,
    final_tick,
    note_final,
    progress_of,
    ticks_known,
)
from anabranch.kernels.moving_arrays import NEAREST, ROW, Space
from anabranch.kernels.moving_home import participates
from anabranch.kernels.regions import Layout
from anabranch.model.stream import Stream
from anabranch.zones.balance import HURRY, Patience, asked, note_work
from anabranch.zones.columns import Array
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State

HELD = "regional server"


class Region(Stage):
    name = "region"

    def __init__(self, stream: Stream, zones: int, layout: Layout, space: Space, patience: Patience) -> None:
        self.stream, self.zones, self.layout, self.space = stream, zones, layout, space
        self.patience = patience
        self.integers = has_integers(stream)

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        server, near = take(state, HELD, lambda: self._loaded(state))
        out = self._adopted(zone, state, server, packets)
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                self._take_control(zone, state, server, near, packet)
        for packet in messages.of_kind(packets, NAMES):
            server.names.add(*messages.named(packet))
        progress = progress_of(packets)
        ticks = ticks_known(state, self.stream, progress)
        if near is not None:
            since = final_before(state)
            found, told = near.step(zone, self.zones, state, packets, ticks, since)
            for rows in found:
                out += self._fragments(zone, rows)
            out += told
        if progress and ticks is not None:
            out += self._ran(zone, state, server, near, packets, ticks, final_tick(ticks, progress))
        out += self._divided(zone, state, server, packets)
        stored.save(state, server)
        give_back(state, HELD, (server, near))
        return out

    def _loaded(self, state: State) -> tuple[RegionalServer, NearServer | None]:
        """The server of this zone's region, and that for nearest objects if they are two."""
        server = stored.load(state, self.space, plans(state, self.integers))
        return server, NearServer(state, server, self.integers) if self.zones > 1 else None

    def _ran(
        self,
        zone: int,
        state: State,
        server: RegionalServer,
        near: NearServer | None,
        packets: Sequence[Packet],
        ticks: Ticks,
        final: int,
    ) -> list[Packet]:
        """The fragments of the region's own server up to tick `final`, and what it had to do."""
        moves = messages.of_kind(packets, MOVES)
        taken, last = moves_of(moves, server), last_ticks(state, ticks)
        starts = starts_of(state, server, ticks, final, last)
        events = events_of(server, focal_updates(packets, server), starts, last, final)
        rows = server.run(*taken, events, final)
        others = {n: tick for n, tick in last.items() if near is None or n not in near.places}
        for number in finish(state, final, others):
            if number in server.places:
                server.remove(number)
        work = sum(packet.rows.num_rows for packet in moves) + len(rows)
        return self._fragments(zone, rows) + self._worked(zone, state, work, final, asked(packets))

    def _adopted(
        self, zone: int, state: State, server: RegionalServer, packets: Sequence[Packet]
    ) -> list[Packet]:
        """The fragments of objects that change servers, where a new table of splits has come."""
        out: list[Packet] = []
        for packet in messages.of_kind(packets, SPLITS):
            splits.adopt(state, messages.splits_of(packet))
            layout = splits.layout_now(state, self.layout)
            rows = handover.carried_out(server, layout, zone, packet.facts["tick"], packets)
            out += self._fragments(zone, rows)
        return out

    def _worked(self, zone: int, state: State, work: int, final: int, hurry: bool) -> list[Packet]:
        """What this zone had to do, when it is time to tell."""
        if self.zones == 1:
            return []
        note_final(state, final)
        due = note_work(state, HURRY if hurry else self.patience, work)
        return [messages.message(1, 0, messages.WORK, {}, zone, work=due, asked=hurry)] if due else []

    def _divided(
        self, zone: int, state: State, server: RegionalServer, packets: Sequence[Packet]
    ) -> list[Packet]:
        """What this zone hands over, if it is asked to."""
        out: list[Packet] = []
        for packet in messages.of_kind(packets, messages.DIVIDE):
            layout, tick = splits.layout_now(state, self.layout), final_before(state)
            other, share = packet.facts["other"], packet.facts["share"]
            out += handover.prepared(server, layout, zone, other, share, tick)
        return out

    def _take_control(
        self, zone: int, state: State, server: RegionalServer, near: NearServer | None, packet: Packet
    ) -> None:
        began, ceased = note_control(state, packet)
        for query in began:
            plan, condition = plan_of(query, self.integers), server.conditions.begin(query)
            if near is None or plan.mode != NEAREST:
                server.add(plan, condition, self._participates(zone, state, plan))
            elif plan.number % self.zones == zone:
                near.add(plan, condition)
        for end in ceased:
            server.conditions.cease(end)

    def _participates(self, zone: int, state: State, plan: Plan) -> bool:
        """Whether this zone participates in a query with a fixed focal point."""
        if plan.point is None:
            return False
        layout = splits.layout_now(state, self.layout)
        return bool(participates(self.space, layout, zone, plan.shape, plan.a, plan.b, *plan.point))

    def _fragments(self, zone: int, rows: Array) -> list[Packet]:
        out = []
        for other in range(self.zones):
            mine = rows[rows["query"] % self.zones == other] if self.zones > 1 else rows
            if len(mine):
                columns = {name: np.ascontiguousarray(mine[name]) for name in ROW.names or ()}
                columns["op"] = columns["op"].astype(np.int8)
                out.append(messages.message(3, other, FRAGMENTS, columns, zone))
        return out
