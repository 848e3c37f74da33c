"""Conditions by the book: a missing value makes a comparison false, and NOT is plain negation."""

from __future__ import annotations

import math
import operator
from datetime import datetime
from typing import Any

from anabranch.predicates.terms import And, Constant, Difference, Not, Or, Term

_OPS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(term: Term, row: dict[str, Any]) -> bool:
    match term:
        case Constant(column=column, op=op, value=value):
            return _compare(plain(row[column]), op.value, value)
        case Difference(column=column, op=op, other=other, offset=offset):
            right = plain(row[other])
            if right is None:
                return False
            return _compare(
                plain(row[column]), op.value, right if isinstance(right, str | bool) else right + offset
            )
        case And(terms=terms):
            return all(holds(part, row) for part in terms)
        case Or(terms=terms):
            return any(holds(part, row) for part in terms)
        case Not(term=inner):
            return not holds(inner, row)


def plain(value: Any) -> Any:
    """Missing is None, whether it came as null or NaN; a timestamp is its microseconds."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    return value


def _compare(left: Any, op: str, right: Any) -> bool:
    return left is not None and right is not None and bool(_OPS[op](left, right))
