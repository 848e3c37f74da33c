"""The one structure that answers every (range, count, window) of a group of queries.

In: the points of the group, in order of arrival; what the queries ask for. Out: the clusters of windows that
end with the newest point. Never: stored. It follows from the points and is built anew from them by a worker
that takes a zone over.

Points have positions in the group's sequence of points; the arrays here begin at `offset` and are moved down
when they are full. A point is entered once, whatever the queries (kernels/neighbours); the windows that are
due at the same point are answered together (kernels/cores, forest, roles).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from anabranch.kernels import cores, forest, lists, neighbours, ranks, roles, searchgrid
from anabranch.zones.columns import Array

_LEAST_ROOM = 256
#: Below this range squares of differences can vanish, and cells by range would not tell who is a neighbour.
_LEAST_RANGE = 1e-140

Pattern = tuple[float, int]  # range, count


@dataclass(slots=True)
class Found:
    """The cluster and the role of each point of one window; clusters count from 1 by earliest member."""

    start: int  # position of the window's first point
    clusters: Array  # int32[points], 0 for noise
    roles: Array  # uint8[points]
    count: int


Due = tuple[Pattern, int]  # and the position of the first point of the window


class Structure:
    def __init__(self, axes: int, offset: int = 0) -> None:
        self.axes, self.offset = axes, offset
        self.count = 0  # points in the arrays
        self.first = 0  # the first of them that a window can still hold
        self.points: Array = np.empty((_LEAST_ROOM, axes), np.float64)
        self.lists = lists.new_lists(_LEAST_ROOM, _LEAST_ROOM)
        self.grid = searchgrid.new_grid(_LEAST_ROOM)
        self.asked = ranks.new_asked([(0.0, 0)])
        self._side = searchgrid.cell_side(0.0)
        self._farthest = 0.0  # the greatest coordinate so far, without its sign
        self._levels: dict[float, int | None] = {}  # of the ranges that are asked for

    @property
    def stop(self) -> int:
        """The position of the next point."""
        return self.offset + self.count

    @property
    def nbytes(self) -> int:
        """What is kept to know clusters: neighbours, but neither coordinates nor the search grid."""
        return sum(array.nbytes for array in self.lists)

    @property
    def _rings(self) -> int:
        """How many rings of search cells around a point can hold its neighbours."""
        return 1 if self._farthest / self._side < searchgrid.FARTHEST_EXACT_CELL else 2

    def ask(self, patterns: Iterable[Pattern]) -> None:
        """From the next point on, neighbours are kept as far as these (range, count) need them.

        Pairs of earlier points stay as they are: a query sees only points that arrive after its activation.
        """
        before, self.asked = self.asked, ranks.new_asked(sorted(set(patterns)))
        self._levels = {reach: self._level(reach) for reach in self.asked.ranges.tolist()}
        if not np.array_equal(before.ranges, self.asked.ranges):
            lists.recast(self.lists, self.points, self.count, before.ranges, self.asked)
        side = searchgrid.cell_side(float(self.asked.ranges[-1]))
        if side != self._side:
            self._side = side
            self._fill_grid()

    def append(self, points: Array) -> None:
        """Enters points float64[n, axes] as the newest."""
        if self.count + len(points) > len(self.points):
            self._make_room(len(points))
        start, stop = self.count, self.count + len(points)
        self.points[start:stop] = points
        sizes = np.abs(points[np.isfinite(points)])
        farthest = float(sizes.max(initial=0.0))
        if farthest > self._farthest:
            self._farthest = farthest
            self._levels = {reach: self._level(reach) for reach in self._levels}
        while True:
            start = neighbours.enter(
                self.points, start, stop, self.first, self.grid, self._side, self._rings,
                self.lists, self.asked,
            )  # fmt: skip
            if start == stop and not self.lists.used[1]:
                break
            self._renew_lists(start, len(self.points), 0)
        self.count = stop

    def forget(self, position: int) -> None:
        """No window will hold a point before `position` any more."""
        self.first = max(self.first, min(position - self.offset, self.count))
        if self.first == self.count and position > self.stop:
            self._make_room(0)
            self.offset = position

    def clusters(self, windows: Iterable[Due]) -> dict[Due, Found]:
        """The clusters of windows that end with the newest point, each given by its pattern and its start."""
        levels: dict[int | None, list[Due]] = defaultdict(list)
        for window in dict.fromkeys(windows):
            levels[self._levels[window[0][0]]].append(window)
        words = [
            (level, due[low : low + cores.BITS])
            for level, due in levels.items()
            for low in range(0, len(due), cores.BITS)
        ]
        flat = [window for _, due in words for window in due]
        starts = np.array([start for _, start in flat], np.int64)
        due = cores.new_due(
            np.searchsorted(self.asked.ranges, [pattern[0] for pattern, _ in flat]),
            np.array([pattern[1] for pattern, _ in flat], np.int32),
            starts - self.offset,
            [len(due) for _, due in words],
            len(self.asked.ranges),
        )
        masks = np.empty((self.count, len(words)), np.int64)
        ordered = lists.in_order(self.lists, int(due.starts[0]), self.count)
        cores.core_masks(ordered, self.lists.bound, due, self.count, masks)
        woods = self._woods([level for level, _ in words], masks, due)
        edges = roles.edges_in(ordered, self.points, masks, due, self.count)
        ends = np.cumsum(self.stop - starts)
        at = ends - (self.stop - starts)
        clusters, kinds = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.uint8)
        counts = np.empty(len(flat), np.int32)
        roles.roles_in(masks, woods, edges, due, self.count, at, clusters, kinds, counts)
        return {
            window: Found(window[1], clusters[low:high], kinds[low:high], count)
            for window, low, high, count in zip(
                flat, at.tolist(), ends.tolist(), counts.tolist(), strict=True
            )
        }

    def _woods(self, levels: list[int | None], masks: Array, due: cores.Due) -> roles.Woods:
        """The trees of the windows of every word."""
        start, stop, sizes = int(due.starts[0]), self.count, np.diff(due.after)
        cell_of = np.empty((len(levels), stop), np.int32)
        leaders = []
        for word, level in enumerate(levels):
            mask, reach = masks[:, word].copy(), due.reach[:, word].copy()
            if level is None:
                trees = forest.grow_points(
                    self.points, mask, start, stop, self.grid, self._side, self._rings, int(sizes[word]),
                    self.asked, reach,
                )  # fmt: skip
            else:
                side = forest.side_of(level, self.axes)
                trees = forest.grow(self.points, mask, start, stop, side, int(sizes[word]), self.asked, reach)
            cell_of[word] = trees.cell_of
            leaders.append(trees.leader)
        cells = np.array([leader.shape[1] for leader in leaders], np.int64)
        each = np.repeat(cells, sizes)
        leader = np.concatenate([leader.ravel() for leader in leaders])
        return roles.Woods(cell_of, np.concatenate([[0], np.cumsum(cells)]), leader, np.cumsum(each) - each)

    def summary(self, found: Found) -> tuple[Array, Array, Array, Array, Array]:
        """(cores, edges, centre, low, high) of each cluster."""
        return roles.summarise(
            self.points, found.start - self.offset, found.clusters, found.roles, found.count
        )

    def _level(self, reach: float) -> int | None:
        """The level of cells for a range; None where cells do not help and points are taken one by one."""
        if self.axes > forest.MOST_AXES or reach < _LEAST_RANGE:
            return None
        level = forest.level_of(reach, self.axes)
        exact = self._farthest / forest.side_of(level, self.axes) < searchgrid.FARTHEST_EXACT_CELL
        return level if exact else None

    def _make_room(self, more: int) -> None:
        """Moves the points that are still needed to the front of arrays with room for half as many again."""
        first, live = self.first, self.count - self.first
        room = max(_LEAST_ROOM, 3 * (live + more) // 2)
        points = self.points
        if not room <= len(points) < 4 * room:
            points = np.empty((room, self.axes), np.float64)
        points[:live] = self.points[first : self.count]
        self.points = points
        self._renew_lists(self.count, len(points), first)
        self.offset += first
        self.first, self.count = 0, live
        self._fill_grid()

    def _renew_lists(self, count: int, room: int, shift: int) -> None:
        """Copies the lists of the points before `count` that are still needed into a pool with free room."""
        entries = lists.entries_of(self.lists, self.first, count)
        renewed = lists.new_lists(room, entries + max(entries // 4, 16 * _LEAST_ROOM))
        lists.carry_over(self.lists, renewed, shift, self.first, count)
        self.lists = renewed

    def _fill_grid(self) -> None:
        self.grid = searchgrid.new_grid(len(self.points))
        searchgrid.fill_grid(self.grid, self.points, self.count, self._side)
