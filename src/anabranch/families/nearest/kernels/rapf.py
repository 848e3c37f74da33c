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
    NOBODY,
    PA,
    RA,
    RAPF,
    Band,
    BandEntry,
    Items,
    Log,
    Memory,
    Moment,
    Moments,
    Queries,
    QueryRow,
    Room,
    Scratch,
    first_of,
    grown,
    new_band,
    new_log,
    query_at,
)
from anabranch.families.nearest.kernels.item_boxes import (
    BLOCK,
    BUNCH,
    BUNCHES,
    LEAF,
    BallItems,
    ItemBoxes,
    sort_by_item,
    within,
)
from anabranch.families.nearest.kernels.probable_skyband import keep_probable, settle_pa
from anabranch.families.nearest.kernels.skyband import (
    arrive,
    depart,
    holds_until,
    move,
    next_due,
    oldest_alive,
    outlives,
    prune,
    push,
    put,
    raise_least,
    rank,
    replace,
    sweep,
)
from anabranch.model.arrays import Bools, Floats, Ints
from anabranch.numeric.distances import SOME, near_squares, square, square_limit, squares
from anabranch.numeric.jit import inline, leaf, loop, twig, zero


class BatchData(NamedTuple):
    """What all queries of a call share."""

    items: Items
    boxes: ItemBoxes
    in_balls: BallItems  # what lies within their radii, if that is known already
    until_wanted: bool


class Stretch(NamedTuple):
    """A run of items that arrive under one radius, those of Scratch.item[first:last] that are within it; what
    is due before `bound` has left when it is through.
    """

    first: int
    last: int
    bound: Moment
    radius: float


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
    room = Room(
        new_band(n + most_size, kind),
        new_log(4 * n + 2 * most_size + 8 * total + 16, kind),
        _scratch(queries, n, most_size, kind),
    )
    out = new_band(len(candidates.dist) + 8 * total + most_size + n, kind)
    after = BatchOutcome(
        np.zeros(total + 1, np.int64),
        np.full(total, batch.items.never, kind),
        np.zeros(total, np.bool_),
        np.full(2, NOBODY),
    )
    q = used = 0
    while True:
        q, used = _follow_queries(q, used, queries, memory, first, candidates, batch, room, out, after)
        filled = int(after.first[q])
        if q == total:
            break
        if _has_room(n, most_size, used, room.log.op):
            out = grown(out, filled)
        else:
            room = room._replace(log=grown(room.log, used))
    return first_of(out, filled), first_of(room.log, used), after


def _scratch(queries: Queries, n: int, most_size: int, kind: np.dtype[np.generic]) -> Scratch:
    most = max(1, *(int(column.max(initial=0)) for column in (queries.target, queries.need, queries.k)))
    most = min(most, n + most_size + 1)  # no heap has more than there are candidates and items
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
    q: int, used: int, queries: Queries, memory: Memory, first: Ints, candidates: Band, batch: BatchData,
    room: Room, out: Band, after: BatchOutcome,
) -> tuple[int, int]:  # fmt: skip
    """Brings queries from q on up to date, as far as there is room for candidates and log. Returns the next
    query and how much of the log is used.
    """
    band, n, filled = room.band, len(batch.items.number), after.first[q]
    while q < len(queries.k):
        begin = first[q]
        size = first[q + 1] - begin
        if not (_fits(n, size, used, room.log.op) and filled + size + n <= len(out.dist)):
            break
        query = query_at(queries, q)
        move(candidates, begin, band, zero(), size)
        radius, limit, seen, rows = memory.radius[q], memory.limit[q], memory.seen[q], used
        pace, known = memory.pace[q], memory.known[q]
        count, used = _follow(query, q, queries, memory, batch, room, size, used, after.oldest)
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
            after.until[q] = holds_until(band, count, query.need, room.work.moments)
        filled += count
        q += 1
        after.first[q] = filled
    return q, used


# one query


