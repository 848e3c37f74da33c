"""Who enters and who leaves ranges in a tick.

Each search is a leaf that fills a list of hits and makes nothing; what becomes of the hits is the caller's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.moving_arrays import (
    COUNT,
    LOST,
    MINUS,
    NEAREST,
    OBJECTS,
    PLUS,
    RENEWED,
    UNTOUCHED,
    ZERO,
    Array,
    Grid,
    Int,
    Names,
    Server,
    Space,
    emit,
)
from anabranch.kernels.moving_grid import column_of, row_of
from anabranch.kernels.moving_shapes import distance, extent, in_range
from anabranch.kernels.moving_values import better, coordinate

#: _PLACE[(bit * _DE_BRUIJN) >> 58] is the place of the only bit that is set.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACE = np.zeros(64, np.int64)
for _bit in range(64):
    _PLACE[((1 << _bit) * 0x03F79D71B4CB0A89 & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit
_SHIFT = np.uint64(58)
_ONE = np.uint64(1)


@leaf
def touch(query: Any, place: Int, how: Int, touched: Array, count: Int) -> Int:
    """Notes that a query's value or list is in doubt; returns how many are."""
    if query.touched == UNTOUCHED:
        query.old_value = query.value
        query.old_who = query.who
        touched[count] = place
        count += 1
    if how > query.touched:
        query.touched = how
    return count


@leaf
def _stays(space: Space, query: Any, who: Int, moves: Array, move_truths: Array, row: Int) -> bool:
    """Whether an object is in the range after this tick's moves, of which it has the one at `row` (-1: it
    is gone).
    """
    if row < 0 or not query.live:
        return False
    move = moves[row]
    if move.leaves:
        return False
    return in_range(space, query, who, move.number, move.x, move.y, move_truths, row, query.x, query.y)


@leaf
def _leaving(
    space: Space,
    objects: Array,
    truths: Array,
    query: Any,
    grid: Grid,
    moves: Array,
    move_truths: Array,
    moved: Array,
    hits: Array,
) -> Int:
    """Fills `hits` with the objects of a changed query's old range that are not in the new one; before the
    moves are carried out.
    """
    found = ZERO
    old_x, old_y = query.old_x, query.old_y
    low_x, high_x, low_y, high_y = extent(space, query.shape, query.a, query.b, old_x, old_y)
    first, last = column_of(grid, low_x), column_of(grid, high_x)
    for row in range(row_of(grid, low_y), row_of(grid, high_y) + 1):
        for column in range(first, last + 1):
            candidate = grid.first[row * grid.columns + column]
            while candidate >= 0:
                who = np.int64(candidate)
                this = objects[who]
                candidate = this.after
                if not in_range(space, query, who, this.number, this.x, this.y, truths, who, old_x, old_y):
                    continue
                if this.moved >= 0:
                    stays = _stays(space, query, who, moves, move_truths, moved[this.moved].row)
                else:
                    stays = query.live and in_range(
                        space, query, who, this.number, this.x, this.y, truths, who, query.x, query.y
                    )
                if not stays:
                    hits[found] = who
                    found += 1
    return found


@kernel
def leave_changed(
    space: Space,
    server: Server,
    query: Any,
    grid: Grid,
    moves: Array,
    move_truths: Array,
    moved: Array,
    tick: Int,
    hits: Array,
    rows: Array,
    count: Int,
) -> tuple[Array, Int]:
    """Minus rows for the objects that a changed query's range leaves behind. Before the moves are carried
    out.
    """
    found = _leaving(space, server.objects, server.truths, query, grid, moves, move_truths, moved, hits)
    for spot in range(found):
        this = server.objects[hits[spot]]
        x, y = this.x, this.y
        if this.moved >= 0 and moved[this.moved].row >= 0:
            move = moves[moved[this.moved].row]
            x, y = move.x, move.y
        far = distance(space, x, y, query.x, query.y) if query.known else math.nan
        rows = emit(rows, count, tick, query.number, MINUS, hits[spot], x, y, far)
        count += 1
    return rows, count


@leaf
def _was_in(
    space: Space,
    this: Any,
    truths: Array,
    query: Any,
    who: Int,
    moved: Array,
    old_truths: Array,
    x: float,
    y: float,
) -> bool:
    """Whether an object was in a range before this tick's moves, which have been carried out; (x, y) was
    the focal point.
    """
    if this.moved < 0:
        return in_range(space, query, who, this.number, this.x, this.y, truths, who, x, y)
    that = moved[this.moved]
    if not that.present:
        return False
    return in_range(space, query, who, that.number, that.x, that.y, old_truths, this.moved, x, y)


@leaf
def _entering(
    space: Space,
    objects: Array,
    truths: Array,
    query: Any,
    grid: Grid,
    moved: Array,
    old_truths: Array,
    hits: Array,
) -> Int:
    """Fills `hits` with the objects of a changed query's new range that were not in the old one; after the
    moves.
    """
    found = ZERO
    x, y = query.x, query.y
    for row in range(query.low_row, query.high_row + 1):
        for column in range(query.low_column, query.high_column + 1):
            candidate = grid.first[row * grid.columns + column]
            while candidate >= 0:
                who = np.int64(candidate)
                this = objects[who]
                candidate = this.after
                if not in_range(space, query, who, this.number, this.x, this.y, truths, who, x, y):
                    continue
                if query.old_live and _was_in(
                    space, this, truths, query, who, moved, old_truths, query.old_x, query.old_y
                ):
                    continue
                hits[found] = who
                found += 1
    return found


