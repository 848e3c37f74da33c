"""Which balls the new items lie in: for many queries, item by item.

In: the points of the queries in boxes, their radii, and items in boxes. Out: what lies in each ball.
Never: needed; a query finds the same by the boxes of the items (boxes.within), one ball after the other.

Where there are more queries than items, an item lies in several balls, and one way down through the boxes of
points finds all of them. A box of points is of interest to an item that is no farther from it than the
largest radius of its points. Items go leaf by leaf, so that the next one finds much of what it needs where
the last one had it.

    5,000 items, 40,000 queries of 4 dimensions, k = 9: an item lies in 25 balls and touches some 20 leaves,
    where 40,000 balls would touch 6 leaves each
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.boxes import BUNCH, LEAF, ROUNDING, Boxes, box_gaps, leaf_squares
from anabranch.kernels.distances import square_limit
from anabranch.kernels.jit import kernel, leaf, twig, zero

Array = np.ndarray[Any, Any]


class Met(NamedTuple):
    """What lies in the balls, one query after the other; `first` is empty if nobody looked."""

    first: Array  # int64[queries + 1]
    item: Array  # int32, by query
    dist: Array  # float64


class _Limits(NamedTuple):
    """The squares of radii, -1 where there is no ball."""

    point: Array  # float64[blocks, leaves, LEAF]
    leaf: Array  # float64[blocks, leaves]: the greatest, a little more
    bunch: Array  # float64[blocks, bunches]


class _Pairs(NamedTuple):
    """Items and the queries in whose balls they lie, item by item."""

    query: Array  # int32
    item: Array  # int32
    dist: Array  # float64


class _Scratch(NamedTuple):
    at: Array  # float64[1, d]: an item's place
    gaps: Array  # float64[bunches]
    leaf_gaps: Array  # float64[BUNCH]
    square: Array  # float64[LEAF]
    bunches: Array  # int64[bunches + 1]
    touched: Array  # int64[leaves + 1]
    spots: Array  # int64[LEAF + 1]


@kernel
def nobody_met() -> Met:
    return Met(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float64))


@kernel
def _new_pairs(room: int) -> _Pairs:
    return _Pairs(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.float64))


@kernel
def _limits(points: Boxes, radius: Array) -> _Limits:
    blocks, leaves = points.item.shape[:2]
    limits = _Limits(
        np.full((blocks, leaves, LEAF), -1.0),
        np.full((blocks, leaves), -1.0),
        np.full((blocks, leaves // BUNCH), -1.0),
    )
    for block in range(blocks):
        for box in range(points.leaves[block]):
            most = -1.0
            for spot in range(LEAF):
                query = points.item[block, box, spot]
                if query >= 0 and radius[query] < math.inf:
                    limits.point[block, box, spot] = square_limit(radius[query])
                    most = max(most, limits.point[block, box, spot])
            limits.leaf[block, box] = most * ROUNDING
            limits.bunch[block, box // BUNCH] = max(limits.bunch[block, box // BUNCH], most * ROUNDING)
    return limits


@leaf
def _touched(points: Boxes, block: int, limits: _Limits, work: _Scratch) -> int:
    """The leaves of a block that may hold balls around the item's place: work.touched; how many.

    Those that are touched are written down without a branch, which would be guessed wrong for most of them.
    """
    bunches, some = (points.leaves[block] + BUNCH - 1) // BUNCH, 0
    box_gaps(points.bunch_low, points.bunch_high, block, 0, bunches, work.at, 0, work.gaps)
    for bunch in range(bunches):
        work.bunches[some] = bunch
        some += work.gaps[bunch] <= limits.bunch[block, bunch]
    found = 0
    for place in range(some):
        first = work.bunches[place] * BUNCH
        box_gaps(points.low, points.high, block, first, BUNCH, work.at, 0, work.leaf_gaps)
        for box in range(BUNCH):
            work.touched[found] = first + box
            found += work.leaf_gaps[box] <= limits.leaf[block, first + box]
    return found


@leaf
def _in_leaf(
    points: Boxes, block: int, box: int, limits: _Limits, radius: Array, item: int, work: _Scratch,
    pairs: _Pairs, used: int,
) -> int:  # fmt: skip
    """Notes the queries of a leaf in whose balls the item lies; how many pairs there are."""
    leaf_squares(points, block, box, work.at, 0, work.square, 0)
    some = 0
    for spot in range(LEAF):
        work.spots[some] = spot
        some += work.square[spot] <= limits.point[block, box, spot]
    for place in range(some):
        spot = work.spots[place]
        query, far = points.item[block, box, spot], math.sqrt(work.square[spot])
        pairs.query[used], pairs.item[used], pairs.dist[used] = query, item, far
        used += far <= radius[query]
    return used


@twig
def _as_many_as_fit(
    at: int, order: Array, points: Boxes, limits: _Limits, radius: Array, place: Array, work: _Scratch,
    pairs: _Pairs, used: int,
) -> tuple[int, int]:  # fmt: skip
    """Finds the balls of the items order[at:], as far as there is room; where it stopped, how many pairs."""
    while at < len(order) and used + len(radius) < len(pairs.query):
        item = order[at]
        for j in range(place.shape[0]):
            work.at[0, j] = place[j, item]
        for block in range(len(points.leaves)):
            for touched in range(_touched(points, block, limits, work)):
                box = work.touched[touched]
                used = _in_leaf(points, block, box, limits, radius, item, work, pairs, used)
        at += 1
    return at, used


@kernel
def meet(points: Boxes, radius: Array, place: Array, boxes: Boxes, fresh: int, most: int) -> Met:
    """The items from `fresh` on in each ball; nobody looked if they would be about `most` or more, counted
    once for each ball.

    points: the queries' (item: which query); radius: float64, the infinite ones are no balls; place:
    float64[d, n]; boxes: of the items, at least of the fresh ones.
    """
    limits, queries = _limits(points, radius), len(radius)
    leaves = points.item.shape[1]
    work = _Scratch(
        np.empty((1, place.shape[0])),
        np.empty(leaves // BUNCH),
        np.empty(BUNCH),
        np.empty(LEAF),
        np.empty(leaves // BUNCH + 1, np.int64),
        np.empty(leaves + 1, np.int64),
        np.empty(LEAF + 1, np.int64),
    )
    order = leaf_by_leaf(boxes, fresh)
    pairs, used, at = _new_pairs(8 * len(order) + 4 * queries), zero(), zero()
    while True:
        at, used = _as_many_as_fit(at, order, points, limits, radius, place, work, pairs, used)
        if at == len(order):
            break
        if used >= most:
            return nobody_met()
        more = _new_pairs(2 * len(pairs.query))
        more.query[:used], more.item[:used] = pairs.query[:used], pairs.item[:used]
        more.dist[:used] = pairs.dist[:used]
        pairs = more
    return _by_query(pairs, used, queries)


@kernel
def leaf_by_leaf(boxes: Boxes, fresh: int) -> Array:
    """The items from `fresh` on, those near each other one after the other."""
    order, count = np.empty(max(0, boxes.start[-1] - fresh) + 1, np.int64), 0
    for block in range(len(boxes.leaves)):
        if boxes.start[block + 1] <= fresh:
            continue
        for box in range(boxes.leaves[block]):
            for spot in range(LEAF):
                order[count] = boxes.item[block, box, spot]
                count += order[count] >= fresh
    return order[:count]


@kernel
def _by_query(pairs: _Pairs, used: int, queries: int) -> Met:
    """Counting sort."""
    met = Met(np.zeros(queries + 1, np.int64), np.empty(used, np.int32), np.empty(used, np.float64))
    for pair in range(used):
        met.first[pairs.query[pair] + 1] += 1
    for query in range(queries):
        met.first[query + 1] += met.first[query]
    after = met.first.copy()
    for pair in range(used):
        to = after[pairs.query[pair]]
        after[pairs.query[pair]] += 1
        met.item[to], met.dist[to] = pairs.item[pair], pairs.dist[pair]
    return met
