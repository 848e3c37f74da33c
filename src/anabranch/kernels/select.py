"""Which selections each row satisfies: a walk over hubs, each with an index of intervals.

In: the rows as codes (int64[columns, rows], MISSING where there is no value) and an Index (select_build).
Out: CSR row -> nodes, ascending, a node once. Never: an answer from the index alone; cells only propose,
every bound is checked.

A *slot* is one conjunction of a selection, its *node*. A *hub* is the root, or a selection with so many
others below it that it pays to look at them only on the rows that satisfy the hub. To look at a hub's slots:

    few          tested one by one
    the others   by groups: all slots of a group have the same one or two key columns. Each column is cut into
                 buckets at the ends of the slots' intervals, and a cell (a bucket, or a pair of them) lists
                 the slots that reach into it:

        column y  |    . . . . |         row (x, y) -> bucket of x, bucket of y -> cell -> slots 4, 7, 9
                  |  +-4-----+ |
                  |  | +-7---+-+-+       -> compare with the bounds of 4, 7 and 9
                  |  +-+-----+ | |
                  +------------+---  column x

A branch that goes either way at random costs as much as thirty comparisons. So buckets are found by counting,
16 ends at a time, and a slot that does not fit is written all the same, and overwritten by the next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf

Array = np.ndarray[Any, Any]
unsigned = np.uint64  # an unsigned index is not looked at for being negative, a place from the end

MISSING = -(2**63)
GREATEST = 2**63 - 1
LESS, EQUAL, GREATER = 1, 2, 4  # the outcomes that a gap allows, as in predicates

#: Up to so many nodes a row are sorted by insertion.
_INSERTION = 24

# columns of Index.slot
NODE, BOUND, HOLE, GAP = range(4)
# columns of Index.key
LOW_1, HIGH_1, COLUMN_2, LOW_2, HIGH_2, KEY_NODE, KEY_REST, KEY_END = range(8)
# columns of Index.hub
FEW, BLOCK, IS_HUB, LEADS_ON, SEVERAL = range(5)
# columns of Index.block
FIND, GROUP = range(2)
# columns of Index.group
PLACE_1, SHIFT_1, PLACE_2, SHIFT_2, WIDTH, FIRST_CELL, COLUMN_1, LONG, PLAIN = range(9)
# columns of Index.gap, and its kinds: integers, or floats with codes of floats on the left, the right or both
LEFT, RIGHT, KIND, SIGNS, OFFSET = range(5)
INTEGERS, LEFT_FLOAT, RIGHT_FLOAT, BOTH_FLOAT = range(4)


class Index(NamedTuple):
    """Tables; their columns are named above. A row says where parts begin, the next row where they end."""

    slot: Array  # int64[slots + 1, 4]: its node, and where its bounds, holes and gaps begin
    bound: Array  # int64[..., 3]: column, low, high; those on the key columns of a slot come first
    hole: Array  # int64[..., 2]: column, code
    gap: Array  # int64[..., 5]: the offset is the bits of a float unless the kind is INTEGERS
    key: Array  # int64[slots, 8]: what a cell's candidates are checked by, a cache line each
    hub: Array  # int64[nodes + 2, 5]: by node, the root last: where its `few` begin, its block or -1, flags
    few: Array  # int32[...]: slots that are tested one by one
    block: Array  # int64[blocks + 1, 2]: where its part of `find` and of `group` begins
    find: Array  # int64[..., 3]: column, where its tree begins, levels
    tree: Array  # int64[...]: see bucket_of
    group: Array  # int64[..., 9]: two places in the block's part of `find`, and how they make a cell
    start: Array  # int32[cells + 1]: where the cell's entries begin
    entry: Array  # int32[...]: slots


@leaf
def bucket_of(tree: Array, start: int, levels: int, code: int) -> int:
    """How many ends are <= code: a search tree with 16 branches, level after level (bucket_of_plain).

    Counting 16 comparisons has no branch to guess; the ends after the last one are GREATEST.
    """
    code = min(code, GREATEST - 1)
    place, begin = unsigned(0), unsigned(start)
    for level in range(levels):
        first = begin + place * unsigned(16)
        count = 0
        for branch in range(16):
            count += tree[first + unsigned(branch)] <= code
        place = place * unsigned(16) + unsigned(count)
        begin += unsigned(16) << unsigned(4 * level)
    return int(np.int64(place))


@leaf
def _float_of(code: int) -> float:
    return np.int64(code).view(np.float64) if code >= 0 else -(np.int64(-code).view(np.float64))


@leaf
def _gap_holds(gap: Array, place: int, codes: Array, row: int) -> bool:
    kind, offset = gap[place, KIND], gap[place, OFFSET]
    left, right = codes[gap[place, LEFT], row], codes[gap[place, RIGHT], row]
    if kind == INTEGERS:
        if (
            offset > 0 and right > GREATEST - offset
        ):  # asked before the sum is made: what overflows is undefined
            sign = LESS
        elif offset < 0 and right < MISSING - offset:
            sign = GREATER
        else:
            total = right + offset
            sign = LESS if left < total else EQUAL if left == total else GREATER
    else:
        here = _float_of(left) if kind & LEFT_FLOAT else np.float64(left)
        there = _float_of(right) if kind & RIGHT_FLOAT else np.float64(right)
        there += np.int64(offset).view(np.float64)
        sign = LESS if here < there else EQUAL if here == there else GREATER
    return gap[place, SIGNS] & sign != 0


@leaf
def _holds(
    slot: Array, bound: Array, hole: Array, gap: Array, number: int, first: int, codes: Array, row: int
) -> bool:
    """The slot's bounds from `first` on, holes and gaps. Bounds come first: then values are there."""
    for place in range(first, slot[number + 1, BOUND]):
        code = codes[bound[place, 0], row]
        if code < bound[place, 1] or code > bound[place, 2]:
            return False
    for place in range(slot[number, HOLE], slot[number + 1, HOLE]):
        if codes[hole[place, 0], row] == hole[place, 1]:
            return False
    for place in range(slot[number, GAP], slot[number + 1, GAP]):
        if not _gap_holds(gap, place, codes, row):
            return False
    return True


