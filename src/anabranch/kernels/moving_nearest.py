"""The k nearest objects of a regional server to a query's focal point, through the grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.moving_arrays import ZERO, Array, Grid, Int, Names, Server, Space
from anabranch.kernels.moving_grid import column_of, row_of
from anabranch.kernels.moving_names import less
from anabranch.kernels.moving_shapes import across, distance, truth, turned

_DEGREE = math.pi / 180

#: Bounds are made this much smaller, so that rounding cannot hide an object.
_SAFE = 1 - 1e-9


@leaf
def closer(names: Names, who_distance: float, who: Int, other_distance: float, other: Int) -> bool:
    """At equal distance the smaller name ranks first."""
    return who_distance < other_distance or (who_distance == other_distance and less(names, who, other))


@leaf
def _offer_cell(
    space: Space,
    server: Server,
    query: Any,
    grid: Grid,
    names: Names,
    cell: Int,
    found: Int,
    who: Array,
    far: Array,
) -> Int:
    """Offers the objects of a cell to the list (who, far) of at most k, which is in rank; returns how many
    it holds.
    """
    k = query.k
    candidate = grid.first[cell]
    while candidate >= 0:
        this = np.int64(candidate)
        that = server.objects[this]
        candidate = that.after
        if that.number < query.start or this == query.focal:
            continue
        d = distance(space, that.x, that.y, query.x, query.y)
        if found == k and not closer(names, d, this, far[k - 1], who[k - 1]):
            continue
        if not truth(server.truths, this, query.condition):
            continue
        spot = found if found < k else k - 1
        while spot > 0 and closer(names, d, this, far[spot - 1], who[spot - 1]):
            who[spot] = who[spot - 1]
            far[spot] = far[spot - 1]
            spot -= 1
        who[spot] = this
        far[spot] = d
        found += 1 if found < k else 0
    return found


@kernel
def nearest(
    space: Space, server: Server, query: Any, grid: Grid, names: Names, who: Array, far: Array
) -> Int:
    """Fills (who, far) with the k nearest of a query, in rank; returns how many there are."""
    if space.globe:
        return _nearest_on_globe(space, server, query, grid, names, who, far)
    middle, level = column_of(grid, query.x), row_of(grid, query.y)
    found = ZERO
    for ring in range(max(grid.columns, grid.rows)):
        if ring > 0:
            bound = _ring_bound(grid, query.x, query.y, middle, level, ring)
            if bound == math.inf or (found == query.k and bound > far[found - 1]):
                break
        for row in range(max(level - ring, 0), min(level + ring, grid.rows - 1) + 1):
            across_row = row == level - ring or row == level + ring
            step = 1 if across_row or ring == 0 else 2 * ring  # only the two ends of the rows in between
            for column in range(middle - ring, middle + ring + 1, step):
                if 0 <= column < grid.columns:
                    cell = row * grid.columns + column
                    found = _offer_cell(space, server, query, grid, names, cell, found, who, far)
    return found


@leaf
def _ring_bound(grid: Grid, x: float, y: float, middle: Int, level: Int, ring: Int) -> float:
    """Nothing in this ring of cells or beyond is nearer than this, the nearest of the ring's sides;
    infinite if there is no such cell.
    """
    bound = math.inf
    if middle - ring >= 0:
        bound = min(bound, x - (grid.x + (middle - ring + 1) * grid.width))
    if middle + ring < grid.columns:
        bound = min(bound, grid.x + (middle + ring) * grid.width - x)
    if level - ring >= 0:
        bound = min(bound, y - (grid.y + (level - ring + 1) * grid.height))
    if level + ring < grid.rows:
        bound = min(bound, grid.y + (level + ring) * grid.height - y)
    return bound * _SAFE - 1e-9 * (abs(x) + abs(y) + abs(grid.x) + abs(grid.y) + grid.width + grid.height)


@kernel
def _nearest_on_globe(
    space: Space, server: Server, query: Any, grid: Grid, names: Names, who: Array, far: Array
) -> Int:
    """Rows outward from the focal point's; in a row, cells outward both ways, without those that are too
    far by latitude or longitude.
    """
    x, y = across(space, query.x), query.y
    middle, level = column_of(grid, x), row_of(grid, y)
    beside = np.empty(grid.columns, np.float64)
    for spot in range(grid.columns):
        beside[spot] = _meridian_bound(space.radius, grid, spot, middle, x, y)
    found = ZERO
    for step in range(2 * grid.rows):
        row = level + (step + 1) // 2 if step % 2 else level - step // 2
        if row < 0 or row >= grid.rows:
            continue
        above = grid.y + row * grid.height - y if row > level else y - (grid.y + (row + 1) * grid.height)
        tall = (above - 1e-6) * _DEGREE * space.radius * _SAFE if row != level else 0.0
        if found == query.k and tall > far[found - 1]:
            continue
        for side in range(2 * grid.columns):
            column = middle + (side + 1) // 2 if side % 2 else middle - side // 2
            if 0 <= column < grid.columns and not (found == query.k and beside[column] > far[found - 1]):
                cell = row * grid.columns + column
                found = _offer_cell(space, server, query, grid, names, cell, found, who, far)
    return found


@leaf
def _meridian_bound(radius: float, grid: Grid, column: Int, middle: Int, x: float, y: float) -> float:
    """A distance that no point of a column is nearer than: a meridian l degrees away is at least
    asin(cos(latitude) sin(l)) away, for l up to a quarter turn, and beyond that as far as the pole.
    """
    if (
        column == middle or column == 0 or column == grid.columns - 1
    ):  # the border columns hold all that lies beyond
        return 0.0
    low, high = grid.x + column * grid.width, grid.x + (column + 1) * grid.width
    apart = min(abs(turned(low - x)), abs(turned(high - x))) - 1e-6
    if apart <= 0.0:
        return 0.0
    return math.asin(math.sin(min(apart, 90.0) * _DEGREE) * math.cos(y * _DEGREE)) * radius * _SAFE
