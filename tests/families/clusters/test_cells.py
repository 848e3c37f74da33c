"""Cells of a level against their definition: who is in which, and which are close together."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.families.clusters.kernels.window_forest import (
    RINGS,
    LevelCells,
    fill_cells,
    move_down,
    new_cells,
)

SIDE = 0.25


def _corners(points: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(corner) for corner in np.floor(points / SIDE).astype(int).tolist()]


def _check(cells: LevelCells, points: np.ndarray) -> None:
    corners = _corners(points)
    where = dict(zip(cells.cell_of[: len(points)].tolist(), corners, strict=True))
    assert len(set(where.values())) == len(where), "two cells with the same corner"
    for cell, corner in where.items():
        chain, point = [], int(cells.newest[cell])
        while point >= 0:
            chain.append(point)
            point = int(cells.older[point])
        assert chain == [one for one in reversed(range(len(points))) if corners[one] == corner]
    known = []
    for cell in where:
        for ring in range(RINGS):
            low, high = cells.close_at[cell * RINGS + ring : cell * RINGS + ring + 2]
            known += [(cell, other, ring + 1) for other in cells.close[low:high].tolist() if other in where]
    expected = set()
    for one, here in where.items():
        for other, there in where.items():
            apart = max(abs(a - b) for a, b in zip(here, there, strict=True))
            if other < one and apart <= RINGS:
                expected.add((one, other, apart))
    assert len(known) == len(set(known))
    assert set(known) == expected


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_points_come_and_go(axes: int) -> None:
    rng = np.random.default_rng(axes)
    points = rng.normal(0, 1, (400, axes)) + np.linspace(-2, 2, 400)[:, None]
    room, first = points.copy(), 0
    cells = new_cells(len(points), len(points), axes, 0)
    for stop in (100, 250, 400):
        assert fill_cells(cells, room, stop - first, SIDE)
        _check(cells, points[first:stop])
        gone = 60
        assert move_down(cells, gone)
        first += gone
        room[: 400 - first] = points[first:]
        _check(cells, points[first:stop])
    assert not move_down(cells, 400)


def test_cells_without_room_are_not_added() -> None:
    points = np.arange(2000.0).reshape(-1, 1)
    cells = new_cells(len(points), 456, 1, 0)
    assert fill_cells(cells, points, 400, SIDE)
    assert not fill_cells(cells, points, 2000, SIDE)
    assert cells.used[:2].tolist() == [456, 456]
