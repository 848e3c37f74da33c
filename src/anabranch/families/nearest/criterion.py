"""PA's probabilistic criterion: how many of the nearest items are enough (docs/decisions/pa-criterion.md).

In: k and the error sigma that a query allows. Out: the candidate limit. In a stream in random order, an item
that arrives with rank r is among the k nearest at some time of its life with probability 2 P(B <= k - 1),
where B counts the heads of r + k - 1 tosses of a fair coin.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np


def chance(rank: int, k: int) -> float:
    """The probability that an item that arrives with this rank is ever among the k nearest."""
    if rank <= k:
        return 1.0
    tosses = rank + k - 1
    heads = np.arange(k - 1)
    ways = np.cumsum(np.log((tosses - heads) / (heads + 1)))  # logarithms: 2 ** tosses has no float
    return 2 * float(np.exp(np.r_[0.0, ways] - tosses * math.log(2)).sum())


@cache
def candidate_limit(k: int, sigma: float) -> int:
    """The least number c of nearest items to keep, answer included, such that what ranks behind them comes
    back with probability at most sigma: chance(c + 1) <= sigma. The chance falls with the rank, so the limit
    is found by halving.
    """
    low, high = k, 2 * k + 16
    while chance(high + 1, k) > sigma:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if chance(middle + 1, k) <= sigma:
            high = middle
        else:
            low = middle + 1
    return low


@cache
def candidate_limits(most: int, sigma: float) -> tuple[int, ...]:
    """The candidate limits of k = 1 to `most`. One more place moves the limit by little more than one, so
    each is sought from the one before.
    """
    limits: list[int] = []
    limit = 0
    for k in range(1, most + 1):
        limit += 1
        while chance(limit + 1, k) > sigma:
            limit += 1
        limits.append(limit)
    return tuple(limits)
