"""A group of queries that share the same coordinates of the same items, whatever else they ask.

In: items, queries that begin and end, the progress of time. Out: the rows of windows that became complete.
Never: a window that holds a point newer than its end; points enter the structure only up to the next window
that is due.

A group may be split over zones (`areas`). All of these see all points and the same windows, but each enters
only what is in its area or near it (`part`), and what it knows of a window goes to the group's home. There
windows wait for the next batch, which brings what all parts know (`merge`); rows come from it as they do in a
group that is not split.

The meta query is the union of all queries' output times: two heaps, one of the positions and one of the times
at which windows end.

    points              0 1 2 3 4 5 6 7 8 9
    q1 ROWS 4 STEP 3          |     |     |     enter 0..3, answer q1; enter 4 and 5, answer q2;
    q2 ROWS 6 STEP 6              |             enter 6, answer q1; ...
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.families.clusters.answers import Answers
from anabranch.families.clusters.areas import Area
from anabranch.families.clusters.changes import Past, compare
from anabranch.families.clusters.found import Found, Labels, distinct
from anabranch.families.clusters.merge import merged
from anabranch.families.clusters.part import Part
from anabranch.families.clusters.points import Points
from anabranch.families.clusters.spec import Emit
from anabranch.families.clusters.structure import Pattern, Structure
from anabranch.families.clusters.window import Standing
from anabranch.kernels.roles import summarise
from anabranch.model.stream import Stream, Time
from anabranch.zones.columns import Array
from anabranch.zones.packets import Packet
from anabranch.zones.state import Arrays

#: How many points may enter before it is worked out again which of them are still needed.
_LOOK_AGAIN = 512

#: Work, as measured: so many windows that are due are looked at as one, so many of their points are as much
#: work as one that enters, and merging is less by this factor.
_AS_ONE, _LOOKS, _MERGES = 16, 32, 3

Ending = tuple[Time, int, int]  # the end of a window, the number of its query, the index of the window
Window = tuple[Standing, Time, Time, int]  # query, start, end, position of the first point


@dataclass(frozen=True)
class Moment:
    """Windows that end before the point at position `stop` and wait for what the parts know of them."""

    windows: list[Window]
    stop: int


class Group:
    """`area` is what this zone has of the group; None: all of it."""

    def __init__(self, stream: Stream, points: Points, origin: Time | None, area: Area | None = None) -> None:
        self.stream, self.points, self.area = stream, points, area
        self.origin: Time | None = None
        self.queries: dict[int, Standing] = {}
        self.past: dict[int, Past] = {}
        self.changed: set[int] = set()  # queries whose past is not as it is stored
        self.structure = self._new_structure(points.stop)
        self.known: list[Arrays] = []  # what this part knows of windows that were due since it was sent
        self.waiting: list[Moment] = []  # at home: the same windows
        self.work = 0  # what there was to do, counted in points that entered
        self.entered = points.stop  # the position of the first point that is not in the structure
        self.answers = Answers(stream)
        self._by_rows: list[Ending] = []
        self._by_time: list[Ending] = []
        self._look_again = 0
        self._asked = False  # whether the structure knows what the queries of now ask for
        self.learn(origin)

    def learn(self, origin: Time | None) -> None:
        """The time of the stream's first item, once it is known: windows in time have their edges then."""
        if self.origin is None and origin is not None:
            self.origin = origin
            for query in self.queries.values():
                if not query.spec.window.by_rows:
                    self._plan(query)

    # queries come and go

    def begin(self, query: Standing) -> None:
        """A query begins; it sees the points from its `base` on, which is the next one."""
        if self.structure.stop > self.points.stop:  # nobody needed the next points, so far
            self.structure = self._new_structure(self.points.stop)
        self.queries[query.number] = query
        self._plan(query)
        self._asked = False

    def cease(self, number: int, until: Time | None) -> None:
        """A query ends; its windows that are complete at `until` still come out."""
        query = self.queries[number]
        windows: list[Window] = []
        while until is not None and not query.spec.window.by_rows and self.origin is not None:
            if query.edges(self.origin)[1] > until:
                break
            windows += self._advance(query, self.points.stop, until)
        self._answer(windows)
        del self.queries[number]
        if not self.waiting:
            self._forget_past()
        self._asked = False

    def close(self) -> None:
        """The last query has ended while windows wait, or while others wait for what is known here. It is
        kept under another name, so all of it is stored anew.
        """
        self.points.forget_stored()
        self.changed = set(self.past)

    def restore(self, queries: list[Standing], past: dict[int, Past]) -> None:
        """Builds what is not stored, the structure and the meta query, from points and queries."""
        self.past = past
        for query in queries:
            self.queries[query.number] = query
            self._plan(query)
        self._build()

    def settle(self, area: Area) -> None:
        """This zone has another area of the group from the next point on."""
        self.area = area
        self._build()

    def _build(self) -> None:
        """The structure, from the points that a window can still hold."""
        self.entered = min(self.needed(), self.points.stop)
        self.structure = self._new_structure(self.entered)
        self._asked, self._look_again = False, 0
        if self.queries:
            self._enter(self.points.stop)

    def _new_structure(self, position: int) -> Structure | Part:
        """Without points; the next one will be that at `position`."""
        axes = len(self.points.by)
        return Structure(axes, position) if self.area is None else Part(axes, position, self.area)

    @property
    def kept(self) -> int:
        """The position of the first point that is still to be looked at."""
        return min([self.needed(), *(first for moment in self.waiting for *_, first in moment.windows)])

    def needed(self) -> int:
        """The position of the first point that a window can still hold."""
        begun = [q for q in self.queries.values() if q.spec.window.by_rows or self.origin is not None]
        starts = [self._position(query, query.edges(self.origin)[0]) for query in begun]
        return min(starts, default=self.points.stop)

    def _plan(self, query: Standing) -> None:
        """Notes when the next window of a query ends."""
        if query.spec.window.by_rows:
            heapq.heappush(self._by_rows, (query.base + query.edges(None)[1], query.number, query.index))
        elif self.origin is not None:
            query.begin(self.origin)
            heapq.heappush(self._by_time, (query.edges(self.origin)[1], query.number, query.index))

    # items and time

    def feed(self, items: pa.RecordBatch) -> None:
        """Takes items in stream order and answers every window that becomes complete on the way."""
        if not self.points.take(items):
            return
        while (due := self._next_due()) is not None:
            self._enter(due)
            time = (
                self.points.times[due - self.points.begin].item()
                if due < self.points.stop and self._by_time
                else None
            )
            self._answer(self._complete(due, time))
        self._enter(self.points.stop)

    def reach(self, last: Time) -> None:
        """All items up to the time `last` are here, and one of them has that time."""
        self._answer(self._complete(self.points.stop, last))

    def finish(self) -> None:
        """The stream has ended: windows that are not full come out as each query says."""
        windows: list[Window] = []
        for query in self.queries.values() if self.points.stop else ():
            left = query.last_windows(self.points.stop)
            while left is None or left > 0:
                start, end = query.edges(self.origin)
                position = self._position(query, start)
                if position >= self.points.stop:
                    break
                windows.append((query, start, end, position))
                query.index += 1
                left = None if left is None else left - 1
        self._answer(windows)

    def packets(self) -> list[Packet]:
        """The rows that came together since the last call."""
        answers, self.answers = self.answers, Answers(self.stream)
        return answers.packets(self.points)

    def _next_due(self) -> int | None:
        """The position up to which points may enter until a window is complete; None if no window is."""
        due = None
        self._clean(self._by_rows)
        self._clean(self._by_time)
        if self._by_rows and self._by_rows[0][0] <= self.points.stop:
            due = int(self._by_rows[0][0])
        if self._by_time and self._by_time[0][0] <= self.points.times[-1]:
            position = self.points.at(self._by_time[0][0])
            due = position if due is None else min(due, position)
        return due

    def _clean(self, endings: list[Ending]) -> None:
        """Takes away the endings of queries that are gone."""
        while endings and not self._stands(endings[0]):
            heapq.heappop(endings)

    def _stands(self, ending: Ending) -> bool:
        query = self.queries.get(ending[1])
        return query is not None and query.index == ending[2]

    def _complete(self, position: int, time: Time | None) -> list[Window]:
        """The windows that are complete with the points before `position` and at this time."""
        windows: list[Window] = []
        for endings, limit in ((self._by_rows, position), (self._by_time, time)):
            while limit is not None and endings and endings[0][0] <= limit:
                ending = heapq.heappop(endings)
                if self._stands(ending):
                    query = self.queries[ending[1]]
                    windows += self._advance(query, position, time)
                    self._plan(query)
        return windows

    def _advance(self, query: Standing, position: int, time: Time | None) -> list[Window]:
        """The next window of a query, which is complete; if it holds no points, goes on past all such."""
        start, end = query.edges(self.origin)
        first = self._position(query, start)
        if first < position:
            query.index += 1
            return [(query, start, end, first)]
        assert time is not None
        assert self.origin is not None
        query.skip(time, self.origin)
        return []

    def _position(self, query: Standing, start: Time) -> int:
        """The position of the first point of a window."""
        return query.base + int(start) if query.spec.window.by_rows else self.points.at(start)

    def _enter(self, stop: int) -> None:
        """Points before `stop` enter the structure, but for those that no window will hold."""
        if not self._asked:
            self.structure.ask(_pattern(query) for query in self.queries.values())
            self._asked = True
        while self.entered < stop:
            if self.entered >= self._look_again:
                self._look_again = self.entered + _LOOK_AGAIN
                self.structure.forget(self.needed())
            until = min(stop, self._look_again)
            low = max(self.entered, self.structure.stop)
            if low < until:
                self.work += self.structure.append(self.points.coordinates(low, until))
            self.entered = until

    # answers

    def _answer(self, windows: list[Window]) -> None:
        """The clusters of windows that end with the newest point, all at once."""
        if not windows:
            return
        asked = _arrays(windows)
        if isinstance(self.structure, Structure):
            self._look_at(self.entered - int(asked[2].min()), len(windows))
            found = self.structure.clusters(*asked)
            for (query, start, end, _), each in zip(windows, found, strict=True):
                self._emit(query, start, end, each)
            return
        windows = sorted(windows, key=lambda window: (window[0].number, window[1]))  # the same in all parts
        asked = _arrays(windows)
        order, _ = distinct(*asked)
        self.known.append(self.structure.known(*(each[order] for each in asked)))
        self._look_at(len(self.known[-1]["place"]), len(order))
        if self.structure.area.home == self.structure.area.zone:
            self.waiting.append(Moment(windows, self.entered))

    def merge(self, parts: Sequence[Sequence[Arrays]]) -> None:
        """Answers the windows that wait: what each part knows of them, moment by moment."""
        labels = Labels()
        for moment, known in zip(self.waiting, zip(*parts, strict=True), strict=True):
            asked = _arrays(moment.windows)
            order, which = distinct(*asked)
            base = int(asked[2].min())
            points = self.points.coordinates(base, moment.stop)
            ranges, counts, firsts = (each[order] for each in asked)
            grown = merged(known, ranges, counts, firsts, points)
            found = labels.found(grown, moment.stop - base, base)
            for (query, start, end, _), kind in zip(moment.windows, which.tolist(), strict=True):
                self._emit(query, start, end, found[kind])
            self._look_at(len(points) // _MERGES, len(order))
        self.waiting = []
        self._forget_past()

    def _look_at(self, points: int, windows: int) -> None:
        """Counts the work."""
        self.work += points * (1 + windows // _AS_ONE) // _LOOKS

    def _emit(self, query: Standing, start: Time, end: Time, found: Found) -> None:
        window, stop = (query, start, end), found.start + len(found.clusters)
        match query.spec.emit:
            case Emit.MEMBERS:
                self.answers.members(window, found)
            case Emit.SUMMARY:
                points = self.points.coordinates(found.start, stop)
                numbers = summarise(points, 0, found.clusters, found.roles, found.count)
                self.answers.summary(window, found, numbers)
            case Emit.CHANGES:
                ids = self.points.ids.slice(found.start - self.points.begin, len(found.clusters))
                changed, past, fresh = compare(self.past.get(query.number), found, ids, query.fresh)
                self.past[query.number], query.fresh = past, fresh
                self.changed.add(query.number)
                self.answers.changes(window, changed)

    def _forget_past(self) -> None:
        """Of queries that are gone."""
        for number in self.past.keys() - self.queries.keys():
            del self.past[number]
            self.changed.discard(number)


def _arrays(windows: Sequence[Window]) -> tuple[Array, Array, Array]:
    """(ranges, counts, positions of the first points)"""
    return (
        np.array([query.spec.range for query, *_ in windows], np.float64),
        np.array([query.spec.count for query, *_ in windows], np.int64),
        np.array([first for *_, first in windows], np.int64),
    )


def _pattern(query: Standing) -> Pattern:
    return query.spec.range, query.spec.count
