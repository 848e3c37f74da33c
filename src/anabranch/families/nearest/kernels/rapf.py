"""RA, RAPF and PA over a batch of items, one query after the other (D-ZaLaPS, sections 4.1 to 4.4).

RA keeps every item that is not dominated. RAPF delays: a query has a radius, and an item beyond it is not
inserted; it waits in the recent buffer, which all queries share. Two things make that exact. Let the
*guards* be `need` = k candidates within the radius.

1. While the guards are in the window, no item beyond the radius is among the k nearest. `outlives` checks
   that before every stretch of items; where it fails, all that waits is inserted and the radius is infinite
   for that stretch.
2. What leaves the buffer while beyond the radius is dominated by guards that are younger. `settle` sees to
   that after every stretch: at least k candidates are among the recent items, those the buffer will keep; if
   there are fewer, the radius grows until there are, and what waited within the new radius is inserted.

       numbers      ... 700 ........ 850 .............. 1000 | 1001 ...
                        |<- leave    |<- recent: buffer ->|    new
       radius r: k of 850..1000 are within r, so what is older than 850 and beyond r is dominated for good

The radius shrinks when there are more than `upper` recent candidates, grows when there are fewer than
`need`, and either way to `target`, so that it moves seldom. The number of items that a query looks at
does not depend on its window.

PA has no buffer: what is beyond the radius is gone, and so is a candidate whose chances have become small
(probable_skyband.py).

A query goes through a batch stretch by stretch: `run` -> `_follow_queries` -> `_follow` -> `_let_arrive`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anabranch.families.nearest.kernels.arrays import (
    PA,
    RA,
    RAPF,
    Items,
    Memory,
    Moment,
    Moments,
    Queries,
    QueryRow,
    Scratch,
    first_of,
    grown,
    query_at,
)
from anabranch.families.nearest.kernels.item_boxes import (
    BLOCK,
    BUNCH,
    BUNCHES,
    LEAF,
    ItemBoxes,
    sort_by_item,
    within,
)
from anabranch.families.nearest.kernels.items_in_balls import BallItems
from anabranch.families.nearest.kernels.probable_skyband import keep_probable, settle_pa
from anabranch.families.nearest.kernels.radius import add_late, first_index, insert_all, passes, settle
from anabranch.families.nearest.kernels.skyband import (
    NOBODY,
    Band,
    Log,
    arrive,
    depart,
    holds_until,
    move,
    new_band,
    new_log,
    next_due,
    oldest_alive,
    outlives,
    prune,
    replace,
    sweep,
)
from anabranch.model.arrays import Bools, Floats, Ints
from anabranch.numeric.distances import SOME, square_limit, squares
from anabranch.numeric.jit import inline, leaf, loop, twig, zero

#: The buffer keeps no more items than this for those that wait.
MOST_RECENT = 32768


class BatchData(NamedTuple):
    """What all queries of a call share."""

    items: Items
    boxes: ItemBoxes
    in_balls: BallItems  # what lies within their radii, if that is known already
    never: Moment  # after all moments
    until_wanted: bool


class BatchOutcome(NamedTuple):
    """What a batch leaves behind, query by query."""

    first: Ints  # [q + 1]: where its candidates begin
    until: Moments  # [q]: until when its guards hold, if that is wanted
    changed: Bools  # [q]
    oldest: (
        Ints  # [2]: the numbers of the oldest item for the buffer and of the oldest candidate in the window
    )


def run(
    queries: Queries, memory: Memory, first: Ints, candidates: Band, batch: BatchData
) -> tuple[Band, Log, BatchOutcome]:
    """Brings a group of queries up to date with a batch; they share coordinates and clock.

    The candidates of query q are the entries first[q] to first[q + 1]. Returns the candidates after the batch
    and the results in order; `memory` is changed in place.
    """
    total, n, kind = len(queries.k), len(batch.items.number), batch.items.clock.dtype
    most_size = int(np.diff(first).max(initial=0))
    work = _scratch(queries, n, most_size, kind)
    band = new_band(n + most_size, kind)
    out = new_band(len(candidates.dist) + 8 * total + most_size + n, kind)
    log = new_log(4 * n + 2 * most_size + 8 * total + 16, kind)
    after = BatchOutcome(
        np.zeros(total + 1, np.int64),
        np.full(total, batch.never, kind),
        np.zeros(total, np.bool_),
        np.full(2, NOBODY),
    )
    q = used = 0
    while True:
        q, used = _follow_queries(
            q, queries, memory, first, candidates, batch, work, band, out, log, used, after
        )
        filled = int(after.first[q])
        if q == total:
            break
        if _has_room(n, most_size, used, log.op):
            out = grown(out, filled)
        else:
            log = grown(log, used)
    return first_of(out, filled), first_of(log, used), after


def _scratch(queries: Queries, n: int, most_size: int, kind: np.dtype[np.generic]) -> Scratch:
    most = max(1, *(int(column.max(initial=0)) for column in (queries.target, queries.need, queries.k)))
    return Scratch(
        np.empty(n + LEAF, np.int64),
        np.empty(n + LEAF),
        np.empty(n + LEAF),
        np.empty(max(most, n + most_size) + LEAF, np.int64),
        np.empty(most, kind),
        np.empty(most),
        np.empty(BUNCHES),
        np.empty(BUNCH),
        np.empty(SOME),
    )


def _has_room(n: int, size: int, used: int, log: Moments) -> bool:
    """Returns whether a log has room for a query with so many candidates: four rows per item, two per
    candidate.
    """
    return used + 4 * n + 2 * size + 16 <= len(log)


_fits = leaf(_has_room)


@loop
def _follow_queries(
    q: int, queries: Queries, memory: Memory, first: Ints, candidates: Band, batch: BatchData, work: Scratch,
    band: Band, out: Band, log: Log, used: int, after: BatchOutcome,
) -> tuple[int, int]:  # fmt: skip
    """Brings queries from q on up to date, as far as there is room for candidates and log. Returns the next
    query and how much of the log is used.
    """
    items, boxes, in_balls, point, limits = (
        batch.items,
        batch.boxes,
        batch.in_balls,
        queries.point,
        queries.limits,
    )
    n, filled = len(items.number), after.first[q]
    while q < len(queries.k):
        begin = first[q]
        size = first[q + 1] - begin
        if not (_fits(n, size, used, log.op) and filled + size + n <= len(out.dist)):
            break
        query = query_at(queries, q)
        move(candidates, begin, band, zero(), size)
        radius, limit, seen, rows = memory.radius[q], memory.limit[q], memory.seen[q], used
        pace, known = memory.pace[q], memory.known[q]
        count, used = _follow(
            query, q, point, limits, items, boxes, in_balls, memory, band, size, log, used, batch.never, work,
            after.oldest,
        )  # fmt: skip
        move(band, zero(), out, filled, count)
        same = (
            count == size
            and used == rows
            and radius == memory.radius[q]
            and limit == memory.limit[q]
            and seen == memory.seen[q]
            and pace == memory.pace[q]
            and known == memory.known[q]
        )
        alive = memory.seen[q] if query.counted else query.bound
        after.oldest[1] = min(after.oldest[1], oldest_alive(band, count, alive))
        entry = 0
        while same and entry < count:
            same = band.number[entry] == candidates.number[begin + entry]
            entry += 1
        after.changed[q] = not same
        if batch.until_wanted and query.method != PA and memory.radius[q] < math.inf:
            after.until[q] = holds_until(band, count, query.need, work.moments)
        filled += count
        q += 1
        after.first[q] = filled
    return q, used


# one query


@inline
def _follow(
    query: QueryRow, q: int, point: Floats, limits: Ints, items: Items, boxes: ItemBoxes, in_balls: BallItems,
    memory: Memory, band: Band, count: int, log: Log, used: int, never: Moment, work: Scratch, oldest: Ints,
) -> tuple[int, int]:  # fmt: skip
    """One query through the batch, stretch by stretch; its radius is in the memory before and after. Returns
    (count, used).

    There must be room in the band for all items, and in the log for four rows per item and two per candidate.
    """
    clock, number = items.clock, items.number
    radius = memory.radius[q]
    if query.method == RAPF and not query.counted:  # the others have seen all there is
        count = add_late(query, q, point, items, radius, band, count)
    a = max(items.first_new, first_index(number, query.first_item))
    end = max(a, first_index(number, query.end_item))
    filters = query.method != RA and not query.counted
    found = last = zero()
    reach, ahead = -1.0, a  # work.item[:found]: what is within this reach, before the item `ahead`
    if len(in_balls.first) > 0 and radius < math.inf:
        reach, ahead = radius, end
        found = _copy_found(query, q, items.mask, in_balls, a, end, work)
    while True:
        b = _stretch_end(query, clock, boxes.start, radius, a, end) if a < end else end
        bound = query.bound if b == end else clock[b - 1] + items.by_rows
        before = radius
        if radius < math.inf and query.method != PA and not outlives(band, count, query.need, bound):
            count = insert_all(query, q, point, items, boxes, a, band, count, radius, work)
            radius = math.inf
        begin = last
        if a < b and (radius > reach or b > ahead):
            reach, ahead = radius, _ahead(items, boxes.start, radius, a, b, end)
            begin, found = zero(), _find_ahead(query, q, point, items, boxes, reach, a, ahead, work)
        last, came = begin, zero()
        while last < found and work.item[last] < b:
            came += work.dist[last] <= radius
            last += 1
        count, used = _let_arrive(
            query, q, limits, items, begin, last, bound, band, count, radius, memory, log, used, never, work
        )
        if query.method == PA:
            if filters:
                count, radius = settle_pa(query, q, items, a, bound, came, band, count, before, memory)
                if memory.known[q] >= 1.0 and (before == math.inf or b == end):
                    memory.limit[q] = 0  # what is stored is small
        elif b > 0 and filters:
            since = clock[b - 1] - query.recent
            recent = _index_after(clock, since, max(0, b - MOST_RECENT), b)
            count, radius = settle(query, q, point, items, boxes, recent, b, band, count, radius, work)
            if b == end:
                oldest[0] = min(oldest[0], number[recent] if recent < b else number[b - 1] + 1)
        if count > memory.limit[q]:
            alive = memory.seen[q] if query.counted else bound
            count = _pruned(query, q, limits, band, count, radius, alive, memory, work.numbers)
        a = b
        if a == end:
            break
    if query.method == RAPF and radius < math.inf:
        memory.limit[q] = min(memory.limit[q], _roomy(count))  # it is from times of more candidates
    memory.radius[q] = radius
    return count, used


@leaf
def _let_arrive(
    query: QueryRow, q: int, limits: Ints, items: Items, first: int, last: int, bound: Moment, band: Band,
    count: int, radius: float, memory: Memory, log: Log, used: int, never: Moment, work: Scratch,
) -> tuple[int, int]:  # fmt: skip
    """Lets the items of a stretch arrive, those of work.item[first:last] that are within the radius now, with
    all departures before `bound`. Returns (count, used).
    """
    k, by_rows, item, dist = query.k, items.by_rows, work.item, work.dist
    soon = next_due(band, count, k, never)
    for index in range(first, last):
        if dist[index] > radius:
            continue
        i = item[index]
        now = clock = items.clock[i]
        if query.counted:
            clock = memory.seen[q]
            memory.seen[q] += 1
        while soon < clock:
            count, used = depart(band, count, k, q, soon, log, used)
            soon = next_due(band, count, k, never)
        before = used
        far, number, due = dist[index], items.number[i], clock + query.size
        if by_rows and soon == clock:
            count, used = replace(band, count, k, q, soon, now, far, number, due, log, used)
        else:
            count, used = arrive(band, count, k, q, now, far, number, due, log, used)
        if used > before and (count <= k or by_rows or band.due[count - 1] == soon):
            soon = next_due(band, count, k, never)  # who gave way is the last entry now
        if count > memory.limit[q]:
            alive = clock + by_rows
            count = _pruned(query, q, limits, band, count, radius, alive, memory, work.numbers)
    while soon < bound and not query.counted:
        count, used = depart(band, count, k, q, soon, log, used)
        soon = next_due(band, count, k, never)
    return count, used


@twig
def _pruned(
    query: QueryRow, q: int, limits: Ints, band: Band, count: int, radius: float, alive: Moment, memory:
    Memory, numbers: Ints,
) -> int:  # fmt: skip
    """Prunes, and sets the limit a fifth above what remains, the paper's pruning coefficient of 0.2. Returns
    the count.

    Within RAPF's radius there are few candidates even with the dominated ones: it is enough to drop those
    that have left the window, and there is room for more. PA keeps all in a query's first window.
    """
    k, method, strict = query.k, query.method, query.method == RA or query.counted
    if method == PA and not strict and memory.known[q] >= 1.0:
        count = keep_probable(band, count, k, alive, limits, query.limits_row, numbers)
        memory.limit[q] = count + (count - k) // 5
        return count
    if not strict:
        count = sweep(band, count, k, alive)
    if strict or (method == RAPF and (radius == math.inf or count > 4 * query.target)):
        count = prune(band, count, k, alive, numbers)
    memory.limit[q] = count + max(4, count // 5) if strict else _roomy(count)
    return count


@leaf
def _roomy(count: int) -> int:
    """Returns the limit of so many candidates, where most that come are not dominated."""
    return count + max(12, count // 5)


# the items of a stretch


@leaf
def _index_after(values: Moments, value: Moment, low: int, high: int) -> int:
    """Returns the first index from `low` on whose value is greater, or `high`. Often it is one of the two."""
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
def _block_end(starts: Ints, a: int, end: int) -> int:
    """Returns where the block of item `a` ends."""
    for block in range(len(starts) - 1):
        if starts[block] > a:
            return min(end, starts[block])
    return end


@leaf
def _stretch_end(query: QueryRow, clock: Moments, starts: Ints, radius: float, a: int, end: int) -> int:
    """Returns where the stretch of items that begins at `a` ends: with its block, or when the window has
    moved by a step.
    """
    b = _block_end(starts, a, end)
    if query.method == RA or query.counted:
        return b
    if radius == math.inf:  # keep it short: after it there may be a radius
        b = min(b, a + max(64, 4 * query.target))
    return max(a + 1, _index_after(clock, clock[a] + query.step, a, b))


@leaf
def _uses_boxes(items: Items, radius: float, a: int, b: int) -> bool:
    """Returns whether so many items are better looked for by their boxes."""
    return radius < math.inf and 4 * (b - a) >= min(BLOCK, len(items.number) - items.first_new)


@leaf
def _ahead(items: Items, starts: Ints, radius: float, a: int, b: int, end: int) -> int:
    """Returns how far to look in one go, from a stretch a <= i < b on: as boxes have no order, a block is
    looked through for up to four stretches.
    """
    after = min(_block_end(starts, a, end), a + 4 * (b - a))
    return after if _uses_boxes(items, radius, a, after) else b


@inline
def _find_ahead(
    query: QueryRow,
    q: int,
    point: Floats,
    items: Items,
    boxes: ItemBoxes,
    radius: float,
    a: int,
    b: int,
    work: Scratch,
) -> int:
    """Finds the items a <= i < b that are within the radius and pass the query's condition: work.item,
    work.dist, in stream order. Returns how many.
    """
    if _uses_boxes(items, radius, a, b):
        found = within(boxes, point, q, radius, a, b, work.item, work.dist, work.gaps, work.leaf_gaps)
        sort_by_item(work.item, work.dist, found)
    else:
        squares(items.position, point, q, a, b, work.square)
        found = zero()
        limit = square_limit(radius)
        for i in range(a, b):
            if not work.square[i - a] <= limit:
                continue
            far = math.sqrt(work.square[i - a])
            if far <= radius:
                work.item[found] = i
                work.dist[found] = far
                found += 1
    return _passing(query.mask, items.mask, found, work.item, work.dist)


@inline
def _copy_found(
    query: QueryRow, q: int, masks: Bools, in_balls: BallItems, a: int, end: int, work: Scratch
) -> int:
    """The same for all items a <= i < end, where it is known already what lies in the query's ball."""
    found = zero()
    for index in range(in_balls.first[q], in_balls.first[q + 1]):
        if a <= in_balls.item[index] < end:
            work.item[found] = in_balls.item[index]
            work.dist[found] = in_balls.dist[index]
            found += 1
    sort_by_item(work.item, work.dist, found)
    return _passing(query.mask, masks, found, work.item, work.dist)


@leaf
def _passing(row: int, masks: Bools, found: int, item: Ints, dist: Floats) -> int:
    """Keeps those of item[:found] that pass the condition of that row. Returns how many."""
    if row < 0:
        return found
    passed = 0
    for index in range(found):
        if passes(masks, row, item[index]):
            item[passed] = item[index]
            dist[passed] = dist[index]
            passed += 1
    return passed
