"""The points that a window can still hold, with a search grid: what every strategy but ours searches in."""

from __future__ import annotations

import time

import numpy as np

from anabranch.families.clusters.kernels import neighbour_lists
from anabranch.model.arrays import Floats, Ints32
from anabranch.simulate.clusters.kernels.range_search import BatchNeighbours, RangeSearch, add_all


class PointIndex:
    """Coordinates by index = position - offset. When it is full, what is still needed moves to the front."""

    def __init__(self, axes: int, window: int, reach: float) -> None:
        self.reach = reach
        self.points: Floats = np.empty((2 * window + 1024, axes), np.float64)
        self.grid = neighbour_lists.new_grid(self.points, neighbour_lists.cell_side(reach))
        self.offset = self.count = 0
        self.seconds = 0.0  # CPU time of searches
        self._farthest = 0.0
        self._near: Ints32 = np.empty(1 << 16, np.int32)
        self._distance: Floats = np.empty(1 << 16, np.float64)

    def append(self, points: Floats, first: int) -> int:
        """Adds points, not yet to the grid; positions before `first` are no longer needed.

        Returns by how much the indexes of the others are lower now.
        """
        moved = 0
        if self.count + len(points) > len(self.points):
            moved = min(first - self.offset, self.count)
            self.points[: self.count - moved] = self.points[moved : self.count]
            self.offset, self.count = self.offset + moved, self.count - moved
            self.grid = neighbour_lists.new_grid(self.points, self.grid.side)
            neighbour_lists.fill_grid(self.grid, self.count)
        self.points[self.count : self.count + len(points)] = points
        self._farthest = max(self._farthest, float(np.abs(points[np.isfinite(points)]).max(initial=0.0)))
        self.grid = self.grid._replace(rings=neighbour_lists.rings_for(self._farthest, self.grid.side))
        self.count += len(points)
        return moved

    def search(self) -> RangeSearch:
        """Returns room to search in this index."""
        return RangeSearch(
            self.grid,
            self.reach,
            neighbour_lists.chains_around(self.grid),
            np.empty(len(self.points), np.int32),
        )

    def neighbours(self, more: int, first: int) -> BatchNeighbours:
        """Adds the newest `more` points to the grid, each after a search among those before it."""
        began = time.process_time()
        low = max(0, first - self.offset)
        need = more * (self.count - low)
        if need > len(self._near):
            self._near, self._distance = np.empty(need, np.int32), np.empty(need, np.float64)
        found = BatchNeighbours(self.offset, np.zeros(more + 1, np.int32), self._near, self._distance)
        add_all(self.grid, self.count - more, self.count, low, self.reach, found)
        self.seconds += time.process_time() - began
        return found
