"""From items to the queries that they belong to: which conditions each item satisfies, and whose they are.

    values --> codes --> walk over the index of conditions --> nodes of each item --> users of each item

Codes are int64[columns, rows], in the order of the values that they stand for, as `predicates/codes.py`
defines them; MISSING where there is no value. The nodes of all rows are CSR: row i owns
`nodes[offsets[i]:offsets[i + 1]]`, ascending, each node once.

The index. A *slot* is one conjunction of a condition, its *node*. A *hub* is the root, or a condition with so
many others below it that it pays to look at them only on the rows that satisfy the hub. How a hub's slots are
looked at:

    few          tested one by one
    the others   by groups: all slots of a group have the same one or two key columns. Each column is cut into
                 buckets at the ends of the slots' intervals, and a cell (a bucket, or a pair of them) lists
                 the slots that reach into it:

        column y  |    . . . . |         row (x, y) -> bucket of x, bucket of y -> cell -> slots 4, 7, 9
                  |  +-4-----+ |
                  |  | +-7---+-+-+       -> compare with the bounds of 4, 7 and 9
                  |  +-+-----+ | |
                  +------------+---  column x

Cells only propose: every bound is checked. A branch that goes either way at random costs as much as thirty
comparisons. So buckets are found by counting, 16 ends at a time, and a slot that does not fit is written all
the same, and overwritten by the next.

`condition_index.py` builds the index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.model.arrays import Bytes, Ints, Ints32
from anabranch.numeric.jit import int64, kernel, leaf, twig, zero

unsigned = np.uint64  # an unsigned index is not checked for being negative, an index from the end

MISSING = -(2**63)
GREATEST = 2**63 - 1
LESS, EQUAL, GREATER = 1, 2, 4  # the outcomes that a gap allows, as in predicates

#: Up to so many nodes per row are sorted by insertion.
_INSERTION = 24

# columns of IntervalIndex.slot
NODE, BOUND, HOLE, GAP = range(4)
# columns of IntervalIndex.key
LOW_1, HIGH_1, COLUMN_2, LOW_2, HIGH_2, KEY_NODE, KEY_REST, KEY_END = range(8)
# columns of IntervalIndex.hub
FEW, BLOCK, IS_HUB, LEADS_ON, SEVERAL = range(5)
# columns of IntervalIndex.block
FIND, GROUP = range(2)
# columns of IntervalIndex.group
FIND_1, SHIFT_1, FIND_2, SHIFT_2, WIDTH, FIRST_CELL, COLUMN_1, LONG, PLAIN = range(9)
# columns of IntervalIndex.gap; its kinds: integers, or floats with codes of floats on the left, right or both
LEFT, RIGHT, KIND, SIGNS, OFFSET = range(5)
INTEGERS, LEFT_FLOAT, RIGHT_FLOAT, BOTH_FLOAT = range(4)


class IntervalIndex(NamedTuple):
    """Tables; their columns are named above. A row says where parts begin, the next row where they end."""

    slot: Ints  # int64[slots + 1, 4]: its node, and where its bounds, holes and gaps begin
    bound: Ints  # int64[..., 3]: column, low, high; those on the key columns of a slot come first
    hole: Ints  # int64[..., 2]: column, code
    gap: Ints  # int64[..., 5]: the offset is the bits of a float unless the kind is INTEGERS
    key: Ints  # int64[slots, 8]: what a cell's candidates are checked by, a cache line each
    hub: Ints  # int64[nodes + 2, 5]: by node, the root last: where its `few` begin, its block or -1, flags
    few: Ints32  # int32[...]: slots that are tested one by one
    block: Ints  # int64[blocks + 1, 2]: where its part of `find` and of `group` begins
    find: Ints  # int64[..., 3]: column, where its tree begins, levels
    tree: Ints  # int64[...]: see bucket_of
    group: Ints  # int64[..., 9]: two rows of the block's part of `find`, and how they make a cell
    start: Ints32  # int32[cells + 1]: where the cell's entries begin
    entry: Ints32  # int32[...]: slots


@leaf
def bucket_of(tree: Ints, start: int, levels: int, code: int) -> int:
    """Returns how many ends are <= code: a search tree with 16 branches, level after level.

    Counting 16 comparisons has no branch to guess; the ends after the last one are GREATEST.
    """
    code = min(code, GREATEST - 1)
    branch, begin = unsigned(0), unsigned(start)
    for level in range(levels):
        first = begin + branch * unsigned(16)
        count = 0
        for end in range(16):
            count += tree[first + unsigned(end)] <= code
        branch = branch * unsigned(16) + unsigned(count)
        begin += unsigned(16) << unsigned(4 * level)
    return int(int64(branch))


@leaf
def _float_of(code: int) -> float:
    return int64(code).view(np.float64) if code >= 0 else -(int64(-code).view(np.float64))


@leaf
def _gap_holds(gap: Ints, index: int, codes: Ints, row: int) -> bool:
    kind, offset = gap[index, KIND], gap[index, OFFSET]
    left, right = codes[gap[index, LEFT], row], codes[gap[index, RIGHT], row]
    if kind == INTEGERS:
        # before the sum is computed: an overflow is undefined
        if offset > 0 and right > GREATEST - offset:
            sign = LESS
        elif offset < 0 and right < MISSING - offset:
            sign = GREATER
        else:
            total = right + offset
            sign = LESS if left < total else EQUAL if left == total else GREATER
    else:
        here = _float_of(left) if kind & LEFT_FLOAT else np.float64(left)
        there = _float_of(right) if kind & RIGHT_FLOAT else np.float64(right)
        there += int64(offset).view(np.float64)
        sign = LESS if here < there else EQUAL if here == there else GREATER
    return gap[index, SIGNS] & sign != 0


@leaf
def _holds(index: IntervalIndex, slot: int, first: int, codes: Ints, row: int) -> bool:
    """Checks the slot's bounds from `first` on, then its holes and gaps, for which values must be present."""
    slots, bound, hole = index.slot, index.bound, index.hole
    for number in range(first, slots[slot + 1, BOUND]):
        code = codes[bound[number, 0], row]
        if code < bound[number, 1] or code > bound[number, 2]:
            return False
    for number in range(slots[slot, HOLE], slots[slot + 1, HOLE]):
        if codes[hole[number, 0], row] == hole[number, 1]:
            return False
    for number in range(slots[slot, GAP], slots[slot + 1, GAP]):
        if not _gap_holds(index.gap, number, codes, row):
            return False
    return True


