"""Items in small boxes: what lies within a radius of a point, without a look at most of the rest.

Items come in blocks, in stream order. Each block is halved along its widest dimension until at most LEAF
items remain: a leaf, with the box that bounds it. BUNCH leaves in a row lie near each other and have a box,
too. A ball is first compared with the boxes of bunches, all of them, one dimension after the other, which is
a loop over neighbouring numbers; then with the leaves of the bunches that it touches; then with their items.

    5,000 items, 4 dimensions: 313 leaves in 20 bunches; a ball with 4 of the items touches 6 leaves

A query goes through a batch block by block, so blocks are long.

Gaps between a point and a box are taken a little too small: rounding can add a leaf, never lose one.

`within` finds the items in one ball. Where there are more queries than items, an item lies in several balls,
and one way down through the boxes of the queries' points finds all of them: `items_in_balls`. A box of points
is of interest to an item that is no farther from it than the largest radius of its points. Items go leaf by
leaf, so that the next one finds much of what it needs in the cache.

    5,000 items, 40,000 queries of 4 dimensions, k = 9: an item lies in 25 balls and touches some 20 leaves,
    where 40,000 balls would touch 6 leaves each

This is only faster: `within` finds the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anabranch.families.nearest.kernels.arrays import grown
from anabranch.model.arrays import Array, Floats, Ints, Ints32
from anabranch.numeric.distances import square_limit
from anabranch.numeric.jit import leaf, loop, zero

#: Items per block at most.
BLOCK = 8192
LEAF = 16
BUNCH = 16
BUNCHES = BLOCK // LEAF // BUNCH
#: Gaps to boxes are compared with a little more than a limit, so that rounding adds a leaf and loses none.
ROUNDING = 1.0 + 1e-12


class ItemBoxes(NamedTuple):
    """Blocks of leaves. Items with a missing coordinate are in no leaf; unused leaves, and the unused part of
    a leaf, are infinitely far.
    """

    start: Ints  # [blocks + 1]: the first item of each block
    leaves: Ints  # [blocks]
    low: Floats  # [blocks, d, leaves]: the boxes; there is room for whole bunches
    high: Floats  # [blocks, d, leaves]
    bunch_low: Floats  # [blocks, d, bunches]: the boxes of bunches
    bunch_high: Floats  # [blocks, d, bunches]
    item: Ints  # [blocks, leaves, LEAF], -1 where unused
    position: Floats  # [blocks, leaves, d, LEAF]


def boxes_of(position: Floats, first: int, most: int) -> ItemBoxes:
    """Returns the boxes of the items from `first` on, at most so many per block. position: [d, n]"""
    d, n = position.shape
    blocks = -(-(n - first) // most)  # of equal length
    start = np.array([first + block * (n - first) // blocks for block in range(blocks)] + [n], np.int64)
    longest = int(np.diff(start).max(initial=0))
    bunches = -(-longest // (BUNCH * LEAF))
    leaves = BUNCH * bunches
    boxes = ItemBoxes(
        start,
        np.zeros(blocks, np.int64),
        np.full((blocks, d, leaves), math.inf),
        np.full((blocks, d, leaves), math.inf),
        np.empty((blocks, d, bunches)),
        np.empty((blocks, d, bunches)),
        np.full((blocks, leaves, LEAF), -1),
        np.full((blocks, leaves, d, LEAF), math.inf),
    )
    work = _Halves(
        np.empty(longest, np.int64), np.empty(longest), np.empty((64, 2), np.int64), np.empty((64, d))
    )
    for block in range(blocks):
        _fill_block(position, boxes, block, work)
    return boxes


class _Halves(NamedTuple):
    """Scratch space for halving a block."""

    order: Ints  # the items, those of a half side by side
    key: Floats  # the coordinate along which they are halved
    stack: Ints  # [64, 2]: the halves still to do, as spans of `order`
    widths: Floats  # [64, d]: of their boxes, about


@loop
def _fill_block(position: Floats, boxes: ItemBoxes, block: int, work: _Halves) -> None:
    """Puts the items of a block into leaves and bunches.

    Which dimension is the widest is reckoned from the widths of the block, halved with every split; it
    need not be exact.
    """
    d, order, key, stack, widths = position.shape[0], work.order, work.key, work.stack, work.widths
    size = _whole_items(position, boxes.start[block], boxes.start[block + 1], order)
    depth = 0
    if size > 0:
        stack[0, 0], stack[0, 1] = 0, size
        for j in range(d):
            low, high = _extent(position, j, order, zero(), size)
            widths[0, j] = high - low
        depth = 1
    while depth > 0:
        depth -= 1
        a, b = stack[depth, 0], stack[depth, 1]
        if b - a <= LEAF:
            _fill_leaf(position, order, a, b, boxes, block)
            continue
        widest = 0
        for j in range(1, d):
            if widths[depth, j] > widths[depth, widest]:
                widest = j
        # the left half is whole leaves, so that only a block's last one is not full
        middle = a + ((b - a) // 2 + LEAF - 1) // LEAF * LEAF
        for spot in range(a, b):
            key[spot] = position[widest, order[spot]]
        _part(key, order, a, b, middle)
        widths[depth, widest] /= 2.0
        for j in range(d):
            widths[depth + 1, j] = widths[depth, j]
        stack[depth, 0], stack[depth, 1] = middle, b
        stack[depth + 1, 0], stack[depth + 1, 1] = a, middle
        depth += 2
    _bunch(boxes.low, boxes.bunch_low, block, boxes.leaves[block], 1.0)
    _bunch(boxes.high, boxes.bunch_high, block, boxes.leaves[block], -1.0)


@leaf
def _whole_items(position: Floats, first: int, stop: int, order: Ints) -> int:
    """Finds the items first <= i < stop that have all coordinates: order. Returns how many."""
    size = 0
    for i in range(first, stop):
        whole = True
        for j in range(position.shape[0]):
            whole = whole and not math.isnan(position[j, i])
        if whole:
            order[size] = i
            size += 1
    return size


@leaf
def _bunch(bounds: Floats, bunch_bounds: Floats, block: int, leaves: int, sign: float) -> None:
    """The least bounds of a block's bunches, given those of its leaves; with sign = -1 the greatest."""
    for j in range(bounds.shape[1]):
        for box in range(leaves):
            bunch, bound = box // BUNCH, bounds[block, j, box]
            if box % BUNCH == 0 or sign * bound < sign * bunch_bounds[block, j, bunch]:
                bunch_bounds[block, j, bunch] = bound


