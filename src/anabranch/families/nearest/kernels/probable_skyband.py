"""PA: the candidates and the radius of a query by the probabilistic k-skyband.

PA (D-ZaLaPS, section 4.2; docs/decisions/pa-criterion.md) keeps an entry while it has a fair chance to come
to be among the k nearest, and looks at no arriving item beyond the radius. What it drops it never sees again:
that makes it small, and that is where its error comes from. limits[j - 1] is the greatest rank at which an
item may still come to be among j nearest.

    k = 3, an entry with 4 closer ones, 2 of them younger: those 2 hold two of the three ranks for good. It
    is kept as long as an item of rank 4 - 2 + 1 = 3 may still be the nearest of all: if limits[0] >= 3

The radius follows the *pace*: how many items per window come within the radius, counted over the windows
that are *known*, at most MEMORY of them: then older ones fade. In the first window it is the number of items
so far.
"""

from __future__ import annotations

import math

from anabranch.families.nearest.kernels.arrays import Band, Items, Memory, Moment, QueryRow
from anabranch.families.nearest.kernels.skyband import copy, rank
from anabranch.model.arrays import Ints
from anabranch.numeric.jit import inline, leaf, twig, zero

#: Windows in which the weights of the pace fade by 1/e.
MEMORY = 4
#: A radius grows at most by this factor at once.
_MOST_GROWTH = 2.0


@leaf
def keep_probable(
    band: Band, count: int, k: int, alive: Moment, limits: Ints, row: int, numbers: Ints
) -> int:
    """Keeps the entries due at `alive` or later that are among the k nearest with a fair chance. Returns
    their count. limits[row]: of the query; numbers: room for all entries
    """
    rank(band, min(count, k), count)
    kept = closer = zero()  # numbers[:closer] are those of the entries before this one, ascending
    for entry in range(count):
        if band.due[entry] < alive:
            continue
        number = band.number[entry]
        older = closer
        while older > 0 and numbers[older - 1] > number:
            numbers[older] = numbers[older - 1]
            older -= 1
        numbers[older] = number
        ranks = k - (closer - older)  # those that no younger one holds
        closer += 1
        if ranks > 0 and (ranks > limits.shape[1] or older < limits[row, ranks - 1]):
            copy(band, kept, entry)
            kept += 1
    return kept


@leaf
def _mean_pace(pace: float, known: float, came: int, share: float) -> tuple[float, float]:
    """Returns the pace after a stretch that is this share of the window and brought so many items, and how
    many windows it knows of.
    """
    count = pace * max(known, 1.0) + came
    known += share
    return count / max(known, 1.0), min(known, float(MEMORY))


@leaf
def _radius_for(target: int, radius: float, inner: float, pace: float, k: int) -> float:
    """Returns the radius that has `target` as its pace, on the line through (k-th distance, k) and (radius,
    pace), in logarithms.
    """
    exponent = 1.0
    if 0.0 < inner < radius and pace > k:
        exponent = max(0.5, math.log(pace / k) / math.log(radius / inner))
    return radius * min(_MOST_GROWTH, (target / max(pace, 0.5)) ** (1.0 / exponent))


@leaf
def _known_since(band: Band, count: int, alive: Moment, size: Moment) -> float:
    """Returns for how long, in windows and up to one, items have been known: the age of the oldest entry."""
    oldest = alive + size
    for entry in range(count):
        oldest = min(oldest, band.due[entry])
    return min(1.0, max(0.0, 1.0 - (oldest - alive) / size))


@leaf
def _drop_beyond(band: Band, count: int, k: int, radius: float) -> int:
    """Drops the candidates beyond a radius. Returns the count."""
    kept = min(count, k)
    for entry in range(kept, count):
        if band.dist[entry] <= radius:
            copy(band, kept, entry)
            kept += 1
    return kept


@twig
def _radius_by_pace(
    query: QueryRow, band: Band, count: int, alive: Moment, radius: float, pace: float, known: float
) -> tuple[int, float, float, float]:
    """Returns (count, radius, pace, known) for what follows: a radius with `target` items per window, moved
    when there are fewer than `need` or more than `upper`.

    In the query's first window all items within the radius are entries, and it is set by looking at them; it
    is infinite until there are `target`. Later, when fewer than k are known, they stay fewer while the pace
    is between its limits: that is bad luck and soon over, and what is farther would be reported for nothing.
    With a pace below `need` the radius doubles with every stretch until there are k again.
    """
    k, need, target, upper = query.k, query.need, query.target, query.upper
    if radius == math.inf:
        if count < target:
            return count, radius, 0.0, 0.0
        known = _known_since(band, count, alive, query.size)
    if radius == math.inf or (known < 1.0 and count > upper):
        rank(band, min(count, k), count)
        radius = band.dist[target - 1]
        count = _drop_beyond(band, count, k, radius)
        return count, radius, float(count), known
    if need <= pace <= upper or known < 1.0:
        return count, radius, pace, known
    if radius == 0.0 and pace < need:
        return count, math.inf, 0.0, 0.0
    living = 0
    for entry in range(min(count, k)):
        living += band.due[entry] >= alive
    if living < k and pace < need:
        return count, radius * _MOST_GROWTH, pace, known
    inner = band.dist[k - 1] if living == k else 0.0
    moved = max(inner, _radius_for(target, radius, inner, pace, k))
    if moved == radius:
        return count, radius, pace, known
    # what was counted speaks for the new radius as far as the two have items in common
    known = max(1.0, known * min(pace / target, target / pace))
    return _drop_beyond(band, count, k, moved), moved, float(target), known


@inline
def settle_pa(
    query: QueryRow,
    q: int,
    items: Items,
    a: int,
    bound: Moment,
    came: int,
    band: Band,
    count: int,
    radius: float,
    memory: Memory,
) -> tuple[int, float]:
    """After a stretch from item `a` up to the moment `bound`, which brought so many items within the radius:
    returns (count, radius) for what follows. The pace is remembered.
    """
    pace, known = memory.pace[q], memory.known[q]
    if radius < math.inf:
        since = items.clock[a - 1] if a > items.first_new else items.now
        share = (bound - items.by_rows - since) / query.size
        pace, known = _mean_pace(pace, known, came, share)
    count, radius, pace, known = _radius_by_pace(query, band, count, bound, radius, pace, known)
    memory.pace[q], memory.known[q] = pace, known
    return count, radius
