"""Results and dead letters that have been delivered, read from the files that manifests name."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.catalog.entries import Entry
from anabranch.chain.items import ARROW_TYPES
from anabranch.families.base import Shown, Table
from anabranch.families.registry import family as family_of
from anabranch.families.results import SUBSCRIPTION, SUBSCRIPTIONS, rows_of
from anabranch.model.stream import NUMBER, Stream
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest, Manifests


class RecentFiles:
    """Tables of result files that were read lately: many readers of one batch come at about the same time.

    Files do not change once a manifest names them. At most `most_bytes` are kept, and no file that is larger
    than half of that. May be used from several threads.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._tables: dict[Path, pa.Table] = {}  # the one that was used last comes last
        self._lock = threading.Lock()

    def table(self, path: Path) -> pa.Table:
        """Returns the table in a parquet file."""
        with self._lock:
            known = self._tables.pop(path, None)
            if known is not None:
                self._tables[path] = known
                return known
        table = pq.read_table(path)
        if table.nbytes <= self.most_bytes // 2:
            with self._lock:
                self._tables[path] = table
                while self.bytes() > self.most_bytes:
                    del self._tables[next(iter(self._tables))]
        return table

    def bytes(self) -> int:
        return sum(table.nbytes for table in self._tables.values())


class Deliveries(Manifests):
    """What has been delivered below one sink. Where there are many readers, `recent_bytes` of files are kept
    in memory.
    """

    def __init__(self, layout: Layout, recent_bytes: int = 0) -> None:
        super().__init__(layout)
        self._recent = RecentFiles(recent_bytes)

    def branch(self, entry: Entry) -> str:
        """Returns the branch that delivers a subscription's results."""
        return self.layout.branch(entry.stream, entry.family)

    def results(self, entry: Entry, stream: Stream) -> tuple[pa.Schema, Iterator[pa.Table]]:
        """Returns the schema of a subscription's results, and the results in order, one table per batch."""
        schema, read = self.reader(entry, stream)
        tables = map(read, self.manifests(self.branch(entry)))
        return schema, (rows for rows in tables if rows.num_rows)

    def reader(self, entry: Entry, stream: Stream) -> tuple[pa.Schema, Callable[[Manifest], pa.Table]]:
        """Returns the schema of a subscription's results, and a function that reads those of one batch."""
        family = family_of(entry.family)
        name, shown = family.shown(stream, entry.spec)
        table = family.table(name)
        schema = rows_of([], table, entry.label, shown).schema
        return schema, lambda manifest: self.rows(manifest, table, entry.label, shown)

    def rows(self, manifest: Manifest, table: Table, name: str, shown: Sequence[Shown]) -> pa.Table:
        """Returns a subscription's results in one batch, in an order that is always the same."""
        files = manifest.results.get(table.name, [])
        return rows_of([rows for file in files for rows in self._read(file, shown, name)], table, name, shown)

    def counts(self, branch: str, table: str) -> Counter[str]:
        """Counts the results of each subscription in a table."""
        out: Counter[str] = Counter()
        for manifest in self.manifests(branch):
            out.update(self.counts_of(manifest, table))
        return out

    def counts_of(self, manifest: Manifest, table: str) -> Counter[str]:
        """Counts the results of each subscription in a table, of one batch."""
        out: Counter[str] = Counter()
        for file in manifest.results.get(table, []):
            out.update(_counts(self.layout.root / file))
        return out

    def dead_letters(self, stream: str) -> Iterator[pa.Table]:
        """Returns the rows that were late or rejected. Every branch reads the stream on its own; the one that
        has read most is shown.
        """
        branch = self.furthest(stream)
        for manifest in self.manifests(branch) if branch else ():
            for file in manifest.dead:
                yield pq.read_table(self.layout.root / file)

    def _read(self, file: str, shown: Sequence[Shown], name: str) -> Iterator[pa.RecordBatch]:
        path = self.layout.root / file
        if path.suffix == ".parquet":
            yield from self._recent.table(path).to_batches()
            return
        with path.open() as lines:
            rows = [row for row in map(json.loads, lines) if row[SUBSCRIPTION] == name]
        if rows:
            yield _from_json(rows, shown)


def _counts(path: Path) -> Counter[str]:
    if path.suffix != ".parquet":
        with path.open() as lines:
            return Counter(json.loads(line)[SUBSCRIPTION] for line in lines)
    name = SUBSCRIPTION if SUBSCRIPTION in pq.read_schema(path).names else SUBSCRIPTIONS
    names = pq.read_table(path, columns=[name]).column(0)
    if name == SUBSCRIPTIONS:
        names = pc.list_flatten(names)
    return Counter(
        {pair["values"]: pair["counts"] for pair in pc.value_counts(names.cast(pa.string())).to_pylist()}
    )


def _from_json(rows: list[dict[str, Any]], shown: Sequence[Shown]) -> pa.RecordBatch:
    """Returns lines of a json sink, which have the names that the subscriber sees, as rows of the table."""
    columns = {SUBSCRIPTION: pa.array([row[SUBSCRIPTION] for row in rows])}
    if NUMBER in rows[0]:
        columns[NUMBER] = pa.array([row[NUMBER] for row in rows], pa.int64())
    for s in shown:
        columns[s.stored] = pa.array([row.get(s.column.name) for row in rows]).cast(
            ARROW_TYPES[s.column.type]
        )
    return pa.record_batch(columns)
