"""What a tick changes for queries: who enters and leaves ranges, and what becomes of counts, extremes and
lists.

    changed queries   leave_changed (before the moves), enter_changed (after them)
    moved objects     compare_moved: the other queries that watch the cells they left or are in
    in doubt          settle: counts, extremes and lists that these touched

Each search is a leaf that fills a list of hits and makes nothing; its caller turns the hits into rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.families.moving.kernels.arrays import (
    CHANGES,
    COUNT,
    DROPPED,
    LOST,
    MINUS,
    NEAREST,
    NEVER,
    OBJECTS,
    PLUS,
    QUERY_BLOCK,
    RENEWED,
    UNTOUCHED,
    VALUE,
    ZERO,
    Int,
    Metric,
    MoveBatch,
    NameArrays,
    ObjectGrid,
    Record,
    ServerArrays,
    TickScratch,
    emit,
    with_room,
    write_row,
)
from anabranch.families.moving.kernels.object_grid import column_of, nearest, row_of, watch_range
from anabranch.families.moving.kernels.object_names import better, coordinate
from anabranch.families.moving.kernels.search_circles import update_need
from anabranch.families.moving.kernels.shapes import distance, extent, in_range, inside, truth
from anabranch.model.arrays import Array, Words
from anabranch.numeric.bits import lowest
from anabranch.numeric.jit import inner, leaf, twig

_ONE = np.uint64(1)
_NO_BITS = np.uint64(0)

# changed queries


@leaf
def _stays(metric: Metric, query: Record, who: Int, moves: MoveBatch, row: Int) -> bool:
    """Whether an object is in the range after this tick's moves, of which it has the one at `row` (-1: it
    expired).
    """
    if row < 0 or not query.live:
        return False
    move = moves.records[row]
    if move.leaves:
        return False
    return in_range(metric, query, who, move.x, move.y, moves.truths, row, query.x, query.y)


@leaf
def _leaving(
    metric: Metric,
    server: ServerArrays,
    query: Record,
    grid: ObjectGrid,
    moves: MoveBatch,
    scratch: TickScratch,
) -> Int:
    """Fills `hits` with the objects of a changed query's old range that are not in the new one; before the
    moves are carried out.
    """
    found = ZERO
    old_x, old_y = query.old_x, query.old_y
    low_x, high_x, low_y, high_y = extent(metric, np.int64(query.shape), query.a, query.b, old_x, old_y)
    first, last = column_of(grid, low_x), column_of(grid, high_x)
    for row in range(row_of(grid, low_y), row_of(grid, high_y) + 1):
        for column in range(first, last + 1):
            candidate = grid.first[row * grid.columns + column]
            while candidate >= 0:
                who = np.int64(candidate)
                this = server.objects[who]
                candidate = this.next
                x, y = this.x, this.y
                if not in_range(metric, query, who, x, y, server.truths, who, old_x, old_y):
                    continue
                if this.moved >= 0:
                    stays = _stays(metric, query, who, moves, scratch.moved[this.moved].row)
                else:
                    stays = query.live and in_range(
                        metric, query, who, x, y, server.truths, who, query.x, query.y
                    )
                if not stays:
                    scratch.hits[found] = who
                    found += 1
    return found


@inner
def leave_changed(
    metric: Metric,
    server: ServerArrays,
    grid: ObjectGrid,
    moves: MoveBatch,
    scratch: TickScratch,
    changes: Int,
    tick: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int]:
    """Adds minus rows for the objects that the ranges of changed queries leave behind. Before the moves are
    carried out.
    """
    objects, queries, changed = server.objects, server.queries, scratch.changed
    hits, moved, records = scratch.hits, scratch.moved, moves.records
    for change in range(changes):
        query = queries[changed[change]]
        if query.mode != OBJECTS or not query.old_live:
            continue
        found = _leaving(metric, server, query, grid, moves, scratch)
        for hit in range(found):
            who = hits[hit]
            this = objects[who]
            x, y = this.x, this.y
            if this.moved >= 0 and moved[this.moved].row >= 0:
                move = records[moved[this.moved].row]
                x, y = move.x, move.y
            far = distance(metric, x, y, query.x, query.y) if query.known else math.nan
            rows = emit(rows, count, tick, query.number, MINUS, who, x, y, far)
            count += 1
    return rows, count


@leaf
def _was_in(
    metric: Metric, server: ServerArrays, query: Record, who: Int, scratch: TickScratch, x: float, y: float
) -> bool:
    """Whether an object was in a range before this tick's moves, which have been carried out; (x, y) was
    the focal point.
    """
    this = server.objects[who]
    if this.moved < 0:
        return in_range(metric, query, who, this.x, this.y, server.truths, who, x, y)
    row = np.int64(this.moved)
    that = scratch.moved[row]
    if not that.present:
        return False
    return in_range(metric, query, who, that.x, that.y, scratch.old_truths, row, x, y)


@twig
def _present(
    metric: Metric, server: ServerArrays, query: Record, grid: ObjectGrid, scratch: TickScratch
) -> Int:
    """Fills `hits` with the objects that are in the range of a live query now; returns how many."""
    found = ZERO
    for row in range(query.low_row, query.high_row + 1):
        for column in range(query.low_column, query.high_column + 1):
            candidate = grid.first[row * grid.columns + column]
            while candidate >= 0:
                who = np.int64(candidate)
                this = server.objects[who]
                candidate = this.next
                x, y = this.x, this.y
                if in_range(metric, query, who, x, y, server.truths, who, query.x, query.y):
                    scratch.hits[found] = who
                    found += 1
    return found


@leaf
def _entering(
    metric: Metric, server: ServerArrays, query: Record, grid: ObjectGrid, scratch: TickScratch
) -> Int:
    """Fills `hits` with the objects of a changed query's new range that were not in the old one; after the
    moves.
    """
    found = _present(metric, server, query, grid, scratch)
    if not query.old_live:
        return found
    entering = ZERO
    for hit in range(found):
        who = scratch.hits[hit]
        if not _was_in(metric, server, query, who, scratch, query.old_x, query.old_y):
            scratch.hits[entering] = who
            entering += 1
    return entering


@inner
def enter_changed(
    metric: Metric,
    server: ServerArrays,
    grid: ObjectGrid,
    scratch: TickScratch,
    changes: Int,
    tick: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int, Int]:
    """Adds plus rows for the objects that the ranges of changed queries come upon; returns (rows, count, how
    many queries are in doubt). After the moves.
    """
    objects, queries = server.objects, server.queries
    changed, hits = scratch.changed, scratch.hits
    doubts = ZERO
    for change in range(changes):
        slot = changed[change]
        query = queries[slot]
        if query.mode != NEAREST:  # lists follow when they are computed again
            watch_range(metric, query, grid)
        if query.mode != OBJECTS:
            doubts = _touch(query, slot, LOST, scratch, doubts)
            continue
        if not query.live:
            continue
        found = _entering(metric, server, query, grid, scratch)
        for hit in range(found):
            who = hits[hit]
            this = objects[who]
            far = distance(metric, this.x, this.y, query.x, query.y)
            rows = emit(rows, count, tick, query.number, PLUS, who, this.x, this.y, far)
            count += 1
    return rows, count, doubts


@leaf
def _touch(query: Record, slot: Int, how: Int, scratch: TickScratch, count: Int) -> Int:
    """Notes that a query's value or list is in doubt; returns how many are."""
    if query.touched == UNTOUCHED:
        query.old_value = query.value
        query.old_who = query.who
        scratch.touched[count] = slot
        count += 1
    if how > query.touched:
        query.touched = how
    return count