@kernel
def enter_changed(
    space: Space,
    server: Server,
    query: Any,
    grid: Grid,
    moved: Array,
    old_truths: Array,
    tick: Int,
    hits: Array,
    rows: Array,
    count: Int,
) -> tuple[Array, Int]:
    """Plus rows for the objects that a changed query's range comes upon. After the moves."""
    found = _entering(space, server.objects, server.truths, query, grid, moved, old_truths, hits)
    for spot in range(found):
        this = server.objects[hits[spot]]
        far = distance(space, this.x, this.y, query.x, query.y)
        rows = emit(rows, count, tick, query.number, PLUS, hits[spot], this.x, this.y, far)
        count += 1
    return rows, count


@leaf
def _meeting(
    space: Space,
    objects: Array,
    truths: Array,
    queries: Array,
    grid: Grid,
    moved: Array,
    old_truths: Array,
    spot: Int,
    latest: Array,
    hits: Array,
) -> Int:
    """Fills `hits` with 4 * place + 2 * was + now for the unchanged queries whose range a moved object was
    in or is in, without those for objects that it stays in: they have nothing to say. Queries that cover both
    the old and the new cell are such, if they saw the old report: `latest` is the latest start of a word's.
    """
    that = moved[spot]
    this = objects[that.who]
    found = ZERO
    if not (that.present or this.present):
        return found
    old = that.cell if that.present else np.int64(this.cell)
    new = np.int64(this.cell) if this.present else old
    stays = that.present and this.present
    for word in range(grid.watched.shape[1]):
        bits = grid.watched[old, word] | grid.watched[new, word]
        if stays and that.number >= latest[word]:
            bits &= ~(grid.covered[old, word] & grid.covered[new, word])
        while bits:
            bit = bits & (~bits + _ONE)
            bits ^= bit
            place = word * 64 + _PLACE[np.int64((bit * _DE_BRUIJN) >> _SHIFT)]
            query = queries[place]
            if query.changed:
                continue
            x, y = query.x, query.y
            was = that.present and in_range(
                space, query, that.who, that.number, that.x, that.y, old_truths, spot, x, y
            )
            now = this.present and in_range(
                space, query, that.who, this.number, this.x, this.y, truths, that.who, x, y
            )
            if was != now or (was and query.mode > COUNT):
                hits[found] = 4 * place + 2 * was + now
                found += 1
    return found


@kernel
def _latest_starts(queries: Array) -> Array:
    """int64[words]: the latest start among the queries of each word of the grid's bits."""
    latest = np.zeros(len(queries) // 64, np.int64)
    for place in range(len(queries)):
        if queries[place].number >= 0:
            latest[place // 64] = max(latest[place // 64], queries[place].start)
    return latest


@kernel
def meet(
    space: Space,
    server: Server,
    grid: Grid,
    names: Names,
    moved: Array,
    old_truths: Array,
    moving: Int,
    tick: Int,
    hits: Array,
    touched: Array,
    doubts: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int, Int]:
    """(rows, count, how many queries are in doubt): moved objects against the unchanged queries that watch
    their cells.
    """
    latest = _latest_starts(server.queries)
    for spot in range(moving):
        found = _meeting(
            space, server.objects, server.truths, server.queries, grid, moved, old_truths, spot, latest, hits
        )
        who = moved[spot].who
        this = server.objects[who]
        for hit in range(found):
            place, was, now = hits[hit] >> 2, (hits[hit] & 2) != 0, (hits[hit] & 1) != 0
            query = server.queries[place]
            if query.mode == OBJECTS:
                far = distance(space, this.x, this.y, query.x, query.y)
                rows = emit(rows, count, tick, query.number, PLUS if now else MINUS, who, this.x, this.y, far)
                count += 1
            else:
                doubts = _meet_value(query, place, names, who, this.x, this.y, was, now, touched, doubts)
    return rows, count, doubts


@leaf
def _meet_value(
    query: Any,
    place: Int,
    names: Names,
    who: Int,
    x: float,
    y: float,
    was: bool,
    now: bool,
    touched: Array,
    doubts: Int,
) -> Int:
    """What a moved object that was or is in range means for a count, an extreme, or a list; returns how
    many are in doubt.
    """
    if query.mode == NEAREST:
        return touch(query, place, LOST, touched, doubts)
    if query.mode == COUNT:
        doubts = touch(query, place, RENEWED, touched, doubts)
        query.value += 1 if now else -1
        return doubts
    value = coordinate(query.mode, x, y)
    if query.who == who:
        if not now or better(names, query.mode, query.value, who, value, who):
            return touch(query, place, LOST, touched, doubts)  # it is worse now: others may be better
    elif not now or (query.who >= 0 and not better(names, query.mode, value, who, query.value, query.who)):
        return doubts
    doubts = touch(query, place, RENEWED, touched, doubts)
    query.value = value
    query.who = who
    return doubts
