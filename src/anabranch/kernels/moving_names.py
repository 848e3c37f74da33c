"""Names of objects as bytes: hashing, looking up, comparing, collecting.

The bytes of two names compare as the names do: a string is its UTF-8, whose order is that of code points; an
integer is its eight bytes, the highest first, with the sign turned.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.moving_arrays import Names

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(33)


@leaf
def hash_name(data, low, high):  # type: ignore[no-untyped-def]
    """FNV-1a of data[low:high], mixed so that its low bits are good; the same on every machine and in every
    process.
    """
    code = _BASIS
    for place in range(low, high):
        code = (code ^ np.uint64(data[place])) * _PRIME
    code = (code ^ (code >> _HALF)) * _MIX
    return code ^ (code >> _HALF)


@kernel
def buckets(offsets, data, zones):  # type: ignore[no-untyped-def]
    """int64[n]: the home zone of each name data[offsets[i]:offsets[i + 1]]."""
    out = np.empty(len(offsets) - 1, np.int64)
    for row in range(len(out)):
        out[row] = np.int64(hash_name(data, offsets[row], offsets[row + 1]) % np.uint64(zones))
    return out


@leaf
def _same(names, index, data, low, high):  # type: ignore[no-untyped-def]
    if names.length[index] != high - low:
        return False
    start = names.start[index]
    for place in range(high - low):
        if names.data[start + place] != data[low + place]:
            return False
    return True


@kernel
def fill_table(table, names, count):  # type: ignore[no-untyped-def]
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
def find(table, names, count, used, offsets, data, add):  # type: ignore[no-untyped-def]
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
        index = np.int64(table[np.int64(spot)])
        if index < 0 and add:
            index = count
            table[np.int64(spot)] = index
            names.start[index] = used
            names.length[index] = high - low
            names.data[used : used + high - low] = data[low:high]
            used += high - low
            count += 1
        out[row] = index
    return out, count, used


@leaf
def less(names, left, right):  # type: ignore[no-untyped-def]
    """Whether the name of object `left` comes before that of `right`."""
    a, b = names.start[left], names.start[right]
    for place in range(min(names.length[left], names.length[right])):
        if names.data[a + place] != names.data[b + place]:
            return names.data[a + place] < names.data[b + place]
    return names.length[left] < names.length[right]


@kernel
def prefixes(names, who):  # type: ignore[no-untyped-def]
    """uint64[n]: the first eight bytes of each name as a number; names in order have these in order, up to
    ties.
    """
    out = np.zeros(len(who), np.uint64)
    for row in range(len(who)):
        start, length = names.start[who[row]], names.length[who[row]]
        code = np.uint64(0)
        for place in range(8):
            code = code << np.uint64(8)
            if place < length:
                code |= np.uint64(names.data[start + place])
        out[row] = code
    return out


@kernel
def settle_ties(order, tied, names, who):  # type: ignore[no-untyped-def]
    """Sorts, in place, each run of `order` by full name; tied[i] says that row order[i] ties with order[i -
    1] so far.
    """
    for place in range(1, len(order)):
        spot = place
        while spot > 0 and tied[spot] and less(names, who[order[spot]], who[order[spot - 1]]):
            order[spot], order[spot - 1] = order[spot - 1], order[spot]
            spot -= 1


@kernel
def collect(names, who):  # type: ignore[no-untyped-def]
    """(int32 offsets, bytes) of the names of `who`, one after the other."""
    offsets = np.zeros(len(who) + 1, np.int32)
    for row in range(len(who)):
        offsets[row + 1] = offsets[row] + (names.length[who[row]] if who[row] >= 0 else 0)
    data = np.empty(offsets[-1], np.uint8)
    for row in range(len(who)):
        if who[row] >= 0:
            start = names.start[who[row]]
            data[offsets[row] : offsets[row + 1]] = names.data[start : start + names.length[who[row]]]
    return offsets, data


@kernel
def enter(names, who, offsets, data, used):  # type: ignore[no-untyped-def]
    """Keeps names under the numbers `who`; returns how many bytes of `names.data` are used then."""
    for row in range(len(who)):
        low, high = np.int64(offsets[row]), np.int64(offsets[row + 1])
        names.start[who[row]] = used
        names.length[who[row]] = high - low
        names.data[used : used + high - low] = data[low:high]
        used += high - low
    return used


def warm_up() -> None:
    names = Names(np.zeros(4, np.int64), np.zeros(4, np.int32), np.zeros(16, np.uint8))
    offsets, data = np.array([0, 1, 2], np.int32), np.frombuffer(b"ab", np.uint8)
    buckets(offsets, data, 2)
    table = np.full(8, -1, np.int32)
    found, count, _ = find(table, names, 0, 0, offsets, data, True)
    fill_table(np.full(8, -1, np.int32), names, count)
    settle_ties(np.array([1, 0]), np.array([False, True]), names, found)
    prefixes(names, found)
    collect(names, found)
    enter(names, found, offsets, data, 0)
