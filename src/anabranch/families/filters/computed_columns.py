"""Columns computed by user-defined operators.

`scale(en, 2.5)` in a query becomes a column of that name. It is computed once per batch, however many queries
use it, and dropped when the last of them is cancelled.

    columns = ComputedColumns(stream, [made_of(query.spec)])
    columns.add(query.number, query.name, made_of(query.spec))     # when the query is activated
    items = columns.compute(items)                                 # the items, with one more column per call

Where an item lacks a column that the operator reads, the operator is not called and its result is missing,
too. An operator that fails ends the run with an error that names it and the queries that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.items import ARROW_TYPES
from anabranch.model.arrays import Array, Bools
from anabranch.model.columns import ColumnType
from anabranch.model.errors import JobError, QueryError, SubscriptionError
from anabranch.model.operators import Made, Operator, Read, with_made
from anabranch.model.stream import Stream

_OF_ARROW = {kind: column for column, kind in ARROW_TYPES.items() if column is not ColumnType.POINT}

#: So many subscriptions are named in an error.
MOST_NAMED = 5


class OperatorFault(Exception):
    """What an operator did that it must not do, as the end of a sentence that begins with "it"."""


class ComputedColumns:
    """The computed columns of the queries of a zone of `share`, and who uses them."""

    def __init__(self, stream: Stream, calls: Iterable[Iterable[Made]]) -> None:
        """`calls` are those of all queries that will be added, one list per query. `self.stream` is the
        stream with their columns.
        """
        self.calls = {made.name: made for query in calls for made in query}
        self.stream = widened(stream, self.calls.values())
        self._operators = {operator.name: operator for operator in stream.operators}
        self._users: dict[str, dict[int, str]] = {}  # column -> numbers and names of queries

    def covers(self, made: Iterable[Made]) -> bool:
        """Returns whether the stream has all of these columns."""
        return all(each.name in self.calls for each in made)

    def add(self, number: int, name: str, made: Iterable[Made]) -> None:
        for each in made:
            self._users.setdefault(each.name, {})[number] = name

    def remove(self, number: int, made: Iterable[Made]) -> None:
        for each in made:
            del self._users[each.name][number]

    def compute(self, items: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the items with the columns that any query uses now."""
        used = [made for name, made in self.calls.items() if self._users.get(name)]
        return with_columns(items, used, self._operators, lambda name: self._users[name].values())


def widened(stream: Stream, made: Iterable[Made]) -> Stream:
    """Returns the stream with these columns added."""
    columns = with_made(stream.columns, made)
    return stream if len(columns) == len(stream.columns) else replace(stream, columns=columns)


def made_of(spec: Mapping[str, Any]) -> list[Made]:
    """Returns the computed columns of a query from its spec as JSON, each after those that it reads."""
    return [Made.from_json(each) for each in spec.get("made", ())]


def in_order(made: Iterable[Made]) -> list[Made]:
    """Sorts columns so that each comes after those that it reads; otherwise by name."""
    rest, ordered = sorted(made, key=lambda each: each.name), list[Made]()
    while rest:
        names = {each.name for each in rest}
        ready = [each for each in rest if not names & set(each.reads)]
        ordered += ready
        rest = [each for each in rest if each not in ready]
    return ordered


def result_type(operator: Operator, arguments: Sequence[Read | Any], stream: Stream) -> ColumnType:
    """Returns the declared type of an operator or, without one, the type of its result for no items."""
    if operator.type is not None:
        return operator.type
    empty = {
        each.column: pa.array([], ARROW_TYPES[stream.type_of(each.column)])
        for each in arguments
        if isinstance(each, Read)
    }
    declare = 'declare the type of its results: { function = "module:function", type = "float" }'
    try:
        kind = _call(operator, arguments, empty, 0).type
    except OperatorFault as error:
        raise QueryError(f"operator {operator.name}: tried with no items, it {error}; {declare}") from error
    kind = _plain(kind)
    if kind not in _OF_ARROW:
        raise QueryError(f"operator {operator.name} gives {kind} for no items; {declare}")
    return _OF_ARROW[kind]


def with_columns(
    items: pa.RecordBatch,
    made: Iterable[Made],
    operators: Mapping[str, Operator],
    users: Callable[[str], Iterable[str]],
) -> pa.RecordBatch:
    """Returns the items with the columns `made`, each of which comes after those that it reads. `users` names
    the subscriptions that use a column.
    """
    for each in made:
        try:
            values = _computed(each, operators[each.operator], items)
        except OperatorFault as error:
            names = sorted(users(each.name))
            who = ", ".join(names[:MOST_NAMED])
            raise SubscriptionError(f"operator {each.name}, used by {who}: it {error}", names) from error
        items = items.append_column(each.name, values)
    return items


def _computed(made: Made, operator: Operator, items: pa.RecordBatch) -> pa.Array:
    columns = {name: items.column(name) for name in made.reads}
    present = np.ones(items.num_rows, bool)
    for column in columns.values():
        present &= _present(column)
    kind, count = ARROW_TYPES[made.type], int(present.sum())
    if not count:
        return pa.nulls(items.num_rows, kind)
    if count < items.num_rows:
        columns = {name: column.filter(pa.array(present)) for name, column in columns.items()}
    values = _call(operator, made.arguments, columns, count)
    try:
        values = values.cast(kind)
    except pa.ArrowException as error:
        raise OperatorFault(f"gave {values.type}, and its results are {made.type}: {error}") from error
    if count == items.num_rows:
        return values
    return values.take(pa.array(np.cumsum(present) - 1, mask=~present))


def _present(column: pa.Array) -> Bools:
    """Returns where a column is not missing."""
    present: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        present = present & ~np.isnan(column.to_numpy(zero_copy_only=False))
    return present


def _call(
    operator: Operator, arguments: Sequence[Read | Any], columns: Mapping[str, pa.Array], count: int
) -> pa.Array:
    """Calls an operator for `count` items, none of which lacks a column."""
    given = [_numpy(columns[each.column]) if isinstance(each, Read) else each for each in arguments]
    try:
        values = operator(*given)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        values = values if isinstance(values, pa.Array) else pa.array(values)
    except JobError:  # it cannot be found
        raise
    except Exception as error:
        raise OperatorFault(f"failed with {type(error).__name__}: {error}") from error
    if len(values) != count:
        raise OperatorFault(f"gave {len(values)} values for {count} items; it must give one per item")
    return values


def _numpy(column: pa.Array) -> Array:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def _plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type that columns of a stream have for such values."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_timestamp(kind):
        return ARROW_TYPES[ColumnType.TIMESTAMP]
    return pa.string() if pa.types.is_large_string(kind) else kind
