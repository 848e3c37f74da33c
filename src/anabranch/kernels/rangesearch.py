"""Range searches by the search grid: all earlier points within a range, or all points of a window.

For the strategies that are compared with ours (simulate/clusters); ours finds neighbours while it enters
points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.searchgrid import Grid, around, distance_of, into_grid

Array = np.ndarray[Any, Any]


@kernel
def within(
    points: Array, point: int, first: int, grid: Grid, side: float, rings: int, reach: float,
    chains: Array, near: Array,
) -> int:  # fmt: skip
    """The other points from `first` on that are within the range, into `near`; returns how many.

    chains: int32[cells around a point], near: int32[points].
    """
    found = 0
    for chain in range(around(grid, points, point, first, side, rings, chains)):
        candidate = chains[chain]
        while candidate >= first:
            if candidate != point and distance_of(points, point, candidate) <= reach:
                near[found] = candidate
                found += 1
            candidate = grid.older[candidate]
    return found


@kernel
def enter_all(
    points: Array, start: int, stop: int, first: int, grid: Grid, side: float, rings: int, reach: float,
    ends: Array, near: Array, far: Array,
) -> None:  # fmt: skip
    """Enters points start..stop into the grid one by one, each after a search among the points before it.

    The neighbours of point start + i and their distances become near[ends[i]:ends[i + 1]] and the same of
    far. ends: int32[stop - start + 1]; near: int32, far: float64, with room for all.
    """
    chains = np.empty((2 * rings + 1) ** min(3, points.shape[1]), np.int32)
    ends[0] = 0
    for point in range(start, stop):
        found = ends[point - start]
        for chain in range(around(grid, points, point, first, side, rings, chains)):
            candidate = chains[chain]
            while candidate >= first:
                distance = distance_of(points, point, candidate)
                if distance <= reach:
                    near[found] = candidate
                    far[found] = distance
                    found += 1
                candidate = grid.older[candidate]
        ends[point - start + 1] = found
        into_grid(grid, points, point, side)


@kernel
def nearest_first(ends: Array, near: Array, far: Array) -> None:
    """Sorts the neighbours of each point by distance: a query with a smaller range then stops early."""
    for place in range(len(ends) - 1):
        low, high = ends[place], ends[place + 1]
        order = np.argsort(far[low:high])
        near[low:high] = near[low:high][order]
        far[low:high] = far[low:high][order]
