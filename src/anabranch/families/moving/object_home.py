"""The first stage of moving: the home servers. A zone is a bucket of object names.

In: reports in stream order, activations and cancellations between them, the progress of time. Out, per final
tick: a move for the region that an object is in, a departure for the region it left, and a focal update for
every region that the range of a query that follows the object touched or touches now, with what it means for
each of these queries. Also moves in the search regions of queries for nearest objects, names of new objects,
and from zone 0, which region has to give objects away. Never: a look at another
object.

A report waits here until its tick is final, so that regions get whole ticks and only the last report of an
object in each:

    ticks        0         1         2          time 2.3 is announced: ticks 0 to 2 are final
    a reports    0   .4       1.5 1.9   2.2     sent: (0, at 0), (1, at .4), (2, at 1.9); 2.2 waits for tick 3

A query that is activated later starts from the last reports of all objects: the regions have them, and the
home sends where its focal object was last and for whom its condition holds.

A zone keeps of its objects names, the last report that went to a region and those that wait (ObjectReports),
the queries that follow objects (ForwardingRequests), and what queries for nearest objects need
(SearchedObjects). All is kept in memory between batches, and built from the state where a worker takes a zone
over.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.balance import HURRY, division
from anabranch.chain.control import Query
from anabranch.chain.items import floats_of, numbers_of, times_of
from anabranch.chain.packets import Kind, Packet, message_note
from anabranch.chain.state import Arrays, State
from anabranch.families.moving import servers
from anabranch.families.moving.kernels.arrays import BLOCK, NEAREST, NEVER, Metric, records
from anabranch.families.moving.kernels.home_moves import (
    DROPS,
    FOLLOWER,
    KNOWN,
    ONE_ZONE,
    RECORD,
    REGISTRATIONS,
    REPORT,
    Followers,
    KnownObjects,
    ReportBatch,
    count_messages,
    last_of_tick,
    participants,
    route_reports,
)
from anabranch.families.moving.kernels.object_names import HomeNames, buckets, encoded
from anabranch.families.moving.kernels.region_layout import RegionLayout, zones_of
from anabranch.families.moving.kernels.search_circles import Raster, in_raster
from anabranch.families.moving.nearest_server import (
    EVERYTHING,
    NOTHING,
    raster_arrays,
    raster_from,
    raster_in,
)
from anabranch.families.moving.query_plans import (
    ENDLESS,
    ConditionBits,
    MovingPlan,
    apply_control,
    finish,
    has_nearest,
    last_ticks,
    plans,
)
from anabranch.families.moving.regional_server import grid_xs
from anabranch.families.moving.servers import (
    MovingStage,
    QueryingServers,
    Ticks,
    final_tick,
    progress_of,
    ticks_of,
)
from anabranch.model.arrays import Array, Bools, Floats, Ints, Words
from anabranch.model.stream import Stream
from anabranch.numeric.slots import grown
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import Term

OBJECTS, PENDING, SEARCH = "objects/", "pending/", "search/"
RASTERS, ITEMS, _OBJECT = SEARCH + "rasters/", "items/", "#object"
RECENT, BEFORE = SEARCH + "recent/", SEARCH + "before/"
_HOME_OBJECTS = "home objects"

#: Columns of a pending report; `time` decides its tick once the origin is known.
COLUMNS = ("time", "index", "x", "y", "number", "truths")
#: Rows per chunk of long columns.
CHUNK_ROWS = 8192

#: The paper's messages in the order of `count_messages`.
_COUNTED = (
    *(servers.FOCAL_UPDATE, servers.REGISTRATION, servers.UPDATE, servers.DROP),
    servers.REQUEST_SHIPPING,
)

#: Whether a condition holds for items of these numbers.
Holds = Callable[[Ints], Bools]


def home_zones(stream: Stream, zones: int, items: pa.RecordBatch) -> Ints:
    """Returns the home zone of each item, by its object's name."""
    if zones == 1:
        return np.zeros(items.num_rows, np.int64)
    assert stream.object is not None
    return np.asarray(buckets(*encoded(items.column(stream.object)), zones))


