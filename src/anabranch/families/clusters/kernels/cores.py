"""Which points are core in which windows, for all windows that are due at once.

Windows that are due end with the newest point and differ in range, count and start. They are the bits of
words, 63 per word, in the order of their ranges, and eight words are computed at once (`numeric/wide`). A
neighbour of rank k that arrived at t counts in the windows with a range of at least that rank that start no
later than t: two rows of words, one AND. For each bit there is a counter that begins `count` below a power of
two; the point is core in the windows where it overflows. Seven neighbours are added at a time, in all windows
of eight words at once (carry-save adders): `ones` holds the lowest bits of all counters, `twos` the next
ones, and so on.

    windows             w0 w1 w2 w3         counts 1, 2, 2, 3: the counters begin at 3, 2, 2, 1 of 4
    a neighbour counts      *  *  *         they are 3, 3, 3, 2
    another one             *     *         w1 overflows: the point is core there; w3 is at 3
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.families.clusters.kernels.neighbour_lists import (
    NeighbourLists,
    neighbour_in,
    prefetch_list,
    rank_in,
)
from anabranch.model.arrays import Ints, Ints32
from anabranch.numeric.jit import kernel, leaf
from anabranch.numeric.wide import WORDS, Wide, filled, load, rows, store

#: Windows in a word; the sign is left alone.
BITS = 63
#: Neighbours that are added at once, and the lowest bits of counters, which they can carry beyond.
_AT_ONCE, _LOW = 7, 3


class DueWindows(NamedTuple):
    """The windows that are due, by rank; window w is bit w % 63 of word w // 63. Starts ascend. A row has a
    multiple of the words that are computed at once; the last ones may hold no window.
    """

    rank: Ints32  # [windows]
    start_index: Ints32  # [windows]: which of the starts
    starts: Ints32  # [starts]
    reach: Ints  # [(ranks + 1) * words]: by rank, the windows with a range of at least this rank
    alive: Ints  # [(starts + 1) * words]: the windows with one of the first so many starts
    counters: Ints  # [levels + 1, words]: where the counters of all windows begin, from the lowest bits


@kernel
def _set_bits(
    rank: Ints32, start_index: Ints32, below: Ints, reach: Ints, alive: Ints, counters: Ints
) -> None:
    """Fills rows that are all 0. below: [windows], where the counters begin"""
    for window in range(len(rank)):
        word, bit = window // BITS, 1 << (window % BITS)
        reach[rank[window], word] |= bit
        alive[start_index[window] + 1, word] |= bit
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


def new_due(rank: Ints, count: Ints, start: Ints, ranges: int) -> DueWindows:
    """From the rank, the count and the start of each window; ranks ascend."""
    words, levels = -(-words_used(len(rank)) // WORDS) * WORDS, max(_LOW, int(count.max()).bit_length())
    starts, start_index = np.unique(start.astype(np.int32), return_inverse=True)
    reach, alive, counters = (rows(each, words) for each in (ranges + 1, len(starts) + 1, levels + 1))
    for some in (reach, alive, counters):
        some[:] = 0
    ranks, starts_of = rank.astype(np.int32), start_index.astype(np.int32)
    _set_bits(ranks, starts_of, (1 << levels) - count.astype(np.int64), reach, alive, counters)
    return DueWindows(ranks, starts_of, starts, reach.ravel(), alive.ravel(), counters)


@leaf
def _counted(due: DueWindows, far: Ints32, since: Ints32, size: int, at: int, counters: Ints) -> Wide:
    """The windows of the words from `at` on in which counters overflow when neighbours 0..size are counted.

    far, since: where the rows of each neighbour begin in due.reach and due.alive. counters: int64[(levels +
    1) * WORDS], where they begin; they are changed.
    """
    reach, alive, levels = due.reach, due.alive, due.counters.shape[0] - 1
    ones, twos, fours = load(counters, 0), load(counters, WORDS), load(counters, 2 * WORDS)
    over = load(counters, levels * WORDS)  # a count of 0 is over from the start
    for index in range(0, size, _AT_ONCE):
        a = load(reach, far[index] + at) & load(alive, since[index] + at)
        b = load(reach, far[index + 1] + at) & load(alive, since[index + 1] + at)
        c = load(reach, far[index + 2] + at) & load(alive, since[index + 2] + at)
        d = load(reach, far[index + 3] + at) & load(alive, since[index + 3] + at)
        e = load(reach, far[index + 4] + at) & load(alive, since[index + 4] + at)
        f = load(reach, far[index + 5] + at) & load(alive, since[index + 5] + at)
        g = load(reach, far[index + 6] + at) & load(alive, since[index + 6] + at)
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
def longest_list(lists: NeighbourLists, start: int, stop: int) -> int:
    """The length of the longest list of points start..stop, boxes included."""
    longest = 0
    for point in range(start, stop):
        longest = max(longest, lists.size[point] + lists.new[point])
    return longest


@leaf
def _alive_at(due: DueWindows, words: int, stop: int, alive_at: Ints32) -> None:
    """Makes alive_at[point] the index in due.alive of the windows that hold a point if it is not too new."""
    started = 0
    for point in range(due.starts[0], stop):
        while started < len(due.starts) and due.starts[started] <= point:
            started += 1
        alive_at[point] = started * words


@leaf
def _core_masks(
    lists: NeighbourLists, due: DueWindows, stop: int, alive_at: Ints32, far: Ints32, since: Ints32,
    counters: Ints, masks: Ints,
) -> None:  # fmt: skip
    levels, words = due.counters.shape[0] - 1, due.counters.shape[1]
    reach, alive, pool = due.reach, due.alive, lists.pool
    for point in range(due.starts[0], stop):
        prefetch_list(lists, point + 4)
        bound, here, begin = lists.bound[point], alive_at[point], lists.at[point]
        size = lists.size[point] + lists.new[point] if bound else 0
        for index in range(size):
            entry = pool[np.uint64(begin + index)]
            far[index], since[index] = rank_in(entry) * words, alive_at[np.uint64(neighbour_in(entry))]
        for index in range(size, size + _AT_ONCE):  # these count nowhere
            far[index] = since[index] = 0
        for at in range(0, words, WORDS):
            holding = load(alive, here + at)
            found = load(reach, bound * words + at) & holding
            if filled(holding & ~found):
                for level in range(levels + 1):
                    for word in range(WORDS):
                        counters[level * WORDS + word] = due.counters[level, at + word]
                found = found | _counted(due, far, since, size, at, counters) & holding
            store(masks, point * words + at, found)


@kernel
def core_masks(lists: NeighbourLists, due: DueWindows, stop: int, masks: Ints) -> None:
    """Makes masks[point, word] the windows in which each point is core. masks: [stop, words]"""
    start, words = due.starts[0], masks.shape[1]
    masks[:start] = 0
    alive_at = np.zeros(stop, np.int32)
    _alive_at(due, words, stop, alive_at)
    longest = longest_list(lists, start, stop)
    far, since = np.empty(longest + _AT_ONCE, np.int32), np.empty(longest + _AT_ONCE, np.int32)
    counters = np.empty(due.counters.shape[0] * WORDS, np.int64)
    _core_masks(lists, due, stop, alive_at, far, since, counters, masks.reshape(-1))
