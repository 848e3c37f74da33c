"""A grid over a regional server's objects and queries: each cell has a list of the objects in it and one bit
per query that watches it; the many that stay where they are have an index of their own. The k nearest objects
of a query are found through it, from the inside out.
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.families.moving.kernels.arrays import (
    COUNT,
    FENCE,
    FENCE_BITS,
    NEVER,
    ZERO,
    FenceIndex,
    Int,
    Metric,
    NameArrays,
    ObjectGrid,
    Record,
    ServerArrays,
)
from anabranch.families.moving.kernels.object_names import closer
from anabranch.families.moving.kernels.shapes import (
    distance,
    extent,
    grid_x,
    inner_extent,
    truth,
    turn_beside,
)
from anabranch.model.arrays import Array, Floats, Ints
from anabranch.numeric.jit import inner, kernel, leaf, twig

_ONE = np.uint64(1)
_DEGREE = math.pi / 180

#: Bounds are made this much smaller, so that rounding cannot hide an object.
_SAFE = 1 - 1e-9


@leaf
def _step_in(value: float, low: float, size: float, count: Int) -> Int:
    """Returns the column or row of a value. It is monotone, so the cells between those of a range's two ends
    hold all that lies between.
    """
    steps = (value - low) / size
    if not steps > 0.0:
        return np.int64(0)
    return np.int64(count - 1) if steps >= count else np.int64(steps)


@leaf
def column_of(grid: ObjectGrid, x: float) -> Int:
    return _step_in(x, grid.x, grid.width, grid.columns)


@leaf
def row_of(grid: ObjectGrid, y: float) -> Int:
    return _step_in(y, grid.y, grid.height, grid.rows)


@leaf
def _add_to_cell(objects: Array, grid: ObjectGrid, who: Int, cell: Int) -> None:
    """Puts an object at the head of a cell's list."""
    head = grid.first[cell]
    this = objects[who]
    this.cell = cell
    this.next = head
    this.previous = -1
    if head >= 0:
        objects[head].previous = who
    grid.first[cell] = who


@leaf
def remove_from_cell(objects: Array, grid: ObjectGrid, who: Int) -> None:
    this = objects[who]
    if this.previous >= 0:
        objects[this.previous].next = this.next
    else:
        grid.first[this.cell] = this.next
    if this.next >= 0:
        objects[this.next].previous = this.previous


@leaf
def cell_of(metric: Metric, grid: ObjectGrid, x: float, y: float) -> Int:
    return row_of(grid, y) * grid.columns + column_of(grid, grid_x(metric, x))


@leaf
def add_to_grid(metric: Metric, objects: Array, grid: ObjectGrid, who: Int) -> None:
    this = objects[who]
    _add_to_cell(objects, grid, who, cell_of(metric, grid, this.x, this.y))


@kernel
def add_all_to_grid(metric: Metric, objects: Array, grid: ObjectGrid) -> None:
    """Puts all present objects into an empty grid."""
    for who in range(len(objects)):
        if objects[who].present:
            add_to_grid(metric, objects, grid, who)


# The objects of a server, and the queries with a focal object, are in two lists by the tick at which they
# expire; `ends[which]` are the oldest and the youngest. A report moves its object to the young end, and a
# later report never expires earlier. So the list is always in order, and only its old end has to be looked
# at.


@leaf
def remove_by_age(records: Array, ends: Ints, which: Int, who: Int) -> None:
    """Removes `who` from the list by age, if it is in it."""
    this = records[who]
    younger, older = this.younger, this.older
    if younger < 0 and older < 0 and ends[which, 0] != who:
        return
    if older >= 0:
        records[older].younger = younger
    else:
        ends[which, 0] = younger
    if younger >= 0:
        records[younger].older = older
    else:
        ends[which, 1] = older
    this.younger = -1
    this.older = -1


@leaf
def add_by_age(records: Array, ends: Ints, which: Int, who: Int) -> None:
    """Adds `who` behind those that expire no later, if it can expire at all: at the young end, except where
    a query starts with an old report of its focal object.
    """
    remove_by_age(records, ends, which, who)
    expires = records[who].expires
    if expires == NEVER:
        return
    younger, older = np.int64(-1), np.int64(ends[which, 1])
    while older >= 0 and records[older].expires > expires:
        younger, older = older, np.int64(records[older].older)
    records[who].older = older
    records[who].younger = younger
    if older >= 0:
        records[older].younger = who
    else:
        ends[which, 0] = who
    if younger >= 0:
        records[younger].older = who
    else:
        ends[which, 1] = who


