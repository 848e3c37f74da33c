"""Small streams for the tests of clusters: items from lists, on the local runner."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import AtEnd, Window
from anabranch.zones.columns import arrow_schema
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


def line_items(stream: Stream, times: list[Any], places: list[float | None]) -> pa.RecordBatch:
    data = {"x": places} if stream.time is None else {"t": times, "x": places}
    return pa.record_batch(data, schema=arrow_schema(stream))


def ask(window: Window, reach: float = 1.0, count: int = 1, emit: Emit = Emit.MEMBERS, **when: Any) -> Asked:
    return Asked("q", Clusters(reach, count, ("x",), window, emit=emit).to_json(), **when)


def answer(stream: Stream, items: pa.RecordBatch, asked: Asked, **how: Any) -> list[Row]:
    return run_local(Case(stream, items, (asked,), "clusters"), **how).results["q"]


def windows(found: list[Row]) -> list[tuple[Any, Any]]:
    """The windows that gave rows, each once."""
    return list(dict.fromkeys((row["window_start"], row["window_end"]) for row in found))
