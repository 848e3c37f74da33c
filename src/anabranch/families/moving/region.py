"""The second stage of moving: the regional servers. A zone is one of them, or several that are folded into
one.

In: moves, departures and focal updates from the home zones, by tick; activations and cancellations. Out:
fragments for the assemblers: plus and minus tuples, local counts and extremes, local lists of the k
nearest; and what it has to do, for home 0, which may have it give objects to another zone (splits.py).
Never: a look at another region's objects, and never a tick that is not final.

Queries for the k nearest are not cut by regions, but dealt to the zones by their number: each zone has a
second server with all objects, and answers its own ones. So an answer is always `complete`
(docs/decisions/nearest-objects.md). With one zone the two servers are one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.families.moving import handover, messages, splits, stored
from anabranch.families.moving.handover import moves_of
from anabranch.families.moving.held import give_back, take
from anabranch.families.moving.messages import (
    ALL_MOVES,
    FOCAL_UPDATES,
    FRAGMENTS,
    IS_KNOWN,
    MOVES,
    NAMES,
    PARTICIPATES,
    REQUESTS,
    SPLITS,
)
from anabranch.families.moving.names import has_integers
from anabranch.families.moving.plans import (
    ENDLESS,
    Plan,
    ask_nearest,
    finish,
    last_ticks,
    note_control,
    plan_of,
    plans,
)
from anabranch.families.moving.server import RegionalServer
from anabranch.families.moving.ticks import Ticks, final_tick, progress_of, ticks_of
from anabranch.kernels.moving_arrays import ENDS, EVENT, FOCAL, NEAREST, ROW, STARTS, Space
from anabranch.kernels.moving_home import participates
from anabranch.kernels.regions import Layout
from anabranch.model.stream import Stream
from anabranch.zones import queries
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
        ticks = ticks_of(self.stream, progress)
        if ticks is not None:
            final, last = final_tick(ticks, progress), last_ticks(state, ticks)
            moves = messages.of_kind(packets, MOVES)
            rows = self._ran(state, server, moves, packets, ticks, final, last)
            out += self._fragments(zone, rows)
            if near is not None and ask_nearest(state, self.integers):
                every = messages.of_kind(packets, ALL_MOVES)
                out += self._fragments(zone, self._ran(state, near, every, packets, ticks, final, last))
            for number in finish(state, final, last):
                for one in (server, near):
                    if one is not None and number in one.places:
                        one.remove(number)
            work = sum(packet.rows.num_rows for packet in moves) + len(rows)
            out += self._worked(zone, state, work, final, asked(packets))
        out += self._divided(zone, state, server, packets)
        stored.save(state, server)
        if near is not None and ask_nearest(state, self.integers):
            stored.save_near(state, near)
        elif near is not None and state.keys(stored.NEAR):  # nobody asks any more
            stored.forget_near(state)
            near = stored.load_near(state, server, {})
        give_back(state, HELD, (server, near))
        return out

    def _loaded(self, state: State) -> tuple[RegionalServer, RegionalServer | None]:
        """The server of this zone's region, and that of all objects if they are two."""
        server = stored.load(state, self.space, plans(state, self.integers))
        near = stored.load_near(state, server, plans(state, self.integers)) if self.zones > 1 else None
        return server, near

    def _ran(
        self,
        state: State,
        server: RegionalServer,
        moves: Sequence[Packet],
        packets: Sequence[Packet],
        ticks: Ticks,
        final: int,
        last: dict[int, int],
    ) -> Array:
        """The rows (ROW) of a server's fragments up to tick `final`."""
        taken = moves_of(moves, server)
        updates, starts = _focal_updates(packets, server), self._starts(state, server, ticks, final, last)
        return server.run(*taken, _events(server, updates, starts, last, final), final)

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
        splits.note_tick(state, final)
        due = note_work(state, HURRY if hurry else self.patience, work)
        return [messages.message(1, 0, messages.WORK, {}, zone, work=due, asked=hurry)] if due else []

    def _divided(
        self, zone: int, state: State, server: RegionalServer, packets: Sequence[Packet]
    ) -> list[Packet]:
        """What this zone hands over, if it is asked to."""
        out: list[Packet] = []
        for packet in messages.of_kind(packets, messages.DIVIDE):
            layout, tick = splits.layout_now(state, self.layout), splits.last_tick(state)
            other, share = packet.facts["other"], packet.facts["share"]
            out += handover.prepared(server, layout, zone, other, share, tick)
        return out

    def _take_control(
        self, zone: int, state: State, server: RegionalServer, near: RegionalServer | None, packet: Packet
    ) -> None:
        began, ceased = note_control(state, packet)
        for query in began:
            plan, condition = plan_of(query, self.integers), server.conditions.begin(query)
            if near is None or plan.mode != NEAREST:
                server.add(plan, condition, self._participates(zone, state, plan))
            elif plan.number % self.zones == zone:
                near.add(plan, condition, plan.point is not None)
        for end in ceased:
            server.conditions.cease(end)

    def _participates(self, zone: int, state: State, plan: Plan) -> bool:
        """Whether this zone participates in a query with a fixed focal point."""
        if plan.point is None:
            return False
        layout = splits.layout_now(state, self.layout)
        return bool(participates(self.space, layout, zone, plan.shape, plan.a, plan.b, *plan.point))

    def _starts(
        self, state: State, server: RegionalServer, ticks: Ticks, final: int, last: dict[int, int]
    ) -> list[tuple[int, int]]:
        """(tick, place) of the queries whose first tick is final now."""
        out = []
        waiting = server.queries["number"][
            (server.queries["number"] >= 0) & (server.queries["started"] == 0)
        ].tolist()
        active = queries.active(state) if waiting else {}
        for number in waiting:
            first = ticks.after(active[number].since)
            if first <= min(final, last.get(number, ENDLESS)):
                out.append((first, server.places[number]))
        return out

    def _fragments(self, zone: int, rows: Array) -> list[Packet]:
        out = []
        for other in range(self.zones):
            mine = rows[rows["query"] % self.zones == other] if self.zones > 1 else rows
            if len(mine):
                columns = {name: np.ascontiguousarray(mine[name]) for name in ROW.names or ()}
                columns["op"] = columns["op"].astype(np.int8)
                out.append(messages.message(3, other, FRAGMENTS, columns, zone))
        return out


