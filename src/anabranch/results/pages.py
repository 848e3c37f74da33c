"""Results and dead letters by page: a cursor says where a reader is, a page brings what comes next.

A cursor is the number of a batch and of a row in it. A batch that exists does not change, so no reader gets a
row twice or misses one.

    batch 0: a b c     batch 1: nothing     batch 2: d e
    from 0:0, three rows at most:  a b c, then 1:0
    from 0:2:                      c d e, then 3:0, where the next batch will be
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.catalog.entries import Entry
from anabranch.chain.items import DEAD_LETTERS as SCHEMA
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream
from anabranch.results.deliveries import Deliveries
from anabranch.results.manifests import Manifest

#: So many batches are looked at for one page; a subscription with few results takes several pages.
MOST_BATCHES = 1_000

#: How much is kept in memory of files that were read lately.
RECENT_BYTES = 32 << 20

_CURSOR = re.compile(r"([0-9]{1,12}):([0-9]{1,12})")


@dataclass(frozen=True)
class Cursor:
    """The next row to read."""

    batch: int = 0
    row: int = 0

    def __str__(self) -> str:
        return f"{self.batch}:{self.row}"

    @staticmethod
    def read(text: str | None) -> Cursor:
        if not text:
            return Cursor()
        match = _CURSOR.fullmatch(text)
        if match is None:
            raise JobError(
                f"{text[:40]!r} is no place in results; give the `next` of a page or an event's id"
            )
        return Cursor(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class Page:
    """`pieces` are tables of one batch each, with the cursor of their first row. Where earlier rows are no
    longer shown, `kept_from` is the first that is; `skipped` says that the reader was before it.
    """

    schema: pa.Schema
    pieces: tuple[tuple[Cursor, pa.Table], ...]
    next: Cursor
    more: bool
    kept_from: Cursor | None = None
    skipped: bool = False

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *(table for _, table in self.pieces)])


@dataclass(frozen=True)
class PageReader:
    """Reads the rows of a subscription, or dead letters, batch by batch. `kept` is how many batches back are
    shown.
    """

    schema: pa.Schema
    latest: Callable[[], int]
    rows: Callable[[int], pa.Table]
    ended: Callable[[], bool]
    kept: int | None = None

    def page(self, cursor: Cursor, limit: int) -> Page:
        pieces: list[tuple[Cursor, pa.Table]] = []
        latest = self.latest()
        first = 0 if self.kept is None else max(0, latest + 1 - self.kept)
        skipped = cursor.batch < first
        cursor = Cursor(first) if skipped else cursor
        stop = min(latest + 1, cursor.batch + MOST_BATCHES)
        while cursor.batch < stop and limit:
            whole = self.rows(cursor.batch)
            piece = whole.slice(cursor.row, limit)
            if piece.num_rows:
                pieces.append((cursor, piece))
            limit -= piece.num_rows
            end = cursor.row + piece.num_rows
            done = end >= whole.num_rows
            cursor = Cursor(cursor.batch + 1) if done else Cursor(cursor.batch, end)
        kept_from = Cursor(first) if first else None
        return Page(self.schema, tuple(pieces), cursor, cursor.batch <= latest, kept_from, skipped)


def result_reader(deliveries: Deliveries, entry: Entry, stream: Stream) -> PageReader:
    """Returns a reader of a subscription's results."""
    schema, read = deliveries.reader(entry, stream)
    empty = schema.empty_table()

    def rows(manifest: Manifest | None) -> pa.Table:
        return empty if manifest is None else read(manifest)

    return _reader(schema, deliveries, lambda: deliveries.branch(entry), rows)


def dead_letter_reader(deliveries: Deliveries, stream: str, family: str | None) -> PageReader:
    """Returns a reader of the rows of a stream that were late or rejected. Branches of a stream reject the
    same rows; that of one family is followed, so that cursors keep their meaning.
    """
    if family is None:
        return PageReader(SCHEMA, lambda: -1, lambda batch: SCHEMA.empty_table(), lambda: False)

    def rows(manifest: Manifest | None) -> pa.Table:
        return pa.concat_tables([SCHEMA.empty_table(), *_dead(deliveries, manifest)])

    return _reader(SCHEMA, deliveries, lambda: deliveries.layout.branch(stream, family), rows)


def _dead(deliveries: Deliveries, manifest: Manifest | None) -> Iterator[pa.Table]:
    for file in manifest.dead if manifest else ():
        yield pq.read_table(deliveries.layout.root / file).select(SCHEMA.names).cast(SCHEMA)


def _reader(
    schema: pa.Schema,
    deliveries: Deliveries,
    branch: Callable[[], str],
    rows: Callable[[Manifest | None], pa.Table],
) -> PageReader:
    """`branch` is asked each time: a family that is set apart has its own once it has begun."""
    return PageReader(
        schema,
        lambda: deliveries.latest(branch()),
        lambda batch: rows(deliveries.manifest(branch(), batch)),
        lambda: deliveries.ended(branch()),
    )
