"""A job without Spark: the stages of all families in one process, following the catalog, into a real sink.

In: streams as functions of a count, and what people ask for in the catalog. Out: the files and manifests that
the engine on Spark would write, a batch at a time. Never: a shortcut; activations come from the control log,
as on Spark, and take effect between two batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.catalog.catalog import Catalog
from anabranch.chain.items import ARROW_TYPES
from anabranch.chain.runner import Runner
from anabranch.families.registry import NAMES
from anabranch.families.registry import family as family_of
from anabranch.job.declarations import declare
from anabranch.model.branch import Branch, branches_of
from anabranch.model.columns import Column
from anabranch.model.job import Source, StreamDeclaration
from anabranch.planning.scenario import Scenario
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.service.job_service import JobService, Limits
from anabranch.service.monitor import Monitor
from anabranch.service.server import serving
from anabranch.spark.measures import Measure


@dataclass(frozen=True)
class Generated:
    """`columns(first, count)` are items; `a_batch` of them come with every batch."""

    name: str
    settings: dict[str, Any]
    schema: tuple[Column, ...]
    columns: Callable[[int, int], dict[str, Any]]
    a_batch: int

    def items(self, first: int) -> pa.RecordBatch:
        made = self.columns(first, self.a_batch)
        return pa.record_batch(
            {column.name: pa.array(made[column.name], ARROW_TYPES[column.type]) for column in self.schema}
        )


@dataclass
class LocalJob:
    """One at a time steps it; `running` does so in a thread, a batch every `pause_s`."""

    root: Path
    sources: list[Generated]
    pause_s: float = 0.5
    runners: dict[str, Runner] = field(default_factory=dict)  # these three by branch
    seen: dict[str, int] = field(default_factory=dict)  # versions of the control log
    measures: dict[str, Measure] = field(default_factory=dict)
    batches: int = 0
    failed: Exception | None = None

    def __post_init__(self) -> None:
        self.layout = Layout(self.root)
        self.catalog = Catalog(self.layout.catalog)
        self.deliveries = Deliveries(self.layout)
        self.streams = {}
        for source in self.sources:
            declaration = StreamDeclaration(
                source.name, Source("generator", {"name": source.name}), source.settings
            )
            self.streams[source.name] = declare(declaration, source.schema)
            self.catalog.register_stream(self.streams[source.name], declaration)

    def step(self) -> None:
        """A batch of every branch that somebody asked for."""
        for source in self.sources:
            asked = set(self.catalog.families(source.name))
            for branch in branches_of(source.name, NAMES, self.streams[source.name].apart):
                if asked.isdisjoint(branch.families):
                    continue
                first = self.batches if branch.name in self.runners else 0  # it reads from the beginning
                items = [source.items(n * source.a_batch) for n in range(first, self.batches + 1)]
                self._batch(branch, pa.concat_batches(items))
        self.batches += 1

    def _batch(self, branch: Branch, items: pa.RecordBatch) -> None:
        begun = time.perf_counter()
        stream, name = branch.stream, branch.name
        if name not in self.runners:
            self.runners[name] = Runner(self.streams[stream], [family_of(each) for each in branch.families])
        runner, version = self.runners[name], self.catalog.version(stream, branch.logged)
        batch = runner.batches
        runner.batch(items, self.catalog.log(stream, branch.logged, self.seen.get(name, 0), version))
        self.seen[name] = version
        manifest = Manifest(batch, books=runner.books)
        for table, made in runner.tables.items():
            rows = made.pop(batch, [])
            if rows:
                manifest.results[table] = [self._written(stream, table, batch, rows)]
                manifest.rows[table] = sum(part.num_rows for part in rows)
        self.deliveries.commit(name, manifest)
        self.measures[name] = Measure(name, batch, time.perf_counter() - begun, 0, None)

    def _written(self, stream: str, table: str, batch: int, rows: list[pa.RecordBatch]) -> str:
        path = self.layout.results(stream, table) / f"batch-{batch:012d}-00000.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        tables = [pa.Table.from_batches([part]) for part in rows]
        pq.write_table(pa.concat_tables(tables, promote_options="default").unify_dictionaries(), path)
        return str(path.relative_to(self.layout.root))

    @contextmanager
    def running(self) -> Iterator[None]:
        stopped = threading.Event()

        def run() -> None:
            try:
                while not stopped.wait(self.pause_s):
                    self.step()
            except Exception as error:  # told to the test at its end
                self.failed = error

        thread = threading.Thread(target=run, name="job", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join(30)
        if self.failed is not None:
            raise self.failed

    @contextmanager
    def served(self, scenario: Scenario | None = None) -> Iterator[str]:
        """The service over it, on a loopback port that is free, once the plan is there."""
        monitor = Monitor(self.layout, scenario)
        monitor.plan()
        monitor.network()
        service = JobService(
            self.layout, monitor.plan, monitor.network, Limits(), lambda: list(self.measures.values())
        )
        with self.running(), monitor.following(), serving(service, "127.0.0.1", 0) as address:
            yield address
