"""A group of queries over the same coordinates of the same items: the queries that share one structure.

    group.add_query(query)            group.add_items(items)        packets of rows come from
    group.remove_query(number, time)  group.reach_time(last)        group.packets()

**Points** are the items that pass the condition of the group's queries and have all coordinates. Of an item
only its id, its time and its coordinates are kept, as long as a window can still hold it (`PointStore`).
Positions count the points of the group in stream order. The structure sees places: the coordinates, or on a
globe (`metric = "haversine"`) the points of the unit sphere that these name, with ranges as chords.

**Windows** are numbered from 0 here. ROWS windows are complete with their last item. RANGE windows are
complete when time reaches their end. Only an item can bring that about, whether the query sees it or not, or
the moment of the query's cancellation. So whether a window comes out never depends on how the stream is cut
into batches, also where control and lateness meet:

    lateness 2, items at 5 and 10, RANGE 4 STEP 4, cancel = 7     windows [5, 9) ... progress has reached 8
    when 10 has been seen and waits; the window that ends at 9 is not complete at 7, and never comes out

**The meta query** of the paper is the times at which windows end, of all queries together: here two heaps,
one by position and one by time. Points are added to the structure only up to the next window that is due, so
a window never holds a point newer than its end.

    points              0 1 2 3 4 5 6 7 8 9
    q1 ROWS 4 STEP 3          |     |     |     add 0..3, q1 is due; add 4 and 5, q2 is due;
    q2 ROWS 6 STEP 6              |             add 6, q1 is due; ...

A group may be split over zones (`group_part`). All of these see all points and the same windows, but each
adds only what is in its area or near it, and reports what it knows of a window to the group's home. There
windows wait for the next batch, which brings the reports of all parts; rows come from these as they do in a
group that is not split.

In the state of a zone, all else follows from these chunks:

    g/<group>/queries           for each query how far it has got; and the next position
    g/<group>/points/<n>        points that a window can still hold, 4096 positions per chunk
    g/<group>/members/<query>   the members of the last window of a query with EMIT CHANGES
    g/<group>/area              where the group is split: the table of splits
    g/<group>/unmerged          there, at home: windows that wait for the reports of parts
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.items import floats_of, times_of
from anabranch.chain.packets import Packet
from anabranch.chain.state import Arrays, State
from anabranch.families.clusters.changes import WindowMembers, compare
from anabranch.families.clusters.cluster_rows import ClusterRows, WindowEdges
from anabranch.families.clusters.group_part import GroupArea, GroupPart, merge_reports
from anabranch.families.clusters.kernels.point_roles import summarise
from anabranch.families.clusters.spec import Clusters, Emit, exact_spec
from anabranch.families.clusters.structure import (
    ClusterStructure,
    Labeller,
    Pattern,
    WindowClusters,
    distinct_windows,
)
from anabranch.model.arrays import Array, Floats, Ints, Ints32
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.model.window import AtEnd
from anabranch.numeric.globe import chord_of, places_on_globe
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import TRUE

PER_CHUNK = 4096
_ID, _TIME, _AXIS, _PLACE = "id", "time", "axis", "place"
#: No point has as many neighbours: positions in a structure go up to 2^26.
_MOST_COUNT = 1 << 26

#: The index of the next window while the first one is not known, because the stream has no item yet.
UNKNOWN = -1

#: After so many points it is computed again which of them are still needed.
_LOOK_AGAIN = 512

#: Work, as measured: so many windows that are due cost as much as one, so many of their points as much as one
#: that is added, and merging is cheaper by this factor.
_AS_ONE, _LOOKS, _MERGES = 16, 32, 3

WindowEnd = tuple[Time, int, int]  # the end of a window, the number of its query, the index of the window


# points


class PointStore:
    """Positions first..stop of a group. Columns: id, time (if the stream has one), axis 0, axis 1, ...; on a
    globe also place 0, place 1, place 2.
    """

    def __init__(self, stream: Stream, spec: Clusters) -> None:
        self.stream, self.by, self.condition = stream, spec.by, spec.condition
        self.on_globe = spec.is_on_globe(stream)
        self.axes = ("x", "y", "z") if self.on_globe else spec.by  # of places
        self.first = 0
        self.stop = 0  # the position of the next point
        self._saved = 0  # positions before this are in the state
        self._rows: list[pa.RecordBatch] = []
        self._times: Array | None = None
        self._places: Floats | None = None

    def add(self, items: pa.RecordBatch) -> int:
        """Adds the items that pass the condition and have all coordinates; returns how many."""
        mask = np.ones(items.num_rows, bool) if self.condition == TRUE else evaluate(self.condition, items)
        axes = [floats_of(items, name) for name in self.by]
        places = self._on_globe(axes) if self.on_globe else axes
        for axis in places:
            mask = mask & ~np.isnan(axis)
        added = int(np.count_nonzero(mask))
        if added:
            columns = {_ID: items.column(self.stream.id or NUMBER).filter(pa.array(mask))}
            if self.stream.time is not None:
                columns[_TIME] = pa.array(times_of(items, self.stream)[mask])
            for number, axis in enumerate(axes):
                columns[f"{_AXIS} {number}"] = pa.array(axis[mask])
            for number, axis in enumerate(places if self.on_globe else ()):
                columns[f"{_PLACE} {number}"] = pa.array(axis[mask])
            self._rows.append(pa.record_batch(columns))
            self._times = self._places = None
            self.stop += added
        return added

    def _on_globe(self, axes: Sequence[Floats]) -> list[Floats]:
        longitudes, latitudes = (axes[self.by.index(name)] for name in self.stream.position)
        return [*places_on_globe(longitudes, latitudes).T]

    def drop_before(self, position: int) -> None:
        position = min(position, self.stop)
        if position > self.first:
            self._rows = [self._joined().slice(position - self.first)] if position < self.stop else []
            self.first = position
            self._times = self._places = None

    def position_at(self, time: Time) -> int:
        """The position of the first point at or after a time; that of the next point, if there is none."""
        return self.first + int(np.searchsorted(self.times, time))

    @property
    def times(self) -> Array:
        if self._times is None:
            self._times = self._column(_TIME).to_numpy() if self._rows else np.empty(0, np.int64)
        return self._times

    @property
    def ids(self) -> pa.Array:
        return self._column(_ID)

    def ids_at(self, positions: Ints) -> pa.Array:
        return self.ids.take(pa.array(positions - self.first))

    def places(self, low: int, high: int) -> Floats:
        """[high - low, axes] of the points at positions low..high"""
        if self._places is None:
            self._places = self._stacked(_PLACE if self.on_globe else _AXIS, len(self.axes))
        return self._places[low - self.first : high - self.first]

    def coordinates(self, low: int, high: int) -> Floats:
        """[high - low, columns of BY] of the points at positions low..high"""
        if not self.on_globe:
            return self.places(low, high)
        return self._stacked(_AXIS, len(self.by))[low - self.first : high - self.first]

    def _stacked(self, name: str, count: int) -> Floats:
        return np.column_stack([self._column(f"{name} {number}").to_numpy() for number in range(count)])

    def _column(self, name: str) -> pa.Array:
        return self._joined().column(name)

    def _joined(self) -> pa.RecordBatch:
        if len(self._rows) > 1:
            self._rows = [pa.concat_batches(self._rows)]
        return self._rows[0]

    # the state

    def rows(self) -> pa.RecordBatch | None:
        """All points, for another zone; None if there are none."""
        return self._joined() if self._rows else None

    def restore(self, rows: pa.RecordBatch | None, stop: int) -> None:
        """Takes the points that another zone had; `stop` is the position of the next one."""
        self._rows = [] if rows is None else [rows]
        self.stop, self.first = stop, stop - (rows.num_rows if rows is not None else 0)
        self._saved = self.first

    def save_all_again(self) -> None:
        """For a group that gets another key: nothing is in the state under that key."""
        self._saved = self.first

    def save(self, state: State, prefix: str) -> None:
        """Puts the chunks that have new points and drops those that no window needs."""
        least = self.first // PER_CHUNK
        for key in state.keys(prefix):
            if int(key.removeprefix(prefix)) < least or self.first == self.stop:
                state.drop(key)
        if self.first == self.stop:
            self._saved = self.stop
            return
        rows = self._joined()
        for chunk in range(max(least, self._saved // PER_CHUNK), -(-self.stop // PER_CHUNK)):
            low = max(self.first, chunk * PER_CHUNK)
            high = min(self.stop, (chunk + 1) * PER_CHUNK)
            if high > self._saved:
                state.put(f"{prefix}{chunk:012d}", rows.slice(low - self.first, high - low))
        self._saved = self.stop

    def load(self, state: State, prefix: str, stop: int) -> None:
        """Reads the points from the state; `stop` is the position of the next one."""
        self._rows = [rows for key in state.keys(prefix) if (rows := state.rows(key)) is not None]
        self.stop = self._saved = stop
        self.first = stop - sum(rows.num_rows for rows in self._rows)


# queries and their windows


@dataclass
class GroupQuery:
    """A query of a group and how far it has got."""

    number: int
    name: str
    spec: Clusters  # with its window in the numbers of its axis
    activate: Time | None
    first_position: int  # of the first point that it sees
    window_index: int = UNKNOWN  # of its next window
    next_cluster: int = 1  # the number of its next new cluster, for EMIT CHANGES

    def __post_init__(self) -> None:
        if self.spec.window.by_rows or self.activate is None:
            self.window_index = max(self.window_index, 0)

    @property
    def progress(self) -> list[int]:
        return [self.number, self.first_position, self.window_index, self.next_cluster]

    def set_origin(self, origin: Time) -> None:
        """Finds the first window after the query's activation, once the stream's first item is known."""
        if self.window_index == UNKNOWN:
            assert self.activate is not None
            self.window_index = 0
            if self.activate >= origin:
                self.window_index = _first_above(self.activate, origin, self.spec.window.step)

    def edges(self, origin: Time | None) -> tuple[Time, Time]:
        """(start, end) of the next window: times, or rows from 0 at activation."""
        window = self.spec.window
        if window.by_rows:
            start = self.window_index * window.step
        else:
            assert origin is not None
            start = origin + self.window_index * window.step
        return start, start + window.size

    def skip_to(self, time: Time, origin: Time) -> None:
        """Goes on to the first window that ends after `time`; for windows that are known to hold nothing."""
        window = self.spec.window
        index = _first_above(time - window.size, origin, window.step)
        # the end of a window is (origin + index * step) + size: this corrects the rounding above
        while index > self.window_index and _end(origin, index - 1, window.step, window.size) > time:
            index -= 1
        while _end(origin, index, window.step, window.size) <= time:
            index += 1
        self.window_index = max(self.window_index, index)

    def windows_at_end(self, stop: int) -> int | None:
        """How many windows that are not full come out when the stream ends before the point at position
        `stop`; None: all that hold an item. Where a window of rows ended there, nothing remains to gather.
        """
        window = self.spec.window
        ended = self.first_position + (self.window_index - 1) * int(window.step) + int(window.size)
        if window.end is AtEnd.GATHER and window.by_rows and self.window_index and ended == stop:
            return 0
        return {AtEnd.CUT: 0, AtEnd.GATHER: 1, AtEnd.RUN: None}[window.end]


def with_progress(
    stream: Stream, queries: Sequence[control.Query], progress: Sequence[Sequence[int]]
) -> list[GroupQuery]:
    """Returns queries as far as they have got (`GroupQuery.progress`), in the order of `queries`."""
    of = {number: rest for number, *rest in progress}
    return [
        GroupQuery(
            query.number, query.name, exact_spec(stream, query.spec), query.activate, *of[query.number]
        )
        for query in queries
    ]


def _end(origin: Time, index: int, step: Time, size: Time) -> Time:
    return (origin + index * step) + size


def _first_above(time: Time, origin: Time, step: Time) -> int:
    """The least index >= 0 with origin + index * step > time."""
    index = max(0, int((time - origin) // step))
    while index > 0 and origin + (index - 1) * step > time:
        index -= 1
    while origin + index * step <= time:
        index += 1
    return index


# the group


class CompleteWindow(NamedTuple):
    query: GroupQuery
    start: Time
    end: Time
    first: int  # position of the first point


@dataclass(frozen=True)
class UnmergedWindows:
    """Windows that end before the point at position `stop` and wait for the reports of the parts."""

    windows: list[CompleteWindow]
    stop: int


class ClusterGroup:
    """`area` is what this zone has of the group; None: all of it."""

    def __init__(
        self, stream: Stream, points: PointStore, origin: Time | None, area: GroupArea | None = None
    ) -> None:
        self.stream, self.points, self.area = stream, points, area
        self.origin: Time | None = None
        self.queries: dict[int, GroupQuery] = {}
        self.members: dict[int, WindowMembers] = {}  # of the last window, by query with EMIT CHANGES
        self.unsaved: set[int] = set()  # queries whose members are not as they are in the state
        self.structure = self._new_structure(points.stop)
        self.reports: list[Arrays] = []  # of this part, on windows that were due since the last one was sent
        self.unmerged: list[UnmergedWindows] = []  # at home: the same windows
        self.work = 0  # counted in points that were added
        self.added = points.stop  # the position of the first point that is not in the structure
        self.rows = ClusterRows(stream)
        self._by_rows: list[WindowEnd] = []
        self._by_time: list[WindowEnd] = []
        self._look_again = 0
        self._has_patterns = False  # whether the structure has the patterns of the queries of now
        self.set_origin(origin)

    def set_origin(self, origin: Time | None) -> None:
        """Sets the time of the stream's first item, once it is known: then windows in time have edges."""
        if self.origin is None and origin is not None:
            self.origin = origin
            for query in self.queries.values():
                if not query.spec.window.by_rows:
                    self._schedule(query)

    # queries come and go

    def add_query(self, query: GroupQuery) -> None:
        """Adds a query that sees the points from the next one on."""
        if self.structure.stop > self.points.stop:  # so far, no query needed the next points
            self.structure = self._new_structure(self.points.stop)
        self.queries[query.number] = query
        self._schedule(query)
        self._has_patterns = False

    def remove_query(self, number: int, cancel: Time | None) -> None:
        """Removes a query; its windows that are complete at the time `cancel` still come out."""
        query = self.queries[number]
        windows: list[CompleteWindow] = []
        while cancel is not None and not query.spec.window.by_rows and self.origin is not None:
            if query.edges(self.origin)[1] > cancel:
                break
            windows += self._advance(query, self.points.stop, cancel)
        self._find_clusters(windows)
        del self.queries[number]
        if not self.unmerged:
            self._drop_members()
        self._has_patterns = False

    def close(self) -> None:
        """For a group without queries whose windows wait, or whose reports others wait for. It goes on under
        another key, so all of it is saved again.
        """
        self.points.save_all_again()
        self.unsaved = set(self.members)

    def restore(self, queries: list[GroupQuery], members: dict[int, WindowMembers]) -> None:
        """Builds what is not stored, the structure and the meta query, from points and queries."""
        self.members = members
        for query in queries:
            self.queries[query.number] = query
            self._schedule(query)
        self._build()

    def set_area(self, area: GroupArea) -> None:
        """This zone has another area of the group from the next point on."""
        self.area = area
        self._build()

    def _build(self) -> None:
        """Builds the structure from the points that a window can still hold."""
        self.added = min(self.needed(), self.points.stop)
        self.structure = self._new_structure(self.added)
        self._has_patterns, self._look_again = False, 0
        if self.queries:
            self._add_points(self.points.stop)

    def _new_structure(self, position: int) -> ClusterStructure | GroupPart:
        """Returns one without points; the next one will be that at `position`."""
        axes = len(self.points.axes)
        if self.area is None:
            return ClusterStructure(axes, position)
        return GroupPart(axes, position, self.area)

    def needed(self) -> int:
        """The position of the first point that a window can still hold."""
        queries = [q for q in self.queries.values() if q.spec.window.by_rows or self.origin is not None]
        starts = [self._position(query, query.edges(self.origin)[0]) for query in queries]
        return min(starts, default=self.points.stop)

    def _schedule(self, query: GroupQuery) -> None:
        """Adds the end of the next window of a query to the meta query."""
        if query.spec.window.by_rows:
            end = query.first_position + query.edges(None)[1]
            heapq.heappush(self._by_rows, (end, query.number, query.window_index))
        elif self.origin is not None:
            query.set_origin(self.origin)
            end = query.edges(self.origin)[1]
            heapq.heappush(self._by_time, (end, query.number, query.window_index))

    # items and time

    def add_items(self, items: pa.RecordBatch) -> None:
        """Adds items in stream order and finds the clusters of every window that is complete on the way."""
        if not self.points.add(items):
            return
        while (due := self._next_due()) is not None:
            self._add_points(due)
            time = (
                self.points.times[due - self.points.first].item()
                if due < self.points.stop and self._by_time
                else None
            )
            self._find_clusters(self._complete(due, time))
        self._add_points(self.points.stop)

    def reach_time(self, last: Time) -> None:
        """All items up to the time `last` are here, and one of them has that time."""
        self._find_clusters(self._complete(self.points.stop, last))

    def end_stream(self) -> None:
        """Windows that are not full come out as each query says."""
        windows: list[CompleteWindow] = []
        for query in self.queries.values() if self.points.stop else ():
            left = query.windows_at_end(self.points.stop)
            while left is None or left > 0:
                start, end = query.edges(self.origin)
                position = self._position(query, start)
                if position >= self.points.stop:
                    break
                windows.append(CompleteWindow(query, start, end, position))
                query.window_index += 1
                left = None if left is None else left - 1
        self._find_clusters(windows)

    def packets(self) -> list[Packet]:
        """Returns the rows since the last call."""
        rows, self.rows = self.rows, ClusterRows(self.stream)
        return rows.packets(self.points.ids_at)

    def _next_due(self) -> int | None:
        """The position up to which points may be added until a window is complete; None if no window is."""
        due = None
        self._drop_obsolete(self._by_rows)
        self._drop_obsolete(self._by_time)
        if self._by_rows and self._by_rows[0][0] <= self.points.stop:
            due = int(self._by_rows[0][0])
        if self._by_time and self._by_time[0][0] <= self.points.times[-1]:
            position = self.points.position_at(self._by_time[0][0])
            due = position if due is None else min(due, position)
        return due

    def _drop_obsolete(self, ends: list[WindowEnd]) -> None:
        """Drops the ends of windows whose queries are gone from the top of a heap."""
        while ends and not self._is_next(ends[0]):
            heapq.heappop(ends)

    def _is_next(self, end: WindowEnd) -> bool:
        query = self.queries.get(end[1])
        return query is not None and query.window_index == end[2]

    def _complete(self, position: int, time: Time | None) -> list[CompleteWindow]:
        """The windows that are complete with the points before `position` and at this time."""
        windows: list[CompleteWindow] = []
        for ends, limit in ((self._by_rows, position), (self._by_time, time)):
            while limit is not None and ends and ends[0][0] <= limit:
                end = heapq.heappop(ends)
                if self._is_next(end):
                    query = self.queries[end[1]]
                    windows += self._advance(query, position, time)
                    self._schedule(query)
        return windows

    def _advance(self, query: GroupQuery, position: int, time: Time | None) -> list[CompleteWindow]:
        """Returns the next window of a query, which is complete. If it holds no points, skips all such."""
        start, end = query.edges(self.origin)
        first = self._position(query, start)
        if first < position:
            query.window_index += 1
            return [CompleteWindow(query, start, end, first)]
        assert time is not None
        assert self.origin is not None
        query.skip_to(time, self.origin)
        return []

    def _position(self, query: GroupQuery, start: Time) -> int:
        """The position of the first point of a window."""
        if query.spec.window.by_rows:
            return query.first_position + int(start)
        return self.points.position_at(start)

    def _add_points(self, stop: int) -> None:
        """Adds points before `stop` to the structure, but for those that no window will hold."""
        if not self._has_patterns:
            self.structure.set_patterns(self.pattern(query) for query in self.queries.values())
            self._has_patterns = True
        while self.added < stop:
            if self.added >= self._look_again:
                self._look_again = self.added + _LOOK_AGAIN
                self.structure.drop_before(self.needed())
            until = min(stop, self._look_again)
            low = max(self.added, self.structure.stop)
            if low < until:
                self.work += self.structure.add(self.points.places(low, until))
            self.added = until

    # clusters

    def _find_clusters(self, windows: list[CompleteWindow]) -> None:
        """Finds the clusters of windows that end with the newest point, all at once."""
        if not windows:
            return
        if isinstance(self.structure, GroupPart):
            self._report(self.structure, windows)
            return
        ranges, counts, firsts = self._parameters(windows)
        self._count_work(self.added - int(firsts.min()), len(windows))
        found = self.structure.clusters(ranges, counts, firsts)
        for window, clusters in zip(windows, found, strict=True):
            self._emit(window, clusters)

    def _report(self, part: GroupPart, windows: list[CompleteWindow]) -> None:
        windows = sorted(windows, key=lambda window: (window.query.number, window.start))  # as all parts do
        ranges, counts, firsts = self._parameters(windows)
        order, _ = distinct_windows(ranges, counts, firsts)
        self.reports.append(part.report(ranges[order], counts[order], firsts[order]))
        self._count_work(len(self.reports[-1]["point"]), len(order))
        if part.area.home == part.area.zone:
            self.unmerged.append(UnmergedWindows(windows, self.added))

    def merge(self, reports: Sequence[Sequence[Arrays]]) -> None:
        """Finds the clusters of the windows that wait, from the reports of each part on them."""
        labeller = Labeller()
        for unmerged, each_part in zip(self.unmerged, zip(*reports, strict=True), strict=True):
            ranges, counts, firsts = self._parameters(unmerged.windows)
            order, which = distinct_windows(ranges, counts, firsts)
            base = int(firsts.min())
            points = self.points.places(base, unmerged.stop)
            merged = merge_reports(each_part, ranges[order], counts[order], firsts[order], points)
            found = labeller.label(merged, unmerged.stop - base, base)
            for window, kind in zip(unmerged.windows, which.tolist(), strict=True):
                self._emit(window, found[kind])
            self._count_work(len(points) // _MERGES, len(order))
        self.unmerged = []
        self._drop_members()

    def pattern(self, query: GroupQuery) -> Pattern:
        """(range, count) as the structure has them: on a globe the range is a chord, and no count is greater
        than that of all neighbours there can be.
        """
        reach = query.spec.range
        if self.points.on_globe:
            reach = chord_of(reach, self.stream.unit)
        return reach, min(query.spec.count, _MOST_COUNT)

    def _parameters(self, windows: Sequence[CompleteWindow]) -> tuple[Floats, Ints, Ints]:
        """(ranges, counts, positions of the first points)"""
        patterns = [self.pattern(window.query) for window in windows]
        return (
            np.array([reach for reach, _ in patterns], np.float64),
            np.array([count for _, count in patterns], np.int64),
            np.array([window.first for window in windows], np.int64),
        )

    def _count_work(self, points: int, windows: int) -> None:
        self.work += points * (1 + windows // _AS_ONE) // _LOOKS

    def _emit(self, window: CompleteWindow, clusters: WindowClusters) -> None:
        query, start, end, _ = window
        edges = WindowEdges(query.name, query.spec.window, start, end)
        stop = clusters.start + len(clusters.clusters)
        match query.spec.emit:
            case Emit.MEMBERS:
                self.rows.add_members(edges, clusters)
            case Emit.SUMMARY:
                points = self.points.coordinates(clusters.start, stop)
                if self.points.on_globe:
                    longitude = self.points.by.index(self.stream.position[0])
                    points = _side_by_side(points, clusters.clusters, clusters.count, longitude)
                summary = summarise(points, clusters.clusters, clusters.roles, clusters.count)
                self.rows.add_summary(edges, clusters, summary)
            case Emit.CHANGES:
                ids = self.points.ids.slice(clusters.start - self.points.first, len(clusters.clusters))
                before = self.members.get(query.number)
                changed, members, query.next_cluster = compare(before, clusters, ids, query.next_cluster)
                self.members[query.number] = members
                self.unsaved.add(query.number)
                self.rows.add_changes(edges, changed)

    def _drop_members(self) -> None:
        """Of queries that are gone."""
        for number in self.members.keys() - self.queries.keys():
            del self.members[number]
            self.unsaved.discard(number)

    # the state

    def save(self, state: State, prefix: str) -> None:
        """Puts what has changed since the last call."""
        progress = np.array([query.progress for query in self.queries.values()], np.int64).reshape(-1, 4)
        stop = np.array([self.points.stop], np.int64)
        old = state.get(f"{prefix}queries")
        if old is None or not (np.array_equal(old["progress"], progress) and old["stop"] == stop):
            state.put(f"{prefix}queries", {"progress": progress, "stop": stop})
        waiting = [window.first for unmerged in self.unmerged for window in unmerged.windows]
        self.points.drop_before(min([self.needed(), *waiting]))
        self.points.save(state, f"{prefix}points/")
        self._save_members(state, f"{prefix}members/")
        for name, value in (("area", self.area and self.area.to_json()), ("unmerged", self._unmerged_json())):
            if value is None:
                state.drop(prefix + name)
            else:
                state.put_json(prefix + name, value)

    def _save_members(self, state: State, prefix: str) -> None:
        for key in state.keys(prefix):
            if int(key.removeprefix(prefix)) not in self.members:
                state.drop(key)
        for number in sorted(self.unsaved):
            state.put(f"{prefix}{number}", self.members[number].to_rows())
        self.unsaved.clear()

    def _unmerged_json(self) -> dict[str, Any] | None:
        """The windows that wait, and those of their queries that are gone; None if no window waits."""
        if not self.unmerged:
            return None
        windows = [
            [unmerged.stop, [[query.number, *rest] for query, *rest in unmerged.windows]]
            for unmerged in self.unmerged
        ]
        queries = {query.number: query for unmerged in self.unmerged for query, *_ in unmerged.windows}
        gone = [
            [query.number, query.name, query.spec.to_json(), query.activate, *query.progress[1:]]
            for query in queries.values()
            if query.number not in self.queries
        ]
        return {"windows": windows, "gone": gone}

    @staticmethod
    def load(
        state: State,
        prefix: str,
        stream: Stream,
        queries: Sequence[control.Query],
        zone: int,
        origin: Time | None,
    ) -> ClusterGroup:
        """Builds a group again from what `save` put."""
        saved = state.get(f"{prefix}queries")
        assert saved is not None
        area, unmerged = state.get_json(f"{prefix}area"), state.get_json(f"{prefix}unmerged")
        here = with_progress(stream, queries, saved["progress"].tolist())
        gone = [
            GroupQuery(number, name, exact_spec(stream, spec), *rest)
            for number, name, spec, *rest in (unmerged["gone"] if unmerged else ())
        ]
        spec = (here or gone)[0].spec
        points = PointStore(stream, spec)
        points.load(state, f"{prefix}points/", int(saved["stop"][0]))
        group = ClusterGroup(stream, points, origin, GroupArea.from_json(area, zone) if area else None)
        members = {}
        for key in state.keys(f"{prefix}members/"):
            rows = state.rows(key)
            assert rows is not None
            members[int(key.rpartition("/")[2])] = WindowMembers.from_rows(rows)
        group.restore(here, members)
        if unmerged:
            of = {query.number: query for query in (*here, *gone)}
            group.unmerged = [
                UnmergedWindows([CompleteWindow(of[number], *rest) for number, *rest in windows], stop)
                for stop, windows in unmerged["windows"]
            ]
        return group


def _side_by_side(coordinates: Floats, clusters: Ints32, count: int, longitude: int) -> Floats:
    """Coordinates of a window's points with longitudes that differ by at most 180 degrees from that of the
    earliest member of their cluster: a cluster across 180 degrees is narrow, not all around the globe.
    """
    members = np.flatnonzero(clusters)
    of, east = clusters[members] - 1, coordinates[members, longitude]
    first = np.empty(count, np.float64)
    first[of[::-1]] = east[::-1]
    coordinates = coordinates.copy()
    coordinates[members, longitude] = east - 360.0 * np.round((east - first[of]) / 360.0)
    return coordinates
