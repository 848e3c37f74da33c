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
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.distances import square_limit
from anabranch.kernels.jit import kernel, leaf

Array = np.ndarray[Any, Any]

#: Items of a batch a block at most.
BLOCK = 8192
LEAF = 16
BUNCH = 16
BUNCHES = BLOCK // LEAF // BUNCH
#: Gaps to boxes are compared with a little more than a limit, so that rounding adds a leaf and loses none.
ROUNDING = 1.0 + 1e-12


class Boxes(NamedTuple):
    """Blocks of leaves. Items with a missing coordinate are in no leaf; unused leaves, and a leaf's unused
    places, are infinitely far.
    """

    start: Array  # int64[blocks + 1]: the first item of each block
    leaves: Array  # int64[blocks]
    low: Array  # float64[blocks, d, leaves]: the boxes; there is room for whole bunches
    high: Array  # float64[blocks, d, leaves]
    bunch_low: Array  # float64[blocks, d, bunches]: the boxes of bunches
    bunch_high: Array  # float64[blocks, d, bunches]
    item: Array  # int64[blocks, leaves, LEAF], -1 where unused
    place: Array  # float64[blocks, leaves, d, LEAF]


@kernel
def boxes_of(place: Array, first: int, most: int) -> Boxes:
    """The items from `first` on, at most so many a block. place: float64[d, n]."""
    d, n = place.shape
    start = _block_starts(first, n, most)
    blocks, longest = len(start) - 1, 0
    for block in range(blocks):
        longest = max(longest, start[block + 1] - start[block])
    bunches = (longest + BUNCH * LEAF - 1) // (BUNCH * LEAF)
    leaves = BUNCH * bunches
    boxes = Boxes(
        start,
        np.zeros(blocks, np.int64),
        np.full((blocks, d, leaves), math.inf),
        np.full((blocks, d, leaves), math.inf),
        np.empty((blocks, d, bunches), np.float64),
        np.empty((blocks, d, bunches), np.float64),
        np.full((blocks, leaves, LEAF), -1),
        np.full((blocks, leaves, d, LEAF), math.inf),
    )
    order = np.empty(longest, np.int64)
    for block in range(blocks):
        size = 0
        for i in range(start[block], start[block + 1]):
            whole = True
            for j in range(d):
                whole = whole and not math.isnan(place[j, i])
            if whole:
                order[size] = i
                size += 1
        _halve(place, order, size, boxes, block)
        _bunch(boxes, block)
    return boxes