@leaf
def _is_new(hub: Ints, node: int, row: int, seen: Ints) -> bool:
    """Returns whether the node was not yet found for this row by another of its slots."""
    if hub[node, SEVERAL]:
        if seen[node] == row:
            return False
        seen[node] = row
    return True


@leaf
def _keep(
    index: IntervalIndex, candidates: Ints32, first: int, end: int, whole: bool,
    codes: Ints, row: int, seen: Ints, nodes: Ints32, kept: int,
) -> int:  # fmt: skip
    """Writes those of the slots candidates[first:end] that hold to nodes[kept:], as nodes.

    Unless `whole`, their bounds have been checked.
    """
    for number in range(first, end):
        slot = candidates[number]
        begin = index.slot[slot, BOUND] if whole else index.slot[slot + 1, BOUND]
        if _holds(index, slot, begin, codes, row):
            node = index.slot[slot, NODE]
            if _is_new(index.hub, node, row, seen):
                nodes[kept] = node
                kept += 1
    return kept


@leaf
def _propose(
    index: IntervalIndex, number: int, buckets: Ints, codes: Ints, row: int, nodes: Ints32, end: int
) -> int:
    """Writes the slots of the row's cell in a group whose bounds hold: as nodes if that is all there is to
    check.
    """
    group, key, bound, start, entry = index.group, index.key, index.bound, index.start, index.entry
    cell = group[number, FIRST_CELL] + (buckets[group[number, FIND_2]] >> group[number, SHIFT_2])
    cell += (buckets[group[number, FIND_1]] >> group[number, SHIFT_1]) * group[number, WIDTH]
    code = codes[group[number, COLUMN_1], row]
    plain, long, at = group[number, PLAIN], group[number, LONG], unsigned(row)
    for candidate in range(start[cell], start[cell + 1]):
        slot = unsigned(entry[candidate])
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
def _sort_few(nodes: Ints32, first: int, end: int) -> None:
    """Sorts nodes[first:end] by insertion."""
    for index in range(first + 1, end):
        node = nodes[index]
        before = index - 1
        while before >= first and nodes[before] > node:
            nodes[before + 1] = nodes[before]
            before -= 1
        nodes[before + 1] = node


