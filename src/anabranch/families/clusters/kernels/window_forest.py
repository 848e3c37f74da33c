"""Which cores belong together, for up to 63 windows of one level at once.

**Cells.** A cell whose diagonal is below a range holds only points that are neighbours at this range. Sides
of cells are b^level, so that many ranges share the cells of one level. Neighbours of a point lie at most two
rings of cells away.

A point is put into its cell once. A cell searches once, when its first point comes, for the cells around it
that were there before: so every pair of cells is known to one of the two. Cells whose points have all left
stay until there is no room for more; then all cells are built again.

**Trees.** Two neighbouring points are connected in a window exactly if both are core there. All points of a
cell are neighbours of each other, so clusters are trees of cells, and two cells are joined by a single pair
of cores within the range.

Windows are the bits of a word. A cell knows in which of them it has a core. For two cells that are close,
distances between points are measured once for all windows in which both have cores and are not in one tree
already; a pair of cores joins the trees of all windows whose range is at least its distance.

Most cells *follow* another: one that has cores in all windows in which they have, and is in the same tree in
all of these. What joins a follower joins the cell that it follows. Where all cells around follow the same
one, as in dense regions, no window is looked at.

    windows      w0 w1 w2 w3          a joins b in w0 and w1: all it has, and b has these too, so a follows b.
    cell a        *  *                Whether c is in a's tree in w0 is then whether it is in b's.
    cell b        *  *  *
    cell c        *     *  *          c and b share w0 and w2, but neither follows the other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import int64

from anabranch.families.clusters.kernels.neighbour_lists import (
    QueryRanges,
    SearchGrid,
    around,
    cell_at,
    distance_of,
    find_cell,
    rank_of,
    square_of,
)
from anabranch.model.arrays import Floats, Ints, Ints32
from anabranch.numeric.bits import lowest
from anabranch.numeric.distances import square_limit
from anabranch.numeric.jit import kernel, leaf, loop
from anabranch.numeric.wide import NUMBERS, are, copy, differ, spread

#: Windows in a word; the sign is left alone.
BITS = 63
#: With more coordinates than this too many cells are around one; then every point is a cell of its own.
MOST_AXES = 3
RINGS = 2
#: Ratio of the sides of two levels, by the number of coordinates a: a little below 2 / sqrt(a), see
#: `level_of`.
_RATIO = {1: 1.95, 2: 1.39, 3: 1.14}
_MARGIN = 0.999
#: Cells of points without finite coordinates begin here, beyond all others.
_NOWHERE = (1 << 62) + 4 * RINGS
NOBODY = (1 << 31) - 1


# cells


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
    pairs = ((2 * RINGS + 1) ** axes - 1) // 2  # a cell is in twice as many pairs, each known to one cell
    return LevelCells(
        np.array([0, first, 0], np.int64),
        np.full(table_size, -1, np.int32),
        np.empty((most, 3), np.int64),
        np.empty(most, np.int64),
        np.empty((most, 4**axes), np.int32),
        np.empty(most, np.int32),
        np.empty(points, np.int32),
        np.empty(points, np.int32),
        np.empty(most * pairs + 1, np.int32),
        np.zeros(most * RINGS + 1, np.int32),
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


@loop
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


# windows and their trees


class WindowWord(NamedTuple):
    """Some windows of one level, at most 63, as the bits of a word."""

    windows: int  # how many
    start: int  # the first point of all of them
    mask: Ints  # [points]: the windows in which each point is core
    within: Ints  # [ranks + 1]: the windows with a range of at least this rank
    least: float  # range of all of them
    most: float


class Trees(NamedTuple):
    """For each window the trees of cells, but only of cells that follow none."""

    leader: Ints32  # [windows, cells]: the cell that stands for the tree
    first: Ints32  # [windows, cells]: the earliest core of the tree of each cell that leads, or NOBODY


class WindowTrees(NamedTuple):
    """The trees of all windows, one window after the other. A run is some windows in which points count as
    the same cells.
    """

    run: Ints  # [windows]: which of the runs
    cell_of: Ints32  # [runs, points]: the cell that a core counts as
    at: Ints  # [windows + 1]: where the cells of a window begin in `leader` and `first`
    leader: Ints32  # [windows, cells], flat
    first: Ints32  # [windows, cells], flat: the earliest core of each tree


class _Leaders(NamedTuple):
    """The trees while they grow. A cell has a row once it is linked to another. A row has one number per
    window, the next row on the way to the one that stands for the tree, which leads to itself.

    All windows of two rows are compared or joined at once (`numeric/wide`), 64 numbers at a time: a new row
    overwrites only what is not in use yet.
    """

    windows: int
    row_of: Ints32  # [cells], or -1
    cell_of: Ints32  # [rows]
    used: Ints  # [1]: number of rows
    linked: Ints  # [cells]: the windows in which a cell is linked to another
    leader: Ints32  # [rows * windows + NUMBERS]: a row is read with what is behind it


@kernel
def one_word(masks: Ints, low: int, windows: int, start: int) -> Ints:
    """The windows low .. low + windows - 1, at most 63, as one word for each row from `start` on; 0 for the
    rows before. masks: [rows, words]
    """
    mask = np.zeros(len(masks), np.int64)
    word, shift = low // BITS, low % BITS
    wanted = (1 << windows) - 1
    in_two_words = shift + windows > BITS
    for row in range(start, len(masks)):
        bits = masks[row, word] >> shift
        if in_two_words:
            bits |= masks[row, word + 1] << (BITS - shift)
        mask[row] = bits & wanted
    return mask


# trees while they grow


@kernel
def _new_leaders(cells: int, rows: int, windows: int) -> _Leaders:
    row_of, linked = np.empty(cells, np.int32), np.zeros(cells, np.int64)
    row_of[:] = -1
    return _Leaders(
        windows, row_of, np.empty(rows, np.int32), np.zeros(1, np.int64), linked,
        np.empty(rows * windows + NUMBERS, np.int32),
    )  # fmt: skip


@leaf
def _root(leaders: _Leaders, row: int, window: int) -> int:
    """The row that stands for the tree of a row; shortens the way there."""
    leader, windows = leaders.leader, leaders.windows
    while True:
        at = np.uint64(row * windows + window)
        next_ = int64(leader[at])
        if next_ == row:
            return row
        row = int64(leader[np.uint64(next_ * windows + window)])
        leader[at] = row


@leaf
def _apart_in(leaders: _Leaders, one: int, other: int, both: int) -> int:
    """Those of the windows `both`, in which two cells are linked, in which they are in different trees."""
    apart = 0
    if both:
        here, there = int64(leaders.row_of[one]), int64(leaders.row_of[other])
        both &= differ(leaders.leader, here * leaders.windows, there * leaders.windows)
        while both:
            window = lowest(both)
            both &= both - 1
            if _root(leaders, here, window) != _root(leaders, there, window):
                apart |= 1 << window
    return apart


@leaf
def _link(leaders: _Leaders, cell: int, windows: int) -> int:
    """Links a cell in some windows to itself; returns its row."""
    leaders.linked[cell] |= windows
    row = int64(leaders.row_of[cell])
    if row < 0:
        row = leaders.used[0]
        leaders.used[0] += 1
        leaders.row_of[cell], leaders.cell_of[row] = row, cell
        spread(leaders.leader, row * leaders.windows, row)
    return row


@leaf
def _join(leaders: _Leaders, one: int, other: int, windows: int) -> None:
    """Joins the trees of two cells in windows in which they are in different ones. Mostly one of the two
    leads to itself, and then it is led on to where the other is.
    """
    leader, here, there = leaders.leader, _link(leaders, one, windows), _link(leaders, other, windows)
    mine, theirs = here * leaders.windows, there * leaders.windows
    alone = windows & are(leader, mine, here)
    copy(leader, theirs, mine, alone)
    windows &= ~alone
    alone = windows & are(leader, theirs, there)
    copy(leader, mine, theirs, alone)
    windows &= ~alone
    while windows:
        window = lowest(windows)
        windows &= windows - 1
        top = _root(leaders, here, window)
        leader[top * leaders.windows + window] = _root(leaders, there, window)


# trees of cells


@leaf
def _followed(follows: Ints32, cell: int) -> int:
    """The cell that a cell follows in the end, and that follows none; shortens the way there.

    Whether a cell follows another cannot be predicted, but that the one it follows follows none.
    """
    up = int64(follows[np.uint64(cell)])
    while True:
        top = int64(follows[np.uint64(up)])
        if top == up:
            return up
        follows[np.uint64(cell)] = up = top


@leaf
def _within(
    cells: LevelCells, points: Floats, word: WindowWord, one: int, other: int, apart: int, ranges: QueryRanges
) -> int:
    """Those of the windows `apart` in which a pair of cores of two cells is within the range."""
    older, mask, start, most, limit = cells.older, word.mask, word.start, word.most, square_limit(word.most)
    within_all = word.least * word.least * (1.0 - 1e-15)  # squares up to this are within all ranges
    found = 0
    here = int64(cells.newest[one])
    while here >= start and apart:
        mine = mask[np.uint64(here)] & apart
        if mine:
            there = int64(cells.newest[other])
            while there >= start and mine:
                both = mine & mask[np.uint64(there)]
                if both:
                    square = square_of(points, here, there)
                    if square > within_all:
                        distance = np.sqrt(square) if square <= limit else np.inf
                        both = both & word.within[rank_of(distance, ranges)] if distance <= most else 0
                    found |= both
                    apart &= ~both
                    mine &= ~both
                there = int64(older[np.uint64(there)])
        here = int64(older[np.uint64(here)])
    return found


@leaf
def _join_close(
    cells: LevelCells, ring: int, points: Floats, word: WindowWord, ranges: QueryRanges, some: Ints,
    has_core: Ints, leaders: _Leaders, follows: Ints32,
) -> None:  # fmt: skip
    """Joins cells that have cores with those of a ring around them."""
    close, close_at, linked = cells.close, cells.close_at, leaders.linked
    for cell in some:
        mine = has_core[cell]
        one = _followed(follows, cell)
        for index in range(close_at[cell * RINGS + ring], close_at[cell * RINGS + ring + 1]):
            neighbour = int64(close[index])
            both = mine & has_core[np.uint64(neighbour)]
            if not both:
                continue
            other = _followed(follows, neighbour)
            if one == other:
                continue
            known = both & linked[one] & linked[other]
            apart = both & ~known | _apart_in(leaders, one, other, known)
            joined = 0
            if apart:
                joined = _within(cells, points, word, cell, neighbour, apart, ranges)
            if apart == joined and not has_core[one] & ~both:
                joined &= linked[one]
                follows[one] = other
            elif apart == joined and not has_core[other] & ~both:
                joined &= linked[other]
                follows[other] = one
            if joined:
                _join(leaders, one, other, joined)
            one = _followed(follows, one)


@leaf
def _collect_cores(cell_of: Ints32, word: WindowWord, has_core: Ints) -> None:
    for point in range(word.start, len(word.mask)):
        has_core[np.uint64(cell_of[point])] |= word.mask[point]


@kernel
def grow_cells(
    cells: LevelCells, points: Floats, word: WindowWord, ranges: QueryRanges, counts_as: Ints32
) -> Trees:
    """The trees of the points from word.start on, all of which are in the cells.

    counts_as, [points], gets for each core the cell that it counts as, one that follows none. First come
    adjacent cells, then the second ring: by then nearly all cells there are in the same tree already.
    """
    used = cells.used[0]
    has_core = np.zeros(used, np.int64)
    _collect_cores(cells.cell_of, word, has_core)
    some = np.flatnonzero(has_core)
    leaders, follows = _new_leaders(used, len(some), word.windows), _numbers_to(used)
    for ring in range(RINGS):
        _join_close(cells, ring, points, word, ranges, some, has_core, leaders, follows)
    return _flat(cells.cell_of, leaders, some, follows, word, counts_as)


@kernel
def _numbers_to(count: int) -> Ints32:
    numbers = np.empty(count, np.int32)
    for number in range(count):
        numbers[number] = number
    return numbers


@leaf
def _number_cells(some: Ints, follows: Ints32, index_of: Ints32) -> int:
    """Numbers the cells with cores that follow none; the others get the number of the one they follow."""
    left = 0
    for cell in some:
        if follows[cell] == cell:
            index_of[cell] = left
            left += 1
    for cell in some:
        index_of[cell] = index_of[_followed(follows, cell)]
    return left


@leaf
def _write_leaders(leaders: _Leaders, some: Ints, follows: Ints32, index_of: Ints32, flat: Ints32) -> None:
    for cell in some:
        if follows[cell] == cell:
            for window in range(leaders.windows):
                tree = cell
                if leaders.linked[cell] >> window & 1:
                    row = _root(leaders, int64(leaders.row_of[cell]), window)
                    tree = int64(leaders.cell_of[row])
                flat[window, index_of[cell]] = index_of[tree]


@leaf
def _write_first_cores(
    cell_of: Ints32, word: WindowWord, index_of: Ints32, seen: Ints, counts_as: Ints32, trees: Trees
) -> None:
    """The cell that each core counts as and the earliest core of each tree."""
    mask, first = word.mask, trees.first
    for point in range(word.start, len(mask)):
        if mask[point]:
            cell = np.uint64(index_of[np.uint64(cell_of[point])])
            counts_as[point] = cell
            bits = mask[point] & ~seen[cell]
            seen[cell] |= bits
            while bits:
                window = lowest(bits)
                bits &= bits - 1
                tree = np.uint64(trees.leader[window, cell])
                first[window, tree] = min(first[window, tree], point)


@kernel
def _flat(
    cell_of: Ints32, leaders: _Leaders, some: Ints, follows: Ints32, word: WindowWord, counts_as: Ints32
) -> Trees:
    """Leaves only cells with cores that follow none, and in each window the one that stands for the tree."""
    windows, index_of = leaders.windows, np.empty(len(follows), np.int32)
    left = _number_cells(some, follows, index_of)
    trees = Trees(np.empty((windows, left), np.int32), np.empty((windows, left), np.int32))
    trees.first[:] = NOBODY
    _write_leaders(leaders, some, follows, index_of, trees.leader)
    _write_first_cores(cell_of, word, index_of, np.zeros(left, np.int64), counts_as, trees)
    return trees


# trees of points


@leaf
def _join_points(
    grid: SearchGrid, word: WindowWord, ranges: QueryRanges, chains: Ints32, leaders: _Leaders
) -> None:
    mask, largest = word.mask, ranges.values[-1]
    for point in range(word.start, len(mask)):
        if not mask[point]:
            continue
        for chain in range(around(grid, point, word.start, chains)):
            other = int64(chains[chain])
            while other >= word.start:
                if other < point and mask[point] & mask[other]:
                    distance = distance_of(grid.points, point, other)
                    if distance <= largest:
                        both = mask[point] & mask[other] & word.within[rank_of(distance, ranges)]
                        known = both & leaders.linked[point] & leaders.linked[other]
                        apart = both & ~known | _apart_in(leaders, point, other, known)
                        if apart:
                            _join(leaders, point, other, apart)
                other = int64(grid.older[other])


@kernel
def grow_points(grid: SearchGrid, word: WindowWord, ranges: QueryRanges, counts_as: Ints32) -> Trees:
    """The same as `grow_cells` with every point a cell of its own: for many coordinates or huge ones."""
    stop = len(word.mask)
    leaders = _new_leaders(stop, stop - word.start, word.windows)
    chains = np.empty((2 * grid.rings + 1) ** min(3, grid.points.shape[1]), np.int32)
    _join_points(grid, word, ranges, chains, leaders)
    return _flat(_numbers_to(stop), leaders, np.flatnonzero(word.mask), _numbers_to(stop), word, counts_as)
