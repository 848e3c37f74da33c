"""Cases for nearest: ties, missing coordinates, windows by rows and by time, several tuples of columns,
queries that come and go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.chain.items import arrow_schema
from anabranch.families.nearest.spec import Nearest
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, Term
from tests.laws.case import Asked, Case
from tests.laws.customers import Customer
from tests.laws.draw import EXACT, stream_and_items
from tests.laws.draw_select import CONDITIONS
from tests.oracles.nearest import nearest_oracle

COLUMNS = {
    "a": ColumnType.FLOAT,
    "b": ColumnType.FLOAT,
    "n": ColumnType.INT,
    "s": ColumnType.STRING,
    "ok": ColumnType.BOOL,
}

#: With bounds, items go home by their cell, and some lie beyond.
SETTINGS: list[dict[str, Any]] = [
    {},
    {},
    {"id": "n"},
    {"id": "s", "position": ("a", "b")},
    {"position": ("a", "b"), "bounds": ((-3.0, 3.0), (-3.0, 3.0))},
    {"position": ("b",), "bounds": ((-1.0, 0.5),)},
    {"position": ("a", "b", "n"), "bounds": ((-2.0, 2.0), (-2.0, 2.0), (0.0, 0.0))},
]

#: A globe: positions are drawn as numbers from -3 to 3 and put around 180 degrees, or close to the poles,
#: with longitudes by all their names.
GLOBES: list[dict[str, Any]] = [
    {"metric": "haversine", "position": ("a", "b"), "unit": None},
    {"metric": "haversine", "position": ("a", "b"), "unit": "m", "bounds": ((-180.0, 180.0), (-90.0, 90.0))},
]
MAPS: list[Callable[[float, float], tuple[float, float]]] = [
    lambda lon, lat: (180.0 + lon, 20.0 * lat),  # 0..360
    lambda lon, lat: (math.remainder(180.0 + lon, 360.0), lat),  # -180..180
    lambda lon, lat: (180.0 + lon - 360.0 * round(2 * lat), lat),  # mixed
    lambda lon, lat: (60.0 * lon, math.copysign(91.0 - abs(lat), lat)),  # around the poles, and beyond
]

_START = datetime(2026, 1, 1, tzinfo=UTC)

_conditions: st.SearchStrategy[Term] = st.just(TRUE) | st.just(TRUE) | CONDITIONS


def with_time(
    stream: Stream, items: pa.RecordBatch, kind: ColumnType | None
) -> tuple[Stream, pa.RecordBatch]:
    """The same items with their integer time `t` as another type, or with no time at all."""
    if kind is None:
        return replace(stream, time=None, lateness=0), items
    columns = (Column("t", kind), *stream.columns[1:])
    lateness = _length(kind, stream.lateness)
    changed = replace(stream, columns=columns, lateness=lateness)
    data = items.to_pydict()
    data["t"] = [_moment(kind, time) for time in data["t"]]
    return changed, pa.record_batch(data, schema=arrow_schema(changed))


def _moment(kind: ColumnType, time: int) -> Any:
    if kind is ColumnType.TIMESTAMP:
        return _START + timedelta(milliseconds=250 * time)
    return time / 4 if kind is ColumnType.FLOAT else time


def _length(kind: ColumnType | None, steps: Any) -> Any:
    """So many steps of `t` in stored units."""
    if kind is ColumnType.TIMESTAMP:
        return int(250_000 * steps)
    return steps / 4 if kind is ColumnType.FLOAT else steps


def _stored(kind: ColumnType, time: int) -> Any:
    if kind is ColumnType.TIMESTAMP:
        return round(_START.timestamp() * 1_000_000) + 250_000 * time
    return _moment(kind, time)


@st.composite
def windows(draw: st.DrawFn, time: ColumnType | None) -> Window:
    if time is None or draw(st.booleans()):
        size: Any = draw(st.integers(1, 30))
        return Window("rows", size, size)
    size = draw(st.integers(1, 40) | st.sampled_from([2.5, 7.5, 20.25]))
    size = _length(time, size)
    return Window("range", size, size)


@st.composite
def specs(draw: st.DrawFn, time: ColumnType | None) -> Nearest:
    by = draw(st.sampled_from([("a",), ("a", "b"), ("a", "b"), ("b", "a", "n"), ("n",)]))
    return Nearest(
        draw(st.sampled_from([1, 1, 2, 3, 5])),
        tuple(draw(st.sampled_from(EXACT)) for _ in by),
        by,
        draw(windows(time)),
        draw(_conditions),
        draw(st.sampled_from(["RAPF", "RAPF", "RA"])),
    )


def on_the_map(items: pa.RecordBatch, place: Callable[[float, float], tuple[float, float]]) -> pa.RecordBatch:
    columns = [items.column(name).to_pylist() for name in ("a", "b")]
    both = [pair if None in pair else place(*pair) for pair in zip(*columns, strict=True)]
    for index, name in enumerate(("a", "b")):
        column = pa.array([pair[index] for pair in both], pa.float64())
        items = items.set_column(items.schema.get_field_index(name), name, column)
    return items


@st.composite
def places(draw: st.DrawFn, spec: Nearest, place: Callable[[float, float], tuple[float, float]]) -> Nearest:
    """The same query by the position on a globe, if it goes by two columns: its point is a place."""
    if spec.by != ("a", "b"):
        return spec
    longitude, latitude = place(*spec.point)
    latitude = min(90.0, max(-90.0, latitude))
    if draw(st.booleans()):
        return replace(spec, by=("b", "a"), point=(latitude, longitude))
    return replace(spec, point=(longitude, latitude))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    globe = draw(st.sampled_from([False, False, True]))
    settings = draw(st.sampled_from(GLOBES if globe else SETTINGS))
    place = draw(st.sampled_from(MAPS))
    missing = draw(st.booleans())
    stream, items = draw(stream_and_items(COLUMNS, most=50, missing=missing, **settings))
    items = on_the_map(items, place) if globe else items
    time = draw(
        st.sampled_from([ColumnType.INT, ColumnType.INT, ColumnType.FLOAT, ColumnType.TIMESTAMP, None])
    )
    stream, items = with_time(stream, items, time)
    queries = []
    for number in range(draw(st.integers(1, 6))):
        activate = draw(st.none() | st.none() | st.integers(-6, 40)) if time is not None else None
        cancel = draw(st.none() | st.none() | st.integers(-6, 80)) if time is not None else None
        spec = draw(specs(time))
        spec = draw(places(spec, place)) if globe else spec
        queries.append(
            Asked(
                f"q{number}",
                spec.to_json(),
                None if activate is None or time is None else _stored(time, activate),
                None if cancel is None or time is None else _stored(time, cancel),
            )
        )
    return Case(stream, items, tuple(queries), "nearest")


CUSTOMER = Customer("nearest", cases(), nearest_oracle)
