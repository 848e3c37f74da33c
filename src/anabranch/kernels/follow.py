"""One query through a batch, stretch by stretch (rapf.py).

In: a query's band and the items. Out: the band after the batch, its radius, and rows of the log.
"""

from __future__ import annotations

import math
from typing import Any

from anabranch.kernels.boxes import BLOCK, Boxes, sort_by_item, within
from anabranch.kernels.distances import square_limit, squares
from anabranch.kernels.jit import leaf, twig, zero
from anabranch.kernels.meeting import Met
from anabranch.kernels.nearest_arrays import PA, RA, RAPF, Array, Items, Queries, Scratch, Stock
from anabranch.kernels.probable import keep_probable
from anabranch.kernels.pruning import outlives, prune, sweep
from anabranch.kernels.radius import all_in, index, passes, settle, settle_pa, take_late
from anabranch.kernels.skyband import Band, Log, arrive, depart, next_due, replace

#: The buffer keeps no more items than this for those that wait.
MOST_RECENT = 32768


@leaf
def _index_after(values: Array, value: Any, low: int, high: int) -> int:
    """The first place from `low` on whose value is greater, or `high`. Often it is one of the two."""
    if low >= high or values[low] > value:
        return low
    if values[high - 1] <= value:
        return high
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def _block_end(boxes: Boxes, a: int, end: int) -> int:
    """Where the block of item `a` ends."""
    for block in range(len(boxes.leaves)):
        if boxes.start[block] > a:
            return min(end, boxes.start[block])
    return end


@leaf
def _stretch(queries: Queries, q: int, items: Items, boxes: Boxes, radius: float, a: int, end: int) -> int:
    """Where the stretch of items that begins at `a` ends: with its block, or when the window has moved by
    a step.
    """
    b = _block_end(boxes, a, end)
    if queries.method[q] == RA or queries.counted[q]:
        return b
    if radius == math.inf:  # keep it short: after it there may be a radius
        b = min(b, a + max(64, 4 * queries.target[q]))
    return max(a + 1, _index_after(items.clock, items.clock[a] + queries.step[q], a, b))


@leaf
def _uses_boxes(items: Items, radius: float, a: int, b: int) -> bool:
    """Whether so many items are better looked for by their boxes."""
    return radius < math.inf and 4 * (b - a) >= min(BLOCK, len(items.number) - items.fresh)


@leaf
def _ahead(items: Items, boxes: Boxes, radius: float, a: int, b: int, end: int) -> int:
    """How far to look in one go, from a stretch a <= i < b on: as boxes have no order, a block is looked
    through for up to four stretches.
    """
    after = min(_block_end(boxes, a, end), a + 4 * (b - a))
    return after if _uses_boxes(items, radius, a, after) else b


@leaf
def _match(
    queries: Queries, q: int, items: Items, boxes: Boxes, radius: float, a: int, b: int, work: Scratch
) -> int:
    """The items a <= i < b that are within the radius: work.near, work.dist, in stream order; how many."""
    if _uses_boxes(items, radius, a, b):
        found = within(boxes, queries.point, q, radius, a, b, work.near, work.dist, work.gaps, work.leaf_gaps)
        sort_by_item(work.near, work.dist, found)
    else:
        squares(items.place, queries.point, q, a, b, work.square)
        found = 0
        limit = square_limit(radius)
        for i in range(a, b):
            if not work.square[i - a] <= limit:
                continue
            far = math.sqrt(work.square[i - a])
            if far <= radius:
                work.near[found] = i
                work.dist[found] = far
                found += 1
    return _passing(queries, q, items, found, work)


@leaf
def _take_met(queries: Queries, q: int, items: Items, met: Met, a: int, end: int, work: Scratch) -> int:
    """The same for all items a <= i < end, where it is known already what lies in the query's ball."""
    found = 0
    for place in range(met.first[q], met.first[q + 1]):
        if a <= met.item[place] < end:
            work.near[found] = met.item[place]
            work.dist[found] = met.dist[place]
            found += 1
    sort_by_item(work.near, work.dist, found)
    return _passing(queries, q, items, found, work)


@leaf
def _passing(queries: Queries, q: int, items: Items, found: int, work: Scratch) -> int:
    """Keeps those of work.near[:found] that pass the query's condition; how many."""
    if queries.mask[q] < 0:
        return found
    passed = 0
    for place in range(found):
        if passes(queries, q, items, work.near[place]):
            work.near[passed] = work.near[place]
            work.dist[passed] = work.dist[place]
            passed += 1
    return passed


