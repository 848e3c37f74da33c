"""Windows from slices: what each window amounts to, which slices are still needed, and the values that come
out.

The closed slices of all derived streams lie in one arena of rows, each linked to the next of its derived
stream:

    first[s] -> row -> row -> ... -> last[s] -> the open slice of s, which is not in the arena
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.edges import first_after, first_after_float
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.slices import (
    COUNT,
    FLOAT_TIME,
    MAX,
    MIN,
    ROW,
    SUM_FLOAT,
    SUM_INT,
    empty,
    fold,
)
from anabranch.kernels.sums import read_float, read_int, wide_to_float

#: What an aggregation asks of a window.
ITEMS, COUNTED, LEAST, GREATEST, TOTAL, MEAN = 0, 1, 2, 3, 4, 5

_END, _OPEN = -1, -2
_MOST = np.int64(2**63 - 1)

Array = np.ndarray[Any, Any]


class Lists(NamedTuple):
    """Linked lists of arena rows: `first` and `last` of a derived stream, `next` of a row; -1 is none."""

    first: Array
    last: Array
    next: Array


class Composed(NamedTuple):
    """Windows that have items: their shape, their number k, how many items, and their aggregates as words."""

    shape: Array
    k: Array
    items: Array
    layout: Array
    at: Array
    words: Array


@kernel
def link(slots: Any, rows: Any, lists: Any) -> None:
    """Appends each of these rows of the arena to the list of its derived stream, in their order."""
    for place in range(len(slots)):
        slot, row = slots[place], rows[place]
        lists.next[row] = _END
        if lists.last[slot] == _END:
            lists.first[slot] = row
        else:
            lists.next[lists.last[slot]] = row
        lists.last[slot] = row


@kernel
def unlink(slot: Any, lists: Any) -> Any:
    """Empties the list of a derived stream; out: how many rows it had."""
    gone = 0
    row = lists.first[slot]
    while row != _END:
        row = lists.next[row]
        gone += 1
    lists.first[slot] = lists.last[slot] = _END
    return gone


@leaf
def _reaches(shape: Any, real: Any, k: Any, to_end: Any, time: Any, position: Any) -> Any:
    """Whether a moment is at or after the beginning of window k or, `to_end`, its end.

    shape: axis, base, size, step as integers; real: base, size, step as floats.
    """
    axis, base, size, step = shape
    if axis == FLOAT_TIME:
        base_float, size_float, step_float = real
        return float(time) >= base_float + k * step_float + (size_float if to_end else 0.0)
    moment = position if axis == ROW else np.int64(time)
    return moment >= base + k * step + (size if to_end else np.int64(0))


@leaf
def _first_open(shape: Any, real: Any, time: Any, position: Any) -> Any:
    """The first window that ends after a moment."""
    axis, base, size, step = shape
    if axis == FLOAT_TIME:
        base_float, size_float, step_float = real
        return first_after_float(base_float, step_float, size_float, float(time))
    return first_after(base, step, size, position if axis == ROW else np.int64(time))


@leaf
def _described(shapes: Any, place: Any) -> tuple[Any, Any]:
    """A shape as two tuples of numbers."""
    whole = (shapes.axis[place], shapes.base[place], shapes.size[place], shapes.step[place])
    return whole, (shapes.base_float[place], shapes.size_float[place], shapes.step_float[place])


@kernel
def first_open(shapes: Any, place: Any, time: Any, position: Any) -> Any:
    """The first window of a shape that ends after a moment."""
    shape, real = _described(shapes, place)
    return _first_open(shape, real, time, position)


@kernel
def settle(places: Any, shapes: Any, streams: Any, last: Any, begun: Any) -> None:
    """Puts shapes behind the windows that are full; those in time only if the stream has `begun`."""
    for place in places:
        shape, real = _described(shapes, place)
        if begun or shapes.axis[place] == ROW:
            passed = streams.passed[shapes.stream[place]]
            shapes.next[place] = max(shapes.next[place], _first_open(shape, real, last, passed))


@kernel
def compose(
    due: Any,
    last: Any,
    ended: Any,
    shapes: Any,
    layouts: Any,
    streams: Any,
    held: Any,
    arena: Any,
    lists: Any,
    out: Any,
    counting: Any,
) -> tuple[Any, Any]:
    """The windows of the shapes `due` that are full and not yet composed or, when the stream has `ended`,
    have begun.

    last: the time of the stream's last item; a window in time is full when its end is not after it, one in
    rows when its derived stream has had as many items. Windows without items are left out, however many there
    are. Out: how many windows and how many words; `counting` is all that is done, to know how much room `out`
    must have.
    """
    times, positions, nexts = arena.time, arena.position, lists.next
    found = np.int64(0)
    filled = np.int64(0)
    for place in range(len(due)):
        shape, real = _described(shapes, due[place])
        slot = shapes.stream[due[place]]
        layout, count = streams.layout[slot], streams.passed[slot]
        open_time, open_position = held.time[slot], held.position[slot]
        tail = np.int64(_OPEN if held.items[slot] > 0 else _END)
        k = shapes.next[due[place]]
        row = lists.first[slot] if lists.first[slot] != _END else tail
        while True:
            if not _reaches(shape, real, k, True, last, count):
                if not (ended and _reaches(shape, real, k, False, last, count - 1)):
                    break
            while row != _END:
                time = times[row] if row >= 0 else open_time
                position = positions[row] if row >= 0 else open_position
                if _reaches(shape, real, k, False, time, position):
                    break
                row = _END if row == _OPEN else nexts[row] if nexts[row] != _END else tail
            if row == _END:
                break
            time = times[row] if row >= 0 else open_time
            position = positions[row] if row >= 0 else open_position
            if _reaches(shape, real, k, True, time, position):
                # Nothing in window k: go on with the first that ends after the slice that was found.
                k = max(k + 1, _first_open(shape, real, time, position))
                continue
            if not counting:
                out.shape[found] = due[place]
                out.k[found] = k
                out.layout[found] = layout
                out.at[found] = filled
                out.items[found] = _composed(
                    shape, real, k, row, tail, slot, layout, layouts, held, arena, nexts, out.words, filled
                )
            found += 1
            filled += layouts.width[layout]
            k += 1
        if not counting:
            shapes.next[due[place]] = max(shapes.next[due[place]], _first_open(shape, real, last, count))
    return found, filled


@kernel
def _composed(
    shape: Any,
    real: Any,
    k: Any,
    row: Any,
    tail: Any,
    slot: Any,
    layout: Any,
    layouts: Any,
    held: Any,
    arena: Any,
    nexts: Any,
    words: Any,
    at: Any,
) -> Any:
    """Adds up window k of a shape, from slice `row` on, at words[at:]; out: how many items."""
    l_first, operation, _, offset, _, _, _, met = layouts
    _, times, positions, counts, r_layout, r_at, r_words = arena
    first, stop = l_first[layout], l_first[layout + 1]
    empty(words, at, first, stop, operation, offset)
    items = np.int64(0)
    while row >= 0:
        if _reaches(shape, real, k, True, times[row], positions[row]):
            return items
        fold(words, at, first, stop, operation, offset, met, r_words, r_at[row], r_layout[row], 0)
        items += counts[row]
        row = nexts[row] if nexts[row] != _END else tail
    if row == _OPEN and not _reaches(shape, real, k, True, held.time[slot], held.position[slot]):
        fold(words, at, first, stop, operation, offset, met, held.words, held.at[slot], held.layout[slot], 0)
        items += held.items[slot]
    return items


@kernel
def evict(slots: Any, shapes: Any, arena: Any, lists: Any) -> Any:
    """Takes the slices that no window to come begins before off the lists; out: how many."""
    gone = 0
    for place in range(len(slots)):
        slot = slots[place]
        time, time_float, position = _MOST, np.inf, _MOST
        for entry in range(shapes.first[slot], shapes.first[slot + 1]):
            shape = shapes.listed[entry]
            k = shapes.next[shape]
            if shapes.axis[shape] == FLOAT_TIME:
                time_float = min(time_float, shapes.base_float[shape] + k * shapes.step_float[shape])
            elif shapes.axis[shape] == ROW:
                position = min(position, shapes.base[shape] + k * shapes.step[shape])
            else:
                time = min(time, shapes.base[shape] + k * shapes.step[shape])
        row = lists.first[slot]
        while row != _END:
            if arena.time[row] >= time or arena.time[row] >= time_float or arena.position[row] >= position:
                break
            row = lists.next[row]
            gone += 1
        lists.first[slot] = row
        if row == _END:
            lists.last[slot] = _END
    return gone


@kernel
def walk(slots: Any, lists: Any, rows: Any, owners: Any) -> Any:
    """Writes the arena rows that are still on lists into `rows`, derived stream by derived stream, and whose
    they are.
    """
    found = 0
    for place in range(len(slots)):
        row = lists.first[slots[place]]
        while row != _END:
            rows[found] = row
            owners[found] = slots[place]
            found += 1
            row = lists.next[row]
    return found


@kernel
def lower_int(
    queries: Any,
    windows: Any,
    function: Any,
    column: Any,
    composed: Any,
    layouts: Any,
    values: Any,
    there: Any,
) -> None:
    """The integer results of one slot: for result i, what function[queries[i]] of column[queries[i]] is in
    windows[i].
    """
    for place in range(len(queries)):
        asked, at, layout, row = _found(place, queries, windows, function, composed)
        what = column[queries[place]]
        if asked < 0:
            there[place] = False
        elif asked == ITEMS:
            values[place], there[place] = composed.items[row], True
        else:
            count = composed.words[at + layouts.where[layout, COUNT, what]]
            if asked == COUNTED:
                values[place], there[place] = count, True
            elif asked == TOTAL:
                total, fits = read_int(composed.words, at + layouts.where[layout, SUM_INT, what])
                values[place], there[place] = total, fits and count > 0
            else:
                operation = MIN if asked == LEAST else MAX
                values[place] = composed.words[at + layouts.where[layout, operation, what]]
                there[place] = count > 0


@kernel
def lower_float(
    queries: Any,
    windows: Any,
    function: Any,
    column: Any,
    composed: Any,
    layouts: Any,
    values: Any,
    there: Any,
) -> None:
    """The float results of one slot, like lower_int: least, greatest and sum of floats, and all averages."""
    bits = values.view(np.int64)
    for place in range(len(queries)):
        asked, at, layout, _ = _found(place, queries, windows, function, composed)
        what = column[queries[place]]
        there[place] = False
        if asked < 0:
            continue
        count = composed.words[at + layouts.where[layout, COUNT, what]]
        if count == 0:
            continue
        if asked == LEAST or asked == GREATEST:
            operation = MIN if asked == LEAST else MAX
            word = composed.words[at + layouts.where[layout, operation, what]]
            bits[place] = word if word >= 0 else word ^ _MOST
            there[place] = True
            continue
        if layouts.where[layout, SUM_FLOAT, what] >= 0:
            total = read_float(composed.words, at + layouts.where[layout, SUM_FLOAT, what])
        else:
            total = wide_to_float(composed.words, at + layouts.where[layout, SUM_INT, what])
        values[place] = total / count if asked == MEAN else total
        there[place] = total == total


@kernel
def _found(place: Any, queries: Any, windows: Any, function: Any, composed: Any) -> tuple[Any, Any, Any, Any]:
    row = windows[place]
    return function[queries[place]], composed.at[row], composed.layout[row], row


@kernel
def spans(queries: Any, shape: Any, low: Any, high: Any, blocks: Any, k: Any, begin: Any, count: Any) -> None:
    """For each of `queries`, the composed windows of its shape with low <= k < high: where they begin and how
    many.

    blocks[s]:blocks[s + 1] are the composed windows of shape s, by ascending k.
    """
    for place in range(len(queries)):
        query = queries[place]
        first, stop = blocks[shape[query]], blocks[shape[query] + 1]
        found = first + np.searchsorted(k[first:stop], low[query])
        begin[place] = found
        count[place] = max(0, first + np.searchsorted(k[first:stop], high[query]) - found)
