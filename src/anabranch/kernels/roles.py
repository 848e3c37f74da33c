"""Who is what in which window: core or edge of which cluster, or noise; and clusters in a few numbers.

Cores and trees are known (cores, forest). What is not core is an edge of the cluster of its nearest core, for
all windows at once; then clusters get their numbers, by their earliest members, and all members theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import lowest
from anabranch.kernels.cores import BITS, Due
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.lists import Ordered
from anabranch.kernels.searchgrid import distance_of

Array = np.ndarray[Any, Any]

NOISE, CORE, EDGE = 0, 1, 2
_NOBODY = (1 << 31) - 1


class Edges(NamedTuple):
    """A core is the nearest one to a point in some windows of a word. By point."""

    point: Array  # int32[edges]
    core: Array  # int32[edges]
    word: Array  # int32[edges]
    windows: Array  # int64[edges]: bits


class Woods(NamedTuple):
    """The trees of all words (forest.Trees), one after the other."""

    cell_of: Array  # int32[words, points]
    before: Array  # int64[words + 1]: how many cells there are in the words before
    leader: Array  # int32[windows, cells of their word], flat
    at: Array  # int64[windows]: where those of a window begin


@kernel
def _new_edges(room: int) -> Edges:
    return Edges(
        np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64)
    )


@kernel
def _wider(old: Edges, used: int, room: int) -> Edges:
    new = _new_edges(room)
    new.point[:used], new.core[:used], new.word[:used] = old.point[:used], old.core[:used], old.word[:used]
    new.windows[:used] = old.windows[:used]
    return new


@leaf
def _note(edges: Edges, used: int, point: int, core: int, windows: Array) -> int:
    """Writes the words of `windows` that are not 0; returns how many edges there are."""
    for word in range(len(windows)):
        edges.point[used], edges.core[used], edges.word[used] = point, core, word
        edges.windows[used] = windows[word]
        used += windows[word] != 0
    return used


@leaf
def _nearest_of_tied(
    near: Array, points: Array, masks: Array, point: int, low: int, high: int, wanted: Array, found: Array,
    nearest: Array, distance: Array,
) -> None:  # fmt: skip
    """Of neighbours low..high, which are of the same rank, the nearest core in each window, the earliest of
    equals: nearest[word, bit] for the windows found[word], which are wanted[word].
    """
    found[:] = 0
    for place in range(low, high):
        other = near[place]
        away = distance_of(points, point, other)
        for word in range(len(wanted)):
            bits = wanted[word] & masks[other, word]
            while bits:
                bit = lowest(bits)
                bits &= bits - 1
                if (
                    not found[word] >> bit & 1
                    or away < distance[word, bit]
                    or (away == distance[word, bit] and other < nearest[word, bit])
                ):
                    found[word] |= 1 << bit
                    nearest[word, bit], distance[word, bit] = other, away


@kernel
def edges_in(lists: Ordered, points: Array, masks: Array, due: Due, stop: int) -> Edges:
    """The nearest core of every edge in every window; of equally near ones the earliest.

    The list of a point that is not core holds all its neighbours in the window, as they are fewer than
    `count`. It is by rank: the first core is the nearest, unless others have the same rank.
    masks: int64[points, words]
    """
    near, ranks, reach, starts = lists.near, lists.rank, due.reach, due.starts
    words = masks.shape[1]
    wanted, hits, tied = np.empty(words, np.int64), np.empty(words, np.int64), np.empty(words, np.int64)
    nearest, distance = np.empty((words, BITS), np.int32), np.empty((words, BITS), np.float64)
    edges, used, begun = _new_edges(8 * stop), 0, 0
    for point in range(starts[0], stop):
        while begun < len(starts) and starts[begun] <= point:
            begun += 1
        more = 0
        for word in range(words):
            wanted[word] = due.alive[begun, word] & ~masks[point, word]
            more |= wanted[word]
        place, end = lists.at[point], lists.at[point + 1] if more else lists.at[point]
        most = used + (end - place + len(due.rank) + 1) * (words + 1)
        if most > len(edges.point):
            edges = _wider(edges, used, 2 * most)
        while place < end:
            rank, other = ranks[place], near[place]
            place += 1
            if place == end or ranks[place] != rank:
                hit = 0
                for word in range(words):
                    hits[word] = wanted[word] & reach[rank, word] & masks[other, word]
                    wanted[word] &= ~hits[word]
                    hit |= hits[word]
                if hit:
                    used = _note(edges, used, point, other, hits)
                continue
            low = place - 1
            while place < end and ranks[place] == rank:
                place += 1
            for word in range(words):
                hits[word] = wanted[word] & reach[rank, word]
            _nearest_of_tied(near, points, masks, point, low, place, hits, tied, nearest, distance)
            for word in range(words):
                wanted[word] &= ~tied[word]
                while tied[word]:
                    bit = lowest(tied[word])
                    tied[word] &= tied[word] - 1
                    edges.point[used], edges.core[used] = point, nearest[word, bit]
                    edges.word[used], edges.windows[used] = word, 1 << bit
                    used += 1
    return Edges(edges.point[:used], edges.core[:used], edges.word[:used], edges.windows[:used])


@leaf
def _be_first(
    first: Array, seen: Array, woods: Woods, due: Due, point: int, core: int, word: int, bits: int
) -> None:
    """Notes a member of the tree of `core` in the windows `bits`, unless the core's cell had earlier ones."""
    cell = woods.cell_of[word, core]
    bits &= ~seen[woods.before[word] + cell]
    seen[woods.before[word] + cell] |= bits
    while bits:
        low = woods.at[due.after[word] + lowest(bits)]
        bits &= bits - 1
        tree = low + woods.leader[low + cell]
        first[tree] = min(first[tree], point)


