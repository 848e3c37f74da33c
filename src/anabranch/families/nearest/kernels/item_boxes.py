"""Items in small boxes: what lies within a radius of a point, without a look at most of the rest.

Items come in blocks, in stream order. Each block is halved along its widest dimension until at most LEAF
items remain: a leaf, with the box that bounds it. BUNCH leaves in a row lie near each other and have a box,
too. A ball is first compared with the boxes of bunches, all of them, one dimension after the other, which is
a loop over neighbouring numbers; then with the leaves of the bunches that it touches; then with their items.

    5,000 items, 4 dimensions: 313 leaves in 20 bunches; a ball with 4 of the items touches 6 leaves

A query goes through a batch block by block, so blocks are long.

Gaps between a point and a box are taken a little too small: rounding can add a leaf, never lose one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anabranch.model.arrays import Floats, Ints
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
