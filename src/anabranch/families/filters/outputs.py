"""How the results of aggregates lie in their table, which is one for all queries of a stream, and what a
subscriber sees of it.

Queries name and type their aggregates as they like, so the table has typed places that each query fills from
the left:

    avg(en) AS mean, count(*) AS n, max(en) AS top      float_0 = mean, int_0 = n, float_1 = top

Windows in time are in `window_start` and `window_end`, of the stream's time type (`window_start_float` and
`window_end_float` where a stream of integer time has windows of fractions), windows in rows in `row_start`
and `row_end`.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.families.base import Shown
from anabranch.families.filters.derived import Shape
from anabranch.families.filters.layouts import place_of
from anabranch.families.filters.spec import Aggregate, Aggregation, Function
from anabranch.kernels import slices, windows
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream

ITEMS = "items"

_PREFIX = {ColumnType.INT: "int", ColumnType.FLOAT: "float", ColumnType.TIMESTAMP: "time"}
_CODES = {
    Function.COUNT: windows.COUNTED,
    Function.MIN: windows.LEAST,
    Function.MAX: windows.GREATEST,
    Function.SUM: windows.TOTAL,
    Function.AVG: windows.MEAN,
}


@dataclass(frozen=True)
class Place:
    """Where an aggregation's values are stored, and what the kernels make them of."""

    stored: str
    name: str
    type: ColumnType
    function: int
    column: int


def result_type(aggregation: Aggregation, stream: Stream) -> ColumnType:
    if aggregation.function is Function.COUNT or aggregation.column is None:
        return ColumnType.INT
    if aggregation.function is Function.AVG:
        return ColumnType.FLOAT
    return stream.type_of(aggregation.column)


def places_of(spec: Aggregate, stream: Stream) -> list[Place]:
    filled = dict.fromkeys(_PREFIX, 0)
    out = []
    for aggregation in spec.aggregations:
        kind = result_type(aggregation, stream)
        stored = f"{_PREFIX[kind]}_{filled[kind]}"
        filled[kind] += 1
        if aggregation.column is None:
            out.append(Place(stored, aggregation.name, kind, windows.ITEMS, 0))
        else:
            column = place_of(stream, aggregation.column)
            out.append(Place(stored, aggregation.name, kind, _CODES[aggregation.function], column))
    return out


def bounds_of(axis: int, stream: Stream) -> tuple[str, str, ColumnType]:
    """The columns where windows on an axis begin and end, and their type."""
    if axis == slices.ROW:
        return "row_start", "row_end", ColumnType.INT
    assert stream.time_type is not None
    if axis == slices.FLOAT_TIME and stream.time_type is ColumnType.INT:
        return "window_start_float", "window_end_float", ColumnType.FLOAT
    return "window_start", "window_end", stream.time_type


def aggregate_shown(spec: Aggregate, stream: Stream) -> tuple[Shown, ...]:
    """The columns that a subscriber sees."""
    start, end, kind = bounds_of(Shape.of(spec.window, stream).axis, stream)
    return (
        Shown(start, Column("window_start", kind)),
        Shown(end, Column("window_end", kind)),
        Shown(ITEMS, Column(ITEMS, ColumnType.INT)),
        *(
            Shown(place.stored, Column(place.name, place.type))
            for place, aggregation in zip(places_of(spec, stream), spec.aggregations, strict=True)
            if aggregation.is_shown
        ),
    )
