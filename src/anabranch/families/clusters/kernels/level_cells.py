"""Small cells in which all points are neighbours of each other, and which of these cells are close together.

A cell whose diagonal is below a range holds only points that are neighbours at this range. Sides of cells are
b^level, so that many ranges share the cells of one level. Neighbours of a point lie at most two rings of
cells away.

A point is put into its cell once. A cell searches once, when its first point comes, for the cells around it
that were there before: so every pair of cells is known to one of the two. Cells whose points have all left
stay until there is no room for more; then all cells are built again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import int64

from anabranch.families.clusters.kernels.search_grid import cell_at, find_cell
from anabranch.model.arrays import Floats, Ints, Ints32
from anabranch.numeric.bits import lowest
from anabranch.numeric.jit import kernel, leaf, twig
from anabranch.numeric.slots import grown

#: With more coordinates than this too many cells are around one; then every point is a cell of its own.
MOST_AXES = 3
RINGS = 2
#: Ratio of the sides of two levels, by the number of coordinates a: a little below 2 / sqrt(a), see
#: `level_of`.
_RATIO = {1: 1.95, 2: 1.39, 3: 1.14}
_MARGIN = 0.999
#: Cells of points without finite coordinates begin here, beyond all others.
_NOWHERE = (1 << 62) + 4 * RINGS


class LevelCells(NamedTuple):
    """The cells of a level, in blocks of 4 in each direction. A chain leads from the newest point of a cell
    to older ones, then to -1 or to points that no window holds any more.
    """

    used: Ints  # [3]: number of cells; the next point; number of blocks
    table: Ints32  # [2^k], open addressing: block or -1
    corners: Ints  # [blocks, 3]: coordinates of each block, counted in blocks
    filled: Ints  # [blocks]: which of its cells exist, as bits
    inside: Ints32  # [blocks, 4^axes]: these cells
    newest: Ints32  # [cells]
    older: Ints32  # [points]
    cell_of: Ints32  # [points]
    close: Ints32  # [pairs]: earlier cells around each cell, the first ring, then the second
    close_at: Ints32  # [cells * RINGS + 1]: where those of each cell and ring begin


def level_of(reach: float, axes: int) -> int:
    """The level whose cells are the widest with a diagonal below the range: side <= reach / sqrt(axes).

    Sides of neighbouring levels differ by less than 2 / sqrt(axes), so reach < 2 side holds as well: two
    rings are enough.
    """
    return math.floor(math.log(reach * _MARGIN / math.sqrt(axes)) / math.log(_RATIO[axes]))


def side_of(level: int, axes: int) -> float:
    return float(_RATIO[axes] ** level)


def new_cells(points: int, most: int, axes: int, first: int) -> LevelCells:
    """Room for so many points and at most so many cells; the next point to come is `first`."""
    table_size = 1 << max(4, (2 * most - 1).bit_length())
    around = ((2 * RINGS + 1) ** axes - 1) // 2  # a cell is in twice as many pairs, each known to one cell
    return LevelCells(
        np.array([0, first, 0], np.int64),
        np.full(table_size, -1, np.int32),
        np.empty((most, 3), np.int64),
        np.empty(most, np.int64),
        np.empty((most, 4**axes), np.int32),
        np.empty(most, np.int32),
        np.empty(points, np.int32),
        np.empty(points, np.int32),
        np.empty(most * around + 1, np.int32),
        np.zeros(most * RINGS + 1, np.int32),
    )


def with_room(cells: LevelCells, points: int) -> LevelCells:
    """The same cells with room for so many points."""
    count = int(cells.used[1])
    return cells._replace(
        older=grown(cells.older, points, count), cell_of=grown(cells.cell_of, points, count)
    )


@leaf
def _index_in_block(x: int, y: int, z: int) -> int:
    return (x & 3) | (y & 3) << 2 | (z & 3) << 4


@leaf
def _in_line(x: int, distance: int) -> int:
    """Those of the cells 0..3 in a line, as bits, that are at most so far from x. x: -2..5; distance: 0..2"""
    return ((1 << (2 * distance + 1)) - 1) << (x + 4 - distance) >> 4 & 15


@leaf
def _in_block(x: int, y: int, z: int, axes: int, distance: int) -> int:
    """The cells of a block, as bits, at most so far from (x, y, z), counted from the block's first cell."""
    bits = _in_line(x, distance)
    if axes > 1:
        line = _in_line(y, distance)
        bits *= (line & 1) | (line & 2) << 3 | (line & 4) << 6 | (line & 8) << 9
    if axes > 2:
        line = _in_line(z, distance)
        bits *= (line & 1) | (line & 2) << 15 | (line & 4) << 30 | (line & 8) << 45
    return bits


