"""Core masks and trees against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from anabranch.families.clusters.kernels import neighbour_lists, point_roles, window_forest
from anabranch.numeric.wide import WORDS
from tests.oracles.dbscan import distances

COUNT = 160


def _points(seed: int, axes: int) -> np.ndarray:
    return np.round(np.random.default_rng(seed).random((COUNT, axes)) * 10) / 4


def _cores(near: np.ndarray, count: int, start: int) -> np.ndarray:
    """Which points are core in the window that begins at `start`."""
    inside = np.arange(COUNT) >= start
    return inside & ((near & inside).sum(axis=1) - near.diagonal() >= count)


@pytest.mark.parametrize(("seed", "most"), [(0, 12), (1, 3), (2, 40)])
def test_core_masks(seed: int, most: int) -> None:
    """Windows of many starts, counts and ranges at once, spread over words."""
    rng = np.random.default_rng(seed)
    points, reaches = _points(seed, 2), [0.0, 0.25, 0.5, 0.8, 1.25]
    windows = [
        (int(rng.integers(0, 5)), int(rng.integers(0, most)), int(rng.choice([0, 50, 51, 130])))
        for _ in range(150)
    ]
    windows.sort()
    ranges = neighbour_lists.new_query_ranges(
        [(reaches[rank], count) for rank, count, _ in windows] + [(1.25, 1)]
    )
    assert len(ranges.values) == len(reaches)
    lists = neighbour_lists.new_lists(COUNT, 30_000)
    grid = neighbour_lists.new_grid(points, neighbour_lists.cell_side(1.25))
    assert neighbour_lists.add_points(grid, 0, COUNT, 0, lists, ranges) == COUNT
    rank, count, start = np.array(windows).T
    due = point_roles.new_due(rank, count, start, 5)
    masks = np.full((COUNT, due.counters.shape[1]), -1, np.int64)
    point_roles.core_masks(lists, due, COUNT, masks)
    near = distances(points)
    for number, (rank, count, start) in enumerate(windows):
        expected = _cores(near <= reaches[rank], count, start)
        np.testing.assert_array_equal(masks[:, number // 63] >> number % 63 & 1, expected)
    for low, size in ((0, 63), (40, 60), (100, 50), (63, 1)):  # and some of them as one word
        mask = window_forest.one_word(masks, low, size, 0)
        for number in range(low, low + size):
            alone = masks[:, number // 63] >> number % 63 & 1
            np.testing.assert_array_equal(mask >> (number - low) & 1, alone)
        assert not (mask >> size).any()


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("reach", [0.25, 0.3, 0.75])
def test_trees_are_the_connected_cores_of_each_window(axes: int, reach: float) -> None:
    """Windows of one level: three starts, two ranges that share its cells."""
    points = _points(axes, axes)
    level = window_forest.level_of(reach, axes)
    wider = reach * 1.01
    assert window_forest.level_of(wider, axes) == level
    ranges = neighbour_lists.new_query_ranges([(reach, 2), (wider, 1)])
    near, grid = distances(points), neighbour_lists.new_grid(points, neighbour_lists.cell_side(wider))
    neighbour_lists.fill_grid(grid, COUNT)
    windows = [(start, rank) for start in (0, 60, 120) for rank in (0, 1)]
    mask, expected = np.zeros(COUNT, np.int64), []
    for bit, (start, rank) in enumerate(windows):
        core = _cores(near <= ranges.values[rank], 2, start)
        mask |= core.astype(np.int64) << bit
        expected.append((np.flatnonzero(core), ranges.values[rank]))
    within = np.array([0b111111, 0b101010, 0], np.int64)
    word = window_forest.WindowWord(6, 0, mask, within, reach, wider)
    cells = window_forest.new_cells(COUNT, COUNT, axes, 0)
    assert window_forest.fill_cells(cells, points, COUNT, window_forest.side_of(level, axes))
    cell_of = np.zeros((2, COUNT), np.int32)
    for counts_as, trees in (
        (cell_of[0], window_forest.grow_cells(cells, points, word, ranges, cell_of[0])),
        (cell_of[1], window_forest.grow_points(grid, word, ranges, cell_of[1])),
    ):
        for bit, (core, largest) in enumerate(expected):
            _, labels = connected_components(distances(points[core]) <= largest)
            leaders = trees.leader[bit, counts_as[core]]
            for leader in set(leaders.tolist()):
                assert trees.first[bit, leader] == core[leaders == leader].min()
            pairs = set(zip(labels.tolist(), leaders.tolist(), strict=True))
            assert len(pairs) == len(set(labels.tolist())) == len(set(leaders.tolist()))


def test_a_cell_holds_only_neighbours_and_two_rings_hold_all() -> None:
    for axes in (1, 2, 3):
        for reach in np.geomspace(1e-9, 1e9, 200):
            side = window_forest.side_of(window_forest.level_of(float(reach), axes), axes)
            assert side * np.sqrt(axes) < reach < 2 * side


def test_members_come_by_cluster_and_arrival() -> None:
    clusters = np.array([2, 0, 1, 2, 1, 0, 3], np.int32)
    assert point_roles.members_by_cluster(clusters, 3).tolist() == [2, 4, 0, 3, 6]
    assert point_roles.members_by_cluster(np.zeros(3, np.int32), 0).tolist() == []


def test_a_cluster_in_a_few_numbers() -> None:
    points = np.array([[9.0, 9.0], [0.0, 1.0], [2.0, -1.0], [5.0, 5.0], [4.0, 0.0]])
    clusters, kinds = np.array([1, 1, 0, 1], np.int32), np.array([1, 2, 0, 1], np.uint8)
    cores, edges, centre, low, high = point_roles.summarise(points[1:], clusters, kinds, 1)
    assert (cores.tolist(), edges.tolist()) == ([2], [1])
    assert (centre.tolist(), low.tolist(), high.tolist()) == ([[2.0, 0.0]], [[0.0, -1.0]], [[4.0, 1.0]])


def test_rows_begin_with_a_line_of_the_cache() -> None:
    for count in range(1, 20):
        rows = point_roles.aligned_rows(count, 2 * WORDS)
        assert rows.shape == (count, 2 * WORDS)
        assert rows.flags.c_contiguous
        assert rows.ctypes.data % 64 == 0
