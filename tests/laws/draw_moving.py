"""Cases for moving: objects that jump, stand still, report twice in a tick, tie, sit on borders, appear and
vanish.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.families.moving.spec import Box, Circle, KNearest, Moving, Shape
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Op, Or, Term
from anabranch.zones.columns import arrow_schema
from tests.laws.case import Asked, Case
from tests.laws.customers import Customer
from tests.laws.draw import times
from tests.oracles.moving import moving_oracle

#: Some share their first eight bytes, one is no ASCII, one is empty; by code point "Z" < "a" < "é".
STRINGS = ["a", "Z", "é", "", "vehicle-1", "vehicle-10", "vehicle-2"]
INTEGERS = [-2, 0, 3, 9, 10]

#: Corners of the regions of every layout below are among the products of these, so that borders are met.
PLACES = [-3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0]
FAR = [-1000.0, 77.7, 1e6]

#: The layouts of regional servers: one, grids with points outside, rectangles that overlap, touch and leave
#: gaps, no bounds.
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"regions": (1, 1), "bounds": ((-3, 3), (-3, 3))},
    {"regions": (3, 3), "bounds": ((-3, 3), (-3, 3))},
    {"regions": (4, 2), "bounds": ((-1, 1), (0, 2))},
    {
        "regions": (
            (-3.0, -3.0, 0.0, 0.0),
            (-1.0, -1.0, 1.0, 1.0),
            (1.0, 0.0, 3.0, 3.0),
            (-3.0, 1.5, -2.0, 3.0),
        )
    },
]

_conditions: st.SearchStrategy[Term] = st.sampled_from(
    [
        TRUE,
        Constant("side", Op.EQ, "friend"),
        Not(Constant("side", Op.EQ, "friend")),
        Constant("n", Op.GE, 2),
        And((Constant("n", Op.LT, 3), Not(Constant("side", Op.EQ, "foe")))),
        Or((Constant("x", Op.GT, 0.0), Constant("n", Op.EQ, 0))),
        Difference("x", Op.LE, "y", 0.5),
    ]
)

_shapes: st.SearchStrategy[Shape] = st.one_of(
    st.builds(Circle, st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.5, 5.0, 2000.0])),
    st.builds(Box, st.sampled_from([0.0, 1.0, 2.0, 3.0]), st.sampled_from([0.5, 1.0, 4.0, 3000.0])),
    st.builds(KNearest, st.sampled_from([1, 2, 3, 5])),
)

_VALUES = [None, None, "count", "min(x)", "max(x)", "min(y)", "max(y)"]


def _names(kind: ColumnType) -> list[Any]:
    return STRINGS if kind is ColumnType.STRING else INTEGERS


@st.composite
def _times(draw: st.DrawFn, count: int, lateness: int, kind: ColumnType, gaps: bool) -> list[Any]:
    stepped = draw(times(count, lateness))
    if gaps:
        stepped = [time + 50 * (place // 5) for place, time in enumerate(stepped)]
    if kind is ColumnType.TIMESTAMP:
        return [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=500 * time) for time in stepped]
    return [time / 4 for time in stepped] if kind is ColumnType.FLOAT else stepped


#: type of time -> (ticks, the time units of a step of 1 in `times`)
_TICKS: dict[ColumnType, tuple[list[Any], float]] = {
    ColumnType.INT: ([1, 2, 3, 0.5, 1.0], 1),
    ColumnType.FLOAT: ([0.25, 0.3, 1, 0.75], 0.25),
    ColumnType.TIMESTAMP: ([500_000, 1_000_000, 700_000], 500_000),
}


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    time = draw(st.sampled_from([ColumnType.INT, ColumnType.INT, ColumnType.FLOAT, ColumnType.TIMESTAMP]))
    ticks, unit = _TICKS[time]
    columns = {
        "t": time,
        "o": draw(st.sampled_from([ColumnType.STRING, ColumnType.STRING, ColumnType.INT])),
        "x": ColumnType.FLOAT,
        "y": draw(st.sampled_from([ColumnType.FLOAT, ColumnType.FLOAT, ColumnType.INT])),
        "side": ColumnType.STRING,
        "n": ColumnType.INT,
    }
    return Stream(
        "units",
        tuple(Column(name, kind) for name, kind in columns.items()),
        time="t",
        object="o",
        position=("x", "y"),
        lateness=draw(st.sampled_from([0, 0, 2])) * unit,
        tick=draw(st.sampled_from(ticks)),
        expire=draw(
            st.sampled_from([None, None, *(int(n * unit) if unit > 1 else n * unit for n in (0, 1, 2.5, 6))])
        ),
        **draw(st.sampled_from(LAYOUTS)),
    )


@st.composite
def items_of(draw: st.DrawFn, stream: Stream, most: int = 30) -> pa.RecordBatch:
    count = draw(st.integers(0, most))
    place = st.sampled_from(PLACES) | st.sampled_from(PLACES) | st.sampled_from(FAR) | st.none()
    across = st.integers(-3, 3) | st.none() if stream.type_of("y") is ColumnType.INT else place
    column = {
        "o": st.sampled_from([*_names(stream.type_of("o")), None]),
        "x": place | st.sampled_from([float("nan"), float("inf")]),
        "y": across,
        "side": st.sampled_from(["friend", "foe", None]),
        "n": st.integers(0, 3) | st.none(),
    }
    assert stream.time_type is not None
    lateness = int(stream.lateness / _TICKS[stream.time_type][1])
    data = {"t": draw(_times(count, lateness, stream.time_type, draw(st.booleans())))}
    for name, values in column.items():
        data[name] = draw(st.lists(values, min_size=count, max_size=count))
    return pa.record_batch(data, schema=arrow_schema(stream))


@st.composite
def specs(draw: st.DrawFn, stream: Stream) -> Moving:
    objects = [str(name) for name in _names(stream.type_of("o"))]
    nobody = "12345" if stream.type_of("o") is ColumnType.INT else "nobody"
    point = st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES))
    shape = draw(_shapes)
    return Moving(
        shape,
        draw(st.sampled_from([*objects, nobody]) | point),
        draw(_conditions),
        None if isinstance(shape, KNearest) else draw(st.sampled_from(_VALUES)),
        draw(st.none() | st.sampled_from(objects)),
    )


def _moment(stream: Stream, step: int) -> Any:
    """The stored time of a step of `times`."""
    if stream.time_type is ColumnType.TIMESTAMP:
        start = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
        return round(start * 1_000_000) + step * 500_000
    return step / 4 if stream.time_type is ColumnType.FLOAT else step


@st.composite
def cases(draw: st.DrawFn) -> Case:
    stream = draw(streams())
    queries = []
    for number in range(draw(st.integers(1, 7))):
        after = draw(st.none() | st.none() | st.integers(-6, 20))
        until = draw(st.none() | st.none() | st.integers(-6, 80))
        spec = draw(specs(stream))
        queries.append(
            Asked(
                f"q{number}",
                spec.to_json(),
                None if after is None else _moment(stream, after),
                None if until is None else _moment(stream, until),
            )
        )
    return Case(stream, draw(items_of(stream)), tuple(queries), "moving")


def with_layout(case: Case, layout: dict[str, Any]) -> Case:
    """The same case under other regional servers."""
    return replace(case, stream=replace(case.stream, **({"regions": (3, 3), "bounds": ()} | layout)))


CUSTOMER = Customer("moving", cases(), moving_oracle)
