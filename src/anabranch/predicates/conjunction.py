"""The normal form of a condition as data: a Normal is an OR of Conjunctions.

Plain immutable data, hashable and in one fixed order, so that equal conditions are equal objects. `normal.py`
computes it, `graph.py` decides whether a conjunction can be true. As JSON it travels with a query.

    a BETWEEN 1 AND 5 AND a != 3 AND a <= b + 2        (a, b int)

    Conjunction(bounds = (Bound(a, 1, 5), Bound(b, -1, greatest)),        b >= a - 2 >= -1
                holes  = (Hole(a, 3),),
                gaps   = (Gap(a, b, 2, LESS | EQUAL),))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anabranch.model.columns import ColumnType
from anabranch.predicates.codes import DOMAINS, Position
from anabranch.predicates.terms import Op

#: The possible outcomes of comparing `left` with `right + offset`; a gap allows a set of them.
LESS, EQUAL, GREATER = 1, 2, 4
ANY = LESS | EQUAL | GREATER
UNEQUAL = LESS | GREATER

SIGNS = {
    Op.EQ: EQUAL,
    Op.NE: UNEQUAL,
    Op.LT: LESS,
    Op.LE: LESS | EQUAL,
    Op.GT: GREATER,
    Op.GE: GREATER | EQUAL,
}


def mirrored(signs: int) -> int:
    """The outcomes with the two sides exchanged: LESS becomes GREATER."""
    return (signs & EQUAL) | (LESS if signs & GREATER else 0) | (GREATER if signs & LESS else 0)


class GapKind(StrEnum):
    """How `left` and `right + offset` are compared.

    CODES: as integers, on positions: exact. Int, timestamp and bool columns with any offset, and two float
    columns with offset 0.
    TEXT: two strings, offset 0, by code point: exact.
    FLOATS: in float64, as every engine does it. `right + offset` is rounded, so what follows on paper from
    two such gaps need not hold on rows: `a >= b + 5 AND a <= b + 3` is true where a = b = 1e300.
    """

    CODES = "codes"
    TEXT = "text"
    FLOATS = "floats"


@dataclass(frozen=True, slots=True, order=True)
class Bound:
    """`low <= column <= high`, on positions, both inclusive."""

    column: str
    type: ColumnType
    low: Position
    high: Position

    @property
    def is_full(self) -> bool:
        domain = DOMAINS[self.type]
        return (self.low, self.high) == (domain.missing, domain.greatest)


@dataclass(frozen=True, slots=True, order=True)
class Hole:
    """`column != position`"""

    column: str
    type: ColumnType
    position: Position


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """`left` compared with `right + offset` comes out as one of `signs`; both columns are present."""

    left: str
    right: str
    kind: GapKind
    offset: int | float
    signs: int


@dataclass(frozen=True, slots=True, order=True)
class Conjunction:
    """`bounds` (at most one a column), `holes` and `gaps` all hold. A column without bound may be missing."""

    bounds: tuple[Bound, ...] = ()
    holes: tuple[Hole, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def bound(self, column: str) -> Bound | None:
        return next((bound for bound in self.bounds if bound.column == column), None)

    @property
    def is_box(self) -> bool:
        """Whether the bounds are all there is."""
        return not self.holes and not self.gaps


@dataclass(frozen=True, slots=True)
class Normal:
    """One of `conjunctions` holds; none of them implies another. No conjunction: never true."""

    conjunctions: tuple[Conjunction, ...]

    def columns(self) -> Iterator[str]:
        """The columns it reads, with repetitions."""
        for conjunction in self.conjunctions:
            yield from (bound.column for bound in conjunction.bounds)
            yield from (hole.column for hole in conjunction.holes)

    def to_json(self) -> list[Any]:
        return [
            [
                [[bound.column, bound.type.value, bound.low, bound.high] for bound in conjunction.bounds],
                [[hole.column, hole.type.value, hole.position] for hole in conjunction.holes],
                [[gap.left, gap.right, gap.kind.value, gap.offset, gap.signs] for gap in conjunction.gaps],
            ]
            for conjunction in self.conjunctions
        ]

    @staticmethod
    def from_json(parts: list[Any]) -> Normal:
        return Normal(tuple(_conjunction(*conjunction) for conjunction in parts))


def _conjunction(bounds: list[Any], holes: list[Any], gaps: list[Any]) -> Conjunction:
    return Conjunction(
        tuple(Bound(c, ColumnType(kind), _position(low), _position(high)) for c, kind, low, high in bounds),
        tuple(Hole(column, ColumnType(kind), _position(position)) for column, kind, position in holes),
        tuple(Gap(left, right, GapKind(kind), offset, signs) for left, right, kind, offset, signs in gaps),
    )


def _position(part: Any) -> Position:
    """Positions of strings are tuples, which JSON makes lists."""
    return tuple(part) if isinstance(part, list) else part


EVERYTHING = Normal((Conjunction(),))
NOTHING = Normal(())
