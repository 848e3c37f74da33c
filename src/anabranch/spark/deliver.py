"""Deliver: writes what leaves the chains, under the number of the batch, so that a repeated batch overwrites
itself.

In: rows of packets behind the last stages: results, dead letters, books, notes, and back packets for the next
batch. Out: files written by the tasks, and a manifest written last by the driver. Never: a result row on the
driver.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.model.branch import Branch
from anabranch.model.files import written_atomically
from anabranch.model.job import Sink
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest, Manifests
from anabranch.spark.back import forget_back, write_back
from anabranch.spark.kafka import forward
from anabranch.spark.lines import Subscribers, lines_of
from anabranch.spark.rows import CPU, clear_parcels, unpack

REPORT = "report string"


@dataclass(frozen=True)
class Destination:
    """Where the results of a branch go. `subscribers` is asked before each batch, where rows are written for
    each of them.
    """

    layout: Layout
    branch: Branch
    sink: Sink
    subscribers: Callable[[], Subscribers]
    first_batch: int = 0  # the number that Spark's batch 0 has in the branch


def deliver(to: Destination, after: Callable[[Manifest], None]) -> Callable[[DataFrame, int], None]:
    """The function for foreachBatch. `after` is told each manifest once it is written."""
    manifests = Manifests(to.layout)
    stream, branch = to.branch.stream, to.branch.name

    def write(rows: DataFrame, spark_batch: int) -> None:
        batch = to.first_batch + spark_batch
        subscribers = {} if to.sink.format == "parquet" else to.subscribers()
        lines = subscribers if to.sink.format == "json" else None
        task = Task(str(to.layout.root), stream, branch, lines)
        reports = rows.mapInArrow(task.writer(batch), REPORT).collect()
        manifest = Manifest(batch)
        for report in sorted((json.loads(row.report) for row in reports), key=json.dumps):
            _take(manifest, *report)
        if not manifest.books:  # only back packets: order had nothing to say
            before = manifests.manifest(branch, batch - 1)
            manifest.books = before.books if before else {}
        if to.sink.format == "kafka":
            forward(rows.sparkSession, to.layout, stream, manifest, to.sink.options, subscribers)
        manifests.commit(branch, manifest)
        clear_parcels(to.layout.parcels(branch))
        forget_back(manifests, branch, batch)
        after(manifest)

    return write


def _take(manifest: Manifest, kind: str, name: str, value: Any) -> None:
    match kind:
        case "result":
            manifest.results.setdefault(name, []).append(value)
        case "rows":
            manifest.rows[name] = manifest.rows.get(name, 0) + value
        case "dead":
            manifest.dead.append(value)
        case "back":
            manifest.back.append(value)
        case "books":
            manifest.books = value
        case "note":
            manifest.notes.append(value)
        case "cpu_s":
            manifest.cpu_s += value


class Task:
    """What a task of delivery does with its partition."""

    def __init__(self, root: str, stream: str, branch: str, lines: Subscribers | None) -> None:
        """`lines`: write JSON lines for these subscribers instead of parquet."""
        self.root, self.stream, self.branch, self.lines = root, stream, branch, lines

    def writer(self, batch: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def write(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            name = f"batch-{batch:012d}-{context.partitionId() if context else 0:05d}"
            reports = [json.dumps(report) for report in self._written(parts, name)]
            yield pa.record_batch({"report": pa.array(reports, pa.string())})

        return write

    def _written(self, parts: Iterator[pa.RecordBatch], name: str) -> Iterator[tuple[str, str, Any]]:
        layout = Layout(Path(self.root))
        results: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        dead: list[pa.RecordBatch] = []
        back: list[pa.RecordBatch] = []
        for part in parts:
            going_back = part.filter(pa.compute.greater_equal(part.column("stage"), 0))
            if going_back.num_rows:
                back.append(going_back)
            for packet in _leaving(part):
                match packet.kind:
                    case Kind.RESULT if packet.rows.num_rows:
                        results[packet.facts["table"]].append(packet.rows)
                    case Kind.DEAD:
                        dead.append(packet.rows)
                    case Kind.BOOKS:
                        yield "books", "", dict(packet.facts)
                    case Kind.NOTE if CPU in packet.facts:
                        yield CPU, "", packet.facts[CPU]
                        yield "note", "", {"family": packet.family, "work": packet.facts["work"]}
                    case Kind.NOTE:
                        yield "note", "", {**packet.facts, "family": packet.family}
        for table, batches in results.items():
            path = self._write_results(layout.results(self.stream, table) / name, batches)
            yield "result", table, str(path.relative_to(layout.root))
            yield "rows", table, sum(rows.num_rows for rows in batches)
        if dead:
            path = _write_parquet(layout.dead_letters(self.stream) / self.branch / f"{name}.parquet", dead)
            yield "dead", "", str(path.relative_to(layout.root))
        if back:
            path = write_back(layout.back(self.branch) / f"{name}.arrow", back)
            yield "back", "", str(path.relative_to(layout.root))

    def _write_results(self, stem: Path, batches: list[pa.RecordBatch]) -> Path:
        if self.lines is not None:
            return _write_lines(stem.with_name(f"{stem.name}.jsonl"), batches, self.lines)
        return _write_parquet(stem.with_name(f"{stem.name}.parquet"), batches)


def _leaving(part: pa.RecordBatch) -> Iterator[Packet]:
    stages, families, bodies = (part.column(name) for name in ("stage", "family", "body"))
    for row, stage in enumerate(stages.to_pylist()):
        if stage == DELIVER:
            yield unpack(bodies[row].as_py(), DELIVER, 0, families[row].as_py())


def _write_parquet(path: Path, batches: list[pa.RecordBatch]) -> Path:
    """Batches may differ in columns: what one lacks is missing there."""
    table = pa.concat_tables([pa.Table.from_batches([rows]) for rows in batches], promote_options="default")
    # numbers of measurements hardly repeat: looking for those that do takes a fifth of the time
    repeating = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    with written_atomically(path) as file:
        pq.write_table(table.unify_dictionaries(), file, compression="zstd", use_dictionary=repeating)
    return path


def _write_lines(path: Path, batches: list[pa.RecordBatch], subscribers: Subscribers) -> Path:
    with written_atomically(path) as file, file.open("w") as out:
        for rows in batches:
            out.writelines(f"{line}\n" for _, line in lines_of(rows, subscribers))
    return path
