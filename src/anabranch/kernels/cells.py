"""Small cells in which all points are neighbours of each other, and which of them are near each other.

Cells with a diagonal below a range hold only points that are neighbours at this range. They have sides b^k,
so that many ranges share the cells of one `level`; at most two rings of cells around one can hold neighbours.
A point is put into its cell once, and a cell looks once, when its first point comes, for the ones around it
that were there before: every pair of cells is known to one of the two. Cells whose points have all left stay
until there are as many of them as of others (`limit`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.searchgrid import cell_at, find_cell

Array = np.ndarray[Any, Any]

#: More coordinates than this would have too many cells around one; then every point is a cell of its own.
MOST_AXES = 3
RINGS = 2
#: Ratio of the sides of two levels, by the number of coordinates a: a little below 2 / sqrt(a), see
#: `level_of`.
_RATIO = {1: 1.95, 2: 1.39, 3: 1.14}
_MARGIN = 0.999
_FEW = 256


class Cells(NamedTuple):
    """The cells of a level. A chain leads from the newest point of a cell to older ones, then to -1 or to
    those that no window holds any more.
    """

    used: Array  # int64[3]: cells; the next point; how many cells are few enough
    table: Array  # int32[2^k], open addressing: cell or -1
    places: Array  # int64[cells, 3]
    newest: Array  # int32[cells]
    older: Array  # int32[points]
    cell_of: Array  # int32[points]
    near: Array  # int32[pairs]: earlier cells around each cell, the first ring, then the second
    after: Array  # int32[cells * RINGS + 1]: where those of each cell and ring begin


def level_of(reach: float, axes: int) -> int:
    """The level whose cells are the widest with a diagonal below the range: side <= reach / sqrt(axes).

    As sides of neighbouring levels differ by less than 2 / sqrt(axes), also reach < 2 side: two rings are
    enough.
    """
    return math.floor(math.log(reach * _MARGIN / math.sqrt(axes)) / math.log(_RATIO[axes]))


def side_of(level: int, axes: int) -> float:
    return float(_RATIO[axes] ** level)


def new_cells(points: int, axes: int, first: int) -> Cells:
    """No cells yet, for as many points and as many cells as that; the next point to come is `first`."""
    slots = 1 << max(4, (2 * points - 1).bit_length())
    around = ((2 * RINGS + 1) ** axes - 1) // 2  # of all pairs, each cell is in twice as many
    return Cells(
        np.array([0, first, points], np.int64),
        np.full(slots, -1, np.int32),
        np.empty((points, 3), np.int64),
        np.empty(points, np.int32),
        np.empty(points, np.int32),
        np.empty(points, np.int32),
        np.empty(points * around, np.int32),
        np.zeros(points * RINGS + 1, np.int32),
    )


@kernel
def _ring(axes: int, ring: int) -> Array:
    """The cells of a ring around one. int64[cells, 3]"""
    out = np.empty(((2 * ring + 1) ** 3, 3), np.int64)
    found = 0
    across, above = ring if axes > 1 else 0, ring if axes > 2 else 0
    for i in range(-ring, ring + 1):
        for j in range(-across, across + 1):
            for k in range(-above, above + 1):
                if max(abs(i), abs(j), abs(k)) == ring:
                    out[found, 0], out[found, 1], out[found, 2] = i, j, k
                    found += 1
    return out[:found]


@leaf
def _new_cell(cells: Cells, slot: int, x: int, y: int, z: int, around: Array, first_ring: int) -> int:
    """Makes a cell that knows the ones around it. around: int64[spots, 3], the first ring, then the second"""
    table, places, near = cells.table, cells.places, cells.near
    cell = cells.used[0]
    pairs = cells.after[cell * RINGS]
    for spot in range(len(around)):
        if spot == first_ring:
            cells.after[cell * RINGS + 1] = pairs
        other = find_cell(table, places, x + around[spot, 0], y + around[spot, 1], z + around[spot, 2])
        if other >= 0:
            near[pairs] = other
            pairs += 1
    cells.after[cell * RINGS + 2] = pairs
    table[slot] = cell
    places[cell, 0], places[cell, 1], places[cell, 2] = x, y, z
    cells.newest[cell] = -1
    cells.used[0] += 1
    return cell


@leaf
def _fill(cells: Cells, points: Array, stop: int, side: float, around: Array, first_ring: int) -> bool:
    axes, used = points.shape[1], cells.used
    for point in range(used[1], stop):
        x = cell_at(points[point, 0], side)
        y = cell_at(points[point, 1], side) if axes > 1 else 0
        z = cell_at(points[point, 2], side) if axes > 2 else 0
        cell = find_cell(cells.table, cells.places, x, y, z)
        if cell < 0:
            if used[0] >= used[2]:
                return False
            cell = _new_cell(cells, ~cell, x, y, z, around, first_ring)
        cells.cell_of[point] = cell
        cells.older[point] = cells.newest[cell]
        cells.newest[cell] = point
        used[1] = point + 1
    return True


@kernel
def fill(cells: Cells, points: Array, stop: int, side: float) -> bool:
    """Puts the points before `stop` that are not there yet into their cells; False if cells are too many.

    points: float64[n, axes]
    """
    first = _ring(points.shape[1], 1)
    around = np.concatenate((first, _ring(points.shape[1], 2)))
    return _fill(cells, points, stop, side, around, len(first))


@kernel
def limit(cells: Cells) -> None:
    """From now on there may be twice as many cells as now."""
    cells.used[2] = min(len(cells.newest), 2 * cells.used[0] + _FEW)


@kernel
def move(cells: Cells, first: int) -> bool:
    """Points have moved down by `first`, those before are gone; False if the cells know no others."""
    used, older, cell_of = cells.used, cells.older, cells.cell_of
    if used[1] <= first:
        return False
    used[1] -= first
    for point in range(used[1]):
        older[point] = max(older[point + first] - first, -1)
        cell_of[point] = cell_of[point + first]
    for cell in range(used[0]):
        cells.newest[cell] = max(cells.newest[cell] - first, -1)
    return True
