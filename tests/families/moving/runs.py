"""Streams of moving objects for the tests of the family: many objects over a map or a globe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.items import arrow_schema
from anabranch.families.moving.spec import Box, Circle, KNearest, Moving
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.terms import TRUE, Constant, Not, Op
from tests.laws.case import Asked, Case

COLUMNS = (
    Column("t", ColumnType.FLOAT),
    Column("o", ColumnType.STRING),
    Column("x", ColumnType.FLOAT),
    Column("y", ColumnType.FLOAT),
    Column("k", ColumnType.INT),
)
PLANE = Stream(
    "units",
    COLUMNS,
    time="t",
    object="o",
    position=("x", "y"),
    tick=0.5,
    bounds=((0, 10), (0, 10)),
)
GLOBE = replace(PLANE, metric="haversine", bounds=((-180, 180), (-90, 90)))


def rows_of(stream: Stream, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Items (t, o, x, y) with k = 0."""
    columns = list(zip(*rows, strict=True)) or [()] * 4
    names = [column.name for column in stream.columns]
    return pa.record_batch(
        dict(zip(names, [*columns, [0] * len(rows)], strict=True)), schema=arrow_schema(stream)
    )


def crowd(seed: int, stream: Stream, objects: int = 60, reports: int = 1200, jumps: float = 0.1) -> Case:
    """Objects that wander and jump, often onto whole numbers so that they tie; 30 queries of all kinds."""
    random = np.random.default_rng(seed)
    globe = stream.metric == "haversine"
    low, high = np.array([(-200, -90), (200, 90)] if globe else [(-2, -2), (12, 12)])
    places = random.uniform(low, high, (objects, 2))
    who = random.integers(0, objects, reports)
    seen = np.empty((reports, 2))
    for row, this in enumerate(who):
        if random.random() < jumps:
            places[this] = random.uniform(low, high)
        else:
            places[this] = np.clip(places[this] + random.normal(0, 5 if globe else 0.2, 2), low, high)
        if random.random() < 0.5:
            places[this] = np.round(places[this])
        seen[row] = places[this]
    times = np.cumsum(random.exponential(0.02, reports))
    data = {
        "t": times,
        "o": [f"object-{this}" for this in who],
        "x": seen[:, 0],
        "y": seen[:, 1],
        "k": random.integers(0, 4, reports),
    }
    queries = tuple(_asked(random, number, objects, globe, times[-1]) for number in range(30))
    return Case(stream, pa.record_batch(data, schema=arrow_schema(stream)), queries, "moving")


def _asked(random: np.random.Generator, number: int, objects: int, globe: bool, end: float) -> Asked:
    unit = 2000 if globe else 1
    size, other = (float(n) * unit for n in random.integers(0, 6, 2))
    shape = [Circle(size), Box(size, other), KNearest(int(random.integers(1, 9)))][number % 3]
    focal: Any = f"object-{random.integers(0, objects)}"
    if random.random() < 0.4:
        focal = (float(random.integers(0, 11)), float(random.integers(0, 11)))
    condition = [TRUE, TRUE, Constant("k", Op.EQ, 1), Not(Constant("k", Op.EQ, 2))][random.integers(0, 4)]
    value = None if number % 3 == 2 else [None, None, "count", "min(x)", "max(y)"][random.integers(0, 5)]
    after, until = (float(random.uniform(0, end)) if random.random() < 0.4 else None for _ in range(2))
    return Asked(f"q{number}", Moving(shape, focal, condition, value).to_json(), after, until)
