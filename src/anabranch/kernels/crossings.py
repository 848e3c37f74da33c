"""Which clusters of a part reach over to points beyond it.

A part of the plane knows all neighbours of its own points, and of the border points around it some. What it
finds core is core: it may only find too few of the border points so. Where it does not know that a border
point is core, somebody else may: then all clusters with a core within the range of it are one. So for each
window in which a border point is not known to be core, all trees that it touches are noted.

    part A   |   part B        q is B's and a border point of A, which sees two of its neighbours, both core,
       p1    |                 of two trees. If B says that q is core, the two are one cluster, with q in it.
             |  q
       p2    |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import lowest
from anabranch.kernels.cores import BITS, Due
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.ranks import Asked, rank_of
from anabranch.kernels.roles import Woods
from anabranch.kernels.searchgrid import Grid, around, distance_of

Array = np.ndarray[Any, Any]


class Touched(NamedTuple):
    """A border point, a window in which it may be core, and a tree (its leading cell) that it touches."""

    point: Array  # int32[touched]
    window: Array  # int32[touched]
    tree: Array  # int32[touched]


@kernel
def _longer(old: Touched) -> Touched:
    new = Touched(np.empty(2 * len(old.point), np.int32), np.empty(2 * len(old.point), np.int32),
                  np.empty(2 * len(old.point), np.int32))  # fmt: skip
    new.point[: len(old.point)] = old.point
    new.window[: len(old.point)] = old.window
    new.tree[: len(old.point)] = old.tree
    return new


@leaf
def _is_noted(touched: Touched, low: int, high: int, window: int, tree: int) -> bool:
    for place in range(low, high):
        if touched.window[place] == window and touched.tree[place] == tree:
            return True
    return False


@leaf
def _touch(
    border: int, points: Array, masks: Array, woods: Woods, due: Due, grid: Grid, asked: Asked,
    chains: Array, count: int, wanted: Array, last: Array, touched: Touched, begin: int,
) -> int:  # fmt: skip
    """Notes from `begin` on what a point touches in the windows `wanted`; returns where its notes end, or -1
    if there is no room for them. chains: from where to look, `count` of them.
    """
    words, start, used = masks.shape[1], due.starts[0], begin
    last[:] = -1  # the tree that was noted last in each window: most often it is the only one
    for chain in range(count):
        other = chains[chain]
        while other >= start:
            distance = distance_of(points, border, other)
            if distance <= asked.ranges[-1]:
                row = rank_of(distance, asked.ranges, asked.table, asked.scale) * words
                for word in range(len(wanted)):
                    bits = wanted[word] & masks[other, word] & due.reach[row + word]
                    while bits:
                        window = word * BITS + lowest(bits)
                        bits &= bits - 1
                        tree = woods.leader[woods.at[window] + woods.cell_of[woods.part[window], other]]
                        if tree == last[window]:
                            continue
                        last[window] = tree
                        if not _is_noted(touched, begin, used, window, tree):
                            if used == len(touched.point):
                                return -1
                            touched.point[used] = border
                            touched.window[used], touched.tree[used] = window, tree
                            used += 1
            other = grid.older[other]
    return used


@leaf
def _unknown(due: Due, masks: Array, border: int, begun: int, wanted: Array) -> bool:
    """The windows that hold a point and in which it is not known to be core, into `wanted`; whether there are
    any. `begun` starts are no later than the point.
    """
    some, words = False, masks.shape[1]
    for word in range(len(wanted)):
        wanted[word] = due.alive[begun * words + word] & ~masks[border, word]
        some |= wanted[word] != 0
    return some


@kernel
def touched_by(
    borders: Array, points: Array, masks: Array, woods: Woods, due: Due, grid: Grid, side: float, rings: int,
    asked: Asked,
) -> Touched:  # fmt: skip
    """What the points `borders` (int32, ascending, from due.starts[0] on) touch; the grid has all points."""
    chains = np.empty((2 * rings + 1) ** min(3, points.shape[1]), np.int32)
    wanted = np.empty((len(due.rank) + BITS - 1) // BITS, np.int64)  # of the words that hold windows
    last = np.empty(len(due.rank), np.int32)
    touched = Touched(np.empty(256, np.int32), np.empty(256, np.int32), np.empty(256, np.int32))
    used = begun = 0
    for border in borders:
        while begun < len(due.starts) and due.starts[begun] <= border:
            begun += 1
        if not _unknown(due, masks, border, begun, wanted):
            continue
        count = around(grid, points, border, due.starts[0], side, rings, chains)
        while True:
            end = _touch(
                border, points, masks, woods, due, grid, asked, chains, count, wanted, last, touched, used
            )
            if end >= 0:
                break
            touched = _longer(touched)
        used = end
    return Touched(touched.point[:used], touched.window[:used], touched.tree[:used])
