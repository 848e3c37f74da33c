"""Stream order by the book: docs/queries.md, Streams, one item at a time."""

from __future__ import annotations

from typing import Any

from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream

Row = dict[str, Any]


def stream_order(stream: Stream, rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """(items in stream order, each with its number under '#' and its stored time under '#time'; late
    items).
    """
    timely, late = [], []
    greatest = None
    for row in rows:
        time = stored_time(stream, row)
        if greatest is not None and time is not None and time < greatest - stream.lateness:
            late.append(row)
            continue
        if time is not None:
            greatest = time if greatest is None else max(greatest, time)
        timely.append({**row, "#time": time})
    if stream.time is not None:
        timely.sort(key=lambda row: row["#time"])  # stable: source order among equals
    return [{**row, "#": number} for number, row in enumerate(timely)], late


def stored_time(stream: Stream, row: Row) -> Any:
    if stream.time is None:
        return None
    time = row[stream.time]
    if stream.type_of(stream.time) is ColumnType.TIMESTAMP:
        return round(time.timestamp() * 1_000_000)
    return time


def seen(items: list[Row], after: Any, until: Any) -> list[Row]:
    """The items a query sees: after < time <= until."""
    return [
        item
        for item in items
        if (after is None or item["#time"] > after) and (until is None or item["#time"] <= until)
    ]
