"""Route: checks rows and packs them for order, before the shuffle.

In: names of parquet files, which it reads with pyarrow; or Arrow batches as Spark's source reads them, with
the stream's columns and a few of ours that say where a row stood in the source. Out: rows of packets for
order: ITEMS in runs that are consecutive in the source, DEAD for rows that cannot be items. Never: state, or
a look at more than one run at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.flows import piece_of
from anabranch.chain.items import CORRUPT, REASON, arrow_schema, checked, dead_letter
from anabranch.chain.order import SOURCE_ORDER
from anabranch.chain.packets import ORDER, Kind, Packet
from anabranch.chain.stages import ROUTE, Sender
from anabranch.job.source_files import UNREADABLE, Damaged, UnreadableFiles, parquet_rows
from anabranch.job.text_values import csv_lines, typed_rows
from anabranch.model.stream import Stream
from anabranch.spark.rows import columns_of, local_path, record_batch

#: Columns by which consecutive runs of a source are told apart and put in order; a source has some of them.
PLACES = ("#modified", "#path", "#block", "#partition")

#: Columns of a DataFrame of file names. A large file comes in `parts` rows, each for one `part` of it.
FILE_COLUMNS = ("path", "modified", "part", "parts")

#: Rows of a packet at most: so many of a file are in memory at a time.
PACKET_ROWS = 131_072

Router = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


#: Gives the packets of a task, number `task`, in groups that are handed on together.
Packing = Callable[[Iterator[pa.RecordBatch], int], Iterator[list[Packet]]]


@dataclass(frozen=True)
class TextFields:
    """Fields of CSV, which Spark hands on as texts: `missing` are those that are no values."""

    missing: tuple[str, ...]
    separator: str

    def typed(self, rows: pa.RecordBatch, stream: Stream) -> pa.RecordBatch:
        """The rows in the stream's types, with the places beside them."""
        texts = rows.select(range(len(stream.columns))).rename_columns([c.name for c in stream.columns])
        typed = typed_rows(texts, stream, self.missing, lambda wrong: csv_lines(wrong, self.separator))
        own, unread = len(stream.columns), rows.column(CORRUPT)
        corrupt = pc.coalesce(unread, typed.column(CORRUPT))
        reason = pc.if_else(pc.is_valid(unread), None, typed.column(REASON))
        places = {name: rows.column(name) for name in rows.schema.names[own:] if name != CORRUPT}
        columns = [*typed.columns[:own], *places.values(), corrupt, reason]
        return pa.record_batch(columns, names=[*texts.schema.names, *places, CORRUPT, REASON])


def row_router(
    stream: Stream, partitions: int, parcels: str | None = None, texts: TextFields | None = None
) -> Router:
    """The function for mapInArrow on rows that Spark has read, as values or as `texts`."""

    def packing(batches: Iterator[pa.RecordBatch], task: int) -> Iterator[list[Packet]]:
        count = 0
        for batch in batches:
            rows = texts.typed(batch, stream) if texts is not None else batch
            packets = list(packed(rows, stream, task, count))
            count += len(packets)
            yield packets

    return _router(packing, partitions, parcels)


def file_router(
    stream: Stream, partitions: int, parcels: str | None = None, unreadable: UnreadableFiles | None = None
) -> Router:
    """The function for mapInArrow on names of parquet files (FILE_COLUMNS): it reads them."""

    def packing(batches: Iterator[pa.RecordBatch], task: int) -> Iterator[list[Packet]]:
        packets, rows = list[Packet](), 0
        files = (file for batch in batches for file in batch.to_pylist())
        for packet in file_packets(files, stream, unreadable or UnreadableFiles(stream)):
            packets.append(packet)
            rows += packet.rows.num_rows
            if rows >= PACKET_ROWS:
                yield packets
                packets, rows = [], 0
        yield packets

    return _router(packing, partitions, parcels)


def flow_router(partitions: int, parcels: str | None = None) -> Router:
    """The function for mapInArrow on names of pieces of a flow: they are packets already."""

    def packing(batches: Iterator[pa.RecordBatch], task: int) -> Iterator[list[Packet]]:
        for batch in batches:
            yield [piece_of(local_path(path).read_bytes()) for path in batch.column("path").to_pylist()]

    return _router(packing, partitions, parcels)


def _router(packing: Packing, partitions: int, parcels: str | None) -> Router:
    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId() if context else 0
        count = 0
        for packets in packing(batches, task):
            if packets:
                sent: list[tuple[Sender, Packet]] = [
                    ((ROUTE, task, count + index), packet) for index, packet in enumerate(packets)
                ]
                count += len(packets)
                yield record_batch(columns_of(sent, partitions, parcels))

    return route


def file_packets(
    files: Iterable[Mapping[str, Any]], stream: Stream, unreadable: UnreadableFiles
) -> Iterator[Packet]:
    """The packets of files, each with the columns FILE_COLUMNS. Source order within a file is the place of a
    packet's first row. A file that cannot be read is one dead letter.
    """
    for file in files:
        path, damaged = local_path(file["path"]), False
        reason = unreadable.known(path)
        try:
            parts = () if reason else parquet_rows(path, stream, PACKET_ROWS, file["part"], file["parts"])
            for place, rows in parts:
                good, dead = checked(rows, stream)
                if dead.num_rows:
                    yield Packet(ORDER, 0, Kind.DEAD, dead)
                if good.num_rows:
                    yield Packet(
                        ORDER, 0, Kind.ITEMS, good, {"source": [file["modified"], path.as_uri(), place]}
                    )
        except UNREADABLE as error:
            reason, damaged = unreadable.reason(path, error), isinstance(error, Damaged)
        if reason and (damaged or file["part"] == 0):
            yield Packet(ORDER, 0, Kind.DEAD, dead_letter(reason, str(path)))


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
