"""The one structure that finds the clusters of every (range, count, window) of a group of queries.

    structure = ClusterStructure(axes=2)
    structure.set_patterns([(0.5, 10), (0.8, 4)])      # (range, count) of the queries
    structure.add(points)                              # in order of arrival
    structure.clusters(ranges, counts, starts)         # of windows that end with the newest point

A point is added once, whatever the queries (kernels/neighbour_lists). The windows that are due at the same
point are computed together: cores, trees of cores and edges (kernels/point_roles, window_forest), then the
labels of points.

Points have positions in the group's sequence of points. The arrays here begin at the position `offset` and
are moved down when they are full. The structure is never stored: it follows from the points, and a worker
that takes a zone over builds it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from anabranch.families.clusters.kernels import neighbour_lists, part_borders, point_roles, window_forest
from anabranch.model.arrays import Array, Bytes, Floats, Ints, Ints32

_LEAST_ROOM = 256
#: Below this range squares of differences can vanish, and cells by range would not tell who is a neighbour.
_LEAST_RANGE = 1e-140

_NO_LEVEL = -(1 << 62)  # of a range for which every point is a cell of its own

Pattern = tuple[float, int]  # range, count


class UnlabelledClusters(NamedTuple):
    """Cores, trees and edges of windows that end with the same point. Points count from the first that the
    arrays hold.
    """

    due: point_roles.DueWindows
    masks: Ints  # [points, words]: the windows in which each point is core
    trees: window_forest.WindowTrees
    edges: point_roles.EdgePoints


@dataclass(slots=True)
class WindowClusters:
    """The cluster and the role of each point of one window; clusters count from 1 by earliest member. Valid
    until the next windows are labelled.
    """

    start: int  # position of the window's first point
    clusters: Ints32  # [points], 0 for noise
    roles: Bytes  # [points]
    count: int


class Labeller:
    """Keeps the arrays of labels for the next call: writing to fresh memory costs more than the labels."""

    def __init__(self) -> None:
        self._clusters: Ints32 = np.empty(0, np.int32)
        self._roles: Bytes = np.empty(0, np.uint8)

    def label(self, unlabelled: UnlabelledClusters, stop: int, offset: int) -> list[WindowClusters]:
        """Labels the points before index `stop` in each window; the point at index 0 has the position
        `offset`.
        """
        due = unlabelled.due
        starts = due.starts[due.start_index].astype(np.int64)
        ends = np.cumsum(stop - starts)
        at = ends - (stop - starts)
        if len(self._clusters) < ends[-1]:
            self._clusters, self._roles = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.uint8)
        labels = point_roles.WindowLabels(at, self._clusters, self._roles, np.empty(len(starts), np.int32))
        point_roles.label_windows(unlabelled.masks, unlabelled.trees, unlabelled.edges, due, stop, labels)
        each = zip(
            (starts + offset).tolist(), at.tolist(), ends.tolist(), labels.counts.tolist(), strict=True
        )
        return [
            WindowClusters(start, labels.clusters[low:high], labels.roles[low:high], count)
            for start, low, high, count in each
        ]


def distinct_windows(ranges: Floats, counts: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Returns the indexes of windows that differ, by range; and for each window the index of its like among
    these.
    """
    order = np.lexsort((starts, counts, ranges))
    sorted_ = [each[order] for each in (ranges, counts, starts)]
    fresh = np.concatenate([[True], np.any([each[1:] != each[:-1] for each in sorted_], axis=0)])
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(fresh) - 1
    return order[fresh], which


