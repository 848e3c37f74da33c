"""Who is what in one window: core or edge of which cluster, or noise; and clusters in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.neighbours import Lists

Array = np.ndarray[Any, Any]

NOISE, CORE, EDGE = 0, 1, 2


@kernel
def _nearest_core(lists: Lists, point: int, times: Array, reach: float, start: int) -> int:
    """The nearest core among a point's neighbours in the window, the earliest of equals; -1 if none.

    Lists are in that order; newcomers in the box are younger than all of the list, and in order of arrival.
    """
    nearest = -1
    distance = np.inf
    for entry in range(lists.size[point]):
        other = lists.near[point, entry]
        if lists.distance[point, entry] > reach:
            break
        if other >= start and times[other] >= start:
            nearest = other
            distance = lists.distance[point, entry]
            break
    for entry in range(lists.new_size[point]):
        other = lists.new_near[point, entry]
        if lists.new_distance[point, entry] <= reach and times[other] >= start:
            if lists.new_distance[point, entry] < distance:
                nearest = other
                distance = lists.new_distance[point, entry]
    return nearest


@kernel
def roles_in(
    lists: Lists, times: Array, cell_of: Array, leader: Array, reach: float, start: int, stop: int,
    clusters: Array, roles: Array,
) -> int:  # fmt: skip
    """Fills clusters (int32[points], 0 for noise) and roles (uint8[points]); returns how many clusters.

    Clusters are numbered from 1 by their earliest member; the leader of a cell stands for its cluster. The
    list of a point that is not core holds all its neighbours in the window, as they are fewer than `count`.
    """
    numbers = np.zeros(len(leader), np.int32)
    count = 0
    for point in range(start, stop):
        place = point - start
        roles[place] = CORE
        core = point
        if times[point] < start:
            roles[place] = EDGE
            core = _nearest_core(lists, point, times, reach, start)
        if core < 0:
            roles[place] = NOISE
            clusters[place] = 0
            continue
        tree = leader[cell_of[core]]
        if numbers[tree] == 0:
            count += 1
            numbers[tree] = count
        clusters[place] = numbers[tree]
    return count


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
