"""What has been delivered: files of results, and one manifest a batch that says which of them count.

    results/<stream>/<table>/batch-000000000012-00001.parquet      written by the tasks of batch 12
    dead_letters/<stream>/...                                       likewise
    _anabranch/manifests/<stream>.<family>/000000000012.json        written last, in one move

A batch exists once its manifest does. A batch that is repeated after a crash writes the same files again
under the same names, so readers that follow the manifests see every result exactly once.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.catalog.entries import Entry
from anabranch.catalog.layout import Layout
from anabranch.catalog.recent import Recent
from anabranch.families.base import Shown, Table
from anabranch.families.registry import family as family_of
from anabranch.families.results import SUBSCRIPTION, SUBSCRIPTIONS, rows_of
from anabranch.model.stream import NUMBER, Stream
from anabranch.zones.columns import ARROW_TYPES


@dataclass
class Manifest:
    """What one batch of one family delivered. File names are relative to the sink's root."""

    batch: int
    results: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    books: dict[str, Any] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)


def write_atomically(path: Path, body: bytes) -> None:
    """The file is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(body)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


class Deliveries:
    """The deliveries below one sink, to write and to read; for many readers, with so many bytes kept."""

    def __init__(self, layout: Layout, recent_bytes: int = 0) -> None:
        self.layout, self._recent = layout, Recent(recent_bytes)

    # writing

    def commit(self, stream: str, family: str, manifest: Manifest) -> None:
        """Makes a batch exist. `latest` saves readers that poll from listing a folder that grows."""
        folder = self.layout.manifests(stream, family)
        write_atomically(folder / f"{manifest.batch:012d}.json", json.dumps(asdict(manifest)).encode())
        write_atomically(folder / "latest", str(manifest.batch).encode())

    # reading

    def latest(self, stream: str, family: str) -> int:
        """The number of the last batch, or -1."""
        try:
            return int((self.layout.manifests(stream, family) / "latest").read_text())
        except FileNotFoundError:
            return -1

    def manifest(self, stream: str, family: str, batch: int) -> Manifest | None:
        try:
            return Manifest(
                **json.loads((self.layout.manifests(stream, family) / f"{batch:012d}.json").read_bytes())
            )
        except FileNotFoundError:
            return None

    def written(self, stream: str, family: str, batch: int) -> float:
        """When a batch that exists came to be, in seconds since 1970."""
        return (self.layout.manifests(stream, family) / f"{batch:012d}.json").stat().st_mtime

    def ended(self, stream: str, family: str) -> bool:
        """Whether the finite stream has been read to its end, and no back packet is under way."""
        manifest = self.manifest(stream, family, self.latest(stream, family))
        return manifest is not None and bool(manifest.books.get("ended")) and not manifest.back

    def manifests(self, stream: str, family: str) -> Iterator[Manifest]:
        for path in sorted(self.layout.manifests(stream, family).glob("*.json")):
            yield Manifest(**json.loads(path.read_bytes()))

    def answers(self, entry: Entry, stream: Stream) -> tuple[pa.Schema, Iterator[pa.Table]]:
        """What a subscription sees, and its results in order, a table a batch."""
        schema, read = self.reader(entry, stream)
        found = map(read, self.manifests(entry.stream, entry.family))
        return schema, (rows for rows in found if rows.num_rows)

    def reader(self, entry: Entry, stream: Stream) -> tuple[pa.Schema, Callable[[Manifest], pa.Table]]:
        """What a subscription sees, and what reads its results in one batch."""
        family = family_of(entry.family)
        name, shown = family.shown(stream, entry.spec)
        table = family.table(name)
        schema = rows_of([], table, entry.label, shown).schema
        return schema, lambda manifest: self.rows(manifest, table, entry.label, shown)

    def rows(self, manifest: Manifest, table: Table, name: str, shown: Sequence[Shown]) -> pa.Table:
        """A subscription's results in one batch, in order; the same whenever it is asked for."""
        files = manifest.results.get(table.name, [])
        return rows_of([rows for file in files for rows in self._read(file, shown, name)], table, name, shown)

    def counts(self, stream: str, family: str, table: str) -> Counter[str]:
        """How many results each subscription has in a table."""
        out: Counter[str] = Counter()
        for manifest in self.manifests(stream, family):
            out.update(self.counts_of(manifest, table))
        return out

    def counts_of(self, manifest: Manifest, table: str) -> Counter[str]:
        """The same of one batch."""
        out: Counter[str] = Counter()
        for file in manifest.results.get(table, []):
            out.update(_counts(self.layout.root / file))
        return out

    def dead_letters(self, stream: str) -> Iterator[pa.Table]:
        """What was late or rejected. Every family reads the stream on its own; the one that is furthest is
        shown.
        """
        family = self._furthest(stream)
        for manifest in self.manifests(stream, family) if family else ():
            for file in manifest.dead:
                yield pq.read_table(self.layout.root / file)

    def books(self, stream: str) -> dict[str, Any]:
        family = self._furthest(stream)
        manifest = self.manifest(stream, family, self.latest(stream, family)) if family else None
        return manifest.books if manifest else {}

    def _furthest(self, stream: str) -> str | None:
        best, most = None, -1
        for family in self.layout.families(stream):
            manifest = self.manifest(stream, family, self.latest(stream, family))
            if manifest and manifest.books.get("rows_in", 0) > most:
                best, most = family, manifest.books.get("rows_in", 0)
        return best

    def _read(self, file: str, shown: Sequence[Shown], name: str) -> Iterator[pa.RecordBatch]:
        path = self.layout.root / file
        if path.suffix == ".parquet":
            yield from self._recent.table(path).to_batches()
            return
        with path.open() as lines:
            mine = [row for row in map(json.loads, lines) if row[SUBSCRIPTION] == name]
        if mine:
            yield _from_json(mine, shown)


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
    """Lines of a json sink, which have the names that the subscriber sees, as rows of the table."""
    columns = {SUBSCRIPTION: pa.array([row[SUBSCRIPTION] for row in rows])}
    if NUMBER in rows[0]:
        columns[NUMBER] = pa.array([row[NUMBER] for row in rows], pa.int64())
    for s in shown:
        columns[s.stored] = pa.array([row.get(s.column.name) for row in rows]).cast(
            ARROW_TYPES[s.column.type]
        )
    return pa.record_batch(columns)
