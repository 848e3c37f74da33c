"""Who is what in which window: core or edge of which cluster, or noise; and clusters in a few numbers.

Cores, trees and edges are known (cores, forest, nearest_core). Clusters get their numbers, by their earliest
members, and all members theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import lowest
from anabranch.kernels.cores import BITS, Due
from anabranch.kernels.forest import NOBODY
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.nearest_core import Edges, core_in, point_in
from anabranch.kernels.wide import CHOICES, choose

Array = np.ndarray[Any, Any]

NOISE, CORE, EDGE = 0, 1, 2


class Woods(NamedTuple):
    """The trees of all windows (forest.Trees), one after the other."""

    part: Array  # int32[windows]: which of the cell_of
    cell_of: Array  # int32[parts, points]
    at: Array  # int64[windows + 1]: where those of a window begin
    leader: Array  # int32[windows, cells], flat
    first: Array  # int32[windows, cells], flat: the earliest core of each tree


@leaf
def _number(first: Array, low: int, high: int, begin: int, bitmap: Array, holder: Array) -> int:
    """Makes first[low:high] numbers from 1 in the order of what they were; returns how many.

    bitmap: int64, all 0, with 32 bits a word, one for each point of the window. holder: int32[points]
    """
    for tree in range(low, high):
        if first[tree] != NOBODY:
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
    """Writes clusters and roles of one window, as far as cores go."""
    shift = at - begin
    if stop - begin < CHOICES:
        for point in range(begin, stop):
            roles[shift + point] = mask[point] >> bit & CORE
            clusters[shift + point] = of_cell[cell_of[point]] * roles[shift + point]
        return
    for point in range(begin, stop - CHOICES, CHOICES):
        choose(mask, point, bit, cell_of, of_cell, clusters, roles, shift + point)
    point = stop - CHOICES  # the last ones; some may be written twice
    choose(mask, point, bit, cell_of, of_cell, clusters, roles, shift + point)


@leaf
def _role_of_all(
    window: int, mask: Array, bit: int, cell_of: Array, woods: Woods, edges: Edges, due: Due, stop: int,
    bitmap: Array, holder: Array, of_cell: Array, at: int, clusters: Array, roles: Array,
) -> int:  # fmt: skip
    """Clusters and roles in one window; returns how many clusters it has."""
    first, leader, pairs = woods.first, woods.leader, edges.pairs
    low, high, begin = woods.at[window], woods.at[window + 1], due.starts[due.group[window]]
    for edge in range(np.uint64(edges.begin[window]), np.uint64(edges.end[window])):
        cell = np.uint64(low + cell_of[np.uint64(core_in(pairs[edge]))])
        tree = np.uint64(low + leader[cell])
        first[tree] = min(first[tree], point_in(pairs[edge]))
    count = _number(first, low, high, begin, bitmap, holder)
    for place in range(high - low):
        of_cell[place] = first[low + leader[low + place]]
    _label(mask, bit, cell_of, of_cell, begin, stop, at, clusters, roles)
    for edge in range(np.uint64(edges.begin[window]), np.uint64(edges.end[window])):
        member = np.uint64(at - begin + point_in(pairs[edge]))
        clusters[member] = of_cell[np.uint64(cell_of[np.uint64(core_in(pairs[edge]))])]
        roles[member] = EDGE
    return count


@kernel
def roles_in(
    masks: Array, woods: Woods, edges: Edges, due: Due, stop: int, at: Array, clusters: Array, roles: Array,
    counts: Array,
) -> None:  # fmt: skip
    """Who is what in all windows: cluster 0 is noise, others count from 1 by earliest member.

    The results of window w begin at at[w] of clusters (int32) and roles (uint8), and counts[w] is the number
    of its clusters. woods.first becomes the numbers of clusters.
    """
    longest, windows = stop - due.starts[0], len(due.rank)
    bitmap, holder = np.zeros((longest >> 5) + 1, np.int64), np.empty(longest, np.int32)
    of_cell = np.zeros(len(woods.leader) + 1, np.int32)
    mask = masks[:, 0].copy()
    for window in range(windows):
        if window and window % BITS == 0:
            mask = masks[:, window // BITS].copy()
        cell_of = woods.cell_of[woods.part[window]]
        counts[window] = _role_of_all(
            window, mask, window % BITS, cell_of, woods, edges, due, stop, bitmap, holder, of_cell,
            at[window], clusters, roles,
        )  # fmt: skip


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
