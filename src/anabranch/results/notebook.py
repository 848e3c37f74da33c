"""What an engine and a subscription show in a notebook: HTML tables."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from anabranch.catalog.entries import Entry
from anabranch.model.html import html_table
from anabranch.model.stream import Stream

#: Rows of results that are shown.
MOST_ROWS = 20


def engine_html(streams: Iterable[Stream], subscriptions: Iterable[Entry]) -> str:
    """Returns the streams and the subscriptions of an engine as two tables."""
    columns = [
        (stream.name, stream.time, ", ".join(column.name for column in stream.columns)) for stream in streams
    ]
    queries = [(entry.label, entry.stream, entry.kind, entry.query) for entry in subscriptions]
    return html_table("streams", ("stream", "time", "columns"), columns) + html_table(
        "subscriptions", ("subscription", "stream", "kind", "query"), queries
    )


def subscription_html(entry: Entry, results: pa.Table) -> str:
    """Returns a subscription as a table of its last results."""
    first = max(0, results.num_rows - MOST_ROWS)
    rows = results.slice(first).to_pylist()
    number = f"{results.num_rows:,} rows" + (f", the last {MOST_ROWS}" if first else "")
    caption = f"{entry.label}: {entry.query} ({number})"
    return html_table(caption, results.column_names, [list(row.values()) for row in rows])
