"""Streams, conditions and rows of every type, with the values that break comparisons."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.terms import And, Constant, Difference, Not, Op, Or, Term

TYPES = {
    "a": ColumnType.INT,
    "b": ColumnType.INT,
    "x": ColumnType.FLOAT,
    "y": ColumnType.FLOAT,
    "s": ColumnType.STRING,
    "t": ColumnType.STRING,
    "p": ColumnType.BOOL,
    "q": ColumnType.BOOL,
    "u": ColumnType.TIMESTAMP,
    "v": ColumnType.TIMESTAMP,
}
STREAM = Stream("all", tuple(Column(name, kind) for name, kind in TYPES.items()))
ARROW = {
    ColumnType.INT: pa.int64(),
    ColumnType.FLOAT: pa.float64(),
    ColumnType.STRING: pa.string(),
    ColumnType.BOOL: pa.bool_(),
    ColumnType.TIMESTAMP: pa.timestamp("us", "UTC"),
}
SCHEMA = pa.schema([(name, ARROW[kind]) for name, kind in TYPES.items()])

INTS = st.sampled_from(
    [
        0,
        1,
        2,
        3,
        5,
        -1,
        -2,
        2**53,
        2**53 + 1,
        -(2**53) - 1,
        2**62,
        2**63 - 1,
        2**63 - 2,
        -(2**63),
        -(2**63) + 1,
    ]
)
FLOATS = st.sampled_from(
    [0.0, -0.0, 1.0, 1.5, 2.0, 3.0, -1.0, 0.1, 0.2, 0.30000000000000004, 5e-324, -5e-324, 1e300, -1e300]
    + [2.0**53, 2.0**53 + 2, 2.0**63, math.inf, -math.inf, 1.7976931348623157e308]
)
TEXTS = st.sampled_from(["", "a", "b", "ab", "a\0", "é", "\U0001f600", "￿", "zzzzzzzzzz", "zzzzzzzzzy", "z"])
BIG = st.sampled_from(
    [10**30, -(10**30), 10**400, -(10**400), 2**63, -(2**63) - 1, math.inf, -math.inf, math.nan]
)


def values(kind: ColumnType) -> st.SearchStrategy[Any]:
    """What a column can hold, without missing."""
    if kind is ColumnType.FLOAT:
        return FLOATS
    if kind is ColumnType.STRING:
        return TEXTS
    return st.booleans() if kind is ColumnType.BOOL else INTS


@st.composite
def constants(draw: st.DrawFn) -> Constant:
    name, kind = draw(st.sampled_from(list(TYPES.items())))
    wanted = values(kind)
    if kind not in (ColumnType.STRING, ColumnType.BOOL):
        wanted = INTS | FLOATS | BIG
    return Constant(name, draw(st.sampled_from(list(Op))), draw(wanted))


@st.composite
def differences(draw: st.DrawFn) -> Difference:
    pairs = ["ab", "ba", "xy", "yx", "ax", "xa", "by", "st", "ts", "pq", "qp", "uv", "vu", "aa", "xx", "ss"]
    left, right = draw(st.sampled_from(pairs))
    offset: int | float = 0
    if TYPES[left] not in (ColumnType.STRING, ColumnType.BOOL):
        offset = draw(st.sampled_from([0, 1, -1, 2, 5, 0.5, -0.5, 0.1, 2**62, -(2**63) + 1, 2**53 + 1]))
    return Difference(left, draw(st.sampled_from(list(Op))), right, offset)


ATOMS: st.SearchStrategy[Term] = constants() | differences()


def terms(leaves: int = 6) -> st.SearchStrategy[Term]:
    return st.recursive(
        ATOMS,
        lambda inner: (
            st.builds(Not, inner)
            | st.builds(lambda parts: And(tuple(parts)), st.lists(inner, max_size=3))
            | st.builds(lambda parts: Or(tuple(parts)), st.lists(inner, max_size=3))
        ),
        max_leaves=leaves,
    )


CONJUNCTIONS: st.SearchStrategy[Term] = st.builds(
    lambda parts: And(tuple(parts)), st.lists(ATOMS, max_size=5)
)

ROW = st.fixed_dictionaries({name: st.none() | values(kind) for name, kind in TYPES.items()})
ROWS = st.lists(ROW | ROW.map(lambda row: {**row, "x": math.nan}), min_size=1, max_size=12)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def batch(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = []
    for field in schema:
        given = [row[field.name] for row in rows]
        if pa.types.is_timestamp(field.type):
            columns.append(pa.array(given, pa.int64()).cast(field.type))
        else:
            columns.append(pa.array(given, field.type, from_pandas=False))
    return pa.record_batch(columns, schema=schema)


def moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
