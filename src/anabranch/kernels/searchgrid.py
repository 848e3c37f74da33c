"""A search grid: which points are near a point, among those that arrived before it.

Cells are a little wider than the largest range, so that all neighbours of a point lie in its own cell and the
ones around it. Each cell is a chain from its newest point to older ones. What has left every window is never
reached: a chain is followed until it comes to a point before `first`, and nothing is ever removed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import leaf

Array = np.ndarray[Any, Any]

#: Cells are this much wider than a range, so that rounding never puts two neighbours two cells apart.
WIDER = 1.001
#: Up to this many cells from zero the margin above covers the rounding; beyond, one more ring of cells is
#: searched.
FARTHEST_EXACT_CELL = 1e12
_FARTHEST_CELL = 2.0**62


class Grid(NamedTuple):
    """Cells in the space of the first (at most three) coordinates."""

    table: Array  # int32[2^k], open addressing: cell or -1
    places: Array  # int64[cells, 3]
    newest: Array  # int32[cells]: the newest point of each cell
    older: Array  # int32[points]: the next older point of the same cell, or -1
    used: Array  # int64[1]: how many cells there are


def new_grid(points: int) -> Grid:
    slots = 1 << max(4, (2 * points - 1).bit_length())
    return Grid(
        np.full(slots, -1, np.int32),
        np.empty((points, 3), np.int64),
        np.empty(points, np.int32),
        np.empty(points, np.int32),
        np.zeros(1, np.int64),
    )


def cell_side(largest: float) -> float:
    """The side of a search cell; never so small that squares of differences vanish."""
    return max(largest * WIDER, 1e-150)


@leaf
def square_of(points: Array, one: int, other: int) -> float:
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
def distance_of(points: Array, one: int, other: int) -> float:
    return np.sqrt(square_of(points, one, other))


@leaf
def cell_at(coordinate: float, side: float) -> int:
    cell = np.floor(coordinate / side)
    return int(min(max(cell, -_FARTHEST_CELL), _FARTHEST_CELL))


@leaf
def slot_of(x: int, y: int, z: int, slots: int) -> int:
    mixed = np.uint64(x) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(y) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed += np.uint64(z) * np.uint64(0x165667B19E3779F9)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return int(np.int64((mixed >> np.uint64(32)) & np.uint64(slots - 1)))


@leaf
def find_cell(table: Array, places: Array, x: int, y: int, z: int) -> int:
    """The cell at this place, or ~slot (negative), the slot where it would go."""
    slots = len(table)
    slot = slot_of(x, y, z, slots)
    while table[slot] >= 0:
        cell = table[slot]
        if places[cell, 0] == x and places[cell, 1] == y and places[cell, 2] == z:
            return int(cell)
        slot = (slot + 1) & (slots - 1)
    return ~slot


@leaf
def into_grid(grid: Grid, points: Array, point: int, side: float) -> None:
    axes = points.shape[1]
    x = cell_at(points[point, 0], side)
    y = cell_at(points[point, 1], side) if axes > 1 else 0
    z = cell_at(points[point, 2], side) if axes > 2 else 0
    cell = find_cell(grid.table, grid.places, x, y, z)
    if cell < 0:
        slot = ~cell
        cell = grid.used[0]
        grid.used[0] += 1
        grid.table[slot] = cell
        grid.places[cell, 0] = x
        grid.places[cell, 1] = y
        grid.places[cell, 2] = z
        grid.newest[cell] = -1
    grid.older[point] = grid.newest[cell]
    grid.newest[cell] = point


@leaf
def fill_grid(grid: Grid, points: Array, count: int, side: float) -> None:
    """Puts points 0..count into an empty grid."""
    for point in range(count):
        into_grid(grid, points, point, side)


@leaf
def around(grid: Grid, points: Array, point: int, first: int, side: float, reach: int, chains: Array) -> int:
    """Writes the newest points of the cells around a point into `chains`; returns how many cells have any."""
    axes = points.shape[1]
    x = cell_at(points[point, 0], side)
    y = cell_at(points[point, 1], side) if axes > 1 else 0
    z = cell_at(points[point, 2], side) if axes > 2 else 0
    reach_y = reach if axes > 1 else 0
    reach_z = reach if axes > 2 else 0
    found = 0
    for i in range(-reach, reach + 1):
        for j in range(-reach_y, reach_y + 1):
            for k in range(-reach_z, reach_z + 1):
                cell = find_cell(grid.table, grid.places, x + i, y + j, z + k)
                if cell >= 0 and grid.newest[cell] >= first:
                    chains[found] = grid.newest[cell]
                    found += 1
    return found
