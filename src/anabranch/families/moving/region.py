"""The second stage of moving: the regional servers. A zone is one of them, or several that are folded into
one.

In: moves, departures and focal updates from the home zones, by tick; activations and cancellations. Out:
fragments for the assemblers: plus and minus tuples, local counts and extremes, local lists of the k nearest;
and how much it had to do, for home 0, which may tell it to give objects to another zone. Never: a
look at another region's objects, or a tick that is not final.

Queries for the k nearest are not cut by regions but spread over the zones by their number: each zone has a
second server for its own ones, with the objects in their search regions (nearest_server). Their results are
sent once they are proven (docs/decisions/nearest-objects.md). With one zone the two servers are one.

What a zone had to do are the moves it got and the rows it sent. In the batch in which all zones adopt a new
table of splits, objects leave one server and enter the other in a tick that is over, where they are: what
they leave and what they enter cancels out. Splits decide where work is done, never what comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.chain import control
from anabranch.chain.balance import HURRY, asked, cut, note_work
from anabranch.chain.packets import DELIVER, Kind, Packet, message_note
from anabranch.chain.state import State
from anabranch.families.moving import servers
from anabranch.families.moving.kernels.arrays import (
    EVENT,
    FOCAL,
    MINUS,
    MOVE,
    NEAREST,
    PLUS,
    ROW,
    MoveBatch,
    records,
    row_columns,
)
from anabranch.families.moving.kernels.object_names import ObjectNames
from anabranch.families.moving.kernels.region_layout import (
    RegionLayout,
    layout_of,
    layout_xs,
    participates,
    regions_of,
    zones_of,
)
from anabranch.families.moving.nearest_server import NearestServer
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
from anabranch.families.moving.servers import (
    MovingStage,
    QueryingServers,
    Ticks,
    final_before,
    final_tick,
    progress_of,
    put_final,
    ticks_known,
)
from anabranch.model.arrays import Array, Ints
from anabranch.model.stream import Stream

SERVERS = "regional servers"
_OF_QUERY = ("x", "y", "focal", "expires", "known")


class Region(MovingStage):
    name = "region"

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        server, nearest, querying = state.cached(SERVERS, state.keys(), lambda: self._loaded(state))
        rows = self._carry_out_layout(zone, state, server, packets)
        counts: Counter[str] = Counter()
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                self._apply_control(zone, state, server, nearest, packet)
        for packet in servers.of_kind(packets, servers.NAMES):
            server.names.add(*servers.names_in(packet))
        for packet in servers.of_kind(packets, servers.TRUTHS):
            for each in [server] if nearest is None else [server, nearest.server]:
                each.set_bit(packet, self.zones)
        progress = progress_of(packets)
        ticks = ticks_known(state, self.stream, progress)
        out: list[Packet] = []
        if nearest is not None:
            proven, search = nearest.step(zone, self.zones, state, packets, ticks, final_before(state))
            rows += proven
            out += search
        if progress and ticks is not None:
            final = final_tick(ticks, progress)
            rows.append(self._run(state, server, packets, ticks, final))
            moves = sum(packet.rows.num_rows for packet in servers.of_kind(packets, servers.MOVES))
            out += self._work(zone, state, moves + len(rows[-1]), final, asked(packets))
        for found in rows:
            out += self._fragments(zone, found, querying)
            counts[servers.LOCAL_RESULT] += self._count_results(state, found, querying)
        if progress and ticks is not None:  # and not before: fragments go to where the assemblers still are
            querying.remove(self._finish(state, server, nearest, ticks, final))
        out += self._split(zone, state, server, packets)
        querying.adopt(packets, control.queries(state))
        querying.save(state)
        server.names.save(state)
        server.conditions.save(state)
        server.save(state)
        state.cache(SERVERS, state.keys(), (server, nearest, querying))
        return out + message_note(self.name, zone, counts)

    def _loaded(self, state: State) -> tuple[RegionalServer, NearestServer | None, QueryingServers]:
        """Returns the server of this zone's region, that for nearest objects if they are two, and who
        assembles.
        """
        server = RegionalServer(self.metric, ObjectNames.load(state), ConditionBits.load(state))
        server.load(state, plans(state, self.integers))
        nearest = NearestServer(state, server, self.integers) if self.zones > 1 else None
        return server, nearest, QueryingServers(state, self.zones)

    def _run(
        self, state: State, server: RegionalServer, packets: Sequence[Packet], ticks: Ticks, final: int
    ) -> Array:
        """Returns the rows (ROW) of the region's own server up to tick `final`."""
        moves = moves_in(servers.of_kind(packets, servers.MOVES), server)
        last = last_ticks(state, ticks)
        events = query_events(state, server, focal_events(packets, server), ticks, last, final)
        rows = server.run(moves, events, final)
        server.conditions.age(ticks, final)
        return rows

    def _finish(
        self,
        state: State,
        server: RegionalServer,
        nearest: NearestServer | None,
        ticks: Ticks,
        final: int,
    ) -> list[int]:
        """Removes the queries whose last tick is over, and returns their numbers."""
        last = last_ticks(state, ticks)
        others = {n: tick for n, tick in last.items() if nearest is None or n not in nearest}
        done = finish(state, final, others)
        for number in done:
            if number in server.slot_of:
                server.remove(number)
        return done

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
        layout = self.layout_now(state)
        return bool(participates(self.metric, layout, zone, plan.shape, plan.a, plan.b, *plan.point))

    def _count_results(self, state: State, rows: Array, querying: QueryingServers) -> int:
        """Returns how many messages with local results the servers of regions send to querying servers in
        other regions: one per query, tick and region with objects that enter or leave its answer there. A
        value is one.
        """
        if not len(rows) or regions_of(self.stream) == 1:
            return 0
        at = querying.of_all(rows["query"].copy())[1]
        regions = np.asarray(zones_of(self.regions_now(state), rows["x"].copy(), rows["y"].copy()))
        regions[(rows["op"] != MINUS) & (rows["op"] != PLUS)] = -2
        sent = regions != at
        keys = np.stack([rows["query"][sent], rows["tick"][sent], regions[sent]])
        keys = keys[:, np.lexsort(keys)]
        return int(np.count_nonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0))) + int(keys.shape[1] > 0)

    def _fragments(self, zone: int, rows: Array, querying: QueryingServers) -> list[Packet]:
        """Returns local results for the querying servers."""
        out = []
        at = querying.of_all(rows["query"].copy())[0] if self.zones > 1 else None
        for other in range(self.zones):
            mine = rows if at is None else rows[at == other]
            if len(mine):
                columns = dict(zip(ROW.names or (), row_columns(mine), strict=True))
                out.append(servers.message(servers.ASSEMBLE, other, servers.FRAGMENTS, columns, zone))
        return out

    # splits of hot zones

    def _carry_out_layout(
        self, zone: int, state: State, server: RegionalServer, packets: Sequence[Packet]
    ) -> list[Array]:
        """Returns the rows (ROW) of objects that change servers, where a new layout has come."""
        out: list[Array] = []
        for packet in servers.of_kind(packets, servers.SPLITS, servers.LAYOUT):
            layout = self.new_layout(state, packet)
            out.append(carry_out_layout(server, layout, zone, packet.facts["tick"], packets))
        return out

    def _work(self, zone: int, state: State, work: int, final: int, hurry: bool) -> list[Packet]:
        """Returns a message that says how much this zone had to do, when it is due."""
        if self.zones == 1:
            return []
        put_final(state, final)
        due = note_work(state, HURRY if hurry else self.patience, work)
        facts = {"work": due, "asked": hurry}
        return [servers.message(servers.HOME, 0, servers.WORK, {}, zone, **facts)] if due else []

    def _split(
        self, zone: int, state: State, server: RegionalServer, packets: Sequence[Packet]
    ) -> list[Packet]:
        """Returns what this zone hands over, if home 0 tells it to, or if the bounds have become known."""
        out: list[Packet] = []
        for packet in servers.of_kind(packets, servers.DIVIDE):
            layout, tick = self.layout_now(state), final_before(state)
            other, share = packet.facts["other"], packet.facts["share"]
            out += split_messages(server, layout, zone, other, share, tick)
        learned = [packet.facts["bounds"] for packet in servers.of_kind(packets, servers.BOUNDS)]
        if learned and self.lacks_bounds(state):
            low, high = np.min(learned, axis=0)[:, 0].tolist(), np.max(learned, axis=0)[:, 1].tolist()
            bounds = [list(pair) for pair in zip(low, high, strict=True)]
            out += layout_messages(server, self.stream, self.layout, bounds, final_before(state))
        return out


