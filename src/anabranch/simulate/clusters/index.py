"""The points that a window can still hold, with a search grid: what every strategy but ours searches in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.kernels import rangesearch, searchgrid
from anabranch.zones.columns import Array


class Neighbours(NamedTuple):
    """Those of points that entered one after the other: see rangesearch.enter_all."""

    offset: int  # position = place in `near` + offset
    ends: Array
    near: Array
    far: Array


class Index:
    """Coordinates by place = position - offset. When it is full, what is still needed moves to the front."""

    def __init__(self, axes: int, window: int, reach: float) -> None:
        self.reach, self.side = reach, searchgrid.cell_side(reach)
        self.points: Array = np.empty((2 * window + 1024, axes), np.float64)
        self.grid = searchgrid.new_grid(len(self.points))
        self.offset = self.count = 0
        self._far = 0.0
        self._near: Array = np.empty(1 << 16, np.int32)
        self._distance: Array = np.empty(1 << 16, np.float64)

    @property
    def rings(self) -> int:
        return 1 if self._far / self.side < searchgrid.FARTHEST_EXACT_CELL else 2

    def append(self, points: Array, first: int) -> int:
        """Takes points, not yet into the grid; nobody needs positions before `first`.

        Returns by how many places the others moved to the front.
        """
        moved = 0
        if self.count + len(points) > len(self.points):
            moved = min(first - self.offset, self.count)
            self.points[: self.count - moved] = self.points[moved : self.count]
            self.offset, self.count = self.offset + moved, self.count - moved
            self.grid = searchgrid.new_grid(len(self.points))
            searchgrid.fill_grid(self.grid, self.points, self.count, self.side)
        self.points[self.count : self.count + len(points)] = points
        self._far = max(self._far, float(np.abs(points[np.isfinite(points)]).max(initial=0.0)))
        self.count += len(points)
        return moved

    def neighbours(self, more: int, first: int) -> Neighbours:
        """Enters the newest `more` points into the grid, each after a search among those before it."""
        start = self.count - more
        ends = np.zeros(more + 1, np.int32)
        low = max(0, first - self.offset)
        need = more * (self.count - low)
        if need > len(self._near):
            self._near, self._distance = np.empty(need, np.int32), np.empty(need, np.float64)
        rangesearch.enter_all(
            self.points, start, self.count, low, self.grid, self.side, self.rings, self.reach,
            ends, self._near, self._distance,
        )  # fmt: skip
        return Neighbours(self.offset, ends, self._near, self._distance)
