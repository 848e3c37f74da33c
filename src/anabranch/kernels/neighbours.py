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

from typing import Any

import numpy as np

from anabranch.kernels.bits import highest
from anabranch.kernels.distances import square_limit
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.lists import BOX, MOST_LIVES, Lists, entry_of, insert, near_in, prefetch_list, rank_in
from anabranch.kernels.ranks import Asked, rank_of
from anabranch.kernels.searchgrid import Grid, around, into_grid, square_of

Array = np.ndarray[Any, Any]


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
        insert(pool, at + size, at + place, pool[at + place])
    old = box = kept = newer = 0
    while old < size or box < new:
        if box == new or (old < size and pool[np.uint64(at + old)] < pool[np.uint64(at + size + box)]):
            entry = pool[np.uint64(at + old)]
            old += 1
            lives = entry & MOST_LIVES
            if lives < MOST_LIVES:
                lives -= box
        else:
            entry = pool[np.uint64(at + size + box)]
            lives = limits[np.uint64(rank_in(entry))]
            for other in range(box):  # newcomers of no higher rank
                lives -= near_in(pool[np.uint64(at + size + other)]) > near_in(entry)
            box += 1
        near = near_in(entry)
        if lives <= 0 or near < first:
            continue
        rank = rank_in(entry)
        merged[np.uint64(kept)] = entry_of(rank, near, lives)
        kept += 1
        if near > owner:
            newer += 1
            if newer >= limits[np.uint64(rank)]:
                bounds[owner] = rank
                while kept > 0 and rank_in(merged[kept - 1]) >= rank:
                    kept -= 1
                break
    return kept


@leaf
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


@leaf
def _gather(
    points: Array, point: int, first: int, grid: Grid, side: float, rings: int, asked: Asked, chains: Array,
    near: Array, squares: Array, rank: Array, seen: Array,
) -> int:  # fmt: skip
    """The earlier points within the largest range, in any order, into `near`; returns how many.

    rank[neighbour] becomes the rank of its distance. seen: int64, a bit for each point from `first` on, is
    set for each of them. Who is near cannot be foretold: candidates are written down one over the other.
    """
    ranges, table, scale = asked.ranges, asked.table, asked.scale
    largest = ranges[-1]
    limit, older = square_limit(largest), grid.older
    some = found = 0
    for chain in range(around(grid, points, point, first, side, rings, chains)):
        candidate = chains[chain]
        while candidate >= first:
            square = square_of(points, point, candidate)
            near[np.uint64(some)], squares[np.uint64(some)] = candidate, square
            some += square <= limit
            candidate = older[np.uint64(candidate)]
    for place in range(some):
        distance, candidate = np.sqrt(squares[place]), near[place]
        if distance <= largest:
            near[np.uint64(found)] = candidate
            found += 1
            rank[np.uint64(candidate)] = rank_of(distance, ranges, table, scale)
            bit = candidate - first
            seen[np.uint64(bit >> 5)] |= 1 << (bit & 31)
    return found


@leaf
def _own_list(owner: int, first: int, ranks: Array, seen: Array, limits: Array, own: Array) -> int:
    """The list of a new point into `own`, from the bits of its neighbours, newest first; returns its size.

    A neighbour that has `limit` of no higher rank in the list already, all of them newer, is left out; when
    that holds for rank 0, it holds for all that are older. All bits are cleared.
    """
    size = 0
    done = limits[0] == 0
    for word in range((owner - first) >> 5, -1, -1):
        bits = seen[word]
        seen[word] = 0
        while bits and not done:
            top = highest(bits)
            bits ^= 1 << top
            near = first + (word << 5) + top
            rank = ranks[np.uint64(near)]
            limit = limits[np.uint64(rank)]
            if limit == 0 or (size >= limit and rank_in(own[np.uint64(limit - 1)]) <= rank):
                continue
            place = insert(own, 0, size, entry_of(rank, near, 0))
            own[np.uint64(place)] = entry_of(rank, near, limit - place)
            size += 1
            done = size >= limits[0] and rank_in(own[limits[0] - 1]) == 0
    return size


@leaf
def _enter(
    points: Array, start: int, stop: int, first: int, grid: Grid, side: float, rings: int, lists: Lists,
    asked: Asked, chains: Array, near: Array, squares: Array, ranks: Array, seen: Array, own: Array,
    merged: Array,
) -> int:  # fmt: skip
    limits, pool, bounds = asked.limits, lists.pool, lists.bound
    if not _settle_full(lists, first, limits, merged):
        return start
    for point in range(start, stop):
        found = _gather(points, point, first, grid, side, rings, asked, chains, near, squares, ranks, seen)
        size = _own_list(point, first, ranks, seen, limits, own)
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
            owner = np.uint64(near[place])
            rank = ranks[owner]
            if rank < bounds[owner] and limits[np.uint64(rank)]:
                new = lists.new[owner]
                pool[np.uint64(lists.at[owner] + lists.size[owner] + new)] = entry_of(rank, point, 0)
                lists.new[owner] = new + 1
                if new + 1 == BOX:
                    prefetch_list(lists, near[place])
                    lists.full[lists.used[1]] = owner
                    lists.used[1] += 1
        into_grid(grid, points, point, side)
        if not _settle_full(lists, first, limits, merged):
            return point + 1
    return stop


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
    near, squares = np.empty(stop - first + 1, np.int32), np.empty(stop - first + 1, np.float64)
    ranks_of = np.empty(stop, np.int32)
    seen = np.zeros(((stop - first) >> 5) + 1, np.int64)
    own, merged = np.empty(stop - first + 1, np.int64), np.empty(stop - first + BOX + 1, np.int64)
    return _enter(
        points,
        start,
        stop,
        first,
        grid,
        side,
        rings,
        lists,
        asked,
        chains,
        near,
        squares,
        ranks_of,
        seen,
        own,
        merged,
    )
