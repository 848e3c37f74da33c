"""Streams for the tests of clusters: items from lists, on the local runner; crowds for splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.items import arrow_schema
from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import AtEnd, Window
from tests.families.splits_runs import crowd_at
from tests.laws.case import Asked, Case, Row, run_local


def rows(size: float, step: float | None = None, at_end: AtEnd | None = None) -> Window:
    return Window("rows", size, step or size, at_end)


def span(size: float, step: float | None = None, at_end: AtEnd | None = None) -> Window:
    return Window("range", size, step or size, at_end)


def line_stream(time: ColumnType | None = ColumnType.INT, **settings: Any) -> Stream:
    """A stream of points x on a line, with a time t unless that is None."""
    columns = [Column("x", ColumnType.FLOAT)]
    if time is not None:
        columns.insert(0, Column("t", time))
        settings["time"] = "t"
    return Stream("s", tuple(columns), **settings)


def line_items(stream: Stream, times: list[Any], xs: list[float | None]) -> pa.RecordBatch:
    data = {"x": xs} if stream.time is None else {"t": times, "x": xs}
    return pa.record_batch(data, schema=arrow_schema(stream))


def query(
    window: Window, reach: float = 1.0, count: int = 1, emit: Emit = Emit.MEMBERS, **when: Any
) -> Asked:
    return Asked("q", Clusters(reach, count, ("x",), window, emit=emit).to_json(), **when)


def results_of(stream: Stream, items: pa.RecordBatch, query: Asked, **how: Any) -> list[Row]:
    return run_local(Case(stream, items, (query,), "clusters"), **how).results["q"]


def windows(results: list[Row]) -> list[tuple[Any, Any]]:
    """The windows that gave rows, each once."""
    return list(dict.fromkeys((row["window_start"], row["window_end"]) for row in results))


PLANE = Stream("s", tuple(Column(name, ColumnType.FLOAT) for name in ("t", "a", "b")), time="t")


def crowd(seed: int, items: int = 1200, queries: int = 14) -> Case:
    """Points that cluster and drift, now and then without a coordinate; queries that come and go."""
    random = np.random.default_rng(seed)
    middle = np.cumsum(random.normal(0, 0.05, (items, 2)), axis=0) + random.choice([0.0, 2.0], (items, 1))
    points = (middle + random.normal(0, 0.6, (items, 2))).round(1)
    return crowd_at(points, random, PLANE, "clusters", _query, queries)


def _query(random: np.random.Generator, number: int, end: float) -> Asked:
    window = [Window("range", 20.0, 5.0), Window("rows", 150, 40), Window("range", 7.5, 3.0)][number % 3]
    by = ("a", "b") if number % 5 else ("b",)
    emit = list(Emit)[int(random.integers(3))]
    reach, count = float(random.choice([0.1, 0.2, 0.3, 0.5])), int(random.integers(1, 9))
    after, until = (float(random.uniform(0, end)) if random.random() < 0.4 else None for _ in range(2))
    return Asked(f"q{number}", Clusters(reach, count, by, window, emit=emit).to_json(), after, until)