@leaf
def _is_new(hub: Array, node: int, row: int, seen: Array) -> bool:
    """Whether the node was not yet found for this row by another of its slots."""
    if hub[node, SEVERAL]:
        if seen[node] == row:
            return False
        seen[node] = row
    return True


@leaf
def _keep(
    slot: Array, bound: Array, hole: Array, gap: Array, hub: Array, seen: Array,
    candidates: Array, first: int, end: int, whole: bool, codes: Array, row: int, nodes: Array, kept: int,
) -> int:  # fmt: skip
    """Of the slots in candidates[first:end], those that hold go to nodes[kept:], as nodes.

    Unless `whole`, their bounds have been checked.
    """
    for place in range(first, end):
        number = candidates[place]
        begin = slot[number, BOUND] if whole else slot[number + 1, BOUND]
        if _holds(slot, bound, hole, gap, number, begin, codes, row):
            node = slot[number, NODE]
            if _is_new(hub, node, row, seen):
                nodes[kept] = node
                kept += 1
    return kept


@leaf
def _propose(
    group: Array, number: int, bucket_1: int, bucket_2: int, key: Array, bound: Array,
    start: Array, entry: Array, codes: Array, row: int, nodes: Array, end: int,
) -> int:  # fmt: skip
    """Writes the slots of the row's cell whose bounds hold: as nodes if that is all there is to know."""
    cell = group[number, FIRST_CELL] + (bucket_2 >> group[number, SHIFT_2])
    cell += (bucket_1 >> group[number, SHIFT_1]) * group[number, WIDTH]
    code = codes[group[number, COLUMN_1], row]
    plain, long, at = group[number, PLAIN], group[number, LONG], unsigned(row)
    for place in range(start[cell], start[cell + 1]):
        slot = unsigned(entry[place])
        other = codes[unsigned(key[slot, COLUMN_2]), at]
        fits = (code >= key[slot, LOW_1]) & (code <= key[slot, HIGH_1])
        fits &= (other >= key[slot, LOW_2]) & (other <= key[slot, HIGH_2])
        if long:
            for more in range(key[slot, KEY_REST], key[slot, KEY_END]):
                other = codes[unsigned(bound[more, 0]), at]
                fits &= (other >= bound[more, 1]) & (other <= bound[more, 2])
        nodes[end] = key[slot, KEY_NODE] if plain else slot
        end += int(fits)
    return end


