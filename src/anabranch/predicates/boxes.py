"""The bounds of many conjunctions as rows of int64 codes, comparable with each other and with coded items.

Every conjunction of a normal form is a box: the low and the high code of every column. Holes and gaps are not
part of it.

Numbers are their own codes. A string's code is its rank among the constants in use: 2i + 1 for constant i, 2i
for what lies between i - 1 and i. A new constant moves the ranks behind it, in all boxes at once:

    constants b, d         s < d  is  [0, 2]        s > b  is  [2, GREATEST]
    and now    b, c, d     s < d  is  [0, 4]        s > b  is  [2, GREATEST]
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from anabranch.model.arrays import Array
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.codes import DOMAINS, GREATEST, MISSING, Position
from anabranch.predicates.conjunction import Bound, Conjunction, Normal

_TEXT_BITS = {"point": 0.0, "range": 32.0, "half": 48.0, "present": 63.0}

#: In 2**-16 bits, then by the widths of the bounds.
Size = tuple[int, int]


class BoxTable:
    """`low` and `high` are int64[rows, columns]; only the first `used` rows count."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.columns: dict[str, int] = {}  # name -> index
        self.texts: dict[str, list[bytes]] = {}  # string column -> sorted constants
        self.low = np.empty((16, 0), np.int64)
        self.high = np.empty((16, 0), np.int64)
        self.used = 0

    def prepare(self, normals: Iterable[Normal]) -> None:
        """Adds all columns and constants at once, which is faster than one by one."""
        assert not self.used, "there are boxes already: their ranks would be wrong"
        texts: dict[str, set[bytes]] = {}
        for column, text in (named for normal in normals for named in _named(normal)):
            self._index_of(column)
            if text is not None:
                texts.setdefault(column, set()).add(text)
        self.texts = {column: sorted(found) for column, found in texts.items()}

    def add(self, normal: Normal) -> int:
        """Appends one row per conjunction; returns the first."""
        begin, end = self.used, self.used + len(normal.conjunctions)
        if end > len(self.low):
            more = max(end, 2 * len(self.low)) - len(self.low)
            self.low = np.concatenate([self.low, np.empty((more, len(self.columns)), np.int64)])
            self.high = np.concatenate([self.high, np.empty((more, len(self.columns)), np.int64)])
        for column, text in _named(normal):
            self._index_of(column)
            if text is not None:
                self._rank(column, text)
        self.used = end
        self.low[begin:end], self.high[begin:end] = MISSING, GREATEST
        for row, conjunction in enumerate(normal.conjunctions, begin):
            for bound in conjunction.bounds:
                index = self.columns[bound.column]
                self.low[row, index] = (
                    0 if _is_least(bound) else self.code(bound.column, bound.type, bound.low)
                )
                self.high[row, index] = self._high(bound)
        return begin

    def keep(self, rows: Array) -> None:
        """Only these rows stay, in this order."""
        self.low, self.high, self.used = self.low[rows], self.high[rows], len(rows)

    def code(self, column: str, kind: ColumnType, position: Position) -> int:
        domain = DOMAINS[kind]
        if kind is not ColumnType.STRING:
            return int(position)
        if position == domain.missing:
            return MISSING
        return 2 * self._rank(column, position[1].encode()) + int(position[2])

    def _high(self, bound: Bound) -> int:
        """An open end is the same for all types; the greatest value as a low end or a hole is itself."""
        if bound.high == DOMAINS[bound.type].greatest:
            return GREATEST
        return self.code(bound.column, bound.type, bound.high)

    def _index_of(self, column: str) -> int:
        if column not in self.columns:
            self.columns[column] = len(self.columns)
            blank = np.full((len(self.low), 1), MISSING, np.int64)
            self.low = np.hstack([self.low, blank])
            self.high = np.hstack([self.high, np.full_like(blank, GREATEST)])
        return self.columns[column]

    def _rank(self, column: str, text: bytes) -> int:
        texts = self.texts.setdefault(column, [])
        rank = bisect_left(texts, text)
        if rank == len(texts) or texts[rank] != text:
            texts.insert(rank, text)
            index = self._index_of(column)
            low, high = self.low[: self.used, index], self.high[: self.used, index]
            low[low > 2 * rank] += 2
            high[(high >= 2 * rank) & (high != GREATEST)] += 2
        return rank


def _is_least(bound: Bound) -> bool:
    """Whether it is a bound on strings that begins with the empty string: at code 0, whatever the
    constants.
    """
    return bound.type is ColumnType.STRING and bool(bound.low == DOMAINS[bound.type].least)


def _named(normal: Normal) -> Iterable[tuple[str, bytes | None]]:
    """The columns with their string constants, or None."""
    for conjunction in normal.conjunctions:
        for bound in conjunction.bounds:
            for position in (bound.high,) if _is_least(bound) else (bound.low, bound.high):
                is_text = bound.type is ColumnType.STRING and position[0] == 1
                yield bound.column, position[1].encode() if is_text else None
        for hole in conjunction.holes:
            yield hole.column, hole.position[1].encode() if hole.type is ColumnType.STRING else None


def size_of(normal: Normal) -> Size:
    """How large the largest conjunction is: never less than for what it contains."""
    return max((_size(conjunction) for conjunction in normal.conjunctions), default=(MISSING, 0))


def _size(conjunction: Conjunction) -> Size:
    # every bounded column takes something off; rounded down, so that a logarithm's last digit does not matter
    bits = sum(math.floor((_bits(bound) - 64) * 2**16) for bound in conjunction.bounds)
    # tells `a > 1` from `a > 2`, whose logarithms are one
    widths = sum(
        bound.high - bound.low - 2**64 for bound in conjunction.bounds if bound.type is not ColumnType.STRING
    )
    return bits, widths


def _bits(bound: Bound) -> float:
    if bound.type is not ColumnType.STRING:
        return math.log2(bound.high - bound.low + 1)
    domain = DOMAINS[bound.type]
    if bound.low == bound.high:
        return _TEXT_BITS["point"]
    if bound.high == domain.greatest:
        return _TEXT_BITS["present" if bound.low == domain.least else "half"]
    return _TEXT_BITS["half" if bound.low in (domain.missing, domain.least) else "range"]
