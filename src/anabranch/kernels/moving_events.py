"""What a tick brings before anything is compared: changes of queries, and the new states of objects."""

from __future__ import annotations

from typing import Any

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.moving_arrays import (
    AGED_OBJECTS,
    AGED_QUERIES,
    BLOCK,
    ENDS,
    NEVER,
    QUERY_BLOCK,
    STARTS,
    ZERO,
    Array,
    Grid,
    Int,
    Server,
    Space,
)
from anabranch.kernels.moving_grid import detach, forget, place_in_grid, remember


@leaf
def next_tick(server: Server, moves: Array, move: Int, events: Array, event: Int) -> Int:
    """The next tick at which something changes: a report, an event of a query, or somebody gone."""
    tick = NEVER
    if move < len(moves):
        tick = min(tick, moves[move].tick)
    if event < len(events):
        tick = min(tick, events[event].tick)
    if server.ends[AGED_OBJECTS, 0] >= 0:
        tick = min(tick, server.objects[server.ends[AGED_OBJECTS, 0]].gone)
    if server.ends[AGED_QUERIES, 0] >= 0:
        tick = min(tick, server.queries[server.ends[AGED_QUERIES, 0]].gone)
    return tick


@leaf
def _note_change(server: Server, place: Int, changed: Array, count: Int) -> Int:
    """Keeps the state of a query before this tick; returns how many have changed."""
    query = server.queries[place]
    if query.changed:
        return count
    query.changed = 1
    query.old_live = query.live
    query.old_x = query.x
    query.old_y = query.y
    server.dirty_queries[place // QUERY_BLOCK] = 1
    changed[count] = place
    return count + 1


@leaf
def _take_event(server: Server, event: Any) -> None:
    query = server.queries[event.place]
    if event.kind == STARTS:
        query.started = 1
    elif event.kind == ENDS:
        query.started = 0
        query.old_live = 0  # it ends without a word
        query.held = 0
        query.gone = NEVER
        forget(server.queries, server.ends, AGED_QUERIES, event.place)
    else:
        query.x = event.x
        query.y = event.y
        query.focal = event.focal
        query.here = event.here
        query.known = event.known
        query.gone = event.gone if event.here and event.known else NEVER
        remember(server.queries, server.ends, AGED_QUERIES, event.place)


@kernel
def take_events(server: Server, events: Array, event: Int, tick: Int, changed: Array) -> tuple[Int, Int]:
    """(next event, how many queries changed): carries out the events of a tick and lets go of focal objects
    that are gone.
    """
    count = ZERO
    while event < len(events) and events[event].tick == tick:
        count = _note_change(server, events[event].place, changed, count)
        _take_event(server, events[event])
        event += 1
    while server.ends[AGED_QUERIES, 0] >= 0 and server.queries[server.ends[AGED_QUERIES, 0]].gone <= tick:
        place = server.ends[AGED_QUERIES, 0]
        count = _note_change(server, place, changed, count)
        server.queries[place].known = 0
        server.queries[place].gone = NEVER
        forget(server.queries, server.ends, AGED_QUERIES, place)
    for spot in range(count):
        query = server.queries[changed[spot]]
        query.live = query.started & query.known & query.here
    return event, count


@kernel
def take_moves(server: Server, moves: Array, move: Int, tick: Int, moved: Array) -> tuple[Int, Int]:
    """(next move, how many objects change): the reports of a tick, and the objects that are gone in
    silence.
    """
    objects = server.objects
    count = ZERO
    while move < len(moves) and moves[move].tick == tick:
        moved[count].who = moves[move].who
        moved[count].row = move
        objects[moves[move].who].moved = count
        count += 1
        move += 1
    who = server.ends[AGED_OBJECTS, 0]
    while who >= 0 and objects[who].gone <= tick:
        if objects[who].moved < 0:
            moved[count].who = who
            moved[count].row = -1
            objects[who].moved = count
            count += 1
        who = objects[who].younger
    return move, count


@kernel
def apply_moves(
    space: Space,
    server: Server,
    grid: Grid,
    moves: Array,
    move_truths: Array,
    moved: Array,
    old_truths: Array,
    count: Int,
) -> None:
    """Gives objects their new states and keeps the old ones in `moved`."""
    words = server.truths.shape[1]
    for spot in range(count):
        that = moved[spot]
        this = server.objects[that.who]
        that.x = this.x
        that.y = this.y
        that.number = this.number
        that.present = this.present
        that.cell = this.cell
        for word in range(words):
            old_truths[spot, word] = server.truths[that.who, word]
        server.dirty_objects[that.who // BLOCK] = 1
        if this.present:
            detach(server.objects, grid, that.who)
        this.present = 0
        if that.row >= 0:
            move = moves[that.row]
            this.x = move.x
            this.y = move.y
            this.number = move.number
            this.gone = move.gone
            this.present = 1 - move.leaves
            for word in range(words):
                server.truths[that.who, word] = move_truths[that.row, word]
        if this.present:
            place_in_grid(space, server.objects, grid, that.who)
            remember(server.objects, server.ends, AGED_OBJECTS, that.who)
        else:
            forget(server.objects, server.ends, AGED_OBJECTS, that.who)
