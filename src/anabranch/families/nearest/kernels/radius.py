"""The radius of a query: finding what waits beyond it, and setting it after a stretch of items (rapf.py).

Nothing here changes the k nearest: what is inserted is not among them yet.
"""

from __future__ import annotations

import math

from anabranch.families.nearest.kernels.arrays import PA, Items, Moment, Moments, QueryRow, Scratch
from anabranch.families.nearest.kernels.item_boxes import ItemBoxes, within
from anabranch.families.nearest.kernels.skyband import Band, push, put, raise_least, rank
from anabranch.model.arrays import Bools, Floats
from anabranch.numeric.distances import near_squares, square, square_limit
from anabranch.numeric.jit import inline, leaf, twig, zero


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

    They are not among the k nearest yet: guards kept them out so far (rapf.py).
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
    have: int,
    band: Band,
    count: int,
    radius: float,
    work: Scratch,
) -> tuple[int, float]:
    """Returns (count, radius) with a radius within which `target` of the items recent <= i < high lie, or all
    of them if there are at least `need`; else it is infinite. What waits within it is inserted.

    Looks where twice as many should lie, judged by those `have` that lie within the old radius; if they do
    not, everywhere.
    """
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
    band: Band,
    count: int,
    radius: float,
    work: Scratch,
) -> tuple[int, float]:
    """After a stretch that ends at item b: returns (count, radius) for what follows, with enough guards among
    the items from `recent` on.
    """
    oldest = items.number[recent] if recent < b else items.number[b - 1] + 1
    have = zero()
    for entry in range(count):
        have += band.number[entry] >= oldest
    if (radius == math.inf and have >= query.target) or have > query.upper:
        return _shrunk(query, band, count, oldest)
    if radius < math.inf and have < query.need:
        return _grown(query, q, point, items, boxes, recent, b, have, band, count, radius, work)
    return count, radius