@kernel
def _sort_many(nodes: Ints32, flags: Bytes) -> None:
    """Often they are sorted: the slots of a cell are. Where they lie close, they are flagged, and read off.

    flags uint8[all nodes], all 0 before and after.
    """
    least, greatest, is_sorted = nodes[0], nodes[0], True
    for index in range(1, len(nodes)):
        is_sorted &= nodes[index - 1] < nodes[index]
        least, greatest = min(least, nodes[index]), max(greatest, nodes[index])
    if is_sorted:
        return
    if greatest - least > 16 * len(nodes):
        _sort_sparse(nodes)
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
def _sort_sparse(nodes: Ints32) -> None:
    """By insertion with strides that shrink to 1 (Shell): numba's own sort takes a second to compile."""
    stride = 1
    while 9 * stride < len(nodes):
        stride = 3 * stride + 1
    while stride > 0:
        for index in range(stride, len(nodes)):
            node = nodes[index]
            before = index - stride
            while before >= 0 and nodes[before] > node:
                nodes[before + stride] = nodes[before]
                before -= stride
            nodes[before + stride] = node
        stride //= 3


@leaf
def _find_buckets(index: IntervalIndex, number: int, codes: Ints, row: int, buckets: Ints) -> None:
    """Finds the bucket of the row in each column of a block."""
    block, find = index.block, index.find
    first = block[number, FIND]
    for at in range(first, block[number + 1, FIND]):
        code = codes[find[at, 0], row]
        buckets[at - first] = bucket_of(index.tree, find[at, 1], find[at, 2], code)


@kernel
def walk(index: IntervalIndex, codes: Ints, row: int, offsets: Ints, nodes: Ints32) -> int:
    """Fills offsets[row + 1:] and nodes, from `row` on, until all rows are done or the next might not fit.

    codes int64[columns, rows], offsets int64[rows + 1] with offsets[row] set, nodes int32[...], longer than
    the number of slots. Returns the row to go on with.
    """
    # taken out once: to take an array out of a tuple counts a reference, each time; leaves do not count
    hub, few, block, group = index.hub, index.few, index.block, index.group
    rows, root = codes.shape[1], len(hub) - 2
    room = len(nodes) - len(index.slot) - 1
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
            end = _keep(index, few, hub[at, FEW], hub[at + 1, FEW], True, codes, row, seen, nodes, end)
            number = hub[at, BLOCK]
            if number >= 0:
                _find_buckets(index, number, codes, row, buckets)
                for of in range(block[number, GROUP], block[number + 1, GROUP]):
                    begin = end
                    end = _propose(index, of, buckets, codes, row, nodes, end)
                    if not group[of, PLAIN]:
                        end = _keep(index, nodes, begin, end, False, codes, row, seen, nodes, begin)
            if hub[at, LEADS_ON]:
                for found in range(first, end):
                    if hub[nodes[found], IS_HUB]:
                        stack[height] = nodes[found]
                        height += 1
        if end - row_start <= _INSERTION:
            _sort_few(nodes, row_start, end)
        else:
            _sort_many(nodes[row_start:end], flags)
        row += 1
        offsets[row] = end
    return row


@kernel
def fill_cells(ranges: Ints, slots: Ints32, height: int, width: int) -> tuple[Ints, Ints32]:
    """Returns CSR cell -> slots. ranges int64[4, n]: first and last row, first and last column."""
    start = np.zeros(height * width + 1, np.int64)
    for index in range(len(slots)):
        for y in range(ranges[0, index], ranges[1, index] + 1):
            for x in range(ranges[2, index], ranges[3, index] + 1):
                start[y * width + x + 1] += 1
    for cell in range(height * width):
        start[cell + 1] += start[cell]
    entry = np.empty(start[-1], np.int32)
    fill = start[:-1].copy()
    for index in range(len(slots)):
        for y in range(ranges[0, index], ranges[1, index] + 1):
            for x in range(ranges[2, index], ranges[3, index] + 1):
                entry[fill[y * width + x]] = slots[index]
                fill[y * width + x] += 1
    return start, entry