@inline
def _follow(
    query: QueryRow, q: int, queries: Queries, memory: Memory, batch: BatchData, room: Room, count: int,
    used: int, oldest: Ints,
) -> tuple[int, int]:  # fmt: skip
    """One query through the batch, stretch by stretch; its radius is in the memory before and after. Returns
    (count, used).

    There must be room in the band for all items, and in the log for four rows per item and two per candidate.
    """
    point, limits, items, boxes, in_balls = (
        queries.point,
        queries.limits,
        batch.items,
        batch.boxes,
        batch.in_balls,
    )
    band, work = room.band, room.work
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
        stretch = Stretch(begin, last, bound, radius)
        count, used = _let_arrive(query, q, limits, items, stretch, room, count, memory, used)
        if query.method == PA:
            if filters:
                count, radius = settle_pa(query, q, items, a, bound, came, band, count, before, memory)
                if memory.known[q] >= 1.0 and (before == math.inf or b == end):
                    memory.limit[q] = 0  # what is stored is small
        elif b > 0 and filters:
            since = clock[b - 1] - query.recent
            recent = _index_after(clock, since, max(0, b - items.most_recent), b)
            count, radius = settle(query, q, point, items, boxes, recent, b, room, count, radius)
            if b == end:
                oldest[0] = min(oldest[0], _oldest_recent(number, recent, b))
        if count > memory.limit[q]:
            alive = memory.seen[q] if query.counted else bound
            count = _pruned(query, q, limits, band, count, radius, alive, memory, work.numbers, items.gamma)
        a = b
        if a == end:
            break
    if query.method == RAPF and radius < math.inf:
        roomy = _roomy(count, items.gamma)  # the limit is from times of more candidates
        memory.limit[q] = min(memory.limit[q], roomy)
    memory.radius[q] = radius
    return count, used


@leaf
def _let_arrive(
    query: QueryRow, q: int, limits: Ints, items: Items, stretch: Stretch, room: Room, count: int,
    memory: Memory, used: int,
) -> tuple[int, int]:  # fmt: skip
    """Lets the items of a stretch arrive, with all departures before its bound. Returns (count, used)."""
    band, log, numbers, item, dist = room.band, room.log, room.work.numbers, room.work.item, room.work.dist
    k, by_rows, never, radius = query.k, items.by_rows, items.never, stretch.radius
    soon = next_due(band, count, k, never)
    for index in range(stretch.first, stretch.last):
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
        entry = BandEntry(dist[index], items.number[i], clock + query.size)
        if by_rows and soon == clock:
            count, used = replace(band, count, k, q, soon, now, entry, log, used)
        else:
            count, used = arrive(band, count, k, q, now, entry, log, used)
        if used > before and (count <= k or by_rows or band.due[count - 1] == soon):
            soon = next_due(band, count, k, never)  # who gave way is the last entry now
        if count > memory.limit[q]:
            alive = clock + by_rows
            count = _pruned(query, q, limits, band, count, radius, alive, memory, numbers, items.gamma)
    while soon < stretch.bound and not query.counted:
        count, used = depart(band, count, k, q, soon, log, used)
        soon = next_due(band, count, k, never)
    return count, used


@twig
def _pruned(
    query: QueryRow, q: int, limits: Ints, band: Band, count: int, radius: float, alive: Moment, memory:
    Memory, numbers: Ints, gamma: float,
) -> int:  # fmt: skip
    """Prunes, and sets the limit above what remains, by the paper's pruning coefficient gamma. Returns the
    count.

    Within RAPF's radius there are few candidates even with the dominated ones: it is enough to drop those
    that have left the window, and there is room for more. PA keeps all in a query's first window.
    """
    k, method, strict = query.k, query.method, query.method == RA or query.counted
    if method == PA and not strict and memory.known[q] >= 1.0:
        count = keep_probable(band, count, k, alive, limits, query.limits_row, numbers)
        memory.limit[q] = count + int((count - k) * gamma)
        return count
    if not strict:
        count = sweep(band, count, k, alive)
    if strict or (method == RAPF and (radius == math.inf or count > 4 * query.target)):
        count = prune(band, count, k, alive, numbers)
    memory.limit[q] = count + max(4, int(count * gamma)) if strict else _roomy(count, gamma)
    return count


