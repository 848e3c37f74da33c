"""The engine: runs streams and subscriptions on a Spark session.

    engine = anabranch.Engine(spark, "out")
    engine.stream("photons", format="parquet", path="photons/*.parquet", time="det_time")
    vela = engine.subscribe("vela", "SELECT ra, dec, en FROM photons WHERE ra BETWEEN 120 AND 138")
    engine.start()
    ...
    vela.results()          # a pandas DataFrame; vela.results(spark=True) a Spark one

It runs one Spark query per stream, and sends results to receivers while it runs. Subscriptions are registered
and cancelled at any time, from here or, through the catalog, from other processes.
"""

from __future__ import annotations

import fcntl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.catalog.catalog_link import open_linked
from anabranch.catalog.entries import Entry
from anabranch.catalog.registration import register
from anabranch.families.base import Shown
from anabranch.families.registry import NAMES as FAMILY_NAMES
from anabranch.families.registry import family as family_of
from anabranch.families.warm_up import start_compiling
from anabranch.job.declarations import STREAM_SETTINGS, declare
from anabranch.model.branch import Branch, branch_name, branches_of
from anabranch.model.columns import ColumnType
from anabranch.model.errors import AnabranchError, JobError
from anabranch.model.job import EngineSettings, Sink, Source, StreamDeclaration
from anabranch.model.operators import Operator
from anabranch.model.stream import Stream, Time
from anabranch.model.subscription import Moment, Subscription
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.results.notebook import engine_html, subscription_html
from anabranch.sending.sender import Sender
from anabranch.spark import sources
from anabranch.spark.control import ControlFiles
from anabranch.spark.daemon import FAMILIES
from anabranch.spark.deliver import Destination
from anabranch.spark.division import division_of, known_division
from anabranch.spark.failures import TOO_SLOW, as_run_errors, failure_of, run_error
from anabranch.spark.producer import Producers
from anabranch.spark.query import BranchQuery, chains_of
from anabranch.spark.rescale import rescale_branch
from anabranch.spark.session import prepare_session
from anabranch.spark.without import Without, set_without, without

if TYPE_CHECKING:
    import pandas as pd

#: The longest pause before a query is started again whose Python processes were too slow to start.
LONGEST_PAUSE_S = 60.0
#: How often an engine that runs looks for what other processes have registered or cancelled.
LOOK_S = 0.2
#: How long sending goes on when an engine stops; where streams end, everything may still have to be sent.
STOP_S, END_S = 2.0, 30.0


@dataclass(frozen=True)
class Handle:
    """A subscription of an engine.

    >>> with Engine(spark, "handle") as engine:
    ...     stream = engine.stream("photons", path="photons/*.parquet", time="det_time")
    ...     hot = engine.subscribe("hot", "SELECT det_time, en FROM photons WHERE en > 6")
    ...     engine.run_once()
    ...     hot.results()
       det_time    en
    0     254.5  7.24
    1     305.0  9.26
    """

    engine: Engine
    name: str

    def _repr_html_(self) -> str:
        return subscription_html(self.engine.catalog.subscription(self.name), self.engine.results(self.name))

    def results(self, spark: bool = False) -> pd.DataFrame | DataFrame:
        """Returns the results so far, in order: a pandas DataFrame, or with `spark` a Spark one."""
        table = self.engine.results(self.name)
        return self.engine.spark.createDataFrame(table) if spark else table.to_pandas()

    def cancel(self, time: Time | None = None) -> None:
        """Cancels it: now, or once the stream has passed a time."""
        self.engine.cancel(self.name, time)


