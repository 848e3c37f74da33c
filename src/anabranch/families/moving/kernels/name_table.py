"""Names of objects as bytes: hashing, looking up, comparing, sorting; and the ranks that names decide at
ties.

The bytes of two names compare as the names do. A string is its UTF-8, whose order is that of code points. An
integer is its eight bytes, the highest first, with the sign bit turned.
"""

from __future__ import annotations

import numpy as np

from anabranch.families.moving.kernels.arrays import MAX_X, MIN_X, MIN_Y, ZERO, Int, NameArrays
from anabranch.model.arrays import Bytes, Ints, Ints32, Words
from anabranch.numeric.jit import kernel, leaf

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(33)
_BYTE = np.uint64(8)

#: Names in a piece that is sorted by insertion; longer runs are merged from such pieces.
PIECE: Int = np.int64(32)


@leaf
def hash_name(data: Bytes, low: Int, high: Int) -> np.uint64:
    """FNV-1a of data[low:high], mixed so that its low bits are good; the same on every machine and in every
    process.
    """
    code = _BASIS
    for index in range(low, high):
        code = (code ^ np.uint64(data[index])) * _PRIME
    code = (code ^ (code >> _HALF)) * _MIX
    return code ^ (code >> _HALF)


@kernel
def buckets(offsets: Ints32, data: Bytes, zones: Int) -> Ints:
    """int64[n]: the home zone of each name data[offsets[i]:offsets[i + 1]]."""
    out = np.empty(len(offsets) - 1, np.int64)
    for row in range(len(out)):
        out[row] = np.int64(
            hash_name(data, np.int64(offsets[row]), np.int64(offsets[row + 1])) % np.uint64(zones)
        )
    return out


@leaf
def _is_same(names: NameArrays, index: Int, data: Bytes, low: Int, high: Int) -> bool:
    if names.length[index] != high - low:
        return False
    start = names.start[index]
    for offset in range(high - low):
        if names.data[start + offset] != data[low + offset]:
            return False
    return True


@kernel
def fill_table(table: Ints32, names: NameArrays, count: Int) -> None:
    """Adds the first `count` names to an empty hash table (-1 is free; a power of two long, at most half
    full).
    """
    mask = np.uint64(len(table) - 1)
    for index in range(count):
        low = names.start[index]
        bucket = hash_name(names.data, low, low + np.int64(names.length[index])) & mask
        while table[np.int64(bucket)] >= 0:
            bucket = (bucket + np.uint64(1)) & mask
        table[np.int64(bucket)] = index


@kernel
def find_names(
    table: Ints32, names: NameArrays, count: Int, used: Int, offsets: Ints32, data: Bytes, add: bool
) -> tuple[Ints, Int, Int]:
    """Returns (indexes of the names, -1 where unknown; count; used). With `add`, unknown names are added and
    counted.

    `count` names use `used` bytes of `names.data`; the caller has made room for all that may be added.
    """
    mask = np.uint64(len(table) - 1)
    out = np.empty(len(offsets) - 1, np.int64)
    index: Int = np.int64(-1)
    for row in range(len(out)):
        low, high = np.int64(offsets[row]), np.int64(offsets[row + 1])
        # objects often report in the same order as before: the next name is then the next that was added
        if index + 1 < count and _is_same(names, index + 1, data, low, high):
            index += 1
            out[row] = index
            continue
        bucket = hash_name(data, low, high) & mask
        while table[np.int64(bucket)] >= 0 and not _is_same(names, table[np.int64(bucket)], data, low, high):
            bucket = (bucket + np.uint64(1)) & mask
        index = np.int64(table[np.int64(bucket)])
        if index < 0 and add:
            index = count
            table[np.int64(bucket)] = index
            names.start[index] = used
            names.length[index] = high - low
            _copy(data, low, names.data, used, high - low)
            used += high - low
            count += 1
        out[row] = index
    return out, count, used


