"""Lists of neighbours: what is kept of every point, whatever the queries are.

A new point searches for its neighbours once, at the largest range of all queries. Points are numbered by
arrival.

**Search grid.** Cells are a little wider than the largest range, so all neighbours of a point lie in its own
cell and in the cells around it. Each cell is a chain from its newest point to older ones. Points that have
left every window are not removed: a search follows a chain only down to the point `first`, the oldest that is
still needed.

**Ranks.** All that a query asks about a distance is whether it is within the query's range. So a distance is
kept as its rank, the number of ranges that are too short for it. Ranks are exact: rank(d) <= k exactly if
d <= ranges[k].

    ranges      0.5   0.75   1.5         distances   0.3  0.5  0.6  0.75  1.0
    rank          0     1     2          ranks         0    0    1     1    2

**Lists.** A point does not keep all its neighbours. A query (range r, count c) looks at the c newest
neighbours within r and at no others: they tell whether the point is core, and if it is not, they are all the
neighbours it has. So a neighbour of rank k is of no use once `limits[k]` others are newer and of no higher
rank. The list is the skyband of (rank, newness), by rank, then newest first:

    rank      0  0  1  1  2          limit 2: of rank 1, the neighbour that arrived 3rd has the 7th and the
    arrived   7  2  8  3  9          8th before it, both newer: it goes. The 2nd has only the 7th, which is
    lives     2  1  1  0  1          newer and of no higher rank: it stays, with one life left.

A list holds at most about c (1 + ln(n / c)) of n neighbours, whatever the number of queries, and c if all
have the same range. It also shrinks again: once a point has limits[k] neighbours newer than itself up to rank
k, it is core for every query with that range or a larger one, in all windows that it will ever be in. Then
its `bound` falls to k, and nothing of that rank or beyond is kept. In dense regions most points soon keep
nothing at all.

**Storage.** Lists lie one after the other in one pool. New neighbours are written into a box behind the list
and are merged into it when the box is full; a list that has no room left moves to the end of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import int64

from anabranch.model.arrays import Floats, Ints, Ints32
from anabranch.numeric.bits import highest
from anabranch.numeric.distances import square_limit
from anabranch.numeric.jit import kernel, leaf, loop, zero
from anabranch.numeric.wide import WORDS, below, load, prefetch, store

#: Cells are wider than a range by this factor, so that rounding never puts two neighbours two cells apart.
WIDER = 1.001
#: Up to this many cells from zero the factor above covers the rounding. Beyond, one more ring is searched.
FARTHEST_EXACT_CELL = 1e12
_FARTHEST_CELL = 2.0**62
#: Room for new neighbours behind a list.
BOX = 16
#: An entry is one number: rank, then how far the neighbour is from the newest one there could be, then lives.
#: So entries in ascending order are by rank, then newest first.
_LIVES_BITS, _NEIGHBOUR_BITS = 18, 26
_RANK_SHIFT = _LIVES_BITS + _NEIGHBOUR_BITS
MOST_LIVES = (1 << _LIVES_BITS) - 1  # stands for that many or more: such an entry is never dropped
_NEWEST = (1 << _NEIGHBOUR_BITS) - 1
#: Is more than any entry, and of a rank that none has.
LAST = (1 << 63) - 1


# the search grid


class SearchGrid(NamedTuple):
    """Cells in the space of the first coordinates, at most three of them."""

    points: Floats  # [points, axes]
    side: float  # of a cell
    rings: int  # rings of cells around a point that can hold its neighbours
    table: Ints32  # [2^k], open addressing: cell or -1
    corners: Ints  # [cells, 3]: coordinates of each cell, counted in cells
    newest: Ints32  # [cells]: the newest point of each cell
    older: Ints32  # [points]: the next older point of the same cell, or -1
    used: Ints  # [1]: number of cells


def new_grid(points: Floats, side: float, rings: int = 1) -> SearchGrid:
    """Returns an empty grid for these points."""
    room = len(points)
    table_size = 1 << max(4, (2 * room - 1).bit_length())
    return SearchGrid(
        points,
        side,
        rings,
        np.full(table_size, -1, np.int32),
        np.empty((room, 3), np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.zeros(1, np.int64),
    )


def cell_side(largest: float) -> float:
    """The side of a search cell for this largest range; never so small that squares of differences vanish."""
    return max(largest * WIDER, 1e-150)


def rings_for(farthest: float, side: float) -> int:
    """How many rings of cells to search if no coordinate is farther from zero than `farthest`."""
    return 1 if farthest / side < FARTHEST_EXACT_CELL else 2


def chains_around(grid: SearchGrid) -> Ints32:
    """Returns room for what `around` finds."""
    return np.empty((2 * grid.rings + 1) ** min(3, grid.points.shape[1]), np.int32)


@leaf
def square_of(points: Floats, one: int, other: int) -> float:
    """The square of the Euclidean distance, summed in the order of the coordinates."""
    total, a, b = 0.0, np.uint64(one), np.uint64(other)
    if points.shape[1] == 2:  # a loop takes twice as long
        across, along = points[a, 0] - points[b, 0], points[a, 1] - points[b, 1]
        return across * across + along * along
    for axis in range(points.shape[1]):
        difference = points[a, axis] - points[b, axis]
        total += difference * difference
    return total


@leaf
def distance_of(points: Floats, one: int, other: int) -> float:
    return np.sqrt(square_of(points, int(int64(one)), int(int64(other))))


@leaf
def cell_at(coordinate: float, side: float) -> int:
    cell = np.floor(coordinate / side)
    return int(min(max(cell, -_FARTHEST_CELL), _FARTHEST_CELL))


@leaf
def _hash(x: int, y: int, z: int, table_size: int) -> int:
    mixed = np.uint64(x) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(y) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed += np.uint64(z) * np.uint64(0x165667B19E3779F9)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return int(int64((mixed >> np.uint64(32)) & np.uint64(table_size - 1)))


@leaf
def find_cell(table: Ints32, corners: Ints, x: int, y: int, z: int) -> int:
    """Returns the cell with these coordinates, or ~index (negative): the index in the table where it would
    go.
    """
    size = len(table)
    index = _hash(x, y, z, size)
    while table[index] >= 0:
        cell = table[index]
        if corners[cell, 0] == x and corners[cell, 1] == y and corners[cell, 2] == z:
            return int(cell)
        index = (index + 1) & (size - 1)
    return ~index


@leaf
def add_to_grid(grid: SearchGrid, point: int) -> None:
    points, side, axes = grid.points, grid.side, grid.points.shape[1]
    x = cell_at(points[point, 0], side)
    y = cell_at(points[point, 1], side) if axes > 1 else 0
    z = cell_at(points[point, 2], side) if axes > 2 else 0
    cell = find_cell(grid.table, grid.corners, x, y, z)
    if cell < 0:
        index = ~cell
        cell = grid.used[0]
        grid.used[0] += 1
        grid.table[index] = cell
        grid.corners[cell, 0] = x
        grid.corners[cell, 1] = y
        grid.corners[cell, 2] = z
        grid.newest[cell] = -1
    grid.older[point] = grid.newest[cell]
    grid.newest[cell] = point


@loop
def fill_grid(grid: SearchGrid, count: int) -> None:
    """Adds points 0..count to an empty grid."""
    for point in range(count):
        add_to_grid(grid, point)


@leaf
def around(grid: SearchGrid, point: int, first: int, chains: Ints32) -> int:
    """Writes the newest points of the cells around a point into `chains`; returns how many cells have any."""
    points, side, reach, axes = grid.points, grid.side, grid.rings, grid.points.shape[1]
    x = cell_at(points[point, 0], side)
    y = cell_at(points[point, 1], side) if axes > 1 else 0
    z = cell_at(points[point, 2], side) if axes > 2 else 0
    reach_y = reach if axes > 1 else 0
    reach_z = reach if axes > 2 else 0
    found = 0
    for i in range(-reach, reach + 1):
        for j in range(-reach_y, reach_y + 1):
            for k in range(-reach_z, reach_z + 1):
                cell = find_cell(grid.table, grid.corners, x + i, y + j, z + k)
                if cell >= 0 and grid.newest[cell] >= first:
                    chains[found] = grid.newest[cell]
                    found += 1
    return found


# ranks and lists


class QueryRanges(NamedTuple):
    """The ranges of all queries. A table by evenly spaced distances leads close to a rank."""

    values: Floats  # [ranks], ascending
    limits: Ints32  # [ranks]: the largest count among queries with at least this range
    table: Ints32  # [bins + 4]: the rank of the distance one bin before
    scale: float  # bins per unit of distance


class NeighbourLists(NamedTuple):
    """Index `point` of an array is about the list of that point."""

    pool: Ints  # [entries]
    used: Ints  # [2]: entries of the pool that are given away; number of full boxes
    at: Ints32  # [points]: where the list begins in the pool
    room: Ints32  # [points]
    size: Ints32  # [points]
    new: Ints32  # [points]: how many entries are in the box behind the list
    bound: Ints32  # [points]: queries with a range of this rank find the point core as long as it lives
    full: Ints32  # [points]: the points whose boxes are full


class _AddScratch(NamedTuple):
    """Room for what is computed while a point is added."""

    chains: Ints32  # [cells around a point]
    near: Ints32  # [points + 1]: neighbours of the new point
    squares: Floats  # [points + 1]: of their distances
    ranks: Ints32  # [points]: by neighbour
    seen: Ints  # a bit for each point, 32 per word: whether it is a neighbour
    own: Ints  # [points + 1]: the list of the new point
    merged: Ints  # [points + BOX + 1]: a list with its box


def new_query_ranges(patterns: Sequence[tuple[float, int]]) -> QueryRanges:
    """From the (range, count) of all queries."""
    values = np.unique(np.array([reach for reach, _ in patterns], np.float64))
    counts = np.zeros(len(values), np.int32)
    np.maximum.at(
        counts, np.searchsorted(values, [reach for reach, _ in patterns]), [count for _, count in patterns]
    )
    limits = np.maximum.accumulate(counts[::-1])[::-1].copy()
    bins = 4 * len(values) + 16
    with np.errstate(all="ignore"):
        scale = bins / values[-1] if values[-1] > 0 else 0.0
    if not np.isfinite(scale):
        scale = 0.0
    if scale:
        table = np.searchsorted(values, (np.arange(bins + 4) - 1) / scale)
        table = np.minimum(table, len(values) - 1)
    else:
        table = np.zeros(bins + 4, np.int64)
        table[3:] = len(values) - 1
    return QueryRanges(values, limits, table.astype(np.int32), float(scale))


def new_lists(points: int, entries: int) -> NeighbourLists:
    arrays = (np.zeros(points, np.int32) for _ in range(6))
    return NeighbourLists(np.empty(entries, np.int64), np.zeros(2, np.int64), *arrays)


@leaf
def rank_of(distance: float, ranges: QueryRanges) -> int:
    """The rank of a distance within the largest range."""
    values, table = ranges.values, ranges.table
    index = min(int(distance * ranges.scale), len(table) - 4)
    low, high = int64(table[np.uint64(index)]), int64(table[np.uint64(index + 3)])
    while high - low > 2:
        middle = (low + high) >> 1
        if values[middle] < distance:
            low = middle + 1
        else:
            high = middle
    low += values[np.uint64(low)] < distance  # at most two more; a branch could not be predicted
    low += values[np.uint64(low)] < distance
    return low


@leaf
def rank_in(entry: int) -> int:
    return entry >> _RANK_SHIFT


@leaf
def neighbour_in(entry: int) -> int:
    return _NEWEST - ((entry >> _LIVES_BITS) & _NEWEST)


@leaf
def entry_of(rank: int, neighbour: int, lives: int) -> int:
    return (rank << _RANK_SHIFT) | ((_NEWEST - neighbour) << _LIVES_BITS) | min(lives, MOST_LIVES)


@leaf
def insert(entries: Ints, low: int, high: int, entry: int) -> int:
    """Puts an entry into entries[low:high], which ascend and have room for it; returns its index."""
    index = high
    while index > low and entries[np.uint64(index - 1)] > entry:
        entries[np.uint64(index)] = entries[np.uint64(index - 1)]
        index -= 1
    entries[np.uint64(index)] = entry
    return index


@leaf
def prefetch_list(lists: NeighbourLists, point: int) -> None:
    """For a list that will be read soon; lists lie in no order that a processor could predict."""
    if point < len(lists.at):
        at = lists.at[point]
        for line in range(5):
            prefetch(lists.pool, at + line * WORDS)


@leaf
def _merged_list(lists: NeighbourLists, owner: int, first: int, limits: Ints32, merged: Ints) -> int:
    """Writes a list and its box as one list into `merged`; lowers the bound if there are enough entries.

    New neighbours are newer than all of the list, so an entry loses a life for each new one of no higher
    rank: those that come before it. Returns how many entries are left.
    """
    pool, at, size, new = lists.pool, int64(lists.at[owner]), lists.size[owner], lists.new[owner]
    for index in range(size + 1, size + new):  # sorts the box
        insert(pool, at + size, at + index, pool[at + index])
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
            lives = int64(limits[np.uint64(rank_in(entry))])
            for other in range(box):  # new neighbours of no higher rank
                lives -= neighbour_in(pool[np.uint64(at + size + other)]) > neighbour_in(entry)
            box += 1
        neighbour = neighbour_in(entry)
        if lives <= 0 or neighbour < first:
            continue
        rank = rank_in(entry)
        merged[np.uint64(kept)] = entry_of(rank, neighbour, lives)
        kept += 1
        if neighbour > owner:
            newer += 1
            if newer >= limits[np.uint64(rank)]:
                lists.bound[owner] = rank
                while kept > 0 and rank_in(merged[kept - 1]) >= rank:
                    kept -= 1
                break
    return kept


@leaf
def _empty_full_boxes(lists: NeighbourLists, first: int, limits: Ints32, merged: Ints) -> bool:
    """Merges full boxes into their lists; returns False if the pool has no room for a list to move.

    merged: int64, with room for any list.
    """
    pool, used = lists.pool, lists.used
    while used[1] > 0:
        owner = lists.full[used[1] - 1]
        most = lists.size[owner] + 2 * BOX
        if used[0] + most + (most >> 2) > len(pool):
            return False
        kept = _merged_list(lists, owner, first, limits, merged)
        lists.size[owner], lists.new[owner] = kept, 0
        at = int64(lists.at[owner])
        if kept + BOX > lists.room[owner]:
            at = used[0]
            lists.at[owner], lists.room[owner] = at, kept + BOX + (kept >> 2)
            used[0] += lists.room[owner]
        for index in range(kept):
            pool[at + index] = merged[index]
        used[1] -= 1
    return True


@leaf
def _search(grid: SearchGrid, point: int, first: int, ranges: QueryRanges, scratch: _AddScratch) -> int:
    """Finds the earlier points within the largest range, in any order; returns how many.

    Writes them into scratch.near and their ranks into scratch.ranks, and sets their bits in scratch.seen,
    which count from `first`. Who is near cannot be predicted: candidates are written one over the other.
    """
    near, squares, largest = scratch.near, scratch.squares, ranges.values[-1]
    limit, older, points = square_limit(largest), grid.older, grid.points
    some = found = 0
    for chain in range(around(grid, point, first, scratch.chains)):
        candidate = int64(scratch.chains[chain])
        while candidate >= first:
            square = square_of(points, point, candidate)
            near[np.uint64(some)], squares[np.uint64(some)] = candidate, square
            some += square <= limit
            candidate = int64(older[np.uint64(candidate)])
    for index in range(some):
        distance, candidate = np.sqrt(squares[index]), near[index]
        if distance <= largest:
            near[np.uint64(found)] = candidate
            found += 1
            scratch.ranks[np.uint64(candidate)] = rank_of(distance, ranges)
            bit = candidate - first
            scratch.seen[np.uint64(bit >> 5)] |= 1 << (bit & 31)
    return found


@leaf
def _own_list(owner: int, first: int, limits: Ints32, scratch: _AddScratch) -> int:
    """Writes the list of a new point into scratch.own, from the bits of its neighbours, newest first; returns
    its size.

    A neighbour that has `limit` of no higher rank in the list already, all of them newer, is left out. When
    that holds for rank 0, it holds for all that are older. All bits are cleared.
    """
    own, seen, size = scratch.own, scratch.seen, zero()
    done = limits[0] == 0
    for word in range((owner - first) >> 5, -1, -1):
        bits = seen[word]
        seen[word] = 0
        while bits and not done:
            top = highest(bits)
            bits ^= 1 << top
            neighbour = first + (word << 5) + top
            rank = int64(scratch.ranks[np.uint64(neighbour)])
            limit = int64(limits[np.uint64(rank)])
            if limit == 0 or (size >= limit and rank_in(own[np.uint64(limit - 1)]) <= rank):
                continue
            index = insert(own, zero(), size, entry_of(rank, neighbour, zero()))
            own[np.uint64(index)] = entry_of(rank, neighbour, limit - index)
            size += 1
            done = size >= limits[0] and rank_in(own[limits[0] - 1]) == 0
    return size


@leaf
def _add_to_boxes(
    lists: NeighbourLists, point: int, found: int, limits: Ints32, scratch: _AddScratch
) -> None:
    """Adds a new point to the lists of its neighbours that may need it."""
    for index in range(found):
        owner = np.uint64(scratch.near[index])
        rank = int64(scratch.ranks[owner])
        if rank < lists.bound[owner] and limits[np.uint64(rank)]:
            new = lists.new[owner]
            lists.pool[np.uint64(lists.at[owner] + lists.size[owner] + new)] = entry_of(rank, point, zero())
            lists.new[owner] = new + 1
            if new + 1 == BOX:
                prefetch_list(lists, int(int64(owner)))
                lists.full[lists.used[1]] = owner
                lists.used[1] += 1


@leaf
def _add_points(
    grid: SearchGrid, start: int, stop: int, first: int, lists: NeighbourLists, ranges: QueryRanges,
    scratch: _AddScratch,
) -> int:  # fmt: skip
    limits, pool = ranges.limits, lists.pool
    if not _empty_full_boxes(lists, first, limits, scratch.merged):
        return start
    for point in range(start, stop):
        found = _search(grid, point, first, ranges, scratch)
        size = _own_list(point, first, limits, scratch)
        at = lists.used[0]
        if at + size + BOX > len(pool):
            return point
        lists.used[0] += size + BOX
        lists.at[point], lists.room[point] = at, size + BOX
        lists.size[point], lists.new[point] = size, 0
        lists.bound[point] = len(limits) if limits[0] else 0
        for index in range(size):
            pool[at + index] = scratch.own[index]
        _add_to_boxes(lists, point, found, limits, scratch)
        add_to_grid(grid, point)
        if not _empty_full_boxes(lists, first, limits, scratch.merged):
            return point + 1
    return stop


@kernel
def add_points(
    grid: SearchGrid, start: int, stop: int, first: int, lists: NeighbourLists, ranges: QueryRanges
) -> int:
    """Adds points start..stop to the grid and the lists, one by one; returns where it stopped because the
    pool is full.

    The grid and the lists hold the points before `start`; `first` is the oldest that a window can still hold.
    All is done if it returns `stop` and no box is full.
    """
    count = stop - first
    scratch = _AddScratch(
        np.empty((2 * grid.rings + 1) ** min(3, grid.points.shape[1]), np.int32),
        np.empty(count + 1, np.int32), np.empty(count + 1, np.float64), np.empty(stop, np.int32),
        np.zeros((count >> 5) + 1, np.int64), np.empty(count + 1, np.int64),
        np.empty(count + BOX + 1, np.int64),
    )  # fmt: skip
    return _add_points(grid, start, stop, first, lists, ranges, scratch)


@leaf
def in_order(lists: NeighbourLists, point: int, top: int, entries: Ints) -> int:
    """Writes a list and its box as one list, in order and up to rank `top`, into `entries`, with LAST behind
    it; returns how many entries there are. `entries` has room for WORDS more. Sorts the box.

    Entries are copied eight at a time; those too many are overwritten. A list can be read beyond its end, as
    a box is behind it.
    """
    pool, old = lists.pool, int64(lists.at[point])
    end = old + lists.size[point]
    last = end + lists.new[point]
    for index in range(end + 1, last):
        insert(pool, end, index, pool[index])
    beyond = (top + 1) << _RANK_SHIFT
    size = 0
    for new in range(end, last + 1):
        next_new = min(pool[np.uint64(new)], beyond) if new < last else beyond
        while old < end:
            some = load(pool, old)
            store(entries, size, some)
            count = min(below(some, next_new), end - old)
            old += count
            size += count
            if count < WORDS:
                break
        if next_new == beyond:
            break
        entries[np.uint64(size)] = next_new
        size += 1
    entries[np.uint64(size)] = LAST
    return size


@loop
def entries_of(lists: NeighbourLists, first: int, count: int) -> int:
    """How many entries the lists of points first..count need, each with its box."""
    total = 0
    for point in range(first, count):
        if lists.bound[point]:
            total += lists.size[point] + BOX
    return total


@loop
def copy_lists(old: NeighbourLists, new: NeighbourLists, shift: int, first: int, count: int) -> None:
    """Copies the lists of points first..count to those of points lower by `shift`, without what arrived
    before `first`. Lists that will never get an entry take no room.
    """
    pool, room, sizes, boxes = new.pool, new.room, new.size, new.new
    lower = shift << _LIVES_BITS
    used = 0
    for point in range(first, count):
        to = point - shift
        new.at[to], new.bound[to] = used, old.bound[point]
        sizes[to] = boxes[to] = room[to] = 0
        if old.bound[point] == 0:
            continue
        at, size = old.at[point], old.size[point]
        end = used
        for index in range(at, at + size):
            entry = old.pool[index]
            pool[end] = entry + lower
            end += neighbour_in(entry) >= first
        sizes[to] = end - used
        room[to] = end - used + BOX
        for index in range(at + size, at + size + old.new[point]):  # newer than the point itself
            pool[end] = old.pool[index] + lower
            end += 1
        boxes[to] = old.new[point]
        used += room[to]
    new.used[0] = used
    new.used[1] = old.used[1]
    for index in range(old.used[1]):
        new.full[index] = old.full[index] - shift


@leaf
def _rank_list_again(lists: NeighbourLists, points: Floats, point: int, ranges: QueryRanges) -> None:
    pool, at = lists.pool, int64(lists.at[point])
    size, new = lists.size[point], lists.new[point]
    kept = in_box = zero()
    for index in range(size + new):
        entry = pool[at + index]
        neighbour = neighbour_in(entry)
        distance = distance_of(points, point, neighbour)
        if distance > ranges.values[-1]:
            continue
        entry = entry_of(rank_of(distance, ranges), neighbour, entry & MOST_LIVES)
        if index < size:
            insert(pool, at, at + kept, entry)
            kept += 1
        else:
            pool[at + kept + in_box] = entry
            in_box += 1
    lists.size[point], lists.new[point] = kept, in_box


@loop
def rank_again(
    lists: NeighbourLists, points: Floats, count: int, before: Floats, ranges: QueryRanges
) -> None:
    """Gives all entries their ranks among other ranges than `before`; drops those beyond the largest.

    Lives stay as they are: new queries never look at a pair of points that is here already.
    """
    values = ranges.values
    for point in range(count):
        _rank_list_again(lists, points, point, ranges)
        if lists.bound[point] == 0:
            continue
        bound = len(values)
        if lists.bound[point] < len(before):
            bound = 0
            while bound < len(values) and values[bound] < before[lists.bound[point]]:
                bound += 1
        lists.bound[point] = bound
