"""PA's candidates and radius: the probabilistic k-skyband (D-ZaLaPS, section 4.2;
docs/decisions/pa-criterion.md).

In: one query's band, and limits[j - 1], the greatest rank at which an item may still come to be among j
nearest. Out: the entries that are worth keeping, and the radius beyond which an arriving item is not. Never:
a second look at what was dropped; that is what makes PA small, and what its error comes from.

    k = 3, an entry with 4 closer ones, 2 of them younger: those 2 hold two of the three places for good. It
    is kept as long as an item of rank 4 - 2 + 1 = 3 may still be the nearest of all: if limits[0] >= 3

The radius follows the *pace*: how many items a window brings within the radius, counted with weights that
fade by 1/e a window.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.kernels.jit import leaf
from anabranch.kernels.skyband import Band, copy, rank

Array = np.ndarray[Any, Any]

#: A radius grows at most by this factor at once.
_MOST_GROWTH = 2.0


@leaf
def keep_probable(band: Band, count: int, k: int, alive: Any, limits: Array, numbers: Array) -> int:
    """Keeps the entries due at `alive` or later that are among the k nearest with a fair chance; their count.
    numbers: int64, room for all entries.
    """
    rank(band, min(count, k), count)
    kept = 0
    closer = 0  # numbers[:closer] are those of the entries before this one, ascending
    for place in range(count):
        if band.due[place] < alive:
            continue
        number = band.number[place]
        spot = closer
        while spot > 0 and numbers[spot - 1] > number:
            numbers[spot] = numbers[spot - 1]
            spot -= 1
        numbers[spot] = number
        younger, older = closer - spot, spot
        closer += 1
        places = k - younger
        if places > 0 and (places > len(limits) or older < limits[places - 1]):
            copy(band, kept, place)
            kept += 1
    return kept


@leaf
def faded(pace: float, found: int, share: float) -> float:
    """The pace after a stretch, which is this share of the window and brought so many items."""
    if share <= 0.0:
        return pace + found
    fade = math.exp(-share)
    return pace * fade + found * (1.0 - fade) / share


@leaf
def _bent(radius: float, inner: float, pace: float, k: int, target: int) -> float:
    """The radius with this target, on the line through (k-th distance, k) and (radius, pace), in logs."""
    exponent = 1.0
    if 0.0 < inner < radius and pace > k:
        exponent = max(0.5, math.log(pace / k) / math.log(radius / inner))
    return radius * min(_MOST_GROWTH, (target / max(pace, 0.5)) ** (1.0 / exponent))


@leaf
def settle_probable(
    band: Band, count: int, k: int, need: int, target: int, upper: int, alive: Any, radius: float, pace: float
) -> tuple[int, float, float]:
    """The radius for what follows: `target` items a window, moved when there are fewer than `need` or more
    than `upper`; infinite while less than k are known. (count, radius, pace)
    """
    if radius == math.inf:
        if count < target:
            return count, radius, 0.0
        rank(band, min(count, k), count)
        radius, pace = band.dist[target - 1], float(target)
    else:
        living = 0
        for place in range(min(count, k)):
            living += band.due[place] >= alive
        if living < k or (radius == 0.0 and pace < need):
            return count, math.inf, 0.0
        if need <= pace <= upper:
            return count, radius, pace
        inner = band.dist[k - 1]
        moved = max(inner, _bent(radius, inner, pace, k, target))
        if moved == radius:
            return count, radius, pace
        radius, pace = moved, float(target)
    kept = min(count, k)
    for place in range(kept, count):
        if band.dist[place] <= radius:
            copy(band, kept, place)
            kept += 1
    return kept, radius, pace
