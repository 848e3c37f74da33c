"""The Spark session: the settings that make small batches fast (docs/decisions/spark-settings.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.model.errors import RunError
from anabranch.spark.java import java_options

PARTITIONS = "spark.sql.shuffle.partitions"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: What a session needs whoever makes it. Runtime settings, set on a session that somebody else made, too.
RUNTIME: dict[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.encodingFormat": "avro",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.files.maxPartitionBytes": "64m",
}

#: What can only be set before the JVM starts. The file manager is for local disks; object stores keep Spark's
#: default.
STATIC: dict[str, str] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "anabranch.spark.daemon",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.executorEnv.NUMBA_NUM_THREADS": "1",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
}

#: For a session in this process alone.
LOCAL: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
}

#: For a run of seconds: compiling a plan takes longer than running it as it is.
SHORT: dict[str, str] = {"spark.sql.codegen.wholeStage": "false"}


def make_session(
    name: str = "anabranch",
    settings: Mapping[str, str] | None = None,
    cores: int | None = None,
    log: Path | None = None,
    short: bool = False,
) -> SparkSession:
    """A session with our settings; `settings` win over them. It is local unless they name a master or
    spark-submit started this process (docs/operations.md). With `short` it is made for a run of seconds: it
    starts sooner, and computes a little slower.

    What the JVM and the Python workers say goes to the file `log`, or else to standard error.

    >>> spark = make_session(cores=2)
    >>> spark.conf.get("spark.sql.session.timeZone")
    'UTC'
    """
    cores = cores or os.cpu_count() or 1
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    own = {**STATIC, **RUNTIME}
    if not ("PYSPARK_GATEWAY_PORT" in os.environ or "spark.master" in (settings or {})):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        own |= LOCAL | (SHORT if short else {}) | {"spark.master": f"local[{cores}]", PARTITIONS: str(cores)}
        own["spark.driver.extraJavaOptions"] = java_options(short)
    options = {**own, **(settings or {})}
    for key, value in options.items():
        builder = builder.config(key, value)
    with _errors_to(log):
        try:
            return builder.getOrCreate()
        except PySparkException as error:
            hint = f"; {log} says more" if log else ""
            raise RunError(f"Spark did not start: {str(error).splitlines()[0]}{hint}") from error


@contextmanager
def _errors_to(log: Path | None) -> Iterator[None]:
    """A process started meanwhile, the JVM, has `log` as its standard error for all its life."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    own = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)
        os.close(file)


def prepare_session(spark: SparkSession) -> SparkSession:
    """Sets what can still be set on a session that somebody else made."""
    for key, value in RUNTIME.items():
        spark.conf.set(key, value)
    return spark


def few_partitions(spark: SparkSession) -> int:
    """As many partitions as the session says, or as it has cores where it says nothing: each costs a batch
    tens of milliseconds, and Spark's default is 200.
    """
    said = spark.conf.get(PARTITIONS, None)
    return int(said) if said not in (None, "200") else max(2, spark.sparkContext.defaultParallelism)


@contextmanager
def shuffled(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Queries that start meanwhile have so many partitions; those of the session's owner stay as they are."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, str(partitions))
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, str(before))
