"""Route: checks rows and packs them for order, before the shuffle.

In: Arrow batches as Spark's source reads them, with the stream's columns and a few of ours that say where a
row stood in the source. Out: rows of packets for order: ITEMS in runs that are consecutive in the source,
DEAD for rows that cannot be items. Never: state, or a look at more than one run at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.arrow_columns import arrow_schema
from anabranch.chain.dead_letters import checked
from anabranch.chain.order import SOURCE_ORDER
from anabranch.chain.packets import ORDER, Kind, Packet
from anabranch.chain.stages import ROUTE, Sender
from anabranch.model.stream import Stream
from anabranch.spark.rows import columns_of, record_batch

#: Columns by which consecutive runs of a source are told apart and put in order; a source has some of them.
PLACES = ("#modified", "#path", "#block", "#partition")

Router = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def router(stream: Stream, partitions: int, parcels: str | None = None) -> Router:
    """The function for mapInArrow."""

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId() if context else 0
        count = 0
        for batch in batches:
            packets: list[tuple[Sender, Packet]] = []
            for packet in packed(batch, stream, task, count):
                packets.append(((ROUTE, task, count), packet))
                count += 1
            if packets:
                yield record_batch(columns_of(packets, partitions, parcels))

    return route


def packed(batch: pa.RecordBatch, stream: Stream, task: int, first: int) -> Iterator[Packet]:
    """The packets of one Arrow batch, whose first columns are the stream's; `first` counts the packets of
    this task so far.
    """
    own = [column.name for column in stream.columns]
    good, dead = checked(batch.rename_columns([*own, *batch.schema.names[len(own) :]]), stream)
    if dead.num_rows:
        yield Packet(ORDER, 0, Kind.DEAD, dead)
    if not good.num_rows:
        return
    schema = arrow_schema(stream)
    if SOURCE_ORDER in good.schema.names:
        schema = schema.append(pa.field(SOURCE_ORDER, pa.int64()))
    items = pa.record_batch([good.column(field.name).cast(field.type) for field in schema], schema=schema)
    places = [name for name in PLACES if name in good.schema.names]
    for count, (low, high) in enumerate(_runs(good, places)):
        source = [good.column(name)[low].as_py() for name in places]
        source = [str(part) if not isinstance(part, int | str) else part for part in source]
        yield Packet(
            ORDER, 0, Kind.ITEMS, items.slice(low, high - low), {"source": [*source, task, first + count + 1]}
        )


def _runs(rows: pa.RecordBatch, places: list[str]) -> Iterator[tuple[int, int]]:
    """(first, beyond the last) of the runs of rows with equal places."""
    change = np.zeros(rows.num_rows, bool)
    change[0] = True
    for name in places:
        column = rows.column(name)
        ends = pc.run_end_encode(column).run_ends.to_numpy()[:-1]
        change[ends] = True
    starts = np.flatnonzero(change)
    yield from zip(starts.tolist(), [*starts[1:].tolist(), rows.num_rows], strict=True)
