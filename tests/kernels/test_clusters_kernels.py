"""Core times, trees and roles against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from anabranch.kernels import coretimes, forest, neighbours, roles, searchgrid
from anabranch.kernels.warm import warm
from tests.oracles.dbscan import distances

COUNT = 160


def _points(seed: int, axes: int) -> np.ndarray:
    return np.round(np.random.default_rng(seed).random((COUNT, axes)) * 10) / 4


def _lists(points: np.ndarray, reach: float, count: int):
    lists, grid, side = (
        neighbours.new_lists(COUNT, 200),
        searchgrid.new_grid(COUNT),
        searchgrid.cell_side(reach),
    )
    asked = np.array([reach]), np.array([count], np.int32)
    assert neighbours.enter(points, 0, COUNT, 0, grid, side, 1, lists, *asked) == COUNT
    return lists, grid, side


def _core_times(points: np.ndarray, reach: float, count: int) -> np.ndarray:
    """The smaller of the own arrival and that of the count-th newest neighbour; NEVER if there is none."""
    near = distances(points) <= reach
    times = np.full(COUNT, coretimes.NEVER)
    for point in range(COUNT):
        newest = [other for other in np.flatnonzero(near[point])[::-1] if other != point]
        if count == 0 or len(newest) >= count:
            times[point] = min([point, *newest[count - 1 : count]]) if count else point
    return times


@pytest.mark.parametrize("count", [0, 1, 3, 9])
@pytest.mark.parametrize("reach", [0.0, 0.25, 0.8])
def test_core_times(reach: float, count: int) -> None:
    points = _points(count, 2)
    lists, _, _ = _lists(points, reach, count)
    expected = _core_times(points, reach, count)
    for start in (0, 50, 130):
        times = np.empty(COUNT, np.int32)
        coretimes.core_times(lists, reach, count, start, COUNT, times)
        true = np.where(expected >= start, expected, coretimes.NEVER)
        np.testing.assert_array_equal(times[start:], true[start:])
        coretimes.cores(lists, reach, count, start, COUNT, times)
        np.testing.assert_array_equal(times[start:] == start, true[start:] >= start)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("reach", [0.25, 0.3, 0.75])
def test_trees_are_the_connected_cores_of_each_start(axes: int, reach: float) -> None:
    points = _points(axes, axes)
    _, grid, side = _lists(points, reach, 2)
    times = _core_times(points, reach, 2).astype(np.int32)
    cells = forest.new_cells(COUNT, COUNT, axes)
    forest.into_cells(cells, points, 0, COUNT, forest.side_of(forest.level_of(reach, axes), axes))
    by_cell, by_point = forest.new_trees(int(cells.used[0]), COUNT), forest.new_trees(COUNT, COUNT)
    below = COUNT
    for start in (120, 60, 59, 0):
        forest.grow(by_cell, cells, points, times, start, below, COUNT, reach)
        forest.grow_points(by_point, grid, side, 1, points, times, start, below, COUNT, reach)
        below = start
        cores = [point for point in range(start, COUNT) if times[point] >= start]
        _, labels = connected_components(distances(points[cores]) <= reach)
        for leaders in (by_cell.leader[cells.cell_of[cores]], by_point.leader[cores]):
            pairs = set(zip(labels.tolist(), leaders.tolist(), strict=True))
            assert len(pairs) == len(set(labels.tolist())) == len(set(leaders.tolist()))


def test_a_cell_holds_only_neighbours_and_two_rings_hold_all() -> None:
    for axes in (1, 2, 3):
        for reach in np.geomspace(1e-9, 1e9, 200):
            side = forest.side_of(forest.level_of(float(reach), axes), axes)
            assert side * np.sqrt(axes) < reach < 2 * side


def test_members_come_by_cluster_and_arrival() -> None:
    clusters = np.array([2, 0, 1, 2, 1, 0, 3], np.int32)
    assert roles.by_cluster(clusters, 3).tolist() == [2, 4, 0, 3, 6]
    assert roles.by_cluster(np.zeros(3, np.int32), 0).tolist() == []


def test_a_cluster_in_a_few_numbers() -> None:
    points = np.array([[9.0, 9.0], [0.0, 1.0], [2.0, -1.0], [5.0, 5.0], [4.0, 0.0]])
    clusters, kinds = np.array([1, 1, 0, 1], np.int32), np.array([1, 2, 0, 1], np.uint8)
    cores, edges, centre, low, high = roles.summarise(points, 1, clusters, kinds, 1)
    assert (cores.tolist(), edges.tolist()) == ([2], [1])
    assert (centre.tolist(), low.tolist(), high.tolist()) == ([[2.0, 0.0]], [[0.0, -1.0]], [[4.0, 1.0]])


def test_warming_up_calls_kernels_as_the_stage_does() -> None:
    warm()
