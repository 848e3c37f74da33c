"""Closed slices: a list per derived stream, and blocks of them that are added up once for all windows.

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

from anabranch.families.filters.kernels.cut_slices import LayoutArrays, SliceRows, empty, fold
from anabranch.model.arrays import Ints
from anabranch.numeric.jit import int64, kernel, twig, zero

#: No row, no block.
END = -1

FANOUT = 4
#: Sizes of blocks. The largest have FANOUT ** LEVELS slices.
LEVELS = 12


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
LARGER, LAST, TIME, POSITION, ITEMS, LAYOUT, AT = 0, 1, 2, 3, 4, 5, 6
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
    layout = rows.layout[part] if level == 0 else blocks[part, LAYOUT]
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
            fold(words, at, layouts, first, stop, words, blocks[part, AT], blocks[part, LAYOUT], zero())
            items += blocks[part, ITEMS]
    blocks[block, LARGER], blocks[block, LAST] = END, row
    blocks[block, TIME], blocks[block, POSITION] = rows.time[row], rows.position[row]
    blocks[block, ITEMS], blocks[block, LAYOUT], blocks[block, AT] = items, layout, at
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