@kernel
def list_by_age(records: Array, ends: Ints, which: Int, order: Ints) -> None:
    """Builds the list again from those in `order`, which are sorted by the tick at which they expire."""
    ends[which, 0] = -1
    ends[which, 1] = -1
    for index in range(len(order)):
        add_by_age(records, ends, which, order[index])


@kernel
def remove_one_by_age(records: Array, ends: Ints, which: Int, who: Int) -> None:
    remove_by_age(records, ends, which, who)


@leaf
def bits_at(index: FenceIndex, cell: Int, word: Int) -> Record:
    """Returns the bits (FENCE_BITS) of a word of fences at a cell that one of them touches."""
    entry = index.first[cell]
    while index.bits[entry].word != word:
        entry += 1
    return index.bits[entry]


@leaf
def cells_in_reach(metric: Metric, query: Record, grid: ObjectGrid) -> tuple[Int, Int, Int, Int]:
    """Returns (first column, last column, first row, last row) of the cells that a query's range touches."""
    low_x, high_x, low_y, high_y = extent(metric, np.int64(query.shape), query.a, query.b, query.x, query.y)
    first, last = column_of(grid, low_x), column_of(grid, high_x)
    return first, last, row_of(grid, low_y), row_of(grid, high_y)


@leaf
def _set_bit(grid: ObjectGrid, query: Record, cell: Int, on: bool) -> None:
    """Says in a cell that a query watches it, or that it does not."""
    if query.place >= 0:
        entry = bits_at(grid.fences, cell, np.int64(query.place) >> 6)
        bit = _ONE << np.uint64(query.place & 63)
        if on:
            entry.watched |= bit
        else:
            entry.watched &= ~bit
            entry.covered &= ~bit
        return
    word, bit = np.int64(query.bit) >> 6, _ONE << np.uint64(query.bit & 63)
    if on:
        grid.watched[cell, word] |= bit
    else:
        grid.watched[cell, word] &= ~bit
        grid.covered[cell, word] &= ~bit


@leaf
def _set_covered(grid: ObjectGrid, query: Record, cell: Int) -> None:
    """Says in a cell that whoever is in it is in the query's range."""
    if query.place >= 0:
        entry = bits_at(grid.fences, cell, np.int64(query.place) >> 6)
        entry.covered |= _ONE << np.uint64(query.place & 63)
    else:
        grid.covered[cell, np.int64(query.bit) >> 6] |= _ONE << np.uint64(query.bit & 63)


@twig
def _set_watch(query: Record, grid: ObjectGrid, on: bool) -> None:
    for row in range(query.low_row, query.high_row + 1):
        for column in range(query.low_column, query.high_column + 1):
            _set_bit(grid, query, row * grid.columns + column, on)
    if on:
        for row in range(query.inner_low_row, query.inner_high_row + 1):
            for column in range(query.inner_low_column, query.inner_high_column + 1):
                _set_covered(grid, query, row * grid.columns + column)


@twig
def unwatch(query: Record, grid: ObjectGrid) -> None:
    _set_watch(query, grid, False)
    query.low_column = 0
    query.high_column = -1
    query.inner_low_column = 0
    query.inner_high_column = -1


@leaf
def _inner_cells(metric: Metric, query: Record, grid: ObjectGrid) -> tuple[Int, Int, Int, Int]:
    """Returns (first column, last column, first row, last row) of the cells that lie in the range as a whole;
    none where more than being in the range counts.

    A value in a column after that of a bound is beyond the bound, as columns are monotone. That leaves out
    the cells at the grid's border, which hold all that lies beyond.
    """
    low_x, high_x, low_y, high_y = inner_extent(
        metric, np.int64(query.shape), query.a, query.b, query.x, query.y
    )
    if query.condition >= 0 or query.mode > COUNT or not (low_x < high_x and low_y < high_y):
        return np.int64(0), np.int64(-1), np.int64(0), np.int64(-1)
    first, last = column_of(grid, low_x) + 1, column_of(grid, high_x) - 1
    return first, last, row_of(grid, low_y) + 1, row_of(grid, high_y) - 1


@twig
def watch_range(metric: Metric, query: Record, grid: ObjectGrid) -> None:
    """Has a query watch the cells of its range instead of those it watched; none, if it is not live."""
    if not query.live:
        unwatch(query, grid)
        return
    first, last, low, high = cells_in_reach(metric, query, grid)
    inner_first, inner_last, inner_low, inner_high = _inner_cells(metric, query, grid)
    if (
        query.low_column == first
        and query.high_column == last
        and query.low_row == low
        and query.high_row == high
        and query.inner_low_column == inner_first
        and query.inner_high_column == inner_last
        and query.inner_low_row == inner_low
        and query.inner_high_row == inner_high
    ):
        return
    _set_watch(query, grid, False)
    query.low_column = first
    query.high_column = last
    query.low_row = low
    query.high_row = high
    query.inner_low_column = inner_first
    query.inner_high_column = inner_last
    query.inner_low_row = inner_low
    query.inner_high_row = inner_high
    _set_watch(query, grid, True)


