"""The structure against the matrix of all distances, on enough points to move and widen its arrays."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.families.clusters.structure import ClusterStructure
from tests.oracles.dbscan import dbscan

PATTERNS = [(0.02, 3), (0.05, 1), (0.05, 8), (0.1, 40), (0.25, 12), (0.0, 2)]


def _walk(axes: int, count: int, seed: int) -> np.ndarray:
    """Targets that wander around a few centres, some noise, and duplicates of earlier points."""
    rng = np.random.default_rng(seed)
    centres = rng.random((6, axes))
    points = centres[rng.integers(0, 6, count)] + rng.normal(0, 0.03, (count, axes))
    points += np.linspace(0, 0.5, count)[:, None]
    noise = rng.random(count) < 0.2
    points[noise] = rng.random((int(noise.sum()), axes)) * 1.5
    for index in np.flatnonzero(rng.random(count) < 0.1)[1:]:
        points[index] = points[rng.integers(max(0, index - 200), index)]
    return points


def _check(
    structure: ClusterStructure, points: np.ndarray, pattern: tuple[float, int], starts: list[int]
) -> None:
    ranges, counts = np.full(len(starts), pattern[0]), np.full(len(starts), pattern[1])
    for start, found in zip(starts, structure.clusters(ranges, counts, np.array(starts)), strict=True):
        clusters, roles = dbscan(points[start : structure.stop], *pattern)
        np.testing.assert_array_equal(found.clusters, clusters)
        np.testing.assert_array_equal(found.roles, roles)
        assert found.count == clusters.max(initial=0)


@pytest.mark.parametrize("axes", [1, 2, 3, 5])
def test_windows_that_slide(axes: int) -> None:
    points, size, slide = _walk(axes, 2400, axes), 500, 230
    structure = ClusterStructure(axes)
    structure.set_patterns(PATTERNS)
    for end in range(slide, len(points) + 1, slide):
        structure.add(points[end - slide : end])
        start = max(0, end - size)
        structure.drop_before(start)
        pattern = PATTERNS[(end // slide) % len(PATTERNS)]
        _check(structure, points, pattern, [start])
        _check(
            structure, points, PATTERNS[(end // slide + 1) % len(PATTERNS)], [start, start + 100, end - 50]
        )


def test_memory_stays_as_large_as_the_window() -> None:
    points = _walk(2, 20_000, 7)
    structure = ClusterStructure(2)
    structure.set_patterns([(0.1, 10)])
    for end in range(200, len(points) + 1, 200):
        structure.add(points[end - 200 : end])
        structure.drop_before(end - 500)
    assert len(structure.points) <= 4 * (500 + 200)
    assert structure.nbytes < 500 * 300


@pytest.mark.parametrize("scale", [1e-160, 1e-9, 1e9, 1e13, 1e15, 1e300])
def test_coordinates_far_from_zero_for_their_range(scale: float) -> None:
    """Cells by number lose their exactness where coordinates are 10^12 ranges from zero; clusters do not."""
    rng = np.random.default_rng(3)
    points = np.round(rng.random((300, 2)) * 20) * scale
    structure = ClusterStructure(2)
    patterns = [(scale, 3), (scale * 1.5, 2)] if scale < 1e10 else [(1.0, 1), (scale, 3), (scale * 1e-3, 2)]
    structure.set_patterns(patterns)
    structure.add(points)
    for pattern in patterns:
        _check(structure, points, pattern, [0, 120])


def test_a_point_at_infinity_has_no_neighbours() -> None:
    points = np.array([[np.inf, 0.0], [np.inf, 0.0], [0.0, 0.0], [0.5, 0.0], [-np.inf, np.inf]])
    structure = ClusterStructure(2)
    structure.set_patterns([(1.0, 1)])
    structure.add(points)
    (found,) = structure.clusters(np.array([1.0]), np.array([1]), np.array([0]))
    assert found.clusters.tolist() == [0, 0, 1, 1, 0]


def test_a_query_with_a_larger_range_comes_later() -> None:
    """It gets all neighbours of the points after its activation; the earlier query stays exact."""
    points = _walk(2, 900, 11)
    structure = ClusterStructure(2)
    structure.set_patterns([(0.03, 4)])
    structure.add(points[:400])
    structure.set_patterns([(0.03, 4), (0.2, 30)])
    structure.add(points[400:900])
    _check(structure, points, (0.03, 4), [0, 300, 700])
    _check(structure, points, (0.2, 30), [400, 650])
    structure.set_patterns([(0.02, 3)])  # and the larger ones go again
    _check(structure, points, (0.02, 3), [900 - 1])


def test_equal_distances_go_to_the_earlier_core() -> None:
    """The point in the middle is as near to a core on the left as to one on the right."""
    left, right, middle = [[-1.0], [-1.5], [-1.2]], [[1.0], [1.5], [1.2]], [[0.0]]
    for order in (left + right + middle, right + middle + left, middle + right + left):
        points = np.array(order)
        structure = ClusterStructure(1)
        structure.set_patterns([(1.0, 3)])
        structure.add(points)
        _check(structure, points, (1.0, 3), [0])


def test_many_windows_at_once_whatever_their_order() -> None:
    """More than a word of them, of several levels, some of them twice."""
    points, rng = _walk(2, 700, 5), np.random.default_rng(5)
    structure = ClusterStructure(2)
    ranges, counts = np.round(np.geomspace(0.01, 0.2, 40), 4), [0, 1, 4, 9, 40]
    structure.set_patterns((float(reach), count) for reach in ranges for count in counts)
    structure.add(points)
    parameters = rng.choice(ranges, 150), rng.choice(counts, 150), rng.choice([0, 130, 131, 640], 150)
    parameters = tuple(np.concatenate([each, each[:20]]) for each in parameters)
    found = structure.clusters(*parameters)
    assert len(found) == 170
    for reach, count, start, each in zip(*parameters, found, strict=True):
        clusters, roles = dbscan(points[start:], float(reach), int(count))
        np.testing.assert_array_equal(each.clusters, clusters)
        np.testing.assert_array_equal(each.roles, roles)
        assert (each.start, each.count) == (start, clusters.max(initial=0))
