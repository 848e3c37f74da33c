"""Results as JSON lines, each with its subscriber's own columns: for the json sink and for Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.items import json_row
from anabranch.families.base import Shown
from anabranch.families.results import SUBSCRIPTION, SUBSCRIPTIONS
from anabranch.model.stream import NUMBER

#: subscription -> the columns that it sees
Subscribers = Mapping[str, Sequence[Shown]]


def lines_of(rows: pa.RecordBatch, subscribers: Subscribers) -> Iterator[tuple[str, str]]:
    """(subscription, line) of every result: a row that answers several subscriptions gives a line for each.

    A line begins with the subscription and, where the table has it, the item's number under '#'.
    """
    rows = exploded(rows)
    names = rows.column(SUBSCRIPTION).cast(pa.string())
    for name in pc.unique(names).to_pylist():
        shown = subscribers.get(name, ())
        own = rows.filter(pc.equal(names, name))
        columns = [column for column in shown if column.stored in own.schema.names]
        part = pa.record_batch(
            [own.column(s.stored) for s in columns], names=[s.column.name for s in columns]
        )
        numbers = own.column(NUMBER).to_pylist() if NUMBER in own.schema.names else [None] * own.num_rows
        for number, row in zip(numbers, part.to_pylist() if columns else [{}] * own.num_rows, strict=True):
            head = {SUBSCRIPTION: name} | ({NUMBER: number} if number is not None else {})
            yield name, json.dumps(head | json_row(row), ensure_ascii=False)


def exploded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """One row per row and subscription."""
    if SUBSCRIPTION in rows.schema.names:
        return rows
    lists = rows.column(SUBSCRIPTIONS)
    taken = rows.drop_columns([SUBSCRIPTIONS]).take(pc.list_parent_indices(lists))
    names = [SUBSCRIPTION, *taken.schema.names]
    return pa.record_batch([lists.flatten().cast(pa.string()), *taken.columns], names=names)