class ObjectHome(MovingStage):
    name = "home"

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        reports, searched, querying = state.cached(_HOME_OBJECTS, state.keys(), lambda: self._loaded(state))
        querying.adopt(packets, control.queries(state))
        moved = bool(servers.of_kind(packets, servers.SPLITS, servers.LAYOUT))
        counts: Counter[str] = Counter()
        for packet in servers.of_kind(packets, servers.SPLITS, servers.LAYOUT):
            self._adopt_layout(reports, self.new_layout(state, packet))
        new_queries: list[int] = []
        out: list[Packet] = []
        for packet in packets:
            if packet.kind is Kind.ITEMS:
                self._add_items(reports, packet.rows)
            elif packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                for query in self._apply_control(reports, state, packet):
                    new_queries.append(query.number)
                    out += self._evaluate(reports, searched, query.number, zone)
        out += self._new_names(reports, zone) + self._divide(zone, state, packets)
        out += self._first_focals(reports, state, new_queries, zone, querying, counts)
        if self.lacks_bounds(state):
            out += self._bounds(zone, packets)
        if searched is not None:
            out += self._adopt_searches(reports, searched, zone, state, new_queries, packets)
        progress = progress_of(packets)
        ticks = ticks_of(self.stream, progress)
        if ticks is not None:
            final, last = final_tick(ticks, progress), last_ticks(state, ticks)
            due = self._due(reports, ticks, final)
            if searched is not None and searched.is_needed:
                searched.remember(due, reports)
            if due is not None:
                due["who"] = due["index"] * self.zones + zone
                out += self._moves(reports, searched, zone, state, due, last, querying, counts)
            out += self._querying(reports, state, due, new_queries, moved, querying, zone, counts)
            if zone == 0 and new_queries:
                begun = [plans(state, self.integers)[number] for number in new_queries]
                self._count_fixed(state, begun, [], querying, counts)
            before = plans(state, self.integers)
            done = finish(state, final, last)
            self._count_ended(reports, state, [before[n] for n in done], zone, querying, counts)
            querying.remove(done)
            if self.zones == 1:  # with several, all homes change at the start of the next batch
                querying.adopt(out, control.queries(state))
            reports.conditions.age(ticks, final)
        reports.save(state)
        if searched is not None:
            searched.save(state)
        querying.save(state)
        state.cache(_HOME_OBJECTS, state.keys(), (reports, searched, querying))
        return out + message_note(self.name, zone, counts)

    def _loaded(self, state: State) -> tuple[ObjectReports, SearchedObjects | None, QueryingServers]:
        searched = SearchedObjects.load(state, self.metric, self.zones) if self.zones > 1 else None
        return ObjectReports.load(state), searched, QueryingServers(state, self.zones)

    def _apply_control(self, reports: ObjectReports, state: State, packet: Packet) -> Iterator[Query]:
        """Yields the queries that are activated, each when it has been added."""
        activated, cancelled = apply_control(state, packet)
        for query in activated:
            reports.conditions.add(query)
            yield query
        for gone in cancelled:
            reports.conditions.remove(gone)

    def _evaluate(
        self, reports: ObjectReports, searched: SearchedObjects | None, number: int, zone: int
    ) -> list[Packet]:
        """Evaluates the condition of a query that was added last on the last reports of all objects, if
        nobody else has it. Returns which objects it holds for, for all regions.
        """
        bit = reports.conditions.of_query.get(number, -1)
        if not reports.conditions.is_new(bit):
            return []
        holds = reports.items.holds(reports.conditions.condition(bit))
        index = reports.set_bit(bit, holds)
        if searched is not None:
            searched.set_bit(bit, holds)
        columns = {"who": index * self.zones + zone}
        return [
            servers.message(servers.REGION, other, servers.TRUTHS, columns, zone, bit=bit)
            for other in range(self.zones)
        ]

    def _querying(
        self,
        reports: ObjectReports,
        state: State,
        due: Arrays | None,
        new_queries: list[int],
        moved: bool,
        querying: QueryingServers,
        zone: int,
        counts: Counter[str],
    ) -> list[Packet]:
        """Returns where the assemblers of queries are from the next batch on, if their issuers are in other
        regions now. Zone 0 says so for queries around fixed points.
        """
        all_plans = plans(state, self.integers)
        new = [all_plans[number] for number in new_queries]
        points: dict[int, tuple[float, float]] = {}
        at = reports.requests.anchored(all_plans, reports)
        seen = set(at) if moved else set() if due is None else at.keys() & set(due["index"].tolist())
        seen |= reports.indexes({plan.anchor for plan in new if plan.anchor is not None})
        for index in sorted(seen & at.keys()):
            known = reports.known[index]
            if known["number"] >= 0:
                points |= dict.fromkeys(at[index], (known["x"], known["y"]))
        if zone == 0:
            fixed = (plan for plan in (all_plans.values() if moved else new) if plan.is_fixed)
            points |= {plan.number: plan.point for plan in fixed if plan.point is not None}
        x, y = np.array(list(points.values()), np.float64).reshape(-1, 2).T.copy()
        layouts = (self.layout_now(state), self.regions_now(state))
        there = zip(*(zones_of(layout, x, y).tolist() for layout in layouts), strict=True)
        where = dict(zip(points, there, strict=True))
        changed = [n for n in where if n not in querying or querying.where(n) != where[n]]
        counts[servers.ASSEMBLER_SHIPPING] += sum(
            n in querying and querying.where(n)[1] != where[n][1] for n in changed
        )
        if not changed:
            return []
        rows = np.array([(n, *where[n]) for n in changed], np.int64)
        columns = {name: rows[:, index].copy() for index, name in enumerate(("query", "zone", "region"))}
        depths = (servers.HOME, servers.REGION, servers.ASSEMBLE) if self.zones > 1 else (servers.REGION,)
        out = [
            servers.message(depth, other, servers.QUERYING, columns, zone)
            for depth in depths
            for other in range(self.zones)
        ]
        return out

    def _first_focals(
        self,
        reports: ObjectReports,
        state: State,
        new_queries: list[int],
        zone: int,
        querying: QueryingServers,
        counts: Counter[str],
    ) -> list[Packet]:
        """Returns where the focal objects of new queries were last."""
        found = [plans(state, self.integers)[number] for number in new_queries]
        layout, objects = self.layout_now(state), list[int]()
        updates: list[tuple[int, ...]] = []
        for index, following in reports.followed(found).items():
            known = reports.known[index]
            if known["number"] < 0:
                continue
            followers = np.array([follower(plan, ENDLESS) for plan in following], FOLLOWER)
            after = np.repeat([[known["x"]], [known["y"]]], len(following), axis=1)
            positions, rows = (np.full(after.shape, np.nan), after), np.zeros(len(following), np.int64)
            self._count_messages(state, followers, rows, positions, querying, counts)
            marks = participants(self.metric, layout, followers, known["x"], known["y"])
            updates += [
                (server, len(objects), following[row].number, servers.PARTICIPATES | servers.IS_KNOWN)
                for row, server in zip(*map(np.ndarray.tolist, np.nonzero(marks)), strict=True)
            ]
            objects.append(index)
        if not objects:
            return []
        there = reports.known[objects]
        report = {name: there[name].copy() for name in ("x", "y", "expires")}
        # before all ticks to come, so before the query's first
        report |= {"tick": np.full(len(objects), -1), "who": np.array(objects) * self.zones + zone}
        table, out = np.array(updates, np.int64), []
        for server in np.unique(table[:, 0]).tolist():
            out += self._focal_messages(server, report, table[table[:, 0] == server], zone)
        return out

    def _adopt_layout(self, reports: ObjectReports, layout: RegionLayout) -> None:
        """From now on objects belong to servers as this layout says."""
        reports.assign(lambda x, y: zones_of(layout, x, y))

    def _adopt_searches(
        self,
        reports: ObjectReports,
        searched: SearchedObjects,
        zone: int,
        state: State,
        new_queries: list[int],
        packets: Sequence[Packet],
    ) -> list[Packet]:
        """Returns what zones get because their search regions changed, or because they have new queries for
        nearest objects.
        """
        sent = {
            packet.facts["from"]: (raster_in(packet), packet.facts["late"])
            for packet in servers.of_kind(packets, servers.SEARCH)
        }
        nearest = [n for n in new_queries if plans(state, self.integers)[n].mode == NEAREST]
        searched.is_needed = bool(sent) or has_nearest(state, self.integers) or not searched.is_idle
        if not searched.is_needed:
            searched.clear(state)
        return searched.adopt(sent, {number % self.zones for number in nearest}, reports, zone)

    def _bounds(self, zone: int, packets: Sequence[Packet]) -> list[Packet]:
        """Returns the bounds of the positions in this batch, if it has any."""
        items = [self._reports(packet.rows) for packet in packets if packet.kind is Kind.ITEMS]
        positions = [[grid_xs(self.metric, x), y] for _, x, y in items if len(x)]
        if not positions:
            return []
        x, y = (np.concatenate(axis) for axis in zip(*positions, strict=True))
        bounds = [[x.min().item(), x.max().item()], [y.min().item(), y.max().item()]]
        return [servers.message(servers.REGION, 0, servers.BOUNDS, {}, zone, bounds=bounds)]

    def _divide(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        """Tells the region that has far more to do than the others to give some of it away."""
        sent = servers.of_kind(packets, servers.WORK)
        if not sent:
            return []
        work = {packet.facts["from"]: packet.facts["work"] for packet in sent}
        splits = len(self.layout_now(state).splits)
        patience = HURRY if any(packet.facts["asked"] for packet in sent) else self.patience
        found = division(work, self.zones, splits, patience)
        if found is None:
            return []
        facts = {"other": found.other, "share": found.share}
        return [servers.message(servers.REGION, found.hot, servers.DIVIDE, {}, zone, **facts)]

    def _reports(self, items: pa.RecordBatch) -> tuple[pa.RecordBatch, Floats, Floats]:
        """Returns the items that are reports, and their positions. One without a name or a position is
        none.
        """
        assert self.stream.object is not None
        x, y = (floats_of(items, column) for column in self.stream.position)
        objects = items.column(self.stream.object)
        good = np.isfinite(x) & np.isfinite(y)
        if self.metric.globe:
            good &= np.abs(y) <= 90
        if objects.null_count:
            good &= objects.is_valid().to_numpy(zero_copy_only=False)
        if not good.all():
            items = items.filter(pa.array(good))
            x, y = x[good], y[good]
        return items, x, y

    def _add_items(self, reports: ObjectReports, items: pa.RecordBatch) -> None:
        assert self.stream.object is not None
        items, x, y = self._reports(items)
        if not items.num_rows:
            return
        times = times_of(items, self.stream)
        truths = np.zeros((items.num_rows, reports.conditions.words), np.uint64)
        for bit, condition in reports.conditions.needed(times[0].item()):
            truths[:, bit >> 6] |= evaluate(condition, items).astype(np.uint64) << np.uint64(bit & 63)
        index = reports.names.find(encoded(items.column(self.stream.object)), add=True)
        reports.make_room(reports.names.count, truths.shape[1])
        reports.items.add(items, index)
        reports.pending.append(
            {"time": times, "index": index, "x": x, "y": y, "number": numbers_of(items), "truths": truths}
        )

    def _new_names(self, reports: ObjectReports, zone: int) -> list[Packet]:
        new = reports.names.new_names()
        if new is None:
            return []
        who, strings = new[0] * self.zones + zone, new[1]
        return [
            servers.names_message(depth, other, who, strings, zone)
            for depth in (servers.REGION, servers.ASSEMBLE)
            for other in range(self.zones)
        ]

    def _due(self, reports: ObjectReports, ticks: Ticks, final: int) -> Arrays | None:
        """Returns the reports of the ticks that are final now, each object's last in a tick; those of later
        ticks go on waiting.
        """
        report = reports.pending.take_due(ticks, final, reports.names.count)
        if report is None:
            return None
        report["expires"] = np.full(len(report["tick"]), NEVER)
        if self.stream.expire is not None:
            report["expires"] = ticks.first_beyond(report["time"], self.stream.expire)
        return report

    def _moves(
        self,
        reports: ObjectReports,
        searched: SearchedObjects | None,
        zone: int,
        state: State,
        report: Arrays,
        last: dict[int, int],
        querying: QueryingServers,
        counts: Counter[str],
    ) -> list[Packet]:
        """Returns the moves and focal updates of reports for every region, and the moves that queries for
        nearest objects need.
        """
        followers = reports.requests.followers(plans(state, self.integers), last, reports)
        truths = with_words(report["truths"], reports.truths.shape[1])
        layout, rows = self.layout_now(state), ReportBatch(records(REPORT, report), truths)
        moves, updates, before = route_reports(self.metric, layout, rows, reports.arrays(), followers)
        row, entry = followed_reports(report["index"], report["tick"], followers)
        positions = before[:, row].copy(), np.array([report["x"][row], report["y"][row]])
        self._count_messages(state, followers.entries[entry], row, positions, querying, counts)
        out: list[Packet] = []
        for server in range(self.zones):
            mine = moves[moves[:, 0] == server] if self.zones > 1 else moves
            if len(mine):
                columns = servers.move_columns(report, mine[:, 1], mine[:, 2])
                out.append(servers.message(servers.REGION, server, servers.MOVES, columns, zone))
            mine = updates[updates[:, 0] == server] if self.zones > 1 else updates
            if len(mine):
                out += self._focal_messages(server, report, mine, zone)
        if searched is not None and searched.is_needed:
            out += searched.add(report, before, zone)
        return out

    def _count_messages(
        self,
        state: State,
        entries: Array,
        report: Ints,
        positions: tuple[Floats, Floats],
        querying: QueryingServers,
        counts: Counter[str],
    ) -> None:
        """Counts the paper's messages when the focal points of queries (FOLLOWER) have moved."""
        if not len(entries):
            return
        regions = querying.of_all(entries["query"].copy())[1]
        found = count_messages(self.metric, self.regions_now(state), entries, regions, report, *positions)
        counts.update(dict(zip(_COUNTED, found.tolist(), strict=True)))

    def _count_fixed(
        self,
        state: State,
        begun: Sequence[MovingPlan],
        ended: Sequence[MovingPlan],
        querying: QueryingServers,
        counts: Counter[str],
    ) -> None:
        """Counts the registrations of queries around fixed points, and that they are dropped."""
        fixed = [plan for plan in (*begun, *ended) if plan.point is not None]
        if not fixed:
            return
        points = np.array([plan.point for plan in fixed], np.float64).T.copy()
        nowhere = np.full(points.shape, np.nan)
        is_new = np.arange(len(fixed)) < sum(plan.point is not None for plan in begun)
        regions, at = self.regions_now(state), querying.of_all(np.array([plan.number for plan in fixed]))[1]
        entries = np.array([follower(plan, ENDLESS) for plan in fixed], FOLLOWER)
        before, after = np.where(is_new, nowhere, points), np.where(is_new, points, nowhere)
        found = count_messages(self.metric, regions, entries, at, np.arange(len(fixed)), before, after)
        counts[servers.REGISTRATION] += int(found[REGISTRATIONS])
        counts[servers.DROP] += int(found[DROPS])

    def _count_ended(
        self,
        reports: ObjectReports,
        state: State,
        ended: Sequence[MovingPlan],
        zone: int,
        querying: QueryingServers,
        counts: Counter[str],
    ) -> None:
        """Counts that the participants of queries that have ended drop them."""
        if zone == 0:
            self._count_fixed(state, [], ended, querying, counts)
        for index, plans_of in reports.followed(ended).items():
            known = reports.known[index]
            if known["number"] >= 0:
                entries = np.array([follower(plan, ENDLESS) for plan in plans_of], FOLLOWER)
                before = np.repeat([[known["x"]], [known["y"]]], len(entries), axis=1)
                positions = before, np.full(before.shape, np.nan)
                rows = np.zeros(len(entries), np.int64)
                self._count_messages(state, entries, rows, positions, querying, counts)

    def _focal_messages(self, server: int, report: Arrays, updates: Ints, zone: int) -> list[Packet]:
        """Returns the focal objects that a server gets, once each, and what they mean for its queries."""
        rows, focal = np.unique(updates[:, 1], return_inverse=True)
        objects = {name: report[name][rows] for name in ("tick", "who", "x", "y", "expires")}
        requests: Arrays = {"focal": focal, "query": updates[:, 2], "flags": updates[:, 3].astype(np.uint8)}
        return [
            servers.message(servers.REGION, server, servers.FOCAL_UPDATES, objects, zone),
            servers.message(servers.REGION, server, servers.REQUESTS, requests, zone),
        ]


# what a home keeps of its objects


class ObjectReports:
    """`known` has the last report of each object that went to a region, `pending` those that wait, `items`
    what both said.
    """

    def __init__(self, names: HomeNames, conditions: ConditionBits) -> None:
        self.names, self.conditions = names, conditions
        self.requests = ForwardingRequests()
        self.known = _no_report(64)
        self.truths = np.zeros((64, conditions.words), np.uint64)  # of `known`
        self.dirty = np.zeros(1, np.uint8)  # one per block of `known` to be stored
        self.pending = PendingReports()
        self.items = LastItems()

    @staticmethod
    def load(state: State) -> ObjectReports:
        reports = ObjectReports(HomeNames.load(state), ConditionBits.load(state))
        for key in state.keys(OBJECTS):
            chunk = state.get(key)
            assert chunk is not None
            first, length = int(key.removeprefix(OBJECTS)) * BLOCK, len(chunk["x"])
            reports.make_room(max(first + length, reports.names.count), chunk["truths"].shape[1])
            for name in KNOWN.names or ():
                reports.known[name][first : first + length] = chunk[name]
            reports.truths[first : first + length, : chunk["truths"].shape[1]] = chunk["truths"]
        reports.make_room(reports.names.count, reports.conditions.words)
        reports.pending = PendingReports.load(state)
        reports.items = LastItems.load(state)
        return reports

    def make_room(self, count: int, words: int) -> None:
        """Makes room for so many objects, and for the bits of all conditions."""
        self.truths = with_words(self.truths, words)
        old = len(self.known)
        if count > old:
            more = max(old, count - old)
            self.known = np.concatenate([self.known, _no_report(more)])
            self.truths = np.concatenate([self.truths, np.zeros((more, self.truths.shape[1]), np.uint64)])
            blocks = len(self.known) // BLOCK + 1 - len(self.dirty)
            self.dirty = np.concatenate([self.dirty, np.zeros(blocks, np.uint8)])

    def arrays(self) -> KnownObjects:
        """Returns what is known as kernels take it; valid until an object or a condition is added."""
        return KnownObjects(self.known, self.truths, self.dirty)

    def assign(self, zones_of: Callable[[Floats, Floats], Ints]) -> None:
        """Gives every object that has reported to the server that now has its position."""
        seen = np.flatnonzero(self.known["zone"] >= 0)
        there = self.known[seen]
        self.known["zone"][seen] = zones_of(there["x"].copy(), there["y"].copy())
        self.dirty[seen // BLOCK] = 1

    def set_bit(self, bit: int, holds: Holds) -> Ints:
        """Says of all reports whether a condition holds for them; returns the objects for which it does."""
        self.make_room(0, bit // 64 + 1)
        seen = np.flatnonzero(self.known["number"] >= 0)
        self.truths[seen] = with_bit(self.truths[seen], bit, holds(self.known["number"][seen]))
        self.dirty[seen // BLOCK] = 1
        self.pending.set_bit(bit, holds)
        return seen[has_bit(self.truths[seen], bit)]

    def followed(self, plans: Iterable[MovingPlan]) -> dict[int, list[MovingPlan]]:
        """Returns the queries whose focal objects this zone knows by now, by object."""
        followers = [(plan, plan.focal) for plan in plans if plan.focal is not None]
        by_object: dict[int, list[MovingPlan]] = defaultdict(list)
        found = self._find([focal for _, focal in followers])
        for (plan, _), index in zip(followers, found, strict=True):
            if index >= 0:
                by_object[index].append(plan)
        return by_object

    def indexes(self, names: Iterable[bytes]) -> set[int]:
        """Returns the objects of these names that this zone knows by now."""
        return {index for index in self._find(list(names)) if index >= 0}

    def _find(self, names: list[bytes]) -> list[int]:
        if not names:
            return []
        offsets = np.concatenate([[0], np.cumsum([len(name) for name in names])]).astype(np.int32)
        data = np.frombuffer(b"".join(names), np.uint8).copy()
        found: list[int] = self.names.find((offsets, data)).tolist()
        return found

    def save(self, state: State) -> None:
        """Stores what changed since the last call."""
        self.names.save(state)
        self.conditions.save(state)
        for block in np.flatnonzero(self.dirty).tolist():
            rows = slice(block * BLOCK, min((block + 1) * BLOCK, self.names.count))
            chunk = {name: self.known[name][rows].copy() for name in KNOWN.names or ()}
            state.put(f"{OBJECTS}{block:08d}", chunk | {"truths": self.truths[rows].copy()})
        self.dirty[:] = 0
        self.pending.save(state)
        self.items.save(state, self.known["number"], self.pending.numbers)


def _no_report(size: int) -> Array:
    out = np.zeros(size, KNOWN)
    out["number"] = out["zone"] = -1
    return out


class LastItems:
    """The items that the reports of a zone were: each object's last, and those that wait. A condition that
    nobody asked for before is evaluated on them.

    Items come in stream order and are kept in chunks. When there are twice as many as are needed, the others
    are dropped.
    """

    def __init__(self) -> None:
        self._chunks: list[pa.RecordBatch] = []
        self._new: list[pa.RecordBatch] = []

    def add(self, items: pa.RecordBatch, index: Ints) -> None:
        """Adds the items of reports; `index` are their objects'."""
        self._new.append(items.append_column(_OBJECT, pa.array(index)))

    def holds(self, condition: Term) -> Holds:
        """Returns a function that says for numbers of items whether a condition holds for them; false for
        those that are not here.
        """
        parts = [*self._chunks, *self._new]
        numbers = np.concatenate([np.zeros(0, np.int64), *map(numbers_of, parts)])
        truth = np.concatenate([np.zeros(0, bool), *(evaluate(condition, part) for part in parts)])

        def found(wanted: Ints) -> Bools:
            if not len(numbers):
                return np.zeros(len(wanted), bool)
            row = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
            return np.asarray((numbers[row] == wanted) & truth[row])

        return found

    def save(self, state: State, last: Ints, pending: Ints) -> None:
        """Stores what was added since the last call and is needed: `last` is the number of each object's last
        report, `pending` are those that wait, ascending.
        """
        if not self._new:
            return
        new = _needed(self._new, last, pending)
        self._new = []
        first = len(self._chunks)
        if first and self._chunks[-1].num_rows < CHUNK_ROWS:
            first -= 1
        kept = self._chunks[first:]
        count = np.count_nonzero(last >= 0) + len(pending)
        if sum(chunk.num_rows for chunk in self._chunks) + new.num_rows > 2 * count + CHUNK_ROWS:
            first, kept = 0, [_needed(self._chunks, last, pending)] if self._chunks else []
        rows = pa.concat_batches([*kept, new])
        self._chunks = self._chunks[:first]
        self._chunks += [rows.slice(at, CHUNK_ROWS) for at in range(0, rows.num_rows, CHUNK_ROWS)]
        for position in range(first, len(self._chunks)):
            state.put(f"{ITEMS}{position:08d}", self._chunks[position])
        for key in state.keys(ITEMS)[len(self._chunks) :]:
            state.drop(key)

    @staticmethod
    def load(state: State) -> LastItems:
        items = LastItems()
        items._chunks = [rows for key in state.keys(ITEMS) if (rows := state.rows(key)) is not None]
        return items


def _needed(parts: list[pa.RecordBatch], last: Ints, pending: Ints) -> pa.RecordBatch:
    rows = pa.concat_batches(parts)
    numbers, index = numbers_of(rows), rows.column(_OBJECT).to_numpy()
    wanted = last[index] == numbers
    if len(pending):
        row = np.minimum(np.searchsorted(pending, numbers), len(pending) - 1)
        wanted |= pending[row] == numbers
    return rows if wanted.all() else rows.filter(pa.array(wanted))


class PendingReports:
    """Reports that wait until their tick is final.

    They come at the end, in stream order, and leave at the front. So a batch costs what it brings and what is
    due, not what waits, and it stores only the last chunk again. Of several reports of an object in one tick
    only the last counts; the others are dropped when the tick is due, or when so many wait that it pays.
    """

    def __init__(self) -> None:
        self._columns: Arrays = {}  # with room for more than there are
        self._tick = np.zeros(0, np.int64)  # of the first reports; the others follow
        self._count = 0
        self._stored = 0  # so many at the front are stored as they are
        self._single = 0  # reports that were left when superseded ones were last dropped

    def append(self, columns: Arrays) -> None:
        """Adds reports that are later than all others."""
        count = self._count + len(columns["index"])
        if self._columns:
            self._fit_words(columns["truths"].shape[1])
        for name, column in columns.items():
            old = self._columns.get(name, column[:0])
            if count > len(old):
                old = self._columns[name] = grown(old, max(count, 2 * len(old)), self._count)
            if name == "truths":
                old[self._count : count, column.shape[1] :] = 0
                old[self._count : count, : column.shape[1]] = column
            else:
                old[self._count : count] = column
        self._count = count

    def _fit_words(self, words: int) -> None:
        truths = self._columns["truths"]
        if words > truths.shape[1]:
            self._columns["truths"] = with_words(truths, words)
            self._stored = 0

    @property
    def numbers(self) -> Ints:
        """Returns the numbers of the items that the reports were, ascending."""
        return self._columns["number"][: self._count] if self._count else np.zeros(0, np.int64)

    def set_bit(self, bit: int, holds: Holds) -> None:
        if self._count:
            self._fit_words(bit // 64 + 1)
            truths = self._columns["truths"]
            truths[: self._count] = with_bit(truths[: self._count], bit, holds(self.numbers))
            self._stored = 0

    def take_due(self, ticks: Ticks, final: int, objects: int) -> Arrays | None:
        """Returns the reports of ticks up to `final`, each object's last in a tick, with their ticks; None if
        there are none. There are `objects` objects.
        """
        if not self._count:
            return None
        if len(self._tick) < self._count:
            new = ticks.first_at(self._columns["time"][len(self._tick) : self._count])
            self._tick = np.concatenate([self._tick, new])
        due = int(np.searchsorted(self._tick, final, side="right"))
        if not due:
            if self._count > 2 * self._single + CHUNK_ROWS:
                self._drop_superseded(objects)
            return None
        columns = {name: column[:due] for name, column in self._columns.items()} | {"tick": self._tick[:due]}
        self._keep(slice(due, self._count))
        last = last_of_tick(columns["tick"], columns["index"], objects)
        return columns if last.all() else {name: column[last] for name, column in columns.items()}

    def _drop_superseded(self, objects: int) -> None:
        last = last_of_tick(self._tick, self._columns["index"][: self._count], objects)
        if not last.all():
            self._keep(last)
        self._single = self._count

    def _keep(self, rows: slice | Bools) -> None:
        """Drops all others. What is there now is not changed: somebody may have it."""
        columns = {name: column[: self._count][rows].copy() for name, column in self._columns.items()}
        self._columns, self._tick = columns, self._tick[rows]
        self._count, self._stored, self._single = len(self._tick), 0, 0

    def save(self, state: State) -> None:
        """Stores what changed since the last call."""
        first = self._stored // CHUNK_ROWS
        columns = {name: column[: self._count] for name, column in self._columns.items()}
        put_columns(state, PENDING, columns if self._count else None, first)
        self._stored = self._count

    @staticmethod
    def load(state: State) -> PendingReports:
        reports = PendingReports()
        columns = get_columns(state, PENDING)
        if columns is not None:
            reports.append({name: columns[name] for name in COLUMNS})
            reports._stored = reports._count
        return reports


# the queries that follow objects


class ForwardingRequests:
    """The forwarding request table (FRT) of a home zone: which queries follow which object. It is built again
    only when a query or an object has come or gone.
    """

    def __init__(self) -> None:
        self._built_of: tuple[dict[int, MovingPlan], dict[int, int], int] | None = None
        self._table: Followers | None = None
        self._anchored_of: tuple[dict[int, MovingPlan], int] | None = None
        self._anchored: dict[int, list[int]] = {}

    def anchored(self, plans: dict[int, MovingPlan], reports: ObjectReports) -> dict[int, list[int]]:
        """Returns the numbers of the queries whose assembler is in the region of an object, by object."""
        old = self._anchored_of
        if old is None or old[0] is not plans or old[1] != reports.names.count:
            self._anchored_of, self._anchored = (plans, reports.names.count), defaultdict(list)
            named = [(plan.number, plan.anchor) for plan in plans.values() if plan.anchor is not None]
            found = reports._find([name for _, name in named])
            for (number, _), index in zip(named, found, strict=True):
                if index >= 0:
                    self._anchored[index].append(number)
        return self._anchored

    def followers(
        self, plans: dict[int, MovingPlan], last: dict[int, int], reports: ObjectReports
    ) -> Followers:
        """Returns the table; `last` are the last ticks of cancelled queries."""
        old, count = self._built_of, reports.names.count
        if self._table is None or old is None or old[0] is not plans or old[1:] != (last, count):
            self._built_of = (plans, last, count)
            self._table = _followers(plans, last, reports)
        return self._table


def _followers(plans: dict[int, MovingPlan], last: dict[int, int], reports: ObjectReports) -> Followers:
    """Returns the entries of all queries whose focal object this zone knows by now."""
    by_object = reports.followed(plans.values())
    entries: list[tuple[float, ...]] = []
    count = np.zeros(reports.names.count + 1, np.int64)
    for index in sorted(by_object):
        count[index + 1] = len(by_object[index])
        entries += [follower(plan, last.get(plan.number, ENDLESS)) for plan in by_object[index]]
    return Followers(np.cumsum(count), np.array(entries, FOLLOWER))


def followed_reports(index: Ints, tick: Ints, followers: Followers) -> tuple[Ints, Ints]:
    """Returns (row of a report, entry) of all queries that follow the objects of reports."""
    count = followers.first[index + 1] - followers.first[index]
    row = np.repeat(np.arange(len(index)), count)
    entry = np.arange(len(row)) + np.repeat(followers.first[index] - (np.cumsum(count) - count), count)
    if not len(entry):
        return row, entry
    seen = tick[row] <= followers.entries["last_tick"][entry]
    return row[seen], entry[seen]


def follower(plan: MovingPlan, last: int) -> tuple[float, ...]:
    """Returns the entry (FOLLOWER) of a query with this last tick."""
    shape = ONE_ZONE if plan.mode == NEAREST else plan.shape
    return (plan.number, last, shape, plan.a, plan.b, int(plan.issuer))


# what queries for nearest objects need


class _Snapshot:
    """Records of objects at some moment."""

    def __init__(self, index: Ints, known: Array, truths: Words) -> None:
        self.index, self.records, self.truths = index, known, truths
        self.x, self.y = known["x"].copy(), known["y"].copy()

    def missing(self, metric: Metric, old: Raster, kept: Raster, new: Raster) -> Ints:
        """Returns those in cells that are new to a zone, which has those in old cells that it kept."""
        if new is NOTHING:
            return np.zeros(0, np.int64)
        has = in_raster(metric, old, self.x, self.y) & in_raster(metric, kept, self.x, self.y)
        return np.flatnonzero(in_raster(metric, new, self.x, self.y) & ~has)

    def columns(self, rows: Ints, zones: int, zone: int) -> dict[str, Array]:
        """Returns the columns of a records message."""
        columns = {"who": self.index[rows] * zones + zone}
        columns |= {name: self.records[name][rows] for name in RECORD.names or ()}
        return columns | servers.truth_columns(self.truths[rows])


class SearchedObjects:
    """Sends each zone the objects in the cells that its queries for nearest objects search, and no others:
    their moves into, within and out of these cells, and the records of objects in cells that are new to it.

    What was sent in the last batch is kept, with what was known before: a zone whose cells were too few for
    its results asks for that batch again (nearest_server).
    """

    def __init__(self, metric: Metric, zones: int) -> None:
        self.metric, self.zones = metric, zones
        self._clear()

    def _clear(self) -> None:
        self.is_needed = False  # whether there are queries for nearest objects, or were in the last batch
        self.rasters = [NOTHING] * self.zones
        self._changed: set[int] = set()  # zones whose rasters are to be stored
        self._recent: Arrays | None = None
        self._before: Arrays | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no zone searches any cell."""
        return all(raster is NOTHING for raster in self.rasters)

    def adopt(
        self, sent: Mapping[int, tuple[Raster, bool]], new: set[int], reports: ObjectReports, zone: int
    ) -> list[Packet]:
        """Uses the rasters that zones sent from this batch on, and everything for zones with new queries.
        Returns the records that these zones lack, and the moves of the last batch for those that are late.
        """
        out = []
        known: dict[bool, _Snapshot] = {}
        for other in sorted(sent.keys() | new):
            old = self.rasters[other]
            kept, late = sent.get(other, (old, False))
            self.rasters[other] = EVERYTHING if other in new else kept
            self._changed.add(other)
            if late not in known:
                known[late] = self._before_last_batch(reports) if late else _now(reports)
            missing = known[late].missing(self.metric, old, kept, self.rasters[other])
            if len(missing) or late:  # a zone that is late waits, also for nothing
                columns = known[late].columns(missing, self.zones, zone)
                out.append(servers.message(servers.REGION, other, servers.RECORDS, columns, zone))
            if late and self._recent is not None:
                out += self._moves(zone, other, self._recent)
        return out

    def _before_last_batch(self, reports: ObjectReports) -> _Snapshot:
        """Returns the records of all objects as of before the last batch."""
        if self._recent is None:
            return _now(reports)
        silent = reports.known["number"] >= 0
        silent[self._recent["index"]] = False
        now = _now(reports, silent)
        if self._before is None:
            return now
        return _Snapshot(
            np.concatenate([now.index, self._before["index"]]),
            np.concatenate([now.records, records(RECORD, self._before)]),
            np.concatenate([now.truths, with_words(self._before["truths"], now.truths.shape[1])]),
        )

    def remember(self, report: Arrays | None, reports: ObjectReports) -> None:
        """Keeps what is known of the objects that report in this batch, before it is brought up to date."""
        self._recent = self._before = None
        if report is None:
            return
        index = np.unique(report["index"])
        index = index[reports.known["number"][index] >= 0]
        if len(index):
            there = reports.known[index]
            self._before = {"index": index, "truths": reports.truths[index]}
            self._before |= {name: there[name].copy() for name in RECORD.names or ()}

    def add(self, report: Arrays, before: Floats, zone: int) -> list[Packet]:
        """Returns the moves of this batch's reports for every zone; `before` is where the objects were."""
        self._recent = report | {"prior_x": before[0].copy(), "prior_y": before[1].copy()}
        self._recent.pop("time")
        return [packet for other in range(self.zones) for packet in self._moves(zone, other, self._recent)]

    def set_bit(self, bit: int, holds: Holds) -> None:
        """Says of what is kept of the last batch whether a condition holds."""
        for kept in (self._recent, self._before):
            if kept is not None:
                truths = with_words(kept["truths"], bit // 64 + 1)
                kept["truths"] = with_bit(truths, bit, holds(kept["number"]))

    def _moves(self, zone: int, other: int, report: Arrays) -> list[Packet]:
        raster = self.rasters[other]
        if raster is NOTHING:
            return []
        now = in_raster(self.metric, raster, report["x"], report["y"])
        rows = np.flatnonzero(now | in_raster(self.metric, raster, report["prior_x"], report["prior_y"]))
        if not len(rows):
            return []
        leaves = ~now[rows] | (report["expires"][rows] <= report["tick"][rows])
        columns = servers.move_columns(report, rows, leaves)
        return [servers.message(servers.REGION, other, servers.NEAREST_MOVES, columns, zone)]

    @staticmethod
    def load(state: State, metric: Metric, zones: int) -> SearchedObjects:
        searched = SearchedObjects(metric, zones)
        for key in state.keys(RASTERS):
            searched.rasters[int(key.removeprefix(RASTERS))] = raster_from(state.get(key) or {})
        searched._recent, searched._before = get_columns(state, RECENT), get_columns(state, BEFORE)
        return searched

    def save(self, state: State) -> None:
        """Stores what changed since the last call."""
        for zone in sorted(self._changed):
            key = f"{RASTERS}{zone:08d}"
            if self.rasters[zone] is NOTHING:
                state.drop(key)
            else:
                state.put(key, raster_arrays(self.rasters[zone]))
        put_columns(state, RECENT, self._recent)
        put_columns(state, BEFORE, self._before)
        self._changed = set()

    def clear(self, state: State) -> None:
        """Removes everything, also from the state."""
        stored = state.keys(SEARCH)
        for key in stored:
            state.drop(key)
        if stored:
            self._clear()


def _now(reports: ObjectReports, wanted: Bools | None = None) -> _Snapshot:
    """Returns the records of all objects, or of those that are wanted."""
    index = np.flatnonzero(reports.known["number"] >= 0 if wanted is None else wanted)
    there = reports.known[index]
    columns = {name: there[name] for name in RECORD.names or ()}
    return _Snapshot(index, records(RECORD, columns), reports.truths[index])


# arrays and columns


def with_bit(truths: Words, bit: int, holds: Bools) -> Words:
    """Returns the truths of reports with one bit as `holds` says."""
    out, mask = truths.copy(), np.uint64(1) << np.uint64(bit & 63)
    word = out[:, bit >> 6]
    out[:, bit >> 6] = np.where(holds, word | mask, word & ~mask)
    return out


def has_bit(truths: Words, bit: int) -> Bools:
    return np.asarray((truths[:, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) != 0)


def with_words(truths: Array, words: int) -> Array:
    """Returns the truths of reports with at least so many words; the bits of later conditions are 0."""
    if truths.shape[1] >= words:
        return truths
    out = np.zeros((len(truths), words), np.uint64)
    out[:, : truths.shape[1]] = truths
    return out


def put_columns(state: State, prefix: str, columns: Arrays | None, first: int = 0) -> None:
    """Stores columns of equal length, in chunks, in place of those that were there; none where there are
    none. Chunks before the one numbered `first` are stored already.
    """
    length = 0 if columns is None else len(next(iter(columns.values())))
    count = -(-length // CHUNK_ROWS)
    for chunk in range(first, count):
        assert columns is not None
        rows = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
        state.put(f"{prefix}{chunk:08d}", {name: column[rows].copy() for name, column in columns.items()})
    for key in state.keys(prefix)[count:]:
        state.drop(key)


def get_columns(state: State, prefix: str) -> Arrays | None:
    parts = [state.get(key) or {} for key in state.keys(prefix)]
    if not parts:
        return None
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
