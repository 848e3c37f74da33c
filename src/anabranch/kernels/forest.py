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
from anabranch.kernels.distances import square_limit
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.leaders import Leaders, apart_in, join, new_leaders, tree_of
from anabranch.kernels.ranks import Asked, rank_of
from anabranch.kernels.searchgrid import Grid, around, distance_of, square_of

Array = np.ndarray[Any, Any]

NOBODY = (1 << 31) - 1


class Trees(NamedTuple):
    """For each window the trees of cells, but only of those that follow none."""

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
def _followed(follows: Array, cell: int) -> int:
    """The one that a cell follows in the end, and that follows none; shortens the way there.

    Whether a cell follows any cannot be foretold, but that the one it follows follows none.
    """
    up = follows[np.uint64(cell)]
    while True:
        top = follows[np.uint64(up)]
        if top == up:
            return up
        follows[np.uint64(cell)] = up = top


@leaf
def _within(
    cells: Cells, points: Array, mask: Array, start: int, one: int, other: int, apart: int, asked: Asked,
    reach: Array, within_all: float, most: float,
) -> int:  # fmt: skip
    """Those of the windows `apart` in which a pair of cores of two cells is within the range.

    Squares of distances up to `within_all` are within all ranges; `most` is the largest of these.
    """
    older, limit = cells.older, square_limit(most)
    found = 0
    here = cells.newest[one]
    while here >= start and apart:
        mine = mask[np.uint64(here)] & apart
        if mine:
            there = cells.newest[other]
            while there >= start and mine:
                both = mine & mask[np.uint64(there)]
                if both:
                    square = square_of(points, here, there)
                    if square > within_all:
                        distance = np.sqrt(square) if square <= limit else np.inf
                        if distance <= most:
                            both &= reach[rank_of(distance, asked.ranges, asked.table, asked.scale)]
                        else:
                            both = 0
                    found |= both
                    apart &= ~both
                    mine &= ~both
                there = older[np.uint64(there)]
        here = older[np.uint64(here)]
    return found


@leaf
def _join_near(
    cells: Cells, ring: int, points: Array, mask: Array, start: int, asked: Asked, reach: Array,
    within_all: float, most: float, some: Array, held: Array, leaders: Leaders, follows: Array,
) -> None:  # fmt: skip
    """Joins cells that have cores with those of a ring around them."""
    near, after, linked = cells.near, cells.after, leaders.linked
    for cell in some:
        mine = held[cell]
        one = _followed(follows, cell)
        for spot in range(after[cell * RINGS + ring], after[cell * RINGS + ring + 1]):
            both = mine & held[np.uint64(near[spot])]
            if not both:
                continue
            other = _followed(follows, near[spot])
            if one == other:
                continue
            known = both & linked[one] & linked[other]
            apart = both & ~known | apart_in(leaders, one, other, known)
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
                join(leaders, one, other, joined)
            one = _followed(follows, one)


@leaf
def _hold(cell_of: Array, mask: Array, start: int, held: Array) -> None:
    for point in range(start, len(mask)):
        held[np.uint64(cell_of[point])] |= mask[point]


@kernel
def _one_word(masks: Array, low: int, windows: int, start: int) -> Array:
    """The windows low .. low + windows - 1 as one word for each row from `start` on, 0 for those before."""
    mask = np.zeros(len(masks), np.int64)
    some_windows(masks, low, windows, start, mask)
    return mask


