"""Euclidean distances from one point to many.

A distance is sqrt(s) with s = ((x_0 - p_0)^2 + (x_1 - p_1)^2) + ..., summed in the order of the dimensions,
in float64 and without fused operations: whoever computes it by that formula gets the same bits. Ranks are by
the distance, not by its square, so that what ties in the results ties in the ranking too. A missing
coordinate is NaN and gives NaN, which is within no radius.
"""

from __future__ import annotations

import numpy as np

from anabranch.model.arrays import Array
from anabranch.numeric.jit import leaf

#: Squares that are computed at a time, and those of them that are compared with a limit at once.
SOME = 512
GROUP = 32


@leaf
def squares(place: Array, point: Array, q: int, first: int, stop: int, out: Array) -> None:
    """out[i - first] = the squared distance of item i from point q, for first <= i < stop.

    place: float64[d, n], point: float64[points, d], out: float64[at least stop - first]. Two dimensions at a
    time, so that each pass runs over neighbouring numbers and there are few passes; places are unsigned, so
    that no pass has to ask whether they count from the end.
    """
    base, size, d = np.uint64(first), np.uint64(stop - first), point.shape[1]
    p = point[q, 0]
    if d % 2 == 1:
        for i in range(size):
            gap = place[0, base + i] - p
            out[i] = gap * gap
    else:
        r = point[q, 1]
        for i in range(size):
            gap, other = place[0, base + i] - p, place[1, base + i] - r
            out[i] = gap * gap + other * other
    for j in range(2 - d % 2, d, 2):
        p, r = point[q, j], point[q, j + 1]
        for i in range(size):
            gap, other = place[j, base + i] - p, place[j + 1, base + i] - r
            out[i] = (out[i] + gap * gap) + other * other


@leaf
def near_squares(
    place: Array,
    point: Array,
    q: int,
    first: int,
    stop: int,
    limit: float,
    near: Array,
    square: Array,
    some: Array,
    found: int,
) -> int:
    """The items first <= i < stop whose squared distance from point q is at most `limit`: near and square, in
    stream order, behind those `found` before; how many there are then.

    They should be few. some: float64[SOME], scratch that stays in the nearest cache: a look at GROUP squares
    at once, without a branch, tells whether there is one to take.
    """
    for begin in range(first, stop, len(some)):
        size = min(len(some), stop - begin)
        squares(place, point, q, begin, begin + size, some)
        for group in range(0, size, GROUP):
            base, length = np.uint64(group), np.uint64(min(GROUP, size - group))
            hits = 0
            for spot in range(length):
                hits += some[base + spot] <= limit
            if hits == 0:
                continue
            for spot in range(length):
                if some[base + spot] <= limit:
                    near[found] = begin + group + np.int64(spot)
                    square[found] = some[base + spot]
                    found += 1
    return found


@leaf
def square(place: Array, point: Array, q: int, i: int) -> float:
    """The squared distance of item i from point q. place: float64[d, n], point: float64[points, d]."""
    total = 0.0
    for j in range(point.shape[1]):
        gap = place[j, i] - point[q, j]
        total += gap * gap
    return total


@leaf
def square_limit(radius: float) -> float:
    """A bound on squares that none within the radius exceeds: a cheap first test before the square root."""
    return radius * radius * (1.0 + 1e-15)
