"""Balls and cells: which items of a block lie within a radius, and which cells of interest a radius covers.

A block of items is sorted into a grid over its own extent, cells along the last dimension side by side in memory. A ball is walked
column by column: a column of cells is one run of items, cut at both ends where the ball does not reach.

Cells are found by one monotone function of the coordinate (`step`), for items and for the ends of a ball alike, and the gaps between a
point and a cell are taken a little too small: rounding can add a cell, never lose one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.distances import square_limit
from anabranch.kernels.jit import kernel, leaf

Array = np.ndarray[Any, Any]

#: Items a block, about the paper's recent buffer (table 1).
BLOCK = 2048
#: More dimensions than this do not help to tell cells apart with so few items.
MOST_DIMENSIONS = 4
#: Items a cell, on average.
CROWD = 2

_SLACK = 1e-9


class Blocks(NamedTuple):
    """Items first, first + BLOCK, ...: each block in the order of its cells. Items with a missing coordinate are left out."""

    place: Array  # float64[n, d]
    item: Array  # int32[n]
    start: Array  # int32[blocks, cells + 1]: where each cell begins in `place` and `item`
    low: Array  # float64[blocks, g]
    scale: Array  # float64[blocks, g]: cells a unit of length, 0 for a dimension without extent
    side: int  # cells along a dimension


@leaf
def step(value: float, low: float, scale: float, side: int) -> int:
    """The cell along one dimension; what lies beyond belongs to the outermost."""
    steps = (value - low) * scale
    if not steps > 0.0:
        return 0
    if steps >= side:
        return side - 1
    return int(steps)


def side_of(items: int, dimensions: int) -> int:
    """Cells along a dimension for a block of so many items."""
    used = min(dimensions, MOST_DIMENSIONS)
    return max(1, int((min(items, BLOCK) / CROWD) ** (1 / used) + 1e-9))


@kernel
def blocks_of(place: Array, first: int, side: int) -> Blocks:
    """The items from `first` on, in blocks. place: float64[d, n]."""
    d, stop = place.shape
    g = min(d, MOST_DIMENSIONS)
    n = stop - first
    blocks = (n + BLOCK - 1) // BLOCK
    out = Blocks(
        np.empty((n, d), np.float64),
        np.empty(n, np.int32),
        np.zeros((blocks, side**g + 1), np.int32),
        np.zeros((blocks, g), np.float64),
        np.zeros((blocks, g), np.float64),
        side,
    )
    cells = np.empty(n, np.int32)
    used = 0
    for block in range(blocks):
        begin = first + block * BLOCK
        end = min(stop, begin + BLOCK)
        _measure(place, begin, end, side, out.low[block], out.scale[block])
        used = _sort(place, begin, end, out, block, cells, used)
    return out


@kernel
def _measure(place: Array, begin: int, end: int, side: int, low: Array, scale: Array) -> None:
    """The extent of the items' finite coordinates, as the least of them and the cells a unit of length."""
    for j in range(len(low)):
        least, greatest = math.inf, -math.inf
        for i in range(begin, end):
            if math.isfinite(place[j, i]):
                least = min(least, place[j, i])
                greatest = max(greatest, place[j, i])
        width = greatest - least
        if width > 0.0 and math.isfinite(width) and math.isfinite(side / width):
            low[j] = least
            scale[j] = side / width


@kernel
def _sort(place: Array, begin: int, end: int, out: Blocks, block: int, cells: Array, used: int) -> int:
    """Counts the items of each cell, then puts them there; how much of `out` is used."""
    start = out.start[block]
    side = out.side
    for i in range(begin, end):
        cell = 0
        for j in range(place.shape[0]):
            if math.isnan(place[j, i]):
                cell = -1
                break
            if j < out.low.shape[1]:
                cell = cell * side + step(place[j, i], out.low[block, j], out.scale[block, j], side)
        cells[i - begin] = cell
        if cell >= 0:
            start[cell + 1] += 1
    start[0] = used
    for cell in range(len(start) - 1):
        start[cell + 1] += start[cell]
    used = start[-1]
    for i in range(end - 1, begin - 1, -1):  # from the back, so that a cell's items are in stream order
        cell = cells[i - begin]
        if cell >= 0:
            start[cell + 1] -= 1
            spot = start[cell + 1]
            out.item[spot] = i
            for j in range(place.shape[0]):
                out.place[spot, j] = place[j, i]
    # every start[cell + 1] now says where `cell` begins: move them one down, and the end behind them
    for cell in range(len(start) - 1):
        start[cell] = start[cell + 1]
    start[-1] = used
    return used


