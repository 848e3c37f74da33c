"""Conditions and normal forms on one row as a dictionary, by the book and with Python's exact numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

from anabranch.model.columns import ColumnType
from anabranch.predicates.codes import position_of
from anabranch.predicates.conjunction import EQUAL, GREATER, LESS, Conjunction, Gap, Normal
from anabranch.predicates.terms import And, Constant, Difference, Not, Or, Term

_OPS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Row = Mapping[str, Any]


def holds(term: Term, row: Row) -> bool:
    match term:
        case Constant(column=column, op=op, value=value):
            here = _plain(row[column])
            return here is not None and value == value and _OPS[op.value](here, _least(here, value))
        case Difference(column=column, op=op, other=other, offset=offset):
            here, there = _plain(row[column]), _plain(row[other])
            if here is None or there is None:
                return False
            return _OPS[op.value](*_sides(here, there, offset))
        case And(terms=terms):
            return all(holds(part, row) for part in terms)
        case Or(terms=terms):
            return any(holds(part, row) for part in terms)
        case Not(term=inner):
            return not holds(inner, row)


def _plain(value: Any) -> Any:
    """Missing is None; the least int64 is read as its neighbour."""
    if value is None or value != value:
        return None
    return max(value, -(2**63) + 1) if type(value) is int else value


def _least(here: Any, value: Any) -> Any:
    return -(2**63) + 1 if type(here) is int and value == -(2**63) else value


def _sides(here: Any, there: Any, offset: int | float) -> tuple[Any, Any]:
    if isinstance(here, str):
        return here, there
    if float in (type(here), type(there)):
        return float(here), float(there) + offset
    whole = math.floor(offset)  # integers against integers are exact, however large
    return (here, there + whole) if whole == offset else (2 * here, 2 * (there + whole) + 1)


def satisfies(normal: Normal, row: Row, types: Mapping[str, ColumnType]) -> bool:
    return any(_conjunction(conjunction, row, types) for conjunction in normal.conjunctions)


def _conjunction(conjunction: Conjunction, row: Row, types: Mapping[str, ColumnType]) -> bool:
    where = {name: position_of(types[name], row[name]) for name in row}
    return (
        all(bound.low <= where[bound.column] <= bound.high for bound in conjunction.bounds)
        and all(where[hole.column] != hole.position for hole in conjunction.holes)
        and all(_gap(gap, row) for gap in conjunction.gaps)
    )


def _gap(gap: Gap, row: Row) -> bool:
    here, there = _plain(row[gap.left]), _plain(row[gap.right])
    if here is None or there is None:
        return False
    here, there = _sides(here, there, gap.offset)
    return bool(gap.signs & (LESS if here < there else EQUAL if here == there else GREATER))