def _focal_updates(packets: Sequence[Packet], server: RegionalServer) -> Array:
    """Events (EVENT) of the queries whose focal objects reported, as the home zones request them."""
    focal, requests = messages.of_kind(packets, FOCAL_UPDATES), messages.of_kind(packets, REQUESTS)
    firsts = np.cumsum([0, *(packet.rows.num_rows for packet in focal)])[: len(focal)]
    row = messages.column(requests, "focal", np.int64)
    row += np.repeat(firsts, [packet.rows.num_rows for packet in requests])
    flags = messages.column(requests, "flags", np.uint8)
    updates = np.zeros(len(row), EVENT)
    for field, column in (("tick", "tick"), ("x", "x"), ("y", "y"), ("focal", "who"), ("gone", "gone")):
        updates[field] = messages.column(focal, column, EVENT[field])[row]
    updates["kind"] = FOCAL
    asked = messages.column(requests, "query", np.int64)
    updates["place"] = [server.places.get(number, -1) for number in asked.tolist()]
    updates["here"], updates["known"] = (flags & PARTICIPATES) != 0, (flags & IS_KNOWN) != 0
    return updates[updates["place"] >= 0]


def _events(
    server: RegionalServer,
    updates: Array,
    starts: list[tuple[int, int]],
    last: dict[int, int],
    final: int,
) -> Array:
    """What happens to queries up to tick `final`, by tick and kind: ends, starts, focal updates."""
    ends = [
        (tick + 1, server.places[number])
        for number, tick in last.items()
        if tick < final and number in server.places
    ]
    few = np.zeros(len(ends) + len(starts), EVENT)
    few["tick"] = [tick for tick, _ in [*ends, *starts]]
    few["place"] = [place for _, place in [*ends, *starts]]
    few["kind"] = [ENDS] * len(ends) + [STARTS] * len(starts)
    events = np.concatenate([few, updates])
    # by `gone` as well: the list of queries by age is in order only if they come in order
    return events[np.lexsort((events["gone"], events["kind"], events["tick"]))]
