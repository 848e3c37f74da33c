"""The neighbours of points that arrive one after the other, found once at the largest range of all queries.

Points are numbered by arrival. The search grid finds the neighbours of a new point among the earlier ones.

Each point keeps a list of neighbours, nearest first, but not all of them. A query (range r, count c) looks at
the c newest neighbours within r and at no others: they tell whether the point is core, and if it is not, they
are all the neighbours it has. So a neighbour at distance d is of no use to anybody once `limit(d)` others are
both newer and at most as far, where limit(d) is the largest count among the queries with range >= d. The list
is the skyband of (distance, newness):

    distance  1  2  3  4  5          limit 2: the neighbour at 4, arrived 3rd, has the 7th and the 8th
    arrived   7  2  8  3  9          before it in the list, both newer: it goes. So does the one at 2? Only
    lives     2  1  2  0  2          the 7th is nearer and newer: it stays, with one life left.

It holds about c (1 + ln(n / c)) of n neighbours, whatever the number of queries. And it shrinks again: once a
point has limit(d) neighbours newer than itself up to distance d, it is core for every query with range >= d
in all windows it will ever be in, so `bound` falls to d, nothing at or beyond it is kept, and newcomers there
cost one comparison.

Newcomers wait in a small box beside each list and enter it eight at a time: lists lie far apart in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.searchgrid import Grid, around, distance_of, into_grid

Array = np.ndarray[Any, Any]

#: How many newcomers wait beside a list.
BOX = 8


class Lists(NamedTuple):
    """The neighbours of each point, nearest first, at equal distance the earlier arrival first."""

    distance: Array  # float64[points, width]
    near: Array  # int32[points, width]
    lives: Array  # int32[points, width]: how many more nearer and newer ones it takes to drop the entry
    size: Array  # int32[points]
    bound: Array  # float64[points]: queries with range >= bound find the point core as long as it lives
    new_distance: Array  # float64[points, BOX]: newcomers, in order of arrival
    new_near: Array  # int32[points, BOX]
    new_size: Array  # int32[points]
    longest: Array  # int64[1]: no list is longer


class Spare(NamedTuple):
    """Room to work in."""

    lives: Array  # int32[BOX]
    far: Array  # float64[width]
    near: Array  # int32[width]
    left: Array  # int32[width]


def new_lists(points: int, width: int) -> Lists:
    return Lists(
        np.empty((points, width), np.float64),
        np.empty((points, width), np.int32),
        np.empty((points, width), np.int32),
        np.zeros(points, np.int32),
        np.empty(points, np.float64),
        np.empty((points, BOX), np.float64),
        np.empty((points, BOX), np.int32),
        np.zeros(points, np.int32),
        np.zeros(1, np.int64),
    )


def wider(width: int) -> int:
    """The next width of lists: an odd number of cache lines, so that rows do not fall on each other."""
    return (width * 3 // 2) // 16 * 16 + 8


@kernel
def _below(ascending: Array, size: int, value: float) -> int:
    """How many of the first `size` values are smaller."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _limit(distance: float, ranges: Array, limits: Array) -> int:
    """The largest count among the queries whose range is at least this distance (there is one).

    ranges ascend and limits descend, one entry a step: float64[steps], int32[steps].
    """
    step = 0
    while ranges[step] < distance:
        step += 1
    return limits[step]


@kernel
def _sort_box(lists: Lists, owner: int, ranges: Array, limits: Array, lives: Array) -> int:
    """Sorts the newcomers in a box by distance, the earlier first among equals; returns how many are of use.

    `lives` (int32[BOX]) becomes what is left to each: its limit less the newcomers that are newer and at most
    as far.
    """
    far, near = lists.new_distance[owner], lists.new_near[owner]
    size = 0
    for entry in range(lists.new_size[owner]):
        distance, newcomer = far[entry], near[entry]
        if distance > ranges[-1]:  # the query that asked for it has gone
            continue
        place = size
        while place > 0 and far[place - 1] > distance:
            far[place] = far[place - 1]
            near[place] = near[place - 1]
            lives[place] = lives[place - 1] - 1
            place -= 1
        equal = place
        while equal > 0 and far[equal - 1] == distance:
            equal -= 1
            lives[equal] -= 1
        far[place] = distance
        near[place] = newcomer
        lives[place] = _limit(distance, ranges, limits)
        size += 1
    return size


