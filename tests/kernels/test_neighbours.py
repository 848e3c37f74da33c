"""Lists of neighbours against the matrix of all distances: whatever a query may ask must be in them."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.kernels.neighbours import BOX, carry_over, enter, new_lists, wider
from anabranch.kernels.searchgrid import cell_side, fill_grid, new_grid
from tests.oracles.dbscan import distances


def _points(seed: int, count: int = 220, axes: int = 2) -> np.ndarray:
    return np.round(np.random.default_rng(seed).random((count, axes)) * 12) / 4


def _entered(points: np.ndarray, ranges: list[float], limits: list[int], first: int = 0, width: int = 232):
    lists, grid, side = new_lists(len(points), width), new_grid(len(points)), cell_side(ranges[-1])
    asked = np.array(ranges), np.array(limits, np.int32)
    half = len(points) // 2
    assert enter(points, 0, half, 0, grid, side, 1, lists, *asked) == half
    assert enter(points, half, len(points), first, grid, side, 1, lists, *asked) == len(points)
    return lists


def _known(lists, point: int, reach: float) -> list[int]:
    """The neighbours within the range that a list and its box know of, newest first."""
    size, new = lists.size[point], lists.new_size[point]
    known = lists.near[point, :size][lists.distance[point, :size] <= reach].tolist()
    known += lists.new_near[point, :new][lists.new_distance[point, :new] <= reach].tolist()
    return sorted(known, reverse=True)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("ranges", "limits"), [([1.0], [3]), ([0.5, 0.75, 1.5], [20, 6, 2]), ([0.0, 2.0], [4, 1])]
)
def test_the_newest_neighbours_are_there(seed: int, ranges: list[float], limits: list[int]) -> None:
    points, first = _points(seed), 40
    lists = _entered(points, ranges, limits, first)
    near = distances(points)
    for point in range(first, len(points)):
        for reach, limit in zip(ranges, limits, strict=True):
            true = [other for other in np.flatnonzero(near[point] <= reach)[::-1] if other != point]
            if reach >= lists.bound[point]:
                assert sum(other > point for other in true) >= limit
            else:
                true = [other for other in true if other >= first][:limit]
                known = [other for other in _known(lists, point, reach) if other >= first]
                assert known[: len(true)] == true


def test_lists_are_in_order_and_short() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((2000, 2))
    lists = _entered(points, [0.5], [5], width=120)
    sizes = lists.size
    assert sizes.max() < 60  # of some 1500 neighbours: about 5 (1 + ln(1500 / 5)) when new, fewer later
    for point in range(0, 2000, 50):
        known = list(
            zip(lists.distance[point, : sizes[point]], lists.near[point, : sizes[point]], strict=True)
        )
        assert known == sorted(known)


def test_it_stops_before_a_list_is_too_long() -> None:
    points = _points(5, 100, 1)
    lists, grid, asked = new_lists(100, 24), new_grid(100), (np.array([3.0]), np.array([50], np.int32))
    stopped = enter(points, 0, 100, 0, grid, cell_side(3.0), 1, lists, *asked)
    assert 24 - BOX <= stopped <= 25
    while stopped < 100:
        wide = new_lists(100, wider(lists.near.shape[1]))
        carry_over(lists, wide, 0, stopped)
        lists = wide
        stopped = enter(points, stopped, 100, 0, grid, cell_side(3.0), 1, lists, *asked)
    whole = _entered(points, [3.0], [50])
    for point in range(100):
        assert _known(lists, point, 3.0) == _known(whole, point, 3.0)


def test_lists_move_down_with_their_points() -> None:
    points = _points(6)
    before, after = _entered(points, [1.0], [6]), _entered(points, [1.0], [6])
    carry_over(after, after, 90, len(points))
    for point in range(90, len(points)):
        kept = [other - 90 for other in _known(before, point, 1.0) if other >= 90]
        assert _known(after, point - 90, 1.0) == kept
        assert after.bound[point - 90] == before.bound[point]


def test_rows_are_an_odd_number_of_cache_lines_apart() -> None:
    width = 24
    for _ in range(10):
        width = wider(width)
        assert width * 8 // 64 % 2 == 1
        assert width % 8 == 0


def test_the_grid_gives_chains_from_new_to_old() -> None:
    points = np.array([[0.1], [0.2], [5.0], [0.3], [-0.1]])
    grid = new_grid(5)
    fill_grid(grid, points, 5, 1.0)
    cell = next(c for c in range(grid.used[0]) if grid.places[c, 0] == 0)
    chain, point = [], grid.newest[cell]
    while point >= 0:
        chain.append(int(point))
        point = grid.older[point]
    assert chain == [3, 1, 0]
