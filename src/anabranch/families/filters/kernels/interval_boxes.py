"""Which conditions contain which, judged by their boxes: a quick test before the exact one.

It never misses a node that contains another. A node that it finds may still not contain the other, where it
has holes or gaps.

A node can have several boxes (an OR): it contains another if each box of the other lies in one of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.model.arrays import Ints, Ints32
from anabranch.numeric.jit import int64, kernel, leaf


class NodeBoxes(NamedTuple):
    low: Ints  # int64[boxes, columns]
    high: Ints  # int64[boxes, columns]
    first: Ints  # int64[nodes]: the first box of each node
    boxes: Ints  # int64[nodes]: how many boxes it has, one after the other


@leaf
def _lies_within(low: Ints, high: Ints, box: int, other: int) -> bool:
    """Looks at all columns: to stop at the first that fails would be a branch that goes either way."""
    beyond = False
    for column in range(low.shape[1]):
        beyond |= (low[other, column] > low[box, column]) | (high[other, column] < high[box, column])
    return not beyond


@leaf
def _contains(boxes: NodeBoxes, wide: int, narrow: int) -> bool:
    low, high, first, counts = boxes
    for box in range(first[narrow], first[narrow] + counts[narrow]):
        other, end = first[wide], first[wide] + counts[wide]
        while other < end and not _lies_within(low, high, box, other):
            other += 1
        if other == end:
            return False
    return True


@kernel
def box_contains(boxes: NodeBoxes, wide: int, narrow: int) -> bool:
    """Returns whether each box of `narrow` lies within a box of `wide`."""
    return _contains(boxes, wide, narrow)


@kernel
def next_container(boxes: NodeBoxes, order: Ints32, index: int, end: int, node: int) -> int:
    """Returns the first index in order[index:end] whose node contains `node`, or `end`."""
    while index < end:
        if order[index] != node and _contains(boxes, int64(order[index]), node):
            return index
        index += 1
    return end


@kernel
def contained(boxes: NodeBoxes, order: Ints32, end: int, node: int) -> Ints32:
    """Returns the nodes in order[:end] that `node` contains, without itself."""
    found = np.empty(end, np.int32)
    count = 0
    for index in range(end):
        if order[index] != node and _contains(boxes, node, int64(order[index])):
            found[count] = order[index]
            count += 1
    return found[:count]
