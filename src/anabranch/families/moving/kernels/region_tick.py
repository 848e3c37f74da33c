"""A regional server's work, tick by tick: which objects entered and left which queries, and what became of
counts, extremes and lists.

Membership is not stored. An object was in a range if its old state was in the old range. So a tick needs the
states before and after of the objects and queries that changed, and nothing of the others (range_changes):

    changed queries   x  all objects near their old range (before the moves) and their new range (after them)
    moved objects     x  the other queries that watch the cell they left or the cell they are in

Ticks at which nothing changes are not visited: a silence of a million ticks costs nothing.
"""

from __future__ import annotations

import numpy as np

from anabranch.families.moving.kernels.arrays import (
    AGED_OBJECTS,
    AGED_QUERIES,
    BLOCK,
    CHANGES,
    ENDS,
    LISTED,
    NEVER,
    PRESENT,
    QUERY_BLOCK,
    STAMP,
    STARTS,
    ZERO,
    Int,
    Metric,
    MoveBatch,
    NameArrays,
    ObjectGrid,
    Record,
    ServerArrays,
    TickScratch,
    new_rows,
)
from anabranch.families.moving.kernels.object_grid import (
    add_by_age,
    add_to_grid,
    cell_of,
    remove_by_age,
    remove_from_cell,
)
from anabranch.families.moving.kernels.range_changes import (
    compare_moved,
    enter_changed,
    leave_changed,
    settle,
)
from anabranch.model.arrays import Array
from anabranch.numeric.jit import kernel, leaf, twig

#: Marks of objects are int32; a batch takes far fewer stamps than are left above this.
_MOST_STAMPS = 1 << 30


@leaf
def _next_tick(server: ServerArrays, moves: Array, move: Int, events: Array, event: Int) -> Int:
    """Returns the next tick at which something changes: a report, an event of a query, or an expiry."""
    tick = NEVER
    if move < len(moves):
        tick = min(tick, moves[move].tick)
    if event < len(events):
        tick = min(tick, events[event].tick)
    if server.ends[AGED_OBJECTS, 0] >= 0:
        tick = min(tick, server.objects[server.ends[AGED_OBJECTS, 0]].expires)
    if server.ends[AGED_QUERIES, 0] >= 0:
        tick = min(tick, server.queries[server.ends[AGED_QUERIES, 0]].expires)
    return tick


