"""aggregate, by brute force: every window of every query is looked at by itself, over all items.

Which windows a query has (docs/queries.md), with N the number of items that pass its condition while it
runs, `last` the time of the stream's last item, and time moving no further than that:

| window            | ROWS n STEP m: window j is full when     | RANGE n STEP m: window j is full when    |
|-------------------|------------------------------------------|------------------------------------------|
| while it runs     | n + (j-1)m <= N                          | origin + (j-1)m + n <= last              |
| at its end, cut   | no others                                | no others                                |
| at its end, gather| and the first that is not full, unless   | and the first that is not full           |
|                   | a window ended with the last item        |                                          |
| at its end, run   | and all that begin before N              | and all that begin at or before `last`   |
| it is cancelled   | full by the items it saw, no others      | origin + (j-1)m + n <= until, no others  |

A RANGE window is full when an item of the stream, whether the query selects it or not, has reached the
window's end: from then on no item can come that belongs to it (the paper's appendix A and figure 12:
processing terminates when the final item enters the current window). Windows without items give no result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from anabranch.families.filters.spec import HIDDEN, Aggregate, Aggregation, Function
from anabranch.model.columns import ColumnType
from anabranch.model.window import AtEnd
from tests.laws.case import Asked, Case
from tests.oracles.conditions import holds, plain
from tests.oracles.stream_order import Row, seen, stream_order

#: window_start, window_end, the items in it
Found = tuple[Any, Any, list[Row]]


def aggregate_oracle(case: Case) -> dict[str, list[Row]]:
    items, _ = stream_order(case.stream, case.items.to_pylist())
    out = {}
    for asked in case.queries:
        spec = Aggregate.from_json(asked.spec)
        find = _by_rows if spec.window.by_rows else _by_range
        rows = [_result(spec, found) for found in find(spec, asked, items) if found[2]]
        out[asked.name] = [_shown(case, spec, row) for row in rows if holds(spec.having, row)]
    return out


def _cancelled(asked: Asked, items: list[Row]) -> bool:
    """Whether the query ended before the stream did: some item came too late for it."""
    return asked.until is not None and bool(items) and items[-1]["#time"] > asked.until


def _by_rows(spec: Aggregate, asked: Asked, items: list[Row]) -> Iterator[Found]:
    passed = [item for item in seen(items, asked.after, asked.until) if holds(spec.condition, item)]
    at_end = AtEnd.CUT if _cancelled(asked, items) else spec.window.end
    start, partial, all_given = 0, 0, False
    while start < len(passed):
        end = start + int(spec.window.size)
        full = end <= len(passed)
        all_given |= end == len(passed)
        partial += not full
        if at_end is AtEnd.GATHER and all_given and not full:
            return
        if full or at_end is AtEnd.RUN or (at_end is AtEnd.GATHER and partial == 1):
            yield start, end, passed[start:end]
        start += int(spec.window.step)


def _by_range(spec: Aggregate, asked: Asked, items: list[Row]) -> Iterator[Found]:
    if not items:
        return
    origin, last = items[0]["#time"], items[-1]["#time"]
    cancelled = _cancelled(asked, items)
    j, partial = 1, 0
    while origin + (j - 1) * spec.window.step <= last:
        start = origin + (j - 1) * spec.window.step
        end = origin + (j - 1) * spec.window.step + spec.window.size
        j += 1
        if asked.after is not None and start <= asked.after:
            continue
        full = end <= (asked.until if cancelled else last)
        partial += not full
        at_end = AtEnd.CUT if cancelled else spec.window.end
        if full or at_end is AtEnd.RUN or (at_end is AtEnd.GATHER and partial == 1):
            inside = [item for item in items if start <= item["#time"] < end]
            yield start, end, [item for item in inside if holds(spec.condition, item)]


def _result(spec: Aggregate, found: Found) -> Row:
    start, end, items = found
    row = {"window_start": start, "window_end": end, "items": len(items)}
    return row | {aggregation.name: _value(aggregation, items) for aggregation in spec.aggregations}


def _value(aggregation: Aggregation, items: list[Row]) -> Any:
    if aggregation.column is None:
        return len(items)
    values = [item[aggregation.column] for item in items if plain(item[aggregation.column]) is not None]
    match aggregation.function:
        case Function.COUNT:
            return len(values)
        case _ if not values:
            return None
        case Function.MIN:
            return min(values)
        case Function.MAX:
            return max(values)
        case Function.SUM:
            return _sum(values)
        case Function.AVG:
            return _sum(values) / len(values)


def _sum(values: list[Any]) -> Any:
    """Exact, rounded once at the end."""
    return math.fsum(values) if isinstance(values[0], float) else sum(values)


def _shown(case: Case, spec: Aggregate, row: Row) -> Row:
    """As the subscriber sees it: no aggregate that only HAVING asks for, timestamps in place of
    microseconds.
    """
    from datetime import UTC, datetime, timedelta

    row = {name: value for name, value in row.items() if not name.startswith(HIDDEN)}
    if spec.window.by_rows or case.stream.time_type is not ColumnType.TIMESTAMP:
        return row
    shown = {
        name: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row[name])
        for name in ("window_start", "window_end")
    }
    return row | shown
