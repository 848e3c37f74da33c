"""An index of all distinct streams in a network: which of them can answer a query.

Boxes and columns rule out most streams in a few operations on arrays; the exact test (`shareable`) is applied
to the rest. No stream that matches is left out.
"""

from __future__ import annotations

import numpy as np

from anabranch.model.arrays import Array
from anabranch.model.stream import Stream
from anabranch.planning.matching import needs, shareable
from anabranch.planning.properties import Properties
from anabranch.predicates.boxes import BoxTable
from anabranch.predicates.conjunction import Normal


class StreamIndex:
    def __init__(self) -> None:
        self._tables: dict[str, _BoxIndex] = {}

    def add(self, stream: Properties) -> None:
        self._tables.setdefault(stream.stream, _BoxIndex()).add(stream)

    def remove(self, stream: Properties) -> None:
        table = self._tables[stream.stream]
        table.remove(stream)
        if table.is_sparse:
            self._tables[stream.stream] = fresh = _BoxIndex()
            for one in table.streams:
                fresh.add(one)

    def matching(self, wanted: Properties) -> list[Properties]:
        """Returns the streams from which a query can be made, in the order in which they were added."""
        table = self._tables.get(wanted.stream)
        return [] if table is None else [one for one in table.candidates(wanted) if shareable(one, wanted)]

    def nearest(self, wanted: Properties, most: int) -> list[Properties]:
        """Returns the streams of items that would have to be widened least to contain a query."""
        table = self._tables.get(wanted.stream)
        return [] if table is None else table.nearest(wanted, most)


class _BoxIndex:
    """The streams derived from one registered stream; a slot per conjunction."""

    def __init__(self) -> None:
        self._boxes = BoxTable(Stream("", ()))
        self._streams: list[Properties | None] = []  # by number; None: removed
        self._numbers: dict[Properties, int] = {}
        self._owner = np.empty(16, np.int64)  # slot -> number
        self._bits: dict[str, int] = {}  # column -> its bit; columns beyond the 63rd have none
        self._columns = np.empty(16, np.int64)  # number -> its columns, as bits
        self._aggregated = np.empty(16, bool)

    def add(self, stream: Properties) -> None:
        number = len(self._streams)
        first = self._boxes.add(stream.selection)
        self._owner = _grown(self._owner, self._boxes.used)
        self._owner[first : self._boxes.used] = number
        self._columns, self._aggregated = (
            _grown(self._columns, number + 1),
            _grown(self._aggregated, number + 1),
        )
        self._columns[number] = self._bits_of(stream.columns)
        self._aggregated[number] = stream.aggregated is not None
        self._streams.append(stream)
        self._numbers[stream] = number

    def remove(self, stream: Properties) -> None:
        self._streams[self._numbers.pop(stream)] = None

    @property
    def streams(self) -> list[Properties]:
        return [one for one in self._streams if one is not None]

    @property
    def is_sparse(self) -> bool:
        """Whether it is worth building it again without the streams that were removed."""
        return len(self._streams) > 64 + 2 * len(self._numbers)

    def candidates(self, wanted: Properties) -> list[Properties]:
        low, high = self._probe(wanted.selection)
        used = self._boxes.used
        lows, highs, owner = self._boxes.low[:used], self._boxes.high[:used], self._owner[:used]
        found = np.ones(len(self._streams), bool)
        for one_low, one_high in zip(low, high, strict=True):
            inside = (lows <= one_low).all(axis=1) & (highs >= one_high).all(axis=1)
            holds = np.zeros(len(self._streams), bool)
            holds[owner[inside]] = True
            found &= holds
        numbers = np.flatnonzero(found)
        aggregated = self._aggregated[numbers]
        if wanted.aggregated is None:
            numbers = numbers[~aggregated]
            aggregated = self._aggregated[numbers]
        if not wanted.operators:
            bits = self._bits_of(needs(wanted, wanted))
            numbers = numbers[aggregated | (self._columns[numbers] & bits == bits)]
        streams = (self._streams[number] for number in numbers.tolist())
        return [one for one in streams if one is not None]

    def nearest(self, wanted: Properties, most: int) -> list[Properties]:
        """Sorts by how many times the box must grow: the sum over columns of the logarithm of its widths."""
        if len(wanted.selection.conjunctions) != 1:
            return []
        low, high = self._probe(wanted.selection)
        used = self._boxes.used
        lows, highs = self._boxes.low[:used], self._boxes.high[:used]
        growth = _bits(np.minimum(lows, low), np.maximum(highs, high)) - _bits(lows, highs)
        out: list[Properties] = []
        for slot in np.argsort(growth.sum(axis=1), kind="stable").tolist():
            stream = self._streams[self._owner[slot]]
            if stream is not None and stream.aggregated is None and len(stream.selection.conjunctions) == 1:
                out.append(stream)
                if len(out) == most:
                    break
        return out

    def _probe(self, selection: Normal) -> tuple[Array, Array]:
        """Returns the boxes of a condition without adding it."""
        first = self._boxes.add(selection)
        end, self._boxes.used = self._boxes.used, first
        return self._boxes.low[first:end].copy(), self._boxes.high[first:end].copy()

    def _bits_of(self, columns: frozenset[str]) -> int:
        bits = 0
        for column in sorted(columns):
            if column not in self._bits and len(self._bits) < 63:
                self._bits[column] = 1 << len(self._bits)
            bits |= self._bits.get(column, 0)
        return bits


def _bits(low: Array, high: Array) -> Array:
    bits: Array = np.log2(high.astype(np.float64) - low.astype(np.float64) + 1)
    return bits


def _grown(values: Array, wanted: int) -> Array:
    if wanted <= len(values):
        return values
    return np.concatenate([values, np.empty(max(wanted, len(values)), values.dtype)])
