"""What a home zone keeps of its objects: names, the last report that went to a region, reports that wait for
their tick (ObjectReports), the queries that follow objects (ForwardingRequests), and what queries for nearest
objects need (SearchedObjects).

All three are kept in memory between batches, and built from the state where a worker takes a zone over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np

from anabranch.chain.packets import Packet
from anabranch.chain.state import Arrays, State
from anabranch.families.moving import server_messages as messages
from anabranch.families.moving.kernels.arrays import BLOCK, NEAREST, Metric, records
from anabranch.families.moving.kernels.home_moves import (
    FOLLOWER,
    KNOWN,
    ONE_ZONE,
    RECORD,
    REPORT,
    Followers,
    update_records,
)
from anabranch.families.moving.kernels.search_circles import Raster, in_raster
from anabranch.families.moving.nearest_server import EVERYTHING, NOTHING, raster_arrays, raster_from
from anabranch.families.moving.object_names import HomeNames
from anabranch.families.moving.pending_reports import PendingReports, get_columns, put_columns, with_words
from anabranch.families.moving.query_plans import ENDLESS, ConditionBits, MovingPlan
from anabranch.model.arrays import Array, Floats, Ints, Words

OBJECTS, SEARCH = "objects/", "search/"
RASTERS, RECORDS = SEARCH + "rasters/", SEARCH + "records/"
RECENT, BEFORE = SEARCH + "recent/", SEARCH + "before/"


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
        return columns | messages.truth_columns(self.truths[rows])


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
                out.append(messages.message(messages.REGION, other, messages.RECORDS, columns, zone))
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
        columns = messages.move_columns(report, rows, leaves)
        return [messages.message(messages.REGION, other, messages.NEAREST_MOVES, columns, zone)]

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


def _with_blocks(dirty: Array, count: int) -> Array:
    """Returns the marks of blocks for so many entries."""
    return np.concatenate([dirty, np.zeros(count // BLOCK + 1 - len(dirty), np.uint8)])