@kernel
def _first_members(masks: Array, woods: Woods, edges: Edges, due: Due, stop: int) -> Array:
    """The earliest member of each tree of each window: int32, as woods.leader; _NOBODY if there is none."""
    first, seen = np.full(len(woods.leader), _NOBODY, np.int32), np.zeros(woods.before[-1], np.int64)
    edge = 0
    for point in range(due.starts[0], stop):
        for word in range(masks.shape[1]):
            if masks[point, word]:
                _be_first(first, seen, woods, due, point, point, word, masks[point, word])
        while edge < len(edges.point) and edges.point[edge] == point:
            _be_first(first, seen, woods, due, point, edges.core[edge], edges.word[edge], edges.windows[edge])
            edge += 1
    return first


@leaf
def _number(first: Array, low: int, high: int, begin: int, bitmap: Array, holder: Array) -> int:
    """Makes first[low:high] numbers from 1 in the order of what they were; returns how many.

    bitmap: int64, all 0, with 32 bits a word, one for each point of the window. holder: int32[points]
    """
    for tree in range(low, high):
        if first[tree] != _NOBODY:
            place = first[tree] - begin
            bitmap[place >> 5] |= 1 << (place & 31)
            holder[place] = tree
    count = 0
    for word in range(len(bitmap)):
        bits = bitmap[word]
        bitmap[word] = 0
        while bits:
            place = (word << 5) + lowest(bits)
            bits &= bits - 1
            count += 1
            first[holder[place]] = count
    return count


@leaf
def _label(
    mask: Array, bit: int, cell_of: Array, of_cell: Array, begin: int, stop: int, at: int, clusters: Array,
    roles: Array,
) -> None:  # fmt: skip
    """Writes clusters and roles of one window, as far as cores go. Places are unsigned, and each loop has one
    width of numbers, so that a processor can take many at once.
    """
    first, to, size = np.uint64(begin), np.uint64(at), np.uint64(stop - begin)
    for place in range(size):
        roles[to + place] = np.uint8(mask[first + place] >> bit & CORE)
    for place in range(size):
        clusters[to + place] = of_cell[np.uint32(cell_of[first + place])] * np.int32(roles[to + place])


@kernel
def roles_in(
    masks: Array, woods: Woods, edges: Edges, due: Due, stop: int, at: Array, clusters: Array, roles: Array,
    counts: Array,
) -> None:  # fmt: skip
    """Who is what in all windows: cluster 0 is noise, others count from 1 by earliest member.

    The results of window w begin at at[w] of clusters (int32) and roles (uint8), and counts[w] is the number
    of its clusters.
    """
    numbers = _first_members(masks, woods, edges, due, stop)
    longest = stop - due.starts[0]
    bitmap, holder = np.zeros((longest >> 5) + 1, np.int64), np.empty(longest, np.int32)
    of_cell = np.zeros(woods.before[-1] + 1, np.int32)
    for word in range(masks.shape[1]):
        cell_of, mask = woods.cell_of[word], masks[:, word].copy()
        cells = woods.before[word + 1] - woods.before[word]
        for window in range(due.after[word], due.after[word + 1]):
            low, begin = woods.at[window], due.starts[due.group[window]]
            counts[window] = _number(numbers, low, low + cells, begin, bitmap, holder)
            for cell in range(cells):
                of_cell[cell] = numbers[low + woods.leader[low + cell]]
            bit = window - due.after[word]
            _label(mask, bit, cell_of, of_cell, begin, stop, at[window], clusters, roles)
    for edge in range(len(edges.point)):
        point, word, bits = edges.point[edge], edges.word[edge], edges.windows[edge]
        cell = woods.cell_of[word, edges.core[edge]]
        while bits:
            window = due.after[word] + lowest(bits)
            bits &= bits - 1
            low, place = woods.at[window], at[window] + point - due.starts[due.group[window]]
            clusters[place] = numbers[low + woods.leader[low + cell]]
            roles[place] = EDGE


@kernel
def by_cluster(clusters: Array, count: int) -> Array:
    """The places of all members, cluster by cluster, in order of arrival: int64[members] (counting sort)."""
    ends = np.zeros(count + 2, np.int64)
    for cluster in clusters:
        if cluster:
            ends[cluster + 1] += 1
    for cluster in range(1, count + 2):
        ends[cluster] += ends[cluster - 1]
    places = np.empty(ends[count + 1], np.int64)
    for place in range(len(clusters)):
        cluster = clusters[place]
        if cluster:
            places[ends[cluster]] = place
            ends[cluster] += 1
    return places


@kernel
def summarise(
    points: Array, start: int, clusters: Array, roles: Array, count: int
) -> tuple[Array, Array, Array, Array, Array]:
    """(cores, edges, centre, low, high) of each cluster: int64[count] twice, then float64[count, axes].

    The centre is the mean of all members, summed in order of arrival.
    """
    axes = points.shape[1]
    cores, edges = np.zeros(count, np.int64), np.zeros(count, np.int64)
    centre = np.zeros((count, axes), np.float64)
    low, high = np.full((count, axes), np.inf), np.full((count, axes), -np.inf)
    for place in range(len(clusters)):
        cluster = clusters[place] - 1
        if cluster < 0:
            continue
        if roles[place] == CORE:
            cores[cluster] += 1
        else:
            edges[cluster] += 1
        for axis in range(axes):
            value = points[start + place, axis]
            centre[cluster, axis] += value
            low[cluster, axis] = min(low[cluster, axis], value)
            high[cluster, axis] = max(high[cluster, axis], value)
    for cluster in range(count):
        for axis in range(axes):
            centre[cluster, axis] /= cores[cluster] + edges[cluster]
    return cores, edges, centre, low, high
