"""A grid over a regional server's objects (lists of them, one a cell) and queries (bits of those that watch
a cell).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.moving_arrays import COUNT, NEVER, Array, Grid, Int, Space
from anabranch.kernels.moving_shapes import across, extent, inner_extent

_ONE = np.uint64(1)


@leaf
def step_in(value: float, low: float, size: float, count: Int) -> Int:
    """The column or row of a value. Monotone, so the cells between those of a range's two ends hold all
    that lies between.
    """
    place = (value - low) / size
    if not place > 0.0:
        return np.int64(0)
    return np.int64(count - 1) if place >= count else np.int64(place)


@leaf
def column_of(grid: Grid, x: float) -> Int:
    return step_in(x, grid.x, grid.width, grid.columns)


@leaf
def row_of(grid: Grid, y: float) -> Int:
    return step_in(y, grid.y, grid.height, grid.rows)


@leaf
def attach(objects: Array, grid: Grid, who: Int, cell: Int) -> None:
    """Puts an object at the head of a cell's list."""
    head = grid.first[cell]
    this = objects[who]
    this.cell = cell
    this.after = head
    this.before = -1
    if head >= 0:
        objects[head].before = who
    grid.first[cell] = who


@leaf
def detach(objects: Array, grid: Grid, who: Int) -> None:
    this = objects[who]
    if this.before >= 0:
        objects[this.before].after = this.after
    else:
        grid.first[this.cell] = this.after
    if this.after >= 0:
        objects[this.after].before = this.before


@leaf
def place_in_grid(space: Space, objects: Array, grid: Grid, who: Int) -> None:
    this = objects[who]
    cell = row_of(grid, this.y) * grid.columns + column_of(grid, across(space, this.x))
    attach(objects, grid, who, cell)


@kernel
def attach_all(space: Space, objects: Array, grid: Grid) -> None:
    """Puts all present objects into an empty grid."""
    for who in range(len(objects)):
        if objects[who].present:
            place_in_grid(space, objects, grid, who)


# The objects of a server, and the queries with a focal object, are in two lists by the tick at which they
# are gone; `ends[which]` are the oldest and the youngest. A report moves its object to the young end, and a
# later report is never gone earlier, so the list is always in order and its old end is all there is to look
# at.


@leaf
def forget(records: Array, ends: Array, which: Int, who: Int) -> None:
    """Takes `who` out of the list by age; nothing happens if it is not in it."""
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
def remember(records: Array, ends: Array, which: Int, who: Int) -> None:
    """Puts `who` at the young end, if it can be gone at all."""
    forget(records, ends, which, who)
    if records[who].gone == NEVER:
        return
    last = ends[which, 1]
    records[who].older = last
    ends[which, 1] = who
    if last >= 0:
        records[last].younger = who
    else:
        ends[which, 0] = who


@kernel
def remember_all(records: Array, ends: Array, which: Int, order: Array) -> None:
    """The list anew from those in `order`, which are sorted by the tick at which they are gone."""
    ends[which, 0] = -1
    ends[which, 1] = -1
    for place in range(len(order)):
        remember(records, ends, which, order[place])


@kernel
def forget_one(records: Array, ends: Array, which: Int, who: Int) -> None:
    forget(records, ends, which, who)


@leaf
def _set_watch(query: Any, place: Int, grid: Grid, on: bool) -> None:
    word, bit = place >> 6, _ONE << np.uint64(place & 63)
    for row in range(query.low_row, query.high_row + 1):
        for column in range(query.low_column, query.high_column + 1):
            cell = row * grid.columns + column
            if on:
                grid.watched[cell, word] |= bit
            else:
                grid.watched[cell, word] &= ~bit
                grid.covered[cell, word] &= ~bit
    if on:
        for row in range(query.inner_low_row, query.inner_high_row + 1):
            for column in range(query.inner_low_column, query.inner_high_column + 1):
                grid.covered[row * grid.columns + column, word] |= bit


@leaf
def unwatch(query: Any, place: Int, grid: Grid) -> None:
    _set_watch(query, place, grid, False)
    query.low_column = 0
    query.high_column = -1
    query.inner_low_column = 0
    query.inner_high_column = -1


@leaf
def _inner_cells(space: Space, query: Any, grid: Grid) -> tuple[Int, Int, Int, Int]:
    """(first column, last column, first row, last row) of cells that lie in the range as a whole, none where
    more than being in the range counts.

    A value in a column after that of a bound is beyond the bound, as columns are monotone. That leaves out
    the cells at the grid's border, which hold all that lies beyond.
    """
    low_x, high_x, low_y, high_y = inner_extent(space, query.shape, query.a, query.b, query.x, query.y)
    if query.condition >= 0 or query.mode > COUNT or not (low_x < high_x and low_y < high_y):
        return np.int64(0), np.int64(-1), np.int64(0), np.int64(-1)
    first, last = column_of(grid, low_x) + 1, column_of(grid, high_x) - 1
    return first, last, row_of(grid, low_y) + 1, row_of(grid, high_y) - 1


@leaf
def watch_range(space: Space, query: Any, place: Int, grid: Grid) -> None:
    """Has a query watch the cells of its range instead of those it watched; none, if it is not live."""
    if not query.live:
        unwatch(query, place, grid)
        return
    low_x, high_x, low_y, high_y = extent(space, query.shape, query.a, query.b, query.x, query.y)
    first, last = column_of(grid, low_x), column_of(grid, high_x)
    low, high = row_of(grid, low_y), row_of(grid, high_y)
    inner_first, inner_last, inner_low, inner_high = _inner_cells(space, query, grid)
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
    _set_watch(query, place, grid, False)
    query.low_column = first
    query.high_column = last
    query.low_row = low
    query.high_row = high
    query.inner_low_column = inner_first
    query.inner_high_column = inner_last
    query.inner_low_row = inner_low
    query.inner_high_row = inner_high
    _set_watch(query, place, grid, True)


@kernel
def watch_all(space: Space, queries: Array, grid: Grid) -> None:
    """Has all queries watch the cells of a grid that none has watched before."""
    for place in range(len(queries)):
        queries[place].low_column = 0
        queries[place].high_column = -1
        queries[place].inner_low_column = 0
        queries[place].inner_high_column = -1
        watch_range(space, queries[place], place, grid)


@kernel
def unwatch_one(queries: Array, place: Int, grid: Grid) -> None:
    unwatch(queries[place], place, grid)
