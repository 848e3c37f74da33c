"""Slices of derived streams: cut at every window edge, each aggregated once, composed into windows (lift,
combine, lower).

A slice is a row of `Rows`: the first item's number, time and position in its derived stream, how many items
there are, and what they amount to, as `words` at `at`. What the words mean says the row's layout. Two kinds
of layout:

- lifted: one entry a track, that is an operation on a column: COUNT 1 word, MIN and MAX 1 word, SUM 2
  (integers) or 6 (floats)
- raw: one item as it came: `masks` words with a bit a column (1: there, 0: missing), then one word a column

Values are int64 words in which order is kept: a float is its bits, with all but the sign turned round where
it is negative.

        t=0        t=10       t=20       t=30            RANGE 20 STEP 10 and RANGE 15 on one derived stream
    A   |----------window 1---|
                   |---------window 2----|
    B   |------------|-------------|
    slices [a a a][b][c c c][d d]...                     every window is a run of whole slices
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.edges import first_after, first_after_float
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.sums import add_float, add_floats, add_int, add_wide

COUNT, MIN, MAX, SUM_INT, SUM_FLOAT, RAW = 0, 1, 2, 3, 4, 5
OPERATIONS = 6

#: What windows are measured in: integer times, float times, positions in the derived stream.
TIME, FLOAT_TIME, ROW = 0, 1, 2

_MOST = np.int64(2**63 - 1)
_LEAST = np.int64(-(2**63))

Array = np.ndarray[Any, Any]


class Layouts(NamedTuple):
    """Entries of layout l are first[l]:first[l + 1]; where[l, operation, column] is an offset, or -1 if it
    has no such entry.

    met[l, e] is where a row of layout l has what entry e, of whatever layout, is made of: an offset, a bit if
    l is raw, or -1.
    """

    first: Array
    operation: Array
    column: Array
    offset: Array
    width: Array
    masks: Array
    where: Array
    met: Array


class Rows(NamedTuple):
    """Slices. The words of row r are words[at[r]:at[r] + width of its layout]."""

    number: Array
    time: Array
    position: Array
    items: Array
    layout: Array
    at: Array
    words: Array


class Shapes(NamedTuple):
    """Windows with a base, a size and a step; those of derived stream s are listed[first[s]:first[s + 1]].

    `next` is the first window that has not been composed, `edge` the next edge that a slice must not cross.
    """

    axis: Array
    stream: Array
    base: Array
    size: Array
    step: Array
    base_float: Array
    size_float: Array
    step_float: Array
    next: Array
    edge: Array
    edge_float: Array
    first: Array
    listed: Array


class Streams(NamedTuple):
    """Derived streams: the layout of new slices, how many items they have had, and how far the open slice may
    reach.
    """

    layout: Array
    passed: Array
    edge: Array
    edge_float: Array
    edge_row: Array


@leaf
def empty(words: Any, at: Any, first: Any, stop: Any, operation: Any, offset: Any) -> None:
    """Writes the aggregate of nothing in the layout with entries first:stop."""
    for entry in range(first, stop):
        place = at + offset[entry]
        code = operation[entry]
        if code == MIN:
            words[place] = _MOST
        elif code == MAX:
            words[place] = _LEAST
        else:
            words[place] = 0
            if code >= SUM_INT:
                words[place + 1] = 0
            if code == SUM_FLOAT:
                for more in range(2, 6):
                    words[place + more] = 0


@leaf
def fold(
    words: Any,
    at: Any,
    first: Any,
    stop: Any,
    operation: Any,
    offset: Any,
    met: Any,
    other: Any,
    other_at: Any,
    layout: Any,
    masks: Any,
) -> None:
    """Adds a slice (masks 0) or a raw item, in the layout `layout`, to the slice at words[at:] with entries
    first:stop.
    """
    for entry in range(first, stop):
        source = met[layout, entry]
        if source < 0:
            continue
        place, code = at + offset[entry], operation[entry]
        if masks == 0:
            _combine(words, place, code, other, other_at + source)
        elif (other[other_at + (source >> 6)] >> (source & 63)) & 1:
            _lift(words, place, code, other[other_at + masks + source])


@leaf
def _lift(words: Any, place: Any, code: Any, value: Any) -> None:
    if code == COUNT:
        words[place] += 1
    elif code == MIN:
        words[place] = min(words[place], value)
    elif code == MAX:
        words[place] = max(words[place], value)
    elif code == SUM_INT:
        add_int(words, place, value)
    else:
        add_float(words, place, value if value >= 0 else value ^ _MOST)


@leaf
def _combine(words: Any, place: Any, code: Any, other: Any, other_place: Any) -> None:
    if code == COUNT:
        words[place] += other[other_place]
    elif code == MIN:
        words[place] = min(words[place], other[other_place])
    elif code == MAX:
        words[place] = max(words[place], other[other_place])
    elif code == SUM_INT:
        add_wide(words, place, other[other_place], other[other_place + 1])
    else:
        add_floats(words, place, other, other_place)


@kernel
def cut(
    slots: Any,
    picks: Any,
    source: Any,
    layouts: Any,
    shapes: Any,
    streams: Any,
    held: Any,
    out: Any,
    owners: Any,
) -> tuple[Any, Any]:
    """Adds rows of `source` to the open slices of their derived streams, and closes those that reach an edge.

    slots, picks: derived streams and rows of `source`, in the order of the stream. held: the open slice of
    each derived stream (items 0: there is none). out, owners: room for closed slices, one a pick, and whose
    they are. Out: how many rows and how many words of `out` were filled.
    """
    # Taken out once: taking an array out of a tuple counts a reference, which is dear in an inner loop.
    l_first, operation, _, offset, _, l_masks, _, met = layouts
    s_number, s_time, _, s_items, s_layout, s_at, s_words = source
    h_items, h_words, h_at, h_layout = held.items, held.words, held.at, held.layout
    count, edge, edge_float, edge_row = streams.passed, streams.edge, streams.edge_float, streams.edge_row
    rows = np.int64(0)
    filled = np.int64(0)
    for place in range(len(slots)):
        slot, row = slots[place], picks[place]
        time = s_time[row]
        fresh = h_items[slot] == 0
        if not fresh and (time >= edge[slot] or time >= edge_float[slot] or count[slot] >= edge_row[slot]):
            owners[rows] = slot
            filled = _close(slot, held, layouts, out, rows, filled)
            rows += 1
            fresh = True
        if fresh:
            _open(slot, s_number[row], time, layouts, shapes, streams, held)
        first, stop = l_first[h_layout[slot]], l_first[h_layout[slot] + 1]
        layout = s_layout[row]
        masks = l_masks[layout]
        fold(h_words, h_at[slot], first, stop, operation, offset, met, s_words, s_at[row], layout, masks)
        h_items[slot] += s_items[row]
        count[slot] += s_items[row]
    return rows, filled


@kernel
def flush(
    slots: Any, layouts: Any, held: Any, out: Any, rows: Any, filled: Any, owners: Any
) -> tuple[Any, Any]:
    """Closes the open slices of these derived streams, behind what `cut` has closed."""
    for place in range(len(slots)):
        slot = slots[place]
        if held.items[slot] > 0:
            owners[rows] = slot
            filled = _close(slot, held, layouts, out, rows, filled)
            rows += 1
            held.items[slot] = 0
    return rows, filled


@kernel
def _close(slot: Any, held: Any, layouts: Any, out: Any, row: Any, filled: Any) -> Any:
    """Copies the open slice of a derived stream to row `row` of `out`."""
    out.number[row] = held.number[slot]
    out.time[row] = held.time[slot]
    out.position[row] = held.position[slot]
    out.items[row] = held.items[slot]
    out.layout[row] = held.layout[slot]
    out.at[row] = filled
    words, other, at = out.words, held.words, held.at[slot]
    width = layouts.width[held.layout[slot]]
    for word in range(width):
        words[filled + word] = other[at + word]
    return filled + width


@kernel
def _open(slot: Any, number: Any, time: Any, layouts: Any, shapes: Any, streams: Any, held: Any) -> None:
    """Begins a slice with an item, and finds the next edge of any window on its derived stream."""
    layout, position = streams.layout[slot], streams.passed[slot]
    held.number[slot] = number
    held.time[slot] = time
    held.position[slot] = position
    held.items[slot] = 0
    held.layout[slot] = layout
    first, stop = layouts.first[layout], layouts.first[layout + 1]
    empty(held.words, held.at[slot], first, stop, layouts.operation, layouts.offset)
    (
        axis,
        _,
        base,
        size,
        step,
        base_float,
        size_float,
        step_float,
        _,
        next_edge,
        next_float,
        of_slot,
        listed,
    ) = shapes
    edge, edge_float, edge_row = _MOST, np.inf, _MOST
    for place in range(of_slot[slot], of_slot[slot + 1]):
        shape = listed[place]
        if axis[shape] == FLOAT_TIME:
            if not next_float[shape] > time:
                next_float[shape] = _edge_float(
                    base_float[shape], size_float[shape], step_float[shape], float(time)
                )
            edge_float = min(edge_float, next_float[shape])
        elif axis[shape] == TIME:
            if not next_edge[shape] > time:
                next_edge[shape] = _edge(base[shape], size[shape], step[shape], np.int64(time))
            edge = min(edge, next_edge[shape])
        else:
            if not next_edge[shape] > position:
                next_edge[shape] = _edge(base[shape], size[shape], step[shape], position)
            edge_row = min(edge_row, next_edge[shape])
    streams.edge[slot], streams.edge_float[slot], streams.edge_row[slot] = edge, edge_float, edge_row


@kernel
def _edge(base: Any, size: Any, step: Any, moment: Any) -> Any:
    """The next beginning or end of a window after a moment."""
    start = base + first_after(base, step, np.int64(0), moment) * step
    return min(start, base + first_after(base, step, size, moment) * step + size)


@kernel
def _edge_float(base: Any, size: Any, step: Any, moment: Any) -> Any:
    start = base + first_after_float(base, step, 0.0, moment) * step
    return min(start, base + first_after_float(base, step, size, moment) * step + size)


@kernel
def refit(old: Any, layouts: Any, layout: Any, at: Any, words: Any) -> None:
    """Open slices in new layouts: what they have of it is kept, what is new in it is the aggregate of
    nothing.
    """
    l_first, operation, _, offset, _, _, _, met = layouts
    for slot in range(len(layout)):
        first, stop = l_first[layout[slot]], l_first[layout[slot] + 1]
        empty(words, at[slot], first, stop, operation, offset)
        if old.items[slot] > 0:
            other = old.layout[slot]
            fold(words, at[slot], first, stop, operation, offset, met, old.words, old.at[slot], other, 0)


@kernel
def pick_raw(picks: Any, source: Any, layouts: Any, layout: Any, at: Any, words: Any) -> None:
    """Raw items in smaller raw layouts: pick i in layout[i] at words[at[i]:]."""
    l_first, _, column, offset, _, l_masks, where, _ = layouts
    s_at, s_layout, s_words = source.at, source.layout, source.words
    for place in range(len(picks)):
        row, begin = picks[place], at[place]
        other, other_layout, masks = s_at[row], s_layout[row], l_masks[layout[place]]
        words[begin : begin + masks] = 0
        for entry in range(l_first[layout[place]], l_first[layout[place] + 1]):
            bit = offset[entry]
            other_bit = where[other_layout, RAW, column[entry]]
            there = (s_words[other + (other_bit >> 6)] >> (other_bit & 63)) & 1
            words[begin + (bit >> 6)] |= there << (bit & 63)
            words[begin + masks + bit] = s_words[other + l_masks[other_layout] + other_bit]
