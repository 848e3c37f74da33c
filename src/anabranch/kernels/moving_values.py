"""What becomes of local counts, extremes and lists of nearest objects in a tick."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.moving_arrays import (
    COUNT,
    DROPPED,
    LOST,
    MAX_X,
    MIN_X,
    MIN_Y,
    MINUS,
    NEAREST,
    PLUS,
    QUERY_BLOCK,
    UNTOUCHED,
    VALUE,
    Array,
    Grid,
    Int,
    Names,
    Server,
    Space,
    emit,
)
from anabranch.kernels.moving_grid import watch_range
from anabranch.kernels.moving_names import less
from anabranch.kernels.moving_nearest import nearest
from anabranch.kernels.moving_search import note_need
from anabranch.kernels.moving_shapes import distance, in_range


@leaf
def coordinate(mode: Int, x: float, y: float) -> float:
    return x if mode == MIN_X or mode == MAX_X else y


@leaf
def better(names: Names, mode: Int, value: float, who: Int, other: float, other_who: Int) -> bool:
    """Whether an object has the better coordinate; at equal ones the smaller name ranks first."""
    if value == other:
        return less(names, who, other_who)
    return value < other if mode == MIN_X or mode == MIN_Y else value > other


@leaf
def _recount(space: Space, server: Server, query: Any, grid: Grid, names: Names) -> None:
    """The local count or extreme of a live query from all objects in its range."""
    query.value = 0.0 if query.mode == COUNT else math.nan
    query.who = -1
    for row in range(query.low_row, query.high_row + 1):
        for column in range(query.low_column, query.high_column + 1):
            candidate = grid.first[row * grid.columns + column]
            while candidate >= 0:
                who = np.int64(candidate)
                this = server.objects[who]
                candidate = this.after
                if not in_range(
                    space, query, who, this.number, this.x, this.y, server.truths, who, query.x, query.y
                ):
                    continue
                if query.mode == COUNT:
                    query.value += 1
                    continue
                value = coordinate(query.mode, this.x, this.y)
                if query.who < 0 or better(names, query.mode, value, who, query.value, query.who):
                    query.value = value
                    query.who = who


@kernel
def _settle_value(
    space: Space, server: Server, query: Any, grid: Grid, names: Names, tick: Int, rows: Array, count: Int
) -> tuple[Array, Int]:
    """A row if a local count or extreme changed, or if this server begins or ends to participate."""
    was_live = query.old_live if query.changed else np.uint8(1)
    if not query.live:
        query.value = 0.0
        query.who = -1
        if was_live:
            rows = emit(rows, count, tick, query.number, DROPPED, query.who, math.nan, 0.0, 0.0)
            count += 1
        return rows, count
    if query.touched == LOST:
        _recount(space, server, query, grid, names)
    same = query.who == query.old_who and (
        query.value == query.old_value or (query.who < 0 and query.mode != COUNT)
    )
    if not (was_live and same):
        rows = emit(rows, count, tick, query.number, VALUE, query.who, query.value, 0.0, 0.0)
        count += 1
    return rows, count


@kernel
def _settle_list(
    space: Space,
    server: Server,
    query: Any,
    place: Int,
    grid: Grid,
    names: Names,
    tick: Int,
    who: Array,
    far: Array,
    stamp: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int]:
    """Rows for what changed in a list of nearest objects: minus for those that left it, plus for those that
    are new or have another position or distance than they had.
    """
    objects, first, held = server.objects, query.first, query.held
    found = nearest(space, server, query, grid, names, who, far) if query.live else np.int64(0)
    query.a = far[found - 1] if found == query.k else math.inf
    if query.live:
        note_need(space, query)
    watch_range(space, query, place, grid)
    for spot in range(first, first + held):
        objects[server.lists[spot]].mark = stamp
    for spot in range(found):
        this = objects[who[spot]]
        if this.mark != stamp or this.moved >= 0 or query.changed:
            rows = emit(rows, count, tick, query.number, PLUS, who[spot], this.x, this.y, far[spot])
            count += 1
        this.mark = stamp + 1
    for spot in range(first, first + held):
        this = objects[server.lists[spot]]
        if this.mark == stamp:
            d = distance(space, this.x, this.y, query.x, query.y) if query.known else math.nan
            rows = emit(rows, count, tick, query.number, MINUS, server.lists[spot], this.x, this.y, d)
            count += 1
    for spot in range(found):
        server.lists[first + spot] = who[spot]
    query.held = found
    return rows, count


@kernel
def settle(
    space: Space,
    server: Server,
    grid: Grid,
    names: Names,
    touched: Array,
    doubts: Int,
    tick: Int,
    who: Array,
    far: Array,
    stamp: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int, Int]:
    """(rows, count, stamp): settles every query in doubt."""
    for spot in range(doubts):
        place = touched[spot]
        query = server.queries[place]
        server.dirty_queries[place // QUERY_BLOCK] = 1
        if query.mode == NEAREST:
            rows, count = _settle_list(
                space, server, query, place, grid, names, tick, who, far, stamp, rows, count
            )
            stamp += 2
        else:
            rows, count = _settle_value(space, server, query, grid, names, tick, rows, count)
        query.touched = UNTOUCHED
    return rows, count, stamp