@kernel
def _settle(lists: Lists, owner: int, first: int, ranges: Array, limits: Array, spare: Spare) -> None:
    """Enters the newcomers in the box into the list, and lowers the bound if they are enough.

    Both are in order of distance and are merged. An entry loses a life for every newcomer at most as far; of
    two at the same distance the older goes first. The bound is the least distance within which the point has
    `limit` newer neighbours; the merge ends there.
    """
    far, near, lives = lists.distance[owner], lists.near[owner], lists.lives[owner]
    size, new = lists.size[owner], _sort_box(lists, owner, ranges, limits, spare.lives)
    old = box = nearer = kept = newer = step = 0
    while old < size or box < new:
        if box == new or (old < size and far[old] <= lists.new_distance[owner, box]):
            distance, other = far[old], near[old]
            while nearer < new and lists.new_distance[owner, nearer] <= distance:
                nearer += 1
            left = lives[old] - nearer
            old += 1
        else:
            distance, other, left = (
                lists.new_distance[owner, box],
                lists.new_near[owner, box],
                spare.lives[box],
            )
            box += 1
        if left <= 0 or other < first or distance > ranges[-1]:
            continue
        spare.far[kept] = distance
        spare.near[kept] = other
        spare.left[kept] = left
        kept += 1
        if other > owner:
            newer += 1
            while ranges[step] < distance:
                step += 1
            if newer >= limits[step]:
                lists.bound[owner] = distance
                while kept > 0 and spare.far[kept - 1] >= distance:
                    kept -= 1
                break
    for entry in range(kept):
        far[entry] = spare.far[entry]
        near[entry] = spare.near[entry]
        lives[entry] = spare.left[entry]
    lists.size[owner] = kept
    lists.new_size[owner] = 0
    lists.longest[0] = max(lists.longest[0], kept)


@kernel
def _gather(
    points: Array, point: int, first: int, grid: Grid, side: float, reach: int, largest: float,
    chains: Array, near: Array, far: Array,
) -> int:  # fmt: skip
    """The earlier points within the largest range, newest first, into near[0] and far[0]; returns how many.

    Each chain gives a run, newest first; runs are then merged two by two. chains: int32[2, cells + 1], near:
    int32[2, n], far: float64[2, n].
    """
    newest, ends = chains[0], chains[1]
    runs = around(grid, points, point, first, side, reach, newest)
    found = 0
    ends[0] = 0
    for run in range(runs):
        candidate = newest[run]
        while candidate >= first:
            distance = distance_of(points, point, candidate)
            if distance <= largest:
                near[0, found] = candidate
                far[0, found] = distance
                found += 1
            candidate = grid.older[candidate]
        ends[run + 1] = found
    here = 0
    while runs > 1:
        merged = 0
        for run in range(0, runs, 2):
            last = min(run + 2, runs)
            _merge(near[here], far[here], near[1 - here], far[1 - here], ends[run], ends[run + 1], ends[last])
            merged += 1
            ends[merged] = ends[last]
        runs = merged
        here = 1 - here
    if here:
        near[0, :found] = near[1, :found]
        far[0, :found] = far[1, :found]
    return found


@kernel
def _merge(near: Array, far: Array, to_near: Array, to_far: Array, low: int, middle: int, high: int) -> None:
    """Merges near[low:middle] and near[middle:high], both descending."""
    one, other = low, middle
    for place in range(low, high):
        if other >= high or (one < middle and near[one] > near[other]):
            to_near[place] = near[one]
            to_far[place] = far[one]
            one += 1
        else:
            to_near[place] = near[other]
            to_far[place] = far[other]
            other += 1