@leaf
def _roomy(count: int, gamma: float) -> int:
    """Returns the limit of so many candidates, where most that come are not dominated."""
    return count + max(12, int(count * gamma))


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


# the radius: finding what waits beyond it, and setting it after a stretch of items. Nothing here changes the
# k nearest: what is inserted is not among them yet


@leaf
def first_index(values: Moments, value: Moment) -> int:
    """Returns the first index whose value is not less. Often that is one of the ends."""
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
def passes(masks: Bools, row: int, i: int) -> bool:
    """Returns whether item i passes the condition of that row; -1 is none."""
    return row < 0 or masks[row, i]


@inline
def add_late(
    query: QueryRow, q: int, point: Floats, items: Items, radius: float, band: Band, count: int
) -> int:
    """Adds items that come to be known only now, though they arrived before, if they are within the radius.
    Returns the count.

    They are not among the k nearest yet: guards kept them out so far.
    """
    for i in items.late:
        number = items.number[i]
        if number < query.first_item or not passes(items.mask, query.mask, i):
            continue
        far = math.sqrt(square(items.position, point, q, i))
        due = items.clock[i] + query.size
        if far <= radius and due >= items.now + items.by_rows and not _is_candidate(band, count, number):
            put(band, count, far, number, due)
            count += 1
    return count


@inline
def _is_candidate(band: Band, count: int, number: int) -> bool:
    """Returns whether an item is a candidate already; it may be, if the query comes from another zone."""
    for entry in range(count):
        if band.number[entry] == number:
            return True
    return False


@leaf
def _insert_between(
    query: QueryRow,
    items: Items,
    found: int,
    inner: float,
    outer: float,
    alive: Moment,
    band: Band,
    count: int,
    work: Scratch,
) -> int:
    """Inserts those of the items work.numbers[:found] that lie between two radii. Returns the count."""
    for index in range(found):
        i, far = work.numbers[index], work.square[index]
        if far > inner and far <= outer and passes(items.mask, query.mask, i):
            due = items.clock[i] + query.size
            if due >= alive:
                put(band, count, far, items.number[i], due)
                count += 1
    return count


@twig
def insert_all(
    query: QueryRow,
    q: int,
    point: Floats,
    items: Items,
    boxes: ItemBoxes,
    a: int,
    band: Band,
    count: int,
    radius: float,
    work: Scratch,
) -> int:
    """Inserts all that waits before item `a`: the guards may not outlive the stretch that begins there.
    Returns the count.
    """
    low = first_index(items.number, query.first_item)
    if a == 0 or low >= a or query.method == PA:
        return count
    now = items.clock[a - 1] if a > items.first_new else items.now
    low = max(low, first_index(items.clock, now - query.size))
    found = _find(point, q, items.position, boxes, low, a, math.inf, work)
    return _insert_between(query, items, found, radius, math.inf, now + items.by_rows, band, count, work)


@twig
def _find(
    point: Floats,
    q: int,
    position: Floats,
    boxes: ItemBoxes,
    low: int,
    high: int,
    reach: float,
    work: Scratch,
) -> int:
    """Finds the items low <= i < high that are within `reach`: work.numbers, and their distances in
    work.square. Returns how many.

    Those in boxes are found by them, unless all of them are looked for.
    """
    found, first = zero(), high
    if reach < math.inf and len(boxes.start) > 1:
        first = min(high, max(low, boxes.start[0]))
        found = within(
            boxes, point, q, reach, first, high, work.numbers, work.square, work.gaps, work.leaf_gaps
        )
    limit, begin = square_limit(reach), found
    last = near_squares(position, point, q, low, first, limit, work.numbers, work.square, work.some, found)
    for index in range(begin, last):
        far = math.sqrt(work.square[index])
        if far <= reach:
            work.numbers[found], work.square[found] = work.numbers[index], far
            found += 1
    return found