# splits: a zone that has far more to do than the others gives a part of its plane away (chain/balance)


def split_messages(
    server: RegionalServer, layout: RegionLayout, zone: int, other: int, share: float, tick: int
) -> list[Packet]:
    """Returns messages by which another zone takes over this share of the objects after this batch, and a
    note of it; none if they cannot be cut.
    """
    present = server.objects[server.objects["present"] != 0]
    found = cut([layout_xs(layout, present["x"].copy()), present["y"].copy()], share)
    if found is None:
        return []
    table = np.vstack([layout.splits, (zone, *found, other)])
    columns = {name: table[:, index].copy() for index, name in enumerate(servers.SPLIT)}
    new = layout._replace(splits=table)
    out = _announce(layout.zones, servers.SPLITS, columns, zone, tick=tick)
    split = {"axis": "xy"[found[0]], "at": found[1], "to": other}
    split["objects"] = int(np.count_nonzero(zones_of(new, present["x"].copy(), present["y"].copy()) == other))
    return [*out, *_handed_over(server, new, zone, tick), _note(zone, split=split)]


def layout_messages(
    server: RegionalServer, stream: Stream, layout: RegionLayout, bounds: list[list[float]], tick: int
) -> list[Packet]:
    """Returns messages of region 0, which has all objects as long as there are no bounds, by which the
    regions lie over these bounds after this batch; and a line that says so.
    """
    out = _announce(layout.zones, servers.LAYOUT, {}, 0, tick=tick, bounds=bounds)
    (low_x, high_x), (low_y, high_y) = bounds
    warning = (
        f"stream {stream.name} has regions and no bounds: they are over the positions of the first batch, "
        f"bounds = [[{low_x}, {high_x}], [{low_y}, {high_y}]]"
    )
    new = layout_of(stream, layout.zones, [(low_x, high_x), (low_y, high_y)])
    return [*out, *_handed_over(server, new, 0, tick), _note(0, warning=warning)]