@kernel
def watch_all(metric: Metric, queries: Array, grid: ObjectGrid) -> None:
    """Has all queries watch the cells of a grid that none has watched before."""
    for slot in range(len(queries)):
        query = queries[slot]
        query.low_column = 0
        query.high_column = -1
        query.inner_low_column = 0
        query.inner_high_column = -1
        watch_range(metric, query, grid)


@kernel
def unwatch_one(queries: Array, slot: Int, grid: ObjectGrid) -> None:
    unwatch(queries[slot], grid)


# The index of fences: which of many queries around fixed points watch a cell. A bit per query and cell would
# be mostly zeros: with 23,000 fences a cell is touched by some dozens. Fences that lie near each other and
# are of similar size get places near each other, so those of a cell share a few words of 64 bits, and only
# these words are kept:
#
#     cell 17    word 3: ..1.11.1..   word 4: 1.1.......   word 90: .....1....
#     cell 18    word 3: ..1.11....   word 4: 1.1.1.....
#
# The index is built for all fences there are, also for those that do not watch yet. Their bits are set and
# cleared in place when they start and end.


@kernel
def count_cells(metric: Metric, queries: Array, slots: Ints, grid: ObjectGrid) -> Int:
    """Returns how many cells these queries touch, each counted for itself."""
    total = ZERO
    for index in range(len(slots)):
        first, last, low, high = cells_in_reach(metric, queries[slots[index]], grid)
        total += (last - first + 1) * (high - low + 1)
    return total


@kernel
def place_fences(queries: Array, slots: Ints) -> Array:
    """Gives the queries in `slots` places 0, 1, ...; returns the fences (FENCE)."""
    fences = np.empty(len(slots), FENCE)
    for place in range(len(slots)):
        query, fence = queries[slots[place]], fences[place]
        query.place = place
        fence.x = query.x
        fence.y = query.y
        fence.a = query.a
        fence.b = query.b
        fence.number = query.number
        fence.slot = slots[place]
        fence.condition = query.condition
        fence.mode = query.mode
        fence.shape = query.shape
    return fences


@kernel
def index_cells(metric: Metric, queries: Array, fences: Array, grid: ObjectGrid) -> FenceIndex:
    """Returns the index of fences (FENCE) that no cell is watched by yet."""
    cells = grid.columns * grid.rows
    first = np.zeros(cells + 1, np.int32)
    seen = np.full(cells, np.int32(-1))  # the last word that touched a cell
    for place in range(len(fences)):
        left, right, low, high = cells_in_reach(metric, queries[fences[place].slot], grid)
        for row in range(low, high + 1):
            for cell in range(row * grid.columns + left, row * grid.columns + right + 1):
                if seen[cell] != place // 64:
                    seen[cell] = place // 64
                    first[cell + 1] += 1
    for cell in range(cells):
        first[cell + 1] += first[cell]
        seen[cell] = -1
    bits, used = np.zeros(first[cells], FENCE_BITS), first[:cells].copy()
    for place in range(len(fences)):
        left, right, low, high = cells_in_reach(metric, queries[fences[place].slot], grid)
        for row in range(low, high + 1):
            for cell in range(row * grid.columns + left, row * grid.columns + right + 1):
                if seen[cell] != place // 64:
                    seen[cell] = place // 64
                    bits[used[cell]].word = place // 64
                    used[cell] += 1
    return FenceIndex(fences, first, bits)


# the nearest objects of a query


@leaf
def _offer_cell(
    metric: Metric,
    server: ServerArrays,
    query: Record,
    grid: ObjectGrid,
    names: NameArrays,
    cell: Int,
    found: Int,
    who: Ints,
    far: Floats,
) -> Int:
    """Offers the objects of a cell to the list (who, far) of at most k, which is in rank; returns how many
    are in it.
    """
    k = query.k
    candidate = grid.first[cell]
    while candidate >= 0:
        this = np.int64(candidate)
        that = server.objects[this]
        candidate = that.next
        if this == query.focal:
            continue
        d = distance(metric, that.x, that.y, query.x, query.y)
        if found == k and not closer(names, d, this, far[k - 1], who[k - 1]):
            continue
        if not truth(server.truths, this, np.int64(query.condition)):
            continue
        index = found if found < k else k - 1
        while index > 0 and closer(names, d, this, far[index - 1], who[index - 1]):
            who[index] = who[index - 1]
            far[index] = far[index - 1]
            index -= 1
        who[index] = this
        far[index] = d
        found += 1 if found < k else 0
    return found


