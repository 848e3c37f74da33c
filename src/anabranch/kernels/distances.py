"""Euclidean distances from one point to many.

A distance is sqrt(s) with s = ((x_0 - p_0)^2 + (x_1 - p_1)^2) + ..., summed in the order of the dimensions,
in float64 and without fused operations: whoever computes it by that formula gets the same bits. Ranks are by
the distance, not by its square, so that what ties in the results ties in the ranking too. A missing
coordinate is NaN and gives NaN, which is within no radius.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import leaf

Array = np.ndarray[Any, Any]


@leaf
def squares(place: Array, point: Array, q: int, first: int, stop: int, out: Array) -> None:
    """out[i - first] = the squared distance of item i from point q, for first <= i < stop.

    place: float64[d, n], point: float64[points, d], out: float64[at least stop - first]. One dimension after
    the other, so that each pass runs over neighbouring numbers; places are unsigned, so that no pass has to
    ask whether they count from the end.
    """
    base, size = np.uint64(first), np.uint64(stop - first)
    for i in range(size):
        out[i] = 0.0
    for j in range(point.shape[1]):
        p = point[q, j]
        for i in range(size):
            gap = place[j, base + i] - p
            out[i] += gap * gap


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
