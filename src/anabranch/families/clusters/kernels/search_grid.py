"""A search grid: finds the points near a point among those that arrived before it.

Cells are a little wider than the largest range, so all neighbours of a point lie in its own cell and in the
cells around it. Each cell is a chain from its newest point to older ones. Points that have left every window
are not removed: a search follows a chain only down to the point `first`, the oldest that is still needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from anabranch.model.arrays import Floats, Ints, Ints32
from anabranch.numeric.jit import leaf, loop

#: Cells are wider than a range by this factor, so that rounding never puts two neighbours two cells apart.
WIDER = 1.001
#: Up to this many cells from zero the factor above covers the rounding. Beyond, one more ring is searched.
FARTHEST_EXACT_CELL = 1e12
_FARTHEST_CELL = 2.0**62


class SearchGrid(NamedTuple):
    """Cells in the space of the first coordinates, at most three of them."""

    points: Floats  # [points, axes]
    side: float  # of a cell
    rings: int  # rings of cells around a point that can hold its neighbours
    table: Ints32  # [2^k], open addressing: cell or -1
    corners: Ints  # [cells, 3]: coordinates of each cell, counted in cells
    newest: Ints32  # [cells]: the newest point of each cell
    older: Ints32  # [points]: the next older point of the same cell, or -1
    used: Ints  # [1]: number of cells


def new_grid(points: Floats, side: float, rings: int = 1) -> SearchGrid:
    """Returns an empty grid for these points."""
    room = len(points)
    table_size = 1 << max(4, (2 * room - 1).bit_length())
    return SearchGrid(
        points,
        side,
        rings,
        np.full(table_size, -1, np.int32),
        np.empty((room, 3), np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.zeros(1, np.int64),
    )


def cell_side(largest: float) -> float:
    """The side of a search cell for this largest range; never so small that squares of differences vanish."""
    return max(largest * WIDER, 1e-150)


def rings_for(farthest: float, side: float) -> int:
    """How many rings of cells to search if no coordinate is farther from zero than `farthest`."""
    return 1 if farthest / side < FARTHEST_EXACT_CELL else 2


def chains_around(grid: SearchGrid) -> Ints32:
    """Returns room for what `around` finds."""
    return np.empty((2 * grid.rings + 1) ** min(3, grid.points.shape[1]), np.int32)


@leaf
def square_of(points: Floats, one: int, other: int) -> float:
    """The square of the Euclidean distance, summed in the order of the coordinates."""
    total, a, b = 0.0, np.uint64(one), np.uint64(other)
    if points.shape[1] == 2:  # a loop takes twice as long
        across, along = points[a, 0] - points[b, 0], points[a, 1] - points[b, 1]
        return across * across + along * along
    for axis in range(points.shape[1]):
        difference = points[a, axis] - points[b, axis]
        total += difference * difference
    return total


@leaf
def distance_of(points: Floats, one: int, other: int) -> float:
    return np.sqrt(square_of(points, int(int64(one)), int(int64(other))))


@leaf
def cell_at(coordinate: float, side: float) -> int:
    cell = np.floor(coordinate / side)
    return int(min(max(cell, -_FARTHEST_CELL), _FARTHEST_CELL))


@leaf
def _hash(x: int, y: int, z: int, table_size: int) -> int:
    mixed = np.uint64(x) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(y) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed += np.uint64(z) * np.uint64(0x165667B19E3779F9)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return int(int64((mixed >> np.uint64(32)) & np.uint64(table_size - 1)))


@leaf
def find_cell(table: Ints32, corners: Ints, x: int, y: int, z: int) -> int:
    """Returns the cell with these coordinates, or ~index (negative): the index in the table where it would
    go.
    """
    size = len(table)
    index = _hash(x, y, z, size)
    while table[index] >= 0:
        cell = table[index]
        if corners[cell, 0] == x and corners[cell, 1] == y and corners[cell, 2] == z:
            return int(cell)
        index = (index + 1) & (size - 1)
    return ~index


@leaf
def add_to_grid(grid: SearchGrid, point: int) -> None:
    points, side, axes = grid.points, grid.side, grid.points.shape[1]
    x = cell_at(points[point, 0], side)
    y = cell_at(points[point, 1], side) if axes > 1 else 0
    z = cell_at(points[point, 2], side) if axes > 2 else 0
    cell = find_cell(grid.table, grid.corners, x, y, z)
    if cell < 0:
        index = ~cell
        cell = grid.used[0]
        grid.used[0] += 1
        grid.table[index] = cell
        grid.corners[cell, 0] = x
        grid.corners[cell, 1] = y
        grid.corners[cell, 2] = z
        grid.newest[cell] = -1
    grid.older[point] = grid.newest[cell]
    grid.newest[cell] = point


@loop
def fill_grid(grid: SearchGrid, count: int) -> None:
    """Adds points 0..count to an empty grid."""
    for point in range(count):
        add_to_grid(grid, point)


@leaf
def around(grid: SearchGrid, point: int, first: int, chains: Ints32) -> int:
    """Writes the newest points of the cells around a point into `chains`; returns how many cells have any."""
    points, side, reach, axes = grid.points, grid.side, grid.rings, grid.points.shape[1]
    x = cell_at(points[point, 0], side)
    y = cell_at(points[point, 1], side) if axes > 1 else 0
    z = cell_at(points[point, 2], side) if axes > 2 else 0
    reach_y = reach if axes > 1 else 0
    reach_z = reach if axes > 2 else 0
    found = 0
    for i in range(-reach, reach + 1):
        for j in range(-reach_y, reach_y + 1):
            for k in range(-reach_z, reach_z + 1):
                cell = find_cell(grid.table, grid.corners, x + i, y + j, z + k)
                if cell >= 0 and grid.newest[cell] >= first:
                    chains[found] = grid.newest[cell]
                    found += 1
    return found
