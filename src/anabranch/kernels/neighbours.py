"""The neighbours of points that arrive one after the other, found once at the largest range of all queries.

Points are numbered by arrival. The search grid finds the neighbours of a new point among the earlier ones.

Each point keeps a list of neighbours, but not all of them. A query (range r, count c) looks at the c newest
neighbours within r and at no others: they tell whether the point is core, and if it is not, they are all the
neighbours it has. So a neighbour of rank k (see `ranks`) is of no use to anybody once `limits[k]` others are
newer and of no higher rank. The list is the skyband of (rank, newness), by rank, then newest first:

    rank      0  0  1  1  2          limit 2: of rank 1, the neighbour that arrived 3rd has the 7th and the
    arrived   7  2  8  3  9          8th before it, both newer: it goes. So does the 2nd? Only the 7th is
    lives     2  1  1  0  1          newer and of no higher rank: it stays, with one life left.

It holds at most about c (1 + ln(n / c)) of n neighbours, whatever the number of queries, and c if all have
the same range. And it shrinks again: once a point has limits[k] neighbours newer than itself up to rank k, it
is core for every query with that range or a larger one in all windows it will ever be in. So `bound` falls to
k, and nothing of that rank or beyond is kept. In dense places most points soon keep nothing at all.

Lists lie one after the other in one pool. Newcomers wait behind a list and enter it some at a time; a list
that has no room left moves to the end of the pool.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import highest
from anabranch.kernels.distances import square_limit
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.ranks import Asked, rank_of
from anabranch.kernels.searchgrid import Grid, around, distance_of, into_grid, square_of

Array = np.ndarray[Any, Any]

#: How many newcomers wait behind a list.
BOX = 16
#: An entry is one number: rank, then how far the neighbour is from the newest one there could be, then lives.
#: So entries in ascending order are by rank, then newest first.
_LIVES, _NEAR = 18, 26
_RANK = _LIVES + _NEAR
_MOST_LIVES = (1 << _LIVES) - 1  # stands for that many or more: such an entry is never dropped
_NEWEST = (1 << _NEAR) - 1


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
def _entry(rank: int, near: int, lives: int) -> int:
    return (rank << _RANK) | ((_NEWEST - near) << _LIVES) | min(lives, _MOST_LIVES)


@leaf
def _insert(entries: Array, low: int, high: int, entry: int) -> int:
    """Puts an entry into entries[low:high], which ascend and have room for it; returns its place."""
    place = high
    while place > low and entries[place - 1] > entry:
        entries[place] = entries[place - 1]
        place -= 1
    entries[place] = entry
    return place


@leaf
def sorted_list(pool: Array, at: int, size: int, new: int, out: Array) -> None:
    """A whole list with the newcomers behind it, by rank, then newest first."""
    for place in range(size):
        out[place] = pool[at + place]
    for place in range(size, size + new):
        _insert(out, 0, place, pool[at + place])


@leaf
def _settled(
    pool: Array, at: int, size: int, new: int, owner: int, first: int, limits: Array, merged: Array,
    bounds: Array,
) -> int:  # fmt: skip
    """A list and the newcomers behind it as one, into `merged`; lowers the bound if there are enough of them.

    Newcomers are newer than all of the list, so an entry loses a life for each newcomer of no higher rank:
    those that come before it. Returns how many entries are left.
    """
    for place in range(size + 1, size + new):  # sorts the newcomers
        _insert(pool, at + size, at + place, pool[at + place])
    old = box = kept = newer = 0
    while old < size or box < new:
        if box == new or (old < size and pool[at + old] < pool[at + size + box]):
            entry = pool[at + old]
            old += 1
            lives = entry & _MOST_LIVES
            if lives < _MOST_LIVES:
                lives -= box
        else:
            entry = pool[at + size + box]
            lives = limits[rank_in(entry)]
            for other in range(box):  # newcomers of no higher rank
                lives -= near_in(pool[at + size + other]) > near_in(entry)
            box += 1
        near = near_in(entry)
        if lives <= 0 or near < first:
            continue
        rank = rank_in(entry)
        merged[kept] = _entry(rank, near, lives)
        kept += 1
        if near > owner:
            newer += 1
            if newer >= limits[rank]:
                bounds[owner] = rank
                while kept > 0 and rank_in(merged[kept - 1]) >= rank:
                    kept -= 1
                break
    return kept


@kernel
def _settle_full(lists: Lists, first: int, limits: Array, merged: Array) -> bool:
    """Empties the boxes that are full; False if the pool has no room for a list to move.

    merged: int64, with room for any list.
    """
    pool, used, full = lists.pool, lists.used, lists.full
    while used[1] > 0:
        owner = full[used[1] - 1]
        at, size, new = lists.at[owner], lists.size[owner], lists.new[owner]
        most = size + 2 * BOX
        if used[0] + most + (most >> 2) > len(pool):
            return False
        kept = _settled(pool, at, size, new, owner, first, limits, merged, lists.bound)
        lists.size[owner], lists.new[owner] = kept, 0
        if kept + BOX > lists.room[owner]:
            at = used[0]
            lists.at[owner], lists.room[owner] = at, kept + BOX + (kept >> 2)
            used[0] += lists.room[owner]
        for place in range(kept):
            pool[at + place] = merged[place]
        used[1] -= 1
    return True


@kernel
def _gather(
    points: Array, point: int, first: int, grid: Grid, side: float, rings: int, largest: float,
    chains: Array, near: Array, far: Array, seen: Array,
) -> int:  # fmt: skip
    """The earlier points within the largest range, in any order, into `near`; returns how many.

    far[neighbour] becomes the distance. seen: int64, a bit for each point from `first` on, is set for each of
    them.
    """
    limit = square_limit(largest)
    older = grid.older
    found = 0
    for chain in range(around(grid, points, point, first, side, rings, chains)):
        candidate = chains[chain]
        while candidate >= first:
            square = square_of(points, point, candidate)
            if square <= limit:
                distance = np.sqrt(square)
                if distance <= largest:
                    near[found] = candidate
                    far[candidate] = distance
                    found += 1
                    bit = candidate - first
                    seen[bit >> 5] |= 1 << (bit & 31)
            candidate = older[candidate]
    return found


@kernel
def _own_list(owner: int, first: int, far: Array, seen: Array, asked: Asked, own: Array) -> int:
    """The list of a new point into `own`, from the bits of its neighbours, newest first; returns its size.

    A neighbour that has `limit` of no higher rank in the list already, all of them newer, is left out; when
    that holds for rank 0, it holds for all that are older. All bits are cleared.
    """
    ranges, limits, table, scale = asked.ranges, asked.limits, asked.table, asked.scale
    size = 0
    done = limits[0] == 0
    for word in range((owner - first) >> 5, -1, -1):
        bits = seen[word]
        seen[word] = 0
        while bits and not done:
            top = highest(bits)
            bits ^= 1 << top
            near = first + (word << 5) + top
            rank = rank_of(far[near], ranges, table, scale)
            limit = limits[rank]
            if limit == 0 or (size >= limit and rank_in(own[limit - 1]) <= rank):
                continue
            place = _insert(own, 0, size, _entry(rank, near, 0))
            own[place] = _entry(rank, near, limit - place)
            size += 1
            done = size >= limits[0] and rank_in(own[limits[0] - 1]) == 0
    return size


@kernel
def enter(
    points: Array, start: int, stop: int, first: int, grid: Grid, side: float, rings: int,
    lists: Lists, asked: Asked,
) -> int:  # fmt: skip
    """Enters points start..stop one by one; returns where it stopped because the pool is full.

    points: float64[n, axes]; first: the oldest point that a window can still hold. The grid and the lists
    hold the points before `start`. It has come to an end if it returns `stop` and no box is full.
    """
    chains = np.empty((2 * rings + 1) ** min(3, points.shape[1]), np.int32)
    near = np.empty(stop - first + 1, np.int32)
    far = np.empty(stop, np.float64)
    seen = np.zeros(((stop - first) >> 5) + 1, np.int64)
    own, merged = np.empty(stop - first + 1, np.int64), np.empty(stop - first + BOX + 1, np.int64)
    ranges, limits, table, scale = asked.ranges, asked.limits, asked.table, asked.scale
    pool, bounds = lists.pool, lists.bound
    if not _settle_full(lists, first, limits, merged):
        return start
    for point in range(start, stop):
        found = _gather(points, point, first, grid, side, rings, ranges[-1], chains, near, far, seen)
        size = _own_list(point, first, far, seen, asked, own)
        at = lists.used[0]
        if at + size + BOX > len(pool):
            return point
        lists.used[0] += size + BOX
        lists.at[point], lists.room[point] = at, size + BOX
        lists.size[point], lists.new[point] = size, 0
        lists.bound[point] = len(limits) if limits[0] else 0
        for place in range(size):
            pool[at + place] = own[place]
        for place in range(found):
            owner = near[place]
            if bounds[owner] == 0:
                continue
            rank = rank_of(far[owner], ranges, table, scale)
            if rank < bounds[owner] and limits[rank]:
                new = lists.new[owner]
                pool[lists.at[owner] + lists.size[owner] + new] = _entry(rank, point, 0)
                lists.new[owner] = new + 1
                if new + 1 == BOX:
                    lists.full[lists.used[1]] = owner
                    lists.used[1] += 1
        into_grid(grid, points, point, side)
        if not _settle_full(lists, first, limits, merged):
            return point + 1
    return stop


@kernel
def entries_of(lists: Lists, first: int, count: int) -> int:
    """How many entries the lists of points first..count need, each with its box."""
    total = 0
    for point in range(first, count):
        if lists.bound[point]:
            total += lists.size[point] + BOX
    return total


@kernel
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


@kernel
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
            entry = _entry(rank_of(distance, ranges, table, scale), near, entry & _MOST_LIVES)
            if place < size:
                _insert(lists.pool, at, at + kept, entry)
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
