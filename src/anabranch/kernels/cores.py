"""Which points are core in which windows, for all windows that are due at once.

Windows that are due end with the newest point and differ in range, count and start. Each has a bit in a word
of its level (see `forest`). A point's list is looked at once for each start, whatever the number of windows:
in order of rank, the count-th neighbour since the start tells from which rank on the point is core.

    list of p, by rank     0  0  1  3  4        since start 5, the 1st has rank 0, the 2nd rank 3: core in
    arrived                9  2  4  8  1        windows (start 5, count 1, range of rank 0 or more) and
    since 5                *        *           (start 5, count 2, range of rank 3 or more)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.lists import BOX, Lists, near_in, rank_in, sorted_list

Array = np.ndarray[Any, Any]

#: Windows in a word; the sign is left alone.
BITS = 63
_BEYOND = 1 << 30  # a rank that no range has


class Due(NamedTuple):
    """The windows that are due, by start, then by word. Starts ascend."""

    starts: Array  # int32[starts]
    after: Array  # int32[starts + 1]: where the windows of each start begin
    fewest: Array  # int32[starts]: the smallest count of a window with this start
    most: Array  # int32[starts]: the largest
    rank: Array  # int32[windows]
    least: Array  # int32[windows]: count
    word: Array  # int32[windows]
    bit: Array  # int64[windows]: 1 << place in the word
    reach: Array  # int64[words, ranks + 1]: the windows with a range of at least this rank
    alive: Array  # int64[words, starts + 1]: the windows with one of the first so many starts


def new_due(rank: Array, count: Array, start: Array, words: Sequence[int], ranges: int) -> Due:
    """From the rank, the count and the start of each window; the first words[0] of them are in word 0."""
    word = np.repeat(np.arange(len(words), dtype=np.int32), words)
    bit = np.int64(1) << np.concatenate([np.arange(size) for size in words])
    distinct, group = np.unique(start.astype(np.int32), return_inverse=True)
    order = np.lexsort((word, group))
    rank, count = rank[order].astype(np.int32), count[order].astype(np.int32)
    group, word, bit = group[order], word[order], bit[order]
    after = np.searchsorted(group, np.arange(len(distinct) + 1)).astype(np.int32)
    reach = np.zeros((len(words), ranges + 1), np.int64)
    alive = np.zeros((len(reach), len(distinct) + 1), np.int64)
    np.bitwise_or.at(reach, (word, rank), bit)
    np.bitwise_or.at(alive, (word, group + 1), bit)
    reach = np.bitwise_or.accumulate(reach[:, ::-1], axis=1)[:, ::-1].copy()
    alive = np.bitwise_or.accumulate(alive, axis=1)
    fewest, most = np.minimum.reduceat(count, after[:-1]), np.maximum.reduceat(count, after[:-1])
    return Due(distinct, after, fewest, most, rank, count, word, bit, reach, alive)


@kernel
def core_masks(lists: Lists, due: Due, stop: int, masks: Array) -> None:
    """Makes masks[word, point] the windows in which each point is core. masks: int64[words, stop]."""
    words, groups = len(masks), len(due.starts)
    rank, least, word, bit = due.rank, due.least, due.word, due.bit
    pool, at, sizes, waiting = lists.pool, lists.at, lists.size, lists.new
    masks[:, : due.starts[0]] = 0
    longest = 0
    for point in range(due.starts[0], stop):
        longest = max(longest, lists.size[point] + lists.new[point])
    entries = np.empty(longest + BOX, np.int64)
    near, far = np.empty(longest + BOX, np.int32), np.empty(longest + BOX, np.int32)
    from_rank = np.empty(max(longest, due.most.max()) + 2, np.int32)  # by count, for one start
    from_rank[0] = -1
    begun = 0
    for point in range(due.starts[0], stop):
        while begun < groups and due.starts[begun] <= point:
            begun += 1
        bound = lists.bound[point]
        for place in range(words):
            masks[place, point] = due.reach[place, bound] & due.alive[place, begun]
        size = sizes[point] + waiting[point] if bound else 0
        if size:
            sorted_list(pool, at[point], sizes[point], waiting[point], entries)
        for place in range(size):
            near[place], far[place] = near_in(entries[place]), rank_in(entries[place])
        for group in range(begun):
            start, seen = due.starts[group], 1
            for place in range(size):
                from_rank[seen] = far[place]
                seen += near[place] >= start
            if seen <= due.fewest[group]:
                continue
            for place in range(seen, due.most[group] + 1):
                from_rank[place] = _BEYOND
            found, here = 0, word[due.after[group]]
            for window in range(due.after[group], due.after[group + 1]):
                if word[window] != here:
                    masks[here, point] |= found
                    found, here = 0, word[window]
                found |= bit[window] if from_rank[least[window]] <= rank[window] else 0
            masks[here, point] |= found
