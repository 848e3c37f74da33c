"""Names of objects as bytes: hashing, looking up, comparing, collecting.

The bytes of two names compare as the names do: a string is its UTF-8, whose order is that of code points;
an integer is its eight bytes, the highest first, with the sign turned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.moving_arrays import ZERO, Array, Int, Names

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(33)
_BYTE = np.uint64(8)

#: Runs longer than this are not sorted by insertion alone.
LONG_RUN = 32


@leaf
def hash_name(data: Array, low: Int, high: Int) -> Any:
    """FNV-1a of data[low:high], mixed so that its low bits are good; the same on every machine and in every
    process.
    """
    code = _BASIS
    for place in range(low, high):
        code = (code ^ np.uint64(data[place])) * _PRIME
    code = (code ^ (code >> _HALF)) * _MIX
    return code ^ (code >> _HALF)


@kernel
def buckets(offsets: Array, data: Array, zones: Int) -> Array:
    """int64[n]: the home zone of each name data[offsets[i]:offsets[i + 1]]."""
    out = np.empty(len(offsets) - 1, np.int64)
    for row in range(len(out)):
        out[row] = np.int64(hash_name(data, offsets[row], offsets[row + 1]) % np.uint64(zones))
    return out


@leaf
def _same(names: Names, index: Int, data: Array, low: Int, high: Int) -> bool:
    if names.length[index] != high - low:
        return False
    start = names.start[index]
    for place in range(high - low):
        if names.data[start + place] != data[low + place]:
            return False
    return True


@kernel
def fill_table(table: Array, names: Names, count: Int) -> None:
    """Enters the first `count` names into an empty table (int32, -1 is free, a power of two long, at most
    half full).
    """
    mask = np.uint64(len(table) - 1)
    for index in range(count):
        low = names.start[index]
        spot = hash_name(names.data, low, low + names.length[index]) & mask
        while table[np.int64(spot)] >= 0:
            spot = (spot + np.uint64(1)) & mask
        table[np.int64(spot)] = index


@kernel
def find(
    table: Array, names: Names, count: Int, used: Int, offsets: Array, data: Array, add: bool
) -> tuple[Array, Int, Int]:
    """(indexes of the names, -1 where unknown; count; used): with `add`, unknown names are entered and
    counted.

    `count` names use `used` bytes of `names.data`; the caller has made room for all that may be added.
    """
    mask = np.uint64(len(table) - 1)
    out = np.empty(len(offsets) - 1, np.int64)
    for row in range(len(out)):
        low, high = np.int64(offsets[row]), np.int64(offsets[row + 1])
        spot = hash_name(data, low, high) & mask
        while table[np.int64(spot)] >= 0 and not _same(names, table[np.int64(spot)], data, low, high):
            spot = (spot + np.uint64(1)) & mask
        index: Int = np.int64(table[np.int64(spot)])
        if index < 0 and add:
            index = count
            table[np.int64(spot)] = index
            names.start[index] = used
            names.length[index] = high - low
            _copy(data, low, names.data, used, high - low)
            used += high - low
            count += 1
        out[row] = index
    return out, count, used


@leaf
def less(names: Names, left: Int, right: Int) -> bool:
    """Whether the name of object `left` comes before that of `right`."""
    a, b = names.start[left], names.start[right]
    for place in range(min(names.length[left], names.length[right])):
        if names.data[a + place] != names.data[b + place]:
            return names.data[a + place] < names.data[b + place]
    return names.length[left] < names.length[right]


@kernel
def _prefix(names: Names, who: Int) -> Any:
    """The first eight bytes of a name as a number; names in order have these in order, up to ties."""
    start, length = names.start[who], names.length[who]
    code = np.uint64(0)
    for place in range(8):
        code = code << _BYTE
        if place < length:
            code |= np.uint64(names.data[start + place])
    return code


@kernel
def _sort_run(order: Array, first: Int, last: Int, who: Array, names: Names) -> None:
    """Sorts order[first:last] by the names of who[...]: by insertion; a long run first by eight bytes of
    the names.
    """
    if last - first > LONG_RUN:
        run = order[first:last].copy()
        keys = np.empty(last - first, np.uint64)
        for spot in range(len(run)):
            keys[spot] = _prefix(names, who[run[spot]])
        by_prefix = np.argsort(keys)
        for spot in range(len(run)):
            order[first + spot] = run[by_prefix[spot]]
    for place in range(first + 1, last):
        row, spot = order[place], place
        while spot > first and less(names, who[row], who[order[spot - 1]]):
            order[spot] = order[spot - 1]
            spot -= 1
        order[spot] = row


@kernel
def arrange(order: Array, key: Array, who: Array, names: Names) -> Array:
    """`order`, which sorts rows by `key`, with rows of equal key by name, and without those that cancel out.

    A key is 2 * (query and tick) + (0 for a minus, 1 for a plus). An object that goes from one region to
    another within a range is a minus and a plus of one query and tick: neither is kept.
    """
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
        _sort_run(order, first, middle, who, names)
        _sort_run(order, middle, last, who, names)
        kept = _keep_unpaired(order, first, middle, last, who, names, kept)
        first = last
    return order[:kept]


@kernel
def _keep_unpaired(
    order: Array, first: Int, middle: Int, last: Int, who: Array, names: Names, kept: Int
) -> Int:
    """Moves what is kept of the minus rows [first, middle) and plus rows [middle, last) to `kept` and
    after; both are by name.
    """
    plus = middle
    for minus in range(first, middle):
        while plus < last and less(names, who[order[plus]], who[order[minus]]):
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
def collect(names: Names, who: Array) -> tuple[Array, Array]:
    """(int32 offsets, bytes) of the names of `who`, one after the other."""
    offsets = np.zeros(len(who) + 1, np.int32)
    for row in range(len(who)):
        offsets[row + 1] = offsets[row] + (names.length[who[row]] if who[row] >= 0 else 0)
    data = np.empty(offsets[-1], np.uint8)
    for row in range(len(who)):
        if who[row] >= 0:
            _copy(names.data, names.start[who[row]], data, offsets[row], offsets[row + 1] - offsets[row])
    return offsets, data


@leaf
def _copy(source: Array, low: Int, target: Array, place: Int, length: Int) -> None:
    for spot in range(length):
        target[place + spot] = source[low + spot]


@kernel
def enter(names: Names, who: Array, offsets: Array, data: Array, used: Int) -> Int:
    """Keeps names under the numbers `who`; returns how many bytes of `names.data` are used then."""
    for row in range(len(who)):
        low, length = offsets[row], offsets[row + 1] - offsets[row]
        names.start[who[row]] = used
        names.length[who[row]] = length
        _copy(data, low, names.data, used, length)
        used += length
    return used
