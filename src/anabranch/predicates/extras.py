"""What conjunctions ask besides their boxes, as arrays: holes, gaps, and comparisons of two strings.

In: conjunctions in the order of their slots. Out: Extras for the index, and the pairs of string columns that
it wants compared beforehand: the outcome (-1, 0, 1) is a column of its own, on which a TEXT gap is a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from anabranch.kernels.select import BOTH_FLOAT, INTEGERS, LEFT_FLOAT, RIGHT_FLOAT
from anabranch.kernels.select_build import Extras
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.boxes import BoxTable
from anabranch.predicates.conjunction import EQUAL, GREATER, LESS, UNEQUAL, Conjunction, Gap, GapKind

_FLOAT_KIND = {(True, False): LEFT_FLOAT, (False, True): RIGHT_FLOAT, (True, True): BOTH_FLOAT}


class ExtrasDraft:
    """`columns` are those of the index; pairs of string columns come after them."""

    def __init__(self, table: BoxTable, columns: list[str], stream: Stream) -> None:
        self.table, self.stream = table, stream
        self.places = {column: place for place, column in enumerate(columns)}
        self.pairs: dict[tuple[str, str], int] = {}
        self._bounds: list[tuple[int, ...]] = []
        self._holes: list[tuple[int, ...]] = []
        self._gaps: list[tuple[int, ...]] = []

    def add(self, slot: int, conjunction: Conjunction) -> None:
        for hole in conjunction.holes:
            code = self.table.code(hole.column, hole.type, hole.position)
            self._holes.append((slot, self.places[hole.column], code))
        for gap in conjunction.gaps:
            if gap.kind is GapKind.TEXT:
                self._add_text(slot, gap)
            else:
                self._add_number(slot, gap)

    def _add_text(self, slot: int, gap: Gap) -> None:
        pair = (gap.left, gap.right)
        place = self.pairs.setdefault(pair, len(self.places) + len(self.pairs))
        low = -1 if gap.signs & LESS else 0 if gap.signs & EQUAL else 1
        high = 1 if gap.signs & GREATER else 0 if gap.signs & EQUAL else -1
        self._bounds.append((slot, place, low, high))
        if gap.signs == UNEQUAL:
            self._holes.append((slot, place, 0))

    def _add_number(self, slot: int, gap: Gap) -> None:
        kind, whole = INTEGERS, int(gap.offset)
        if gap.kind is GapKind.FLOATS:
            kinds = (self.stream.type_of(column) is ColumnType.FLOAT for column in (gap.left, gap.right))
            kind, whole = _FLOAT_KIND[next(kinds), next(kinds)], int(np.float64(gap.offset).view(np.int64))
        self._gaps.append((slot, self.places[gap.left], self.places[gap.right], kind, gap.signs, whole))

    def finish(self) -> Extras:
        return Extras(_table(self._bounds, 4), _table(self._holes, 3), _table(self._gaps, 6))


def _table(rows: Iterable[tuple[int, ...]], width: int) -> np.ndarray[Any, Any]:
    return np.array(list(rows), np.int64).reshape(-1, width)