# values as codes

_MAGNITUDE = 2**63 - 1
_INFINITY = 0x7FF0000000000000
TEXT_HEAD = 8  # so many bytes of a string make an integer


class TextConstants(NamedTuple):
    """Sorted strings, searched by their first eight bytes and compared in full only where these are equal."""

    start: Ints32  # int32[n + 1]
    bytes: Bytes  # uint8[...]
    tree: Ints  # int64[...]: the distinct heads
    levels: int
    head: Ints  # int64[h]
    first: Ints  # int64[h + 1]: the first constant with that head


@kernel
def float_codes(bits: Ints, codes: Ints) -> None:
    """bits int64[n], the float64 values as they lie in memory; codes int64[n]."""
    for row in range(len(bits)):
        magnitude = bits[row] & _MAGNITUDE
        code = magnitude if bits[row] >= 0 else -magnitude
        codes[row] = code if magnitude <= _INFINITY else MISSING


@twig
def _head_of(start: int, end: int, data: Bytes) -> int:
    """The first eight bytes as a number in the same order: filled up with zeros, the top bit inverted."""
    head = np.uint64(0)
    for index in range(start, start + TEXT_HEAD):
        head = (head << np.uint64(8)) | (np.uint64(data[index]) if index < end else np.uint64(0))
    return int(np.int64(head ^ np.uint64(1 << 63)))


@twig
def _compare(start: int, end: int, data: Bytes, other: int, other_end: int, others: Bytes) -> int:
    """-1, 0 or 1: byte by byte, the shorter one first."""
    while start < end and other < other_end:
        if data[start] != others[other]:
            return -1 if data[start] < others[other] else 1
        start += 1
        other += 1
    return int(start < end) - int(other < other_end)


@kernel
def text_codes(start: Ints32, data: Bytes, constants: TextConstants, codes: Ints) -> None:
    """start int32[n + 1] and data uint8[...] of an Arrow string column; codes int64[n]."""
    for row in range(len(codes)):
        begin, end = start[row], start[row + 1]
        head = _head_of(begin, end, data)
        bucket = bucket_of(constants.tree, zero(), constants.levels, head)
        low = constants.first[bucket]
        codes[row] = 2 * low
        if bucket > 0 and constants.head[bucket - 1] == head:
            high = low
            low = constants.first[bucket - 1]
            while low < high:  # the first constant that is not less
                middle = (low + high) // 2
                sign = _compare(
                    begin, end, data, constants.start[middle], constants.start[middle + 1], constants.bytes
                )
                if sign == 0:
                    codes[row] = 2 * middle + 1
                    break
                if sign > 0:
                    low = middle + 1
                else:
                    high = middle
            else:
                codes[row] = 2 * low


# which conditions contain which, judged by their boxes: a quick test before the exact one
#
# It never misses a node that contains another. A node that it finds may still not contain the other, where it
# has holes or gaps. A node can have several boxes (an OR): it contains another if each box of the other lies
# in one of its own.


class NodeBoxes(NamedTuple):
    low: Ints  # int64[boxes, columns]
    high: Ints  # int64[boxes, columns]
    first: Ints  # int64[nodes]: the first box of each node
    boxes: Ints  # int64[nodes]: how many boxes it has, one after the other


@leaf
def _lies_within(low: Ints, high: Ints, box: int, other: int) -> bool:
    """Looks at all columns: to stop at the first that fails would be a branch that goes either way."""
    beyond = False
    for column in range(low.shape[1]):
        beyond |= (low[other, column] > low[box, column]) | (high[other, column] < high[box, column])
    return not beyond


