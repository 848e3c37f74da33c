"""Ranks: a distance as the number of queries' ranges that are too short for it.

All that queries ask about a distance is whether it is within their ranges, so neighbours at distances of the
same rank are the same to all of them. Ranks are exact: rank(d) <= k exactly if d <= ranges[k].

    ranges      0.5   0.75   1.5         distances   0.3  0.5  0.6  0.75  1.0
    rank          0     1     2          ranks         0    0    1     1    2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import leaf

Array = np.ndarray[Any, Any]


class Asked(NamedTuple):
    """What the queries of now ask for. A table by evenly spaced distances leads close to a rank."""

    ranges: Array  # float64[ranks], ascending
    limits: Array  # int32[ranks]: the largest count among queries with at least this range
    table: Array  # int32[bins + 4]: the rank of the distance one bin before
    scale: float  # bins a unit of distance


def new_asked(patterns: Sequence[tuple[float, int]]) -> Asked:
    """From the (range, count) of all queries."""
    ranges = np.unique(np.array([reach for reach, _ in patterns], np.float64))
    counts = np.zeros(len(ranges), np.int32)
    np.maximum.at(
        counts, np.searchsorted(ranges, [reach for reach, _ in patterns]), [count for _, count in patterns]
    )
    limits = np.maximum.accumulate(counts[::-1])[::-1].copy()
    bins = 4 * len(ranges) + 16
    with np.errstate(all="ignore"):
        scale = bins / ranges[-1] if ranges[-1] > 0 else 0.0
    if not np.isfinite(scale):
        scale = 0.0
    if scale:
        table = np.searchsorted(ranges, (np.arange(bins + 4) - 1) / scale)
        table = np.minimum(table, len(ranges) - 1).astype(np.int32)
    else:
        table = np.zeros(bins + 4, np.int32)
        table[3:] = len(ranges) - 1
    return Asked(ranges, limits, table, float(scale))


@leaf
def rank_of(distance: float, ranges: Array, table: Array, scale: float) -> int:
    """The rank of a distance within the largest range."""
    place = min(int(distance * scale), len(table) - 4)
    low, high = np.int64(table[np.uint64(place)]), np.int64(table[np.uint64(place + 3)])
    while high - low > 2:
        middle = (low + high) >> 1
        if ranges[middle] < distance:
            low = middle + 1
        else:
            high = middle
    low += ranges[np.uint64(low)] < distance  # at most two more; nobody could foretell a branch
    low += ranges[np.uint64(low)] < distance
    return low
