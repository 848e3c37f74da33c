"""Which selections contain which, judged by their boxes: a filter before the exact question is asked.

In: boxes of all slots, and nodes in the order of their size. Out: nodes. Never: a node left out that contains
the one asked for; one that comes out may still not contain it, where it has holes or gaps.

A node can have several slots (an OR): it contains another if each slot of the other lies in one of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf

Array = np.ndarray[Any, Any]


class NodeBoxes(NamedTuple):
    low: Array  # int64[slots, columns]
    high: Array  # int64[slots, columns]
    begin: Array  # int64[nodes]: the first slot of each node
    size: Array  # int64[nodes]: how many slots it has, one after the other


@leaf
def _lies_within(low: Array, high: Array, slot: int, other: int) -> bool:
    """Looks at all columns: to stop at the first that fails would be a branch that goes either way."""
    beyond = False
    for column in range(low.shape[1]):
        beyond |= (low[other, column] > low[slot, column]) | (high[other, column] < high[slot, column])
    return not beyond


@leaf
def _contains(low: Array, high: Array, begin: Array, size: Array, wide: int, narrow: int) -> bool:
    for slot in range(begin[narrow], begin[narrow] + size[narrow]):
        other, end = begin[wide], begin[wide] + size[wide]
        while other < end and not _lies_within(low, high, slot, other):
            other += 1
        if other == end:
            return False
    return True


@kernel
def box_contains(boxes: NodeBoxes, wide: int, narrow: int) -> bool:
    """Whether each slot of `narrow` lies within a slot of `wide` (box_contains_plain)."""
    low, high, begin, size = boxes
    return _contains(low, high, begin, size, wide, narrow)


@kernel
def next_container(boxes: NodeBoxes, order: Array, place: int, end: int, node: int) -> int:
    """The first place in order[place:end] whose node contains `node`, or `end`."""
    low, high, begin, size = boxes
    while place < end:
        if order[place] != node and _contains(low, high, begin, size, order[place], node):
            return place
        place += 1
    return end


@kernel
def contained(boxes: NodeBoxes, order: Array, end: int, node: int) -> Array:
    """The nodes in order[:end] that `node` contains, itself left out."""
    low, high, begin, size = boxes
    found = np.empty(end, np.int32)
    count = 0
    for place in range(end):
        if order[place] != node and _contains(low, high, begin, size, node, order[place]):
            found[count] = order[place]
            count += 1
    return found[:count]


def box_contains_plain(boxes: NodeBoxes, wide: int, narrow: int) -> bool:
    """The same in words of numpy."""

    def rows(values: Array, node: int) -> Array:
        return values[boxes.begin[node] : boxes.begin[node] + boxes.size[node]]

    low, high = rows(boxes.low, narrow)[:, None], rows(boxes.high, narrow)[:, None]
    inside = (rows(boxes.low, wide) <= low) & (rows(boxes.high, wide) >= high)
    return bool(np.all(np.any(np.all(inside, axis=2), axis=1)))
