"""What the words of a slice mean: tracks of aggregations, and the layouts made of them (kernels/slices.py).

A track is an operation on a column. What an aggregation needs:

    count(*)   nothing, slices count their items        min(c)   COUNT c, MIN c        sum(c)   COUNT c, SUM c
    count(c)   COUNT c                                  max(c)   COUNT c, MAX c        avg(c)   COUNT c, SUM c
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from anabranch.families.filters.spec import Aggregation, Function
from anabranch.kernels import slices, sums
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream

#: (operation, place of the column in the stream)
Track = tuple[int, int]

_WIDTHS = {slices.SUM_INT: sums.INT_WORDS, slices.SUM_FLOAT: sums.FLOAT_WORDS}


def tracks_of(aggregation: Aggregation, stream: Stream) -> list[Track]:
    if aggregation.column is None:
        return []
    column = place_of(stream, aggregation.column)
    counted = (slices.COUNT, column)
    match aggregation.function:
        case Function.COUNT:
            return [counted]
        case Function.MIN:
            return [counted, (slices.MIN, column)]
        case Function.MAX:
            return [counted, (slices.MAX, column)]
        case Function.SUM | Function.AVG:
            of_floats = stream.columns[column].type is ColumnType.FLOAT
            return [counted, (slices.SUM_FLOAT if of_floats else slices.SUM_INT, column)]


def place_of(stream: Stream, column: str) -> int:
    return next(place for place, c in enumerate(stream.columns) if c.name == column)


class LayoutBook:
    """Numbers layouts. They are few: sets of tracks that queries on one derived stream ask for together."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.entries: list[tuple[bool, tuple[Track, ...]]] = []  # raw or not, its tracks
        self._numbers: dict[tuple[bool, tuple[Track, ...]], int] = {}
        self._arrays: slices.Layouts | None = None

    def lifted(self, tracks: Iterable[Track]) -> int:
        return self._number(False, tuple(sorted(set(tracks))))

    def raw(self, columns: Iterable[int]) -> int:
        return self._number(True, tuple((slices.RAW, column) for column in sorted(set(columns))))

    def _number(self, raw: bool, tracks: tuple[Track, ...]) -> int:
        number = self._numbers.get((raw, tracks))
        if number is None:
            number = self._numbers[raw, tracks] = len(self.entries)
            self.entries.append((raw, tracks))
            self._arrays = None
        return number

    def width(self, number: int) -> int:
        return int(self.arrays.width[number])

    @property
    def arrays(self) -> slices.Layouts:
        """All layouts as the kernels want them."""
        if self._arrays is None:
            self._arrays = self._made()
        return self._arrays

    def _made(self) -> slices.Layouts:
        first, operations, columns, offsets, widths, masks = [0], [], [], [], [], []
        shape = (len(self.entries), slices.OPERATIONS, len(self.stream.columns))
        where = np.full(shape, -1, np.int64)
        for number, (raw, tracks) in enumerate(self.entries):
            masks.append(max(1, -(-len(tracks) // 64)) if raw else 0)
            offset = 0
            for operation, column in tracks:
                operations.append(operation)
                columns.append(column)
                offsets.append(offset)
                where[number, operation, column] = offset
                offset += _WIDTHS.get(operation, 1)
            first.append(len(operations))
            widths.append(offset + masks[-1])
        integers = [np.array(part, np.int64) for part in (first, operations, columns, offsets, widths, masks)]
        are_raw = np.array([is_raw for is_raw, _ in self.entries])[:, None]
        met = where[np.arange(len(are_raw))[:, None], np.where(are_raw, slices.RAW, integers[1]), integers[2]]
        return slices.Layouts._make([*integers, where, met])

    # on their way to another stage, and in the state

    def described(self, numbers: Iterable[int]) -> list[Any]:
        """With columns by name: those that operators make have other places elsewhere."""
        names = [column.name for column in self.stream.columns]
        return [
            [raw, [[op, names[column]] for op, column in tracks]]
            for raw, tracks in (self.entries[n] for n in numbers)
        ]

    def understood(self, described: Iterable[Any]) -> list[int]:
        """The numbers that these layouts have here."""
        places = {column.name: place for place, column in enumerate(self.stream.columns)}
        return [
            self._number(raw, tuple((op, places[name]) for op, name in tracks)) for raw, tracks in described
        ]
