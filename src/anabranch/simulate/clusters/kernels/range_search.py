"""Range searches by the search grid: all earlier points within a range, or all points of a window.

For the strategies that are compared with ours. Ours searches while it adds points to its lists of neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from anabranch.families.clusters.kernels.neighbour_lists import SearchGrid, add_to_grid, around, distance_of
from anabranch.model.arrays import Floats, Ints32
from anabranch.numeric.jit import kernel


class BatchNeighbours(NamedTuple):
    """The neighbours of points that were added one after the other: those of the i-th are
    near[ends[i]:ends[i + 1]], at the same distances of far.
    """

    offset: int  # position = index in `near` + offset
    ends: Ints32  # [points + 1]
    near: Ints32
    far: Floats


class RangeSearch(NamedTuple):
    """A grid, a range, and room for searches."""

    grid: SearchGrid
    reach: float
    chains: Ints32  # [cells around a point]
    near: Ints32  # [points]: what the last search found


@kernel
def within(search: RangeSearch, point: int, first: int) -> int:
    """Writes the other points from `first` on within the range into search.near; returns how many."""
    grid, found = search.grid, 0
    for chain in range(around(grid, int(int64(point)), first, search.chains)):
        candidate = int64(search.chains[chain])
        while candidate >= first:
            if candidate != point and distance_of(grid.points, point, candidate) <= search.reach:
                search.near[found] = candidate
                found += 1
            candidate = int64(grid.older[candidate])
    return found


@kernel
def add_all(
    grid: SearchGrid, start: int, stop: int, first: int, reach: float, neighbours: BatchNeighbours
) -> None:
    """Adds points start..stop to the grid one by one, each after a search among the points from `first` on
    that were added before it. Fills `neighbours`, which has room for all.
    """
    ends, near, far = neighbours.ends, neighbours.near, neighbours.far
    chains = np.empty((2 * grid.rings + 1) ** min(3, grid.points.shape[1]), np.int32)
    ends[0] = 0
    for point in range(start, stop):
        found = ends[point - start]
        for chain in range(around(grid, point, first, chains)):
            candidate = int64(chains[chain])
            while candidate >= first:
                distance = distance_of(grid.points, point, candidate)
                if distance <= reach:
                    near[found] = candidate
                    far[found] = distance
                    found += 1
                candidate = int64(grid.older[candidate])
        ends[point - start + 1] = found
        add_to_grid(grid, point)


@kernel
def sort_by_distance(neighbours: BatchNeighbours) -> None:
    """Sorts the neighbours of each point by distance: a query with a smaller range then stops early."""
    ends, near, far = neighbours.ends, neighbours.near, neighbours.far
    for index in range(len(ends) - 1):
        low, high = ends[index], ends[index + 1]
        order = np.argsort(far[low:high])
        near[low:high] = near[low:high][order]
        far[low:high] = far[low:high][order]
