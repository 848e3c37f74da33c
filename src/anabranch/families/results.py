"""A subscriber's view of a result table: its own rows, its own columns, in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.items import ARROW_TYPES
from anabranch.families.base import Shown, Table

SUBSCRIPTION = "subscription"
SUBSCRIPTIONS = "subscriptions"


def rows_of(batch: Sequence[pa.RecordBatch], table: Table, name: str, shown: Sequence[Shown]) -> pa.Table:
    """The rows of subscription `name` among those that one batch of the stream delivered to `table`."""
    schema = pa.schema([(s.column.name, ARROW_TYPES[s.column.type]) for s in shown])
    parts = [part for part in (_own(rows, name) for rows in batch) if part.num_rows]
    made = pa.Table.from_batches(
        [pa.record_batch([_cast(part, s) for s in shown], schema=schema) for part in parts], schema
    )
    if table.order_by is None or not parts:
        return made
    # a batch may have several runs of items, each dealt out to all zones: so a zone's rows are no run
    places = np.concatenate([part.column(table.order_by).to_numpy() for part in parts])
    return made if (places[1:] > places[:-1]).all() else made.take(pa.array(np.argsort(places)))


def _own(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    if SUBSCRIPTION in rows.schema.names:
        return rows.filter(pc.equal(rows.column(SUBSCRIPTION), name))
    lists = rows.column(SUBSCRIPTIONS)
    values = lists.flatten()
    mine = pc.equal(values.cast(pa.string()), name)
    parents = pc.list_parent_indices(lists)
    return rows.take(parents.filter(mine))


def _cast(part: pa.RecordBatch, shown: Shown) -> pa.Array:
    kind = ARROW_TYPES[shown.column.type]
    if shown.stored not in part.schema.names:  # the table did not have the column when this batch was written
        return pa.nulls(part.num_rows, kind)
    return part.column(shown.stored).cast(kind)
