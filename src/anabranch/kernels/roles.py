"""Who is what in one window: core or edge of which cluster, or noise; and clusters in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.bits import lowest
from anabranch.kernels.forest import Trees
from anabranch.kernels.jit import kernel
from anabranch.kernels.lists import Lists, near_in, rank_in
from anabranch.kernels.searchgrid import distance_of

Array = np.ndarray[Any, Any]

NOISE, CORE, EDGE = 0, 1, 2


@kernel
def _mark_edges(
    lists: Lists, points: Array, mask: Array, reach: Array, starts: Array, alive: Array, begins: Array,
    first: int, stop: int, clusters: Array,
) -> None:  # fmt: skip
    """clusters[w, place] becomes the nearest core for each edge point, the earliest of equals.

    The list of a point that is not core holds all its neighbours in the window, as they are fewer than
    `count`.
    """
    pool = lists.pool
    nearest, distance = np.empty(clusters.shape[0], np.int32), np.empty(clusters.shape[0], np.float64)
    begun = 0
    for point in range(first, stop):
        while begun < len(starts) and starts[begun] <= point:
            begun += 1
        wanted = alive[begun] & ~mask[point]
        if wanted == 0:
            continue
        at, size = lists.at[point], lists.size[point]
        end = at + size + lists.new[point]
        found = left = 0
        last = -1
        place = at - 1
        while place + 1 < end:
            place += 1
            rank = rank_in(pool[place])
            if place >= at + size:  # newcomers, in order of arrival
                left = wanted & reach[rank]
            elif rank > last:  # farther than all before, as are those that follow
                last = rank
                left = wanted & reach[rank] & ~found
                if left == 0:
                    place = at + size - 1
                    continue
            other = near_in(pool[place])
            windows = left & mask[other]
            if windows == 0:
                continue
            away = distance_of(points, point, other)
            while windows:
                window = lowest(windows)
                windows &= windows - 1
                if (
                    not found >> window & 1
                    or away < distance[window]
                    or (away == distance[window] and other < nearest[window])
                ):
                    found |= 1 << window
                    nearest[window], distance[window] = other, away
        while found:
            window = lowest(found)
            found &= found - 1
            clusters[window, point - begins[window]] = nearest[window]


@kernel
def roles_in(
    lists: Lists, points: Array, mask: Array, trees: Trees, reach: Array, starts: Array, alive: Array,
    begins: Array, stop: int, clusters: Array, roles: Array, counts: Array,
) -> None:  # fmt: skip
    """Who is what in the windows of one word: cluster 0 is noise, others count from 1 by earliest member.

    Window w begins at begins[w] (int32), its results are clusters[w, :stop - begins[w]] (int32) and the same
    of roles (uint8), and counts[w] is the number of its clusters. starts, alive: see cores.Due, of this word.
    reach: int64[ranks + 1].

    Noise is of a cell that is not there, whose number is 0: roles become arithmetic, where a processor could
    not guess the branches.
    """
    nobody = stop
    clusters[:] = nobody
    _mark_edges(lists, points, mask, reach, starts, alive, begins, begins.min(), stop, clusters)
    leader = trees.leader
    windows, cells = leader.shape
    cell_of = np.empty(stop + 1, np.int32)
    cell_of[:stop] = trees.cell_of
    cell_of[nobody] = cells
    tree_of, numbers = np.empty(cells + 1, np.int32), np.empty(cells + 1, np.int32)
    for window in range(windows):
        tree_of[:cells] = leader[window]
        tree_of[cells] = cells
        numbers[:] = -1
        numbers[cells] = 0
        begin, count = begins[window], 0
        mine, kinds = clusters[window], roles[window]
        for place in range(stop - begin):
            is_core = mask[begin + place] >> window & 1
            core = mine[place]
            core += is_core * (begin + place - core)
            tree = tree_of[cell_of[core]]
            number = numbers[tree]
            if number < 0:
                count += 1
                number = numbers[tree] = count
            mine[place] = number
            kinds[place] = is_core * CORE + (1 - is_core) * (number > 0) * EDGE
        counts[window] = count


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
