"""A condition on columns, comparison by comparison: slow, plain, and what the normal form must agree with.

In: a condition and a record batch that has its columns. Out: a bool for every row. Used for HAVING, and in
tests as the twin of the index. Never: a null in the answer; a comparison with a missing value (null, NaN) is
false, before any NOT.

Numbers are compared exactly, whatever their types, with an exception that other engines share: between two
columns of which one is float, everything is float64, and the sum `column + offset` is rounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.arrays import Array
from anabranch.predicates.conjunction import EQUAL, GREATER, LESS, SIGNS
from anabranch.predicates.terms import And, Constant, Difference, Not, Op, Or, Term, Value

_LEAST = -(2**63) + 1  # the least int64 is read as its neighbour, see codes.py
_GREATEST = 2**63 - 1


def evaluate(term: Term, rows: pa.RecordBatch) -> Array:
    match term:
        case Constant(column=column, op=op, value=value):
            return _holds(_signs_to_constant(rows.column(column), value), op)
        case Difference(column=column, op=op, other=other, offset=offset):
            return _holds(_signs_to_column(rows.column(column), rows.column(other), offset), op)
        case And(terms=terms):
            return _folded(np.logical_and, True, terms, rows)
        case Or(terms=terms):
            return _folded(np.logical_or, False, terms, rows)
        case Not(term=inner):
            return ~evaluate(inner, rows)


def _folded(join: np.ufunc, start: bool, terms: tuple[Term, ...], rows: pa.RecordBatch) -> Array:
    answer = np.full(rows.num_rows, start)
    for term in terms:
        join(answer, evaluate(term, rows), out=answer)
    return answer


def _holds(signs: Array, op: Op) -> Array:
    return np.asarray((signs & SIGNS[op]) != 0)


def _signs(less: Array, greater: Array, present: Array) -> Array:
    """LESS, EQUAL or GREATER for every row, 0 where a side is missing."""
    signs = np.where(less, LESS, np.where(greater, GREATER, EQUAL))
    return np.where(present, signs, 0)


def _signs_to_constant(column: pa.Array, value: Value) -> Array:
    if isinstance(value, str):
        return _text_signs(column, pa.scalar(value, pa.string()))
    values, present = _numbers(column)
    if value != value:
        return np.zeros(len(values), np.int64)
    value = _LEAST if values.dtype == np.int64 and value == _LEAST - 1 else value
    near = _nearest(value, values.dtype)
    # near and value can differ by less than the distance to the next number of the column: 1.5 is kept as 1,
    # and whatever equals 1 is then less than the value
    equal = LESS if near < value else GREATER if near > value else EQUAL
    signs = _signs(values < near, values > near, present)
    return np.where(signs == EQUAL, equal, signs)


def _nearest(value: int | float, kind: np.dtype[Any]) -> int | float:
    """A number that the column can hold, with none of its other numbers between it and the value."""
    if kind == np.int64:
        if value in (math.inf, -math.inf):
            return _GREATEST if value > 0 else _LEAST
        return min(max(math.floor(value), _LEAST), _GREATEST)
    try:
        return float(value)
    except OverflowError:
        return math.nextafter(math.inf if value > 0 else -math.inf, 0.0)


def _signs_to_column(left: pa.Array, right: pa.Array, offset: int | float) -> Array:
    if pa.types.is_string(left.type) or pa.types.is_large_string(left.type):
        return _text_signs(left, right)
    (here, here_present), (there, there_present) = _numbers(left), _numbers(right)
    present = here_present & there_present
    if here.dtype == there.dtype == np.int64:
        return _int_signs(here, there, offset, present)
    sums = there.astype(np.float64) + float(offset)
    floats = here.astype(np.float64)
    return _signs(floats < sums, floats > sums, present)


def _int_signs(here: Array, there: Array, offset: int | float, present: Array) -> Array:
    """Integers against integers plus an offset; in Python's integers where a sum leaves int64."""
    whole = math.floor(offset)
    ends = (int(there.min()) + whole, int(there.max()) + whole) if len(there) else (0, 0)
    if ends[0] < _LEAST or ends[1] > _GREATEST:
        here, there = here.astype(object), there.astype(object)
    sums = there + whole
    less = here < sums if whole == offset else here <= sums  # b + 1 is less than b + 1.5
    return _signs(less.astype(bool), (here > sums).astype(bool), present)


def _numbers(column: pa.Array) -> tuple[Array, Array]:
    """Values as int64 or float64, and where they are present."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_floating(column.type):
        floats = column.cast(pa.float64()).fill_null(math.nan).to_numpy(zero_copy_only=False)
        return floats, present & ~np.isnan(floats)
    ints = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.maximum(ints, _LEAST), present


def _text_signs(left: pa.Array, right: pa.Array | pa.Scalar) -> Array:
    less, greater = pc.less(left, right), pc.greater(left, right)
    present = less.is_valid().to_numpy(zero_copy_only=False)
    less, greater = (part.fill_null(False).to_numpy(zero_copy_only=False) for part in (less, greater))
    return _signs(less, greater, present)
