"""Whose edge a point is: what is not core belongs to the cluster of its nearest core, if one is in range.

Cores and trees are known (cores, forest). A point's list is by rank, so the first core in it is the nearest,
unless others have the same rank; then distances are measured, and of equally near ones it is the earliest. A
word of windows goes along the list until all of them have found a core or the rest is out of their ranges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import highest, lowest
from anabranch.kernels.cores import BITS, Due
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.lists import Lists, in_order
from anabranch.kernels.searchgrid import distance_of

Array = np.ndarray[Any, Any]


class Edges(NamedTuple):
    """Points that are edges, by arrival: in which window, and the core whose cluster they belong to."""

    point: Array  # int32[edges]
    core: Array  # int32[edges]
    window: Array  # int32[edges]


@kernel
def _new_edges(room: int) -> Edges:
    return Edges(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32))


@kernel
def _some(old: Edges, used: int, room: int) -> Edges:
    """As many of them as are used, with room for more."""
    new = _new_edges(room)
    new.point[:used], new.core[:used], new.window[:used] = (
        old.point[:used],
        old.core[:used],
        old.window[:used],
    )
    return new


@leaf
def _note(edges: Edges, used: int, point: int, core: int, word: int, bits: int) -> int:
    """The point is an edge of the core's cluster in the windows `bits`; returns how many edges there are."""
    while bits:
        edges.point[used], edges.core[used], edges.window[used] = point, core, word * BITS + lowest(bits)
        bits &= bits - 1
        used += 1
    return used


@leaf
def _nearest_of_tied(
    near: Array, points: Array, masks: Array, point: int, low: int, high: int, word: int, wanted: int,
    nearest: Array, distance: Array,
) -> int:  # fmt: skip
    """Of neighbours low..high, which are of the same rank, the nearest core in each window, the earliest of
    equals: nearest[bit] for the windows of `wanted` that are returned.
    """
    found = 0
    for place in range(low, high):
        other = near[place]
        bits = wanted & masks[other, word]
        if bits:
            away = distance_of(points, point, other)
        while bits:
            bit = lowest(bits)
            bits &= bits - 1
            if (
                not found >> bit & 1
                or away < distance[bit]
                or (away == distance[bit] and other < nearest[bit])
            ):
                found |= 1 << bit
                nearest[bit], distance[bit] = other, away
    return found


@leaf
def _edges_of_word(
    near: Array, far: Array, point: int, word: int, wanted: int, points: Array, masks: Array, due: Due,
    nearest: Array, distance: Array, edges: Edges, used: int,
) -> int:  # fmt: skip
    """The edges of a point in the windows `wanted` of a word; returns how many edges there are.

    far: ranks of neighbours, then one that no window has
    """
    reach, words = due.reach, masks.shape[1]
    place = 0
    while True:
        rank, low = far[place], place
        within = wanted & reach[np.uint64(rank * words + word)]
        if not within:
            return used
        place += 1
        if far[place] != rank:
            found = within & masks[np.uint64(near[low]), np.uint64(word)]
            if found:
                used = _note(edges, used, point, near[low], word, found)
        else:
            while far[place] == rank:
                place += 1
            found = _nearest_of_tied(near, points, masks, point, low, place, word, within, nearest, distance)
            bits = found
            while bits:
                bit = lowest(bits)
                bits &= bits - 1
                used = _note(edges, used, point, nearest[bit], word, 1 << bit)
        wanted &= ~found


@leaf
def _edges_from(
    point: int, lists: Lists, points: Array, masks: Array, due: Due, stop: int, near: Array, far: Array,
    nearest: Array, distance: Array, edges: Edges, counted: Array,
) -> int:  # fmt: skip
    """The edges of points from this one on, as far as there is room; returns the next point.

    counted: int64[1], how many edges there are
    """
    starts, words, begun = due.starts, masks.shape[1], 0
    beyond = len(due.reach) // words - 1
    while point < stop and counted[0] + len(due.rank) <= len(edges.point):
        while begun < len(starts) and starts[begun] <= point:
            begun += 1
        top = -1  # the largest rank of a window in which the point is not core
        for word in range(words):
            wanted = due.alive[begun * words + word] & ~masks[point, word]
            if wanted:
                top = due.rank[word * BITS + highest(wanted)]
        if top >= 0 and lists.bound[point]:
            far[in_order(lists, point, top, near, far)] = beyond
            for word in range(words):
                wanted = due.alive[begun * words + word] & ~masks[point, word]
                counted[0] = _edges_of_word(
                    near, far, point, word, wanted, points, masks, due, nearest, distance, edges, counted[0]
                )
        point += 1
    return point


@kernel
def edges_in(lists: Lists, points: Array, masks: Array, due: Due, stop: int) -> Edges:
    """All edges in all windows.

    The list of a point that is not core holds all its neighbours in the window, as they are fewer than
    `count`. masks: int64[points, words]
    """
    point = due.starts[0]
    longest = (lists.size[point:stop] + lists.new[point:stop]).max()
    near, far = np.empty(longest + 1, np.int32), np.empty(longest + 1, np.int32)
    nearest, distance = np.empty(BITS, np.int32), np.empty(BITS, np.float64)
    edges, counted = _new_edges(16 * stop + len(due.rank)), np.zeros(1, np.int64)
    while True:
        point = _edges_from(
            point, lists, points, masks, due, stop, near, far, nearest, distance, edges, counted
        )
        used = counted[0]
        if point == stop:
            return Edges(edges.point[:used], edges.core[:used], edges.window[:used])
        edges = _some(edges, used, 2 * used + len(due.rank))