@leaf
def _contains(boxes: NodeBoxes, wide: int, narrow: int) -> bool:
    low, high, first, counts = boxes
    for box in range(first[narrow], first[narrow] + counts[narrow]):
        other, end = first[wide], first[wide] + counts[wide]
        while other < end and not _lies_within(low, high, box, other):
            other += 1
        if other == end:
            return False
    return True


@kernel
def box_contains(boxes: NodeBoxes, wide: int, narrow: int) -> bool:
    """Returns whether each box of `narrow` lies within a box of `wide`."""
    return _contains(boxes, wide, narrow)


@kernel
def next_container(boxes: NodeBoxes, order: Ints32, index: int, end: int, node: int) -> int:
    """Returns the first index in order[index:end] whose node contains `node`, or `end`."""
    while index < end:
        if order[index] != node and _contains(boxes, int64(order[index]), node):
            return index
        index += 1
    return end


@kernel
def contained(boxes: NodeBoxes, order: Ints32, end: int, node: int) -> Ints32:
    """Returns the nodes in order[:end] that `node` contains, without itself."""
    found = np.empty(end, np.int32)
    count = 0
    for index in range(end):
        if order[index] != node and _contains(boxes, node, int64(order[index])):
            found[count] = order[index]
            count += 1
    return found[:count]


# from the nodes of each row to the users of those nodes


@kernel
def fan_out(offsets: Ints, nodes: Ints32, user_offsets: Ints, users: Ints32) -> tuple[Ints, Ints32, Ints32]:
    """The users of every row: those of all its nodes, one after the other.

    offsets, nodes: row -> nodes (int64[n + 1], int32[...]); user_offsets, users: node -> users.
    Returns the rows that have users (int64[m]), and for these row -> users (int32[m + 1], int32[...]).
    """
    rows = len(offsets) - 1
    total = 0
    with_users = 0
    for row in range(rows):
        count = 0
        for index in range(offsets[row], offsets[row + 1]):
            node = nodes[index]
            count += user_offsets[node + 1] - user_offsets[node]
        total += count
        if count:
            with_users += 1
    kept = np.empty(with_users, np.int64)
    out_offsets = np.empty(with_users + 1, np.int32)
    out = np.empty(total, np.int32)
    out_offsets[0] = 0
    filled = 0
    at = 0
    for row in range(rows):
        before = at
        for index in range(offsets[row], offsets[row + 1]):
            node = nodes[index]
            for user in range(user_offsets[node], user_offsets[node + 1]):
                out[at] = users[user]
                at += 1
        if at > before:
            kept[filled] = row
            filled += 1
            out_offsets[filled] = at
    return kept, out_offsets, out


@kernel
def renumber(codes: Ints32, new_codes: Ints32) -> Ints32:
    """Numbers codes anew, from 0 in the order in which they first come, in place; returns the old code of
    each new one.

    new_codes int32[all codes], all -1 before and after.
    """
    count = 0
    old = np.empty(min(len(codes), len(new_codes)), np.int32)
    for index in range(len(codes)):
        code = codes[index]
        if new_codes[code] < 0:
            new_codes[code] = count
            old[count] = code
            count += 1
        codes[index] = new_codes[code]
    for index in range(count):
        new_codes[old[index]] = -1
    return old[:count]


@kernel
def owners_of(offsets: Ints, nodes: Ints32, slot_of: Ints, peer: Ints) -> tuple[Ints, Ints]:
    """The slots of every row, row after row: those of all its nodes.

    slot_of: node -> its first slot or -1; peer: slot -> the next slot of the same node or -1.
    Returns a row (int64[...]) and a slot (int64[...]) for each pair of them, by ascending row.
    """
    total = 0
    for index in range(len(nodes)):
        slot = slot_of[nodes[index]]
        while slot >= 0:
            total += 1
            slot = peer[slot]
    rows = np.empty(total, np.int64)
    slots = np.empty(total, np.int64)
    at = 0
    for row in range(len(offsets) - 1):
        for index in range(offsets[row], offsets[row + 1]):
            slot = slot_of[nodes[index]]
            while slot >= 0:
                rows[at] = row
                slots[at] = slot
                at += 1
                slot = peer[slot]
    return rows, slots
