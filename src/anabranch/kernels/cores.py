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
from anabranch.kernels.lists import Ordered

Array = np.ndarray[Any, Any]

#: Windows in a word; the sign is left alone.
BITS = 63
_BEYOND = 1 << 30  # a rank that no range has


class Due(NamedTuple):
    """The windows that are due, word by word; a window's bit is its place in the word. Starts ascend."""

    after: Array  # int32[words + 1]: where the windows of each word begin
    rank: Array  # int32[windows]
    least: Array  # int32[windows]: count
    group: Array  # int32[windows]: which of the starts
    starts: Array  # int32[starts]
    most: Array  # int32[starts]: the largest count of a window with this start
    reach: Array  # int64[ranks + 1, words]: the windows with a range of at least this rank
    alive: Array  # int64[starts + 1, words]: the windows with one of the first so many starts


def new_due(rank: Array, count: Array, start: Array, words: Sequence[int], ranges: int) -> Due:
    """From the rank, the count and the start of each window; the first words[0] of them are in word 0."""
    after = np.concatenate([[0], np.cumsum(words)]).astype(np.int32)
    word = np.repeat(np.arange(len(words)), words)
    bit = np.int64(1) << (np.arange(len(rank)) - after[word])
    rank, count = rank.astype(np.int32), count.astype(np.int32)
    starts, group = np.unique(start.astype(np.int32), return_inverse=True)
    most = np.zeros(len(starts), np.int32)
    np.maximum.at(most, group, count)
    reach = np.zeros((ranges + 1, len(words)), np.int64)
    alive = np.zeros((len(starts) + 1, len(words)), np.int64)
    np.bitwise_or.at(reach, (rank, word), bit)
    np.bitwise_or.at(alive, (group + 1, word), bit)
    reach = np.bitwise_or.accumulate(reach[::-1], axis=0)[::-1].copy()
    alive = np.bitwise_or.accumulate(alive, axis=0)
    return Due(after, rank, count, group.astype(np.int32), starts, most, reach, alive)


@kernel
def core_masks(lists: Ordered, bounds: Array, due: Due, stop: int, masks: Array) -> None:
    """Makes masks[point, word] the windows in which each point is core. masks: int64[stop, words].

    bounds: see lists.Lists. from_rank[start, count] is the rank from which on the point is core, row by row.
    Places in it are unsigned, so that no loop has to ask whether they count from the end.
    """
    after, rank, starts, near, far = due.after, due.rank, due.starts, lists.near, lists.rank
    masks[: starts[0]] = 0
    width = due.most.max() + 2
    for point in range(starts[0], stop):
        width = max(width, lists.at[point + 1] - lists.at[point] + 2)
    from_rank = np.full(len(starts) * width, _BEYOND, np.int32)
    cells = np.empty(len(rank), np.uint32)  # of each window, in from_rank
    for window in range(len(rank)):
        cells[window] = due.group[window] * width + due.least[window]
    begun = 0
    for point in range(starts[0], stop):
        while begun < len(starts) and starts[begun] <= point:
            from_rank[begun * width] = -1
            begun += 1
        begin, end = np.uint64(lists.at[point]), np.uint64(lists.at[point + 1])
        for group in range(begun):
            start, seen = starts[group], np.uint64(group * width + 1)
            last = seen + np.uint64(due.most[group])
            for place in range(begin, end):
                from_rank[seen] = far[place]
                seen += np.uint64(near[place] >= start)
            for place in range(seen, last):
                from_rank[place] = _BEYOND
        bound = bounds[point]
        for word in range(masks.shape[1]):
            low, found = np.uint64(after[word]), np.int64(0)
            for window in range(low, np.uint64(after[word + 1])):
                found |= np.int64(from_rank[cells[window]] <= rank[window]) << np.int64(window - low)
            masks[point, word] = due.reach[bound, word] & due.alive[begun, word] | found
