"""Which cores belong together, for up to 63 windows at once.

Two neighbouring points are connected in a window exactly if both are core there. Small cells with a diagonal
below a range hold only points that are neighbours of each other, so clusters are trees of cells, and two
cells need a single pair of cores within the range to be joined. Cells have sides b^k, so that many ranges
share the cells of one `level`; at most two rings of cells around one can hold neighbours.

The windows of a level are the bits of a word. A cell knows in which of them it has a core. For two cells that
are near each other, distances between points are measured once for all windows in which both have cores and
are not of one tree already; a pair of cores joins the trees of all windows of which it is within the range.

Most cells *follow* another: one that has cores in all windows in which they have, and is of the same tree in
all of these. What joins a follower joins the one it follows; where all cells around follow the same one, as
in dense places, no window is looked at.

    windows      w0 w1 w2 w3          a joins b in w0 and w1: all it has, and b has these too, so a follows b.
    cell a        *  *                Whether c is of a's tree in w0 is then whether it is of b's.
    cell b        *  *  *
    cell c        *     *  *          c and b share w0 and w2, but neither follows the other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import lowest
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.ranks import Asked, rank_of
from anabranch.kernels.searchgrid import Grid, around, cell_at, distance_of, find_cell

Array = np.ndarray[Any, Any]

#: More coordinates than this would have too many cells around one; then every point is a cell of its own.
MOST_AXES = 3
_RINGS = 2
#: Ratio of the sides of two levels, by the number of coordinates a: a little below 2 / sqrt(a), see
#: `level_of`.
_RATIO = {1: 1.95, 2: 1.39, 3: 1.14}
_MARGIN = 0.999


class Trees(NamedTuple):
    """For each core the cell that it counts as, one that follows none, and for each window its tree."""

    cell_of: Array  # int32[points]
    leader: Array  # int32[windows, cells]: the cell that stands for the tree


def level_of(reach: float, axes: int) -> int:
    """The level whose cells are the widest with a diagonal below the range: side <= reach / sqrt(axes).

    As sides of neighbouring levels differ by less than 2 / sqrt(axes), also reach < 2 side: two rings are
    enough.
    """
    return math.floor(math.log(reach * _MARGIN / math.sqrt(axes)) / math.log(_RATIO[axes]))


def side_of(level: int, axes: int) -> float:
    return float(_RATIO[axes] ** level)


@leaf
def tree_of(leader: Array, cell: int, window: int) -> int:
    """The cell that stands for the tree of a cell; shortens the way there. leader: int32[cells, windows]

    A cell's leader leads on to the one that stands for its tree, which leads itself.
    """
    while leader[cell, window] != cell:
        leader[cell, window] = leader[leader[cell, window], window]
        cell = leader[cell, window]
    return cell


@leaf
def _followed(follows: Array, cell: int) -> int:
    """The one that a cell follows in the end, and that follows none; shortens the way there."""
    while follows[cell] != cell:
        follows[cell] = follows[follows[cell]]
        cell = follows[cell]
    return cell


@leaf
def _apart(leader: Array, one: int, other: int, both: int) -> int:
    """Those of the windows `both` in which two cells are in different trees."""
    apart = 0
    while both:
        window = lowest(both)
        both &= both - 1
        if leader[one, window] != leader[other, window]:
            if tree_of(leader, one, window) != tree_of(leader, other, window):
                apart |= 1 << window
    return apart


@leaf
def _join(leader: Array, one: int, other: int, windows: int) -> None:
    while windows:
        window = lowest(windows)
        windows &= windows - 1
        here, there = tree_of(leader, one, window), tree_of(leader, other, window)
        leader[max(here, there), window] = min(here, there)


@leaf
def _within(
    newest: Array, chained: Array, points: Array, mask: Array, one: int, other: int, apart: int,
    ranges: Array, table: Array, scale: float, reach: Array,
) -> int:  # fmt: skip
    """Those of the windows `apart` in which a pair of cores of two cells is within the range."""
    largest = ranges[-1]
    found = 0
    here = newest[one]
    while here >= 0 and apart:
        mine = mask[here] & apart
        if mine:
            there = newest[other]
            while there >= 0:
                both = mine & mask[there]
                if both:
                    distance = distance_of(points, here, there)
                    if distance <= largest:
                        both &= reach[rank_of(distance, ranges, table, scale)]
                        found |= both
                        apart &= ~both
                        mine &= ~both
                there = chained[there]
        here = chained[here]
    return found


@kernel
def _into_cells(
    points: Array, mask: Array, start: int, stop: int, side: float, table: Array, places: Array,
    cell_of: Array, chained: Array, newest: Array, held: Array,
) -> int:  # fmt: skip
    """Finds the cells of all points with a bit in their mask; returns how many cells there are."""
    axes = points.shape[1]
    used = 0
    for point in range(start, stop):
        if mask[point] == 0:
            continue
        x = cell_at(points[point, 0], side)
        y = cell_at(points[point, 1], side) if axes > 1 else 0
        z = cell_at(points[point, 2], side) if axes > 2 else 0
        cell = find_cell(table, places, x, y, z)
        if cell < 0:
            slot = ~cell
            cell = used
            used += 1
            table[slot] = cell
            places[cell, 0], places[cell, 1], places[cell, 2] = x, y, z
            newest[cell] = -1
            held[cell] = 0
        cell_of[point] = cell
        chained[point] = newest[cell]
        newest[cell] = point
        held[cell] |= mask[point]
    return used


@kernel
def _around(axes: int, ring: int) -> Array:
    """Half of the cells of a ring around one: the other half looks at this one. int64[cells, 3]"""
    out = np.empty(((2 * ring + 1) ** 3, 3), np.int64)
    found = 0
    across, above = ring if axes > 1 else 0, ring if axes > 2 else 0
    for i in range(-ring, 1):
        for j in range(-across, across + 1 if i < 0 else 1):
            for k in range(-above, above + 1 if i < 0 or j < 0 else 0):
                if max(abs(i), abs(j), abs(k)) == ring:
                    out[found, 0], out[found, 1], out[found, 2] = i, j, k
                    found += 1
    return out[:found]


@kernel
def grow(
    points: Array, mask: Array, start: int, stop: int, side: float, windows: int, asked: Asked, reach: Array
) -> Trees:
    """The trees of the cores that `mask` (int64[stop]) tells of points start..stop.

    First adjacent cells, then the second ring: by then nearly all cells there are in the same tree already.
    reach: int64[ranks + 1], the windows with a range of at least this rank.
    """
    ranges, slots_of_ranks, scale = asked.ranges, asked.table, asked.scale
    cores = 0
    for point in range(start, stop):
        cores += mask[point] != 0
    slots = 16
    while slots < 2 * cores:
        slots *= 2
    table, places = np.full(slots, -1, np.int32), np.empty((cores, 3), np.int64)
    cell_of, chained = np.zeros(stop, np.int32), np.empty(stop, np.int32)
    newest, held = np.empty(cores, np.int32), np.empty(cores, np.int64)
    used = _into_cells(points, mask, start, stop, side, table, places, cell_of, chained, newest, held)
    leader, follows, linked = np.empty((used, windows), np.int32), np.arange(used), np.zeros(used, np.int64)
    for cell in range(used):
        leader[cell, :] = cell
    for ring in range(1, _RINGS + 1):
        around = _around(points.shape[1], ring)
        for cell in range(used):
            x, y, z = places[cell, 0], places[cell, 1], places[cell, 2]
            one = _followed(follows, cell)
            for spot in range(len(around)):
                near = find_cell(table, places, x + around[spot, 0], y + around[spot, 1], z + around[spot, 2])
                if near < 0 or not held[cell] & held[near]:
                    continue
                other = _followed(follows, near)
                if one == other:
                    continue
                both = held[cell] & held[near]
                known = both & linked[one] & linked[other]
                apart = both & ~known | _apart(leader, one, other, known)
                joined = 0
                if apart:
                    joined = _within(
                        newest, chained, points, mask, cell, near, apart,
                        ranges, slots_of_ranks, scale, reach,
                    )  # fmt: skip
                if apart == joined and not held[one] & ~both:
                    joined &= linked[one]
                    follows[one] = other
                elif apart == joined and not held[other] & ~both:
                    joined &= linked[other]
                    follows[other] = one
                _join(leader, one, other, joined)
                linked[one] |= joined
                linked[other] |= joined
                one = _followed(follows, one)
    return _flat(cell_of, leader, follows, start, mask)


@kernel
def _flat(cell_of: Array, leader: Array, follows: Array, start: int, mask: Array) -> Trees:
    """Leaves only the cells that follow none, and in each window the one that stands for the tree."""
    cells, windows = leader.shape
    place = np.empty(cells, np.int32)
    left = 0
    for cell in range(cells):
        if follows[cell] == cell:
            place[cell] = left
            left += 1
    for cell in range(cells):
        place[cell] = place[_followed(follows, cell)]
    for point in range(start, len(cell_of)):
        if mask[point]:
            cell_of[point] = place[cell_of[point]]
    flat = np.empty((windows, left), np.int32)
    for cell in range(cells):
        if follows[cell] == cell:
            for window in range(windows):
                flat[window, place[cell]] = place[tree_of(leader, cell, window)]
    return Trees(cell_of, flat)


@kernel
def grow_points(
    points: Array, mask: Array, start: int, stop: int, grid: Grid, side: float, rings: int, windows: int,
    asked: Asked, reach: Array,
) -> Trees:  # fmt: skip
    """The same with every point a cell of its own, by the search grid: for many coordinates or huge ones."""
    ranges, table, scale = asked.ranges, asked.table, asked.scale
    cell_of = np.arange(stop).astype(np.int32)
    leader = np.empty((stop, windows), np.int32)
    for point in range(stop):
        leader[point, :] = point
    chains = np.empty((2 * rings + 1) ** min(3, points.shape[1]), np.int32)
    for point in range(start, stop):
        if not mask[point]:
            continue
        for chain in range(around(grid, points, point, start, side, rings, chains)):
            other = chains[chain]
            while other >= start:
                if other < point and mask[point] & mask[other]:
                    distance = distance_of(points, point, other)
                    if distance <= ranges[-1]:
                        joined = mask[point] & mask[other] & reach[rank_of(distance, ranges, table, scale)]
                        _join(leader, point, other, joined)
                other = grid.older[other]
    return _flat(cell_of, leader, np.arange(stop), 0, mask)