@leaf
def _fill_leaf(position: Floats, order: Ints, a: int, b: int, boxes: ItemBoxes, block: int) -> None:
    """The next leaf of a block: the items order[a:b] and their box."""
    box = boxes.leaves[block]
    for j in range(position.shape[0]):
        boxes.low[block, j, box], boxes.high[block, j, box] = _extent(position, j, order, a, b)
        for spot in range(b - a):
            boxes.position[block, box, j, spot] = position[j, order[a + spot]]
    for spot in range(b - a):
        boxes.item[block, box, spot] = order[a + spot]
    boxes.leaves[block] = box + 1


@leaf
def _extent(position: Floats, j: int, order: Ints, a: int, b: int) -> tuple[float, float]:
    """Returns the least and the greatest coordinate j of the items order[a:b]."""
    low = high = position[j, order[a]]
    for spot in range(a + 1, b):
        value = position[j, order[spot]]
        if value < low:
            low = value
        if value > high:
            high = value
    return low, high


@leaf
def _part(key: Floats, order: Ints, a: int, b: int, middle: int) -> None:
    """Quickselect: afterwards no key before `middle` is greater than one from there on, among a <= spot <
    b; order goes along.

    Swaps without asking and moves the border by the answer: a branch would be guessed wrong every other time.
    """
    while b - a > 1:
        x, y, z = key[a], key[(a + b) // 2], key[b - 1]
        pivot = max(min(x, y), min(max(x, y), z))
        border = a
        for spot in range(a, b):
            value, item = key[spot], order[spot]
            key[spot], order[spot] = key[border], order[border]
            key[border], order[border] = value, item
            border += value < pivot
        if middle < border:
            b = border
            continue
        equal = border
        for spot in range(border, b):
            value, item = key[spot], order[spot]
            key[spot], order[spot] = key[equal], order[equal]
            key[equal], order[equal] = value, item
            equal += value <= pivot
        if middle < equal:
            return
        a = equal


@leaf
def within(
    boxes: ItemBoxes,
    point: Floats,
    q: int,
    radius: float,
    first: int,
    stop: int,
    item: Ints,
    dist: Floats,
    gaps: Floats,
    leaf_gaps: Floats,
) -> int:
    """Finds the items first <= i < stop at distance <= radius from point q: `item` and `dist`, block by block
    in no order. Returns how many.

    point: [points, d]; item, dist: room for all of them and LEAF more; gaps: [BUNCHES]; leaf_gaps: [BUNCH]
    """
    start, leaves, low, high, leaf_items = boxes.start, boxes.leaves, boxes.low, boxes.high, boxes.item
    bunch_low, bunch_high, position = boxes.bunch_low, boxes.bunch_high, boxes.position
    limit = square_limit(radius)
    reach = limit * ROUNDING
    found = zero()
    for block in range(len(leaves)):
        if start[block + 1] <= first or start[block] >= stop:
            continue
        inside = first <= start[block] and start[block + 1] <= stop
        bunches = (leaves[block] + BUNCH - 1) // BUNCH
        box_gaps(bunch_low, bunch_high, block, zero(), bunches, point, q, gaps)
        for bunch in range(bunches):
            if gaps[bunch] > reach:
                continue
            first_leaf = bunch * BUNCH
            box_gaps(low, high, block, first_leaf, zero() + BUNCH, point, q, leaf_gaps)
            for box in range(BUNCH):
                if leaf_gaps[box] <= reach:
                    before = found
                    leaf_squares(position, block, first_leaf + box, point, q, dist, found)
                    found = _keep_within(
                        leaf_items, block, first_leaf + box, limit, radius, item, dist, found
                    )
                    if not inside:
                        found = _keep_between(item, dist, before, found, first, stop)
    return found


@leaf
def box_gaps(
    low: Floats, high: Floats, block: int, first: int, count: int, point: Floats, q: int, gaps: Floats
) -> None:
    """The squared distance of point q from `count` boxes of a block, from `first` on. Two dimensions at a
    time and unsigned indices, as in distances.squares.
    """
    base, size, d = np.uint64(first), np.uint64(count), point.shape[1]
    p = point[q, 0]
    if d % 2 == 1:
        for box in range(size):
            gap = _gap(low[block, 0, base + box], high[block, 0, base + box], p)
            gaps[box] = gap * gap
    else:
        r = point[q, 1]
        for box in range(size):
            gap = _gap(low[block, 0, base + box], high[block, 0, base + box], p)
            other = _gap(low[block, 1, base + box], high[block, 1, base + box], r)
            gaps[box] = gap * gap + other * other
    for j in range(2 - d % 2, d, 2):
        p, r = point[q, j], point[q, j + 1]
        for box in range(size):
            gap = _gap(low[block, j, base + box], high[block, j, base + box], p)
            other = _gap(low[block, j + 1, base + box], high[block, j + 1, base + box], r)
            gaps[box] += gap * gap + other * other


@leaf
def _gap(low: float, high: float, p: float) -> float:
    """Returns how far p is from an interval."""
    below, above = low - p, p - high
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@leaf
def leaf_squares(
    position: Floats, block: int, box: int, point: Floats, q: int, out: Floats, first: int
) -> None:
    """out[first + spot] = the squared distance of point q from each item of a leaf. position: of ItemBoxes"""
    base, size = np.uint64(first), np.uint64(LEAF)
    d, p = point.shape[1], point[q, 0]
    if d % 2 == 1:
        for spot in range(size):
            gap = position[block, box, 0, spot] - p
            out[base + spot] = gap * gap
    else:
        r = point[q, 1]
        for spot in range(size):
            gap, other = position[block, box, 0, spot] - p, position[block, box, 1, spot] - r
            out[base + spot] = gap * gap + other * other
    for j in range(2 - d % 2, d, 2):
        p, r = point[q, j], point[q, j + 1]
        for spot in range(size):
            gap, other = position[block, box, j, spot] - p, position[block, box, j + 1, spot] - r
            out[base + spot] = (out[base + spot] + gap * gap) + other * other


@leaf
def _keep_within(
    leaf_items: Ints, block: int, box: int, limit: float, radius: float, item: Ints, dist: Floats, found: int
) -> int:
    """Keeps the items of a leaf that are within the radius, given their squares from dist[found] on. Returns
    how many are found then.
    """
    base, size = np.uint64(found), np.uint64(LEAF)
    for spot in range(size):
        total = dist[base + spot]
        if total <= limit:
            far = math.sqrt(total)
            if far <= radius and leaf_items[block, box, spot] >= 0:
                item[found] = leaf_items[block, box, spot]
                dist[found] = far
                found += 1
    return found


@leaf
def _keep_between(item: Ints, dist: Floats, before: int, found: int, first: int, stop: int) -> int:
    """Keeps those found since `before` with first <= item < stop. Returns how many are found."""
    kept = before
    for index in range(before, found):
        if first <= item[index] < stop:
            item[kept] = item[index]
            dist[kept] = dist[index]
            kept += 1
    return kept


@leaf
def sort_by_item(item: Ints, dist: Floats, found: int) -> None:
    """Sorts into stream order; for short lists."""
    for index in range(1, found):
        one, far = item[index], dist[index]
        to = index
        while to > 0 and item[to - 1] > one:
            item[to] = item[to - 1]
            dist[to] = dist[to - 1]
            to -= 1
        item[to] = one
        dist[to] = far


# the balls that items lie in, for many queries


class BallItems(NamedTuple):
    """The items that lie in balls, one query after the other; `first` is empty if that is not known."""

    first: Ints  # [queries + 1]
    item: Ints32
    dist: Floats


class _Limits(NamedTuple):
    """The squares of radii, -1 where there is no ball."""

    point: Floats  # [blocks, leaves, LEAF]
    leaf: Floats  # [blocks, leaves]: the greatest, a little more
    bunch: Floats  # [blocks, bunches]


class _Pairs(NamedTuple):
    """Items and the queries in whose balls they lie, item by item."""

    query: Ints32
    item: Ints32
    dist: Floats


class _BallScratch(NamedTuple):
    at: Floats  # [1, d]: an item's position
    gaps: Floats  # [bunches]
    leaf_gaps: Floats  # [BUNCH]
    square: Floats  # [LEAF]
    bunches: Ints  # [bunches + 1]
    touched: Ints  # [leaves + 1]
    spots: Ints  # [LEAF + 1]


def unknown() -> BallItems:
    return BallItems(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))


