"""Which cores belong together, for all window starts at once: a spanning forest grown backwards in time.

Two neighbouring points are connected in the window that starts at s exactly if s <= min(coretime(p),
coretime(q)). With these numbers as weights the clusters of all window starts are one hierarchy, that of a
maximum spanning forest: an earlier start only adds cores and joins trees, as in Kruskal's algorithm (the
paper's growth property across windows). So the forest is grown from the latest start to the earliest, and at
each start the trees are the clusters of that window:

    start 7:  cores with core time >= 7       start 3:  those with core time 3..6 as well
              (a b)   (c)                               (a b d c)   (e)

Points are not joined one by one. Small cells with a diagonal below the range hold only points that are
neighbours of each other, so the trees are trees of cells, and two cells need a single pair of cores within
the range to be joined. Cells have sides b^k, so that many ranges share the cells of one `level`; at most two
rings of cells around one can hold neighbours.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.searchgrid import Grid, around, cell_at, distance_of, find_cell

Array = np.ndarray[Any, Any]

#: More coordinates than this would have too many cells around one; then every point is a cell of its own.
MOST_AXES = 3
_RINGS = 2
#: Ratio of the sides of two levels, by the number of coordinates a: a little below 2 / sqrt(a), see
#: `level_of`.
_RATIO = {1: 1.95, 2: 1.39, 3: 1.14}
_MARGIN = 0.999


class Cells(NamedTuple):
    """The cells of one level and the points in them."""

    table: Array  # int32[2^k], open addressing: cell or -1
    places: Array  # int64[cells, 3]
    adjacent: Array  # int32[cells, 3^a - 1]: the adjacent cells that are older than the cell itself
    beyond: Array  # int32[cells, 5^a - 3^a]: those of the second ring
    degree: Array  # int32[cells, 2]: how many these are
    cell_of: Array  # int32[points]
    used: Array  # int64[1]: how many cells there are


class Trees(NamedTuple):
    """Cells joined so far: a cell's leader leads on to the one that stands for its tree, which leads itself.

    The cores of a cell are a chain from the one that came last; those from `settled` on came in an earlier
    round.
    """

    leader: Array  # int32[cells]
    newest: Array  # int32[cells], -1 if the cell has no core yet
    settled: Array  # int32[cells]
    chained: Array  # int32[points]: the core of the same cell that came before
    planted: Array  # int32[cells]: the cells that have cores
    grown: Array  # int64[1]: how many these are


def level_of(reach: float, axes: int) -> int:
    """The level whose cells are the widest with a diagonal below the range: side <= reach / sqrt(axes).

    As sides of neighbouring levels differ by less than 2 / sqrt(axes), also reach < 2 side: two rings are
    enough.
    """
    return math.floor(math.log(reach * _MARGIN / math.sqrt(axes)) / math.log(_RATIO[axes]))


def side_of(level: int, axes: int) -> float:
    return float(_RATIO[axes] ** level)


def new_cells(cells: int, points: int, axes: int) -> Cells:
    slots = 1 << max(4, (2 * cells - 1).bit_length())
    return Cells(
        np.full(slots, -1, np.int32),
        np.empty((cells, 3), np.int64),
        np.empty((cells, 3**axes - 1), np.int32),
        np.empty((cells, 5**axes - 3**axes), np.int32),
        np.empty((cells, 2), np.int32),
        np.empty(points, np.int32),
        np.zeros(1, np.int64),
    )


def new_trees(cells: int, points: int) -> Trees:
    return Trees(
        np.arange(cells, dtype=np.int32),
        np.full(cells, -1, np.int32),
        np.full(cells, -1, np.int32),
        np.empty(points, np.int32),
        np.empty(cells, np.int32),
        np.zeros(1, np.int64),
    )


@kernel
def _look_around(cells: Cells, cell: int, axes: int) -> None:
    """Notes the cells around a new one."""
    x, y, z = cells.places[cell, 0], cells.places[cell, 1], cells.places[cell, 2]
    rings_y = _RINGS if axes > 1 else 0
    rings_z = _RINGS if axes > 2 else 0
    adjacent = beyond = 0
    for i in range(-_RINGS, _RINGS + 1):
        for j in range(-rings_y, rings_y + 1):
            for k in range(-rings_z, rings_z + 1):
                other = find_cell(cells.table, cells.places, x + i, y + j, z + k)
                if other < 0 or other == cell:
                    continue
                if max(abs(i), abs(j), abs(k)) == 1:
                    cells.adjacent[cell, adjacent] = other
                    adjacent += 1
                else:
                    cells.beyond[cell, beyond] = other
                    beyond += 1
    cells.degree[cell, 0] = adjacent
    cells.degree[cell, 1] = beyond


@kernel
def into_cells(cells: Cells, points: Array, start: int, stop: int, side: float) -> int:
    """Finds the cells of points start..stop; returns where it stopped for want of room for a cell."""
    axes = points.shape[1]
    for point in range(start, stop):
        x = cell_at(points[point, 0], side)
        y = cell_at(points[point, 1], side) if axes > 1 else 0
        z = cell_at(points[point, 2], side) if axes > 2 else 0
        cell = find_cell(cells.table, cells.places, x, y, z)
        if cell < 0:
            slot = ~cell
            cell = cells.used[0]
            if cell == len(cells.places):
                return point
            cells.used[0] += 1
            cells.table[slot] = cell
            cells.places[cell, 0] = x
            cells.places[cell, 1] = y
            cells.places[cell, 2] = z
            _look_around(cells, cell, axes)
        cells.cell_of[point] = cell
    return stop


@kernel
def tree_of(leader: Array, cell: int) -> int:
    """The cell that stands for the tree of a cell; shortens the way there."""
    while leader[cell] != cell:
        leader[cell] = leader[leader[cell]]
        cell = leader[cell]
    return cell


@kernel
def _meet(points: Array, one: int, until: int, other: int, chained: Array, reach: float) -> bool:
    """Whether a core of the chain one..until is within the range of a core of the chain from `other`."""
    while one != until:
        candidate = other
        while candidate >= 0:
            if distance_of(points, one, candidate) <= reach:
                return True
            candidate = chained[candidate]
        one = chained[one]
    return False


@kernel
def _join_ring(trees: Trees, near: Array, degree: Array, points: Array, reach: float) -> None:
    """Joins cells with those around them in `near` where cores that are new in this round connect them.

    For two cells a and b: new cores of a with all of b, or older cores of a with new ones of b.
    """
    leader, newest, settled, chained = trees.leader, trees.newest, trees.settled, trees.chained
    for place in range(trees.grown[0]):
        cell = trees.planted[place]
        for entry in range(degree[cell]):
            other = near[cell, entry]
            if newest[other] < 0 or leader[cell] == leader[other]:
                continue
            if newest[cell] == settled[cell] and newest[other] == settled[other]:
                continue
            here, there = tree_of(leader, cell), tree_of(leader, other)
            if here == there:
                continue
            if _meet(points, newest[cell], settled[cell], newest[other], chained, reach) or _meet(
                points, newest[other], settled[other], settled[cell], chained, reach
            ):
                leader[max(here, there)] = min(here, there)


@kernel
def _flatten(trees: Trees) -> None:
    """Lets every cell with cores lead straight to the one that stands for its tree."""
    for place in range(trees.grown[0]):
        cell = trees.planted[place]
        trees.leader[cell] = tree_of(trees.leader, cell)


@kernel
def grow(
    trees: Trees, cells: Cells, points: Array, times: Array, start: int, below: int, stop: int, reach: float
) -> None:
    """Adds the cores with start <= core time < below, and joins the trees that they connect.

    Afterwards the leader of a cell with cores stands for its tree. First adjacent cells, then the second
    ring: by then nearly all cells there are in the same tree already.
    """
    for point in range(start, stop):
        if start <= times[point] < below:
            cell = cells.cell_of[point]
            if trees.newest[cell] < 0:
                trees.planted[trees.grown[0]] = cell
                trees.grown[0] += 1
            trees.chained[point] = trees.newest[cell]
            trees.newest[cell] = point
    _join_ring(trees, cells.adjacent, cells.degree[:, 0], points, reach)
    _flatten(trees)
    _join_ring(trees, cells.beyond, cells.degree[:, 1], points, reach)
    _flatten(trees)
    for place in range(trees.grown[0]):
        cell = trees.planted[place]
        trees.settled[cell] = trees.newest[cell]


@kernel
def grow_points(
    trees: Trees, grid: Grid, side: float, rings: int, points: Array, times: Array,
    start: int, below: int, stop: int, reach: float,
) -> None:  # fmt: skip
    """The same with every point a cell of its own, by the search grid: for many coordinates or huge ones."""
    chains = np.empty((2 * rings + 1) ** min(3, points.shape[1]), np.int32)
    for point in range(start, stop):
        if not start <= times[point] < below:
            continue
        found = around(grid, points, point, start, side, rings, chains)
        for chain in range(found):
            other = chains[chain]
            while other >= start:
                if trees.newest[other] >= 0 and distance_of(points, point, other) <= reach:
                    here, there = tree_of(trees.leader, point), tree_of(trees.leader, other)
                    trees.leader[max(here, there)] = min(here, there)
                other = grid.older[other]
        trees.newest[point] = point
        trees.planted[trees.grown[0]] = point
        trees.grown[0] += 1
    _flatten(trees)
