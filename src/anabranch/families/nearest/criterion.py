"""PA's probabilistic criterion: which items are worth keeping (docs/decisions/pa-criterion.md).

In: k and the error sigma that a query allows. Out: the candidate limits, and the paces between which the
radius is kept. In a stream in random order, an item that arrives with rank r is among the k nearest at some
time of its life with probability 2 P(B <= k - 1), where B counts the heads of r + k - 1 tosses of a fair
coin. A radius misses what is among the k nearest while fewer than k items lie within it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from anabranch.kernels.probable import MEMORY

#: How many windows the pace knows of: weights that fade by 1/e in MEMORY windows count for so many.
_EVIDENCE = 2 * MEMORY


class Paces(NamedTuple):
    """How many items a window brings within the radius: it is moved, to `target`, if fewer than `least` or
    more than `most`.
    """

    least: int
    target: int
    most: int

    @staticmethod
    def around(target: int) -> Paces:
        root = math.sqrt(target)
        return Paces(math.ceil(target - root / 2), target, math.floor(target + 3 * root / 4))


def chance(rank: int, k: int) -> float:
    """The probability that an item that arrives with this rank is ever among the k nearest."""
    if rank <= k:
        return 1.0
    tosses = rank + k - 1
    heads = np.arange(k - 1)
    ways = np.cumsum(np.log((tosses - heads) / (heads + 1)))  # logarithms: 2 ** tosses has no float
    return 2 * float(np.exp(np.r_[0.0, ways] - tosses * math.log(2)).sum())


@cache
def candidate_limits(most: int, sigma: float) -> tuple[int, ...]:
    """For k = 1 to `most` the least number c of nearest items to keep, answer included, such that what ranks
    behind them comes back with probability at most sigma: chance(c + 1, k) <= sigma. One more place moves the
    limit by little more than one, so each is sought from the one before.
    """
    limits: list[int] = []
    limit = 0
    for k in range(1, most + 1):
        limit += 1
        while chance(limit + 1, k) > sigma:
            limit += 1
        limits.append(limit)
    return tuple(limits)


def missed(pace: float, k: int) -> float:
    """The share of the reports that a radius with this pace misses.

    The number N of items within it has the negative binomial distribution of the tails before the
    (_EVIDENCE * pace)-th head, of a coin with _EVIDENCE heads to a tail. While N = j < k, a window brings
    about as many reports of items beyond the radius as lie within it, and two for each place that is open; of
    2 k reports in all.
    """
    heads, within = _EVIDENCE * pace, np.arange(k)
    steps = np.log((heads + within[:-1]) / (within[1:] * (_EVIDENCE + 1)))
    chances = np.exp(heads * math.log(_EVIDENCE / (_EVIDENCE + 1)) + np.r_[0.0, np.cumsum(steps)])
    reports = (heads + within) / (_EVIDENCE + 1) + 2 * (k - within)
    return float((chances * reports).sum()) / (2 * k)


@cache
def paces(k: int, sigma: float) -> Paces:
    """The least paces with which, on the average, at most sigma of the reports are missed or false: who is
    missed leaves a place to another.
    """
    low, high = k + 1, 2 * k + 16
    while _error(Paces.around(high), k) > sigma:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if _error(Paces.around(middle), k) <= sigma:
            high = middle
        else:
            low = middle + 1
    return Paces.around(low)


def _error(band: Paces, k: int) -> float:
    return 2 * float(np.mean([missed(pace, k) for pace in range(band.least, band.most + 1)]))