def items_in_balls(
    points: ItemBoxes, radius: Floats, position: Floats, boxes: ItemBoxes, first_new: int, most: int
) -> BallItems:
    """Returns the items from `first_new` on in each ball; unknown() if they would be about `most` or more,
    counted once for each ball.

    points: the queries' (item: which query); radius: the infinite ones are no balls; position: [d, n];
    boxes: of the items, at least of the new ones.
    """
    blocks, leaves = points.item.shape[:2]
    limits = _Limits(
        np.full((blocks, leaves, LEAF), -1.0),
        np.full((blocks, leaves), -1.0),
        np.full((blocks, leaves // BUNCH), -1.0),
    )
    _set_limits(points.leaves, points.item, radius, limits)
    work = _BallScratch(
        np.empty((1, position.shape[0])),
        np.empty(leaves // BUNCH),
        np.empty(BUNCH),
        np.empty(LEAF),
        np.empty(leaves // BUNCH + 1, np.int64),
        np.empty(leaves + 1, np.int64),
        np.empty(LEAF + 1, np.int64),
    )
    order = leaf_by_leaf(boxes, first_new)
    pairs, used, index = _new_pairs(8 * len(order) + 4 * len(radius)), 0, 0
    while True:
        index, used = _find_pairs(index, order, points, limits, radius, position, work, pairs, used)
        if index == len(order):
            break
        if used >= most:
            return unknown()
        pairs = grown(pairs, used)
    out = BallItems(np.zeros(len(radius) + 1, np.int64), np.empty(used, np.int32), np.empty(used))
    _sort_by_query(pairs, used, out, np.empty(len(radius), np.int64))
    return out


def _new_pairs(room: int) -> _Pairs:
    return _Pairs(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room))


def leaf_by_leaf(boxes: ItemBoxes, first_new: int) -> Ints:
    """Returns the items from `first_new` on, those near each other one after the other."""
    used = np.arange(boxes.item.shape[1]) < boxes.leaves[:, None]
    used[boxes.start[1:] <= first_new] = False
    order = boxes.item[used].reshape(-1)
    return order[order >= first_new]


@loop
def _set_limits(leaves: Ints, item: Ints, radius: Floats, limits: _Limits) -> None:
    for block in range(len(leaves)):
        for box in range(leaves[block]):
            most = -1.0
            for spot in range(LEAF):
                query = item[block, box, spot]
                if query >= 0 and radius[query] < math.inf:
                    limits.point[block, box, spot] = square_limit(radius[query])
                    most = max(most, limits.point[block, box, spot])
            limits.leaf[block, box] = most * ROUNDING
            limits.bunch[block, box // BUNCH] = max(limits.bunch[block, box // BUNCH], most * ROUNDING)


@leaf
def _touched(points: ItemBoxes, block: int, limits: _Limits, work: _BallScratch) -> int:
    """Finds the leaves of a block that may hold balls around the item's position: work.touched. Returns how
    many.

    Those that are touched are written down without a branch, which would be guessed wrong for most of them.
    """
    bunches, some = (points.leaves[block] + BUNCH - 1) // BUNCH, 0
    box_gaps(points.bunch_low, points.bunch_high, block, zero(), bunches, work.at, zero(), work.gaps)
    for bunch in range(bunches):
        work.bunches[some] = bunch
        some += work.gaps[bunch] <= limits.bunch[block, bunch]
    found = 0
    for index in range(some):
        first = work.bunches[index] * BUNCH
        box_gaps(points.low, points.high, block, first, zero() + BUNCH, work.at, zero(), work.leaf_gaps)
        for box in range(BUNCH):
            work.touched[found] = first + box
            found += work.leaf_gaps[box] <= limits.leaf[block, first + box]
    return found


@leaf
def _pairs_of_leaf(
    points: ItemBoxes, block: int, box: int, limits: _Limits, radius: Floats, item: int, work: _BallScratch,
    pairs: _Pairs, used: int,
) -> int:  # fmt: skip
    """Adds the queries of a leaf in whose balls the item lies. Returns how many pairs there are."""
    leaf_squares(points.position, block, box, work.at, zero(), work.square, zero())
    some = 0
    for spot in range(LEAF):
        work.spots[some] = spot
        some += work.square[spot] <= limits.point[block, box, spot]
    for index in range(some):
        spot = work.spots[index]
        query, far = points.item[block, box, spot], math.sqrt(work.square[spot])
        pairs.query[used], pairs.item[used], pairs.dist[used] = query, item, far
        used += far <= radius[query]
    return used


@loop
def _find_pairs(
    index: int, order: Ints, points: ItemBoxes, limits: _Limits, radius: Floats, position: Floats,
    work: _BallScratch, pairs: _Pairs, used: int,
) -> tuple[int, int]:  # fmt: skip
    """Finds the balls of the items order[index:], as far as there is room. Returns where it stopped, and how
    many pairs there are.
    """
    while index < len(order) and used + len(radius) < len(pairs.query):
        item = order[index]
        for j in range(position.shape[0]):
            work.at[0, j] = position[j, item]
        for block in range(len(points.leaves)):
            for touched in range(_touched(points, block, limits, work)):
                box = work.touched[touched]
                used = _pairs_of_leaf(points, block, box, limits, radius, item, work, pairs, used)
        index += 1
    return index, used


@loop
def _sort_by_query(pairs: _Pairs, used: int, out: BallItems, after: Ints) -> None:
    """Counting sort. after: [queries], scratch"""
    for pair in range(used):
        out.first[pairs.query[pair] + 1] += 1
    for query in range(len(after)):
        after[query] = out.first[query]
        out.first[query + 1] += out.first[query]
    for pair in range(used):
        to = after[pairs.query[pair]]
        after[pairs.query[pair]] += 1
        out.item[to], out.dist[to] = pairs.item[pair], pairs.dist[pair]


# boxes of earlier batches

#: Batches with fewer items have blocks that are too small to be kept.
_LEAST_KEPT = 2048


@dataclass(frozen=True)
class KeptBoxes:
    """The boxes of one batch; its first item has the index `origin` in them."""

    numbers: Ints
    origin: int
    boxes: ItemBoxes


def kept_boxes(
    kept: list[KeptBoxes], numbers: Ints, position: Floats, first_new: int, many: bool
) -> ItemBoxes:
    """Returns the boxes of the items from `first_new` on and, if there are many queries, of those before that
    a worker has `kept` from earlier batches. Items in no box are looked at one by one, so results do not
    depend on it.

    When a ball grows, what waits beyond it is looked for in the whole buffer. With thousands of queries some
    do in every batch, and boxes of the buffer are worth the copies that put them side by side.

    numbers: [n], ascending; position: [d, n]
    """
    new = boxes_of(position, first_new, BLOCK)
    if not many or len(numbers) - first_new < _LEAST_KEPT:
        kept.clear()
        return new
    before = _adjoining(kept, numbers, first_new)
    kept[:] = [*(one for _, one in before), KeptBoxes(numbers[first_new:].copy(), first_new, new)]
    return _side_by_side(before, new) if before else new


def _adjoining(kept: list[KeptBoxes], numbers: Ints, first_new: int) -> list[tuple[int, KeptBoxes]]:
    """Returns those that hold all items before `first_new` from some index on, with that index, oldest first.

    Items may have come to be known late, or by another worker: what does not match ends the row.
    """
    out: list[tuple[int, KeptBoxes]] = []
    stop = first_new
    for one in reversed(kept):
        first = max(0, stop - len(one.numbers))
        if stop == 0 or not np.array_equal(numbers[first:stop], one.numbers[first - stop :]):
            if out or stop == 0:
                break
            continue  # of a batch that is run again
        out.append((first, one))
        stop = first
    return out[::-1]


def _side_by_side(before: list[tuple[int, KeptBoxes]], new: ItemBoxes) -> ItemBoxes:
    """Returns one set of boxes, with the items' indices as they are now."""
    parts, starts = [], []
    for part, (first, one) in enumerate(before):
        after = before[part + 1][0] if part + 1 < len(before) else int(new.start[0])
        shift = after - len(one.numbers) - one.origin
        item = one.boxes.item + shift
        item[(one.boxes.item < 0) | (item < first)] = -1
        parts.append(one.boxes._replace(item=item))
        starts.append(np.maximum(first, one.boxes.start[:-1] + shift))
    parts.append(new)
    starts.append(new.start)
    _, *arrays = zip(*parts, strict=True)
    return ItemBoxes(np.concatenate(starts), *(_stacked(list(of_parts)) for of_parts in arrays))


def _stacked(parts: list[Array]) -> Array:
    """Returns all blocks in one array. Some have fewer leaves; what is added for them is never read."""
    shape = np.max([part.shape for part in parts], axis=0)
    out = np.empty((sum(len(part) for part in parts), *shape[1:]), parts[0].dtype)
    first = 0
    for part in parts:
        out[(slice(first, first + len(part)), *(slice(size) for size in part.shape[1:]))] = part
        first += len(part)
    return out
