"""Conditions as immutable trees: what the parser makes and the normal form starts from.

Two truth values only. A missing value makes a comparison false, so `NOT (a > 5)` is true where a is
missing, and `a <= 5` is not (docs/queries.md, Streams).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Op(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def negated(self) -> Op:
        return _NEGATED[self]

    @property
    def mirrored(self) -> Op:
        """The operator with its sides exchanged: a < b is b > a."""
        return _MIRRORED[self]


_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
_MIRRORED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}

#: A constant of a condition. Timestamps are integers, microseconds since 1970.
Value = int | float | str | bool


@dataclass(frozen=True, slots=True)
class Constant:
    """`column op value`"""

    column: str
    op: Op
    value: Value


@dataclass(frozen=True, slots=True)
class Difference:
    """`column op other + offset`; for strings and booleans the offset is 0."""

    column: str
    op: Op
    other: str
    offset: int | float = 0


@dataclass(frozen=True, slots=True)
class And:
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Or:
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Not:
    term: Term


Term = Constant | Difference | And | Or | Not

#: The condition that every item satisfies.
TRUE = And(())


def columns_of(term: Term) -> Iterator[str]:
    """The columns a condition reads, in the order they appear, with repetitions."""
    match term:
        case Constant(column=column):
            yield column
        case Difference(column=column, other=other):
            yield column
            yield other
        case And(terms=terms) | Or(terms=terms):
            for part in terms:
                yield from columns_of(part)
        case Not(term=inner):
            yield from columns_of(inner)


def to_json(term: Term) -> list[Any]:
    """A condition as nested lists, for packets and the catalog."""
    match term:
        case Constant(column=column, op=op, value=value):
            return ["const", column, op.value, value]
        case Difference(column=column, op=op, other=other, offset=offset):
            return ["diff", column, op.value, other, offset]
        case And(terms=terms):
            return ["and", *map(to_json, terms)]
        case Or(terms=terms):
            return ["or", *map(to_json, terms)]
        case Not(term=inner):
            return ["not", to_json(inner)]


def from_json(parts: list[Any]) -> Term:
    match parts:
        case ["const", column, op, value]:
            return Constant(column, Op(op), value)
        case ["diff", column, op, other, offset]:
            return Difference(column, Op(op), other, offset)
        case ["and", *terms]:
            return And(tuple(map(from_json, terms)))
        case ["or", *terms]:
            return Or(tuple(map(from_json, terms)))
        case ["not", inner]:
            return Not(from_json(inner))
    raise ValueError(f"not a condition: {parts!r}")
