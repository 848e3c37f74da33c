"""Lists of neighbours against the matrix of all distances: they hold all that a query may need."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.families.clusters.kernels.neighbour_lists import (
    BOX,
    NeighbourLists,
    QueryRanges,
    add_points,
    cell_side,
    copy_lists,
    entries_of,
    fill_grid,
    in_order,
    neighbour_in,
    new_grid,
    new_lists,
    new_query_ranges,
    rank_again,
    rank_in,
    rank_of,
)
from tests.oracles.dbscan import distances

Patterns = list[tuple[float, int]]


def _points(seed: int, count: int = 220, axes: int = 2) -> np.ndarray:
    return np.round(np.random.default_rng(seed).random((count, axes)) * 12) / 4


def _added(points: np.ndarray, patterns: Patterns, first: int = 0) -> tuple[NeighbourLists, QueryRanges]:
    ranges = new_query_ranges(patterns)
    lists, grid = new_lists(len(points), 400_000), new_grid(points, cell_side(ranges.values[-1]))
    half = len(points) // 2
    assert add_points(grid, 0, half, 0, lists, ranges) == half
    assert add_points(grid, half, len(points), first, lists, ranges) == len(points)
    return lists, ranges


def _entries(lists: NeighbourLists, point: int) -> list[tuple[int, int]]:
    """(rank, neighbour) of the list and its box, in order of rank, then newest first."""
    entries = np.empty(len(lists.pool), np.int64)
    size = in_order(lists, point, 1 << 18, entries)
    return [(rank_in(entry), neighbour_in(entry)) for entry in entries[:size].tolist()]


def _known(lists: NeighbourLists, point: int, rank: int) -> list[int]:
    return sorted((near for mine, near in _entries(lists, point) if mine <= rank), reverse=True)


@pytest.mark.parametrize(
    "ranges", [[0.0], [0.5, 0.75, 1.5], [1e-300, 1e-3, 1e300], list(np.geomspace(1e-6, 9, 300))]
)
def test_a_rank_tells_which_ranges_are_long_enough(ranges: list[float]) -> None:
    known = new_query_ranges([(reach, 1) for reach in ranges])
    rng = np.random.default_rng(1)
    tried = [0.0, *ranges, *np.nextafter(ranges, 0), *(np.nextafter(ranges, np.inf)[:-1])]
    tried += (rng.random(200) * ranges[-1]).tolist()
    for distance in tried:
        assert rank_of(float(distance), known) == np.searchsorted(known.values, distance)


def test_limits_are_the_largest_count_of_ranges_at_least_as_large() -> None:
    ranges = new_query_ranges([(2.0, 3), (1.0, 9), (3.0, 1), (2.0, 5)])
    assert (ranges.values.tolist(), ranges.limits.tolist()) == ([1.0, 2.0, 3.0], [9, 5, 1])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "patterns", [[(1.0, 3)], [(0.5, 20), (0.75, 6), (1.5, 2)], [(0.0, 4), (2.0, 1)], [(1.0, 0), (0.5, 2)]]
)
def test_lists_hold_the_newest_neighbours(seed: int, patterns: Patterns) -> None:
    points, first = _points(seed), 40
    lists, ranges = _added(points, patterns, first)
    near = distances(points)
    for point in range(first, len(points)):
        for rank, (reach, limit) in enumerate(zip(ranges.values, ranges.limits, strict=True)):
            true = [other for other in np.flatnonzero(near[point] <= reach)[::-1] if other != point]
            if rank >= lists.bound[point]:
                assert sum(other > point for other in true) >= limit
            else:
                true = [other for other in true if other >= first][:limit]
                known = [other for other in _known(lists, point, rank) if other >= first]
                assert known[: len(true)] == true


def test_lists_are_in_order_and_short() -> None:
    """One range: no list is longer than the count, but for its box. Many: a skyband."""
    points = np.random.default_rng(1).random((2000, 2))
    lists, _ = _added(points, [(0.5, 5)])
    assert lists.size.max() <= 5
    lists, _ = _added(points, [(reach, 5) for reach in np.linspace(0.01, 0.5, 100)])
    assert 5 < lists.size.max() < 60  # of some 1500 neighbours: about 5 (1 + ln(1500 / 5))
    for point in range(0, 2000, 50):
        known = _entries(lists, point)
        assert known == sorted(known, key=lambda entry: (entry[0], -entry[1]))


def test_adding_stops_when_the_pool_is_full() -> None:
    points, patterns = _points(5, 300, 1), [(3.0, 50), (1.0, 60)]
    ranges, grid = new_query_ranges(patterns), new_grid(points, cell_side(3.0))
    lists, stopped, renewed = new_lists(300, 4 * BOX), 0, 0
    while stopped < 300 or lists.used[1]:
        stopped = add_points(grid, stopped, 300, 0, lists, ranges)
        fresh = new_lists(300, entries_of(lists, 0, stopped) + 700)
        copy_lists(lists, fresh, 0, 0, stopped)
        lists, renewed = fresh, renewed + 1
    assert renewed > 3
    whole, _ = _added(points, patterns)
    assert lists.bound.tolist() == whole.bound.tolist()
    for point in range(300):
        for rank in range(2):
            limit = int(ranges.limits[rank])
            if rank < lists.bound[point]:
                assert _known(lists, point, rank)[:limit] == _known(whole, point, rank)[:limit]


def test_lists_move_down_with_their_points() -> None:
    points = _points(6)
    before, _ = _added(points, [(1.0, 6), (0.5, 9)])
    after = new_lists(220, 10_000)
    copy_lists(before, after, 60, 90, len(points))
    for point in range(90, len(points)):
        assert after.bound[point - 60] == before.bound[point]
        for rank in range(before.bound[point]):
            kept = [other - 60 for other in _known(before, point, rank) if other >= 90]
            assert _known(after, point - 60, rank) == kept


def test_other_ranges_give_other_ranks() -> None:
    points = _points(7)
    lists, old = _added(points, [(1.0, 6), (0.5, 9)])
    bounds, was = lists.bound.copy(), [_entries(lists, point) for point in range(220)]
    ranges = new_query_ranges([(0.25, 1), (0.5, 9), (0.75, 4)])
    rank_again(lists, points, 220, old.values, ranges)
    near = distances(points)
    for point in range(220):
        known = {other for _, other in was[point] if near[point, other] <= 0.75}
        assert {other for _, other in _entries(lists, point)} == known
        for rank, other in _entries(lists, point):
            assert rank == np.searchsorted(ranges.values, near[point, other])
        assert lists.bound[point] == {0: 0 if bounds[point] == 0 else 1, 1: 3, 2: 3}[bounds[point]]


def test_the_grid_gives_chains_from_new_to_old() -> None:
    points = np.array([[0.1], [0.2], [5.0], [0.3], [-0.1]])
    grid = new_grid(points, 1.0)
    fill_grid(grid, 5)
    cell = next(c for c in range(grid.used[0]) if grid.corners[c, 0] == 0)
    chain, point = [], grid.newest[cell]
    while point >= 0:
        chain.append(int(point))
        point = grid.older[point]
    assert chain == [3, 1, 0]
