"""The one structure that answers every (range, count, window) of a group of queries.

In: the points of the group, in order of arrival; what the queries ask for. Out: the clusters of windows that
end with the newest point. Never: stored. It follows from the points and is built anew from them by a worker
that takes a zone over.

Points have positions in the group's sequence of points; the arrays here begin at `offset` and are moved down
when they are full. A point is entered once, whatever the queries (kernels/neighbours); the windows that are
due at the same point are answered together (kernels/cores, forest, nearest_core, roles).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from anabranch.families.clusters.found import Found, Grown, Labels, distinct
from anabranch.kernels import (
    cells,
    cores,
    crossings,
    forest,
    lists,
    nearest_core,
    neighbours,
    ranks,
    roles,
    searchgrid,
    wide,
)
from anabranch.zones.columns import Array

_LEAST_ROOM = 256
#: Below this range squares of differences can vanish, and cells by range would not tell who is a neighbour.
_LEAST_RANGE = 1e-140

_NO_LEVEL = -(1 << 62)  # of a range for which points are taken one by one

Pattern = tuple[float, int]  # range, count


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
        self._by_range: Array = np.empty(0, np.int64)  # the level of each range that is asked for
        self._levels: Array = np.empty(0, np.int64)  # the same, as far as coordinates let them be used
        self._cells: dict[int, cells.Cells] = {}  # of levels that were due
        self._labels = Labels()
        self._pairs: Array = np.empty(0, np.int64)  # room for edges, reused

    @property
    def stop(self) -> int:
        """The position of the next point."""
        return self.offset + self.count

    @property
    def nbytes(self) -> int:
        """What is kept to know clusters: neighbours, but neither coordinates nor search grid and cells."""
        return sum(array.nbytes for array in self.lists)

    @property
    def grid_bytes(self) -> int:
        """The search grid and the cells, with room that is not in use."""
        return sum(array.nbytes for kept in (self.grid, *self._cells.values()) for array in kept)

    @property
    def _rings(self) -> int:
        """How many rings of search cells around a point can hold its neighbours."""
        return 1 if self._farthest / self._side < searchgrid.FARTHEST_EXACT_CELL else 2

    def ask(self, patterns: Iterable[Pattern]) -> None:
        """From the next point on, neighbours are kept as far as these (range, count) need them.

        Pairs of earlier points stay as they are: a query sees only points that arrive after its activation.
        """
        before, self.asked = self.asked, ranks.new_asked(sorted(set(patterns)))
        levels = [self._level(reach) for reach in self.asked.ranges.tolist()]
        self._by_range = np.array(levels, np.int64)
        self._use_levels()
        if not np.array_equal(before.ranges, self.asked.ranges):
            lists.recast(self.lists, self.points, self.count, before.ranges, self.asked)
        side = searchgrid.cell_side(float(self.asked.ranges[-1]))
        if side != self._side:
            self._side = side
            self._fill_grid()

    def append(self, points: Array) -> int:
        """Enters points float64[n, axes] as the newest; returns how many."""
        if self.count + len(points) > len(self.points):
            self._make_room(len(points))
        start, stop = self.count, self.count + len(points)
        self.points[start:stop] = points
        sizes = np.abs(points[np.isfinite(points)])
        farthest = float(sizes.max(initial=0.0))
        if farthest > self._farthest:
            self._farthest = farthest
            self._use_levels()
        while True:
            start = neighbours.enter(
                self.points, start, stop, self.first, self.grid, self._side, self._rings,
                self.lists, self.asked,
            )  # fmt: skip
            if start == stop and not self.lists.used[1]:
                break
            self._renew_lists(start, len(self.points), 0)
        self.count = stop
        return len(points)

    def forget(self, position: int) -> None:
        """No window will hold a point before `position` any more."""
        self.first = max(self.first, min(position - self.offset, self.count))
        if self.first == self.count and position > self.stop:
            self._make_room(0)
            self.offset = position

    def clusters(self, ranges: Array, counts: Array, starts: Array) -> list[Found]:
        """The clusters of windows that end with the newest point, each given by its range, its count and the
        position of its first point. Windows that are the same share what was found; it holds until the next
        call.
        """
        order, which = distinct(ranges, counts, starts)
        grown = self.grown(ranges[order], counts[order], starts[order])
        found = self._labels.found(grown, self.count, self.offset)
        return [found[window] for window in which.tolist()]

    def grown(self, ranges: Array, counts: Array, starts: Array) -> Grown:
        """Cores, trees and edges of such windows, which are given by range; points count from `offset`. Edges
        hold until the next call.
        """
        rank = np.searchsorted(self.asked.ranges, ranges)
        due = cores.new_due(rank, counts, starts - self.offset, len(self.asked.ranges))
        masks = wide.rows(self.count, due.counters.shape[1])
        cores.core_masks(self.lists, due, self.count, masks)
        woods = self._woods(self._levels[rank], masks, due)
        edges = nearest_core.room_for(due, self.count, self._pairs)
        self._pairs = edges.pairs
        nearest_core.edges_in(self.lists, self.points, masks, due, self.count, edges)
        return Grown(due, masks, woods, edges)

    def touched(self, borders: Array, grown: Grown) -> crossings.Touched:
        """The trees that the points at these places touch where they are not known to be core."""
        due, masks, woods, _ = grown
        return crossings.touched_by(
            borders, self.points, masks, woods, due, self.grid, self._side, self._rings, self.asked
        )

    def _woods(self, levels: Array, masks: Array, due: cores.Due) -> roles.Woods:
        """The trees of all windows, by as many at a time as are of the same level and go into a word."""
        start, reach = int(due.starts[0]), due.reach.reshape(-1, masks.shape[1])
        ranges = self.asked.ranges[due.rank].tolist()
        runs, trees = list(_runs(levels)), []
        cell_of = np.zeros((len(runs), self.count), np.int32)
        for counts_as, (low, high) in zip(cell_of, runs, strict=True):
            which, level = (masks, low, high - low, start), int(levels[low])
            if level == _NO_LEVEL:
                grown = forest.grow_points(
                    self.points, *which, self.grid, self._side, self._rings, self.asked, reach, counts_as
                )
            else:
                filled, least, most = self._cells_of(level), ranges[low], ranges[high - 1]
                grown = forest.grow(filled, self.points, *which, self.asked, reach, least, most, counts_as)
            trees.append(grown)
        sizes = [high - low for low, high in runs]
        each = np.repeat([grown.leader.shape[1] for grown in trees], sizes)
        return roles.Woods(
            np.repeat(np.arange(len(runs)), sizes),
            cell_of,
            np.concatenate([[0], np.cumsum(each)]),
            np.concatenate([grown.leader.ravel() for grown in trees]),
            np.concatenate([grown.first.ravel() for grown in trees]),
        )

    def _cells_of(self, level: int) -> cells.Cells:
        """The cells of a level with all points in them. When there is no room for more of them, they begin
        anew with room for four times as many as there are now.
        """
        live, side, filled = self.count - self.first, cells.side_of(level, self.axes), self._cells.get(level)
        most = live // 4
        while filled is None or not cells.fill(filled, self.points, self.count, side):
            if filled is not None:
                alive = int((filled.newest[: filled.used[0]] >= self.first).sum())
                most = min(2 * live, 4 * alive + self.count - int(filled.used[1]))
            most = max(_LEAST_ROOM, most)
            self._cells[level] = filled = cells.new_cells(len(self.points), most, self.axes, self.first)
        return filled

    def _level(self, reach: float) -> int:
        """The level of a range; none where cells do not help and points are taken one by one."""
        if self.axes > cells.MOST_AXES or reach < _LEAST_RANGE:
            return _NO_LEVEL
        return cells.level_of(reach, self.axes)

    def _use_levels(self) -> None:
        """Leaves out the levels whose cells would not be exact, as points are too far from zero."""
        levels = set(self._by_range.tolist()) - {_NO_LEVEL}
        limit = searchgrid.FARTHEST_EXACT_CELL
        coarse = [level for level in levels if self._farthest / cells.side_of(level, self.axes) < limit]
        self._levels = np.where(np.isin(self._by_range, coarse), self._by_range, _NO_LEVEL)
        self._cells = {level: kept for level, kept in self._cells.items() if level in coarse}

    def _make_room(self, more: int) -> None:
        """Moves the points that are still needed to the front of arrays with room for half as many again."""
        first, live = self.first, self.count - self.first
        room = max(_LEAST_ROOM, 3 * (live + more) // 2)
        points = self.points
        if not room <= len(points) < 4 * room:
            points = np.empty((room, self.axes), np.float64)
        self._cells = {level: kept for level, kept in self._cells.items() if cells.move(kept, first)}
        if len(points) != len(self.points):
            self._cells = {level: cells.with_room(kept, len(points)) for level, kept in self._cells.items()}
        points[:live] = self.points[first : self.count]
        self.points = points
        self._renew_lists(self.count, len(points), first)
        self.offset += first
        self.first, self.count = 0, live
        self._fill_grid()

    def _renew_lists(self, count: int, room: int, shift: int) -> None:
        """Copies the lists of the points before `count` that are still needed into a pool with free room."""
        entries = lists.entries_of(self.lists, self.first, count)
        renewed = lists.new_lists(room, entries + max(entries // 2, 16 * _LEAST_ROOM))
        lists.carry_over(self.lists, renewed, shift, self.first, count)
        self.lists = renewed

    def _fill_grid(self) -> None:
        self.grid = searchgrid.new_grid(len(self.points))
        searchgrid.fill_grid(self.grid, self.points, self.count, self._side)


def _runs(levels: Array) -> Iterator[tuple[int, int]]:
    """(from, to) of windows that are of the same level, at most as many as go into a word."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(levels)) + 1, [len(levels)]]).tolist()
    for low, high in pairwise(edges):
        for begin in range(low, high, cores.BITS):
            yield begin, min(high, begin + cores.BITS)
