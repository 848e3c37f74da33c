"""RA, RAPF and PA over a batch of items, one query after the other (D-ZaLaPS, sections 4.1 to 4.4).

In: the candidates of a group of queries, the recent items and the new ones. Out: the candidates after the
batch, and what became or ceased to be one of the k nearest, in order. Queries of a group share
coordinates and clock.

RA keeps every item that is not dominated. RAPF delays: a query has a radius, and an item beyond it is not
inserted; it waits in the recent buffer, which all queries share. Two things make that exact. Let the
*guards* be `need` = k candidates within the radius.

1. While the guards are in the window, no item beyond the radius is among the k nearest. `outlives` checks
that before every stretch of
   items; where it fails, all that waits is recalled and the radius is infinite for that stretch.
2. What leaves the buffer while beyond the radius is dominated by guards that are younger. `_settle` sees
to that after every stretch: at
   least k candidates are among the recent items, those the buffer will keep; if there are fewer, the
   radius grows until there are, and what waited within the new radius is inserted.

       numbers      ... 700 ........ 850 .............. 1000 | 1001 ...
                        |<- leave    |<- recent: buffer ->|    new
       radius r: k of 850..1000 are within r, so what is older than 850 and beyond r is dominated for good

The radius shrinks when there are more than `upper` recent candidates, grows when there are fewer than
`need`, and either way to `target`, so that it moves seldom. The number of items that a query looks at
does not depend on its window.

PA has no buffer: what is beyond the radius is gone, and so is a candidate whose chances have become small
(probable.py). Its `need` is the candidate limit of the probabilistic criterion, in items a window.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.boxes import BLOCK, LEAF, LEAVES, Boxes, sort_by_item, within
from anabranch.kernels.distances import square, square_limit, squares
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.probable import counted_on, keep_probable, settle_probable
from anabranch.kernels.skyband import (
    Band,
    Log,
    arrive,
    depart,
    holds_until,
    new_band,
    new_log,
    next_due,
    outlives,
    prune,
    put,
    rank,
    replace,
    sweep,
    wider_band,
    wider_log,
)

Array = np.ndarray[Any, Any]

RAPF, RA, PA = 0, 1, 2

#: The buffer keeps no more items than this for those that wait.
MOST_RECENT = 16384


class Queries(NamedTuple):
    """One row a query. Moments have the type of the clock: times, or for ROWS counts of eligible items."""

    point: Array  # float64[q, d]
    k: Array  # int64
    need: Array  # int64: guards; k, or for PA the candidate limit
    target: Array  # int64: recent candidates when the radius is set
    upper: Array  # int64: recent candidates at which it shrinks
    size: Array  # moment: the window's
    recent: Array  # moment: what counts as recent
    step: Array  # moment: the longest stretch
    start: Array  # int64: the number of the first item that the query sees
    stop: Array  # int64: and of the first that it does not
    bound: Array  # moment: at the end of the batch, what is due before it has left
    mask: Array  # int64: row of the masks, or -1
    method: Array  # int8
    counted: Array  # bool: its window counts the items that pass its mask
    chances: Array  # int64: PA's row of the limits, or -1
    limits: Array  # int64[rows, k]: see probable.py


class Stock(NamedTuple):
    """The candidates of the queries, one query after the other, and what else a query remembers."""

    first: Array  # int64[q + 1]
    dist: Array
    number: Array
    due: Array
    radius: Array  # float64[q]
    limit: Array  # int64[q]: candidates at which to prune
    seen: Array  # int64[q]: eligible items so far, where they are counted
    pace: Array  # float64[q]: PA: how many items a window brings within the radius
    known: Array  # float64[q]: PA: the windows of which that is the mean


class Items(NamedTuple):
    """What the buffer holds, then what is new, by number."""

    place: Array  # float64[d, n], NaN where missing
    number: Array  # int64[n]
    clock: Array  # moment[n], never falling
    mask: Array  # bool[m, n]
    fresh: int  # the first new one
    late: Array  # int64: those in the buffer that no query has seen yet
    now: Any  # the clock before this batch
    rows: int  # 1 if an item leaves with the arrival at its due, 0 if after all arrivals then


class Scratch(NamedTuple):
    near: Array  # int64, with dist: the items of a stretch within the radius
    dist: Array  # float64
    square: Array  # float64
    numbers: Array  # int64: a heap, or the numbers of a query's entries
    moments: Array  # a heap of moments
    radii: Array  # float64: a heap
    gaps: Array  # float64[LEAVES]


@leaf
def _index(values: Array, value: Any) -> int:
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
def _index_after(values: Array, value: Any, low: int, high: int) -> int:
    """The first place from `low` on whose value is greater."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def _passes(queries: Queries, q: int, items: Items, i: int) -> bool:
    row = queries.mask[q]
    return row < 0 or items.mask[row, i]


