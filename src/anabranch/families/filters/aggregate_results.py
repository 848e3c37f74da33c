"""The results of aggregate queries: how they lie in their table, and how they come out of composed windows.

The table is one for all aggregate queries of a stream. Queries name and type their aggregates as they like,
so the table has typed columns that each query fills from the left:

    avg(en) AS mean, count(*) AS n, max(en) AS top      float_0 = mean, int_0 = n, float_1 = top

Windows in time are in `window_start` and `window_end`, of the stream's time type (`window_start_float` and
`window_end_float` where a stream of integer time has windows of fractions), windows in rows in `row_start`
and `row_end`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.chain.arrow_columns import ARROW_TYPES, subscription_column
from anabranch.chain.windows import edge_columns
from anabranch.families.base import Shown
from anabranch.families.filters.derived_streams import column_index
from anabranch.families.filters.kernels import compose_windows
from anabranch.families.filters.kernels.compose_windows import ComposedWindows
from anabranch.families.filters.kernels.cut_slices import FLOAT_TIME, FRACTION, ROW, LayoutArrays, ShapeArrays
from anabranch.families.filters.spec import Aggregate, Aggregation, Function
from anabranch.model.arrays import Array, Ints
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import AtEnd
from anabranch.numeric.slots import Slots
from anabranch.numeric.window_edges import NEVER
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import TRUE, Term, to_json

ITEMS = "items"
#: What the state keeps of a query beside its spec: its derived stream, and where its windows in rows begin.
MEMBER = ("number", "stream", "base")

_PREFIX = {ColumnType.INT: "int", ColumnType.FLOAT: "float", ColumnType.TIMESTAMP: "time"}
_CODES = {
    Function.COUNT: compose_windows.COUNTED,
    Function.MIN: compose_windows.LEAST,
    Function.MAX: compose_windows.GREATEST,
    Function.SUM: compose_windows.TOTAL,
    Function.AVG: compose_windows.MEAN,
}
_AT_END = {AtEnd.CUT: 0, AtEnd.GATHER: 1, AtEnd.RUN: 2}


@dataclass(frozen=True)
class AggregateColumn:
    """The column of the table in which a query's aggregation is stored, and how the kernels compute it."""

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


def columns_of(spec: Aggregate, stream: Stream) -> list[AggregateColumn]:
    """Returns where the results of a query are stored, one column per aggregation."""
    filled = dict.fromkeys(_PREFIX, 0)
    out = []
    for aggregation in spec.aggregations:
        kind = result_type(aggregation, stream)
        stored = f"{_PREFIX[kind]}_{filled[kind]}"
        filled[kind] += 1
        function, column = compose_windows.ITEMS, 0
        if aggregation.column is not None:
            function, column = _CODES[aggregation.function], column_index(stream, aggregation.column)
        out.append(AggregateColumn(stored, aggregation.name, kind, function, column))
    return out


def aggregate_shown(spec: Aggregate, stream: Stream) -> tuple[Shown, ...]:
    """The columns that a subscriber sees."""
    start, end, kind = edge_columns(spec.window, stream)
    return (
        Shown(start, Column("window_start", kind)),
        Shown(end, Column("window_end", kind)),
        Shown(ITEMS, Column(ITEMS, ColumnType.INT)),
        *(
            Shown(column.stored, Column(column.name, column.type))
            for column, aggregation in zip(columns_of(spec, stream), spec.aggregations, strict=True)
            if aggregation.is_shown
        ),
    )


@dataclass
class _Having:
    """A HAVING condition of one or more queries."""

    number: int
    condition: Term
    columns: list[AggregateColumn]
    users: int = 0


