"""Balls and cells: which cells of a grid a ball reaches, the paper's cells of interest (D-ZaLaPS, section
4.4).

A cell is found by one monotone function of the coordinate, for points and for the ends of a ball alike, and
the gap between a point and a cell is taken a little too small: rounding can add a cell, never lose one.
"""

from __future__ import annotations

import numpy as np

from anabranch.model.arrays import Array
from anabranch.numeric.distances import square_limit
from anabranch.numeric.jit import kernel, leaf

_SLACK = 1e-9


@leaf
def step(value: float, low: float, scale: float, side: int) -> int:
    """The cell along one dimension; what lies beyond belongs to the outermost."""
    steps = (value - low) * scale
    if not steps > 0.0:
        return 0
    if steps >= side:
        return side - 1
    return int(steps)


@leaf
def _gaps(
    point: float, radius: float, low: float, scale: float, side: int, gaps: Array, j: int
) -> tuple[int, int]:
    """The first and last cell along dimension j that the ball may reach, and gaps[j, cell], the square of its
    distance.
    """
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


@kernel
def cover(flags: Array, points: Array, radii: Array, low: Array, scale: Array, side: int) -> None:
    """flags[cell] = 1 for every cell that a ball around one of the points reaches: the paper's cells of
    interest.

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