# moved objects


@leaf
def _cells_to_compare(server: ServerArrays, scratch: TickScratch, index: Int) -> tuple[Int, Int, bool]:
    """Returns (the cell that a moved object was in, the cell that it is in, whether it stays at this server);
    both are the same where it comes or goes, and -1 where it neither was nor is here.
    """
    that = scratch.moved[index]
    this = server.objects[that.who]
    old, new = np.int64(that.cell), np.int64(this.cell)
    if that.present and this.present:
        return old, new, True
    if not (that.present or this.present):
        return np.int64(-1), np.int64(-1), False
    return (old, old, False) if that.present else (new, new, False)


@leaf
def _changed_ranges(
    metric: Metric, server: ServerArrays, grid: ObjectGrid, scratch: TickScratch, index: Int
) -> Int:
    """Fills `hits` with 2 * slot + now for the unchanged queries, other than fences, whose range a moved
    object was in or is in. Queries for objects that it stays in are left out: they have nothing to say.
    Queries that cover both the old and the new cell are such.
    """
    that = scratch.moved[index]
    this = server.objects[that.who]
    found = ZERO
    old, new, stays = _cells_to_compare(server, scratch, index)
    if old < 0:
        return found
    for word in range(grid.watched.shape[1]):
        bits = grid.watched[old, word] | grid.watched[new, word]
        if stays:
            bits &= ~(grid.covered[old, word] & grid.covered[new, word])
        while bits:
            slot = grid.slots[np.int64(word * 64) + np.int64(lowest(bits))]
            bits &= bits - _ONE
            query = server.queries[slot]
            if query.changed:
                continue
            x, y = query.x, query.y
            was = that.present and in_range(
                metric, query, that.who, that.x, that.y, scratch.old_truths, index, x, y
            )
            now = this.present and in_range(
                metric, query, that.who, this.x, this.y, server.truths, that.who, x, y
            )
            if was != now or (was and query.mode > COUNT):
                scratch.hits[found] = 2 * slot + now
                found += 1
    return found