@leaf
def _closest(query: QueryRow, masks: Bools, recent: int, found: int, work: Scratch) -> int:
    """Puts the distances of the `target` nearest among the recent ones of the items work.numbers[:found] into
    the heap work.radii. Returns how many. They are negated: the farthest is on top.
    """
    size = zero()
    most, heap = query.target, work.radii
    for index in range(found):
        i, value = work.numbers[index], -work.square[index]
        if i < recent or (size == most and value <= heap[0]) or not passes(masks, query.mask, i):
            continue
        if size < most:
            push(heap, size, value)
            size += 1
        else:
            raise_least(heap, most, value)
    return size


@leaf
def _oldest_recent(number: Ints, recent: int, stop: int) -> int:
    """Returns the number of the oldest of the items recent <= i < stop, or what comes after all of them."""
    return number[recent] if recent < stop else number[stop - 1] + 1


@leaf
def _recent_entries(band: Band, count: int, number: Ints, recent: int, stop: int) -> int:
    """Returns how many entries are among the items recent <= i < stop."""
    oldest, have = _oldest_recent(number, recent, stop), zero()
    for entry in range(count):
        have += band.number[entry] >= oldest
    return have


@twig
def _shrunk(query: QueryRow, band: Band, count: int, oldest: int) -> tuple[int, float]:
    """Returns (count, radius) with the least radius within which `target` entries are not older than
    `oldest`; what lies beyond it is dropped.
    """
    rank(band, min(count, query.k), count)
    have = entry = 0
    while have < query.target:
        have += band.number[entry] >= oldest
        entry += 1
    radius = band.dist[entry - 1]
    while count > entry and band.dist[count - 1] > radius:
        count -= 1
    return count, radius


@twig
def _grown(
    query: QueryRow,
    q: int,
    point: Floats,
    items: Items,
    boxes: ItemBoxes,
    recent: int,
    high: int,
    room: Room,
    count: int,
    radius: float,
) -> tuple[int, float]:
    """Returns (count, radius) with a radius within which `target` of the items recent <= i < high lie, or all
    of them if there are at least `need`; else it is infinite. What waits within it is inserted.

    Looks where twice as many should lie, judged by those that lie within the old radius; if they do not,
    everywhere.
    """
    band, work = room.band, room.work
    have = _recent_entries(band, count, items.number, recent, high)
    now, wider = items.clock[high - 1], math.inf
    low = max(first_index(items.clock, now - query.size), first_index(items.number, query.first_item))
    reach = radius * (2.0 * query.target / max(1, have)) ** (1.0 / point.shape[1])
    while True:
        found = _find(point, q, items.position, boxes, low, high, reach, work)
        size = _closest(query, items.mask, recent, found, work)
        if size >= query.target or reach == math.inf:
            break
        reach = math.inf
    if size >= query.need:
        wider = -work.radii[0]
    alive = now + items.by_rows
    return _insert_between(query, items, found, radius, wider, alive, band, count, work), wider


@inline
def settle(
    query: QueryRow,
    q: int,
    point: Floats,
    items: Items,
    boxes: ItemBoxes,
    recent: int,
    b: int,
    room: Room,
    count: int,
    radius: float,
) -> tuple[int, float]:
    """After a stretch that ends at item b: returns (count, radius) for what follows, with enough guards among
    the items from `recent` on.
    """
    have = _recent_entries(room.band, count, items.number, recent, b)
    if (radius == math.inf and have >= query.target) or have > query.upper:
        return _shrunk(query, room.band, count, _oldest_recent(items.number, recent, b))
    if radius < math.inf and have < query.need:
        return _grown(query, q, point, items, boxes, recent, b, room, count, radius)
    return count, radius
