"""The engine: streams and subscriptions on a Spark session.

    engine = anabranch.Engine(spark, "out")
    engine.stream("photons", format="parquet", path="photons/*.parquet", time="det_time")
    vela = engine.subscribe("vela", "SELECT ra, dec, en FROM photons WHERE ra BETWEEN 120 AND 138")
    engine.start()
    ...
    vela.results()          # a pandas DataFrame; vela.results(spark=True) a Spark one

In: declarations and queries. Out: running Spark queries, one a (stream, family), and what they deliver; what
is to go to a receiver, too, is sent while it runs. Subscriptions come and go while it runs, from here or,
through the catalog, from other processes.
"""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pandas as pd
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.catalog.activation import settled
from anabranch.catalog.bond import open_bonded
from anabranch.catalog.declare import declare
from anabranch.catalog.deliveries import Deliveries, Manifest
from anabranch.catalog.layout import Layout
from anabranch.catalog.sync import bound
from anabranch.families.base import Shown
from anabranch.families.registry import family as family_of
from anabranch.model.columns import ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import Engine as Settings
from anabranch.model.job import Sink, Source, StreamDeclaration
from anabranch.model.operators import Operator
from anabranch.model.stream import Stream, Time
from anabranch.model.subscription import Subscription
from anabranch.sending.sender import Sender
from anabranch.spark import query as query_module
from anabranch.spark import sources
from anabranch.spark.deliver import Destination
from anabranch.spark.failures import told
from anabranch.spark.producer import Producers
from anabranch.spark.session import few_partitions, prepare_session

#: What Spark says when a Python process did not answer within ten seconds; how often a query may meet that.
TOO_SLOW, SLOW_STARTS = "Python worker failed to connect back", 3
#: How long a query may take for its first batch before the next is started.
PATIENCE_S = 30.0
#: How long receivers get for what is left when an engine stops; of streams that end everything may be left.
STOP_S, END_S = 2.0, 30.0


@dataclass(frozen=True)
class Handle:
    """A subscription of an engine."""

    engine: Engine
    name: str

    def results(self, spark: bool = False) -> pd.DataFrame | DataFrame:
        """What it has been answered so far, in order."""
        table = self.engine.results(self.name)
        frame = table.to_pandas()
        return self.engine.spark.createDataFrame(table) if spark else frame

    def cancel(self, until: Time | None = None) -> None:
        self.engine.catalog.cancel(self.name, until)