class AggregateResults:
    """The queries of a zone of `compose`, and their results. Query q gets the windows of its shape with
    low <= k < high. HAVING is decided once for all queries that have the same.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        integer = np.int64
        self.queries = Slots(
            shape=(integer, 0),
            low=(integer, 0),
            high=(integer, NEVER),
            at_end=(integer, 0),
            having=(integer, -1),
        )
        for name in MEMBER:
            self.queries.add_column(name, integer, -1)
        self._names: list[str] = []
        self._types: dict[str, ColumnType] = {}  # of the columns of the table that queries fill
        self._edges: dict[int, tuple[str, str, ColumnType]] = {}  # by axis, see edge_columns
        self._havings: dict[str, _Having] = {}
        self._next_having = 0

    def add(self, name: str, spec: Aggregate, shape: int, axis: int) -> int:
        """Adds a query; returns its slot."""
        slot = self.queries.take(shape=shape, at_end=_AT_END[spec.window.end])
        if slot == len(self._names):
            self._names.append(name)
        self._names[slot] = name
        self._edges[axis] = edge_columns(spec.window, self.stream)
        columns = columns_of(spec, self.stream)
        for column in columns:
            if column.stored not in self._types:
                self._types[column.stored] = column.type
                self.queries.add_column(f"{column.stored} function", np.int64, -1)
                self.queries.add_column(f"{column.stored} column", np.int64, 0)
            self.queries[f"{column.stored} function"][slot] = column.function
            self.queries[f"{column.stored} column"][slot] = column.column
        if spec.having != TRUE:
            having = self._having(spec.having, columns)
            having.users += 1
            self.queries["having"][slot] = having.number
        return slot

    def remove(self, slot: int, spec: Aggregate) -> None:
        if spec.having != TRUE:
            key = _having_key(spec.having, columns_of(spec, self.stream))
            self._havings[key].users -= 1
            if not self._havings[key].users:
                del self._havings[key]
        self.queries.give_back(slot)

    def members(self) -> dict[str, Array]:
        live = self.queries.live
        return {name: self.queries[name][live] for name in MEMBER}

    def _having(self, condition: Term, columns: list[AggregateColumn]) -> _Having:
        key = _having_key(condition, columns)
        if key not in self._havings:
            self._havings[key] = _Having(self._next_having, condition, columns)
            self._next_having += 1
        return self._havings[key]

    def end_stream(self, shapes: ShapeArrays, passed: Ints) -> None:
        """The stream has ended: decides which of the windows that are not full a query still gets. `passed`
        is how many items each derived stream has had.

        docs/decisions/windows-at-the-end.md
        """
        live = self.queries.live
        live = live[self.queries["high"][live] == NEVER]  # those that were not cancelled
        rule, low = self.queries["at_end"][live], self.queries["low"][live]
        shape = self.queries["shape"][live]
        next_ = shapes.next[shape]
        end_of_full = shapes.base[shape] + (next_ - 1) * shapes.step[shape] + shapes.size[shape]
        nothing_left = (
            (shapes.axis[shape] == ROW) & (next_ > 0) & (end_of_full == passed[shapes.stream[shape]])
        )
        gather = np.where(nothing_left, next_, np.maximum(low, next_) + 1)
        high = np.where(rule == _AT_END[AtEnd.CUT], next_, gather)
        self.queries["high"][live] = np.where(rule == _AT_END[AtEnd.RUN], NEVER, high)

    def rows(
        self, composed: ComposedWindows, shapes: ShapeArrays, layouts: LayoutArrays
    ) -> pa.RecordBatch | None:
        """Returns rows of the table: all windows of a query together and in order."""
        live = self.queries.live
        blocks = np.searchsorted(composed.shape, np.arange(len(shapes.axis) + 1))
        begin, count = np.empty(len(live), np.int64), np.empty(len(live), np.int64)
        queries = self.queries
        limits = queries["shape"], queries["low"], queries["high"]
        compose_windows.window_runs(live, *limits, blocks, composed.k, begin, count)
        total = int(count.sum())
        if not total:
            return None
        owners = np.repeat(live, count)
        windows = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(total)
        columns = self._edge_columns(composed, windows, shapes)
        columns[ITEMS] = pa.array(composed.items[windows])
        for stored in self._types:
            if (queries[f"{stored} function"][live[count > 0]] >= 0).any():
                columns[stored] = self._lowered(stored, owners, windows, composed, layouts)
        rows = pa.record_batch({"subscription": self._subscriptions(live, count), **columns})
        return self._having_rows(rows, owners)

    def _edge_columns(
        self, composed: ComposedWindows, windows: Ints, shapes: ShapeArrays
    ) -> dict[str, pa.Array]:
        """Where the windows begin and end, in the columns of their axis: base + k step, and that + size."""
        shape, k = composed.shape[windows], composed.k[windows]
        axis = shapes.axis[shape]
        base = np.where(axis == ROW, 0, shapes.base[shape])  # positions are shown from the activation on
        start = base + k * shapes.step[shape]
        pairs = {False: (start, start + shapes.size[shape])}
        start = shapes.base_float[shape] + k * shapes.step_float[shape]
        pairs[True] = (start, start + shapes.size_float[shape])
        out: dict[str, pa.Array] = {}
        for code in np.unique(axis).tolist():
            first, last, kind = self._edges[code]
            other = axis != code
            for name, values in zip((first, last), pairs[code in (FLOAT_TIME, FRACTION)], strict=True):
                column = pa.array(values, mask=other if other.any() else None)
                out[name] = column.cast(ARROW_TYPES[kind])
        return out

    def _lowered(
        self, stored: str, owners: Ints, windows: Ints, composed: ComposedWindows, layouts: LayoutArrays
    ) -> pa.Array:
        """The values of one column of the table."""
        kind = self._types[stored]
        present = np.empty(len(owners), bool)
        what = self.queries[f"{stored} function"], self.queries[f"{stored} column"]
        values: Array = np.zeros(len(owners), np.float64 if kind is ColumnType.FLOAT else np.int64)
        lower = compose_windows.lower_float if kind is ColumnType.FLOAT else compose_windows.lower_int
        lower(owners, windows, *what, composed, layouts, values, present)
        return pa.array(values, mask=~present).cast(ARROW_TYPES[kind])

    def _subscriptions(self, live: Ints, count: Ints) -> pa.DictionaryArray:
        """The names of these queries, each as often as it has rows."""
        used = np.flatnonzero(count)
        codes = np.repeat(np.arange(len(used), dtype=np.int32), count[used])
        return subscription_column([self._names[slot] for slot in live[used].tolist()], codes)

    def _having_rows(self, rows: pa.RecordBatch, owners: Ints) -> pa.RecordBatch | None:
        """The rows that HAVING lets through."""
        conditions = self.queries["having"][owners]
        if not (conditions >= 0).any():
            return rows
        kept = np.ones(len(owners), bool)
        order = np.argsort(conditions, kind="stable")
        by_condition = conditions[order]
        for having in self._havings.values():
            first, stop = np.searchsorted(by_condition, [having.number, having.number + 1])
            if first < stop:
                own = order[first:stop]
                named = {column.name: rows.column(column.stored) for column in having.columns}
                tested = pa.record_batch({ITEMS: rows.column(ITEMS), **named}).take(pa.array(own))
                kept[own] = evaluate(having.condition, tested)
        return rows.filter(pa.array(kept)) if kept.any() else None


def _having_key(condition: Term, columns: list[AggregateColumn]) -> str:
    return json.dumps([to_json(condition), [[column.stored, column.name] for column in columns]])