@leaf
def _keep_old(server: ServerArrays, slot: Int, scratch: TickScratch, count: Int) -> Int:
    """Keeps the state of a query before this tick; returns how many have changed."""
    query = server.queries[slot]
    if query.changed:
        return count
    query.changed = 1
    query.old_live = query.live
    query.old_x = query.x
    query.old_y = query.y
    server.dirty_queries[slot // QUERY_BLOCK] = 1
    scratch.changed[count] = slot
    return count + 1


@leaf
def _apply_event(server: ServerArrays, event: Record) -> None:
    query = server.queries[event.slot]
    if event.kind == STARTS:
        query.started = 1
    elif event.kind == ENDS:
        query.started = 0
        query.old_live = 0  # a query that ends leaves no rows
        query.listed = 0
        query.expires = NEVER
        remove_by_age(server.queries, server.ends, AGED_QUERIES, event.slot)
    else:
        query.x = event.x
        query.y = event.y
        query.focal = event.focal
        query.here = event.here
        query.known = event.known
        query.expires = event.expires if event.here and event.known else NEVER
        add_by_age(server.queries, server.ends, AGED_QUERIES, event.slot)


@twig
def _apply_events(
    server: ServerArrays, events: Array, event: Int, tick: Int, scratch: TickScratch
) -> tuple[Int, Int]:
    """Carries out the events of a tick and forgets focal objects that expire; returns (next event, how many
    queries changed).
    """
    count = ZERO
    while event < len(events) and events[event].tick == tick:
        count = _keep_old(server, events[event].slot, scratch, count)
        _apply_event(server, events[event])
        event += 1
    slot = server.ends[AGED_QUERIES, 0]
    while slot >= 0 and server.queries[slot].expires <= tick:
        count = _keep_old(server, slot, scratch, count)
        server.queries[slot].known = 0
        server.queries[slot].expires = NEVER
        remove_by_age(server.queries, server.ends, AGED_QUERIES, slot)
        slot = server.ends[AGED_QUERIES, 0]
    for change in range(count):
        query = server.queries[scratch.changed[change]]
        query.live = query.started & query.known & query.here
    server.tallies[CHANGES] = count
    return event, count


@twig
def _collect_moved(
    server: ServerArrays, moves: Array, move: Int, tick: Int, scratch: TickScratch
) -> tuple[Int, Int]:
    """Collects the objects that report in a tick or expire; returns (next move, how many objects change)."""
    objects, moved = server.objects, scratch.moved
    count = ZERO
    while move < len(moves) and moves[move].tick == tick:
        moved[count].who = moves[move].who
        moved[count].row = move
        objects[moves[move].who].moved = count
        count += 1
        move += 1
    who = server.ends[AGED_OBJECTS, 0]
    while who >= 0 and objects[who].expires <= tick:
        if objects[who].moved < 0:
            moved[count].who = who
            moved[count].row = -1
            objects[who].moved = count
            count += 1
        who = objects[who].younger
    return move, count


@twig
def _apply_moves(
    metric: Metric,
    server: ServerArrays,
    grid: ObjectGrid,
    moves: MoveBatch,
    scratch: TickScratch,
    count: Int,
) -> None:
    """Gives objects their new states and keeps the old ones in `moved`."""
    words = server.truths.shape[1]
    is_listed, present = server.tallies[LISTED] != 0, server.tallies[PRESENT]
    for index in range(count):
        that = scratch.moved[index]
        who = that.who
        this = server.objects[who]
        that.x = this.x
        that.y = this.y
        that.number = this.number
        that.present = this.present
        that.cell = this.cell
        for word in range(words):
            scratch.old_truths[index, word] = server.truths[who, word]
        server.dirty_objects[who // BLOCK] = 1
        if this.present and is_listed:
            remove_from_cell(server.objects, grid, who)
        this.present = 0
        if that.row >= 0:
            move = moves.records[that.row]
            this.x = move.x
            this.y = move.y
            this.number = move.number
            this.expires = move.expires
            this.present = 1 - move.leaves
            for word in range(words):
                server.truths[who, word] = moves.truths[that.row, word]
        present += np.int64(this.present) - np.int64(that.present)
        if this.present:
            if is_listed:
                add_to_grid(metric, server.objects, grid, who)
            else:
                this.cell = cell_of(metric, grid, this.x, this.y)
            add_by_age(server.objects, server.ends, AGED_OBJECTS, who)
        else:
            remove_by_age(server.objects, server.ends, AGED_OBJECTS, who)
    server.tallies[PRESENT] = present


@leaf
def _tidy(server: ServerArrays, scratch: TickScratch, moving: Int, changes: Int) -> None:
    """Makes the marks of a tick ready for the next."""
    for index in range(moving):
        server.objects[scratch.moved[index].who].moved = -1
    for change in range(changes):
        server.queries[scratch.changed[change]].changed = 0


@leaf
def _next_stamp(server: ServerArrays) -> Int:
    """Returns a stamp that no object is marked with; they begin anew before they are too large for a mark."""
    stamp = server.tallies[STAMP]
    if stamp > _MOST_STAMPS:
        stamp = 0
        for who in range(len(server.objects)):
            server.objects[who].mark = -1
    return stamp


@kernel
def run(
    metric: Metric,
    server: ServerArrays,
    grid: ObjectGrid,
    names: NameArrays,
    moves: MoveBatch,
    events: Array,
    last: Int,
    scratch: TickScratch,
) -> Array:
    """Returns the rows (ROW) of all fragments up to tick `last`. Events (EVENT) are by tick and kind.

    Objects, queries, their lists and the grid are brought up to date in place.
    """
    rows, count = new_rows(), ZERO
    move, event, stamp = ZERO, ZERO, _next_stamp(server)
    while True:
        tick = _next_tick(server, moves.records, move, events, event)
        if tick > last:
            break
        event, changes = _apply_events(server, events, event, tick, scratch)
        move, moving = _collect_moved(server, moves.records, move, tick, scratch)
        rows, count = leave_changed(metric, server, grid, moves, scratch, changes, tick, rows, count)
        _apply_moves(metric, server, grid, moves, scratch, moving)
        rows, count, doubts = enter_changed(metric, server, grid, scratch, changes, tick, rows, count)
        rows, count, doubts = compare_moved(
            metric, server, grid, names, scratch, moving, tick, doubts, rows, count
        )
        rows, count, stamp = settle(metric, server, grid, names, scratch, doubts, tick, stamp, rows, count)
        _tidy(server, scratch, moving, changes)
    server.tallies[STAMP] = stamp
    return rows[:count]
