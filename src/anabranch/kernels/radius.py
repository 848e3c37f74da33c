"""The radius of a query: recalling what waits beyond it, and setting it after a stretch of items (rapf.py).

In: one query's band and radius, and the items. Out: the band with what had to be inserted, and the radius for
what follows. Never: a report; what is inserted here is not among the k nearest yet.
"""

from __future__ import annotations

import math
from typing import Any

from anabranch.kernels.distances import square, square_limit, squares
from anabranch.kernels.heaps import push, raise_least
from anabranch.kernels.jit import leaf
from anabranch.kernels.nearest_arrays import PA, Array, Items, Queries, Scratch, Stock
from anabranch.kernels.probable import counted_on, settle_probable
from anabranch.kernels.pruning import rank
from anabranch.kernels.skyband import Band, put


@leaf
def index(values: Array, value: Any) -> int:
    """The first place whose value is not less. Often that is one of the ends."""
    low, high = 0, len(values)
    if high == 0 or values[0] >= value:
        return 0
    if values[high - 1] < value:
        return high
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def passes(queries: Queries, q: int, items: Items, i: int) -> bool:
    row = queries.mask[q]
    return row < 0 or items.mask[row, i]


@leaf
def take_late(queries: Queries, q: int, items: Items, radius: float, band: Band, count: int) -> int:
    """Items that come to be known only now, though they arrived before: candidates if within the radius.
    The count.

    They are not among the k nearest yet: guards kept them out so far (see above).
    """
    for i in items.late:
        if items.number[i] < queries.start[q] or not passes(queries, q, items, i):
            continue
        far = math.sqrt(square(items.place, queries.point, q, i))
        due = items.clock[i] + queries.size[q]
        if far <= radius and due >= items.now + items.rows and not _is_held(band, count, items.number[i]):
            put(band, count, far, items.number[i], due)
            count += 1
    return count


@leaf
def _is_held(band: Band, count: int, number: int) -> bool:
    """Whether an item is a candidate already: so it may be, if the query comes from another zone."""
    for place in range(count):
        if band.number[place] == number:
            return True
    return False


@leaf
def _recall(
    queries: Queries,
    q: int,
    items: Items,
    low: int,
    high: int,
    beyond: float,
    radius: float,
    alive: Any,
    band: Band,
    count: int,
    square: Array,
) -> int:
    """Inserts what waits between two radii among the items low <= i < high, whose squares are given. The
    count.
    """
    limit = square_limit(radius)
    least = beyond * beyond * (1.0 - 1e-15)
    for i in range(low, high):
        if not (least <= square[i - low] <= limit):
            continue
        far = math.sqrt(square[i - low])
        if far > beyond and far <= radius and passes(queries, q, items, i):
            due = items.clock[i] + queries.size[q]
            if due >= alive:
                put(band, count, far, items.number[i], due)
                count += 1
    return count


@leaf
def all_in(
    queries: Queries,
    q: int,
    items: Items,
    a: int,
    band: Band,
    count: int,
    radius: float,
    work: Scratch,
) -> int:
    """Recalls all that waits before `a`: the guards may not outlive the stretch that begins there. The
    count.
    """
    low = index(items.number, queries.start[q])
    if a == 0 or low >= a or queries.method[q] == PA:
        return count
    now = items.clock[a - 1] if a > items.fresh else items.now
    low = max(low, index(items.clock, now - queries.size[q]))
    if low >= a:
        return count
    squares(items.place, queries.point, q, low, a, work.square)
    return _recall(queries, q, items, low, a, radius, math.inf, now + items.rows, band, count, work.square)


@leaf
def _wider(
    queries: Queries, q: int, items: Items, low: int, recent: int, high: int, square: Array, heap: Array
) -> float:
    """The radius within which `target` recent items lie, or all of them if there are at least `need`, or
    infinity.

    Keeps the nearest ones in a heap with the farthest on top; values are negated, for the heap has the
    least there.
    """
    held = 0
    most = queries.target[q]
    for i in range(max(recent, low), high):
        value = -square[i - low]
        if value != value or (held == most and value <= heap[0]) or not passes(queries, q, items, i):
            continue
        if held < most:
            push(heap, held, value)
            held += 1
        else:
            raise_least(heap, most, value)
    return math.sqrt(-heap[0]) if held >= queries.need[q] else math.inf


@leaf
def settle(
    queries: Queries,
    q: int,
    items: Items,
    recent: int,
    b: int,
    band: Band,
    count: int,
    radius: float,
    work: Scratch,
) -> tuple[int, float]:
    """After a stretch that ends at b: the radius for what follows, with enough guards among the recent
    items. (count, radius)
    """
    now = items.clock[b - 1]
    oldest = items.number[recent] if recent < b else items.number[b - 1] + 1
    have = 0
    for place in range(count):
        have += band.number[place] >= oldest
    if (radius == math.inf and have >= queries.target[q]) or have > queries.upper[q]:
        rank(band, min(count, queries.k[q]), count)
        have = place = 0
        while have < queries.target[q]:
            have += band.number[place] >= oldest
            place += 1
        radius = band.dist[place - 1]
        while count > place and band.dist[count - 1] > radius:
            count -= 1
    elif radius < math.inf and have < queries.need[q]:
        low = max(index(items.clock, now - queries.size[q]), index(items.number, queries.start[q]))
        if low < b:
            squares(items.place, queries.point, q, low, b, work.square)
        wider = _wider(queries, q, items, low, recent, b, work.square, work.radii)
        alive = now + items.rows
        count = _recall(queries, q, items, low, b, radius, wider, alive, band, count, work.square)
        return count, wider
    return count, radius


@leaf
def settle_pa(
    queries: Queries,
    q: int,
    items: Items,
    a: int,
    bound: Any,
    found: int,
    band: Band,
    count: int,
    radius: float,
    stock: Stock,
) -> tuple[int, float]:
    """The same for PA, after a stretch from `a` up to the moment `bound`. (count, radius)"""
    if radius < math.inf:
        begin = items.clock[a - 1] if a > items.fresh else items.now
        share = (bound - items.rows - begin) / queries.size[q]
        stock.pace[q], stock.known[q] = counted_on(stock.pace[q], stock.known[q], found, share)
    count, radius, stock.pace[q], stock.known[q] = settle_probable(
        band,
        count,
        queries.k[q],
        queries.need[q],
        queries.target[q],
        queries.upper[q],
        bound,
        queries.size[q],
        radius,
        stock.pace[q],
        stock.known[q],
    )
    return count, radius