@leaf
def _sort_few(nodes: Array, first: int, end: int) -> None:
    for place in range(first + 1, end):
        node = nodes[place]
        before = place - 1
        while before >= first and nodes[before] > node:
            nodes[before + 1] = nodes[before]
            before -= 1
        nodes[before + 1] = node


@kernel
def _sort_many(nodes: Array, flags: Array) -> None:
    """Often they are sorted: the slots of a cell are. Where they lie close, they are flagged, and read off.

    flags uint8[all nodes], all 0 before and after.
    """
    least, greatest, is_sorted = nodes[0], nodes[0], True
    for place in range(1, len(nodes)):
        is_sorted &= nodes[place - 1] < nodes[place]
        least, greatest = min(least, nodes[place]), max(greatest, nodes[place])
    if is_sorted:
        return
    if greatest - least > 16 * len(nodes):
        nodes.sort()
        return
    for node in nodes:
        flags[node] = 1
    end = 0
    for node in range(least, greatest + 1):
        if end < len(nodes):
            nodes[end] = node
        end += flags[node]
        flags[node] = 0


@leaf
def _find_buckets(
    block: Array, number: int, find: Array, tree: Array, codes: Array, row: int, buckets: Array, at: int
) -> None:
    """The bucket of the row in each column of the block, to buckets[at:]."""
    first = block[number, FIND]
    for place in range(first, block[number + 1, FIND]):
        code = codes[find[place, 0], row]
        buckets[at + place - first] = bucket_of(tree, find[place, 1], find[place, 2], code)


@kernel
def walk(index: Index, codes: Array, row: int, offsets: Array, nodes: Array) -> int:
    """Fills offsets[row + 1:] and nodes, from `row` on, until all rows are done or the next might not fit.

    codes int64[columns, rows], offsets int64[rows + 1] with offsets[row] set, nodes int32[...], longer than
    the number of slots. Returns the row to go on with.
    """
    # taken out once: to take an array out of a tuple counts a reference, each time
    slot, bound, hole, gap, key, hub, few, block, find, tree, group, start, entry = index
    rows, root = codes.shape[1], len(hub) - 2
    room = len(nodes) - len(slot) - 1
    stack = np.empty(len(hub), np.int64)
    buckets = np.empty(codes.shape[0], np.int64)
    seen = np.full(len(hub), -1, np.int64)
    flags = np.zeros(len(hub), np.uint8)
    end = offsets[row]
    while row < rows and end <= room:
        row_start = end
        stack[0], height = root, 1
        while height:
            height -= 1
            at = stack[height]
            first = end
            begin, stop = hub[at, FEW], hub[at + 1, FEW]
            end = _keep(slot, bound, hole, gap, hub, seen, few, begin, stop, True, codes, row, nodes, end)
            number = hub[at, BLOCK]
            if number >= 0:
                _find_buckets(block, number, find, tree, codes, row, buckets, 0)
                for place in range(block[number, GROUP], block[number + 1, GROUP]):
                    found = end
                    bucket_1, bucket_2 = buckets[group[place, PLACE_1]], buckets[group[place, PLACE_2]]
                    end = _propose(
                        group, place, bucket_1, bucket_2, key, bound, start, entry, codes, row, nodes, end
                    )
                    if not group[place, PLAIN]:
                        end = _keep(
                            slot,
                            bound,
                            hole,
                            gap,
                            hub,
                            seen,
                            nodes,
                            found,
                            end,
                            False,
                            codes,
                            row,
                            nodes,
                            found,
                        )
            if hub[at, LEADS_ON]:
                for place in range(first, end):
                    if hub[nodes[place], IS_HUB]:
                        stack[height] = nodes[place]
                        height += 1
        if end - row_start <= _INSERTION:
            _sort_few(nodes, row_start, end)
        else:
            _sort_many(nodes[row_start:end], flags)
        row += 1
        offsets[row] = end
    return row
