"""A regional server's work, tick by tick: which objects entered and left which queries, and what became of
counts, extremes and lists.

Membership is not stored. An object was in a range if its old state was in the old range, so a tick needs
the states before and after of the objects and queries that changed, and nothing of the others:

    changed queries   x  all objects near their old range (before the moves) and their new range (after them)
    moved objects     x  the other queries that watch the cell they left or the cell they are in

Ticks at which nothing changes are not visited: a silence of a million ticks costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.moving_arrays import (
    AGED_OBJECTS,
    LOST,
    MOVED,
    NEAREST,
    NEVER,
    OBJECTS,
    ZERO,
    Array,
    Grid,
    Int,
    Names,
    Server,
    Space,
    new_rows,
)
from anabranch.kernels.moving_events import apply_moves, next_tick, take_events, take_moves
from anabranch.kernels.moving_grid import watch_range
from anabranch.kernels.moving_ranges import enter_changed, leave_changed, meet, touch
from anabranch.kernels.moving_values import settle


@kernel
def _most_in_tick(moves: Array) -> Int:
    most, first = 0, 0
    for row in range(len(moves)):
        if moves[row].tick != moves[first].tick:
            first = row
        most = max(most, row - first + 1)
    return most


@kernel
def _tidy(server: Server, moved: Array, moving: Int, changed: Array, changes: Any) -> None:
    for spot in range(moving):
        server.objects[moved[spot].who].moved = -1
    for spot in range(changes):
        server.queries[changed[spot]].changed = 0


@kernel
def run(
    space: Space,
    server: Server,
    grid: Grid,
    names: Names,
    moves: Array,
    move_truths: Array,
    events: Array,
    last: Int,
) -> Array:
    """The rows (ROW) of all fragments up to tick `last`. Moves are by tick, one a tick and object; events
    by tick and kind.

    Objects, queries, their lists and the grid are brought up to date in place.
    """
    rows, count = new_rows(1024), ZERO
    expire = server.ends[AGED_OBJECTS, 0] >= 0 or (len(moves) > 0 and moves[0].gone != NEVER)
    size = len(server.objects) if expire else _most_in_tick(moves)
    moved, old_truths = np.empty(size, MOVED), np.empty((size, server.truths.shape[1]), np.uint64)
    changed, touched = np.empty(len(server.queries), np.int64), np.empty(len(server.queries), np.int64)
    hits = np.empty(max(len(server.objects), len(server.queries)), np.int64)
    most = 1
    for place in range(len(server.queries)):
        most = max(most, server.queries[place].k)
    who, far = np.empty(most, np.int64), np.empty(most, np.float64)
    for place in range(len(server.objects)):
        server.objects[place].mark = -1
    move, event, stamp = ZERO, ZERO, ZERO
    while True:
        tick = next_tick(server, moves, move, events, event)
        if tick > last:
            break
        event, changes = take_events(server, events, event, tick, changed)
        move, moving = take_moves(server, moves, move, tick, moved)
        for spot in range(changes):
            query = server.queries[changed[spot]]
            if query.mode == OBJECTS and query.old_live:
                rows, count = leave_changed(
                    space, server, query, grid, moves, move_truths, moved, tick, hits, rows, count
                )
        apply_moves(space, server, grid, moves, move_truths, moved, old_truths, moving)
        doubts = ZERO
        for spot in range(changes):
            query = server.queries[changed[spot]]
            if query.mode != NEAREST:  # lists follow when they are found anew
                watch_range(space, query, changed[spot], grid)
            if query.mode != OBJECTS:
                doubts = touch(query, changed[spot], LOST, touched, doubts)
            elif query.live:
                rows, count = enter_changed(
                    space, server, query, grid, moved, old_truths, tick, hits, rows, count
                )
        rows, count, doubts = meet(
            space, server, grid, names, moved, old_truths, moving, tick, hits, touched, doubts, rows, count
        )
        rows, count, stamp = settle(
            space, server, grid, names, touched, doubts, tick, who, far, stamp, rows, count
        )
        _tidy(server, moved, moving, changed, changes)
    return rows[:count]
