"""Where a group is split over zones: what a part knows of the clusters that cross its border, and how the
clusters of all parts become one.

A part knows all neighbours of its own points, and some of those of the border points around it. A point that
it finds core is core. But it may find too few of the border points to be core: their owners know better. If a
border point is core, all clusters with a core within the range of it are one cluster. So for each window in
which a border point is not known to be core, a part reports all trees that the point touches.

    part A   |   part B        q is B's and a border point of A. A sees two of its neighbours, both core, of
       p1    |                 two trees. If B says that q is core, the two are one cluster, with q in it.
             |  q
       p2    |

To merge parts, their cells are put side by side. Where the owner of a border point finds it core, the owner's
tree, the trees in which another part has it and the trees that it touches there are one. An edge belongs to
the nearest core that any part found, the earliest of equally near ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from anabranch.families.clusters.kernels.neighbour_lists import (
    QueryRanges,
    SearchGrid,
    around,
    distance_of,
    rank_of,
)
from anabranch.families.clusters.kernels.point_roles import DueWindows, EdgePoints, core_in, pair_of
from anabranch.families.clusters.kernels.window_forest import BITS, NOBODY, WindowTrees
from anabranch.model.arrays import Floats, Ints, Ints32
from anabranch.numeric.bits import lowest
from anabranch.numeric.jit import kernel, leaf, zero
from anabranch.numeric.slots import grown

_LEAST_ROOM = 256


class TouchedTrees(NamedTuple):
    """A border point, a window in which it may be core, and a tree (its leading cell) that it touches."""

    point: Ints32  # [touched]
    window: Ints32  # [touched]
    tree: Ints32  # [touched]


class _TouchScratch(NamedTuple):
    chains: Ints32  # [cells around a point]
    wanted: Ints  # [words that hold windows]: the windows in which a point is not known to be core
    last: Ints32  # [windows]: the tree that was added last in each window: most often it is the only one


# what a part knows


def find_touched(
    borders: Ints32, masks: Ints, trees: WindowTrees, due: DueWindows, grid: SearchGrid, ranges: QueryRanges
) -> TouchedTrees:
    """The trees that the points `borders` touch. These ascend and are in a window; the grid has all points.
    masks: [points, words]
    """
    touched = TouchedTrees(*(np.empty(_LEAST_ROOM, np.int32) for _ in range(3)))
    done, used = _find_touched(borders, 0, masks, trees, due, grid, ranges, touched, 0)
    while done < len(borders):
        touched = TouchedTrees(*(grown(column, 2 * len(column), used) for column in touched))
        done, used = _find_touched(borders, done, masks, trees, due, grid, ranges, touched, used)
    return TouchedTrees(*(column[:used] for column in touched))


@leaf
def _is_there(touched: TouchedTrees, low: int, high: int, window: int, tree: int) -> bool:
    for index in range(low, high):
        if touched.window[index] == window and touched.tree[index] == tree:
            return True
    return False


@leaf
def _add_touched(
    border: int, masks: Ints, trees: WindowTrees, due: DueWindows, grid: SearchGrid, ranges: QueryRanges,
    scratch: _TouchScratch, touched: TouchedTrees, begin: int,
) -> int:  # fmt: skip
    """Adds from `begin` on what a point touches in the windows scratch.wanted; returns where this ends, or -1
    if there is no room for it.
    """
    wanted, last, words, used = scratch.wanted, scratch.last, masks.shape[1], begin
    start, largest = int64(due.starts[0]), ranges.values[-1]
    for window in range(len(last)):
        last[window] = -1
    for chain in range(around(grid, border, start, scratch.chains)):
        other = int64(scratch.chains[chain])
        while other >= start:
            distance = distance_of(grid.points, border, other)
            if distance <= largest:
                row = rank_of(distance, ranges) * words
                for word in range(len(wanted)):
                    bits = wanted[word] & masks[other, word] & due.reach[row + word]
                    while bits:
                        window = word * BITS + lowest(bits)
                        bits &= bits - 1
                        tree = trees.leader[trees.at[window] + trees.cell_of[trees.run[window], other]]
                        if tree == last[window]:
                            continue
                        last[window] = tree
                        if not _is_there(touched, begin, used, window, tree):
                            if used == len(touched.point):
                                return -1
                            touched.point[used] = border
                            touched.window[used], touched.tree[used] = window, tree
                            used += 1
            other = int64(grid.older[other])
    return used


@leaf
def _unknown_in(due: DueWindows, masks: Ints, border: int, started: int, wanted: Ints) -> bool:
    """Writes the windows that hold a point and in which it is not known to be core; returns whether there are
    any. `started` starts are no later than the point.
    """
    some, words = False, masks.shape[1]
    for word in range(len(wanted)):
        wanted[word] = due.alive[started * words + word] & ~masks[border, word]
        some |= wanted[word] != 0
    return some


@kernel
def _find_touched(
    borders: Ints32, done: int, masks: Ints, trees: WindowTrees, due: DueWindows, grid: SearchGrid,
    ranges: QueryRanges, touched: TouchedTrees, used: int,
) -> tuple[int, int]:  # fmt: skip
    """Goes on with borders[done]; returns how many are done and how many trees they touch."""
    scratch = _TouchScratch(
        np.empty((2 * grid.rings + 1) ** min(3, grid.points.shape[1]), np.int32),
        np.empty((len(due.rank) + BITS - 1) // BITS, np.int64),
        np.empty(len(due.rank), np.int32),
    )
    started = 0
    while done < len(borders):
        border = int64(borders[done])
        while started < len(due.starts) and due.starts[started] <= border:
            started += 1
        if _unknown_in(due, masks, border, started, scratch.wanted):
            end = _add_touched(border, masks, trees, due, grid, ranges, scratch, touched, used)
            if end < 0:
                break
            used = end
        done += 1
    return done, used


# parts become one


@leaf
def _root(leader: Ints32, low: int, cell: int) -> int:
    """The cell that stands for the tree of a cell of a window whose cells begin at `low`; shortens the
    way.
    """
    while leader[low + cell] != cell:
        leader[low + cell] = leader[low + leader[low + cell]]
        cell = int64(leader[low + cell])
    return cell


@leaf
def _join(trees: WindowTrees, window: int, one: int, other: int) -> None:
    leader, first, low = trees.leader, trees.first, trees.at[window]
    here, there = _root(leader, low, one), _root(leader, low, other)
    if here != there:
        kept, gone = min(here, there), max(here, there)
        leader[low + gone] = kept
        first[low + kept] = min(first[low + kept], first[low + gone])
        first[low + gone] = NOBODY


@kernel
def join_known(trees: WindowTrees, masks: Ints, borders: Ints32, known: Ints, cells: Ints32) -> None:
    """Joins trees at the border points of a part that the part knows to be core.

    masks: [points, words], what owners say; known: [borders, words], the windows in which the part knows it;
    cells: [runs, borders], the cells that they count as there.
    """
    for border in range(len(borders)):
        point = borders[border]
        for word in range(known.shape[1]):
            bits = known[border, word] & masks[point, word]
            while bits:
                window = word * BITS + lowest(bits)
                bits &= bits - 1
                run = trees.run[window]
                _join(trees, window, int64(cells[run, border]), int64(trees.cell_of[run, point]))


@kernel
def join_touched(trees: WindowTrees, masks: Ints, touched: TouchedTrees, shift: Ints32) -> None:
    """Joins the trees that border points touch where these are core.

    shift: [windows], where the cells of the part that reports it begin among those of all parts.
    """
    for link in range(len(touched.point)):
        point, window = touched.point[link], int64(touched.window[link])
        if masks[point, window // BITS] >> (window % BITS) & 1:
            here = int64(touched.tree[link] + shift[window])
            _join(trees, window, here, int64(trees.cell_of[trees.run[window], point]))


@kernel
def flatten(trees: WindowTrees) -> None:
    """Makes all cells know the one that stands for their tree."""
    for window in range(len(trees.run)):
        low = trees.at[window]
        for cell in range(trees.at[window + 1] - low):
            trees.leader[low + cell] = _root(trees.leader, low, cell)


def nearest_edges(
    points: Ints32, cores: Ints32, windows: Ints32, masks: Ints, coordinates: Floats
) -> EdgePoints:
    """Of all edges that parts found, the one with the nearest core for each point and window; none for points
    that are core. points, cores, windows: [edges]; coordinates: [points, axes]
    """
    order, count = np.argsort(windows, kind="stable"), masks.shape[1] * BITS
    ends = np.searchsorted(windows[order], np.arange(count), side="right")
    edges = EdgePoints(np.empty(len(points), np.int64), np.empty(count, np.int64), np.empty(count, np.int64))
    _choose_edges(points[order], cores[order], ends, masks, coordinates, edges)
    return edges


@kernel
def _choose_edges(
    points: Ints32, cores: Ints32, ends: Ints, masks: Ints, coordinates: Floats, edges: EdgePoints
) -> None:
    """points, cores: [edges], window by window; ends: [windows]"""
    index_of = np.empty(len(masks), np.int64)  # where the edge of each point is among the chosen ones
    index_of[:] = -1
    pairs, used, edge = edges.pairs, 0, zero()
    for window in range(len(ends)):
        edges.begin[window] = used
        while edge < ends[window]:
            point, core = int64(points[edge]), int64(cores[edge])
            edge += 1
            if masks[point, window // BITS] >> (window % BITS) & 1:
                continue
            index = index_of[point]
            if index < edges.begin[window]:
                index_of[point] = used
                pairs[used] = pair_of(point, core)
                used += 1
                continue
            other = core_in(pairs[index])
            before, now = distance_of(coordinates, point, other), distance_of(coordinates, point, core)
            if now < before or (now == before and core < other):
                pairs[index] = pair_of(point, core)
        edges.end[window] = used