def _announce(zones: int, what: str, columns: dict[str, Array], zone: int, **facts: Any) -> list[Packet]:
    """Returns a message for all homes and regions. Nothing changes before all of them change."""
    return [
        servers.message(depth, every, what, columns, zone, **facts)
        for depth in (servers.HOME, servers.REGION)
        for every in range(zones)
    ]


def _note(zone: int, **facts: Any) -> Packet:
    return Packet(DELIVER, 0, Kind.NOTE, facts={"family": "moving", "stage": "region", "zone": zone, **facts})


def _handed_over(server: RegionalServer, layout: RegionLayout, zone: int, tick: int) -> list[Packet]:
    """Returns what other zones need to take over the objects that are theirs in a new layout: the objects,
    and the queries that may reach them. All is final up to `tick`.
    """
    leaving, zones = _leaving(server, layout, zone, tick)
    moves = {name: leaving[name].copy() for name in MOVE.names or ()}
    moves["leaves"][:] = 0
    moves |= servers.truth_columns(server.truths[leaving["who"]])
    # a query whose range reaches into their parts is one that this zone participates in: it knows the focal
    # point
    queries = server.queries[(server.queries["number"] >= 0) & (server.queries["here"] != 0)]
    local = {"query": queries["number"].copy()} | {name: queries[name].copy() for name in _OF_QUERY}
    out = []
    for other in range(layout.zones):
        if other != zone:
            theirs = {name: column[zones == other] for name, column in moves.items()}
            out.append(servers.message(servers.REGION, other, servers.ARRIVALS, theirs, zone))
            out.append(servers.message(servers.REGION, other, servers.LOCAL_PLANS, local, zone))
    return out