@leaf
def _is_inside(metric: Metric, fence: Record, x: float, y: float, truths: Words, row: Int) -> bool:
    """Whether an object in this state belongs to a fence."""
    is_in = inside(metric, np.int64(fence.shape), fence.a, fence.b, x, y, fence.x, fence.y)
    return is_in and truth(truths, row, np.int64(fence.condition))


@leaf
def _compare_word(
    metric: Metric,
    server: ServerArrays,
    grid: ObjectGrid,
    scratch: TickScratch,
    index: Int,
    first: Int,
    bits: Any,  # uint64
    found: Int,
) -> Int:
    """Adds to `hits` the fences among `bits`, which have places from `first` on; returns how many it has."""
    that = scratch.moved[index]
    this = server.objects[that.who]
    was_here, is_here = that.present != 0, this.present != 0
    while bits:
        place = first + np.int64(lowest(bits))
        bits &= bits - _ONE
        fence = grid.fences.fences[place]
        was = was_here and _is_inside(metric, fence, that.x, that.y, scratch.old_truths, index)
        now = is_here and _is_inside(metric, fence, this.x, this.y, server.truths, that.who)
        # no branch, as it would be as hard to foresee as the result
        scratch.hits[found] = 2 * place + now
        found += np.int64(was != now) | np.int64(was and fence.mode > COUNT)
    return found


