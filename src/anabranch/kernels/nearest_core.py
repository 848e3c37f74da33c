"""Whose edge a point is: what is not core belongs to the cluster of its nearest core, if one is in range.

Cores and trees are known (cores, forest). A point's list is by rank, so the first core in it is the nearest,
unless others have the same rank; then distances are measured, and of equally near ones it is the earliest.
Eight words of windows go along the list at once (`wide`) until all have found a core or the rest is out of
their ranges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import highest, lowest
from anabranch.kernels.cores import BITS, Due
from anabranch.kernels.jit import kernel, leaf, twig
from anabranch.kernels.lists import Lists, in_order, near_in, prefetch_list, rank_in
from anabranch.kernels.searchgrid import distance_of
from anabranch.kernels.wide import WORDS, Wide, filled, load, store

Array = np.ndarray[Any, Any]


class Edges(NamedTuple):
    """Points that are edges, window by window, in each by arrival."""

    pairs: Array  # int64[room]: a point, and the core whose cluster it belongs to, 32 bits each
    begin: Array  # int64[windows]: where those of each window begin
    end: Array  # int64[windows]


def room_for(due: Due, stop: int, pairs: Array) -> Edges:
    """Room for as many edges as windows have points, in `pairs` if these are enough."""
    sizes = stop - due.starts[due.group].astype(np.int64)
    after = np.cumsum(sizes)
    if len(pairs) < after[-1]:
        pairs = np.empty(after[-1], np.int64)
    return Edges(pairs, after - sizes, after - sizes)


def one_by_one(edges: Edges) -> tuple[Array, Array, Array]:
    """(points, cores, windows) of all edges: int32[edges] each."""
    counts = edges.end - edges.begin
    shift = edges.begin - (np.cumsum(counts) - counts)
    pairs = edges.pairs[np.arange(counts.sum()) + np.repeat(shift, counts)]
    point, core = (pairs >> 32).astype(np.int32), pairs.astype(np.int32)
    return point, core, np.repeat(np.arange(len(counts), dtype=np.int32), counts)


@leaf
def pair_of(point: int, core: int) -> int:
    return point * (1 << 32) | core


@leaf
def point_in(pair: int) -> int:
    return pair >> 32


@leaf
def core_in(pair: int) -> int:
    return pair & 0xFFFFFFFF


@leaf
def _note(edges: Edges, point: int, cores: Array, found_in: Array, count: int, at: int) -> None:
    """The point is an edge of the clusters of `count` cores, of each in the windows of a row of found_in,
    which are those of the words from `at` on.
    """
    pairs, end = edges.pairs, edges.end
    for each in range(count):
        pair = pair_of(point, cores[each])
        some = filled(load(found_in, each * WORDS))
        while some:
            word = lowest(some)
            some &= some - 1
            bits, low = found_in[np.uint64(each * WORDS + word)], (at + word) * BITS
            while bits:
                window = np.uint64(low + lowest(bits))
                bits &= bits - 1
                edge = end[window]
                pairs[np.uint64(edge)] = pair
                end[window] = edge + 1


@leaf
def _by_distance(
    entries: Array, low: int, high: int, room: int, point: int, points: Array, masks: Array, words: int,
    at: int, within: Wide, away: Array,
) -> int:  # fmt: skip
    """Copies those of entries[low:high] that are core in a window of `within` to entries[room:], the nearest
    first, the earliest of equally near ones; returns where they end. away: float64, of no meaning
    """
    end = room
    for spot in range(low, high):
        entry = entries[spot]
        if not filled(within & load(masks, near_in(entry) * words + at)):
            continue
        distance, place = distance_of(points, point, near_in(entry)), end
        while place > room and (
            away[place - 1] > distance or (away[place - 1] == distance and entries[place - 1] < entry)
        ):
            entries[place], away[place] = entries[place - 1], away[place - 1]
            place -= 1
        entries[place], away[place] = entry, distance
        end += 1
    return end


@twig
def _nearest_of_tied(
    entries: Array, low: int, high: int, room: int, point: int, at: int, rest: Array, points: Array,
    masks: Array, words: int, reach: Array, away: Array, cores: Array, found_in: Array, count: int,
) -> int:  # fmt: skip
    """The same for neighbours low..high, which are of one rank. rest: int64[WORDS], the windows that have no
    core yet, before and after; returns how many cores there are then.
    """
    wanted = load(rest, 0)
    within = wanted & load(reach, rank_in(entries[low]) * words + at)
    end = _by_distance(entries, low, high, room, point, points, masks, words, at, within, away)
    for spot in range(room, end):
        near = near_in(entries[spot])
        found = within & load(masks, near * words + at)
        store(found_in, count * WORDS, found)
        cores[count] = near
        count += filled(found) != 0
        within = within & ~found
        wanted = wanted & ~found
    store(rest, 0, wanted)
    return count


@leaf
def _nearest_cores(
    entries: Array, size: int, point: int, at: int, wanted: Wide, points: Array, masks: Array,
    words: int, reach: Array, away: Array, cores: Array, found_in: Array, rest: Array,
) -> int:  # fmt: skip
    """Who is the nearest core in the windows `wanted` of the words from `at` on: cores, and for each of them
    a row of words in found_in. Returns how many cores; one more of each array is overwritten.

    entries: the list of the point, `size` entries and LAST; there is as much room again. Whether a neighbour
    is anybody's nearest core cannot be foretold: all are written down, most overwritten by the next.
    """
    place = count = 0
    while place < size:
        entry, low = entries[np.uint64(place)], place
        rank = rank_in(entry)
        within = wanted & load(reach, rank * words + at)
        if not filled(within):
            break
        place += 1
        if rank_in(entries[np.uint64(place)]) != rank:
            near = near_in(entry)
            found = within & load(masks, near * words + at)
            store(found_in, count * WORDS, found)
            cores[np.uint64(count)] = near
            count += filled(found) != 0
            wanted = wanted & ~found
        else:
            while rank_in(entries[np.uint64(place)]) == rank:
                place += 1
            store(rest, 0, wanted)
            count = _nearest_of_tied(
                entries, low, place, size + 1, point, at, rest, points, masks, words, reach, away, cores,
                found_in, count,
            )  # fmt: skip
            wanted = load(rest, 0)
    return count


@leaf
def _edges_in(
    lists: Lists, points: Array, masks: Array, due: Due, stop: int, entries: Array, away: Array,
    cores: Array, found_in: Array, rest: Array, edges: Edges,
) -> None:  # fmt: skip
    """masks: int64[points * words]"""
    starts, words, begun = due.starts, due.counters.shape[1], 0
    alive, reach = due.alive, due.reach
    for point in range(starts[0], stop):
        prefetch_list(lists, point + 4)
        while begun < len(starts) and starts[begun] <= point:
            begun += 1
        top = -1  # the largest rank of a window in which the point is not core
        for at in range(0, words, WORDS):
            wanted = load(alive, begun * words + at) & ~load(masks, point * words + at)
            some = filled(wanted)
            if some:
                store(found_in, 0, wanted)
                word = highest(some)
                top = due.rank[(at + word) * BITS + highest(found_in[word])]
        if top < 0 or not lists.bound[point]:
            continue
        size = in_order(lists, point, top, entries)
        for at in range(0, words, WORDS):
            wanted = load(alive, begun * words + at) & ~load(masks, point * words + at)
            count = _nearest_cores(
                entries, size, point, at, wanted, points, masks, words, reach, away, cores, found_in, rest
            )
            _note(edges, point, cores, found_in, count, at)


@kernel
def edges_in(lists: Lists, points: Array, masks: Array, due: Due, stop: int, edges: Edges) -> None:
    """All edges in all windows, into `edges`, which has none yet.

    The list of a point that is not core holds all its neighbours in the window, as they are fewer than
    `count`. masks: int64[points, words]
    """
    start = due.starts[0]
    longest = (lists.size[start:stop] + lists.new[start:stop]).max()
    entries, away = np.empty(2 * longest + WORDS, np.int64), np.empty(2 * longest + 1, np.float64)
    cores, found_in = np.empty(longest + 1, np.int32), np.empty((longest + 1) * WORDS, np.int64)
    flat, rest = masks.reshape(-1), np.empty(WORDS, np.int64)
    _edges_in(lists, points, flat, due, stop, entries, away, cores, found_in, rest, edges)
