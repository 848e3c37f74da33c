"""Which balls the new items lie in: for many queries, item by item.

Where there are more queries than items, an item lies in several balls, and one way down through the boxes of
the queries' points finds all of them. A box of points is of interest to an item that is no farther from it
than the largest radius of its points. Items go leaf by leaf, so that the next one finds much of what it needs
in the cache.

    5,000 items, 40,000 queries of 4 dimensions, k = 9: an item lies in 25 balls and touches some 20 leaves,
    where 40,000 balls would touch 6 leaves each

This is only faster: a query finds the same by the boxes of the items (item_boxes.within).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anabranch.families.nearest.kernels.arrays import grown
from anabranch.families.nearest.kernels.item_boxes import (
    BUNCH,
    LEAF,
    ROUNDING,
    ItemBoxes,
    box_gaps,
    leaf_squares,
)
from anabranch.model.arrays import Floats, Ints, Ints32
from anabranch.numeric.distances import square_limit
from anabranch.numeric.jit import leaf, loop, zero


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
