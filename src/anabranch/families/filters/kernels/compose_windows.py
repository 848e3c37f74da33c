"""Windows from slices: the aggregates of each window, which slices are still needed, and the values that come
out.

The closed slices of all derived streams lie in one arena of rows, each linked to the next of its derived
stream:

    first[s] -> row -> row -> ... -> last[s] -> the open slice of s, which is not in the arena
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.families.filters.kernels.cut_slices import (
    COUNT,
    FLOAT_TIME,
    MAX,
    MIN,
    ROW,
    SUM_FLOAT,
    SUM_INT,
    TIME,
    LayoutArrays,
    ShapeArrays,
    SliceRows,
    StreamArrays,
    empty,
    fold,
    real_time,
    time_word,
)
from anabranch.families.filters.kernels.exact_sums import read_float, read_int, wide_to_float
from anabranch.model.arrays import Bools, Floats, Ints
from anabranch.numeric.jit import int64, kernel, leaf, twig, zero
from anabranch.numeric.window_edges import first_after, first_after_float

#: What an aggregation computes of a window.
ITEMS, COUNTED, LEAST, GREATEST, TOTAL, MEAN = 0, 1, 2, 3, 4, 5

_END, _OPEN = -1, -2
_MOST = int64(2**63 - 1)


class SliceLists(NamedTuple):
    """Linked lists of arena rows: `first` and `last` of a derived stream, `next` of a row; -1 is none."""

    first: Ints
    last: Ints
    next: Ints


class ClosedArrays(NamedTuple):
    """The closed slices of all derived streams: rows of the arena, and their lists."""

    rows: SliceRows
    lists: SliceLists


class ComposedWindows(NamedTuple):
    """Windows that have items: their shape, their number k, how many items, and their aggregates as words."""

    shape: Ints
    k: Ints
    items: Ints
    layout: Ints
    at: Ints
    words: Ints


class _Shape(NamedTuple):
    """An entry of ShapeArrays."""

    axis: int
    base: int
    size: int
    step: int
    base_float: float
    size_float: float
    step_float: float


@kernel
def link(slots: Ints, rows: Ints, lists: SliceLists) -> None:
    """Appends each of these rows of the arena to the list of its derived stream, in their order."""
    for index in range(len(slots)):
        slot, row = slots[index], rows[index]
        lists.next[row] = _END
        if lists.last[slot] == _END:
            lists.first[slot] = row
        else:
            lists.next[lists.last[slot]] = row
        lists.last[slot] = row


@kernel
def unlink(slot: int, lists: SliceLists) -> int:
    """Empties the list of a derived stream; returns how many rows it had."""
    count = 0
    row = lists.first[slot]
    while row != _END:
        row = lists.next[row]
        count += 1
    lists.first[slot] = lists.last[slot] = _END
    return count


@leaf
def _shape(shapes: ShapeArrays, index: int) -> _Shape:
    return _Shape(
        shapes.axis[index],
        shapes.base[index],
        shapes.size[index],
        shapes.step[index],
        shapes.base_float[index],
        shapes.size_float[index],
        shapes.step_float[index],
    )


@leaf
def _reaches(shape: _Shape, k: int, to_end: bool, time: int, position: int) -> bool:
    """Returns whether a moment is at or after the beginning of window k or, with `to_end`, its end."""
    if shape.axis <= ROW:
        moment = position if shape.axis == ROW else time
        return moment >= shape.base + k * shape.step + (shape.size if to_end else int64(0))
    start = shape.base_float + k * shape.step_float
    return real_time(shape.axis, time) >= start + (shape.size_float if to_end else 0.0)


@leaf
def _first_open(shape: _Shape, time: int, position: int) -> int:
    """Returns the first window that ends after a moment."""
    if shape.axis <= ROW:
        return first_after(shape.base, shape.step, shape.size, position if shape.axis == ROW else time)
    real = real_time(shape.axis, time)
    return first_after_float(shape.base_float, shape.step_float, shape.size_float, real)


@kernel
def settle(indexes: Ints, shapes: ShapeArrays, streams: StreamArrays, last: int, begun: bool) -> None:
    """Makes the first open window the next one of these shapes; of those in time only if the stream has
    `begun`.
    """
    for index in indexes:
        if begun or shapes.axis[index] == ROW:
            passed = streams.passed[shapes.stream[index]]
            first = _first_open(_shape(shapes, index), last, passed)
            shapes.next[index] = max(shapes.next[index], first)


@kernel
def compose(
    due: Ints,
    last: int,
    ended: bool,
    shapes: ShapeArrays,
    layouts: LayoutArrays,
    streams: StreamArrays,
    open_: SliceRows,
    closed: ClosedArrays,
    out: ComposedWindows,
    counting: bool,
) -> tuple[int, int]:
    """Composes the windows of the shapes `due` that are full and not yet composed or, when the stream has
    `ended`, have begun.

    last: the time of the stream's last item; a window in time is full when its end is not after it, one in
    rows when its derived stream has had as many items. Windows without items are left out, however many there
    are. Returns how many windows and how many words there are; with `counting` nothing else is done, to know
    how much room `out` must have.
    """
    arena, lists = closed
    times, positions, nexts = arena.time, arena.position, lists.next
    count = int64(0)
    filled = int64(0)
    for index in due:
        shape = _shape(shapes, index)
        slot = shapes.stream[index]
        layout, passed = streams.layout[slot], streams.passed[slot]
        open_time, open_position = open_.time[slot], open_.position[slot]
        tail = int64(_OPEN if open_.items[slot] > 0 else _END)
        k = shapes.next[index]
        row = lists.first[slot] if lists.first[slot] != _END else tail
        while True:
            if not _reaches(shape, k, True, last, passed):
                if not (ended and _reaches(shape, k, False, last, passed - 1)):
                    break
            while row != _END:
                time = times[row] if row >= 0 else open_time
                position = positions[row] if row >= 0 else open_position
                if _reaches(shape, k, False, time, position):
                    break
                row = _END if row == _OPEN else nexts[row] if nexts[row] != _END else tail
            if row == _END:
                break
            time = times[row] if row >= 0 else open_time
            position = positions[row] if row >= 0 else open_position
            if _reaches(shape, k, True, time, position):
                # Nothing in window k: go on with the first that ends after the slice that was found.
                k = max(k + 1, _first_open(shape, time, position))
                continue
            if not counting:
                out.shape[count] = index
                out.k[count] = k
                out.layout[count] = layout
                out.at[count] = filled
                out.items[count] = _composed(
                    shape, k, row, slot, layouts, layout, open_, closed, out.words, filled
                )
            count += 1
            filled += layouts.width[layout]
            k += 1
        if not counting:
            shapes.next[index] = max(shapes.next[index], _first_open(shape, last, passed))
    return count, filled


@twig
def _composed(
    shape: _Shape,
    k: int,
    row: int,
    slot: int,
    layouts: LayoutArrays,
    layout: int,
    open_: SliceRows,
    closed: ClosedArrays,
    words: Ints,
    at: int,
) -> int:
    """Adds up window k of a shape, from slice `row` on, at words[at:]; returns how many items it has."""
    _, times, positions, counts, r_layout, r_at, r_words = closed.rows
    nexts = closed.lists.next
    first, stop = layouts.first[layout], layouts.first[layout + 1]
    empty(words, at, first, stop, layouts.operation, layouts.offset)
    items = int64(0)
    while row >= 0:
        if _reaches(shape, k, True, times[row], positions[row]):
            return items
        fold(words, at, layouts, first, stop, r_words, r_at[row], r_layout[row], zero())
        items += counts[row]
        row = nexts[row] if nexts[row] != _END else _OPEN
    if open_.items[slot] > 0 and not _reaches(shape, k, True, open_.time[slot], open_.position[slot]):
        fold(words, at, layouts, first, stop, open_.words, open_.at[slot], open_.layout[slot], zero())
        items += open_.items[slot]
    return items


@kernel
def evict(slots: Ints, shapes: ShapeArrays, closed: ClosedArrays) -> int:
    """Takes slices off the lists that lie before every window to come; returns how many."""
    arena, lists = closed
    count = 0
    for slot in slots:
        time, time_float, position = _MOST, np.inf, _MOST
        for entry in range(shapes.first[slot], shapes.first[slot + 1]):
            index = shapes.listed[entry]
            k, axis = shapes.next[index], shapes.axis[index]
            if axis == ROW:
                position = min(position, shapes.base[index] + k * shapes.step[index])
            elif axis == TIME:
                time = min(time, shapes.base[index] + k * shapes.step[index])
            elif axis == FLOAT_TIME:
                time = min(time, time_word(shapes.base_float[index] + k * shapes.step_float[index]))
            else:
                time_float = min(time_float, shapes.base_float[index] + k * shapes.step_float[index])
        row = lists.first[slot]
        while row != _END:
            if arena.time[row] >= time or arena.time[row] >= time_float or arena.position[row] >= position:
                break
            row = lists.next[row]
            count += 1
        lists.first[slot] = row
        if row == _END:
            lists.last[slot] = _END
    return count


@kernel
def list_rows(slots: Ints, lists: SliceLists, rows: Ints, owners: Ints) -> int:
    """Writes the arena rows that are on lists into `rows`, derived stream by derived stream, and the derived
    stream of each into `owners`; returns how many.
    """
    count = 0
    for slot in slots:
        row = lists.first[slot]
        while row != _END:
            rows[count] = row
            owners[count] = slot
            count += 1
            row = lists.next[row]
    return count


@kernel
def lower_int(
    queries: Ints,
    windows: Ints,
    function: Ints,
    column: Ints,
    composed: ComposedWindows,
    layouts: LayoutArrays,
    values: Ints,
    present: Bools,
) -> None:
    """The integer results in one column of the table: value i is function[queries[i]] of column[queries[i]]
    in window windows[i].
    """
    for index in range(len(queries)):
        query, window = queries[index], windows[index]
        wanted, of = function[query], column[query]
        at, layout = composed.at[window], composed.layout[window]
        if wanted < 0:
            present[index] = False
        elif wanted == ITEMS:
            values[index], present[index] = composed.items[window], True
        else:
            count = composed.words[at + layouts.where[layout, COUNT, of]]
            if wanted == COUNTED:
                values[index], present[index] = count, True
            elif wanted == TOTAL:
                total, fits = read_int(composed.words, at + layouts.where[layout, SUM_INT, of])
                values[index], present[index] = total, fits and count > 0
            else:
                operation = MIN if wanted == LEAST else MAX
                values[index] = composed.words[at + layouts.where[layout, operation, of]]
                present[index] = count > 0


@kernel
def lower_float(
    queries: Ints,
    windows: Ints,
    function: Ints,
    column: Ints,
    composed: ComposedWindows,
    layouts: LayoutArrays,
    values: Floats,
    present: Bools,
) -> None:
    """The float results in one column of the table, like lower_int: least, greatest and sum of floats, and
    all averages.
    """
    bits = values.view(np.int64)
    for index in range(len(queries)):
        query, window = queries[index], windows[index]
        wanted, of = function[query], column[query]
        at, layout = composed.at[window], composed.layout[window]
        present[index] = False
        if wanted < 0:
            continue
        count = composed.words[at + layouts.where[layout, COUNT, of]]
        if count == 0:
            continue
        if wanted == LEAST or wanted == GREATEST:
            operation = MIN if wanted == LEAST else MAX
            word = composed.words[at + layouts.where[layout, operation, of]]
            bits[index] = word if word >= 0 else word ^ _MOST
            present[index] = True
            continue
        if layouts.where[layout, SUM_FLOAT, of] >= 0:
            total = read_float(composed.words, at + layouts.where[layout, SUM_FLOAT, of])
        else:
            total = wide_to_float(composed.words, at + layouts.where[layout, SUM_INT, of])
        values[index] = total / count if wanted == MEAN else total
        present[index] = total == total


@kernel
def window_runs(
    queries: Ints, shape: Ints, low: Ints, high: Ints, blocks: Ints, k: Ints, begin: Ints, count: Ints
) -> None:
    """For each of `queries`, the composed windows of its shape with low <= k < high: where they begin and how
    many there are.

    blocks[s]:blocks[s + 1] are the composed windows of shape s, by ascending k.
    """
    for index in range(len(queries)):
        query = queries[index]
        first, stop = blocks[shape[query]], blocks[shape[query] + 1]
        begin[index] = _rank(k, first, stop, low[query])
        count[index] = max(0, _rank(k, first, stop, high[query]) - begin[index])


@leaf
def _rank(k: Ints, first: int, stop: int, limit: int) -> int:
    """The first index in first:stop whose window is not below the limit, or `stop`."""
    while first < stop:
        middle = (first + stop) // 2
        if k[middle] < limit:
            first = middle + 1
        else:
            stop = middle
    return first