class Engine:
    """One job on one session. `path` is where results, the catalog and the checkpoints live.

    >>> engine = Engine(spark, "engine")
    >>> stream = engine.stream("photons", path="photons/*.parquet", time="det_time")
    >>> [column.name for column in stream.columns]
    ['det_time', 'ra', 'dec', 'en', 'phc']
    >>> hot = engine.subscribe("hot", "SELECT det_time, en FROM photons WHERE en > 6")
    >>> count = engine.subscribe("count", "SELECT count(*) AS n FROM photons WINDOW ROWS 100")
    >>> engine.run_once()
    >>> engine.results("count").column("n").to_pylist()
    [100, 100, 100, 100]
    >>> engine.close()
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str | Path = "out",
        sink: Sink | None = None,
        settings: EngineSettings | None = None,
        after: Callable[[str, Manifest], None] | None = None,
    ) -> None:
        self.spark = prepare_session(spark)
        self.settings = settings or EngineSettings()
        self.layout = Layout(Path(path).resolve(), self.settings.checkpoint, self.settings.catalog)
        self.sink = sink or Sink("parquet")
        self.after = after or (lambda branch, manifest: None)  # called after each batch
        self.layout.hidden.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self.layout)
        self.catalog = open_linked(self.layout.hidden, self.settings.catalog)
        self.deliveries = Deliveries(self.layout)
        self.streams: dict[str, Stream] = {}
        self._operators: list[Operator] = []
        self._sources: dict[str, tuple[StreamDeclaration, T.StructType]] = {}
        self._running: dict[str, BranchQuery] = {}  # by the name of the branch
        self._retries: dict[str, _Retry] = {}  # by the name of the branch
        self._tending: _Tending | None = None
        self.private_receivers = False  # also to Kafka and private addresses, for users of a service
        self._producers = Producers(self.spark)
        self._sender: Sender | None = None

    # what a job says

    def stream(
        self, name: str, /, format: str = "parquet", schema: str | None = None, **settings: Any
    ) -> Stream:
        """Declares a stream. Settings that docs/queries.md names are the stream's; the others are the
        source's options.
        """
        own = {key: value for key, value in settings.items() if key in STREAM_SETTINGS}
        options = {key: value for key, value in settings.items() if key not in STREAM_SETTINGS}
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
        for family in stream.apart:  # readers know by the folder where its results will be
            self.layout.manifests(branch_name(stream.name, family, stream.apart)).mkdir(
                parents=True, exist_ok=True
            )
        self._sources[stream.name] = (declaration, schema)
        return stream

    def subscribe(
        self, name: str, query: str, activate: Moment | None = None, deliver: str | None = None
    ) -> Handle:
        """Registers a query; if the engine runs, it takes effect within two batches. `deliver` is a receiver
        that results are sent to, besides being kept: `https://...` or `kafka:topic@broker:9092`.
        """
        (handle,) = self._register([Subscription(name, query, activate, deliver=deliver)])
        return handle

    def subscribe_many(self, queries: Mapping[str, str]) -> list[Handle]:
        """Registers many queries at once, by name; either all or none."""
        return self._register([Subscription(name, text) for name, text in queries.items()])

    def _register(self, subscriptions: list[Subscription]) -> list[Handle]:
        register(self.catalog, self.deliveries, self.streams, subscriptions)
        if self._running:
            self.start()
        return [Handle(self, subscription.name) for subscription in subscriptions]

    def cancel(self, name: str, time: Time | None = None) -> None:
        """Cancels a subscription: now, or once the stream has passed a time."""
        self.catalog.cancel(name, time)

    # running

    @property
    def queries(self) -> dict[str, StreamingQuery]:
        """The Spark queries that run, by the name of the branch: one per stream, and one per family that a
        stream sets apart.
        """
        return {name: running.query for name, running in self._running.items()}

    def start(self, only: Iterable[str] | None = None) -> None:
        """Starts the Spark query of every stream that has subscriptions and is not running yet, or `only` of
        these streams. From then on results are sent to receivers.
        """
        some = set(self.streams if only is None else only)
        if self._sender is None:
            self._sender = Sender(self.layout, self.private_receivers, self._producers.send)
            self._sender.start()
        known = {stream: self.catalog.families(stream) for stream in self.streams}
        needed = {name for names in known.values() for name in names}
        if not self._running:  # Spark starts its Python processes with the first query
            self.spark.sparkContext.environment[FAMILIES] = ",".join(sorted(needed))
        start_compiling(needed)
        for branch in self._branches():
            there = set(branch.families) & set(known[branch.stream])
            if branch.stream not in some or branch.name in self._running:
                continue
            if there and not self.deliveries.ended(branch.name):
                self._running[branch.name] = self._start_patiently(branch)
        for running in list(self._running.values()):
            running.control.write()
        if self._tending is None and self._running:
            self._tending = _Tending(lambda: list(self._running.values()))
            self._tending.start()

    def _branches(self) -> list[Branch]:
        out: list[Branch] = []
        for stream in self.streams.values():
            branches = branches_of(stream.name, FAMILY_NAMES, stream.apart)
            others = set(self.layout.branches(stream.name)) - {branch.name for branch in branches}
            if others:
                raise JobError(
                    f"{self.layout.root} has results of {min(others)}, which was a Spark query of its own: "
                    "the job was started by an earlier release, or with another `apart`. Go on as it was "
                    "started, or start again with another sink path"
                )
            out += branches
        return out

    def drain(self) -> None:
        """Waits until everything that is there has been processed."""
        for name in list(self._running):
            while True:
                try:
                    self._running[name].drain()
                    break
                except (PySparkException, Py4JError) as error:
                    self._recover(name, error)
                    while not self._restarted(name):
                        time.sleep(LOOK_S)

    def run_once(self) -> None:
        """Reads all that is there, ends the streams, and stops once everything is sent to receivers."""
        self.start()
        self.drain()
        self._confirm_without()
        self.end(self.streams)
        self.drain()
        self._confirm_without()
        self.stop(END_S)

    def end(self, streams: Iterable[str]) -> None:
        """Ends streams: what has been read so far is all of them."""
        for running in self._running.values():
            if running.branch.stream in streams:
                self.catalog.end(running.branch.stream, running.branch.logged)

    def check(self) -> None:
        """Raises what a query failed with, if one did and cannot go on."""
        for name, query in self.queries.items():
            error = query.exception()
            if error is not None and not self._waits(name):
                self._recover(name, error)
            if self._waits(name):
                self._restarted(name)
        self._confirm_without()
        with as_run_errors(self.layout.failures):
            if self._tending is not None and self._tending.error is not None:
                raise self._tending.error

    def _waits(self, name: str) -> bool:
        return name in self._retries and self._retries[name].at is not None

    def _recover(self, name: str, error: Exception) -> None:
        """Plans how a branch that failed goes on, or raises what it failed with.

        Python processes that were too slow to start are tried again, with growing pauses, until they start. A
        batch that fails twice when one subscription begins is run without it; if that does not help, the
        subscription is not to blame.
        """
        batch = self.deliveries.latest(name) + 1
        retry = self._retries.get(name)
        if retry is None or retry.batch != batch:
            retry = self._retries[name] = _Retry(batch)
        if TOO_SLOW in str(error):
            self._wait(name, retry, "Python processes need more than ten seconds to start on this machine")
            return
        failed = run_error(error, self.layout.failures, f"stream {name}, batch {batch}")
        suspects = failure_of(str(error)).suspects
        if retry.suspects or not suspects:
            self._take_back(name, retry)
            raise failed from error
        retry.failures += 1
        if retry.failures >= 2:
            retry.suspects = suspects
            for label in suspects:
                self._leave_out(self._labelled(label), name, batch)
        self._wait(name, retry, str(failed))

    def _wait(self, name: str, retry: _Retry, why: str) -> None:
        pause = min(2.0 ** min(retry.count, 10), LONGEST_PAUSE_S)
        retry.count += 1
        retry.at = time.monotonic() + pause
        without = f" without {', '.join(retry.suspects)}" if retry.suspects else ""
        _say(f"{why}\n  stream {name} starts again{without} in {pause:.0f} s")

    def _restarted(self, name: str) -> bool:
        """Whether a branch that waits has been started again."""
        retry = self._retries[name]
        if retry.at is None:
            return True
        if time.monotonic() < retry.at:
            return False
        retry.at = None
        self._running[name] = self._start_patiently(self._running[name].branch)
        return True

    def _start_patiently(self, branch: Branch) -> BranchQuery:
        """Starts a branch, however long it takes until Python processes start in time."""
        while True:
            try:
                return self._start(branch)
            except (PySparkException, Py4JError) as error:
                self._recover(branch.name, error)
                retry = self._retries[branch.name]
                time.sleep(max(0.0, (retry.at or 0.0) - time.monotonic()))
                retry.at = None

    def without(self, names: Sequence[str]) -> None:
        """Cancels subscriptions, also where a batch that will be repeated begins with them. It comes before
        `start`.
        """
        for name in names:
            entry = self.catalog.subscription(name)
            for each in (entry, *self.catalog.parts(entry)):
                branch = branch_name(each.stream, each.family, self.streams[each.stream].apart)
                self._leave_out(each, branch, self.deliveries.latest(branch) + 1)
            if entry.active:
                self.catalog.cancel(name)

    def _labelled(self, label: str) -> Entry:
        return next(each for each in self.catalog.subscriptions(state=None) if each.label == label)

    def _leave_out(self, entry: Entry, branch: str, batch: int) -> None:
        known = without(self.layout, branch)
        if (entry.number, batch) not in {(each.number, each.batch) for each in known}:
            set_without(
                self.layout, branch, [*known, Without(entry.number, entry.family, entry.label, batch)]
            )

    def _take_back(self, name: str, retry: _Retry) -> None:
        """The batch fails without the suspects too."""
        if retry.suspects:
            known = without(self.layout, name)
            left = [each for each in known if each.batch != retry.batch or each.name not in retry.suspects]
            set_without(self.layout, name, left)

    def _confirm_without(self) -> None:
        """Cancels a subscription for good, once the batch that failed with it has been run without it."""
        for name, retry in list(self._retries.items()):
            if self.deliveries.latest(name) < retry.batch:
                continue
            del self._retries[name]
            for entry in map(self._labelled, retry.suspects):
                if entry.active:
                    self.catalog.cancel(entry.name)
                    _say(
                        f"subscription {entry.name!r} is cancelled: batch {retry.batch} of stream {name} "
                        "failed twice with it, and not without it"
                    )

    def release(self, streams: Iterable[str]) -> None:
        """Stops the Spark queries of some streams; they can be started again."""
        for name, running in list(self._running.items()):
            if running.branch.stream in streams:
                del self._running[name]
                running.query.stop()

    def stop(self, patience_s: float = STOP_S) -> None:
        """Stops the streams. Sending to receivers goes on for at most `patience_s`."""
        if self._tending is not None:
            self._tending.stop()
            self._tending = None
        for query in self.queries.values():
            query.stop()
        self._running = {}
        if self._sender is not None:
            self._sender.stop(patience_s)
            self._producers.close()
            self._sender = None

    def rescale(self, zones: int) -> None:
        """Changes the number of zones of all streams that have started; the next `start` goes on with so
        many, and results do not change. The engine must not be running.
        """
        if self._running:
            raise JobError("the zones of an engine that runs cannot be changed: stop it first")
        for branch in self._branches():
            if known_division(self.catalog, branch.name) and not self.deliveries.ended(branch.name):
                stream = self.streams[branch.stream]
                with as_run_errors():
                    rescale_branch(self.spark, self.layout, self.catalog, stream, branch, zones)

    def first_batch(self, branch: str) -> int:
        """Returns the number that Spark's batch 0 has in a branch that runs."""
        return self._running[branch].division.first_batch

    def close(self) -> None:
        """Stops, and lets another process use the sink."""
        self.stop()
        self._lock.close()

    def __enter__(self) -> Engine:
        return self

    def _repr_html_(self) -> str:
        return engine_html(self.streams.values(), self.catalog.subscriptions())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # results

    def results(self, name: str) -> pa.Table:
        """Returns the results of a subscription so far, in order."""
        entry = self.catalog.subscription(name)
        schema, tables = self.deliveries.results(entry, self.streams[entry.stream])
        return pa.concat_tables([schema.empty_table(), *tables])

    def count(self, name: str) -> int:
        """Returns the number of result rows of a subscription so far."""
        entry = self.catalog.subscription(name)
        table, _ = family_of(entry.family).shown(self.streams[entry.stream], entry.spec)
        return self.deliveries.counts(self.deliveries.branch(entry), table).get(entry.label, 0)

    def _limited(self, declaration: StreamDeclaration) -> StreamDeclaration:
        """Limits how much a batch reads from files: a first run over years of them must not become one
        batch.
        """
        if declaration.source.format not in sources.FILES:
            return declaration
        options = dict(declaration.source.options)
        if self.settings.max_files_per_batch is not None:
            options.setdefault("maxFilesPerTrigger", self.settings.max_files_per_batch)
        elif "maxFilesPerTrigger" not in options:
            options.setdefault("maxBytesPerTrigger", self.settings.max_bytes_per_batch or 128 << 20)
        return replace(declaration, source=replace(declaration.source, options=options))

    def _schema(self, declaration: StreamDeclaration) -> tuple[T.StructType, tuple[Any, ...]]:
        """Returns the schema a stream was declared with first: the files it was taken from may be gone."""
        stored = self.catalog.meta(f"schema of {declaration.name}")
        if stored is None:
            return sources.infer(self.spark, declaration)
        schema = T.StructType.fromJson(stored)
        return schema, tuple(field.column for field in sources.fields(schema))

    def _subscribers(self, branch: Branch) -> dict[str, tuple[Shown, ...]]:
        """Returns the columns that each subscription of a branch sees; also of cancelled ones, whose last
        results may be under way.
        """
        stream = self.streams[branch.stream]
        entries = self.catalog.subscriptions(stream=stream.name, state=None)
        return {
            entry.label: family_of(entry.family).shown(stream, entry.spec)[1]
            for entry in entries
            if entry.family in branch.families
        }

    def _start(self, branch: Branch) -> BranchQuery:
        """Raises Spark's own errors."""
        stream = self.streams[branch.stream]
        declaration, schema = self._sources[stream.name]
        division = division_of(self.catalog, branch.name, self.settings, self.spark)
        folder = self.layout.control(branch.name)
        subscribers = partial(self._subscribers, branch)
        return BranchQuery(
            self.spark,
            partial(
                sources.packets,
                *(self.spark, declaration, schema, stream),
                unreadable=self.layout.unreadable(branch.name),
            ),
            chains_of(stream, branch, division),
            Destination(self.layout, branch, self.sink, subscribers, division.first_batch),
            ControlFiles(folder, self.catalog, branch),
            division,
            float(self.settings.trigger or 0),
            partial(self._delivered, branch),
        )

    def _delivered(self, branch: Branch, manifest: Manifest) -> None:
        """Called after each batch: the catalog is told who was suspended, and why."""
        for note in manifest.notes:
            if "suspended" in note:
                self.catalog.suspend(note["query"], f"at item {note['item']:,}: {note['reason']}")
        self.after(branch.name, manifest)


@dataclass
class _Retry:
    """A branch that failed: in which batch, how often it was started again since, and when it will be."""

    batch: int
    count: int = 0
    failures: int = 0
    suspects: tuple[str, ...] = ()
    at: float | None = None


class _Tending(threading.Thread):
    """Looks after queries that run (BranchQuery.tend) until it is stopped; `error` is what it failed with."""

    def __init__(self, running: Callable[[], list[BranchQuery]]) -> None:
        super().__init__(name="anabranch control", daemon=True)
        self.running = running
        self.error: Exception | None = None
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            try:
                for query in self.running():
                    query.tend()
            except (AnabranchError, OSError, PySparkException, Py4JError) as error:
                if not self._stopped.is_set():
                    self.error = error
                return

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _say(text: str) -> None:
    print(f"anabranch: {text}", file=sys.stderr, flush=True)


def _lock(layout: Layout) -> IO[str]:
    """Allows one engine per sink: two would overwrite each other's batches. The lock ends with the
    process.
    """
    file = layout.lock.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise JobError(
            f"another process runs a job with the sink {layout.root}; stop it first, or use another sink path"
        ) from None
    return file
