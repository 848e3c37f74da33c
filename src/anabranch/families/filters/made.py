"""The columns that operators of users make, evaluated once for all queries that ask for them.

In: items, and which columns are made by which operators. Out: the items with those columns, or a RunError
that names the operator and who asks for it. Never: an operator on an item that lacks a column that it reads:
there its result is missing, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.model.columns import ColumnType
from anabranch.model.errors import JobError, QueryError, RunError
from anabranch.model.operators import Made, Operator, Read, with_made
from anabranch.model.stream import Stream
from anabranch.zones.columns import ARROW_TYPES, Array

_OF_ARROW = {kind: column for column, kind in ARROW_TYPES.items() if column is not ColumnType.POINT}

#: So many subscriptions are named in an error.
MOST_NAMED = 5


class Wrong(Exception):
    """What an operator did that it must not do."""


def widened(stream: Stream, made: Iterable[Made]) -> Stream:
    """The stream with these columns, too."""
    columns = with_made(stream.columns, made)
    return stream if len(columns) == len(stream.columns) else replace(stream, columns=columns)


def made_of(spec: Mapping[str, Any]) -> list[Made]:
    """The columns that a query, as JSON, needs made, each behind those that it reads."""
    return [Made.from_json(each) for each in spec.get("made", ())]


def in_order(made: Iterable[Made]) -> list[Made]:
    """Each behind those that it reads; in the order of their names where that is free."""
    waiting, ordered = sorted(made, key=lambda each: each.name), list[Made]()
    while waiting:
        names = {each.name for each in waiting}
        ready = [each for each in waiting if not names & set(each.reads)]
        ordered += ready
        waiting = [each for each in waiting if each not in ready]
    return ordered


def result_type(operator: Operator, arguments: Sequence[Read | Any], stream: Stream) -> ColumnType:
    """The type that was declared, or that of what it gives for no items."""
    if operator.type is not None:
        return operator.type
    empty = {
        each.column: pa.array([], ARROW_TYPES[stream.type_of(each.column)])
        for each in arguments
        if isinstance(each, Read)
    }
    declare = 'declare the type of its results: { function = "module:function", type = "float" }'
    try:
        kind = _called(operator, arguments, empty, 0).type
    except Wrong as error:
        raise QueryError(f"operator {operator.name}: tried with no items, it {error}; {declare}") from error
    kind = _plain(kind)
    if kind not in _OF_ARROW:
        raise QueryError(f"operator {operator.name} gives {kind} for no items; {declare}")
    return _OF_ARROW[kind]


def with_columns(
    items: pa.RecordBatch,
    made: Iterable[Made],
    operators: Mapping[str, Operator],
    asked_by: Callable[[str], Iterable[str]],
) -> pa.RecordBatch:
    """The items with the columns of `made`, of which each stands behind those that it reads."""
    for each in made:
        try:
            values = _evaluated(each, operators[each.operator], items)
        except Wrong as error:
            who = ", ".join(sorted(asked_by(each.name))[:MOST_NAMED])
            raise RunError(f"operator {each.name}, asked for by {who}: it {error}") from error
        items = items.append_column(each.name, values)
    return items


def _evaluated(made: Made, operator: Operator, items: pa.RecordBatch) -> pa.Array:
    columns = {name: items.column(name) for name in made.reads}
    there = np.ones(items.num_rows, bool)
    for column in columns.values():
        there &= _there(column)
    kind, count = ARROW_TYPES[made.type], int(there.sum())
    if not count:
        return pa.nulls(items.num_rows, kind)
    if count < items.num_rows:
        columns = {name: column.filter(pa.array(there)) for name, column in columns.items()}
    values = _called(operator, made.arguments, columns, count)
    try:
        values = values.cast(kind)
    except pa.ArrowException as error:
        raise Wrong(f"gave {values.type}, and its results are {made.type}: {error}") from error
    if count == items.num_rows:
        return values
    places = pa.array(np.cumsum(there) - 1, mask=~there)
    return values.take(places)


def _there(column: pa.Array) -> Array:
    there: Array = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        there = there & ~np.isnan(column.to_numpy(zero_copy_only=False))
    return there


def _called(
    operator: Operator, arguments: Sequence[Read | Any], columns: Mapping[str, pa.Array], count: int
) -> pa.Array:
    """What it gives for so many items, none of which lacks a column."""
    given = [_numpy(columns[each.column]) if isinstance(each, Read) else each for each in arguments]
    try:
        values = operator(*given)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        values = values if isinstance(values, pa.Array) else pa.array(values)
    except JobError:  # it cannot be found
        raise
    except Exception as error:
        raise Wrong(f"failed with {type(error).__name__}: {error}") from error
    if len(values) != count:
        raise Wrong(f"gave {len(values)} values for {count} items; it must give one an item")
    return values


def _numpy(column: pa.Array) -> Array:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that a stream's columns have for it."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_timestamp(kind):
        return ARROW_TYPES[ColumnType.TIMESTAMP]
    return pa.string() if pa.types.is_large_string(kind) else kind