class Engine:
    """One job on one session. `path` is where results, the catalog and the checkpoints live."""

    def __init__(
        self,
        spark: SparkSession,
        path: str | Path = "out",
        sink: Sink | None = None,
        settings: Settings | None = None,
        after: Callable[[str, str, Manifest], None] | None = None,
    ) -> None:
        self.spark = prepare_session(spark)
        self.settings = settings or Settings()
        self.layout = Layout(Path(path).resolve(), self.settings.checkpoint, self.settings.catalog)
        self.sink = sink or Sink("parquet")
        self.after = after or (lambda stream, family, manifest: None)
        self.layout.hidden.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self.layout)
        self.catalog = open_bonded(self.layout.hidden, self.settings.catalog)
        self.deliveries = Deliveries(self.layout)
        self.streams: dict[str, Stream] = {}
        self._operators: list[Operator] = []
        self._sources: dict[str, tuple[StreamDeclaration, T.StructType]] = {}
        self.queries: dict[tuple[str, str], StreamingQuery] = {}
        self._slow_starts: Counter[tuple[str, str]] = Counter()
        self.private_receivers = True  # callers of a service may send results to Kafka and anywhere
        self._producers = Producers(self.spark)
        self._sender: Sender | None = None

    # what a job says

    def stream(
        self, name: str, /, format: str = "parquet", schema: str | None = None, **settings: Any
    ) -> Stream:
        """Declares a stream. Settings that semantics.md names are the stream's; the others are the source's
        options.
        """
        names = (
            "time",
            "lateness",
            "id",
            "position",
            "object",
            "tick",
            "regions",
            "bounds",
            "metric",
            "unit",
            "expire",
        )
        own = {key: value for key, value in settings.items() if key in names}
        options = {key: value for key, value in settings.items() if key not in names}
        return self.declare(StreamDeclaration(name, Source(format, options, schema), own))

    def operator(self, name: str, function: Callable[..., Any], type: str | None = None) -> None:
        """Registers a deterministic function that queries may call: `scale(en, 2.5)` calls it with an array
        of the column and 2.5, and it gives an array of the same length. Operators come before streams.
        """
        if self.streams:
            raise JobError(
                f"operator {name}: register operators before the streams that queries call them on"
            )
        if name in {operator.name for operator in self._operators}:
            raise JobError(f"an operator {name} is registered already; give this one another name")
        target = f"{function.__module__}:{getattr(function, '__qualname__', name)}"
        kind = None if type is None else ColumnType(type)
        self._operators.append(Operator(name, target, kind, function=function))

    def declare(self, declaration: StreamDeclaration) -> Stream:
        declaration = self._limited(declaration)
        declaration = replace(declaration, operators=(*declaration.operators, *self._operators))
        schema, columns = self._schema(declaration)
        stream = declare(declaration, columns)
        self.catalog.register_stream(stream, declaration)
        self.catalog.set_meta(f"schema of {stream.name}", schema.jsonValue())
        self.streams[stream.name] = stream
        self._sources[stream.name] = (declaration, schema)
        return stream

    def subscribe(
        self, name: str, query: str, activate: Time | None = None, deliver: str | None = None
    ) -> Handle:
        """Registers a query; if the engine runs, it takes effect within two batches. `deliver` is a receiver
        that results are sent to, besides being kept: `https://...` or `kafka:topic@broker:9092`.
        """
        (handle,) = self._subscribed([Subscription(name, query, activate, deliver=deliver)])
        return handle

    def subscribe_many(self, queries: Mapping[str, str]) -> list[Handle]:
        """Registers many queries at once, by name; either all or none."""
        return self._subscribed([Subscription(name, text) for name, text in queries.items()])

    def _subscribed(self, asked: list[Subscription]) -> list[Handle]:
        made = [settled(bound(each, self.streams), self.catalog, self.deliveries) for each in asked]
        self.catalog.subscribe_many(made)
        if self.queries:
            self.start()
        return [Handle(self, each.name) for each in asked]

    def cancel(self, name: str, until: Time | None = None) -> None:
        self.catalog.cancel(name, until)

    # running

    def start(self) -> None:
        """Starts a Spark query for every (stream, family) that has subscriptions and none yet, one after the
        other: Spark starts a Python process for each of their operators and waits ten seconds for it. From
        then on results are sent to receivers.
        """
        if self._sender is None:
            self._sender = Sender(self.layout, self.private_receivers, self._producers.send)
            self._sender.start()
        before: StreamingQuery | None = None
        for stream in self.streams.values():
            for name in self.catalog.families(stream.name):
                if (stream.name, name) not in self.queries and not self.deliveries.ended(stream.name, name):
                    if before is not None:
                        _wait_for_progress(before)
                    before = self.queries[stream.name, name] = self._start(stream, name)

    def drain(self) -> None:
        """Waits until everything that is there has been processed."""
        with told():
            for place in list(self.queries):
                while True:
                    try:
                        self.queries[place].processAllAvailable()
                        break
                    except StreamingQueryException as error:
                        if not self._started_again(place, error):
                            raise

    def run_once(self) -> None:
        """Reads all that is there, ends the streams, and stops once receivers have what is theirs."""
        self.start()
        self.drain()
        for stream, family in self.queries:
            self.catalog.end(stream, family)
        self.drain()
        self.stop(END_S)

    def check(self) -> None:
        """Raises what a query failed with, if one did."""
        with told():
            for place, query in list(self.queries.items()):
                error = query.exception()
                if error is not None and not self._started_again(place, error):
                    raise error

    def _started_again(self, place: tuple[str, str], error: Exception) -> bool:
        """A query that failed only because a Python process was slow to start is started again, some times;
        it goes on where it was.
        """
        if TOO_SLOW not in str(error) or self._slow_starts[place] == SLOW_STARTS:
            return False
        self._slow_starts[place] += 1
        self.queries[place] = self._start(self.streams[place[0]], place[1])
        return True

    def stop(self, patience_s: float = STOP_S) -> None:
        """Stops the streams; receivers get so long for what they have not got yet."""
        for query in self.queries.values():
            query.stop()
        self.queries = {}
        if self._sender is not None:
            self._sender.stop(patience_s)
            self._producers.close()
            self._sender = None

    def close(self) -> None:
        """Stops and gives the sink free for another process."""
        self.stop()
        self._lock.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # results

    def results(self, name: str) -> pa.Table:
        entry = self.catalog.subscription(name)
        schema, found = self.deliveries.answers(entry, self.streams[entry.stream])
        return pa.concat_tables([schema.empty_table(), *found])

    def _limited(self, declaration: StreamDeclaration) -> StreamDeclaration:
        """How much a batch takes from files: a first run over years of them must not become one batch."""
        if declaration.source.format not in sources.FILES:
            return declaration
        options = dict(declaration.source.options)
        if self.settings.max_files_per_batch is not None:
            options.setdefault("maxFilesPerTrigger", self.settings.max_files_per_batch)
        elif "maxFilesPerTrigger" not in options:
            options.setdefault("maxBytesPerTrigger", self.settings.max_bytes_per_batch or 128 << 20)
        return replace(declaration, source=replace(declaration.source, options=options))

    def _schema(self, declaration: StreamDeclaration) -> tuple[T.StructType, tuple[Any, ...]]:
        """The schema a stream began with holds for its life: the files it was taken from may be gone."""
        stored = self.catalog.meta(f"schema of {declaration.name}")
        if stored is None:
            return sources.infer(self.spark, declaration)
        schema = T.StructType.fromJson(stored)
        return schema, tuple(field.column for field in sources.fields(schema))

    def _parts(self, stream: str, family: str) -> tuple[int, int]:
        """(zones, partitions of a shuffle). Where a zone's state lies depends on both, so those that a query
        began with hold for its life, on a larger machine too.
        """
        asked = {"zones": self.settings.zones, "shuffle_partitions": self.settings.shuffle_partitions}
        key = f"parts of {stream}.{family}"
        begun = self.catalog.meta(key)
        if begun is None:
            few = few_partitions(self.spark)
            count = asked["shuffle_partitions"] or min(few, asked["zones"] or few)
            begun = {"zones": asked["zones"] or count, "shuffle_partitions": count}
            self.catalog.set_meta(key, begun)
        for name, number in asked.items():
            if number not in (None, begun[name]):
                raise JobError(
                    f"[engine] {name} = {number}, but {self.layout.root} began with {begun[name]}, and its "
                    "state is dealt out that way: leave it out, or begin anew with another sink path"
                )
        return begun["zones"], begun["shuffle_partitions"]

    def _subscribers(self, stream: Stream, name: str) -> dict[str, tuple[Shown, ...]]:
        """What each subscription of a family sees, also the ended ones, whose last results may be under
        way.
        """
        entries = self.catalog.subscriptions(stream=stream.name, family=name, state=None)
        return {entry.label: family_of(name).shown(stream, entry.spec)[1] for entry in entries}

    def _start(self, stream: Stream, name: str) -> StreamingQuery:
        declaration, schema = self._sources[stream.name]
        with told():
            return query_module.start(
                self.spark,
                sources.read(self.spark, declaration, schema, stream),
                stream,
                family_of(name),
                Destination(
                    self.layout, stream.name, name, self.sink, lambda: self._subscribers(stream, name)
                ),
                *self._parts(stream.name, name),
                float(self.settings.trigger or 0),
                lambda manifest: self.after(stream.name, name, manifest),
            )


def _wait_for_progress(query: StreamingQuery) -> None:
    """Until its first batch is through, or something else than starting goes on."""
    until = time.monotonic() + PATIENCE_S
    while query.lastProgress is None and query.isActive and time.monotonic() < until:
        time.sleep(0.05)


def _lock(layout: Layout) -> IO[str]:
    """One engine a sink: two would overwrite each other's batches. The lock goes with the process."""
    file = layout.lock.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise JobError(
            f"another process runs a job with the sink {layout.root}; stop it first, or use another sink path"
        ) from None
    return file
