"""Small cells in which all points are neighbours of each other, and which of them are near each other.

Cells with a diagonal below a range hold only points that are neighbours at this range. They have sides b^k,
so that many ranges share the cells of one `level`; at most two rings of cells around one can hold neighbours.
A point is put into its cell once, and a cell looks once, when its first point comes, for the ones around it
that were there before: every pair of cells is known to one of the two. Cells whose points have all left stay
until there is no room for more; then all begin anew.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import lowest
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
#: From here on are cells of points that are nowhere: beyond all others.
_NOWHERE = (1 << 62) + 4 * RINGS


class Cells(NamedTuple):
    """The cells of a level, in blocks of 4 in each direction. A chain leads from the newest point of a cell
    to older ones, then to -1 or to those that no window holds any more.
    """

    used: Array  # int64[3]: cells; the next point; blocks
    table: Array  # int32[2^k], open addressing: block or -1
    places: Array  # int64[blocks, 3]
    filled: Array  # int64[blocks]: the spots that are cells, as bits
    inside: Array  # int32[blocks, 4^axes]: which cells
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


def new_cells(points: int, most: int, axes: int, first: int) -> Cells:
    """Room for so many points and at most so many cells; the next point to come is `first`."""
    slots = 1 << max(4, (2 * most - 1).bit_length())
    around = ((2 * RINGS + 1) ** axes - 1) // 2  # of all pairs, each cell is in twice as many
    return Cells(
        np.array([0, first, 0], np.int64),
        np.full(slots, -1, np.int32),
        np.empty((most, 3), np.int64),
        np.empty(most, np.int64),
        np.empty((most, 4**axes), np.int32),
        np.empty(most, np.int32),
        np.empty(points, np.int32),
        np.empty(points, np.int32),
        np.empty(most * around + 1, np.int32),
        np.zeros(most * RINGS + 1, np.int32),
    )


@leaf
def _spot(x: int, y: int, z: int) -> int:
    """The place of a cell in its block."""
    return (x & 3) | (y & 3) << 2 | (z & 3) << 4


@leaf
def _in_line(x: int, distance: int) -> int:
    """Those of the cells 0..3 in a row, as bits, that are at most so far from x. x: -2..5; distance: 0..2"""
    return ((1 << (2 * distance + 1)) - 1) << (x + 4 - distance) >> 4 & 15


@leaf
def _in_block(x: int, y: int, z: int, axes: int, distance: int) -> int:
    """The spots of a block, as bits, of cells at most so far from (x, y, z), counted from its first cell."""
    bits = _in_line(x, distance)
    if axes > 1:
        line = _in_line(y, distance)
        bits *= (line & 1) | (line & 2) << 3 | (line & 4) << 6 | (line & 8) << 9
    if axes > 2:
        line = _in_line(z, distance)
        bits *= (line & 1) | (line & 2) << 15 | (line & 4) << 30 | (line & 8) << 45
    return bits


@leaf
def _note_around(cells: Cells, cell: int, x: int, y: int, z: int, axes: int, second: Array) -> None:
    """Notes the cells around a new one. second: int32, with room for the second ring"""
    inside, near = cells.inside, cells.near
    across, above = RINGS if axes > 1 else 0, RINGS if axes > 2 else 0
    pairs, more = cells.after[cell * RINGS], 0
    for block_x in range((x - RINGS) >> 2, ((x + RINGS) >> 2) + 1):
        for block_y in range((y - across) >> 2, ((y + across) >> 2) + 1):
            for block_z in range((z - above) >> 2, ((z + above) >> 2) + 1):
                block = find_cell(cells.table, cells.places, block_x, block_y, block_z)
                if block < 0:
                    continue
                i, j, k = x - block_x * 4, y - block_y * 4, z - block_z * 4
                inner = _in_block(i, j, k, axes, 1)
                outer = cells.filled[block] & _in_block(i, j, k, axes, 2) & ~inner
                inner &= cells.filled[block]
                while inner:
                    near[pairs] = inside[block, lowest(inner)]
                    inner &= inner - 1
                    pairs += 1
                while outer:
                    second[more] = inside[block, lowest(outer)]
                    outer &= outer - 1
                    more += 1
    cells.after[cell * RINGS + 1] = pairs
    for place in range(more):
        near[pairs + place] = second[place]
    cells.after[cell * RINGS + 2] = pairs + more


@leaf
def _is_somewhere(points: Array, point: int) -> bool:
    """Whether all coordinates are numbers and not infinite; others are nobody's neighbours, not even of those
    at the same place, so each is in a cell of its own.
    """
    total = 0.0
    for axis in range(points.shape[1]):
        total += points[point, axis] * 0.0
    return total == 0.0


@leaf
def _fill(cells: Cells, points: Array, stop: int, side: float, second: Array) -> bool:
    axes, used, inside = points.shape[1], cells.used, cells.inside
    for point in range(used[1], stop):
        x = cell_at(points[point, 0], side)
        y = cell_at(points[point, 1], side) if axes > 1 else 0
        z = cell_at(points[point, 2], side) if axes > 2 else 0
        if not _is_somewhere(points, point):
            x, y, z = _NOWHERE + 4 * RINGS * used[0], 0, 0
        block, spot = find_cell(cells.table, cells.places, x >> 2, y >> 2, z >> 2), _spot(x, y, z)
        if block < 0 or not cells.filled[block] >> spot & 1:
            if used[0] == len(cells.newest):
                return False
            cell = used[0]
            _note_around(cells, cell, x, y, z, axes, second)
            if block < 0:
                slot = ~block
                block = used[2]
                cells.table[slot] = block
                cells.places[block, 0], cells.places[block, 1], cells.places[block, 2] = (
                    x >> 2,
                    y >> 2,
                    z >> 2,
                )
                cells.filled[block] = 0
                used[2] += 1
            cells.filled[block] |= 1 << spot
            inside[block, spot] = cell
            cells.newest[cell] = -1
            used[0] += 1
        cell = inside[block, spot]
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
    second = np.empty((2 * RINGS + 1) ** points.shape[1], np.int32)
    return _fill(cells, points, stop, side, second)


@leaf
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


def with_room(cells: Cells, points: int) -> Cells:
    """The same cells with room for so many points."""
    count = int(cells.used[1])
    older, cell_of = np.empty(points, np.int32), np.empty(points, np.int32)
    older[:count], cell_of[:count] = cells.older[:count], cells.cell_of[:count]
    return cells._replace(older=older, cell_of=cell_of)
