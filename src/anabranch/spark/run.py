"""`anabranch run`: a job file from its first line to its last batch."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType

import pyspark

from anabranch.catalog.registration import sync_job
from anabranch.families.warm_up import start_compiling
from anabranch.language.bind import family_of
from anabranch.language.parse import parse
from anabranch.model.errors import JobError
from anabranch.model.job import Job
from anabranch.results.layout import layout_for
from anabranch.spark.engine import Engine
from anabranch.spark.progress import Progress
from anabranch.spark.session import make_session

#: How often a running job looks for new subscriptions that need a Spark query, and for failures.
LOOK_S = 0.5

#: How long `seconds` waits for the first batch of every query, and for what its caller waits for.
PATIENCE_S = 600.0

#: Which answers are still missing before the seconds count.
Missing = Callable[[Engine], Sequence[str]]

#: Runs beside a job, from when its streams and queries are known until it stops.
Beside = Callable[[Engine], AbstractContextManager[None]]


def run_job(
    job: Job,
    once: bool = False,
    seconds: float | None = None,
    quiet: bool = False,
    beside: Beside = lambda engine: nullcontext(),
    missing: Missing = lambda engine: (),
    without: Sequence[str] = (),
) -> None:
    """Runs a job until its streams end (`once`), for some seconds, or until it is stopped. The seconds count
    from when every query is through its first batch and nothing is `missing` any more: Spark needs a while to
    start.
    """
    _check(job, once)
    settings = _kafka(job) | dict(job.engine.spark)
    layout = layout_for(job)
    _compile_kernels(job, quiet)
    name, log = f"anabranch {job.path.stem}", layout.hidden / "spark.log"
    spark = make_session(name, settings, log=log, short=once)
    with Progress(quiet) as progress:
        engine = Engine(spark, layout.root, job.sink, job.engine, progress.batch)
        with engine:
            for declaration in job.streams.values():
                engine.declare(declaration)
            sync_job(engine.catalog, job, engine.streams)
            engine.without(without)
            progress.subscriptions = lambda: engine.catalog.count()
            with beside(engine):
                if once:
                    engine.run_once()
                else:
                    _run_on(engine, seconds, progress, missing)
    progress.summary(engine)


def rescale_job(job: Job, zones: int) -> None:
    """Changes the number of zones of a job that has run and is stopped."""
    layout = layout_for(job)
    if not layout.hidden.is_dir():
        raise JobError(
            f"{job.path} has not run yet, so there is nothing to change: set zones = {zones} in [engine]"
        )
    log = layout.hidden / "spark.log"
    spark = make_session(f"anabranch {job.path.stem}", dict(job.engine.spark), log=log, short=True)
    with Engine(spark, layout.root, job.sink, job.engine) as engine:
        for declaration in job.streams.values():
            engine.declare(declaration)
        engine.rescale(zones)


def _compile_kernels(job: Job, quiet: bool) -> None:
    """Starts compiling the kernels that the job's queries need, where a job on this machine is the first to
    need them: beside Spark, which takes its time to start.
    """
    cold = start_compiling({family_of(parse(asked.query)) for asked in job.subscriptions})
    if cold and not quiet:
        print(
            f"compiling kernels for {', '.join(cold)}: once per machine, while Spark starts",
            file=sys.stderr,
            flush=True,
        )


def _run_on(engine: Engine, seconds: float | None, progress: Progress, missing: Missing) -> None:
    """Until the time is up or a signal comes."""
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    begun, all_there = time.monotonic(), None
    while not stopped:
        now = time.monotonic()
        if all_there is None and seconds is not None:
            waits_for = missing(engine) if progress.knows(engine.queries) else ["the first batches"]
            progress.waits_for(waits_for)
            if not waits_for or now >= begun + PATIENCE_S:
                all_there = now
        if seconds is not None and all_there is not None and now >= all_there + seconds:
            break
        engine.start()
        engine.check()
        time.sleep(LOOK_S)
    engine.stop()


def _kafka(job: Job) -> dict[str, str]:
    """Spark does not ship its Kafka connector; without `spark.jars` in the job, Spark gets it from Maven
    (docs/kafka.md).
    """
    formats = {declaration.source.format for declaration in job.streams.values()} | {job.sink.format}
    formats |= {(subscription.deliver or "").partition(":")[0] for subscription in job.subscriptions}
    if "kafka" not in formats or "spark.jars" in job.engine.spark:
        return {}
    return {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"}


def _check(job: Job, once: bool) -> None:
    for declaration in job.streams.values():
        source = declaration.source
        if once and (
            source.format == "rate" or (source.format == "generator" and "limit" not in source.options)
        ):
            raise JobError(
                f"stream {declaration.name}: a {source.format} source never ends, so neither would --once; "
                "run it without --once (with --seconds N, say)"
                + ("" if source.format == "rate" else ", or give it a limit")
            )