@leaf
def _add_pairs(cells: LevelCells, cell: int, x: int, y: int, z: int, axes: int, second: Ints32) -> None:
    """Adds the pairs of a new cell with those around it. second: int32, with room for the second ring"""
    inside, close = cells.inside, cells.close
    across, above = RINGS if axes > 1 else 0, RINGS if axes > 2 else 0
    pairs, more = cells.close_at[cell * RINGS], 0
    for block_x in range((x - RINGS) >> 2, ((x + RINGS) >> 2) + 1):
        for block_y in range((y - across) >> 2, ((y + across) >> 2) + 1):
            for block_z in range((z - above) >> 2, ((z + above) >> 2) + 1):
                block = find_cell(cells.table, cells.corners, block_x, block_y, block_z)
                if block < 0:
                    continue
                i, j, k = x - block_x * 4, y - block_y * 4, z - block_z * 4
                inner = _in_block(i, j, k, axes, int(int64(1)))
                outer = cells.filled[block] & _in_block(i, j, k, axes, int(int64(2))) & ~inner
                inner &= cells.filled[block]
                while inner:
                    close[pairs] = inside[block, lowest(inner)]
                    inner &= inner - 1
                    pairs += 1
                while outer:
                    second[more] = inside[block, lowest(outer)]
                    outer &= outer - 1
                    more += 1
    cells.close_at[cell * RINGS + 1] = pairs
    for index in range(more):
        close[pairs + index] = second[index]
    cells.close_at[cell * RINGS + 2] = pairs + more


@leaf
def _is_finite(points: Floats, point: int) -> bool:
    """Whether all coordinates are finite. Other points are nobody's neighbours, not even of those with the
    same coordinates, so each is in a cell of its own.
    """
    total = 0.0
    for axis in range(points.shape[1]):
        total += points[point, axis] * 0.0
    return total == 0.0


@leaf
def _fill(cells: LevelCells, points: Floats, stop: int, side: float, second: Ints32) -> bool:
    axes, used, inside = points.shape[1], cells.used, cells.inside
    for point in range(used[1], stop):
        x = cell_at(points[point, 0], side)
        y = cell_at(points[point, 1], side) if axes > 1 else 0
        z = cell_at(points[point, 2], side) if axes > 2 else 0
        if not _is_finite(points, point):
            x, y, z = _NOWHERE + 4 * RINGS * used[0], 0, 0
        block = find_cell(cells.table, cells.corners, x >> 2, y >> 2, z >> 2)
        index = _index_in_block(x, y, z)
        if block < 0 or not cells.filled[block] >> index & 1:
            if used[0] == len(cells.newest):
                return False
            cell = used[0]
            _add_pairs(cells, cell, x, y, z, axes, second)
            if block < 0:
                cells.table[~block] = used[2]
                block = used[2]
                cells.corners[block, 0] = x >> 2
                cells.corners[block, 1] = y >> 2
                cells.corners[block, 2] = z >> 2
                cells.filled[block] = 0
                used[2] += 1
            cells.filled[block] |= 1 << index
            inside[block, index] = cell
            cells.newest[cell] = -1
            used[0] += 1
        cell = inside[block, index]
        cells.cell_of[point] = cell
        cells.older[point] = cells.newest[cell]
        cells.newest[cell] = point
        used[1] = point + 1
    return True


@kernel
def fill_cells(cells: LevelCells, points: Floats, stop: int, side: float) -> bool:
    """Puts the points before `stop` that are not there yet into their cells; returns False if there is no
    room for more cells. points: [n, axes]
    """
    second = np.empty((2 * RINGS + 1) ** points.shape[1], np.int32)
    return _fill(cells, points, stop, side, second)


@twig
def move_down(cells: LevelCells, first: int) -> bool:
    """Numbers points lower by `first`, without those before; returns False if no points are left."""
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
