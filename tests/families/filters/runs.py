"""What the tests of the filters family share: a stream, queries on it, and how to run them batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from anabranch.chain.budget import Budget
from anabranch.chain.items import arrow_schema
from anabranch.chain.runner import Runner
from anabranch.families.filters.family import Filters
from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Output, Select
from anabranch.families.results import rows_of
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Control
from anabranch.model.stream import Stream
from anabranch.model.window import AtEnd, Window
from anabranch.predicates.terms import TRUE, Term

STREAM = Stream(
    "s",
    (
        Column("t", ColumnType.INT),
        Column("a", ColumnType.FLOAT),
        Column("n", ColumnType.INT),
        Column("s", ColumnType.STRING),
    ),
    time="t",
)

Row = dict[str, Any]


def items(times: Sequence[int], stream: Stream = STREAM, **columns: Sequence[Any]) -> pa.RecordBatch:
    """Items at these times; columns that are not given are missing."""
    data = {c.name: columns.get(c.name, [None] * len(times)) for c in stream.columns} | {"t": list(times)}
    return pa.record_batch(data, schema=arrow_schema(stream))


def select(condition: Term = TRUE, columns: Sequence[str] = ("t",)) -> Select:
    return Select(tuple(Output(name, name) for name in columns), condition)


def by_rows(size: int, step: int, at_end: str | None = None) -> Window:
    return Window("rows", size, step, at_end and AtEnd(at_end))


def by_range(size: float, step: float, at_end: str | None = None) -> Window:
    return Window("range", size, step, at_end and AtEnd(at_end))


def aggregate(window: Window, *calls: str, condition: Term = TRUE, having: Term = TRUE) -> Aggregate:
    """`aggregate(window, "sum a", "count *")`; the results are called v0, v1, ..."""
    aggregations = []
    for index, call in enumerate(calls):
        function, column = call.split()
        aggregations.append(Aggregation(Function(function), None if column == "*" else column, f"v{index}"))
    return Aggregate(tuple(aggregations), window, condition, having)


class Run:
    """A stream with queries, in one process; at least so many items go to a zone of `share` together."""

    def __init__(
        self, stream: Stream = STREAM, zones: int = 1, least: int = 1, budget: Budget | None = None
    ) -> None:
        self.family = Filters(least, budget)
        self.runner = Runner(stream, self.family, zones)
        self.specs: dict[str, Select | Aggregate] = {}

    def activate(self, activate_time: int | None = None, **specs: Select | Aggregate) -> list[Control]:
        """Controls that activate queries under these names; numbers count up from 0."""
        out: list[Control] = []
        for name, spec in specs.items():
            out.append(Activate(len(self.specs), name, spec.to_json(), activate_time))
            self.specs[name] = spec
        return out

    def batch(self, rows: pa.RecordBatch | None = None, control: Sequence[Control] = ()) -> None:
        self.runner.batch(rows, control)

    def results(self, name: str) -> list[Row]:
        table_name, shown = self.family.shown(self.runner.stream, self.specs[name].to_json())
        table = self.family.table(table_name)
        batches = self.runner.tables[table_name].values()
        return [row for batch in batches for row in rows_of(batch, table, name, shown).to_pylist()]

    def windows(self, name: str) -> list[tuple[Any, Any, int]]:
        return [(row["window_start"], row["window_end"], row["items"]) for row in self.results(name)]
