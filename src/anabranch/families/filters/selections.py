"""The select queries of a zone of `share`: who gets which items, and with which columns.

In: queries that begin and end, with the node of their condition. Out: rows of the table `select`, one an item
that answers at least one subscription.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from anabranch.families.filters.spec import Select
from anabranch.kernels.fanout import fan_out
from anabranch.model.stream import NUMBER, Stream
from anabranch.zones.columns import Array

SUBSCRIPTIONS = "subscriptions"
#: So many pairs of an item and a subscription are in one batch of rows at most; Arrow counts them in 32 bits.
MOST = 2**30


class Selections:
    """Every query has a code, its place in `names`; codes are used again when their query has ended."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._names: list[str] = []
        self._free: list[int] = []
        self._codes: dict[int, int] = {}  # number of the query -> code
        self._by_node: dict[int, dict[int, None]] = {}  # node -> codes, in order of activation
        self._columns: Counter[str] = Counter()
        self._lists: tuple[Array, Array, Array] | None = None

    def add(self, number: int, name: str, spec: Select, node: int) -> None:
        if self._free:
            code = self._free.pop()
            self._names[code] = name
        else:
            code = len(self._names)
            self._names.append(name)
        self._codes[number] = code
        self._by_node.setdefault(node, {})[code] = None
        self._columns.update({output.column for output in spec.outputs})
        self._lists = None

    def remove(self, number: int, spec: Select, node: int) -> None:
        code = self._codes.pop(number)
        self._free.append(code)
        users = self._by_node[node]
        del users[code]
        if not users:
            del self._by_node[node]
        for column in {output.column for output in spec.outputs}:
            self._columns[column] -= 1
        self._lists = None

    def answers(self, items: pa.RecordBatch, offsets: Array, nodes: Array) -> list[pa.RecordBatch]:
        """The rows of the table for these items, given the nodes of each, as few batches as lists allow."""
        if not self._by_node or not len(nodes):
            return []
        met = np.bincount(nodes)
        user_offsets, users, names = self._node_users(len(met))
        counts = np.diff(user_offsets)
        if items.num_rows > 1 and met @ counts[: len(met)] > MOST:
            half = items.num_rows // 2
            cut = offsets[half]
            return [
                *self.answers(items.slice(0, half), offsets[: half + 1], nodes[:cut]),
                *self.answers(items.slice(half), offsets[half:] - cut, nodes[cut:]),
            ]
        # A query has one node, so its place among the users of the nodes that were met is its code.
        there = np.repeat(np.r_[met > 0, np.zeros(len(counts) - len(met), bool)], counts)
        local = (np.cumsum(there) - 1).astype(np.int32)
        kept, list_offsets, codes = fan_out(offsets, nodes, user_offsets, local)
        if not len(kept):
            return []
        wanted = [NUMBER, *(c.name for c in self.stream.columns if self._columns[c.name] > 0)]
        rows = items.select(wanted)
        if len(kept) < items.num_rows:
            rows = rows.take(pa.array(kept))
        lists = pa.ListArray.from_arrays(
            pa.array(list_offsets),
            pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names[users[there]], pa.string())),
        )
        columns = [rows.column(0), lists, *rows.columns[1:]]
        return [pa.record_batch(columns, names=[NUMBER, SUBSCRIPTIONS, *wanted[1:]])]

    def _node_users(self, least: int) -> tuple[Array, Array, Array]:
        """CSR node -> codes, for at least the first `least` nodes, and the names; kept until a query begins
        or ends.
        """
        if self._lists is None or len(self._lists[0]) <= least:
            size = max(least, max(self._by_node) + 1)
            counts = np.zeros(size + 1, np.int64)
            for node, users in self._by_node.items():
                counts[node + 1] = len(users)
            codes = [code for node in sorted(self._by_node) for code in self._by_node[node]]
            self._lists = (np.cumsum(counts), np.array(codes, np.int32), np.array(self._names, object))
        return self._lists