class ClusterStructure:
    def __init__(self, axes: int, offset: int = 0) -> None:
        self.axes, self.offset = axes, offset
        self.count = 0  # points in the arrays
        self.first = 0  # the first of them that a window can still hold
        self.points: Floats = np.empty((_LEAST_ROOM, axes), np.float64)
        self.lists = neighbour_lists.new_lists(_LEAST_ROOM, _LEAST_ROOM)
        self.ranges = neighbour_lists.new_query_ranges([(0.0, 0)])
        self.grid = neighbour_lists.new_grid(self.points, neighbour_lists.cell_side(0.0))
        self._farthest = 0.0  # the greatest coordinate so far, without its sign
        self._by_range: Ints = np.empty(0, np.int64)  # the level of each range
        self._levels: Ints = np.empty(0, np.int64)  # the same, as far as coordinates let them be used
        self._cells: dict[int, window_forest.LevelCells] = {}  # of levels that were due
        self._labeller = Labeller()
        self._pairs: Ints = np.empty(0, np.int64)  # room for edges, used again

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
        grid = [array for array in self.grid[1:] if isinstance(array, np.ndarray)]
        return sum(array.nbytes for kept in (grid, *self._cells.values()) for array in kept)

    def set_patterns(self, patterns: Iterable[Pattern]) -> None:
        """From the next point on, neighbours are kept as far as these (range, count) need them.

        Pairs of earlier points stay as they are: a query sees only points that arrive after its activation.
        """
        before, self.ranges = self.ranges, neighbour_lists.new_query_ranges(sorted(set(patterns)))
        levels = [self._level(reach) for reach in self.ranges.values.tolist()]
        self._by_range = np.array(levels, np.int64)
        self._use_levels()
        if not np.array_equal(before.values, self.ranges.values):
            neighbour_lists.rank_again(self.lists, self.points, self.count, before.values, self.ranges)
        side = neighbour_lists.cell_side(float(self.ranges.values[-1]))
        if side != self.grid.side:
            self._build_grid(side)

    def add(self, points: Floats) -> int:
        """Adds points, [n, axes], as the newest; returns how many."""
        if self.count + len(points) > len(self.points):
            self._make_room(len(points))
        start, stop = self.count, self.count + len(points)
        self.points[start:stop] = points
        farthest = float(np.abs(points[np.isfinite(points)]).max(initial=0.0))
        if farthest > self._farthest:
            self._farthest = farthest
            self._use_levels()
            self.grid = self.grid._replace(rings=neighbour_lists.rings_for(farthest, self.grid.side))
        while True:
            start = neighbour_lists.add_points(self.grid, start, stop, self.first, self.lists, self.ranges)
            if start == stop and not self.lists.used[1]:
                break
            self._renew_lists(start, len(self.points), 0)
        self.count = stop
        return len(points)

    def drop_before(self, position: int) -> None:
        """No window will hold a point before `position` any more."""
        self.first = max(self.first, min(position - self.offset, self.count))
        if self.first == self.count and position > self.stop:
            self._make_room(0)
            self.offset = position

    def clusters(self, ranges: Floats, counts: Ints, starts: Ints) -> list[WindowClusters]:
        """The clusters of windows that end with the newest point, each given by its range, its count and the
        position of its first point. Windows that are the same share a result, valid until the next call.
        """
        order, which = distinct_windows(ranges, counts, starts)
        unlabelled = self.unlabelled(ranges[order], counts[order], starts[order])
        labelled = self._labeller.label(unlabelled, self.count, self.offset)
        return [labelled[window] for window in which.tolist()]

    def unlabelled(self, ranges: Floats, counts: Ints, starts: Ints) -> UnlabelledClusters:
        """The same without labels, for windows that differ and are in the order of their ranges; points count
        from `offset`. Edges are valid until the next call.
        """
        rank = np.searchsorted(self.ranges.values, ranges)
        due = point_roles.new_due(rank, counts, starts - self.offset, len(self.ranges.values))
        masks = point_roles.aligned_rows(self.count, due.counters.shape[1])
        point_roles.core_masks(self.lists, due, self.count, masks)
        trees = self._trees(self._levels[rank], masks, due)
        edges = point_roles.room_for_edges(due, self.count, self._pairs)
        self._pairs = edges.pairs
        point_roles.find_edges(self.lists, self.points, masks, due, self.count, edges)
        return UnlabelledClusters(due, masks, trees, edges)

    def touched_trees(self, borders: Ints32, unlabelled: UnlabelledClusters) -> part_borders.TouchedTrees:
        """The trees that the points at these indexes touch where they are not known to be core."""
        due, masks, trees, _ = unlabelled
        return part_borders.find_touched(borders, masks, trees, due, self.grid, self.ranges)

    def _trees(self, levels: Ints, masks: Ints, due: point_roles.DueWindows) -> window_forest.WindowTrees:
        """The trees of all windows, by as many at a time as are of the same level and go into a word."""
        start, reach = int(due.starts[0]), due.reach.reshape(-1, masks.shape[1])
        ranges = self.ranges.values[due.rank].tolist()
        runs, parts = list(_runs(levels)), []
        cell_of = np.zeros((len(runs), self.count), np.int32)
        for counts_as, (low, high) in zip(cell_of, runs, strict=True):
            mask = window_forest.one_word(masks, low, high - low, start)
            within = window_forest.one_word(reach, low, high - low, 0)
            word = window_forest.WindowWord(high - low, start, mask, within, ranges[low], ranges[high - 1])
            level = int(levels[low])
            if level == _NO_LEVEL:
                trees = window_forest.grow_points(self.grid, word, self.ranges, counts_as)
            else:
                cells = self._cells_of(level)
                trees = window_forest.grow_cells(cells, self.points, word, self.ranges, counts_as)
            parts.append(trees)
        sizes = [high - low for low, high in runs]
        each = np.repeat([trees.leader.shape[1] for trees in parts], sizes)
        return window_forest.WindowTrees(
            np.repeat(np.arange(len(runs)), sizes),
            cell_of,
            np.concatenate([[0], np.cumsum(each)]),
            np.concatenate([trees.leader.ravel() for trees in parts]),
            np.concatenate([trees.first.ravel() for trees in parts]),
        )

    def _cells_of(self, level: int) -> window_forest.LevelCells:
        """Returns the cells of a level with all points in them. When there is no room for more cells, they
        are built again with room for four times as many as hold points now.
        """
        live, cells = self.count - self.first, self._cells.get(level)
        side, most = window_forest.side_of(level, self.axes), live // 4
        while cells is None or not window_forest.fill_cells(cells, self.points, self.count, side):
            if cells is not None:
                alive = int((cells.newest[: cells.used[0]] >= self.first).sum())
                most = min(2 * live, 4 * alive + self.count - int(cells.used[1]))
            most = max(_LEAST_ROOM, most)
            self._cells[level] = cells = window_forest.new_cells(
                len(self.points), most, self.axes, self.first
            )
        return cells

    def _level(self, reach: float) -> int:
        """The level of a range; _NO_LEVEL where cells do not help."""
        if self.axes > window_forest.MOST_AXES or reach < _LEAST_RANGE:
            return _NO_LEVEL
        return window_forest.level_of(reach, self.axes)

    def _use_levels(self) -> None:
        """Leaves out the levels whose cells would not be exact, as points are too far from zero."""
        levels = set(self._by_range.tolist()) - {_NO_LEVEL}
        limit = neighbour_lists.FARTHEST_EXACT_CELL
        exact = [
            level for level in levels if self._farthest / window_forest.side_of(level, self.axes) < limit
        ]
        self._levels = np.where(np.isin(self._by_range, exact), self._by_range, _NO_LEVEL)
        self._cells = {level: cells for level, cells in self._cells.items() if level in exact}

    def _make_room(self, more: int) -> None:
        """Moves the points that are still needed to the front of arrays with room for half as many again."""
        first, live = self.first, self.count - self.first
        room = max(_LEAST_ROOM, 3 * (live + more) // 2)
        points = self.points
        if not room <= len(points) < 4 * room:
            points = np.empty((room, self.axes), np.float64)
        cells = self._cells if len(points) == len(self.points) else {}  # else they have no room for points
        self._cells = {level: some for level, some in cells.items() if window_forest.move_down(some, first)}
        points[:live] = self.points[first : self.count]
        self.points = points
        self._renew_lists(self.count, len(points), first)
        self.offset += first
        self.first, self.count = 0, live
        self._build_grid(self.grid.side)

    def _renew_lists(self, count: int, room: int, shift: int) -> None:
        """Copies the lists of the points before `count` that are still needed into a pool with free room."""
        entries = neighbour_lists.entries_of(self.lists, self.first, count)
        renewed = neighbour_lists.new_lists(room, entries + max(entries // 2, 16 * _LEAST_ROOM))
        neighbour_lists.copy_lists(self.lists, renewed, shift, self.first, count)
        self.lists = renewed

    def _build_grid(self, side: float) -> None:
        rings = neighbour_lists.rings_for(self._farthest, side)
        self.grid = neighbour_lists.new_grid(self.points, side, rings)
        neighbour_lists.fill_grid(self.grid, self.count)


def _runs(levels: Array) -> Iterator[tuple[int, int]]:
    """(from, to) of windows that are of the same level, at most as many as go into a word."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(levels)) + 1, [len(levels)]]).tolist()
    for low, high in pairwise(edges):
        for begin in range(low, high, window_forest.BITS):
            yield begin, min(high, begin + window_forest.BITS)