@twig
def _pruned(
    queries: Queries, q: int, band: Band, count: int, radius: float, alive: Any, stock: Stock, work: Scratch
) -> int:
    """Prunes, and sets the limit a fifth above what remains, the paper's pruning coefficient of 0.2.

    Within RAPF's radius there are few candidates even with the dominated ones: it is enough to drop those
    that have left the window, and there is room for more. PA keeps all in a query's first window.
    """
    k, method = queries.k[q], queries.method[q]
    if method == RA or queries.counted[q]:
        count = prune(band, count, k, alive, work.numbers)
        stock.limit[q] = count + max(4, count // 5)
        return count
    if method == PA and stock.known[q] >= 1.0:
        count = keep_probable(band, count, k, alive, queries.limits[queries.chances[q]], work.numbers)
        stock.limit[q] = count + (count - k) // 5
        return count
    count = sweep(band, count, k, alive)
    if method == RAPF and (radius == math.inf or count > 4 * queries.target[q]):
        count = prune(band, count, k, alive, work.numbers)
    stock.limit[q] = _roomy(count)
    return count


@leaf
def _roomy(count: int) -> int:
    """The limit of so many candidates, where most that come are not dominated."""
    return count + max(12, count // 5)


@leaf
def _go(
    queries: Queries,
    q: int,
    items: Items,
    first: int,
    last: int,
    bound: Any,
    band: Band,
    count: int,
    radius: float,
    stock: Stock,
    log: Log,
    used: int,
    never: Any,
    work: Scratch,
) -> tuple[int, int]:
    """Lets the items of a stretch arrive, those of work.near[first:last] that are within the radius now, with
    all departures before `bound`. (count, used)
    """
    k = queries.k[q]
    soon = next_due(band, count, k, never)
    for place in range(first, last):
        if work.dist[place] > radius:
            continue
        i = work.near[place]
        clock = items.clock[i]
        if queries.counted[q]:
            clock = stock.seen[q]
            stock.seen[q] += 1
        while soon < clock:
            count, used = depart(band, count, k, q, soon, log, used)
            soon = next_due(band, count, k, never)
        before = used
        far, number, due = work.dist[place], items.number[i], clock + queries.size[q]
        if items.rows and soon == clock:
            count, used = replace(band, count, k, q, soon, items.clock[i], far, number, due, log, used)
        else:
            count, used = arrive(band, count, k, q, items.clock[i], far, number, due, log, used)
        if used > before and (count <= k or items.rows or band.due[count - 1] == soon):
            soon = next_due(band, count, k, never)  # who gave way is the last entry now
        if count > stock.limit[q]:
            count = _pruned(queries, q, band, count, radius, clock + items.rows, stock, work)
    while soon < bound and not queries.counted[q]:
        count, used = depart(band, count, k, q, soon, log, used)
        soon = next_due(band, count, k, never)
    return count, used


@leaf
def follow(
    queries: Queries,
    q: int,
    items: Items,
    boxes: Boxes,
    met: Met,
    stock: Stock,
    band: Band,
    count: int,
    log: Log,
    used: int,
    never: Any,
    work: Scratch,
    oldest: Array,
) -> tuple[int, int]:
    """One query through the batch, stretch by stretch; its radius is in the stock before and after.
    (count, used)

    There must be room in the band for all items, and in the log for four rows an item and two a candidate.
    """
    radius = stock.radius[q]
    if queries.method[q] == RAPF and not queries.counted[q]:  # the others have seen all there is
        count = take_late(queries, q, items, radius, band, count)
    a = max(items.fresh, index(items.number, queries.start[q]))
    end = max(a, index(items.number, queries.stop[q]))
    filters = queries.method[q] != RA and not queries.counted[q]
    found = last = zero()
    reach, ahead = -1.0, a  # work.near[:found]: what is within this reach, before the item `ahead`
    if len(met.first) > 0 and radius < math.inf:
        reach, ahead = radius, end
        found = _take_met(queries, q, items, met, a, end, work)
    while True:
        b = _stretch(queries, q, items, boxes, radius, a, end) if a < end else end
        bound = queries.bound[q] if b == end else items.clock[b - 1] + items.rows
        known = radius
        if (
            radius < math.inf
            and queries.method[q] != PA
            and not outlives(band, count, queries.need[q], bound)
        ):
            count = all_in(queries, q, items, boxes, a, band, count, radius, work)
            radius = math.inf
        first = last
        if a < b and (radius > reach or b > ahead):
            reach, ahead = radius, _ahead(items, boxes, radius, a, b, end)
            first, found = zero(), _match(queries, q, items, boxes, reach, a, ahead, work)
        last, came = first, zero()
        while last < found and work.near[last] < b:
            came += work.dist[last] <= radius
            last += 1
        count, used = _go(
            queries, q, items, first, last, bound, band, count, radius, stock, log, used, never, work
        )
        if queries.method[q] == PA:
            if filters:
                count, radius = settle_pa(queries, q, items, a, bound, came, band, count, known, stock)
                if stock.known[q] >= 1.0 and (known == math.inf or b == end):
                    stock.limit[q] = 0  # what is stored is small
        elif b > 0 and filters:
            since = items.clock[b - 1] - queries.recent[q]
            recent = _index_after(items.clock, since, max(0, b - MOST_RECENT), b)
            count, radius = settle(queries, q, items, boxes, recent, b, band, count, radius, work)
            if b == end:
                oldest[0] = min(oldest[0], items.number[recent] if recent < b else items.number[b - 1] + 1)
        if count > stock.limit[q]:
            alive = stock.seen[q] if queries.counted[q] else bound
            count = _pruned(queries, q, band, count, radius, alive, stock, work)
        a = b
        if a == end:
            if queries.method[q] == RAPF and radius < math.inf:
                stock.limit[q] = min(stock.limit[q], _roomy(count))  # it is from times of more candidates
            stock.radius[q] = radius
            return count, used
