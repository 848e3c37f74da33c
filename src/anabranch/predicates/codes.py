"""Values as order-preserving positions, so that every comparison becomes an interval.

Nothing is rounded: `a < 1.5` on an int column is `a <= 1`; `a = 2**53 + 1` on a float column is never true.

| type           | position                                                       | least       | greatest   |
|----------------|----------------------------------------------------------------|-------------|------------|
| int, timestamp | the integer itself                                             | MISSING + 1 | 2**63 - 1  |
| bool           | 0 or 1                                                         | 0           | 1          |
| float          | the bits of |x| as an integer, with the sign of x; -0.0 is 0.0 | -inf        | inf        |
| string         | (1, text, k): k = 1 at the text, 0 just below it, 2 just above | (1, "", 1)  | (2, "", 0) |

A missing value is the least position of all. So `a <= 5` is [least, 5], `NOT (a > 5)` is [MISSING, 5], and
`NOT (a <= 5)` is two intervals, [MISSING, MISSING] and [6, greatest].

An int column has one position fewer than int64 has values: -2**63 is where missing lies, and is read as its
neighbour -2**63 + 1.
"""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

from anabranch.model.columns import ColumnType
from anabranch.model.errors import QueryError
from anabranch.predicates.terms import Op, Value

MISSING = -(2**63)
GREATEST = 2**63 - 1

#: An int, or (1, text, k) for strings. Only positions of one column are ever compared with each other, which
#: no type can say: hence Any.
Position = Any
Interval = tuple[Position, Position]

BELOW, AT, ABOVE = 0, 1, 2  # the k of a text position


class Domain(NamedTuple):
    """The positions that a column's values can have."""

    missing: Position
    least: Position
    greatest: Position


def float_code(value: float) -> int:
    """The position of a float that is not NaN: 1.0 -> 0x3ff0000000000000, -1.0 -> minus that."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else MISSING - bits


def float_value(code: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", abs(code)))[0]
    return value if code >= 0 else -value


_INTEGERS = Domain(MISSING, MISSING + 1, GREATEST)
DOMAINS: dict[ColumnType, Domain] = {
    ColumnType.INT: _INTEGERS,
    ColumnType.TIMESTAMP: _INTEGERS,
    ColumnType.BOOL: Domain(MISSING, 0, 1),
    ColumnType.FLOAT: Domain(MISSING, float_code(-math.inf), float_code(math.inf)),
    ColumnType.STRING: Domain((0, "", 0), (1, "", AT), (2, "", 0)),
}


def before(position: Position) -> Position:
    return position - 1 if isinstance(position, int) else (*position[:2], position[2] - 1)


def after(position: Position) -> Position:
    return position + 1 if isinstance(position, int) else (*position[:2], position[2] + 1)


def position_of(kind: ColumnType, value: Value | None) -> Position:
    """Where a value of a column of this type lies; None and NaN are missing."""
    if value is None or value != value:
        return DOMAINS[kind].missing
    if kind is ColumnType.STRING:
        return (1, str(value), AT)
    if kind is ColumnType.FLOAT:
        return float_code(float(value))
    return max(int(value), MISSING + 1)


def intervals(column: str, kind: ColumnType, op: Op, value: Value, negated: bool = False) -> list[Interval]:
    """Where `column op value` holds, or where it does not. `!=` has a hole in the middle: see `hole`."""
    domain = DOMAINS[kind]
    if value != value:  # NaN: a missing constant, so the comparison is false
        return [(domain.missing, domain.greatest)] if negated else []
    low, high = _bracket(column, kind, value)
    if op is Op.NE:
        absent = (domain.missing, domain.missing)
        found = [absent, (low, high)] if negated else [(domain.least, domain.greatest)]
    elif op is Op.EQ:
        found = [(domain.missing, domain.greatest)] if negated else [(low, high)]
    else:
        found = _one_sided(domain, op.negated if negated else op, low, high)
        if negated:
            found.insert(0, (domain.missing, domain.missing))
    return _joined(found, domain)


def hole(column: str, kind: ColumnType, op: Op, value: Value, negated: bool) -> Position | None:
    """The position that `column != value` or `NOT (column = value)` leaves out; None where there is none."""
    if op is not (Op.EQ if negated else Op.NE) or value != value:
        return None
    low, high = _bracket(column, kind, value)
    return low if low == high else None


def _one_sided(domain: Domain, op: Op, low: Position, high: Position) -> list[Interval]:
    match op:
        case Op.LE:
            return [(domain.least, high)]
        case Op.LT:
            return [(domain.least, before(low))]
        case Op.GE:
            return [(low, domain.greatest)]
        case _:
            return [(after(high), domain.greatest)]


def _joined(found: list[Interval], domain: Domain) -> list[Interval]:
    """Without the empty ones; `missing` and what begins at the least value are one interval."""
    found = [(low, high) for low, high in found if low <= high]
    if len(found) == 2 and found[1][0] == domain.least:
        return [(domain.missing, found[1][1])]
    return found


def _bracket(column: str, kind: ColumnType, value: Value) -> Interval:
    """The least position >= value and the greatest <= value: the same one if a column can hold the value."""
    if kind is ColumnType.STRING:
        if not isinstance(value, str):
            raise QueryError(f"column {column!r} is a string and {value!r} is not; write it in quotes")
        return (1, value, AT), (1, value, AT)
    if isinstance(value, str):
        raise QueryError(f"column {column!r} is a {kind} and cannot be compared with the string {value!r}")
    if isinstance(value, bool) is not (kind is ColumnType.BOOL):
        raise QueryError(f"column {column!r} is a {kind} and cannot be compared with {str(value).lower()}")
    return _float_bracket(value) if kind is ColumnType.FLOAT else _int_bracket(value)


def _int_bracket(value: int | float) -> tuple[int, int]:
    """1.5 -> (2, 1). Values beyond int64 keep their side: 10**30 -> (2**63, 2**63 - 1)."""
    if value in (math.inf, -math.inf):
        return (GREATEST + 1, GREATEST) if value > 0 else (MISSING + 1, MISSING)
    low, high = math.ceil(value), math.floor(value)
    if low == high == MISSING:
        return MISSING + 1, MISSING + 1
    return min(max(low, MISSING + 1), GREATEST + 1), max(min(high, GREATEST), MISSING)


def _float_bracket(value: int | float) -> tuple[int, int]:
    """2**53 + 1 -> the codes of 2**53 + 2 and 2**53."""
    try:
        near = float(value)
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    if near == value:
        return float_code(near), float_code(near)
    if near > value:
        return float_code(near), float_code(math.nextafter(near, -math.inf))
    return float_code(math.nextafter(near, math.inf)), float_code(near)