@kernel
def _own_list(
    lists: Lists, owner: int, near: Array, far: Array, found: int, ranges: Array, limits: Array
) -> bool:
    """The list of a new point from its neighbours, newest first; False if the arrays are too narrow.

    A neighbour that has `limit` nearer or equally near ones in the list already, all of them newer, is left
    out.
    """
    own_far, own_near, own_lives = lists.distance[owner], lists.near[owner], lists.lives[owner]
    size = 0
    for entry in range(found):
        distance = far[entry]
        limit = _limit(distance, ranges, limits)
        if limit == 0 or (size >= limit and own_far[limit - 1] <= distance):
            continue
        if size == len(own_far):
            return False
        place = size  # before those at equal distance, which arrived later
        equals = 0
        while place > 0 and own_far[place - 1] >= distance:
            place -= 1
            equals += own_far[place] == distance
            own_far[place + 1] = own_far[place]
            own_near[place + 1] = own_near[place]
            own_lives[place + 1] = own_lives[place]
        own_far[place] = distance
        own_near[place] = near[entry]
        own_lives[place] = limit - place - equals
        size += 1
    lists.size[owner] = size
    lists.new_size[owner] = 0
    lists.bound[owner] = np.inf
    lists.longest[0] = max(lists.longest[0], size)
    return True


@kernel
def enter(
    points: Array, start: int, stop: int, first: int, grid: Grid, side: float, reach: int,
    lists: Lists, ranges: Array, limits: Array,
) -> int:  # fmt: skip
    """Enters points start..stop one by one; returns where it stopped because lists must become wider.

    A point makes a list longer by at most what waits in its box.

    points: float64[n, axes]; first: the oldest point that a window can still hold; ranges, limits: what
    queries ask for, see `_limit`. The grid and the lists hold the points before `start`.
    """
    chains = np.empty((2, (2 * reach + 1) ** min(3, points.shape[1]) + 1), np.int32)
    near = np.empty((2, stop), np.int32)
    far = np.empty((2, stop), np.float64)
    width = lists.near.shape[1]
    spare = Spare(
        np.empty(BOX, np.int32),
        np.empty(width, np.float64),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
    )
    largest = ranges[-1]
    for point in range(start, stop):
        if lists.longest[0] + BOX > lists.near.shape[1]:
            return point
        found = _gather(points, point, first, grid, side, reach, largest, chains, near, far)
        if not _own_list(lists, point, near[0], far[0], found, ranges, limits):
            return point
        for entry in range(found):
            owner, distance = near[0, entry], far[0, entry]
            if distance < lists.bound[owner] and _limit(distance, ranges, limits):
                place = lists.new_size[owner]
                lists.new_distance[owner, place] = distance
                lists.new_near[owner, place] = point
                lists.new_size[owner] = place + 1
                if place + 1 == BOX:
                    _settle(lists, owner, first, ranges, limits, spare)
        into_grid(grid, points, point, side)
    return stop


@kernel
def carry_over(old: Lists, new: Lists, shift: int, count: int) -> None:
    """Copies the lists of points shift..count to 0..count - shift, without what arrived before `shift`.

    Both may be the same arrays.
    """
    longest = 0
    for point in range(shift, count):
        size = 0
        to = point - shift
        for entry in range(old.size[point]):
            if old.near[point, entry] >= shift:
                new.distance[to, size] = old.distance[point, entry]
                new.near[to, size] = old.near[point, entry] - shift
                new.lives[to, size] = old.lives[point, entry]
                size += 1
        new.size[to] = size
        new.bound[to] = old.bound[point]
        for entry in range(old.new_size[point]):  # newer than the point itself, so none of them is left out
            new.new_distance[to, entry] = old.new_distance[point, entry]
            new.new_near[to, entry] = old.new_near[point, entry] - shift
        new.new_size[to] = old.new_size[point]
        longest = max(longest, size)
    new.longest[0] = longest