@leaf
def _changed_fences(
    metric: Metric, server: ServerArrays, grid: ObjectGrid, scratch: TickScratch, index: Int
) -> Int:
    """Fills `hits` with 2 * place + now for fences, as `_changed_ranges` does for the others. The words of
    the old and the new cell are gone through together; both are in order.
    """
    found = ZERO
    old, new, stays = _cells_to_compare(server, scratch, index)
    if old < 0:
        return found
    fences = grid.fences
    left, left_end = np.int64(fences.first[old]), np.int64(fences.first[old + 1])
    right, right_end = np.int64(fences.first[new]), np.int64(fences.first[new + 1])
    while left < left_end or right < right_end:
        left_word = fences.bits[left].word if left < left_end else NEVER
        right_word = fences.bits[right].word if right < right_end else NEVER
        word = min(left_word, right_word)
        watched = covered = _NO_BITS
        if left_word == word:
            watched = fences.bits[left].watched
            covered = fences.bits[left].covered
            left += 1
        if right_word == word:
            watched |= fences.bits[right].watched
            covered &= fences.bits[right].covered
            right += 1
        else:
            covered = _NO_BITS
        if stays:
            watched &= ~covered
        found = _compare_word(metric, server, grid, scratch, index, 64 * word, watched, found)
    return found


@inner
def compare_moved(
    metric: Metric,
    server: ServerArrays,
    grid: ObjectGrid,
    names: NameArrays,
    scratch: TickScratch,
    moving: Int,
    tick: Int,
    doubts: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int, Int]:
    """Compares moved objects with the unchanged queries that watch their cells; returns (rows, count, how
    many queries are in doubt).
    """
    objects, queries, moved, hits = server.objects, server.queries, scratch.moved, scratch.hits
    fences, any_changed = grid.fences.fences, server.tallies[CHANGES] > 0
    for index in range(moving):
        who = moved[index].who
        this = objects[who]
        found = _changed_ranges(metric, server, grid, scratch, index)
        for hit in range(found):
            slot = hits[hit] >> 1
            now = (hits[hit] & 1) != 0
            query = queries[slot]
            if query.mode == OBJECTS:
                far = distance(metric, this.x, this.y, query.x, query.y)
                rows = emit(rows, count, tick, query.number, PLUS if now else MINUS, who, this.x, this.y, far)
                count += 1
            else:
                doubts = _update_value(query, slot, names, who, this.x, this.y, now, scratch, doubts)
        found = _changed_fences(metric, server, grid, scratch, index)
        rows = with_room(rows, count, found)
        for hit in range(found):
            fence = fences[hits[hit] >> 1]
            now = (hits[hit] & 1) != 0
            if any_changed and queries[fence.slot].changed:
                continue
            if fence.mode == OBJECTS:
                far = distance(metric, this.x, this.y, fence.x, fence.y)
                write_row(rows, count, tick, fence.number, PLUS if now else MINUS, who, this.x, this.y, far)
                count += 1
            else:
                query, slot = queries[fence.slot], np.int64(fence.slot)
                doubts = _update_value(query, slot, names, who, this.x, this.y, now, scratch, doubts)
    return rows, count, doubts


@leaf
def _update_value(
    query: Record,
    slot: Int,
    names: NameArrays,
    who: Int,
    x: float,
    y: float,
    now: bool,
    scratch: TickScratch,
    doubts: Int,
) -> Int:
    """What a moved object that was or is in range means for a count, an extreme or a list; returns how many
    are in doubt.
    """
    if query.mode == NEAREST:
        return _touch(query, slot, LOST, scratch, doubts)
    if query.mode == COUNT:
        doubts = _touch(query, slot, RENEWED, scratch, doubts)
        query.value += 1 if now else -1
        return doubts
    value = coordinate(np.int64(query.mode), x, y)
    if query.who == who:
        if not now or better(names, np.int64(query.mode), query.value, who, value, who):
            return _touch(query, slot, LOST, scratch, doubts)  # it is worse now: others may be better
    elif not now or (
        query.who >= 0 and not better(names, np.int64(query.mode), value, who, query.value, query.who)
    ):
        return doubts
    doubts = _touch(query, slot, RENEWED, scratch, doubts)
    query.value = value
    query.who = who
    return doubts


# queries in doubt


