"""Which points are core in which windows, for all windows that are due at once.

Windows that are due end with the newest point and differ in range, count and start. They are the bits of
words, 63 a word, in the order of their ranges, and eight words are taken at once (`wide`). A neighbour of
rank k that arrived at t counts in the windows with a range of at least that rank that start no later than t:
two rows of words, one AND. For each bit there is a counter that begins `count` below a power of two; the
point is core in the windows where it overflows. Seven neighbours are added at a time, in all windows of eight
words at once (carry-save adders): `ones` holds the lowest bits of all counters, `twos` the next ones, and so
on.

    windows             w0 w1 w2 w3         counts 1, 2, 2, 3: the counters begin at 3, 2, 2, 1 of 4
    a neighbour counts      *  *  *         they are 3, 3, 3, 2
    another one             *     *         w1 overflows: the point is core there; w3 is at 3
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.lists import Lists, near_in, prefetch_list, rank_in
from anabranch.kernels.wide import WORDS, Wide, filled, load, rows, store

Array = np.ndarray[Any, Any]

#: Windows in a word; the sign is left alone.
BITS = 63
#: Neighbours that are added at once, and the lowest bits of counters, which they can carry beyond.
_AT_ONCE, _LOW = 7, 3


class Due(NamedTuple):
    """The windows that are due, by rank; window w is bit w % 63 of word w // 63. Starts ascend. Rows have as
    many words as are taken at once, or a multiple; the last ones may hold no window.
    """

    rank: Array  # int32[windows]
    group: Array  # int32[windows]: which of the starts
    starts: Array  # int32[starts]
    reach: Array  # int64[(ranks + 1) * words]: by rank, the windows with a range of at least this rank
    alive: Array  # int64[(starts + 1) * words]: the windows with one of the first so many starts
    counters: Array  # int64[levels + 1, words]: where the counters of all windows begin, from the lowest bits


@kernel
def _set_bits(rank: Array, group: Array, below: Array, reach: Array, alive: Array, counters: Array) -> None:
    """Fills rows that are all 0. below: int64[windows], the counters where they begin"""
    for window in range(len(rank)):
        word, bit = window // BITS, 1 << (window % BITS)
        reach[rank[window], word] |= bit
        alive[group[window] + 1, word] |= bit
        for level in range(len(counters)):
            if below[window] >> level & 1:
                counters[level, word] |= bit
    for row in range(len(reach) - 2, -1, -1):
        for word in range(reach.shape[1]):
            reach[row, word] |= reach[row + 1, word]
    for row in range(1, len(alive)):
        for word in range(alive.shape[1]):
            alive[row, word] |= alive[row - 1, word]


def words_used(windows: int) -> int:
    """How many words of a row hold windows."""
    return -(-windows // BITS)


def new_due(rank: Array, count: Array, start: Array, ranges: int) -> Due:
    """From the rank, the count and the start of each window; ranks ascend."""
    words, levels = -(-words_used(len(rank)) // WORDS) * WORDS, max(_LOW, int(count.max()).bit_length())
    starts, group = np.unique(start.astype(np.int32), return_inverse=True)
    reach, alive, counters = (rows(each, words) for each in (ranges + 1, len(starts) + 1, levels + 1))
    for some in (reach, alive, counters):
        some[:] = 0
    rank, group, below = rank.astype(np.int32), group.astype(np.int32), (1 << levels) - count.astype(np.int64)
    _set_bits(rank, group, below, reach, alive, counters)
    return Due(rank, group, starts, reach.ravel(), alive.ravel(), counters)


@leaf
def _counted(
    far: Array, since: Array, size: int, reach: Array, alive: Array, at: int, levels: int, counters: Array
) -> Wide:
    """The windows of the words from `at` on in which counters overflow when neighbours 0..size are counted.

    far, since: where the rows of each neighbour begin in reach and alive. counters: int64[(levels + 1) *
    WORDS], where they begin; they are changed.
    """
    ones, twos, fours = load(counters, 0), load(counters, WORDS), load(counters, 2 * WORDS)
    over = load(counters, levels * WORDS)  # a count of 0 is over from the start
    for place in range(0, size, _AT_ONCE):
        a = load(reach, far[place] + at) & load(alive, since[place] + at)
        b = load(reach, far[place + 1] + at) & load(alive, since[place + 1] + at)
        c = load(reach, far[place + 2] + at) & load(alive, since[place + 2] + at)
        d = load(reach, far[place + 3] + at) & load(alive, since[place + 3] + at)
        e = load(reach, far[place + 4] + at) & load(alive, since[place + 4] + at)
        f = load(reach, far[place + 5] + at) & load(alive, since[place + 5] + at)
        g = load(reach, far[place + 6] + at) & load(alive, since[place + 6] + at)
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
        ones = ones ^ g
        odd = twos ^ first
        fifth = twos & first | odd & second
        twos = odd ^ second
        odd = twos ^ third
        sixth = twos & third | odd & fourth
        twos = odd ^ fourth
        odd = fours ^ fifth
        carry = fours & fifth | odd & sixth
        fours = odd ^ sixth
        for level in range(_LOW, levels):
            before = load(counters, level * WORDS)
            store(counters, level * WORDS, before ^ carry)
            carry = carry & before
        over = over | carry
    return over


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
    levels, words = due.counters.shape[0] - 1, due.counters.shape[1]
    reach, alive, pool = due.reach, due.alive, lists.pool
    for point in range(due.starts[0], stop):
        prefetch_list(lists, point + 4)
        bound, here, begin = lists.bound[point], alive_at[point], lists.at[point]
        size = lists.size[point] + lists.new[point] if bound else 0
        for place in range(size):
            entry = pool[np.uint64(begin + place)]
            far[place], since[place] = rank_in(entry) * words, alive_at[np.uint64(near_in(entry))]
        for place in range(size, size + _AT_ONCE):  # these count nowhere
            far[place] = since[place] = 0
        for at in range(0, words, WORDS):
            begun = load(alive, here + at)
            found = load(reach, bound * words + at) & begun
            if filled(begun & ~found):
                for level in range(levels + 1):
                    for word in range(WORDS):
                        counters[level * WORDS + word] = due.counters[level, at + word]
                found = found | _counted(far, since, size, reach, alive, at, levels, counters) & begun
            store(masks, point * words + at, found)


@kernel
def core_masks(lists: Lists, due: Due, stop: int, masks: Array) -> None:
    """Makes masks[point, word] the windows in which each point is core. masks: int64[stop, words]"""
    start, words = due.starts[0], masks.shape[1]
    masks[:start] = 0
    alive_at = np.zeros(stop, np.int32)
    _alive_at(due, words, stop, alive_at)
    longest = (lists.size[start:stop] + lists.new[start:stop]).max()
    far, since = np.empty(longest + _AT_ONCE, np.int32), np.empty(longest + _AT_ONCE, np.int32)
    counters = np.empty(due.counters.shape[0] * WORDS, np.int64)
    _core_masks(lists, due, stop, alive_at, far, since, counters, masks.reshape(-1))
