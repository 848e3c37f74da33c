"""The one structure that answers every (range, count, window) of a group of queries.

In: the points of the group, in order of arrival; what the queries ask for. Out: the clusters of windows that
end with the newest point. Never: stored. It follows from the points and is built anew from them by a worker
that takes a zone over.

Points have positions in the group's sequence of points; the arrays here begin at `offset` and are moved down
when half of them have left every window. A point is entered once, whatever the queries (kernels/neighbours);
core times and the forest are made for each (range, count) that has output due and serve all its windows
(kernels/coretimes, forest).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from anabranch.kernels import coretimes, forest, neighbours, roles, searchgrid
from anabranch.zones.columns import Array

_LEAST_ROOM = 256
_LEAST_WIDTH = 56
#: Below this range squares of differences can vanish, and cells by range would not tell who is a neighbour.
_LEAST_RANGE = 1e-140

Pattern = tuple[float, int]  # range, count


@dataclass(frozen=True)
class Found:
    """The cluster and the role of each point of one window; clusters count from 1 by earliest member."""

    start: int  # position of the window's first point
    clusters: Array  # int32[points], 0 for noise
    roles: Array  # uint8[points]
    count: int


class Structure:
    def __init__(self, axes: int, offset: int = 0) -> None:
        self.axes, self.offset = axes, offset
        self.count = 0  # points in the arrays
        self.first = 0  # the first of them that a window can still hold
        self.points: Array = np.empty((_LEAST_ROOM, axes), np.float64)
        self.lists = neighbours.new_lists(_LEAST_ROOM, _LEAST_WIDTH)
        self.grid = searchgrid.new_grid(_LEAST_ROOM)
        self.ranges: Array = np.zeros(1, np.float64)
        self.limits: Array = np.zeros(1, np.int32)
        self._side = searchgrid.cell_side(0.0)
        self._farthest = 0.0  # the greatest coordinate so far, without its sign
        self._levels: dict[int, tuple[forest.Cells, int]] = {}  # level -> cells, how many points are in them

    @property
    def stop(self) -> int:
        """The position of the next point."""
        return self.offset + self.count

    @property
    def nbytes(self) -> int:
        """What is kept to know clusters: neighbours and cells, neither coordinates nor the search grid."""
        cells = (array.nbytes for cells, _ in self._levels.values() for array in cells)
        return sum(array.nbytes for array in self.lists) + sum(cells)

    @property
    def _rings(self) -> int:
        """How many rings of search cells around a point can hold its neighbours."""
        return 1 if self._farthest / self._side < searchgrid.FARTHEST_EXACT_CELL else 2

    def ask(self, patterns: Iterable[Pattern]) -> None:
        """From the next point on, neighbours are kept as far as these (range, count) need them.

        Pairs of earlier points stay as they are: a query sees only points that arrive after its activation.
        """
        asked = sorted(set(patterns), reverse=True)
        steps: list[Pattern] = []  # from the largest range down, those with a larger count than all before
        for reach, count in asked:
            if not steps or count > steps[-1][1]:
                steps.append((reach, count))
        self.ranges = np.array([reach for reach, _ in reversed(steps)], np.float64)
        self.limits = np.array([count for _, count in reversed(steps)], np.int32)
        side = searchgrid.cell_side(asked[0][0])
        if side != self._side:
            self._side = side
            self._fill_grid()
        wanted = {self._level(reach) for reach, _ in asked}
        self._levels = {level: made for level, made in self._levels.items() if level in wanted}

    def append(self, points: Array) -> None:
        """Enters points float64[n, axes] as the newest."""
        if self.count + len(points) > len(self.points):
            self._make_room(len(points))
        start, stop = self.count, self.count + len(points)
        self.points[start:stop] = points
        sizes = np.abs(points[np.isfinite(points)])
        self._farthest = max(self._farthest, float(sizes.max(initial=0.0)))
        while True:
            start = neighbours.enter(
                self.points, start, stop, self.first, self.grid, self._side, self._rings,
                self.lists, self.ranges, self.limits,
            )  # fmt: skip
            if start == stop:
                break
            self._widen_lists(start)
        self.count = stop

    def forget(self, position: int) -> None:
        """No window will hold a point before `position` any more."""
        self.first = max(self.first, min(position - self.offset, self.count))
        if self.first == self.count and position > self.stop:
            self._make_room(0)
            self.offset = position

    def clusters(self, pattern: Pattern, starts: Iterable[int]) -> dict[int, Found]:
        """The clusters of the windows that begin at the positions `starts` and end with the newest point."""
        reach, least = pattern
        begins = sorted({start - self.offset for start in starts}, reverse=True)
        start, stop = begins[-1], self.count
        times = np.empty(stop, np.int32)
        reckon = coretimes.cores if len(begins) == 1 else coretimes.core_times
        reckon(self.lists, reach, least, start, stop, times)
        out = {}
        for begin, cell_of, leader in self._grown(reach, times, begins):
            numbers, kinds = np.empty(stop - begin, np.int32), np.empty(stop - begin, np.uint8)
            count = roles.roles_in(self.lists, times, cell_of, leader, reach, begin, stop, numbers, kinds)
            out[begin + self.offset] = Found(begin + self.offset, numbers, kinds, count)
        return out

    def summary(self, found: Found) -> tuple[Array, Array, Array, Array, Array]:
        """(cores, edges, centre, low, high) of each cluster."""
        return roles.summarise(
            self.points, found.start - self.offset, found.clusters, found.roles, found.count
        )

    def _grown(self, reach: float, times: Array, begins: list[int]) -> Iterator[tuple[int, Array, Array]]:
        """(start, cell of each point, leader of each cell) for window starts, the latest first."""
        level, stop = self._level(reach), self.count
        if level is not None:
            cells = self._cells(level)
            cell_of, trees = cells.cell_of, forest.new_trees(int(cells.used[0]), stop)
        else:
            cell_of, trees = np.arange(stop, dtype=np.int32), forest.new_trees(stop, stop)
        below = stop
        for begin in begins:
            if level is not None:
                forest.grow(trees, cells, self.points, times, begin, below, stop, reach)
            else:
                forest.grow_points(
                    trees, self.grid, self._side, self._rings, self.points, times, begin, below, stop, reach
                )
            yield begin, cell_of, trees.leader
            below = begin

    def _level(self, reach: float) -> int | None:
        """The level of cells for a range; None where cells do not help and points are taken one by one."""
        if self.axes > forest.MOST_AXES or reach < _LEAST_RANGE:
            return None
        level = forest.level_of(reach, self.axes)
        exact = self._farthest / forest.side_of(level, self.axes) < searchgrid.FARTHEST_EXACT_CELL
        return level if exact else None

    def _cells(self, level: int) -> forest.Cells:
        """The cells of a level with all points in them; those since the last time are entered now."""
        cells, entered = self._levels.get(level) or (
            forest.new_cells(_LEAST_ROOM, len(self.points), self.axes),
            0,
        )
        while entered < self.count:
            entered = forest.into_cells(
                cells, self.points, entered, self.count, forest.side_of(level, self.axes)
            )
            if entered < self.count:
                cells, entered = forest.new_cells(2 * len(cells.places), len(self.points), self.axes), 0
        self._levels[level] = (cells, entered)
        return cells

    def _make_room(self, more: int) -> None:
        """Moves the points that are still needed to the front of arrays with room for as many again."""
        live = self.count - self.first
        room = max(_LEAST_ROOM, 2 * (live + more))
        lists, points = self.lists, self.points
        if room <= len(points) < 4 * room:
            room = len(points)
        else:
            lists, points = (
                neighbours.new_lists(room, lists.near.shape[1]),
                np.empty((room, self.axes), np.float64),
            )
        points[:live] = self.points[self.first : self.count]
        neighbours.carry_over(self.lists, lists, self.first, self.count)
        self.lists, self.points = lists, points
        self.offset += self.first
        self.first, self.count = 0, live
        self._levels = {}
        self._fill_grid()

    def _widen_lists(self, count: int) -> None:
        lists = neighbours.new_lists(len(self.points), neighbours.wider(self.lists.near.shape[1]))
        neighbours.carry_over(self.lists, lists, 0, count)
        self.lists = lists

    def _fill_grid(self) -> None:
        self.grid = searchgrid.new_grid(len(self.points))
        searchgrid.fill_grid(self.grid, self.points, self.count, self._side)