@leaf
def less(names: NameArrays, left: Int, right: Int) -> bool:
    """Whether the name of object `left` comes before that of `right`."""
    a, b = names.start[left], names.start[right]
    for offset in range(min(names.length[left], names.length[right])):
        if names.data[a + offset] != names.data[b + offset]:
            return names.data[a + offset] < names.data[b + offset]
    return names.length[left] < names.length[right]


@leaf
def closer(names: NameArrays, who_distance: float, who: Int, other_distance: float, other: Int) -> bool:
    """Whether an object ranks before another by distance; at equal distance the smaller name does."""
    return who_distance < other_distance or (who_distance == other_distance and less(names, who, other))


@leaf
def coordinate(mode: Int, x: float, y: float) -> float:
    """Returns the coordinate whose extreme a query asks for."""
    return x if mode == MIN_X or mode == MAX_X else y


@leaf
def better(names: NameArrays, mode: Int, value: float, who: Int, other: float, other_who: Int) -> bool:
    """Whether an object has the more extreme coordinate; at equal ones the smaller name ranks first."""
    if value == other:
        return less(names, who, other_who)
    return value < other if mode == MIN_X or mode == MIN_Y else value > other


@leaf
def _shared_bytes(names: NameArrays, who: Ints) -> Int:
    """Returns how many bytes all these names begin with alike."""
    if len(who) == 0:
        return ZERO
    start, shared = names.start[who[0]], ZERO + names.length[who[0]]
    for row in range(1, len(who)):
        if who[row] == who[row - 1]:
            continue
        other, length = names.start[who[row]], np.int64(names.length[who[row]])
        same = ZERO
        while same < min(shared, length) and names.data[start + same] == names.data[other + same]:
            same += 1
        shared = same
        if shared == 0:
            break
    return shared


@leaf
def _key(names: NameArrays, who: Int, skip: Int) -> np.uint64:
    """Returns eight bytes of a name, after those that it shares with all others, as a number. Names in order
    have these in order, up to ties.
    """
    start, length = names.start[who] + skip, np.int64(names.length[who]) - skip
    code = np.uint64(0)
    for offset in range(8):
        code = code << _BYTE
        if offset < length:
            code |= np.uint64(names.data[start + offset])
    return code


@leaf
def _is_before(names: NameArrays, who: Ints, keys: Words, left: Int, right: Int) -> bool:
    """Whether the name of row `left` comes before that of row `right`."""
    if keys[left] != keys[right]:
        return keys[left] < keys[right]
    return who[left] != who[right] and less(names, who[left], who[right])


@leaf
def _merge(
    source: Ints, target: Ints, low: Int, middle: Int, high: Int, names: NameArrays, who: Ints, keys: Words
) -> None:
    """Merges source[low:middle] and source[middle:high], both sorted, into target[low:high]; rows of equal
    names keep their order.
    """
    left, right = low, middle
    for index in range(low, high):
        if left < middle and (right == high or not _is_before(names, who, keys, source[right], source[left])):
            target[index] = source[left]
            left += 1
        else:
            target[index] = source[right]
            right += 1


@leaf
def _insert(order: Ints, first: Int, last: Int, who: Ints, names: NameArrays, keys: Words) -> None:
    """Sorts order[first:last] by name, by insertion."""
    for start in range(first + 1, last):
        row, index = order[start], start
        while index > first and _is_before(names, who, keys, row, order[index - 1]):
            order[index] = order[index - 1]
            index -= 1
        order[index] = row


@leaf
def _sort_run(
    order: Ints, spare: Ints, keys: Words, first: Int, last: Int, who: Ints, names: NameArrays
) -> None:
    """Sorts order[first:last] by the names of who[...]: short pieces by insertion, then merged. `spare` is as
    long as `order`, `keys` has the key of every row.
    """
    for piece in range(first, last, PIECE):
        _insert(order, piece, min(piece + PIECE, last), who, names, keys)
    size = PIECE
    while size < last - first:
        for low in range(first, last, 2 * size):
            middle, high = min(low + size, last), min(low + 2 * size, last)
            _merge(order, spare, low, middle, high, names, who, keys)
        for index in range(first, last):
            order[index] = spare[index]
        size *= 2


