"""Cases for aggregate: windows by rows and by time of all sizes, every function, HAVING, AT END, queries that
come and go.

Few distinct conditions, so that queries share derived streams; sizes and steps that do not divide each other.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.chain.items import arrow_schema
from anabranch.families.filters.spec import HIDDEN, Aggregate, Aggregation, Function
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import MICROSECONDS, Stream
from anabranch.model.window import AtEnd, Window
from anabranch.predicates.terms import TRUE, And, Constant, Not, Op, Or, Term
from tests.laws.case import Asked, Case
from tests.laws.customers import Customer
from tests.laws.draw import EXACT, times, values
from tests.oracles.aggregate import aggregate_oracle

COLUMNS = {
    "a": ColumnType.FLOAT,
    "n": ColumnType.INT,
    "s": ColumnType.STRING,
    "ok": ColumnType.BOOL,
    "when": ColumnType.TIMESTAMP,
}

#: What a length of 1 is in the stored units of time. Tenths are not exact in binary: there the formula, as it
#: stands, decides which items are in a window.
_UNITS = {ColumnType.INT: 1, ColumnType.FLOAT: 0.1, ColumnType.TIMESTAMP: MICROSECONDS}


def _moment(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


@st.composite
def _stream_and_items(draw: st.DrawFn) -> tuple[Stream, pa.RecordBatch]:
    """A stream whose time is an integer, a float in tenths or a timestamp."""
    kind = draw(st.sampled_from([ColumnType.INT, ColumnType.INT, ColumnType.FLOAT, ColumnType.TIMESTAMP]))
    unit = _UNITS[kind]
    count = draw(st.integers(0, 30))
    lateness = draw(st.sampled_from([0, 0, 2]))
    columns = (Column("t", kind), *(Column(name, type_) for name, type_ in COLUMNS.items()))
    stream = Stream("s", columns, time="t", lateness=lateness * unit)
    data: dict[str, list[Any]] = {}
    data["t"] = [
        _moment(t) if kind is ColumnType.TIMESTAMP else t * unit for t in draw(times(count, lateness))
    ]
    for name, type_ in COLUMNS.items():
        drawn = st.integers(-4, 4).map(_moment) if type_ is ColumnType.TIMESTAMP else values(type_)
        data[name] = draw(st.lists(st.none() | drawn, min_size=count, max_size=count))
    return stream, pa.record_batch(data, schema=arrow_schema(stream))


_CONDITIONS: st.SearchStrategy[Term] = st.sampled_from(
    [
        TRUE,
        Constant("a", Op.GE, 0.0),
        Constant("n", Op.LT, 2),
        And((Constant("a", Op.GE, 0.0), Constant("n", Op.LT, 2))),
        And((Constant("n", Op.LT, 2), Constant("a", Op.GE, 0.0))),
        Or((Constant("s", Op.EQ, "ibm"), Not(Constant("ok", Op.EQ, True)))),
    ]
)

_FUNCTIONS: dict[Function, tuple[str | None, ...]] = {
    Function.MIN: ("a", "n", "when"),
    Function.MAX: ("a", "n", "when"),
    Function.SUM: ("a", "n"),
    Function.AVG: ("a", "n"),
    Function.COUNT: (None, "a", "n", "s", "ok", "when"),
}


@st.composite
def _aggregations(draw: st.DrawFn) -> tuple[Aggregation, ...]:
    out = []
    for place in range(draw(st.integers(1, 4))):
        function = draw(st.sampled_from(list(Function)))
        name = draw(st.sampled_from([f"v{place}", f"v{place}", f"{HIDDEN}v{place}"]))
        out.append(Aggregation(function, draw(st.sampled_from(_FUNCTIONS[function])), name))
    return tuple(out)


@st.composite
def _having(draw: st.DrawFn, aggregations: tuple[Aggregation, ...]) -> Term:
    names = ["items", *(a.name for a in aggregations if a.column != "when")]
    compared = st.builds(
        Constant,
        st.sampled_from(names),
        st.sampled_from(list(Op)),
        st.integers(-3, 6) | st.sampled_from(EXACT),
    )
    return draw(st.just(TRUE) | st.just(TRUE) | compared | st.builds(Not, compared))


@st.composite
def _windows(draw: st.DrawFn, kind: ColumnType) -> Window:
    at_end = draw(st.none() | st.sampled_from(list(AtEnd)))
    size, step = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    if draw(st.booleans()):
        return Window("rows", size, step, at_end)
    unit = _UNITS[kind]
    if kind is ColumnType.INT and draw(st.booleans()):
        unit = 0.25 * draw(st.integers(1, 4))
    return Window("range", size * unit, step * unit, at_end)


@st.composite
def _asked(draw: st.DrawFn, name: str, spec: Aggregate, kind: ColumnType) -> Asked:
    zero = int(_moment(0).timestamp()) * MICROSECONDS if kind is ColumnType.TIMESTAMP else 0
    moments = st.none() | st.integers(-6, 40).map(lambda t: zero + t * _UNITS[kind])
    return Asked(name, spec.to_json(), draw(st.none() | moments), draw(st.none() | moments))


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    stream, items = draw(_stream_and_items())
    assert stream.time_type is not None
    conditions = draw(st.lists(_CONDITIONS, min_size=1, max_size=3))
    shapes = draw(st.lists(_windows(stream.time_type), min_size=1, max_size=4))
    queries = []
    for number in range(draw(st.integers(1, 6))):
        aggregations = draw(_aggregations())
        condition, window = draw(st.sampled_from(conditions)), draw(st.sampled_from(shapes))
        spec = Aggregate(aggregations, window, condition, draw(_having(aggregations)))
        queries.append(draw(_asked(f"q{number}", spec, stream.time_type)))
    return Case(stream, items, tuple(queries))


CUSTOMER = Customer("aggregate", _cases(), aggregate_oracle)
