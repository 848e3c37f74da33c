"""The radius of a query: recalling what waits beyond it, and setting it after a stretch of items (rapf.py).

In: one query's band and radius, and the items. Out: the band with what had to be inserted, and the radius for
what follows. Never: a report; what is inserted here is not among the k nearest yet.
"""

from __future__ import annotations

import math
from typing import Any

from anabranch.kernels.boxes import Boxes, within
from anabranch.kernels.distances import near_squares, square, square_limit
from anabranch.kernels.heaps import push, raise_least
from anabranch.kernels.jit import leaf, twig, zero
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
    found: int,
    beyond: float,
    radius: float,
    alive: Any,
    band: Band,
    count: int,
    work: Scratch,
) -> int:
    """Inserts what waits between two radii among the items work.numbers[:found]. The count."""
    for place in range(found):
        i, far = work.numbers[place], work.square[place]
        if far > beyond and far <= radius and passes(queries, q, items, i):
            due = items.clock[i] + queries.size[q]
            if due >= alive:
                put(band, count, far, items.number[i], due)
                count += 1
    return count


@twig
def all_in(
    queries: Queries,
    q: int,
    items: Items,
    boxes: Boxes,
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
    found = _near(queries, q, items, boxes, low, a, math.inf, work)
    return _recall(queries, q, items, found, radius, math.inf, now + items.rows, band, count, work)


@twig
def _near(
    queries: Queries, q: int, items: Items, boxes: Boxes, low: int, high: int, reach: float, work: Scratch
) -> int:
    """The items low <= i < high that are within `reach`: work.numbers, and their distances in work.square;
    how many. Those in boxes are found by them, unless it is all of them that are looked for.
    """
    found, first = 0, high
    if reach < math.inf and len(boxes.start) > 1:
        first = min(high, max(low, boxes.start[0]))
        found = within(
            boxes, queries.point, q, reach, first, high, work.numbers, work.square, work.gaps, work.leaf_gaps
        )
    limit, place = square_limit(reach), found
    last = near_squares(
        items.place, queries.point, q, low, first, limit, work.numbers, work.square, work.some, found
    )
    for other in range(place, last):
        far = math.sqrt(work.square[other])
        if far <= reach:
            work.numbers[found], work.square[found] = work.numbers[other], far
            found += 1
    return found


@leaf
def _nearest(queries: Queries, q: int, items: Items, recent: int, found: int, work: Scratch) -> int:
    """Puts the distances of recent ones of the items work.numbers[:found] into the heap work.radii: how many,
    `target` at most, the nearest ones. They are negated: the farthest is on top.
    """
    held = 0
    most, heap = queries.target[q], work.radii
    for place in range(found):
        i, value = work.numbers[place], -work.square[place]
        if i < recent or (held == most and value <= heap[0]) or not passes(queries, q, items, i):
            continue
        if held < most:
            push(heap, held, value)
            held += 1
        else:
            raise_least(heap, most, value)
    return held


@twig
def _wider(
    queries: Queries,
    q: int,
    items: Items,
    boxes: Boxes,
    low: int,
    recent: int,
    high: int,
    have: int,
    radius: float,
    work: Scratch,
) -> tuple[int, float]:
    """The radius within which `target` recent items lie, or all of them if there are at least `need`, or
    infinity; and how many of the items low <= i < high, recent or not, were found on the way: all within it.

    They are looked for where twice as many should lie, judged by those `have` that lie within the old radius;
    if they do not, everywhere.
    """
    target = queries.target[q]
    reach = radius * (2.0 * target / max(1, have)) ** (1.0 / queries.point.shape[1])
    found = _near(queries, q, items, boxes, low, high, reach, work)
    held = _nearest(queries, q, items, recent, found, work)
    if held < target:
        found = _near(queries, q, items, boxes, low, high, math.inf, work)
        held = _nearest(queries, q, items, recent, found, work)
    return found, -work.radii[0] if held >= queries.need[q] else math.inf


@leaf
def settle(
    queries: Queries,
    q: int,
    items: Items,
    boxes: Boxes,
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
    have = zero()
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
        found, wider = _wider(queries, q, items, boxes, low, recent, b, have, radius, work)
        count = _recall(queries, q, items, found, radius, wider, now + items.rows, band, count, work)
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