@kernel
def _bunch(boxes: Boxes, block: int) -> None:
    """The boxes of a block's bunches, given those of its leaves."""
    leaves = boxes.leaves[block]
    for j in range(boxes.low.shape[1]):
        for first in range(0, leaves, BUNCH):
            stop = min(first + BUNCH, leaves)
            boxes.bunch_low[block, j, first // BUNCH] = boxes.low[block, j, first:stop].min()
            boxes.bunch_high[block, j, first // BUNCH] = boxes.high[block, j, first:stop].max()


@kernel
def _block_starts(first: int, stop: int, most: int) -> Array:
    """Blocks of equal length, none longer than `most`, and the end."""
    blocks = (stop - first + most - 1) // most
    starts = np.full(blocks + 1, stop)
    for block in range(blocks):
        starts[block] = first + block * (stop - first) // blocks
    return starts


@kernel
def _halve(place: Array, order: Array, size: int, boxes: Boxes, block: int) -> None:
    """Puts the items order[:size] into the leaves of a block.

    Which dimension is the widest is reckoned from the widths of the block, halved with every split; it
    need not be exact.
    """
    d = place.shape[0]
    stack = np.empty((64, 2), np.int64)
    widths = np.empty((64, d), np.float64)
    key = np.empty(size, np.float64)
    depth = 0
    if size > 0:
        stack[0, 0], stack[0, 1] = 0, size
        for j in range(d):
            low, high = _extent(place, j, order, 0, size)
            widths[0, j] = high - low
        depth = 1
    while depth > 0:
        depth -= 1
        a, b = stack[depth, 0], stack[depth, 1]
        if b - a <= LEAF:
            _fill(place, order, a, b, boxes, block)
            continue
        widest = 0
        for j in range(1, d):
            if widths[depth, j] > widths[depth, widest]:
                widest = j
        # the left half is whole leaves, so that only a block's last one is not full
        middle = a + ((b - a) // 2 + LEAF - 1) // LEAF * LEAF
        for spot in range(a, b):
            key[spot] = place[widest, order[spot]]
        _part(key, order, a, b, middle)
        widths[depth, widest] /= 2.0
        widths[depth + 1] = widths[depth]
        stack[depth, 0], stack[depth, 1] = middle, b
        stack[depth + 1, 0], stack[depth + 1, 1] = a, middle
        depth += 2


@kernel
def _fill(place: Array, order: Array, a: int, b: int, boxes: Boxes, block: int) -> None:
    """The next leaf of a block: the items order[a:b] and their box."""
    box = boxes.leaves[block]
    for j in range(place.shape[0]):
        boxes.low[block, j, box], boxes.high[block, j, box] = _extent(place, j, order, a, b)
        for spot in range(b - a):
            boxes.place[block, box, j, spot] = place[j, order[a + spot]]
    for spot in range(b - a):
        boxes.item[block, box, spot] = order[a + spot]
    boxes.leaves[block] += 1


@leaf
def _extent(place: Array, j: int, order: Array, a: int, b: int) -> tuple[float, float]:
    """The least and the greatest coordinate j of some items."""
    low = high = place[j, order[a]]
    for spot in range(a + 1, b):
        value = place[j, order[spot]]
        if value < low:
            low = value
        if value > high:
            high = value
    return low, high


@kernel
def _part(key: Array, order: Array, a: int, b: int, middle: int) -> None:
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
    boxes: Boxes,
    point: Array,
    q: int,
    radius: float,
    first: int,
    stop: int,
    near: Array,
    dist: Array,
    gaps: Array,
    leaf_gaps: Array,
) -> int:
    """The items first <= i < stop at distance <= radius from point q: near and dist, block by block in no
    order; how many.

    point: float64[points, d]; near: int64, dist: float64, room for all of them and LEAF more; gaps:
    float64[BUNCHES]; leaf_gaps: float64[BUNCH].
    """
    limit = square_limit(radius)
    reach = limit * ROUNDING
    found = 0
    for block in range(len(boxes.leaves)):
        if boxes.start[block + 1] <= first or boxes.start[block] >= stop:
            continue
        inside = first <= boxes.start[block] and boxes.start[block + 1] <= stop
        bunches = (boxes.leaves[block] + BUNCH - 1) // BUNCH
        box_gaps(boxes.bunch_low, boxes.bunch_high, block, 0, bunches, point, q, gaps)
        for bunch in range(bunches):
            if gaps[bunch] > reach:
                continue
            first_leaf = bunch * BUNCH
            box_gaps(boxes.low, boxes.high, block, first_leaf, BUNCH, point, q, leaf_gaps)
            for box in range(BUNCH):
                if leaf_gaps[box] <= reach:
                    before = found
                    found = _in_leaf(
                        boxes, block, first_leaf + box, point, q, limit, radius, near, dist, found
                    )
                    if not inside:
                        found = _between(near, dist, before, found, first, stop)
    return found


@leaf
def box_gaps(
    low: Array, high: Array, block: int, first: int, count: int, point: Array, q: int, gaps: Array
) -> None:
    """The squared distance of point q from `count` boxes of a block, from `first` on. Two dimensions at a
    time and unsigned places, as in distances.squares.
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
    """How far p is from an interval."""
    below, above = low - p, p - high
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@leaf
def leaf_squares(boxes: Boxes, block: int, box: int, point: Array, q: int, out: Array, first: int) -> None:
    """The squared distance of point q from all places of a leaf: out[first + spot]."""
    base, size = np.uint64(first), np.uint64(LEAF)
    d, p = point.shape[1], point[q, 0]
    if d % 2 == 1:
        for spot in range(size):
            gap = boxes.place[block, box, 0, spot] - p
            out[base + spot] = gap * gap
    else:
        r = point[q, 1]
        for spot in range(size):
            gap, other = boxes.place[block, box, 0, spot] - p, boxes.place[block, box, 1, spot] - r
            out[base + spot] = gap * gap + other * other
    for j in range(2 - d % 2, d, 2):
        p, r = point[q, j], point[q, j + 1]
        for spot in range(size):
            gap, other = boxes.place[block, box, j, spot] - p, boxes.place[block, box, j + 1, spot] - r
            out[base + spot] = (out[base + spot] + gap * gap) + other * other


@leaf
def _in_leaf(
    boxes: Boxes,
    block: int,
    box: int,
    point: Array,
    q: int,
    limit: float,
    radius: float,
    near: Array,
    dist: Array,
    found: int,
) -> int:
    """Adds the items of a leaf that are within the radius. The square of each is written down first, for
    all of them at once.
    """
    leaf_squares(boxes, block, box, point, q, dist, found)
    base, size = np.uint64(found), np.uint64(LEAF)
    for spot in range(size):
        total = dist[base + spot]
        if total <= limit:
            far = math.sqrt(total)
            if far <= radius and boxes.item[block, box, spot] >= 0:
                near[found] = boxes.item[block, box, spot]
                dist[found] = far
                found += 1
    return found


@leaf
def _between(near: Array, dist: Array, before: int, found: int, first: int, stop: int) -> int:
    """Keeps those of the last found that lie between two items of the stream."""
    kept = before
    for place in range(before, found):
        if first <= near[place] < stop:
            near[kept] = near[place]
            dist[kept] = dist[place]
            kept += 1
    return kept


@leaf
def sort_by_item(near: Array, dist: Array, found: int) -> None:
    """Into stream order; for short lists."""
    for place in range(1, found):
        item, far = near[place], dist[place]
        spot = place
        while spot > 0 and near[spot - 1] > item:
            near[spot] = near[spot - 1]
            dist[spot] = dist[spot - 1]
            spot -= 1
        near[spot] = item
        dist[spot] = far