@leaf
def _compute_value(
    metric: Metric,
    server: ServerArrays,
    query: Record,
    grid: ObjectGrid,
    names: NameArrays,
    scratch: TickScratch,
) -> None:
    """Computes the local count or extreme of a live query from all objects in its range."""
    mode = np.int64(query.mode)
    query.value = math.nan
    query.who = -1
    found = _present(metric, server, query, grid, scratch)
    if mode == COUNT:
        query.value = float(found)
        return
    for hit in range(found):
        who = scratch.hits[hit]
        value = coordinate(mode, server.objects[who].x, server.objects[who].y)
        if query.who < 0 or better(names, mode, value, who, query.value, query.who):
            query.value = value
            query.who = who


@inner
def _settle_value(
    metric: Metric,
    server: ServerArrays,
    query: Record,
    grid: ObjectGrid,
    names: NameArrays,
    scratch: TickScratch,
    tick: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int]:
    """Adds a row if a local count or extreme changed, or if this server starts or stops to participate."""
    was_live = query.old_live if query.changed else np.uint8(1)
    if not query.live:
        query.value = 0.0
        query.who = -1
        if was_live:
            rows = emit(rows, count, tick, query.number, DROPPED, query.who, math.nan, 0.0, 0.0)
            count += 1
        return rows, count
    if query.touched == LOST:
        _compute_value(metric, server, query, grid, names, scratch)
    same = query.who == query.old_who and (
        query.value == query.old_value or (query.who < 0 and query.mode != COUNT)
    )
    if not (was_live and same):
        rows = emit(rows, count, tick, query.number, VALUE, query.who, query.value, 0.0, 0.0)
        count += 1
    return rows, count


@inner
def _settle_list(
    metric: Metric,
    server: ServerArrays,
    slot: Int,
    grid: ObjectGrid,
    names: NameArrays,
    scratch: TickScratch,
    tick: Int,
    stamp: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int]:
    """Adds rows for what changed in a list of nearest objects: minus for those that left it, plus for those
    that are new or have another position or distance than before.
    """
    query, who, far = server.queries[slot], scratch.who, scratch.far
    objects, first, listed = server.objects, query.list_start, query.listed
    found = nearest(metric, server, query, grid, names, who, far) if query.live else np.int64(0)
    query.a = far[found - 1] if found == query.k else math.inf
    if query.live:
        update_need(metric, query)
    watch_range(metric, query, grid)
    for index in range(first, first + listed):
        objects[server.lists[index]].mark = stamp
    for index in range(found):
        this = objects[who[index]]
        if this.mark != stamp or this.moved >= 0 or query.changed:
            rows = emit(rows, count, tick, query.number, PLUS, who[index], this.x, this.y, far[index])
            count += 1
        this.mark = stamp + 1
    for index in range(first, first + listed):
        this = objects[server.lists[index]]
        if this.mark == stamp:
            d = distance(metric, this.x, this.y, query.x, query.y) if query.known else math.nan
            rows = emit(rows, count, tick, query.number, MINUS, server.lists[index], this.x, this.y, d)
            count += 1
    for index in range(found):
        server.lists[first + index] = who[index]
    query.listed = found
    return rows, count


@inner
def settle(
    metric: Metric,
    server: ServerArrays,
    grid: ObjectGrid,
    names: NameArrays,
    scratch: TickScratch,
    doubts: Int,
    tick: Int,
    stamp: Int,
    rows: Array,
    count: Int,
) -> tuple[Array, Int, Int]:
    """Brings every query in doubt up to date; returns (rows, count, stamp)."""
    for doubt in range(doubts):
        slot = scratch.touched[doubt]
        query = server.queries[slot]
        server.dirty_queries[slot // QUERY_BLOCK] = 1
        if query.mode == NEAREST:
            rows, count = _settle_list(metric, server, slot, grid, names, scratch, tick, stamp, rows, count)
            stamp += 2
        else:
            rows, count = _settle_value(metric, server, query, grid, names, scratch, tick, rows, count)
        query.touched = UNTOUCHED
    return rows, count, stamp
