"""Every distinct condition once: the nodes of the forest that `share` evaluates, and how many queries use
each.

In: conditions of queries that begin and end. Out: for a batch of items, the nodes that each belongs to.
Never: a node that nobody uses, or two for conditions that say the same in other words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from anabranch.families.filters.forest import Forest
from anabranch.families.filters.made import made_of, widened
from anabranch.model.columns import Column
from anabranch.model.stream import Stream
from anabranch.predicates.conjunction import Normal
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import from_json
from anabranch.zones.columns import Array


@lru_cache(maxsize=65536)
def _normal_and_key(text: str, columns: tuple[Column, ...]) -> tuple[Normal, int]:
    """Of a condition as JSON. A worker that takes over its second zone has seen all of them before."""
    normal = normal_form(from_json(json.loads(text)), Stream("", columns))
    return normal, stream_key(normal)


def key_of(spec: Mapping[str, Any], stream: Stream) -> int:
    """The key of the derived stream that a query is on, from its spec as JSON."""
    return _normal_and_key(json.dumps(spec["condition"]), widened(stream, made_of(spec)).columns)[1]


def stream_key(normal: Normal) -> int:
    """Names a derived stream, in every zone and process alike: 63 bits of a hash of its condition."""
    return int.from_bytes(blake2b(repr(normal).encode(), digest_size=8).digest(), "little") >> 1


@dataclass
class _Node:
    number: int
    key: int
    normal: Normal
    texts: set[str] = field(default_factory=set)
    users: int = 0


class Conditions:
    def __init__(self, stream: Stream, specs: Iterable[Mapping[str, Any]] = ()) -> None:
        """`specs` are of the queries that will enter soon; to know them all at once is faster."""
        self.stream = stream
        self._by_text: dict[str, _Node] = {}
        self._by_key: dict[int, _Node] = {}
        for spec in specs:
            self._noted(json.dumps(spec["condition"]))
        self.forest = Forest.build([node.normal for node in self._by_key.values()], stream)
        for node in self._by_key.values():
            node.number = self.forest.node_of(node.normal)

    def enter(self, spec: Mapping[str, Any]) -> tuple[int, int]:
        """The node of a query's condition and the key of its derived stream; one more query uses them.

        Conditions that the forest proves equal, though their normal forms differ, have one node and two keys.
        """
        node = self._noted(json.dumps(spec["condition"]))
        if node.number < 0:
            node.number = self.forest.add(node.normal)
        node.users += 1
        return node.number, node.key

    def _noted(self, text: str) -> _Node:
        node = self._by_text.get(text)
        if node is None:
            normal, key = _normal_and_key(text, self.stream.columns)
            node = self._by_key.setdefault(key, _Node(-1, key, normal))
            node.texts.add(text)
            self._by_text[text] = node
        return node

    def leave(self, spec: Mapping[str, Any]) -> None:
        """One query less uses its condition; with the last one its node dies."""
        node = self._by_text[json.dumps(spec["condition"])]
        node.users -= 1
        if not node.users:
            for text in node.texts:
                del self._by_text[text]
            del self._by_key[node.key]
            self.forest.remove(node.number)

    def match(self, items: pa.RecordBatch) -> tuple[Array, Array]:
        """CSR item -> nodes, ascending: offsets int64[n + 1], nodes int32[...]."""
        return self.forest.match(items)
