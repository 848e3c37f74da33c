"""Density-based clusters of one set of points with numpy and scipy: the whole matrix of distances at once."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components

from anabranch.model.arrays import Array


def distances(points: Array) -> Array:
    """Summed in the order of the coordinates, as everywhere here."""
    total = np.zeros((len(points), len(points)))
    with np.errstate(over="ignore"):  # farther than any range
        for axis in points.T:
            total += (axis[:, None] - axis[None, :]) ** 2
    return np.sqrt(total)


def dbscan(points: Array, reach: float, count: int) -> tuple[Array, Array]:
    """(cluster, role) of each point. Clusters count from 1 by earliest member; 1 core, 2 edge, 0 noise."""
    return clusters_from(distances(points), reach, count)


def clusters_from(far: Array, reach: float, count: int) -> tuple[Array, Array]:
    """The same from the distances of all pairs."""
    near = far <= reach
    np.fill_diagonal(near, False)
    core = near.sum(axis=1) >= count
    _, component = connected_components(near & core[:, None] & core[None, :])
    clusters, roles = np.zeros(len(far), np.int64), np.where(core, 1, 0)
    numbers: dict[int, int] = {}
    for point in range(len(far)):
        owner = point
        if not core[point]:
            candidates = np.flatnonzero(near[point] & core)
            if not len(candidates):
                continue
            owner = candidates[np.argmin(far[point, candidates])]  # the first of the least: the earliest
            roles[point] = 2
        clusters[point] = numbers.setdefault(int(component[owner]), len(numbers) + 1)
    return clusters, roles
