"""Slices of derived streams: cut at every window edge, each aggregated once, composed into windows (lift,
combine, lower).

A slice is a row of `SliceRows`: the first item's number, time and position in its derived stream, how many
items there are, and their aggregates, as `words` from `at` on. The row's layout says what the words mean.
There are two kinds of layout:

- lifted: one entry per track, that is an operation on a column: COUNT 1 word, MIN and MAX 1 word, SUM 2
  (integers) or 6 (floats)
- raw: one item as it came: `masks` words with one bit per column (1: present, 0: missing), then one word per
  column

Times and values are int64 words in the order of what they stand for: a float is its bits, with all but the
sign inverted where it is negative.

        t=0        t=10       t=20       t=30            RANGE 20 STEP 10 and RANGE 15 on one derived stream
    A   |----------window 1---|
                   |---------window 2----|
    B   |------------|-------------|
    slices [a a a][b][c c c][d d]...                     every window is a run of whole slices
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.families.filters.kernels.exact_sums import add_float, add_floats, add_int, add_wide
from anabranch.model.arrays import Floats, Ints
from anabranch.numeric.jit import int64, kernel, leaf, twig, zero
from anabranch.numeric.window_edges import NEVER, first_after, first_after_float

COUNT, MIN, MAX, SUM_INT, SUM_FLOAT, RAW = 0, 1, 2, 3, 4, 5
OPERATIONS = 6

#: How windows are measured. In integers: on integer times, or in positions in the derived stream. In floats:
#: on float times, or on integer times.
TIME, ROW, FLOAT_TIME, FRACTION = 0, 1, 2, 3
AXES = 4

_MOST = int64(2**63 - 1)
_LEAST = int64(-(2**63))


class LayoutArrays(NamedTuple):
    """Entries of layout l are first[l]:first[l + 1]; where[l, operation, column] is an offset, or -1 if it
    has no such entry.

    source[l, e] is where a row of layout l has what entry e, of whatever layout, is computed from: an offset,
    a bit if l is raw, or -1.
    """

    first: Ints
    operation: Ints
    column: Ints
    offset: Ints
    width: Ints
    masks: Ints
    where: Ints
    source: Ints


class SliceRows(NamedTuple):
    """Slices. The words of row r are words[at[r]:at[r] + width of its layout]."""

    number: Ints
    time: Ints
    position: Ints
    items: Ints
    layout: Ints
    at: Ints
    words: Ints


def empty_rows(count: int, words: int) -> SliceRows:
    """Room for slices."""
    return SliceRows._make([*(np.empty(count, np.int64) for _ in range(6)), np.empty(words, np.int64)])


def first_rows(rows: SliceRows, count: int, words: int) -> SliceRows:
    return SliceRows._make([*(part[:count] for part in rows[:-1]), rows.words[:words]])


class ShapeArrays(NamedTuple):
    """Windows with a base, a size and a step; `windows` is how many of them can be counted.

    `next` is the first window that has not been composed, `edge` the next edge that a slice must not cross: a
    position, or the word of a time. With i = AXES s + a, the windows on axis a of derived stream s are
    listed[first[i]:first[i + 1]]. They are a heap by their edges, so that a slice finds the next edge without
    looking at all of them.
    """

    axis: Ints
    stream: Ints
    base: Ints
    size: Ints
    step: Ints
    base_float: Floats
    size_float: Floats
    step_float: Floats
    windows: Ints
    next: Ints
    edge: Ints
    first: Ints
    listed: Ints


class StreamArrays(NamedTuple):
    """Derived streams: the layout of new slices, how many items have passed, and how far the open slice may
    reach.
    """

    layout: Ints
    passed: Ints
    edge: Ints
    edge_float: Floats
    edge_row: Ints


@leaf
def real_time(axis: int, time: int) -> float:
    """A time as a float: integer times as they are, float times from their words."""
    if axis == FRACTION:
        return float(time)
    return int64(time if time >= 0 else time ^ _MOST).view(np.float64)


@leaf
def time_word(time: float) -> int:
    """The word of a float time."""
    bits: int = np.float64(time).view(np.int64)  # type: ignore[assignment]
    return bits if bits >= 0 else bits ^ _MOST


@leaf
def empty(words: Ints, at: int, first: int, stop: int, operation: Ints, offset: Ints) -> None:
    """Writes the aggregate of nothing in the layout with entries first:stop."""
    for entry in range(first, stop):
        index = at + offset[entry]
        code = operation[entry]
        if code == MIN:
            words[index] = _MOST
        elif code == MAX:
            words[index] = _LEAST
        else:
            words[index] = 0
            if code >= SUM_INT:
                words[index + 1] = 0
            if code == SUM_FLOAT:
                for more in range(2, 6):
                    words[index + more] = 0


@leaf
def fold(
    words: Ints,
    at: int,
    layouts: LayoutArrays,
    first: int,
    stop: int,
    other: Ints,
    other_at: int,
    layout: int,
    masks: int,
) -> None:
    """Adds a slice (masks 0) or a raw item, in the layout `layout`, to the slice at words[at:] with entries
    first:stop.
    """
    for entry in range(first, stop):
        source = layouts.source[layout, entry]
        if source < 0:
            continue
        index, code = at + layouts.offset[entry], layouts.operation[entry]
        if masks == 0:
            _combine(words, index, code, other, other_at + source)
        elif (other[other_at + (source >> 6)] >> (source & 63)) & 1:
            _lift(words, index, code, other[other_at + masks + source])


@leaf
def _lift(words: Ints, index: int, code: int, value: int) -> None:
    if code == COUNT:
        words[index] += 1
    elif code == MIN:
        words[index] = min(words[index], value)
    elif code == MAX:
        words[index] = max(words[index], value)
    elif code == SUM_INT:
        add_int(words, index, value)
    else:
        add_float(words, index, value if value >= 0 else value ^ _MOST)


@leaf
def _combine(words: Ints, index: int, code: int, other: Ints, other_index: int) -> None:
    if code == COUNT:
        words[index] += other[other_index]
    elif code == MIN:
        words[index] = min(words[index], other[other_index])
    elif code == MAX:
        words[index] = max(words[index], other[other_index])
    elif code == SUM_INT:
        add_wide(words, index, other[other_index], other[other_index + 1])
    else:
        add_floats(words, index, other, other_index)


@kernel
def cut(
    slots: Ints,
    picks: Ints,
    source: SliceRows,
    layouts: LayoutArrays,
    shapes: ShapeArrays,
    streams: StreamArrays,
    open_: SliceRows,
    out: SliceRows,
    owners: Ints,
) -> tuple[int, int]:
    """Adds rows of `source` to the open slices of their derived streams, and closes those that reach an edge.

    slots, picks: derived streams and rows of `source`, in the order of the stream. open_: the open slice of
    each derived stream (items 0: there is none). out, owners: room for closed slices, one per pick, and their
    derived streams. Returns how many rows and how many words of `out` were filled.
    """
    # Taken out once: taking an array out of a tuple counts a reference, which is dear in an inner loop.
    l_first, l_masks = layouts.first, layouts.masks
    s_number, s_time, _, s_items, s_layout, s_at, s_words = source
    o_items, o_words, o_at, o_layout = open_.items, open_.words, open_.at, open_.layout
    count, edge, edge_float, edge_row = streams.passed, streams.edge, streams.edge_float, streams.edge_row
    rows = int64(0)
    filled = int64(0)
    for pick in range(len(slots)):
        slot, row = slots[pick], picks[pick]
        time = s_time[row]
        fresh = o_items[slot] == 0
        if not fresh and (time >= edge[slot] or time >= edge_float[slot] or count[slot] >= edge_row[slot]):
            owners[rows] = slot
            filled = _close(slot, open_, layouts, out, rows, filled)
            rows += 1
            fresh = True
        if fresh:
            _open(slot, s_number[row], time, layouts, shapes, streams, open_)
        first, stop = l_first[o_layout[slot]], l_first[o_layout[slot] + 1]
        layout = s_layout[row]
        fold(o_words, o_at[slot], layouts, first, stop, s_words, s_at[row], layout, l_masks[layout])
        o_items[slot] += s_items[row]
        count[slot] += s_items[row]
    return rows, filled


@kernel
def flush(
    slots: Ints, layouts: LayoutArrays, open_: SliceRows, out: SliceRows, rows: int, filled: int, owners: Ints
) -> tuple[int, int]:
    """Closes the open slices of these derived streams, after what `cut` has closed."""
    for slot in slots:
        if open_.items[slot] > 0:
            owners[rows] = slot
            filled = _close(slot, open_, layouts, out, rows, filled)
            rows += 1
            open_.items[slot] = 0
    return rows, filled


@twig
def _close(slot: int, open_: SliceRows, layouts: LayoutArrays, out: SliceRows, row: int, filled: int) -> int:
    """Copies the open slice of a derived stream to row `row` of `out`."""
    out.number[row] = open_.number[slot]
    out.time[row] = open_.time[slot]
    out.position[row] = open_.position[slot]
    out.items[row] = open_.items[slot]
    out.layout[row] = open_.layout[slot]
    out.at[row] = filled
    words, other, at = out.words, open_.words, open_.at[slot]
    width = layouts.width[open_.layout[slot]]
    for word in range(width):
        words[filled + word] = other[at + word]
    return filled + width


@twig
def _open(
    slot: int,
    number: int,
    time: int,
    layouts: LayoutArrays,
    shapes: ShapeArrays,
    streams: StreamArrays,
    open_: SliceRows,
) -> None:
    """Begins a slice with an item, and finds the next edge of any window on its derived stream."""
    layout, position = streams.layout[slot], streams.passed[slot]
    open_.number[slot] = number
    open_.time[slot] = time
    open_.position[slot] = position
    open_.items[slot] = 0
    open_.layout[slot] = layout
    first, stop = layouts.first[layout], layouts.first[layout + 1]
    empty(open_.words, open_.at[slot], first, stop, layouts.operation, layouts.offset)
    edge, edge_float, edge_row = _MOST, np.inf, _MOST
    for axis in range(AXES):
        begin, end = shapes.first[AXES * slot + axis], shapes.first[AXES * slot + axis + 1]
        if begin == end:
            continue
        least = _next_edge(axis, begin, end, position if axis == ROW else time, shapes)
        if axis == ROW:
            edge_row = least
        elif axis == FRACTION:
            edge_float = real_time(FLOAT_TIME, least)
        else:
            edge = least
    streams.edge[slot], streams.edge_float[slot], streams.edge_row[slot] = edge, edge_float, edge_row


@twig
def _next_edge(axis: int, begin: int, end: int, moment: int, shapes: ShapeArrays) -> int:
    """The least edge after a moment of the windows listed[begin:end], which are on one axis."""
    edges, listed = shapes.edge, shapes.listed
    real = 0.0 if axis <= ROW else real_time(axis, moment)
    reached = time_word(real) if axis == FRACTION else moment
    while edges[listed[begin]] <= reached:
        shape = listed[begin]
        if axis <= ROW:
            size, step, windows = shapes.size[shape], shapes.step[shape], shapes.windows[shape]
            edge = _edge(shapes.base[shape], size, step, windows, moment)
        else:
            size_float, step_float = shapes.size_float[shape], shapes.step_float[shape]
            edge = time_word(_edge_float(shapes.base_float[shape], size_float, step_float, real))
        edges[shape] = edge
        _sift(begin, end, edges, listed)
        if edge <= reached:  # the last moment that there is: every item begins a slice
            break
    least: int = edges[listed[begin]]
    return least


@leaf
def _sift(begin: int, end: int, edges: Ints, listed: Ints) -> None:
    """Moves the first entry of the heap listed[begin:end], whose edge has grown, down to its place."""
    shape, at = listed[begin], begin
    while True:
        child = 2 * at - begin + 1
        if child >= end:
            break
        if child + 1 < end and edges[listed[child + 1]] < edges[listed[child]]:
            child += 1
        if edges[listed[child]] >= edges[shape]:
            break
        listed[at] = listed[child]
        at = child
    listed[at] = shape


@twig
def _edge(base: int, size: int, step: int, windows: int, moment: int) -> int:
    """The next beginning or end of a window after a moment; _MOST if there is none that can be counted."""
    edge = _MOST
    k = first_after(base, step, int64(0), moment)
    if k < windows:
        edge = base + k * step
    k = first_after(base, step, size, moment)
    if k < windows:
        start = base + k * step
        if start < 0 or size <= _MOST - start:
            edge = min(edge, start + size)
    return edge


@twig
def _edge_float(base: float, size: float, step: float, moment: float) -> float:
    edge = np.inf
    k = first_after_float(base, step, 0.0, moment)
    if k < NEVER:
        edge = base + k * step
    k = first_after_float(base, step, size, moment)
    if k < NEVER:
        edge = min(edge, base + k * step + size)
    return edge


@kernel
def refit(old: SliceRows, layouts: LayoutArrays, layout: Ints, at: Ints, words: Ints) -> None:
    """Writes open slices in new layouts: what they have of it is kept, what is new in it is the aggregate of
    nothing.
    """
    for slot in range(len(layout)):
        first, stop = layouts.first[layout[slot]], layouts.first[layout[slot] + 1]
        empty(words, at[slot], first, stop, layouts.operation, layouts.offset)
        if old.items[slot] > 0:
            fold(words, at[slot], layouts, first, stop, old.words, old.at[slot], old.layout[slot], zero())


@kernel
def pick_raw(
    picks: Ints, source: SliceRows, layouts: LayoutArrays, layout: Ints, at: Ints, words: Ints
) -> None:
    """Writes raw items in smaller raw layouts: pick i in layout[i] at words[at[i]:]."""
    l_first, _, column, offset, _, l_masks, where, _ = layouts
    s_at, s_layout, s_words = source.at, source.layout, source.words
    for pick in range(len(picks)):
        row, begin = picks[pick], at[pick]
        other, other_layout, masks = s_at[row], s_layout[row], l_masks[layout[pick]]
        words[begin : begin + masks] = 0
        for entry in range(l_first[layout[pick]], l_first[layout[pick] + 1]):
            bit = offset[entry]
            other_bit = where[other_layout, RAW, column[entry]]
            present = (s_words[other + (other_bit >> 6)] >> (other_bit & 63)) & 1
            words[begin + (bit >> 6)] |= present << (bit & 63)
            words[begin + masks + bit] = s_words[other + l_masks[other_layout] + other_bit]