@kernel
def grow(
    cells: Cells, points: Array, masks: Array, low: int, windows: int, start: int, asked: Asked, reach: Array,
    least: float, most: float, counts_as: Array,
) -> Trees:  # fmt: skip
    """The trees of points start..stop, which are in the cells, in the windows from `low` on, at most 63; and
    for each core the cell that it counts as, one that follows none, into counts_as (int32[stop]).

    masks: int64[stop, words], the cores; reach: int64[ranks + 1, words], the windows with a range of at least
    this rank; ranges of these windows are least..most. First come adjacent cells, then the second ring: by
    then nearly all cells there are in the same tree already.
    """
    mask, within = _one_word(masks, low, windows, start), _one_word(reach, low, windows, 0)
    used = cells.used[0]
    held = np.zeros(used, np.int64)
    _hold(cells.cell_of, mask, start, held)
    follows = np.arange(used).astype(np.int32)
    some = np.flatnonzero(held)
    leaders = new_leaders(used, len(some), windows)
    for ring in range(RINGS):
        _join_near(
            cells, ring, points, mask, start, asked, within, least * least * (1.0 - 1e-15), most,
            some, held, leaders, follows,
        )  # fmt: skip
    return _flat(cells.cell_of, leaders, some, follows, start, mask, counts_as)


@leaf
def _places(some: Array, follows: Array, place: Array) -> int:
    """Numbers cells with cores that follow none, in `place`; the others get that of the one they follow."""
    left = 0
    for cell in some:
        if follows[cell] == cell:
            place[cell] = left
            left += 1
    for cell in some:
        place[cell] = place[_followed(follows, cell)]
    return left


@leaf
def _lead(leaders: Leaders, some: Array, follows: Array, place: Array, flat: Array) -> None:
    for cell in some:
        if follows[cell] == cell:
            for window in range(leaders.windows):
                tree = cell
                if leaders.linked[cell] >> window & 1:
                    tree = leaders.cell_of[tree_of(leaders, leaders.row_of[cell], window)]
                flat[window, place[cell]] = place[tree]


@leaf
def _first_cores(
    cell_of: Array, mask: Array, start: int, place: Array, flat: Array, seen: Array, counts_as: Array,
    first: Array,
) -> None:  # fmt: skip
    """The cell that each core counts as and the earliest core of each tree."""
    for point in range(start, len(mask)):
        if mask[point]:
            cell = np.uint64(place[np.uint64(cell_of[point])])
            counts_as[point] = cell
            bits = mask[point] & ~seen[cell]
            seen[cell] |= bits
            while bits:
                window = lowest(bits)
                bits &= bits - 1
                tree = flat[window, cell]
                first[window, np.uint64(tree)] = min(first[window, np.uint64(tree)], point)


@kernel
def _flat(
    cell_of: Array, leaders: Leaders, some: Array, follows: Array, start: int, mask: Array, counts_as: Array
) -> Trees:
    """Leaves only cells with cores that follow none, and in each window the one that stands for the tree."""
    windows, place = leaders.windows, np.empty(len(follows), np.int32)
    left = _places(some, follows, place)
    flat, first = np.empty((windows, left), np.int32), np.full((windows, left), NOBODY, np.int32)
    _lead(leaders, some, follows, place, flat)
    _first_cores(cell_of, mask, start, place, flat, np.zeros(left, np.int64), counts_as, first)
    return Trees(flat, first)


@kernel
def grow_points(
    points: Array, masks: Array, low: int, windows: int, start: int, grid: Grid, side: float, rings: int,
    asked: Asked, reach: Array, counts_as: Array,
) -> Trees:  # fmt: skip
    """The same with every point a cell of its own, by the search grid: for many coordinates or huge ones."""
    mask, within = _one_word(masks, low, windows, start), _one_word(reach, low, windows, 0)
    ranges, table, scale = asked.ranges, asked.table, asked.scale
    stop = len(mask)
    leaders, itself = new_leaders(stop, stop - start, windows), np.arange(stop).astype(np.int32)
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
                        both = mask[point] & mask[other] & within[rank_of(distance, ranges, table, scale)]
                        known = both & leaders.linked[point] & leaders.linked[other]
                        apart = both & ~known | apart_in(leaders, point, other, known)
                        if apart:
                            join(leaders, point, other, apart)
                other = grid.older[other]
    return _flat(itself, leaders, np.flatnonzero(mask), itself.copy(), start, mask, counts_as)
