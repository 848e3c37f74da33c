"""Which points are core in which windows, for all windows that are due at once.

Windows that are due end with the newest point and differ in range, count and start. They are the bits of
words, 63 a word, in the order of their ranges. A neighbour of rank k that arrived at t counts in the windows
with a range of at least that rank that start no later than t: two rows of words, one AND. For each bit there
is a counter that begins `count` below a power of two; the point is core in the windows where it overflows.
Seven neighbours are added at a time, in all windows of a word at once (carry-save adders): `ones` holds the
lowest bits of all counters, `twos` the next ones, and so on.

    windows             w0 w1 w2 w3         counts 1, 2, 2, 3: the counters begin at 3, 2, 2, 1 of 4
    a neighbour counts      *  *  *         they are 3, 3, 3, 2
    another one             *     *         w1 overflows: the point is core there; w3 is at 3
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.lists import Lists, near_in, rank_in

Array = np.ndarray[Any, Any]

#: Windows in a word; the sign is left alone.
BITS = 63
#: Neighbours that are added at once, and the lowest bits of counters, which they can carry beyond.
_AT_ONCE, _LOW = 7, 3


class Due(NamedTuple):
    """The windows that are due, by rank; window w is bit w % 63 of word w // 63. Starts ascend."""

    rank: Array  # int32[windows]
    group: Array  # int32[windows]: which of the starts
    starts: Array  # int32[starts]
    reach: Array  # int64[(ranks + 1) * words]: by rank, the windows with a range of at least this rank
    alive: Array  # int64[(starts + 1) * words]: the windows with one of the first so many starts
    counters: Array  # int64[words, levels + 1]: where the counters of all windows begin, from the lowest bits


def new_due(rank: Array, count: Array, start: Array, ranges: int) -> Due:
    """From the rank, the count and the start of each window; ranks ascend."""
    word, place = np.divmod(np.arange(len(rank)), BITS)
    bit = np.int64(1) << place
    words = int(word[-1]) + 1
    starts, group = np.unique(start.astype(np.int32), return_inverse=True)
    reach = np.zeros((ranges + 1, words), np.int64)
    alive = np.zeros((len(starts) + 1, words), np.int64)
    np.bitwise_or.at(reach, (rank, word), bit)
    np.bitwise_or.at(alive, (group + 1, word), bit)
    reach = np.bitwise_or.accumulate(reach[::-1], axis=0)[::-1]
    alive = np.bitwise_or.accumulate(alive, axis=0)
    levels = max(_LOW, int(count.max()).bit_length())
    counters = np.zeros((words, levels + 1), np.int64)
    begin = (1 << levels) - count.astype(np.int64)
    for level in range(levels + 1):
        np.bitwise_or.at(counters[:, level], word, (begin >> level & 1) << place)
    return Due(rank.astype(np.int32), group.astype(np.int32), starts, reach.ravel(), alive.ravel(), counters)


@leaf
def _counted(far: Array, since: Array, size: int, due: Due, word: int, counters: Array) -> int:
    """The windows of a word in which counters overflow when neighbours 0..size are counted.

    far, since: where the rows of each neighbour begin in due.reach and due.alive. counters: int64[levels + 1]
    """
    reach, alive, at, last = due.reach, due.alive, np.uint64(word), len(counters) - 1
    for level in range(last + 1):
        counters[level] = due.counters[word, level]
    ones, twos, fours = counters[0], counters[1], counters[2]
    for place in range(np.uint64(0), np.uint64(size), np.uint64(_AT_ONCE)):
        a = reach[far[place] + at] & alive[since[place] + at]
        b = reach[far[place + np.uint64(1)] + at] & alive[since[place + np.uint64(1)] + at]
        c = reach[far[place + np.uint64(2)] + at] & alive[since[place + np.uint64(2)] + at]
        d = reach[far[place + np.uint64(3)] + at] & alive[since[place + np.uint64(3)] + at]
        e = reach[far[place + np.uint64(4)] + at] & alive[since[place + np.uint64(4)] + at]
        f = reach[far[place + np.uint64(5)] + at] & alive[since[place + np.uint64(5)] + at]
        g = reach[far[place + np.uint64(6)] + at] & alive[since[place + np.uint64(6)] + at]
        odd = ones ^ a  # three full adders of ones give twos
        first = ones & a | odd & b
        ones = odd ^ b
        odd = ones ^ c
        second = ones & c | odd & d
        ones = odd ^ d
        odd = ones ^ e
        third = ones & e | odd & f
        ones = odd ^ f
        fourth = ones & g
        ones ^= g
        odd = twos ^ first
        fifth = twos & first | odd & second
        twos = odd ^ second
        odd = twos ^ third
        sixth = twos & third | odd & fourth
        twos = odd ^ fourth
        odd = fours ^ fifth
        carry = fours & fifth | odd & sixth
        fours = odd ^ sixth
        level = _LOW
        while carry and level < last:
            before = counters[level]
            counters[level] = before ^ carry
            carry &= before
            level += 1
        counters[last] |= carry
    return counters[last]


@leaf
def _alive_at(due: Due, words: int, stop: int, alive_at: Array) -> None:
    """Makes alive_at[point] the place in due.alive of the windows that hold a point if it is not too new."""
    begun = 0
    for point in range(due.starts[0], stop):
        while begun < len(due.starts) and due.starts[begun] <= point:
            begun += 1
        alive_at[point] = begun * words


@leaf
def _core_masks(
    lists: Lists, due: Due, stop: int, alive_at: Array, far: Array, since: Array, counters: Array,
    masks: Array,
) -> None:  # fmt: skip
    words = masks.shape[1]
    for point in range(due.starts[0], stop):
        bound, here, begin = lists.bound[point], alive_at[point], lists.at[point]
        size = lists.size[point] + lists.new[point] if bound else 0
        for place in range(size):
            entry = lists.pool[begin + place]
            far[place], since[place] = rank_in(entry) * words, alive_at[near_in(entry)]
        for place in range(size, size + _AT_ONCE):  # these count nowhere
            far[place] = since[place] = 0
        for word in range(words):
            begun = due.alive[here + np.uint64(word)]
            found = due.reach[bound * words + word] & begun
            if found != begun:
                found |= _counted(far, since, size, due, word, counters) & begun
            masks[point, word] = found


@kernel
def core_masks(lists: Lists, due: Due, stop: int, masks: Array) -> None:
    """Makes masks[point, word] the windows in which each point is core. masks: int64[stop, words]"""
    start, words = due.starts[0], masks.shape[1]
    masks[:start] = 0
    alive_at = np.zeros(stop, np.uint64)
    _alive_at(due, words, stop, alive_at)
    longest = (lists.size[start:stop] + lists.new[start:stop]).max()
    far, since = np.empty(longest + _AT_ONCE, np.uint64), np.empty(longest + _AT_ONCE, np.uint64)
    counters = np.empty(due.counters.shape[1], np.int64)
    _core_masks(lists, due, stop, alive_at, far, since, counters, masks)
