"""All conditions on one stream, each below the tightest one that contains it.

    every item (ROOT)
    |- a BETWEEN 0 AND 100         node 0, two queries
    |  '- a BETWEEN 10 AND 20      node 2: looked at on items of node 0 only, where that pays
    '- b = 'x'                     node 1

Equal conditions share a node. The parent of a node is the smallest of the nodes that contain it; smallest by
`size_of`, which is never greater for what is contained. Where sizes are equal, implication decides, then the
order of normal forms. So the forest does not depend on the order in which conditions were added.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.families.filters.condition_index import ConditionIndex
from anabranch.families.filters.kernels.matching import (
    NodeBoxes,
    box_contains,
    contained,
    next_container,
)
from anabranch.model.arrays import Ints, Ints32
from anabranch.model.stream import Stream
from anabranch.numeric.slots import Slots
from anabranch.predicates.boxes import BoxTable, Size, size_of
from anabranch.predicates.conjunction import Normal
from anabranch.predicates.implies import implies

ROOT = -1
_REMOVED = -2  # the parent of a number that no node has now


class Forest:
    """Nodes have numbers from 0; those of removed nodes are used again."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._table = BoxTable(stream)
        #: By node; `first_box` and `boxes` say which rows of the table are its conjunctions.
        self._slots = Slots(parent=(np.int32, _REMOVED), first_box=(np.int64, 0), boxes=(np.int64, 0))
        self._normals: dict[int, Normal] = {}
        self._members: dict[int, int] = {}
        self._by_normal: dict[Normal, int] = {}
        self._forms: dict[int, list[Normal]] = {}  # a node's normal form, and others that proved equal to it
        self._order = np.empty(0, np.int32)  # nodes by size
        self._sizes: list[Size] = []  # of the nodes in that order
        self._index: ConditionIndex | None = None

    @staticmethod
    def build(normals: Sequence[Normal], stream: Stream) -> Forest:
        """The same as adding them one by one, only faster. `node_of` tells which became which."""
        forest = Forest(stream)
        forest._table.prepare(normals)
        new = []
        for normal in normals:
            node = forest._by_normal.get(normal)
            if node is None:
                node = forest._add_node(normal)
                new.append(node)
            forest._members[node] += 1
        ordered = sorted((size_of(forest._normals[node]), node) for node in new)
        forest._order = np.array([node for _, node in ordered], np.int32)
        forest._sizes = [size for size, _ in ordered]
        for node in reversed(new):
            if not forest._is_box(node):
                forest._merge_into_equal(node, forest._containers(node))
        for node in forest._normals:
            forest._slots["parent"][node] = forest._tightest(forest._containers(node))
        return forest

    def add(self, normal: Normal) -> int:
        """Returns the node of this condition, which has one more member now; creates it for the first."""
        node = self._by_normal.get(normal)
        if node is None:
            node = self._add_node(normal)
            size = size_of(normal)
            index = bisect_left(self._sizes, size)
            self._order = np.insert(self._order, index, node)
            self._sizes.insert(index, size)
            containers = self._containers(node)
            merged = self._merge_into_equal(node, containers)
            if merged is None:
                self._slots["parent"][node] = self._tightest(containers)
                self._adopt(node, size)
            node = node if merged is None else merged
            self._index = None
        self._members[node] += 1
        return node

    def remove(self, node: int) -> None:
        """Takes a member off a node. With the last one the node goes, and its children get other parents."""
        self._members[node] -= 1
        if self._members[node]:
            return
        self._remove_node(node)
        for child in np.flatnonzero(self._slots["parent"] == node):
            self._slots["parent"][child] = self._tightest(self._containers(int(child)))
        self._index = None

    def match(self, rows: pa.RecordBatch) -> tuple[Ints, Ints32]:
        """CSR row -> nodes, ascending: offsets int64[rows + 1], nodes int32[...]."""
        if not self._normals or not rows.num_rows:
            return np.zeros(rows.num_rows + 1, np.int64), np.empty(0, np.int32)
        if self._index is None or self._index.is_worth_building_again(rows):
            nodes = self.nodes
            normals = {node: self._normals[node] for node in nodes}
            parents = self._slots["parent"][: nodes[-1] + 1]
            boxes = self._box_rows(nodes)
            self._index = ConditionIndex(normals, parents, self._table, boxes, self.stream, rows)
        return self._index.match(rows)

    # what `explain` shows

    def __len__(self) -> int:
        return len(self._normals)

    @property
    def nodes(self) -> list[int]:
        return sorted(self._normals)

    def node_of(self, normal: Normal) -> int:
        return self._by_normal[normal]

    def normal(self, node: int) -> Normal:
        return self._normals[node]

    def members(self, node: int) -> int:
        """How many times it was added and not removed."""
        return self._members[node]

    def parent(self, node: int) -> int:
        """Returns the node that this one is below, or ROOT."""
        return int(self._slots["parent"][node])

    def children(self, node: int) -> list[int]:
        """Returns the nodes directly below this one, or below ROOT."""
        return [child for child in self.nodes if self.parent(child) == node]

    # nodes

    def _add_node(self, normal: Normal) -> int:
        first, count = self._table.add(normal), len(normal.conjunctions)
        node = self._slots.take(parent=ROOT, first_box=first, boxes=count)
        self._normals[node], self._forms[node], self._members[node] = normal, [normal], 0
        self._by_normal[normal] = node
        return node

    def _remove_node(self, node: int) -> None:
        index = int(np.flatnonzero(self._order == node)[0])
        self._order = np.delete(self._order, index)
        del self._sizes[index]
        for normal in self._forms.pop(node):
            del self._by_normal[normal]
        del self._normals[node], self._members[node]
        self._slots.give_back(node)
        if self._table.used > 64 + 2 * int(self._slots["boxes"].sum()):
            nodes = self.nodes
            self._table.keep(self._box_rows(nodes))
            counts = self._slots["boxes"][nodes]
            self._slots["first_box"][nodes] = np.cumsum(counts) - counts

    def _box_rows(self, nodes: list[int]) -> Ints:
        """The rows of the table that belong to these nodes, one node after the other."""
        first, count = self._slots["first_box"][nodes], self._slots["boxes"][nodes]
        ends = np.cumsum(count)
        rows: Ints = np.arange(count.sum()) + np.repeat(first - (ends - count), count)
        return rows

    def _is_box(self, node: int) -> bool:
        """Whether a box says all about it."""
        conjunctions = self._normals[node].conjunctions
        return len(conjunctions) == 1 and conjunctions[0].is_box

    # which node contains which

    def _boxes(self) -> NodeBoxes:
        return NodeBoxes(self._table.low, self._table.high, self._slots["first_box"], self._slots["boxes"])

    def _contains(self, wide: int, narrow: int) -> bool:
        """The exact test, for nodes whose boxes have passed the quick one."""
        return self._is_box(wide) or implies(self._normals[narrow], self._normals[wide])

    def _containers(self, node: int) -> list[int]:
        """Of the nodes that contain this one, the smallest: several where their sizes are equal."""
        boxes, order, found = self._boxes(), self._order, list[int]()
        index = bisect_left(self._sizes, size_of(self._normals[node]))
        end = len(order)
        while (index := next_container(boxes, order, index, end, node)) < end:
            if self._contains(int(order[index]), node):
                if not found:
                    end = bisect_right(self._sizes, self._sizes[index])
                found.append(int(order[index]))
            index += 1
        return found

    def _lies_within(self, wide: int, narrow: int) -> bool:
        return bool(box_contains(self._boxes(), wide, narrow)) and self._contains(wide, narrow)

    def _tightest(self, containers: list[int]) -> int:
        """Of those in which no other one lies, the first in the order of normal forms."""
        least = list[int]()
        for node in containers:
            if not any(self._lies_within(node, other) for other in least):
                least = [other for other in least if not self._lies_within(other, node)] + [node]
        return min(least, key=lambda node: self._normals[node].conjunctions, default=ROOT)

    def _merge_into_equal(self, node: int, containers: list[int]) -> int | None:
        """If the node is equal to one that contains it, it becomes that one."""
        for other in containers:
            if self._lies_within(node, other):
                forms, members = self._forms[node], self._members[node]
                self._remove_node(node)
                self._by_normal.update(dict.fromkeys(forms, other))
                self._forms[other] += forms
                self._members[other] += members
                return other
        return None

    def _adopt(self, node: int, size: Size) -> None:
        """Moves nodes that this one contains below it where it is smaller than their parent."""
        end = bisect_right(self._sizes, size)
        for child in contained(self._boxes(), self._order, end, node).tolist():
            if self._contains(node, child):
                parent = self.parent(child)
                if parent == ROOT or size < size_of(self._normals[parent]):
                    self._slots["parent"][child] = node
                elif size == size_of(self._normals[parent]):
                    self._slots["parent"][child] = self._tightest(self._containers(child))
