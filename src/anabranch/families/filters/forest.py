"""All selections on one stream, each below the tightest one that contains it, and what they make of items.

In: normal forms that come and go; items. Out: for each item the nodes it belongs to; for `explain`, who lies
below whom. Never: two nodes for equal selections, or an answer that depends on the order in which they came.

    every item (ROOT)
    |- a BETWEEN 0 AND 100         node 0, two queries
    |  '- a BETWEEN 10 AND 20      node 2: looked at on items of node 0 only, where that pays
    '- b = 'x'                     node 1

The parent of a node is the smallest of the nodes that contain it; smallest by `size_of`, which is never
greater for what is contained. Where sizes are equal, implication decides, then the order of normal forms.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.interval_boxes import NodeBoxes, box_contains, contained, next_container
from anabranch.kernels.select import Index, walk
from anabranch.kernels.select_build import LEAST_SAMPLE, Boxes, build_index
from anabranch.kernels.select_codes import Constants, constants_of
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.boxes import BoxTable, Size, size_of
from anabranch.predicates.conjunction import Normal
from anabranch.predicates.extras import ExtrasDraft
from anabranch.predicates.implies import implies
from anabranch.predicates.rows import fill_codes, fill_signs, sample_of
from anabranch.zones.columns import Array

ROOT = -1
#: So many rows of a batch are looked at to judge which columns tell selections apart.
SAMPLE = 1024


class Forest:
    """Nodes are numbered from 0; numbers of removed nodes are used again, the smallest first."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._table = BoxTable(stream)
        self._normals: dict[int, Normal] = {}
        self._members: dict[int, int] = {}
        self._by_normal: dict[Normal, int] = {}
        self._forms: dict[int, list[Normal]] = {}  # a node's normal form, and others that proved equal to it
        self._free: list[int] = []
        self._parent = np.empty(0, np.int32)
        self._begin = np.empty(0, np.int64)
        self._slots = np.empty(0, np.int64)
        self._order = np.empty(0, np.int32)  # nodes by size
        self._sizes: list[Size] = []  # of the nodes in that order
        self._plan: _Plan | None = None

    @staticmethod
    def build(normals: Sequence[Normal], stream: Stream) -> Forest:
        """The same as adding them one by one, only faster. `node_of` tells which became which."""
        forest = Forest(stream)
        forest._table.prepare(normals)
        fresh = []
        for normal in normals:
            node = forest._by_normal.get(normal)
            if node is None:
                node = forest._enter(normal)
                fresh.append(node)
            forest._members[node] += 1
        ordered = sorted((size_of(forest._normals[node]), node) for node in fresh)
        forest._order = np.array([node for _, node in ordered], np.int32)
        forest._sizes = [size for size, _ in ordered]
        for node in reversed(fresh):
            if not forest._is_plain(node):
                forest._merge_into_equal(node, forest._containers(node))
        for node in forest._normals:
            forest._parent[node] = forest._tightest(forest._containers(node))
        return forest

    def add(self, normal: Normal) -> int:
        """The node of this selection, for one more member."""
        node = self._by_normal.get(normal)
        if node is None:
            node = self._enter(normal)
            size = size_of(normal)
            place = bisect_left(self._sizes, size)
            self._order = np.insert(self._order, place, node)
            self._sizes.insert(place, size)
            containers = self._containers(node)
            merged = self._merge_into_equal(node, containers)
            if merged is None:
                self._parent[node] = self._tightest(containers)
                self._adopt(node, size)
            node = node if merged is None else merged
            self._plan = None
        self._members[node] += 1
        return node

    def remove(self, node: int) -> None:
        """One member less. With the last one the node goes, and its children find their next parent."""
        self._members[node] -= 1
        if self._members[node]:
            return
        self._leave(node)
        for child in np.flatnonzero(self._parent == node):
            self._parent[child] = self._tightest(self._containers(int(child)))
        self._plan = None

    def match(self, rows: pa.RecordBatch) -> tuple[Array, Array]:
        """CSR row -> nodes, ascending: offsets int64[rows + 1], nodes int32[...]."""
        offsets = np.zeros(rows.num_rows + 1, np.int64)
        if not self._normals or not rows.num_rows:
            return offsets, np.empty(0, np.int32)
        if self._plan is None or self._plan.sampled < LEAST_SAMPLE <= rows.num_rows:
            self._plan = self._make_plan(rows)
        plan = self._plan
        codes = plan.codes(rows)
        spare = len(plan.index.slot) + 2
        nodes = np.empty(int(plan.density * rows.num_rows * 1.1) + spare, np.int32)
        row = walk(plan.index, codes, 0, offsets, nodes)
        while row < rows.num_rows:
            expected = int(offsets[row] / max(row, 1) * rows.num_rows * 1.1)
            nodes = np.concatenate([nodes, np.empty(max(expected - len(nodes), len(nodes), spare), np.int32)])
            row = walk(plan.index, codes, row, offsets, nodes)
        plan.density = float(offsets[-1]) / rows.num_rows
        return offsets, nodes[: offsets[-1]]

    # what `explain` asks

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
        """The node that this one hangs below, or ROOT."""
        return int(self._parent[node])

    def children(self, node: int) -> list[int]:
        """The nodes that hang below this one, or below ROOT."""
        return [child for child in self.nodes if self._parent[child] == node]

    # nodes

    def _enter(self, normal: Normal) -> int:
        if self._free:
            node = heapq.heappop(self._free)
        else:
            node = len(self._normals)
            if node == len(self._parent):
                more = max(16, node)
                self._parent = np.concatenate([self._parent, np.full(more, ROOT, np.int32)])
                self._begin = np.concatenate([self._begin, np.zeros(more, np.int64)])
                self._slots = np.concatenate([self._slots, np.zeros(more, np.int64)])
        self._begin[node], self._slots[node] = self._table.add(normal), len(normal.conjunctions)
        self._parent[node] = ROOT
        self._normals[node], self._forms[node], self._members[node] = normal, [normal], 0
        self._by_normal[normal] = node
        return node

    def _leave(self, node: int) -> None:
        place = int(np.flatnonzero(self._order == node)[0])
        self._order = np.delete(self._order, place)
        del self._sizes[place]
        for normal in self._forms.pop(node):
            del self._by_normal[normal]
        del self._normals[node], self._members[node]
        self._parent[node] = -2  # below nobody
        self._slots[node] = 0
        heapq.heappush(self._free, node)
        if self._table.used > 64 + 2 * int(self._slots.sum()):
            rows = self._rows_of(self.nodes)
            self._table.keep(rows)
            kept = np.array(self.nodes, np.int64)
            self._begin[kept] = np.concatenate([[0], np.cumsum(self._slots[kept])[:-1]])

    def _rows_of(self, nodes: list[int]) -> Array:
        """The rows of the table that belong to these nodes, one node after the other."""
        begin, count = self._begin[nodes], self._slots[nodes]
        ends = np.cumsum(count)
        rows: Array = np.arange(count.sum()) + np.repeat(begin - (ends - count), count)
        return rows

    def _is_plain(self, node: int) -> bool:
        """Whether a box says all about it."""
        conjunctions = self._normals[node].conjunctions
        return len(conjunctions) == 1 and conjunctions[0].is_box

    # who contains whom

    def _boxes(self) -> NodeBoxes:
        return NodeBoxes(self._table.low, self._table.high, self._begin, self._slots)

    def _contains(self, wide: int, narrow: int) -> bool:
        """The exact question, after the boxes have said that it may be."""
        return self._is_plain(wide) or implies(self._normals[narrow], self._normals[wide])

    def _containers(self, node: int) -> list[int]:
        """Of the nodes that contain this one, the smallest: several where their sizes are equal."""
        boxes, order, found = self._boxes(), self._order, list[int]()
        place = bisect_left(self._sizes, size_of(self._normals[node]))
        end = len(order)
        while (place := next_container(boxes, order, place, end, node)) < end:
            if self._contains(int(order[place]), node):
                if not found:
                    end = bisect_right(self._sizes, self._sizes[place])
                found.append(int(order[place]))
            place += 1
        return found

    def _within(self, wide: int, narrow: int) -> bool:
        return bool(box_contains(self._boxes(), wide, narrow)) and self._contains(wide, narrow)

    def _tightest(self, containers: list[int]) -> int:
        """Of those in which no other one lies, the first in the order of normal forms."""
        least = list[int]()
        for node in containers:
            if not any(self._within(node, other) for other in least):
                least = [other for other in least if not self._within(other, node)] + [node]
        return min(least, key=lambda node: self._normals[node].conjunctions, default=ROOT)

    def _merge_into_equal(self, node: int, containers: list[int]) -> int | None:
        """If the node is equal to one that contains it, it becomes that one."""
        for other in containers:
            if self._within(node, other):
                forms, members = self._forms[node], self._members[node]
                self._leave(node)
                self._by_normal.update(dict.fromkeys(forms, other))
                self._forms[other] += forms
                self._members[other] += members
                return other
        return None

    def _adopt(self, node: int, size: Size) -> None:
        """Nodes that this one contains come below it where it is smaller than their parent."""
        end = bisect_right(self._sizes, size)
        for child in contained(self._boxes(), self._order, end, node).tolist():
            if self._contains(node, child):
                parent = int(self._parent[child])
                if parent == ROOT or size < size_of(self._normals[parent]):
                    self._parent[child] = node
                elif size == size_of(self._normals[parent]):
                    self._parent[child] = self._tightest(self._containers(child))

    # how items are matched

    def _make_plan(self, rows: pa.RecordBatch) -> _Plan:
        nodes = self.nodes
        places = self._rows_of(nodes)
        low, high = self._table.low[places], self._table.high[places]
        used = sorted({column for normal in self._normals.values() for column in normal.columns()})
        columns = [self._table.columns[column] for column in used]
        extras = ExtrasDraft(self._table, used, self.stream)
        others = np.zeros(len(places), np.uint8)
        slot = 0
        for node in nodes:
            for conjunction in self._normals[node].conjunctions:
                if not conjunction.is_box:
                    extras.add(slot, conjunction)
                    others[slot] = 1
                slot += 1
        owner = np.repeat(np.array(nodes, np.int32), self._slots[nodes])
        parent = self._parent[: nodes[-1] + 1]
        boxes = Boxes(low[:, columns], high[:, columns], owner, parent, others)
        plan = _Plan(self.stream, used, list(extras.pairs), self._table)
        plan.sampled = rows.num_rows
        plan.index = build_index(boxes, extras.finish(), plan.codes(sample_of(rows, SAMPLE)))
        return plan


class _Plan:
    """The index of the selections as they are now, and how items are coded for it."""

    index: Index
    sampled: int  # of how many rows the index was judged by a sample

    def __init__(
        self, stream: Stream, columns: list[str], pairs: list[tuple[str, str]], table: BoxTable
    ) -> None:
        self.pairs = pairs
        self.density = 1.0  # nodes a row, as far as seen
        self.columns: list[tuple[str, ColumnType, Constants | None]] = []
        for column in columns:
            kind = stream.type_of(column)
            constants = constants_of(table.texts.get(column, [])) if kind is ColumnType.STRING else None
            self.columns.append((column, kind, constants))

    def codes(self, rows: pa.RecordBatch) -> Array:
        """int64[columns and pairs, rows]"""
        codes = np.empty((len(self.columns) + len(self.pairs), rows.num_rows), np.int64)
        for place, (column, kind, constants) in enumerate(self.columns):
            fill_codes(rows.column(column), kind, constants, codes[place])
        for place, (left, right) in enumerate(self.pairs, len(self.columns)):
            fill_signs(rows.column(left), rows.column(right), codes[place])
        return codes
