"""Who enters and who leaves ranges in a tick."""

from __future__ import annotations

import math

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.moving_arrays import (
    COUNT,
    LOST,
    MINUS,
    NEAREST,
    OBJECTS,
    PLUS,
    RENEWED,
    UNTOUCHED,
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


@kernel
def touch(query, place, how, touched, count):  # type: ignore[no-untyped-def]
    """Notes that a query's value or list is in doubt; returns how many are."""
    if query.touched == UNTOUCHED:
        query.old_value = query.value
        query.old_who = query.who
        touched[count] = place
        count += 1
    if how > query.touched:
        query.touched = how
    return count


@kernel
def _is_in(space, server, query, who):  # type: ignore[no-untyped-def]
    """Whether a present object is in a range by its state and the query's in the arrays."""
    this = server.objects[who]
    return in_range(space, query, who, this.number, this.x, this.y, server.truths, who, query.x, query.y)


@kernel
def _stays(space, query, who, moves, move_truths, row):  # type: ignore[no-untyped-def]
    """Whether an object is in the range after this tick's moves, of which it has the one at `row` (-1: it is gone)."""
    if row < 0 or moves[row].leaves or not query.live:
        return False
    move = moves[row]
    return in_range(space, query, who, move.number, move.x, move.y, move_truths, row, query.x, query.y)


@kernel
def leave_changed(space, server, query, grid, moves, move_truths, moved, tick, rows, count):  # type: ignore[no-untyped-def]
    """Minus rows for the objects of a changed query's old range that are not in the new one. Before the moves are carried out."""
    old_x, old_y = query.old_x, query.old_y
    low_x, high_x, low_y, high_y = extent(space, query.shape, query.a, query.b, old_x, old_y)
    first, last = column_of(grid, low_x), column_of(grid, high_x)
    for row in range(row_of(grid, low_y), row_of(grid, high_y) + 1):
        for column in range(first, last + 1):
            candidate = grid.first[row * grid.columns + column]
            while candidate >= 0:
                who = np.int64(candidate)
                this = server.objects[who]
                candidate = this.after
                if not in_range(
                    space, query, who, this.number, this.x, this.y, server.truths, who, old_x, old_y
                ):
                    continue
                x, y = this.x, this.y
                if this.moved < 0:
                    stays = query.live and _is_in(space, server, query, who)
                else:
                    move = moved[this.moved].row
                    stays = _stays(space, query, who, moves, move_truths, move)
                    if move >= 0:
                        x, y = moves[move].x, moves[move].y
                if not stays:
                    far = distance(space, x, y, query.x, query.y) if query.known else math.nan
                    rows = emit(rows, count, tick, query.number, MINUS, who, x, y, far)
                    count += 1
    return rows, count


@kernel
def was_in(space, server, query, who, moved, old_truths, x, y):  # type: ignore[no-untyped-def]
    """Whether an object was in a range before this tick's moves, which have been carried out; (x, y) was the focal point."""
    this = server.objects[who]
    if this.moved < 0:
        return in_range(space, query, who, this.number, this.x, this.y, server.truths, who, x, y)
    that = moved[this.moved]
    if not that.present:
        return False
    return in_range(space, query, who, that.number, that.x, that.y, old_truths, this.moved, x, y)


@kernel
def enter_changed(space, server, query, grid, moved, old_truths, tick, rows, count):  # type: ignore[no-untyped-def]
    """Plus rows for the objects of a changed query's new range that were not in the old one. After the moves."""
    for row in range(query.low_row, query.high_row + 1):
        for column in range(query.low_column, query.high_column + 1):
            candidate = grid.first[row * grid.columns + column]
            while candidate >= 0:
                who = np.int64(candidate)
                this = server.objects[who]
                candidate = this.after
                if not _is_in(space, server, query, who):
                    continue
                if query.old_live and was_in(
                    space, server, query, who, moved, old_truths, query.old_x, query.old_y
                ):
                    continue
                far = distance(space, this.x, this.y, query.x, query.y)
                rows = emit(rows, count, tick, query.number, PLUS, who, this.x, this.y, far)
                count += 1
    return rows, count


@kernel
def meet(space, server, grid, names, moved, old_truths, moving, tick, touched, doubts, rows, count):  # type: ignore[no-untyped-def]
    """(rows, count, how many queries are in doubt): moved objects against the unchanged queries that watch their cells."""
    for spot in range(moving):
        who = moved[spot].who
        this = server.objects[who]
        if not (moved[spot].present or this.present):
            continue
        old = moved[spot].cell if moved[spot].present else np.int64(this.cell)
        new = np.int64(this.cell) if this.present else old
        for word in range(grid.watched.shape[1]):
            bits = grid.watched[old, word] | grid.watched[new, word]
            while bits:
                bit = bits & (~bits + _ONE)
                bits ^= bit
                place = word * 64 + _PLACE[np.int64((bit * _DE_BRUIJN) >> _SHIFT)]
                query = server.queries[place]
                if query.changed:
                    continue
                was = was_in(space, server, query, who, moved, old_truths, query.x, query.y)
                now = this.present and _is_in(space, server, query, who)
                if query.mode != OBJECTS:
                    if was or now:
                        doubts = _meet_value(
                            query, place, names, who, this.x, this.y, was, now, touched, doubts
                        )
                elif was != now:
                    far = distance(space, this.x, this.y, query.x, query.y)
                    rows = emit(
                        rows, count, tick, query.number, PLUS if now else MINUS, who, this.x, this.y, far
                    )
                    count += 1
    return rows, count, doubts


@kernel
def _meet_value(query, place, names, who, x, y, was, now, touched, doubts):  # type: ignore[no-untyped-def]
    """What a moved object that was or is in range means for a count, an extreme, or a list; returns how many are in doubt."""
    if query.mode == NEAREST:
        return touch(query, place, LOST, touched, doubts)
    if query.mode == COUNT:
        if was != now:
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