@leaf
def _fill_keys(keys: Words, who: Ints, names: NameArrays) -> None:
    """Sets the key of every row. Rows of one object often follow each other."""
    skip = _shared_bytes(names, who)
    for row in range(len(who)):
        if row > 0 and who[row] == who[row - 1]:
            keys[row] = keys[row - 1]
        else:
            keys[row] = _key(names, who[row], skip)


@kernel
def sort_by_name(order: Ints, key: Ints, who: Ints, names: NameArrays) -> Ints:
    """Returns `order`, which sorts rows by `key`, with rows of equal key by name and without those that
    cancel out.

    A key is 2 * (query and tick) + (0 for a minus, 1 for a plus). An object that goes from one region to
    another within a range is a minus and a plus of one query and tick: neither is kept.
    """
    spare, keys = np.empty_like(order), np.empty(len(order), np.uint64)
    _fill_keys(keys, who, names)
    kept = ZERO
    first = ZERO
    while first < len(order):
        group = key[order[first]] >> 1
        middle = first
        while middle < len(order) and key[order[middle]] == 2 * group:
            middle += 1
        last = middle
        while last < len(order) and key[order[last]] == 2 * group + 1:
            last += 1
        _sort_run(order, spare, keys, first, middle, who, names)
        _sort_run(order, spare, keys, middle, last, who, names)
        kept = _keep_unpaired(order, first, middle, last, who, names, keys, kept)
        first = last
    return order[:kept]


@leaf
def _keep_unpaired(
    order: Ints, first: Int, middle: Int, last: Int, who: Ints, names: NameArrays, keys: Words, kept: Int
) -> Int:
    """Moves what is kept of the minus rows [first, middle) and plus rows [middle, last) to `kept` and
    after; both are by name.
    """
    plus = middle
    for minus in range(first, middle):
        while plus < last and _is_before(names, who, keys, order[plus], order[minus]):
            plus += 1
        if plus < last and who[order[plus]] == who[order[minus]]:
            order[plus] = -1 - order[plus]  # marked: its minus is gone
            plus += 1
        else:
            order[kept] = order[minus]
            kept += 1
    for plus in range(middle, last):
        if order[plus] >= 0:
            order[kept] = order[plus]
            kept += 1
    return kept


@kernel
def counting_order(key: Ints, size: Int) -> Ints:
    """Returns the order that sorts keys in [0, size); equal ones stay as they are. For a size that is not
    much larger than the number of keys.
    """
    first = np.zeros(size + 1, np.int32)
    for row in range(len(key)):
        first[key[row] + 1] += 1
    for value in range(size):
        first[value + 1] += first[value]
    order = np.empty(len(key), np.int64)
    for row in range(len(key)):
        order[first[key[row]]] = row
        first[key[row]] += 1
    return order


@kernel
def collect(names: NameArrays, who: Ints) -> tuple[Ints32, Bytes]:
    """Returns (offsets, bytes) of the names of `who`, one after the other."""
    offsets = np.zeros(len(who) + 1, np.int32)
    for row in range(len(who)):
        offsets[row + 1] = offsets[row] + (names.length[who[row]] if who[row] >= 0 else 0)
    data = np.empty(offsets[-1], np.uint8)
    for row in range(len(who)):
        if who[row] >= 0:
            start = np.int64(offsets[row])
            _copy(names.data, names.start[who[row]], data, start, np.int64(offsets[row + 1]) - start)
    return offsets, data


@leaf
def _copy(source: Bytes, low: Int, target: Bytes, start: Int, length: Int) -> None:
    for offset in range(length):
        target[start + offset] = source[low + offset]


@kernel
def add_names(names: NameArrays, who: Ints, offsets: Ints32, data: Bytes, used: Int) -> Int:
    """Adds names under the numbers `who`; returns how many bytes of `names.data` are used then."""
    for row in range(len(who)):
        low = np.int64(offsets[row])
        length = np.int64(offsets[row + 1]) - low
        names.start[who[row]] = used
        names.length[who[row]] = length
        _copy(data, low, names.data, used, length)
        used += length
    return used