@inner
def nearest(
    metric: Metric,
    server: ServerArrays,
    query: Record,
    grid: ObjectGrid,
    names: NameArrays,
    who: Ints,
    far: Floats,
) -> Int:
    """Fills (who, far) with the k nearest of a query, in rank; returns how many there are."""
    if metric.globe:
        return _nearest_on_globe(metric, server, query, grid, names, who, far)
    middle, level = column_of(grid, query.x), row_of(grid, query.y)
    found = ZERO
    for ring in range(max(grid.columns, grid.rows)):
        if ring > 0:
            bound = _ring_bound(grid, query.x, query.y, middle, level, ring)
            if bound == math.inf or (found == query.k and bound > far[found - 1]):
                break
        for row in range(max(level - ring, 0), min(level + ring, grid.rows - 1) + 1):
            across_row = row == level - ring or row == level + ring
            step = 1 if across_row or ring == 0 else 2 * ring  # only the two ends of the rows in between
            for column in range(middle - ring, middle + ring + 1, step):
                if 0 <= column < grid.columns:
                    cell = row * grid.columns + column
                    found = _offer_cell(metric, server, query, grid, names, cell, found, who, far)
    return found


@leaf
def _ring_bound(grid: ObjectGrid, x: float, y: float, middle: Int, level: Int, ring: Int) -> float:
    """Nothing in this ring of cells or beyond is nearer than this, the nearest of the ring's sides;
    infinite if there is no such cell.
    """
    bound = math.inf
    if middle - ring >= 0:
        bound = min(bound, x - (grid.x + (middle - ring + 1) * grid.width))
    if middle + ring < grid.columns:
        bound = min(bound, grid.x + (middle + ring) * grid.width - x)
    if level - ring >= 0:
        bound = min(bound, y - (grid.y + (level - ring + 1) * grid.height))
    if level + ring < grid.rows:
        bound = min(bound, grid.y + (level + ring) * grid.height - y)
    return bound * _SAFE - 1e-9 * (abs(x) + abs(y) + abs(grid.x) + abs(grid.y) + grid.width + grid.height)


@inner
def _nearest_on_globe(
    metric: Metric,
    server: ServerArrays,
    query: Record,
    grid: ObjectGrid,
    names: NameArrays,
    who: Ints,
    far: Floats,
) -> Int:
    """Rows outward from the focal point's; in a row, cells outward both ways, without those that are too
    far by latitude or longitude.
    """
    x, y = grid_x(metric, query.x), query.y
    middle, level = column_of(grid, x), row_of(grid, y)
    beside = np.empty(grid.columns, np.float64)
    for index in range(grid.columns):
        beside[index] = _meridian_bound(metric.radius, grid, index, middle, x, y)
    found = ZERO
    for step in range(2 * grid.rows):
        row = level + (step + 1) // 2 if step % 2 else level - step // 2
        if row < 0 or row >= grid.rows:
            continue
        above = grid.y + row * grid.height - y if row > level else y - (grid.y + (row + 1) * grid.height)
        tall = (above - 1e-6) * _DEGREE * metric.radius * _SAFE if row != level else 0.0
        if found == query.k and tall > far[found - 1]:
            continue
        for side in range(2 * grid.columns):
            column = middle + (side + 1) // 2 if side % 2 else middle - side // 2
            if 0 <= column < grid.columns and not (found == query.k and beside[column] > far[found - 1]):
                cell = row * grid.columns + column
                found = _offer_cell(metric, server, query, grid, names, cell, found, who, far)
    return found


@leaf
def _meridian_bound(radius: float, grid: ObjectGrid, column: Int, middle: Int, x: float, y: float) -> float:
    """A distance that no point of a column is nearer than: a meridian l degrees away is at least
    asin(cos(latitude) sin(l)) away, for l up to a quarter turn, and beyond that as far as the pole.
    """
    if (
        column == middle or column == 0 or column == grid.columns - 1
    ):  # the border columns hold all that lies beyond
        return 0.0
    apart = turn_beside(grid.x + column * grid.width, grid.x + (column + 1) * grid.width, x) - 1e-6
    if apart <= 0.0:
        return 0.0
    return math.asin(math.sin(min(apart, 90.0) * _DEGREE) * math.cos(y * _DEGREE)) * radius * _SAFE
