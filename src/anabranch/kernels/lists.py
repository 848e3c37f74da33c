"""Lists of neighbours, one after the other in a pool: how an entry is written, and how lists move.

What is in a list and why: see `neighbours`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import leaf
from anabranch.kernels.ranks import Asked, rank_of
from anabranch.kernels.searchgrid import distance_of
from anabranch.kernels.wide import WORDS, below, load, prefetch, store

Array = np.ndarray[Any, Any]

#: How many newcomers wait behind a list.
BOX = 16
#: An entry is one number: rank, then how far the neighbour is from the newest one there could be, then lives.
#: So entries in ascending order are by rank, then newest first.
_LIVES, _NEAR = 18, 26
_RANK = _LIVES + _NEAR
MOST_LIVES = (1 << _LIVES) - 1  # stands for that many or more: such an entry is never dropped
_NEWEST = (1 << _NEAR) - 1
#: Is more than any entry, and of a rank that none has.
LAST = (1 << 63) - 1


class Lists(NamedTuple):
    pool: Array  # int64[entries]
    used: Array  # int64[2]: entries of the pool that are given away; points whose boxes are full
    at: Array  # int32[points]: where the list of a point begins
    room: Array  # int32[points]
    size: Array  # int32[points]
    new: Array  # int32[points]: how many newcomers wait behind the list
    bound: Array  # int32[points]: queries with a range of this rank find the point core as long as it lives
    full: Array  # int32[points]: points whose boxes are full


def new_lists(points: int, entries: int) -> Lists:
    arrays = (np.zeros(points, np.int32) for _ in range(6))
    return Lists(np.empty(entries, np.int64), np.zeros(2, np.int64), *arrays)


@leaf
def rank_in(entry: int) -> int:
    return entry >> _RANK


@leaf
def near_in(entry: int) -> int:
    """The neighbour."""
    return _NEWEST - ((entry >> _LIVES) & _NEWEST)


@leaf
def entry_of(rank: int, near: int, lives: int) -> int:
    return (rank << _RANK) | ((_NEWEST - near) << _LIVES) | min(lives, MOST_LIVES)


@leaf
def insert(entries: Array, low: int, high: int, entry: int) -> int:
    """Puts an entry into entries[low:high], which ascend and have room for it; returns its place."""
    place = high
    while place > low and entries[np.uint64(place - 1)] > entry:
        entries[np.uint64(place)] = entries[np.uint64(place - 1)]
        place -= 1
    entries[np.uint64(place)] = entry
    return place


@leaf
def prefetch_list(lists: Lists, point: int) -> None:
    """Soon the list of a point will be looked at; lists lie in no order that a processor could foretell."""
    if point < len(lists.at):
        at = lists.at[point]
        for line in range(5):
            prefetch(lists.pool, at + line * WORDS)


@leaf
def in_order(lists: Lists, point: int, top: int, entries: Array) -> int:
    """The list of a point with the newcomers behind it, in order, as far as rank `top`, into `entries`, which
    has room for WORDS more, and LAST behind it. Returns how many there are. Sorts the newcomers where they
    wait.

    Entries are copied eight at a time; those too many are overwritten. A list that has any can be read beyond
    its end, as a box is behind it.
    """
    pool, old = lists.pool, lists.at[point]
    end = old + lists.size[point]
    last = end + lists.new[point]
    for place in range(end + 1, last):
        insert(pool, end, place, pool[place])
    beyond = (top + 1) << _RANK
    size = 0
    for new in range(end, last + 1):
        newcomer = min(pool[np.uint64(new)], beyond) if new < last else beyond
        while old < end:
            some = load(pool, old)
            store(entries, size, some)
            count = min(below(some, newcomer), end - old)
            old += count
            size += count
            if count < WORDS:
                break
        if newcomer == beyond:
            break
        entries[np.uint64(size)] = newcomer
        size += 1
    entries[np.uint64(size)] = LAST
    return size


@leaf
def entries_of(lists: Lists, first: int, count: int) -> int:
    """How many entries the lists of points first..count need, each with its box."""
    total = 0
    for point in range(first, count):
        if lists.bound[point]:
            total += lists.size[point] + BOX
    return total


@leaf
def carry_over(old: Lists, new: Lists, shift: int, first: int, count: int) -> None:
    """Copies the lists of points first..count to places `shift` lower, without what arrived before `first`.

    Lists that will never get an entry take no room.
    """
    pool, room, sizes, waiting = new.pool, new.room, new.size, new.new
    lower = shift << _LIVES
    used = 0
    for point in range(first, count):
        to = point - shift
        new.at[to], new.bound[to] = used, old.bound[point]
        sizes[to] = waiting[to] = room[to] = 0
        if old.bound[point] == 0:
            continue
        at, size = old.at[point], old.size[point]
        end = used
        for place in range(at, at + size):
            entry = old.pool[place]
            pool[end] = entry + lower
            end += near_in(entry) >= first
        sizes[to] = end - used
        room[to] = end - used + BOX
        for place in range(at + size, at + size + old.new[point]):  # newer than the point itself
            pool[end] = old.pool[place] + lower
            end += 1
        waiting[to] = old.new[point]
        used += room[to]
    new.used[0] = used
    new.used[1] = old.used[1]
    for place in range(old.used[1]):
        new.full[place] = old.full[place] - shift


@leaf
def recast(lists: Lists, points: Array, count: int, before: Array, asked: Asked) -> None:
    """Gives all entries their ranks among other ranges than `before`; drops those beyond the largest.

    Lives stay as they are: queries that are new never look at a pair of points that is here already.
    """
    ranges, table, scale = asked.ranges, asked.table, asked.scale
    for point in range(count):
        at, size, new = lists.at[point], lists.size[point], lists.new[point]
        kept = waiting = 0
        for place in range(size + new):
            entry = lists.pool[at + place]
            near = near_in(entry)
            distance = distance_of(points, point, near)
            if distance > ranges[-1]:
                continue
            entry = entry_of(rank_of(distance, ranges, table, scale), near, entry & MOST_LIVES)
            if place < size:
                insert(lists.pool, at, at + kept, entry)
                kept += 1
            else:
                lists.pool[at + kept + waiting] = entry
                waiting += 1
        lists.size[point], lists.new[point] = kept, waiting
        if lists.bound[point] == 0:
            continue
        if lists.bound[point] < len(before):
            bound = 0
            while bound < len(ranges) and ranges[bound] < before[lists.bound[point]]:
                bound += 1
            lists.bound[point] = bound
        else:
            lists.bound[point] = len(ranges)
