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

A zone keeps of its objects names, the last report that went to a region and those that wait (ObjectReports),
the queries that follow objects (ForwardingRequests), and what queries for nearest objects need
(SearchedObjects). All is kept in memory between batches, and built from the state where a worker takes a zone
over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.chain.arrow_columns import floats_of, numbers_of, times_of
from anabranch.chain.balance import HURRY, division
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.state import Arrays, State
from anabranch.families.moving import servers
from anabranch.families.moving.kernels.arrays import BLOCK, NEAREST, NEVER, Metric, records
from anabranch.families.moving.kernels.home_moves import (
    FOLLOWER,
    KNOWN,
    ONE_ZONE,
    RECORD,
    REPORT,
    Followers,
    last_of_tick,
    route_reports,
    update_records,
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
from anabranch.families.moving.servers import MovingStage, Ticks, final_tick, progress_of, ticks_of
from anabranch.model.arrays import Array, Bools, Floats, Ints, Words
from anabranch.model.stream import Stream
from anabranch.numeric.slots import grown
from anabranch.predicates.evaluate import evaluate

OBJECTS, PENDING, SEARCH = "objects/", "pending/", "search/"
RASTERS, RECORDS = SEARCH + "rasters/", SEARCH + "records/"
RECENT, BEFORE = SEARCH + "recent/", SEARCH + "before/"
_HOME_OBJECTS = "home objects"

#: Columns of a pending report; `time` decides its tick once the origin is known.
COLUMNS = ("time", "index", "x", "y", "number", "truths")
#: Rows per chunk of long columns.
CHUNK_ROWS = 8192


def home_zones(stream: Stream, zones: int, items: pa.RecordBatch) -> Ints:
    """Returns the home zone of each item, by its object's name."""
    if zones == 1:
        return np.zeros(items.num_rows, np.int64)
    assert stream.object is not None
    return np.asarray(buckets(*encoded(items.column(stream.object)), zones))


class ObjectHome(MovingStage):
    name = "home"

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        reports, searched = state.cached(_HOME_OBJECTS, state.keys(), lambda: self._loaded(state))
        for packet in servers.of_kind(packets, servers.SPLITS, servers.LAYOUT):
            self._adopt_layout(reports, self.new_layout(state, packet))
        new_queries: list[int] = []
        for packet in packets:
            if packet.kind is Kind.ITEMS:
                self._add_items(reports, packet.rows)
            elif packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                new_queries += self._apply_control(reports, state, packet)
        out = self._new_names(reports, zone) + self._divide(zone, state, packets)
        if self.lacks_bounds(state):
            out += self._bounds(zone, packets)
        if searched is not None:
            out += self._adopt_searches(searched, zone, state, new_queries, packets)
        progress = progress_of(packets)
        ticks = ticks_of(self.stream, progress)
        if ticks is not None:
            final, last = final_tick(ticks, progress), last_ticks(state, ticks)
            due = self._due(reports, ticks, final)
            if due is not None:
                due["who"] = due["index"] * self.zones + zone
                out += self._moves(reports, zone, state, due, last)
            if searched is not None and searched.is_needed:
                out += searched.add(due, reports.names.count, zone)
            finish(state, final, last)
        reports.save(state)
        if searched is not None:
            searched.save(state)
        state.cache(_HOME_OBJECTS, state.keys(), (reports, searched))
        return out

    def _loaded(self, state: State) -> tuple[ObjectReports, SearchedObjects | None]:
        searched = SearchedObjects.load(state, self.metric, self.zones) if self.zones > 1 else None
        return ObjectReports.load(state), searched

    def _apply_control(self, reports: ObjectReports, state: State, packet: Packet) -> list[int]:
        """Returns the numbers of the queries that are activated."""
        activated, cancelled = apply_control(state, packet)
        for query in activated:
            reports.conditions.add(query)
        for gone in cancelled:
            reports.conditions.remove(gone)
        return [query.number for query in activated]

    def _adopt_layout(self, reports: ObjectReports, layout: RegionLayout) -> None:
        """From now on objects belong to servers as this layout says."""
        reports.assign(lambda x, y: zones_of(layout, x, y))

    def _adopt_searches(
        self,
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
        return searched.adopt(sent, {number % self.zones for number in nearest}, zone)

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
        reports.make_room(reports.names.count)
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
        self, reports: ObjectReports, zone: int, state: State, report: Arrays, last: dict[int, int]
    ) -> list[Packet]:
        """Returns the moves and focal updates of reports for every region."""
        followers = reports.requests.followers(plans(state, self.integers), last, reports.names)
        layout, rows = self.layout_now(state), records(REPORT, report)
        moves, updates = route_reports(self.metric, layout, rows, reports.known, reports.dirty, followers)
        out: list[Packet] = []
        for server in range(self.zones):
            mine = moves[moves[:, 0] == server] if self.zones > 1 else moves
            if len(mine):
                columns = servers.move_columns(report, mine[:, 1], mine[:, 2])
                out.append(servers.message(servers.REGION, server, servers.MOVES, columns, zone))
            mine = updates[updates[:, 0] == server] if self.zones > 1 else updates
            if len(mine):
                out += self._focal_messages(server, report, mine, zone)
        return out

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
    """`known` has the last report of each object that went to a region, `pending` those that wait."""

    def __init__(self, names: HomeNames, conditions: ConditionBits) -> None:
        self.names, self.conditions = names, conditions
        self.requests = ForwardingRequests()
        self.known = _no_report(64)
        self.dirty = np.zeros(1, np.uint8)  # one per block of `known` to be stored
        self.pending = PendingReports()

    @staticmethod
    def load(state: State) -> ObjectReports:
        reports = ObjectReports(HomeNames.load(state), ConditionBits.load(state))
        reports.make_room(reports.names.count)
        for key in state.keys(OBJECTS):
            chunk = state.get(key)
            assert chunk is not None
            first = int(key.removeprefix(OBJECTS)) * BLOCK
            for name in KNOWN.names or ():
                reports.known[name][first : first + len(chunk[name])] = chunk[name]
        reports.pending = PendingReports.load(state)
        return reports

    def make_room(self, count: int) -> None:
        old = len(self.known)
        if count > old:
            self.known = np.concatenate([self.known, _no_report(max(old, count - old))])
            self.dirty = _with_blocks(self.dirty, len(self.known))

    def assign(self, zones_of: Callable[[Floats, Floats], Ints]) -> None:
        """Gives every object that has reported to the server that now has its position."""
        seen = np.flatnonzero(self.known["zone"] >= 0)
        there = self.known[seen]
        self.known["zone"][seen] = zones_of(there["x"].copy(), there["y"].copy())
        self.dirty[seen // BLOCK] = 1

    def save(self, state: State) -> None:
        """Stores what changed since the last call."""
        self.names.save(state)
        self.conditions.save(state)
        for block in np.flatnonzero(self.dirty).tolist():
            rows = slice(block * BLOCK, min((block + 1) * BLOCK, self.names.count))
            chunk = {name: self.known[name][rows].copy() for name in KNOWN.names or ()}
            state.put(f"{OBJECTS}{block:08d}", chunk)
        self.dirty[:] = 0
        self.pending.save(state)


def _no_report(size: int) -> Array:
    out = np.zeros(size, KNOWN)
    out["number"] = out["zone"] = -1
    return out


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

    def followers(self, plans: dict[int, MovingPlan], last: dict[int, int], names: HomeNames) -> Followers:
        """Returns the table; `last` are the last ticks of cancelled queries."""
        old = self._built_of
        if self._table is None or old is None or old[0] is not plans or old[1:] != (last, names.count):
            self._built_of = (plans, last, names.count)
            self._table = _followers(plans, last, names)
        return self._table


def _followers(plans: dict[int, MovingPlan], last: dict[int, int], names: HomeNames) -> Followers:
    """Returns the entries of all queries whose focal object this zone knows by now."""
    followers = [(plan, plan.focal) for plan in plans.values() if plan.focal is not None]
    lengths = [len(focal) for _, focal in followers]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    data = np.frombuffer(b"".join(focal for _, focal in followers), np.uint8).copy()
    by_object: dict[int, list[MovingPlan]] = defaultdict(list)
    for (plan, _), index in zip(followers, names.find((offsets, data)).tolist(), strict=True):
        if index >= 0:
            by_object[index].append(plan)
    entries: list[tuple[float, ...]] = []
    count = np.zeros(names.count + 1, np.int64)
    for index in sorted(by_object):
        count[index + 1] = len(by_object[index])
        for plan in by_object[index]:
            shape, end = ONE_ZONE if plan.mode == NEAREST else plan.shape, last.get(plan.number, ENDLESS)
            entries.append((plan.number, plan.first_item, end, shape, plan.a, plan.b))
    return Followers(np.cumsum(count), np.array(entries, FOLLOWER))


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
        self.records = _no_record(64)
        self.truths = np.zeros((64, 1), np.uint64)
        self._dirty = np.zeros(1, np.uint8)  # one per block of records to be stored
        self._changed: set[int] = set()  # zones whose rasters are to be stored
        self._recent: Arrays | None = None
        self._before: Arrays | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no zone searches any cell."""
        return all(raster is NOTHING for raster in self.rasters)

    def adopt(self, sent: Mapping[int, tuple[Raster, bool]], new: set[int], zone: int) -> list[Packet]:
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
                known[late] = self._before_last_batch() if late else self._now()
            missing = known[late].missing(self.metric, old, kept, self.rasters[other])
            if len(missing) or late:  # a zone that is late waits, also for nothing
                columns = known[late].columns(missing, self.zones, zone)
                out.append(servers.message(servers.REGION, other, servers.RECORDS, columns, zone))
            if late and self._recent is not None:
                out += self._moves(zone, other, self._recent)
        return out

    def _now(self) -> _Snapshot:
        """Returns the records of all objects."""
        index = np.flatnonzero(self.records["number"] >= 0)
        return _Snapshot(index, self.records[index], self.truths[index])

    def _before_last_batch(self) -> _Snapshot:
        """Returns the records of all objects as of before the last batch."""
        if self._recent is None:
            return self._now()
        silent = self.records["number"] >= 0
        silent[self._recent["index"]] = False
        index = np.flatnonzero(silent)
        if self._before is None:
            return _Snapshot(index, self.records[index], self.truths[index])
        return _Snapshot(
            np.concatenate([index, self._before["index"]]),
            np.concatenate([self.records[index], records(RECORD, self._before)]),
            np.concatenate([self.truths[index], with_words(self._before["truths"], self.truths.shape[1])]),
        )

    def add(self, report: Arrays | None, count: int, zone: int) -> list[Packet]:
        """Returns the moves of this batch's reports for every zone; there are `count` objects."""
        self._recent = self._before = None
        if report is None:
            return []
        self._make_room(count, report["truths"].shape[1])
        index = np.unique(report["index"])
        index = index[self.records["number"][index] >= 0]
        if len(index):
            there = self.records[index]
            self._before = {"index": index, "truths": self.truths[index]}
            self._before |= {name: there[name].copy() for name in RECORD.names or ()}
        truths = with_words(report["truths"], self.truths.shape[1])
        prior = update_records(records(REPORT, report), truths, self.records, self.truths, self._dirty)
        self._recent = report | {"prior_x": prior[0].copy(), "prior_y": prior[1].copy()}
        self._recent.pop("time")
        return [packet for other in range(self.zones) for packet in self._moves(zone, other, self._recent)]

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

    def _make_room(self, count: int, words: int) -> None:
        self.truths = with_words(self.truths, words)
        old = len(self.records)
        if count > old:
            more = max(old, count - old)
            self.records = np.concatenate([self.records, _no_record(more)])
            self.truths = np.concatenate([self.truths, np.zeros((more, self.truths.shape[1]), np.uint64)])
            self._dirty = _with_blocks(self._dirty, len(self.records))

    @staticmethod
    def load(state: State, metric: Metric, zones: int) -> SearchedObjects:
        searched = SearchedObjects(metric, zones)
        for key in state.keys(RASTERS):
            searched.rasters[int(key.removeprefix(RASTERS))] = raster_from(state.get(key) or {})
        for key in state.keys(RECORDS):
            chunk = state.get(key)
            assert chunk is not None
            first, length = int(key.removeprefix(RECORDS)) * BLOCK, len(chunk["x"])
            searched._make_room(first + length, chunk["truths"].shape[1])
            for name in RECORD.names or ():
                searched.records[name][first : first + length] = chunk[name]
            searched.truths[first : first + length, : chunk["truths"].shape[1]] = chunk["truths"]
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
        for block in np.flatnonzero(self._dirty).tolist():
            rows = slice(block * BLOCK, (block + 1) * BLOCK)
            chunk = {name: self.records[name][rows].copy() for name in RECORD.names or ()}
            state.put(f"{RECORDS}{block:08d}", chunk | {"truths": self.truths[rows].copy()})
        put_columns(state, RECENT, self._recent)
        put_columns(state, BEFORE, self._before)
        self._dirty[:] = 0
        self._changed = set()

    def clear(self, state: State) -> None:
        """Removes everything, also from the state."""
        stored = state.keys(SEARCH)
        for key in stored:
            state.drop(key)
        if stored:
            self._clear()


def _no_record(size: int) -> Array:
    out = np.zeros(size, RECORD)
    out["number"] = -1
    return out


# arrays and columns


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


def _with_blocks(dirty: Array, count: int) -> Array:
    """Returns the marks of blocks for so many entries."""
    return np.concatenate([dirty, np.zeros(count // BLOCK + 1 - len(dirty), np.uint8)])
