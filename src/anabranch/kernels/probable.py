"""PA's candidates and radius: the probabilistic k-skyband (D-ZaLaPS, section 4.2;
docs/decisions/pa-criterion.md).

In: one query's band, and limits[j - 1], the greatest rank at which an item may still come to be among j
nearest. Out: the entries that are worth keeping, and the radius beyond which an arriving item is not. Never:
a second look at what was dropped; that is what makes PA small, and what its error comes from.

    k = 3, an entry with 4 closer ones, 2 of them younger: those 2 hold two of the three places for good. It
    is kept as long as an item of rank 4 - 2 + 1 = 3 may still be the nearest of all: if limits[0] >= 3

The radius follows the *pace*: how many items a window brings within the radius, counted over the windows
that are *known*, at most MEMORY of them: then older ones fade. In the first window it is the number of items
so far.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.kernels.jit import leaf
from anabranch.kernels.pruning import rank
from anabranch.kernels.skyband import Band, copy

Array = np.ndarray[Any, Any]

#: Windows in which the weights of the pace fade by 1/e.
MEMORY = 4
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
def counted_on(pace: float, known: float, found: int, share: float) -> tuple[float, float]:
    """The pace after a stretch, which is this share of the window and brought so many items; and how many
    windows it knows of. (pace, known)
    """
    count = pace * max(known, 1.0) + found
    known += share
    return count / max(known, 1.0), min(known, float(MEMORY))


@leaf
def _bent(radius: float, inner: float, pace: float, k: int, target: int) -> float:
    """The radius with this target, on the line through (k-th distance, k) and (radius, pace), in logs."""
    exponent = 1.0
    if 0.0 < inner < radius and pace > k:
        exponent = max(0.5, math.log(pace / k) / math.log(radius / inner))
    return radius * min(_MOST_GROWTH, (target / max(pace, 0.5)) ** (1.0 / exponent))


@leaf
def _known_since(band: Band, count: int, alive: Any, size: Any) -> float:
    """For how long, in windows and up to one, items have been known: the age of the oldest entry."""
    oldest = alive + size
    for place in range(count):
        oldest = min(oldest, band.due[place])
    return min(1.0, max(0.0, 1.0 - (oldest - alive) / size))


@leaf
def _drop_beyond(band: Band, count: int, k: int, radius: float) -> int:
    """Drops the candidates beyond a radius; the count."""
    kept = min(count, k)
    for place in range(kept, count):
        if band.dist[place] <= radius:
            copy(band, kept, place)
            kept += 1
    return kept


@leaf
def settle_probable(
    band: Band,
    count: int,
    k: int,
    need: int,
    target: int,
    upper: int,
    alive: Any,
    size: Any,
    radius: float,
    pace: float,
    known: float,
) -> tuple[int, float, float, float]:
    """The radius for what follows: `target` items a window, moved when there are fewer than `need` or more
    than `upper`. (count, radius, pace, known)

    In the query's first window all items within the radius are entries, and it is set by looking at them; it
    is infinite until there are `target`. Later, an answer that has lost some of its k stays short while the
    pace is in its band: that is bad luck and soon over, and what is farther would be reported for nothing.
    With a pace below `need` the radius doubles with every stretch until the answer is whole.
    """
    if radius == math.inf:
        if count < target:
            return count, radius, 0.0, 0.0
        known = _known_since(band, count, alive, size)
    if radius == math.inf or (known < 1.0 and count > upper):
        rank(band, min(count, k), count)
        count = _drop_beyond(band, count, k, band.dist[target - 1])
        return count, band.dist[target - 1], float(count), known
    if need <= pace <= upper or known < 1.0:
        return count, radius, pace, known
    if radius == 0.0 and pace < need:
        return count, math.inf, 0.0, 0.0
    living = 0
    for place in range(min(count, k)):
        living += band.due[place] >= alive
    if living < k and pace < need:
        return count, radius * _MOST_GROWTH, pace, known
    inner = band.dist[k - 1] if living == k else 0.0
    moved = max(inner, _bent(radius, inner, pace, k, target))
    if moved == radius:
        return count, radius, pace, known
    # what was counted speaks for the new radius as far as the two have items in common
    known = max(1.0, known * min(pace / target, target / pace))
    return _drop_beyond(band, count, k, moved), moved, float(target), known
