"""Windows from slices: the closed slices, the aggregates of each window, and the values that come out.

The closed slices of all derived streams lie in one arena of rows, each linked to the next of its derived
stream:

    first[s] -> row -> row -> ... -> last[s] -> the open slice of s, which is not in the arena

Windows of many sizes share long runs of slices. FANOUT consecutive slices of a derived stream are therefore
added up to a block, FANOUT blocks to a larger one, and so on. A window takes the largest blocks that lie in
it, some log(slices) of them in place of all its slices (FANOUT 2 in this picture):

    slices    0   1   2   3   4   5   6   7   8   9
    blocks   [0   1] [2   3] [4   5] [6   7] [8   9]
             [0   1   2   3] [4   5   6   7]
             [0   1   2   3   4   5   6   7]
    window        |---|-------|---------------|---|         slices 1 to 8: 1, [2 3], [4 5 6 7], 8

A block has the layout of its first slice. What a later slice has beyond that was asked for by queries that
came in between; a window of theirs does not reach back to the first slice, so it never takes the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.families.filters.kernels.cut_slices import (
    AXES,
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
from anabranch.numeric.jit import int64, kernel, leaf, loop, twig, zero
from anabranch.numeric.window_edges import first_after, first_after_float

#: What an aggregation computes of a window.
ITEMS, COUNTED, LEAST, GREATEST, TOTAL, MEAN = 0, 1, 2, 3, 4, 5

#: In place of a row of the arena: the open slice.
_OPEN = -2
_MOST = int64(2**63 - 1)
_unsigned = np.uint64

#: No row, no block.
END = -1

FANOUT = 4
#: Sizes of blocks. The largest have FANOUT ** LEVELS slices.
LEVELS = 12


# closed slices, and blocks of them


class SliceLists(NamedTuple):
    """Linked lists of arena rows: `first` and `last` of a derived stream, `next` of a row; -1 is none."""

    first: Ints
    last: Ints
    next: Ints


class SliceBlocks(NamedTuple):
    """Blocks of slices. `smallest[r]` is the smallest block that begins with row r of the arena, -1 is none.

    rows, words: of the blocks, int64[blocks, 8], and their aggregates. Of each derived stream, `slices` is
    how many came since its list was empty, and `begun`, int64[streams, LEVELS], the slice (at level 0) or
    block with which the next block of each size begins.
    """

    smallest: Ints
    rows: Ints
    words: Ints
    slices: Ints
    begun: Ints


#: A row of blocks, one cache line: the next larger block that begins where it does (-1 is none); the last
#: slice, and its time and position; and as for slices: items, layout, at.
LARGER, LAST, BLOCK_TIME, BLOCK_POSITION, BLOCK_ITEMS, BLOCK_LAYOUT, BLOCK_AT = 0, 1, 2, 3, 4, 5, 6
BLOCK_WIDTH = 8


class ClosedArrays(NamedTuple):
    """The closed slices of all derived streams: rows of the arena, their lists and their blocks."""

    rows: SliceRows
    lists: SliceLists
    blocks: SliceBlocks


@kernel
def link(
    slots: Ints, rows: Ints, index: int, closed: ClosedArrays, layouts: LayoutArrays, used: int, filled: int
) -> tuple[int, int, int]:
    """Appends rows of the arena to the lists of their derived streams, in their order, and adds up the blocks
    that they complete.

    From `index` on, until all are done or the blocks of the next might not fit. `used` and `filled` are how
    many blocks and words there are. Returns the index to go on with, and these two.
    """
    first, last, next_ = closed.lists
    smallest, blocks, block_words, slices, begun = closed.blocks
    room, words = len(blocks) - LEVELS, len(block_words) - LEVELS * layouts.width.max()
    while index < len(slots) and used <= room and filled <= words:
        slot, row = slots[index], rows[index]
        next_[row] = smallest[row] = END
        if last[slot] == END:
            first[slot] = row
        else:
            next_[last[slot]] = row
        last[slot] = row
        if slices[slot] % FANOUT == 0:
            begun[slot, 0] = row
        slices[slot] += 1
        if slices[slot] % FANOUT == 0:
            used, filled = _add_blocks(slot, closed, layouts, used, filled)
        index += 1
    return index, used, filled


@twig
def _add_blocks(
    slot: int, closed: ClosedArrays, layouts: LayoutArrays, used: int, filled: int
) -> tuple[int, int]:
    """Adds the blocks, small to large, that the newest slice of a derived stream completes."""
    blocks = closed.blocks
    level, complete = int64(0), blocks.slices[slot]
    while level < LEVELS and complete % FANOUT == 0:
        filled = _add_block(blocks.begun[slot, level], level, used, filled, closed, layouts)
        complete //= FANOUT
        if level + 1 < LEVELS and (complete - 1) % FANOUT == 0:
            blocks.begun[slot, level + 1] = used
        used += 1
        level += 1
    return used, filled


@twig
def _add_block(
    part: int, level: int, block: int, at: int, closed: ClosedArrays, layouts: LayoutArrays
) -> int:
    """Adds up FANOUT slices (at level 0) or blocks, from `part` on, to a new block; returns where its words
    end.
    """
    rows, lists, (smallest, blocks, words, _, _) = closed
    layout = rows.layout[part] if level == 0 else blocks[part, BLOCK_LAYOUT]
    first, stop = layouts.first[layout], layouts.first[layout + 1]
    items, row = int64(0), int64(END)
    empty(words, at, first, stop, layouts.operation, layouts.offset)
    if level == 0:
        smallest[part] = block
    else:
        blocks[part, LARGER] = block
    for number in range(FANOUT):
        if level == 0:
            row = part if number == 0 else lists.next[row]
            fold(words, at, layouts, first, stop, rows.words, rows.at[row], rows.layout[row], zero())
            items += rows.items[row]
        else:
            if number > 0:
                part = smallest[lists.next[row]]
                for _ in range(level - 1):
                    part = blocks[part, LARGER]
            row = blocks[part, LAST]
            fold(
                words,
                at,
                layouts,
                first,
                stop,
                words,
                blocks[part, BLOCK_AT],
                blocks[part, BLOCK_LAYOUT],
                zero(),
            )
            items += blocks[part, BLOCK_ITEMS]
    blocks[block, LARGER], blocks[block, LAST] = END, row
    blocks[block, BLOCK_TIME], blocks[block, BLOCK_POSITION] = rows.time[row], rows.position[row]
    blocks[block, BLOCK_ITEMS], blocks[block, BLOCK_LAYOUT], blocks[block, BLOCK_AT] = items, layout, at
    return at + layouts.width[layout]


@kernel
def unlink(slot: int, closed: ClosedArrays) -> int:
    """Empties the list of a derived stream; returns how many rows it had."""
    lists = closed.lists
    count = 0
    row = lists.first[slot]
    while row != END:
        row = lists.next[row]
        count += 1
    lists.first[slot] = lists.last[slot] = END
    closed.blocks.slices[slot] = 0
    return count


@kernel
def list_rows(slots: Ints, lists: SliceLists, rows: Ints, owners: Ints) -> int:
    """Writes the arena rows that are on lists into `rows`, derived stream by derived stream, and the derived
    stream of each into `owners`; returns how many.
    """
    count = 0
    for slot in slots:
        row = lists.first[slot]
        while row != END:
            rows[count] = row
            owners[count] = slot
            count += 1
            row = lists.next[row]
    return count


# windows


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
    windows: int


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
        shapes.windows[index],
    )


@leaf
def _reaches(shape: _Shape, k: int, to_end: bool, time: int, position: int) -> bool:
    """Returns whether a moment is at or after the beginning of window k or, with `to_end`, its end."""
    if shape.axis <= ROW:
        moment, start = position if shape.axis == ROW else time, shape.base + k * shape.step
        if moment < start or not to_end:
            return moment >= start
        # as an unsigned distance: the end itself may be beyond the numbers that there are
        return bool(_unsigned(moment) - _unsigned(start) >= _unsigned(shape.size))
    start_float = shape.base_float + k * shape.step_float
    return real_time(shape.axis, time) >= start_float + (shape.size_float if to_end else 0.0)


@leaf
def _first_open(shape: _Shape, time: int, position: int) -> int:
    """Returns the first window that ends after a moment."""
    if shape.axis <= ROW:
        k = first_after(shape.base, shape.step, shape.size, position if shape.axis == ROW else time)
    else:
        real = real_time(shape.axis, time)
        k = first_after_float(shape.base_float, shape.step_float, shape.size_float, real)
    return min(k, shape.windows)


@leaf
def _first_to_come(shape: _Shape, time: int, position: int) -> int:
    """Returns the first window that begins after a moment."""
    if shape.axis <= ROW:
        k = first_after(shape.base, shape.step, int64(0), position if shape.axis == ROW else time)
    else:
        k = first_after_float(shape.base_float, shape.step_float, 0.0, real_time(shape.axis, time))
    return min(k, shape.windows)


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


@leaf
def _block(shape: _Shape, k: int, to_end: bool, row: int, closed: ClosedArrays) -> int:
    """Returns the largest block from a row on all slices of which begin before window k begins or, with
    `to_end`, before it ends; END if there is none.
    """
    blocks = closed.blocks.rows
    found, block = int64(END), closed.blocks.smallest[row]
    while block != END and not _reaches(
        shape, k, to_end, blocks[block, BLOCK_TIME], blocks[block, BLOCK_POSITION]
    ):
        found, block = block, blocks[block, LARGER]
    return found


@leaf
def _first_slice(shape: _Shape, k: int, row: int, slot: int, open_: SliceRows, closed: ClosedArrays) -> int:
    """Returns the first slice from `row` on that does not begin before window k; END if there is none."""
    times, positions, nexts = closed.rows.time, closed.rows.position, closed.lists.next
    while row >= 0 and not _reaches(shape, k, False, times[row], positions[row]):
        block = _block(shape, k, False, row, closed)
        row = nexts[row if block == END else closed.blocks.rows[block, LAST]]
    if row == END:
        row = int64(_OPEN)
    if row == _OPEN:
        if open_.items[slot] == 0 or not _reaches(shape, k, False, open_.time[slot], open_.position[slot]):
            row = int64(END)
    return row


@leaf
def _is_due(shape: _Shape, k: int, last: int, ended: bool, passed: int) -> bool:
    """Returns whether window k is full or, when the stream has ended, has begun."""
    if k >= shape.windows:
        return False
    return _reaches(shape, k, True, last, passed) or (ended and _reaches(shape, k, False, last, passed - 1))


@loop
def due_shapes(
    indexes: Ints, last: int, ended: bool, shapes: ShapeArrays, streams: StreamArrays, due: Ints, stops: Ints
) -> int:
    """Writes those of the shapes `indexes` whose next window is due into `due`, and the first window of each
    that is not due into `stops`; returns how many shapes these are.
    """
    count = 0
    for index in indexes:
        passed = streams.passed[shapes.stream[index]]
        shape = _shape(shapes, index)
        if _is_due(shape, shapes.next[index], last, ended, passed):
            due[count] = index
            stops[count] = _first_open(shape, last, passed)
            if ended:
                stops[count] = max(stops[count], _first_to_come(shape, last, passed - 1))
            count += 1
    return count


@loop
def count_windows(
    index: int, first: int, stop: int, shapes: ShapeArrays, open_: SliceRows, closed: ClosedArrays
) -> int:
    """Returns how many of the windows first <= k < stop of a shape have items: slice by slice, whatever the
    number of windows.
    """
    shape, slot = _shape(shapes, index), shapes.stream[index]
    rows, nexts = closed.rows, closed.lists.next
    row = closed.lists.first[slot]
    count = int64(0)
    while first < stop:
        if row == END and open_.items[slot] == 0:
            break
        time = rows.time[row] if row != END else open_.time[slot]
        position = rows.position[row] if row != END else open_.position[slot]
        begin = max(first, _first_open(shape, time, position))
        end = min(stop, _first_to_come(shape, time, position))
        if begin < end:
            count += end - begin
            first = end
        if row == END:
            break
        row = nexts[row]
    return count


@leaf
def _overlaps(shape: _Shape, k: int) -> bool:
    """Returns whether window k + 1 begins before window k ends."""
    if shape.axis <= ROW:
        return shape.step < shape.size
    start = shape.base_float + k * shape.step_float
    return shape.base_float + (k + 1) * shape.step_float < start + shape.size_float


@loop
def compose(
    due: Ints,
    stops: Ints,
    at: int,
    window: int,
    last: int,
    ended: bool,
    shapes: ShapeArrays,
    layouts: LayoutArrays,
    streams: StreamArrays,
    open_: SliceRows,
    closed: ClosedArrays,
    out: ComposedWindows,
    count: int,
    filled: int,
) -> tuple[int, int, int, int]:
    """Composes the windows before stops[at:] of the shapes due[at:] that are full and not yet composed or,
    when the stream has `ended`, have begun; until all are done or `out` is full.

    window: of the first of these shapes, the window to go on with, or 0. last: the time of the stream's last
    item; a window in time is full when its end is not after it, one in rows when its derived stream has had
    as many items. Windows without items are left out, however many there are. count, filled: how many windows
    and words are in `out`. Returns `at` and `window` to go on with, and these two.
    """
    times, positions = closed.rows.time, closed.rows.position
    while at < len(due):
        index = due[at]
        shape = _shape(shapes, index)
        slot = shapes.stream[index]
        layout, passed = streams.layout[slot], streams.passed[slot]
        k = max(window, shapes.next[index])
        window = int64(0)
        row = closed.lists.first[slot]
        while k < stops[at] and _is_due(shape, k, last, ended, passed):
            row = _first_slice(shape, k, row, slot, open_, closed)
            if row == END:
                break
            time = times[row] if row >= 0 else open_.time[slot]
            position = positions[row] if row >= 0 else open_.position[slot]
            if _reaches(shape, k, True, time, position):
                # Nothing in window k: go on with the first that ends after the slice that was found.
                k = max(k + 1, _first_open(shape, time, position))
                continue
            if count == len(out.k) or filled + layouts.width[layout] > len(out.words):
                return at, k, count, filled
            out.shape[count] = index
            out.k[count] = k
            out.layout[count] = layout
            out.at[count] = filled
            items, end = _composed(shape, k, row, slot, layouts, layout, open_, closed, out.words, filled)
            out.items[count] = items
            if not _overlaps(shape, k):
                row = end
            count += 1
            filled += layouts.width[layout]
            k += 1
        shapes.next[index] = max(shapes.next[index], _first_open(shape, last, passed))
        at += 1
    return at, window, count, filled


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
) -> tuple[int, int]:
    """Adds up window k of a shape, from slice `row` on, at words[at:]; returns how many items it has, and the
    slice after it.
    """
    rows, lists, (_, blocks, block_words, _, _) = closed
    first, stop = layouts.first[layout], layouts.first[layout + 1]
    empty(words, at, first, stop, layouts.operation, layouts.offset)
    items = int64(0)
    while row >= 0:
        if _reaches(shape, k, True, rows.time[row], rows.position[row]):
            return items, row
        block = _block(shape, k, True, row, closed)
        if block == END:
            fold(words, at, layouts, first, stop, rows.words, rows.at[row], rows.layout[row], zero())
            items += rows.items[row]
            row = lists.next[row]
        else:
            other, of = blocks[block, BLOCK_AT], blocks[block, BLOCK_LAYOUT]
            fold(words, at, layouts, first, stop, block_words, other, of, zero())
            items += blocks[block, BLOCK_ITEMS]
            row = lists.next[blocks[block, LAST]]
    if open_.items[slot] > 0 and not _reaches(shape, k, True, open_.time[slot], open_.position[slot]):
        fold(words, at, layouts, first, stop, open_.words, open_.at[slot], open_.layout[slot], zero())
        items += open_.items[slot]
    return items, int64(_OPEN)


@kernel
def evict(slots: Ints, shapes: ShapeArrays, closed: ClosedArrays) -> int:
    """Takes slices off the lists that lie before every window to come; returns how many."""
    arena, lists = closed.rows, closed.lists
    count = 0
    for slot in slots:
        time, time_float, position = _MOST, np.inf, _MOST
        for entry in range(shapes.first[AXES * slot], shapes.first[AXES * (slot + 1)]):
            index = shapes.listed[entry]
            k, axis = shapes.next[index], shapes.axis[index]
            if k >= shapes.windows[index]:  # none is to come
                continue
            if axis == ROW:
                position = min(position, shapes.base[index] + k * shapes.step[index])
            elif axis == TIME:
                time = min(time, shapes.base[index] + k * shapes.step[index])
            elif axis == FLOAT_TIME:
                time = min(time, time_word(shapes.base_float[index] + k * shapes.step_float[index]))
            else:
                time_float = min(time_float, shapes.base_float[index] + k * shapes.step_float[index])
        row = lists.first[slot]
        while row != END:
            if arena.time[row] >= time or arena.time[row] >= time_float or arena.position[row] >= position:
                break
            row = lists.next[row]
            count += 1
        lists.first[slot] = row
        if row == END:
            lists.last[slot] = END
            closed.blocks.slices[slot] = 0
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