@leaf
def _take_late(queries: Queries, q: int, items: Items, radius: float, band: Band, count: int) -> int:
    """Items that come to be known only now, though they arrived before: candidates if within the radius.
    The count.

    They are not among the k nearest yet: guards kept them out so far (see above).
    """
    for i in items.late:
        if items.number[i] < queries.start[q] or not _passes(queries, q, items, i):
            continue
        far = math.sqrt(square(items.place, queries.point, q, i))
        due = items.clock[i] + queries.size[q]
        if far <= radius and due >= items.now + items.rows:
            put(band, count, far, items.number[i], due)
            count += 1
    return count


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
        if far > beyond and far <= radius and _passes(queries, q, items, i):
            due = items.clock[i] + queries.size[q]
            if due >= alive:
                put(band, count, far, items.number[i], due)
                count += 1
    return count


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
        if value != value or (held == most and value <= heap[0]) or not _passes(queries, q, items, i):
            continue
        if held < most:
            place = held
            held += 1
            while place > 0 and heap[(place - 1) // 2] > value:
                heap[place] = heap[(place - 1) // 2]
                place = (place - 1) // 2
            heap[place] = value
        else:
            place = 0
            while True:
                child = 2 * place + 1
                if child >= most:
                    break
                if child + 1 < most and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= value:
                    break
                heap[place] = heap[child]
                place = child
            heap[place] = value
    return math.sqrt(-heap[0]) if held >= queries.need[q] else math.inf


@leaf
def _stretch(queries: Queries, q: int, items: Items, boxes: Boxes, radius: float, a: int, end: int) -> int:
    """Where the stretch of items that begins at `a` ends: with its block, or when the window has moved by
    a step.
    """
    b = end
    for block in range(len(boxes.leaves)):
        if boxes.start[block] > a:
            b = min(b, boxes.start[block])
            break
    if queries.method[q] == RA or queries.counted[q]:
        return b
    if radius == math.inf:  # keep it short: after it there may be a radius
        b = min(b, a + max(64, 4 * queries.target[q]))
    return max(a + 1, _index_after(items.clock, items.clock[a] + queries.step[q], a, b))


@leaf
def _match(
    queries: Queries, q: int, items: Items, boxes: Boxes, radius: float, a: int, b: int, work: Scratch
) -> int:
    """The items of a stretch that are within the radius: work.near, work.dist, in stream order; how many."""
    if radius < math.inf and 4 * (b - a) >= min(BLOCK, len(items.number) - items.fresh):
        found = within(boxes, queries.point, q, radius, a, b, work.near, work.dist, work.gaps)
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
    if queries.mask[q] < 0:
        return found
    passed = 0
    for place in range(found):
        if _passes(queries, q, items, work.near[place]):
            work.near[passed] = work.near[place]
            work.dist[passed] = work.dist[place]
            passed += 1
    return passed


@leaf
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
    stock.limit[q] = count + max(32, count // 5)
    return count


@leaf
def _go(
    queries: Queries,
    q: int,
    items: Items,
    found: int,
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
    """Lets the items of a stretch arrive, with all departures before `bound`. (count, used)"""
    k = queries.k[q]
    soon = next_due(band, count, k, never)
    for place in range(found):
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
        if used > before:
            soon = next_due(band, count, k, never)
        if count > stock.limit[q]:
            count = _pruned(queries, q, band, count, radius, clock + items.rows, stock, work)
    while soon < bound and not queries.counted[q]:
        count, used = depart(band, count, k, q, soon, log, used)
        soon = next_due(band, count, k, never)
    return count, used


@leaf
def _is_recent(items: Items, recent: int, b: int, band: Band, place: int) -> bool:
    """Whether an entry is one of the items that the buffer keeps after b."""
    return recent < b and band.number[place] >= items.number[recent]


@leaf
def _settle(
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
    have = 0
    for place in range(count):
        have += _is_recent(items, recent, b, band, place)
    if (radius == math.inf and have >= queries.target[q]) or have > queries.upper[q]:
        rank(band, min(count, queries.k[q]), count)
        have = place = 0
        while have < queries.target[q]:
            have += _is_recent(items, recent, b, band, place)
            place += 1
        radius = band.dist[place - 1]
        while count > place and band.dist[count - 1] > radius:
            count -= 1
    elif radius < math.inf and have < queries.need[q]:
        low = max(_index(items.clock, now - queries.size[q]), _index(items.number, queries.start[q]))
        if low < b:
            squares(items.place, queries.point, q, low, b, work.square)
        wider = _wider(queries, q, items, low, recent, b, work.square, work.radii)
        alive = now + items.rows
        count = _recall(queries, q, items, low, b, radius, wider, alive, band, count, work.square)
        return count, wider
    return count, radius


@leaf
def _settle_pa(
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


@leaf
def _all_in(
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
    low = _index(items.number, queries.start[q])
    if a == 0 or low >= a or queries.method[q] == PA:
        return count
    now = items.clock[a - 1] if a > items.fresh else items.now
    low = max(low, _index(items.clock, now - queries.size[q]))
    if low >= a:
        return count
    squares(items.place, queries.point, q, low, a, work.square)
    return _recall(queries, q, items, low, a, radius, math.inf, now + items.rows, band, count, work.square)


@leaf
def _follow(
    queries: Queries,
    q: int,
    items: Items,
    boxes: Boxes,
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
    if queries.method[q] != PA:
        count = _take_late(queries, q, items, radius, band, count)
    a = max(items.fresh, _index(items.number, queries.start[q]))
    end = max(a, _index(items.number, queries.stop[q]))
    filters = queries.method[q] != RA and not queries.counted[q]
    while True:
        b = _stretch(queries, q, items, boxes, radius, a, end) if a < end else end
        bound = queries.bound[q] if b == end else items.clock[b - 1] + items.rows
        known = radius
        if (
            radius < math.inf
            and queries.method[q] != PA
            and not outlives(band, count, queries.need[q], bound)
        ):
            count = _all_in(queries, q, items, a, band, count, radius, work)
            radius = math.inf
        found = _match(queries, q, items, boxes, radius, a, b, work) if a < b else 0
        count, used = _go(queries, q, items, found, bound, band, count, radius, stock, log, used, never, work)
        if queries.method[q] == PA:
            if filters:
                count, radius = _settle_pa(queries, q, items, a, bound, found, band, count, known, stock)
                if stock.known[q] >= 1.0 and (known == math.inf or b == end):
                    stock.limit[q] = 0  # what is stored is small
        elif b > 0 and filters:
            recent = max(
                _index_after(items.clock, items.clock[b - 1] - queries.recent[q], 0, b), b - MOST_RECENT
            )
            count, radius = _settle(queries, q, items, recent, b, band, count, radius, work)
            if b == end:
                oldest[0] = min(oldest[0], items.number[recent] if recent < b else items.number[b - 1] + 1)
        if count > stock.limit[q]:
            alive = stock.seen[q] if queries.counted[q] else bound
            count = _pruned(queries, q, band, count, radius, alive, stock, work)
        a = b
        if a == end:
            stock.radius[q] = radius
            return count, used


@kernel
def _scratch(items: Items, most: int, held: int) -> Scratch:
    n = len(items.number)
    return Scratch(
        np.empty(n + LEAF, np.int64),
        np.empty(n + LEAF, np.float64),
        np.empty(n + LEAF, np.float64),
        np.empty(max(most, n + held), np.int64),
        np.empty(most, items.clock.dtype),
        np.empty(most, np.float64),
        np.empty(LEAVES, np.float64),
    )


@kernel
def run(
    queries: Queries, stock: Stock, items: Items, boxes: Boxes, never: Any, ask: bool
) -> tuple[Stock, Log, int, Array, Array, Array]:
    """One batch for a group of queries.

    Returns the stock after it (what a query remembers is changed in place), the log and how much of it is
    used, the numbers of the oldest item that must stay in the buffer and of the oldest that is a candidate
    and in the window, for each query until when its guards hold (if asked), and whether it changed.
    """
    total, n = len(queries.k), len(items.number)
    held = 0
    for q in range(total):
        held = max(held, stock.first[q + 1] - stock.first[q])
    most = max(1, queries.target.max(), queries.need.max(), queries.k.max()) if total else 1
    work = _scratch(items, most, held)
    first = np.zeros(total + 1, np.int64)
    until = np.full(total, never)
    changed = np.zeros(total, np.bool_)
    out = new_band(len(stock.dist) + 16 * total + 64, items.clock)
    band = new_band(n + 256, items.clock)
    log = new_log(4 * n + 1024, items.clock)
    oldest = np.full(2, 2**62)
    used = 0
    filled = 0
    for q in range(total):
        begin = stock.first[q]
        held = stock.first[q + 1] - begin
        if held + n > len(band.dist):
            band = new_band(2 * (held + n), items.clock)
        if used + 4 * n + 2 * held + 16 > len(log.op):
            log = wider_log(log, used, 2 * (used + 4 * n + 2 * held + 16))
        for place in range(held):
            band.dist[place] = stock.dist[begin + place]
            band.number[place] = stock.number[begin + place]
            band.due[place] = stock.due[begin + place]
        radius, limit, seen, rows = stock.radius[q], stock.limit[q], stock.seen[q], used
        pace, known = stock.pace[q], stock.known[q]
        count, used = _follow(queries, q, items, boxes, stock, band, held, log, used, never, work, oldest)
        if filled + count > len(out.dist):
            out = wider_band(out, filled, 2 * (filled + count))
        same = (
            count == held
            and used == rows
            and radius == stock.radius[q]
            and limit == stock.limit[q]
            and seen == stock.seen[q]
            and pace == stock.pace[q]
            and known == stock.known[q]
        )
        alive = stock.seen[q] if queries.counted[q] else queries.bound[q]
        for place in range(count):
            if band.due[place] >= alive:
                oldest[1] = min(oldest[1], band.number[place])
            same = same and band.number[place] == stock.number[begin + place]
            out.dist[filled + place] = band.dist[place]
            out.number[filled + place] = band.number[place]
            out.due[filled + place] = band.due[place]
        changed[q] = not same
        if ask and queries.method[q] != PA and stock.radius[q] < math.inf:
            until[q] = holds_until(band, count, queries.need[q], work.moments)
        filled += count
        first[q + 1] = filled
    after = Stock(
        first,
        out.dist[:filled],
        out.number[:filled],
        out.due[:filled],
        stock.radius,
        stock.limit,
        stock.seen,
        stock.pace,
        stock.known,
    )
    return after, log, used, oldest, until, changed
