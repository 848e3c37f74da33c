"""One stream made from another: what a node of a plan does to the rows that reach it.

It uses only rows and columns that the first stream carries, so that a wrong match shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.filters.computed_columns import in_order, with_columns
from anabranch.families.filters.spec import Aggregate, Function, Select
from anabranch.model.operators import Operator
from anabranch.planning.properties import ITEMS, WINDOW, Properties, canonical_name
from anabranch.planning.selections import residual, term_of
from anabranch.predicates.conjunction import EVERYTHING, Normal
from anabranch.predicates.evaluate import evaluate
from anabranch.simulate.windows import StreamSpan, average, from_items, from_windows

Row = dict[str, Any]

Operators = Mapping[str, Operator]
NO_OPERATORS: Operators = MappingProxyType({})


def derive(
    narrow: Properties,
    wide: Properties,
    rows: pa.RecordBatch,
    span: StreamSpan,
    operators: Operators = NO_OPERATORS,
) -> pa.RecordBatch:
    """Returns the rows of `narrow`, made from those of `wide`."""
    return derive_counted(narrow, wide, rows, span, operators)[0]


def derive_counted(
    narrow: Properties,
    wide: Properties,
    rows: pa.RecordBatch,
    span: StreamSpan,
    operators: Operators = NO_OPERATORS,
) -> tuple[pa.RecordBatch, int]:
    """Returns the rows, and how many passed the selection, before any window."""
    if narrow == wide:
        return rows, rows.num_rows
    if wide.aggregated is not None:
        assert narrow.aggregated is not None, "items cannot be made from aggregates"
        made = from_windows(wide.aggregated.window, narrow.aggregated, rows, span)
        return _having(narrow.aggregated.having, made), 0
    fresh = in_order(narrow.operators - wide.operators)
    rows = with_columns(rows, fresh, operators, lambda _: [narrow.text])
    rows = _selected(residual(narrow.selection, wide.selection), rows)
    if narrow.aggregated is None:
        return rows.select(sorted(narrow.columns)), rows.num_rows
    made = from_items(narrow.aggregated, rows, narrow.time, span)
    return _having(narrow.aggregated.having, made), rows.num_rows


def _selected(condition: Normal, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows if condition == EVERYTHING else rows.filter(pa.array(evaluate(term_of(condition), rows)))


def _having(having: Normal, rows: pa.RecordBatch) -> pa.RecordBatch:
    if having == EVERYTHING:
        return rows
    seen = rows
    for name in sorted(set(having.columns())):
        if name.startswith("avg("):
            seen = seen.append_column(name, average(rows, name[4:-1]))
    return rows.filter(pa.array(evaluate(term_of(having), seen)))


def answer(spec: Select | Aggregate, rows: pa.RecordBatch, span: StreamSpan) -> list[Row]:
    """Returns what the subscriber sees: names and order of columns, averages, times of windows."""
    if isinstance(spec, Select):
        chosen: list[Row] = pa.record_batch(
            {one.name: rows.column(one.column) for one in spec.outputs}
        ).to_pylist()
        return chosen
    window = spec.window
    numbers = np.asarray(rows.column(WINDOW))
    origin = 0 if window.by_rows else span.origin
    starts = [origin + int(number) * window.step for number in numbers]
    columns: dict[str, Any] = {
        "window_start": starts,
        "window_end": [start + window.size for start in starts],
        ITEMS: rows.column(ITEMS),
    }
    for one in spec.aggregations:
        if one.function is Function.AVG:
            assert one.column is not None
            columns[one.name] = average(rows, one.column)
        else:
            columns[one.name] = rows.column(canonical_name(one))
    shown: list[Row] = pa.table(columns).to_pylist()
    return shown
