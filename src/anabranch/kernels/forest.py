"""Which cores belong together, for up to 63 windows of one level at once.

Two neighbouring points are connected in a window exactly if both are core there. All points of a cell are
neighbours of each other (`cells`), so clusters are trees of cells, and two cells need a single pair of cores
within the range to be joined.

Windows are the bits of a word. A cell knows in which of them it has a core. For two cells that
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

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import lowest
from anabranch.kernels.cells import RINGS, Cells
from anabranch.kernels.cores import BITS
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.ranks import Asked, rank_of
from anabranch.kernels.searchgrid import Grid, around, distance_of, square_of

Array = np.ndarray[Any, Any]

NOBODY = (1 << 31) - 1


class Trees(NamedTuple):
    """For each core the cell that it counts as, one that follows none; for each window the trees of cells."""

    cell_of: Array  # int32[points]
    leader: Array  # int32[windows, cells]: the cell that stands for the tree
    first: Array  # int32[windows, cells]: the earliest core of the tree of each cell that leads, or NOBODY


@leaf
def some_windows(masks: Array, low: int, count: int, start: int, mask: Array) -> None:
    """The windows low .. low + count - 1 of all words, at most 63, as one word: into mask[start:]."""
    word, shift = low // BITS, low % BITS
    wanted = (1 << count) - 1
    split = shift + count > BITS
    for point in range(start, len(mask)):
        bits = masks[point, word] >> shift
        if split:
            bits |= masks[point, word + 1] << (BITS - shift)
        mask[point] = bits & wanted


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
def _link(leader: Array, linked: Array, cell: int, windows: int) -> None:
    """A cell has a leader, itself at first, in the windows in which it is linked to another."""
    fresh = windows & ~linked[cell]
    linked[cell] |= windows
    while fresh:
        leader[cell, lowest(fresh)] = cell
        fresh &= fresh - 1


@leaf
def _join(leader: Array, linked: Array, one: int, other: int, windows: int) -> None:
    _link(leader, linked, one, windows)
    _link(leader, linked, other, windows)
    while windows:
        window = lowest(windows)
        windows &= windows - 1
        here, there = tree_of(leader, one, window), tree_of(leader, other, window)
        leader[max(here, there), window] = min(here, there)


@leaf
def _within(
    cells: Cells, points: Array, mask: Array, start: int, one: int, other: int, apart: int, asked: Asked,
    reach: Array, within_all: float, most: float,
) -> int:  # fmt: skip
    """Those of the windows `apart` in which a pair of cores of two cells is within the range.

    Squares of distances up to `within_all` are within all ranges; `most` is the largest of these.
    """
    older = cells.older
    found = 0
    here = cells.newest[one]
    while here >= start and apart:
        mine = mask[here] & apart
        if mine:
            there = cells.newest[other]
            while there >= start and mine:
                both = mine & mask[there]
                if both:
                    square = square_of(points, here, there)
                    if square > within_all:
                        distance = np.sqrt(square)
                        if distance <= most:
                            both &= reach[rank_of(distance, asked.ranges, asked.table, asked.scale)]
                        else:
                            both = 0
                    found |= both
                    apart &= ~both
                    mine &= ~both
                there = older[there]
        here = older[here]
    return found


@leaf
def _join_near(
    cells: Cells, ring: int, points: Array, mask: Array, start: int, asked: Asked, reach: Array,
    within_all: float, most: float, held: Array, linked: Array, leader: Array, follows: Array,
) -> None:  # fmt: skip
    """Joins all cells with those of a ring around them."""
    near, after = cells.near, cells.after
    for cell in range(len(held)):
        mine = held[cell]
        if not mine:
            continue
        one = _followed(follows, cell)
        for spot in range(after[cell * RINGS + ring], after[cell * RINGS + ring + 1]):
            both = mine & held[near[spot]]
            if not both:
                continue
            other = _followed(follows, near[spot])
            if one == other:
                continue
            known = both & linked[one] & linked[other]
            apart = both & ~known | _apart(leader, one, other, known)
            joined = 0
            if apart:
                joined = _within(
                    cells, points, mask, start, cell, near[spot], apart, asked, reach, within_all, most
                )
            if apart == joined and not held[one] & ~both:
                joined &= linked[one]
                follows[one] = other
            elif apart == joined and not held[other] & ~both:
                joined &= linked[other]
                follows[other] = one
            if joined:
                _join(leader, linked, one, other, joined)
            one = _followed(follows, one)


@leaf
def _hold(cell_of: Array, mask: Array, start: int, held: Array) -> None:
    for point in range(start, len(mask)):
        held[cell_of[point]] |= mask[point]


@kernel
def grow(
    cells: Cells, points: Array, mask: Array, start: int, windows: int, asked: Asked, reach: Array,
    least: float, most: float,
) -> Trees:  # fmt: skip
    """The trees of the cores that `mask` (int64[stop]) tells of points start..stop, which are in the cells.

    First adjacent cells, then the second ring: by then nearly all cells there are in the same tree already.
    reach: int64[ranks + 1], the windows with a range of at least this rank; ranges are least..most.
    """
    used = cells.used[0]
    held, linked = np.zeros(used, np.int64), np.zeros(used, np.int64)
    _hold(cells.cell_of, mask, start, held)
    leader, follows = np.empty((used, windows), np.int32), np.arange(used).astype(np.int32)
    for ring in range(RINGS):
        _join_near(
            cells, ring, points, mask, start, asked, reach, least * least * (1.0 - 1e-15), most,
            held, linked, leader, follows,
        )  # fmt: skip
    return _flat(cells.cell_of, leader, linked, held, follows, start, mask)


@leaf
def _places(held: Array, follows: Array, place: Array) -> int:
    """Numbers cells with cores that follow none, in `place`; the others get that of the one they follow."""
    left = 0
    for cell in range(len(held)):
        if held[cell] and follows[cell] == cell:
            place[cell] = left
            left += 1
    for cell in range(len(held)):
        if held[cell]:
            place[cell] = place[_followed(follows, cell)]
    return left


@leaf
def _lead(leader: Array, linked: Array, held: Array, follows: Array, place: Array, flat: Array) -> None:
    windows = leader.shape[1]
    for cell in range(len(held)):
        if held[cell] and follows[cell] == cell:
            for window in range(windows):
                tree = tree_of(leader, cell, window) if linked[cell] >> window & 1 else cell
                flat[window, place[cell]] = place[tree]


@leaf
def _first_cores(
    cell_of: Array, mask: Array, start: int, place: Array, flat: Array, seen: Array, counts_as: Array,
    first: Array,
) -> None:  # fmt: skip
    """The cell that each core counts as and the earliest core of each tree."""
    for point in range(start, len(mask)):
        if mask[point]:
            cell = place[cell_of[point]]
            counts_as[point] = cell
            bits = mask[point] & ~seen[cell]
            seen[cell] |= bits
            while bits:
                window = lowest(bits)
                bits &= bits - 1
                tree = flat[window, cell]
                first[window, tree] = min(first[window, tree], point)


@kernel
def _flat(
    cell_of: Array, leader: Array, linked: Array, held: Array, follows: Array, start: int, mask: Array
) -> Trees:
    """Leaves only cells with cores that follow none, and in each window the one that stands for the tree."""
    used, windows = leader.shape
    place = np.empty(used, np.int32)
    left = _places(held, follows, place)
    flat, first = np.empty((windows, left), np.int32), np.full((windows, left), NOBODY, np.int32)
    _lead(leader, linked, held, follows, place, flat)
    counts_as, seen = np.zeros(len(mask), np.int32), np.zeros(left, np.int64)
    _first_cores(cell_of, mask, start, place, flat, seen, counts_as, first)
    return Trees(counts_as, flat, first)


@kernel
def grow_points(
    points: Array, mask: Array, start: int, grid: Grid, side: float, rings: int, windows: int, asked: Asked,
    reach: Array,
) -> Trees:  # fmt: skip
    """The same with every point a cell of its own, by the search grid: for many coordinates or huge ones."""
    ranges, table, scale = asked.ranges, asked.table, asked.scale
    stop = len(mask)
    leader, linked = np.empty((stop, windows), np.int32), np.zeros(stop, np.int64)
    itself = np.arange(stop).astype(np.int32)
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
                        _join(leader, linked, point, other, joined)
                other = grid.older[other]
    held = mask.copy()
    held[:start] = 0
    return _flat(itself, leader, linked, held, itself.copy(), start, mask)