def carry_out_layout(
    server: RegionalServer, layout: RegionLayout, zone: int, tick: int, packets: Sequence[Packet]
) -> Array:
    """Returns the rows (ROW) of objects that leave and enter this server because of a new layout, in a tick
    that is over.
    """
    leaving = _leaving(server, layout, zone, tick)[0]
    arriving = moves_in(servers.of_kind(packets, servers.ARRIVALS), server)
    moves = MoveBatch(
        np.concatenate([leaving, arriving.records]),
        np.concatenate([server.truths[leaving["who"]], arriving.truths]),
    )
    events = _joined(server, layout, zone, tick, servers.of_kind(packets, servers.LOCAL_PLANS))
    events = np.concatenate([events, _left(server, layout, zone, tick)])
    rows = server.run(moves, events, tick)
    server.list_by_age()  # objects that arrived need not be younger than those that were here
    return rows


def _leaving(server: RegionalServer, layout: RegionLayout, zone: int, tick: int) -> tuple[Array, Ints]:
    """Returns moves (MOVE) of the objects whose positions belong to other zones, and these zones."""
    who = np.flatnonzero(server.objects["present"])
    there = server.objects[who]
    zones = zones_of(layout, there["x"].copy(), there["y"].copy())
    gone = zones != zone
    who, there = who[gone], there[gone]
    columns = {name: there[name] for name in ("x", "y", "number", "expires")}
    columns |= {"tick": np.full(len(who), tick), "who": who, "leaves": np.ones(len(who), np.uint8)}
    return records(MOVE, columns), zones[gone]


def _left(server: RegionalServer, layout: RegionLayout, zone: int, tick: int) -> Array:
    """Returns events (EVENT) of the queries that this server does not participate in any more."""
    slots = np.flatnonzero((server.queries["number"] >= 0) & (server.queries["here"] != 0))
    if layout.zones == 1:
        return np.zeros(0, EVENT)
    left = [slot for slot in slots.tolist() if not _touches(server, layout, zone, server.queries[slot])]
    events = np.zeros(len(left), EVENT)
    for name in _OF_QUERY:
        events[name] = server.queries[name][left]
    events["tick"], events["kind"], events["slot"] = tick, FOCAL, left
    return events


def _touches(server: RegionalServer, layout: RegionLayout, zone: int, query: Any) -> bool:
    """Whether the range of a query (QUERY) may touch what a zone has; not asked where there is no range."""
    if query["mode"] == NEAREST or not query["known"]:
        return True
    where = (query["a"], query["b"], query["x"], query["y"])
    return bool(participates(server.metric, layout, zone, int(query["shape"]), *where))


def _joined(
    server: RegionalServer, layout: RegionLayout, zone: int, tick: int, packets: Sequence[Packet]
) -> Array:
    """Returns events (EVENT) of the queries that this server participates in from now on."""
    sent = {
        name: servers.column(packets, name, kind)
        for name, kind in (("query", np.int64), *((name, EVENT[name]) for name in _OF_QUERY))
    }
    events = np.zeros(len(sent["query"]), EVENT)
    for name in _OF_QUERY:
        events[name] = sent[name]
    events["tick"], events["kind"], events["here"] = tick, FOCAL, 1
    events["slot"] = [server.slot_of.get(number, -1) for number in sent["query"].tolist()]
    joins = np.zeros(len(events), bool)
    for row, event in enumerate(events):
        query = server.queries[event["slot"]]
        if event["slot"] < 0 or query["here"]:
            continue
        where = (query["a"], query["b"], event["x"], event["y"])
        joins[row] = participates(server.metric, layout, zone, int(query["shape"]), *where)
    return events[joins]