@leaf
def _gaps(point: float, radius: float, low: float, scale: float, side: int, gaps: Array, j: int) -> tuple[int, int]:
    """The first and last cell along dimension j that the ball may reach, and gaps[j, cell], the square of its distance."""
    margin = radius * _SLACK + abs(point) * 1e-12
    first = step(point - radius - margin, low, scale, side)
    last = step(point + radius + margin, low, scale, side)
    for cell in range(first, last + 1):
        gap = 0.0
        if scale > 0.0:
            if cell > 0:
                gap = low + cell / scale - point
            if cell < side - 1:
                gap = max(gap, point - (low + (cell + 1) / scale))
        gap = max(0.0, gap - margin - (abs(low) + side / scale) * 1e-12) if gap > 0.0 else 0.0
        gaps[j, cell] = gap * gap
    return first, last


@leaf
def within(
    blocks: Blocks,
    block: int,
    point: Array,
    q: int,
    radius: float,
    first: int,
    stop: int,
    near: Array,
    dist: Array,
    gaps: Array,
    walk: Array,
) -> int:
    """The items first <= i < stop of a block at distance <= radius from point q: near[...] and dist[...] in stream order; how many.

    near: int64, dist: float64, room for a block; gaps: float64[g, side]; walk: int64[3, g].
    """
    g = blocks.low.shape[1]
    side = blocks.side
    limit = square_limit(radius)
    for j in range(g):
        low, high = _gaps(point[q, j], radius, blocks.low[block, j], blocks.scale[block, j], side, gaps, j)
        walk[0, j], walk[1, j], walk[2, j] = low, high, low
    found = 0
    inner = g - 1
    while True:
        total = 0.0
        base = 0
        for j in range(inner):
            total += gaps[j, walk[2, j]]
            base = (base + walk[2, j]) * side
        a, b = walk[0, inner], walk[1, inner]
        while a <= b and total + gaps[inner, a] > limit:
            a += 1
        while b >= a and total + gaps[inner, b] > limit:
            b -= 1
        if a <= b:
            for spot in range(blocks.start[block, base + a], blocks.start[block, base + b + 1]):
                sum_ = 0.0
                for j in range(point.shape[1]):
                    gap = blocks.place[spot, j] - point[q, j]
                    sum_ += gap * gap
                if sum_ <= limit:
                    far = math.sqrt(sum_)
                    item = blocks.item[spot]
                    if far <= radius and first <= item < stop:
                        found = _keep_sorted(near, dist, found, item, far)
        j = inner - 1
        while j >= 0 and walk[2, j] == walk[1, j]:
            walk[2, j] = walk[0, j]
            j -= 1
        if j < 0:
            return found
        walk[2, j] += 1


@leaf
def _keep_sorted(near: Array, dist: Array, found: int, item: int, far: float) -> int:
    """Adds an item to a short list in stream order."""
    spot = found
    while spot > 0 and near[spot - 1] > item:
        near[spot] = near[spot - 1]
        dist[spot] = dist[spot - 1]
        spot -= 1
    near[spot] = item
    dist[spot] = far
    return found + 1


@kernel
def cover(flags: Array, points: Array, radii: Array, low: Array, scale: Array, side: int) -> None:
    """flags[cell] = 1 for every cell that a ball around one of the points reaches: the paper's cells of interest.

    flags: uint8[side^d], points: float64[n, d], radii: float64[n], low, scale: float64[d] as in zones.cells.
    """
    d = points.shape[1]
    gaps = np.zeros((d, side), np.float64)
    least = np.zeros(d, np.int64)
    most = np.zeros(d, np.int64)
    cell = np.zeros(d, np.int64)
    inner = d - 1
    for query in range(len(points)):
        limit = square_limit(radii[query])
        for j in range(d):
            least[j], most[j] = _gaps(points[query, j], radii[query], low[j], scale[j], side, gaps, j)
            cell[j] = least[j]
        while True:
            total = 0.0
            base = 0
            for j in range(inner):
                total += gaps[j, cell[j]]
                base = (base + cell[j]) * side
            for spot in range(least[inner], most[inner] + 1):
                if total + gaps[inner, spot] <= limit:
                    flags[base + spot] = 1
            j = inner - 1
            while j >= 0 and cell[j] == most[j]:
                cell[j] = least[j]
                j -= 1
            if j < 0:
                break
            cell[j] += 1
