"""Cases for moving: objects that jump, stand still, report twice in a tick, tie, sit on borders, and vanish.

Every choice is made by a `Pick`. In one case of four that is hypothesis itself, which likes small cases and
the same value again and again, and shrinks well; in the others it is a seed, and objects meet.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.chain.items import arrow_schema
from anabranch.families.moving.spec import Box, Circle, KNearest, Moving, Shape
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Op, Or, Term
from tests.laws.case import Asked, Case
from tests.laws.customers import Customer
from tests.oracles.moving import moving_oracle

Pick = Callable[[Sequence[Any]], Any]

#: Some share their first eight bytes, one is no ASCII, one is empty; by code point "Z" < "a" < "é".
STRINGS = ["a", "Z", "é", "", "vehicle-1", "vehicle-10", "vehicle-2"]
INTEGERS = [-2, 0, 3, 9, 10]

#: Corners of the regions of every layout below are among the products of these, so that borders are met.
PLACES = [-3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0]
FAR = [-1000.0, 77.7, 1e6]
#: On a globe as well: both poles, and either side of the date line; longitudes as somebody counts them, from
#: Greenwich both ways, from it eastward, or by turns.
POLAR = [-90.0, 90.0]
LONGITUDES = [
    [179.5, -179.5, 180.0, -180.0, -1.0],
    [179.5, 180.5, 180.0, 359.0, 300.0, 190.0],
    [179.5, 180.5, -179.5, 359.5, -0.5, 540.0, 361.0, -360.0],
]

#: The regional servers: one, grids with points outside, rectangles that overlap and leave gaps, no bounds.
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"regions": (1, 1), "bounds": ((-3, 3), (-3, 3))},
    {"regions": (3, 3), "bounds": ((-3, 3), (-3, 3))},
    {"regions": (4, 2), "bounds": ((-1, 1), (0, 2))},
    {"regions": (4, 1), "bounds": ((0, 360), (-90, 90))},
    {
        "regions": (
            (-3.0, -3.0, 0.0, 0.0),
            (-1.0, -1.0, 1.0, 1.0),
            (1.0, 0.0, 3.0, 3.0),
            (-3.0, 1.5, -2.0, 3.0),
        )
    },
]

CONDITIONS: list[Term] = [
    *[TRUE] * 5,
    Constant("side", Op.EQ, "friend"),
    Not(Constant("side", Op.EQ, "friend")),
    Constant("n", Op.GE, 2),
    And((Constant("n", Op.LT, 3), Not(Constant("side", Op.EQ, "foe")))),
    Or((Constant("x", Op.GT, 0.0), Constant("n", Op.EQ, 0))),
    Difference("x", Op.LE, "y", 0.5),
]

_NEAREST: list[Shape] = [KNearest(k) for k in (1, 2, 3, 5)]
SHAPES: list[Shape] = [
    *(Circle(radius) for radius in (2.5, 2.0, 1.0, 5.0, 0.0, 0.5, 2000.0)),
    *(Box(*size) for size in ((3.0, 4.0), (4.0, 1.0), (1.0, 6.0), (0.0, 3000.0))),
    *_NEAREST,
]
#: In kilometres; a degree is 111.
GLOBE_SHAPES: list[Shape] = [
    *(Circle(radius) for radius in (300.0, 120.0, 60.0, 12000.0, 0.0, 30000.0)),
    *(Box(*size) for size in ((600.0, 500.0), (150.0, 50000.0), (50000.0, 500.0), (0.0, 50.0))),
    *_NEAREST,
]

VALUES = [None, None, "count", "min(x)", "max(x)", "min(y)", "max(y)"]

#: type of time -> (ticks, the time units of a step of 1 in `_steps`)
_TICKS: dict[ColumnType, tuple[list[Any], float]] = {
    ColumnType.INT: ([1, 2, 3, 0.5, 1.0], 1),
    ColumnType.FLOAT: ([0.25, 0.3, 1, 0.75], 0.25),
    ColumnType.TIMESTAMP: ([500_000, 1_000_000, 700_000], 500_000),
}
_START = datetime(2026, 1, 1, tzinfo=UTC)


def stream_of(pick: Pick) -> Stream:
    time = pick([ColumnType.INT, ColumnType.INT, ColumnType.FLOAT, ColumnType.TIMESTAMP])
    ticks, unit = _TICKS[time]
    columns = {
        "t": time,
        "o": pick([ColumnType.STRING, ColumnType.STRING, ColumnType.INT]),
        "x": ColumnType.FLOAT,
        "y": pick([ColumnType.FLOAT, ColumnType.FLOAT, ColumnType.INT]),
        "side": ColumnType.STRING,
        "n": ColumnType.INT,
    }
    silences = [int(n * unit) if unit > 1 else n * unit for n in (6, 9, 60, 2.5, 1, 0)]
    metric = pick(["euclidean", "euclidean", "euclidean", "haversine"])
    return Stream(
        "units",
        tuple(Column(name, kind) for name, kind in columns.items()),
        time="t",
        object="o",
        position=("x", "y"),
        lateness=pick([0, 0, 2]) * unit,
        tick=pick(ticks),
        expire=pick([*[None] * 6, *silences]),
        metric=metric,
        unit=pick([None, "km", "miles", "m"]) if metric == "haversine" else None,
        **pick(LAYOUTS),
    )


def _steps(pick: Pick, count: int, lateness: int) -> list[int]:
    """Ascending with ties, in some streams with long gaps, in some with one item in eight behind its time."""
    gaps, shaken = pick([False, False, True]), pick([False, False, True])
    out, now = [], pick(range(-5, 6))
    for place in range(count):
        now += pick([0, 0, 1, 1, 2, 3]) + (50 if gaps and place % 8 == 7 else 0)
        late = pick(range(lateness + 3)) if shaken and pick(range(8)) == 7 else 0
        out.append(now - late)
    return out


def _moment(stream: Stream, step: int, stored: bool) -> Any:
    """The time of a step, as a stored number or as an item has it."""
    if stream.time_type is ColumnType.TIMESTAMP:
        time = _START + timedelta(milliseconds=500 * step)
        return round(time.timestamp() * 1_000_000) if stored else time
    return step / 4 if stream.time_type is ColumnType.FLOAT else step


def items_of(pick: Pick, stream: Stream, names: list[Any]) -> pa.RecordBatch:
    """Mostly sound reports of a few objects; one value in twenty or so is missing."""
    assert stream.time_type is not None
    count = pick([20, 35, 50, 35, 50, 8, 1, 0])
    lateness = int(stream.lateness / _TICKS[stream.time_type][1])
    few = [pick(PLACES) for _ in range(4)]  # so that objects meet, tie and come back
    globe = stream.metric == "haversine"
    places = few * 5 + (POLAR if globe else FAR)
    turned = [pick([place, place, place + 360.0]) for place in few]
    across = [*turned, *few, *pick(LONGITUDES)] if globe else places
    whole = [*range(-3, 4), *range(-3, 4), None]
    choices: dict[str, list[Any]] = {
        "o": [*names * 4, None],
        "x": [*across, None, float("nan"), float("inf")],
        "y": [*places, None] if stream.type_of("y") is ColumnType.FLOAT else whole,
        "side": ["friend", "friend", "foe", None],
        "n": [0, 1, 2, 3, None],
    }
    data: dict[str, list[Any]] = {
        "t": [_moment(stream, step, False) for step in _steps(pick, count, lateness)]
    }
    data |= {name: [pick(values) for _ in range(count)] for name, values in choices.items()}
    return pa.record_batch(data, schema=arrow_schema(stream))


def asked_of(
    pick: Pick, number: int, stream: Stream, names: list[Any], shapes: list[Shape] | None = None
) -> Asked:
    """A query, of which some come later than the stream's start and go before its end."""
    objects = [str(name) for name in names]
    nobody = "12345" if stream.type_of("o") is ColumnType.INT else "nobody"
    shape = pick(shapes or (SHAPES if stream.metric == "euclidean" else GLOBE_SHAPES))
    focal = pick([*objects * 3, nobody, *[None] * len(objects)])
    across = PLACES if stream.metric == "euclidean" else [*PLACES, *LONGITUDES[2]]
    focal = (pick(across), pick(PLACES)) if focal is None else focal
    value = None if isinstance(shape, KNearest) else pick(VALUES)
    spec = Moving(shape, focal, pick(CONDITIONS), value, pick([None, *objects]))
    after, length = pick([*[None] * 8, *range(-6, 40, 4)]), pick([*[None] * 12, *range(0, 60, 6)])
    until = None if length is None else (-6 if after is None else after) + length
    return Asked(
        f"q{number}",
        spec.to_json(),
        None if after is None else _moment(stream, after, True),
        None if until is None else _moment(stream, until, True),
    )


@st.composite
def cases(draw: st.DrawFn, shapes: list[Shape] | None = None) -> Case:
    pick: Pick = lambda choices: draw(st.sampled_from(choices))  # noqa: E731
    if pick([True, True, True, False]):
        pick = random.Random(draw(st.integers(0, 1 << 32))).choice
    stream = stream_of(pick)
    known = STRINGS if stream.type_of("o") is ColumnType.STRING else INTEGERS
    names = sorted({pick(known) for _ in range(6)})
    queries = tuple(asked_of(pick, number, stream, names, shapes) for number in range(pick(range(1, 8))))
    return Case(stream, items_of(pick, stream, names), queries, "moving")


def nearest_cases() -> st.SearchStrategy[Case]:
    """With queries for nearest objects alone, most of them for fewer than there are."""
    return cases([KNearest(k) for k in (1, 1, 2, 2, 3, 5)])


def with_layout(case: Case, layout: dict[str, Any]) -> Case:
    """The same case under other regional servers."""
    return replace(case, stream=replace(case.stream, **({"regions": (3, 3), "bounds": ()} | layout)))


CUSTOMER = Customer("moving", cases(), moving_oracle)
