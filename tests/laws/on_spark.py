"""Runs a case of the laws on Spark: one file a batch, one engine run a stop."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from anabranch.model.columns import ColumnType
from anabranch.model.job import EngineSettings as Settings
from anabranch.model.stream import MICROSECONDS
from anabranch.spark.engine import Engine
from tests.laws.case import Case, Outcome


def run_on_spark(
    spark: SparkSession,
    folder: Path,
    case: Case,
    cuts: Sequence[int] = (),
    zones: int = 2,
    stops: Sequence[int] = (),
) -> Outcome:
    """As run_local; the batches are files that appear one after the other."""
    edges = [0, *sorted(set(cuts) & set(range(1, case.items.num_rows))), case.items.num_rows]
    source = folder / "source"
    source.mkdir(parents=True)
    _write(source / "empty.parquet", case.items.slice(0, 0), 0)
    engine = _engine(spark, folder, case, zones)
    for number, asked in enumerate(case.queries):
        engine.catalog.subscribe(
            asked.name,
            case.stream.name,
            case.family,
            asked.spec["kind"],
            f"query {number}",
            asked.spec,
            asked.after,
        )
        if asked.until is not None:
            engine.catalog.cancel(asked.name, asked.until)
    for batch, (low, high) in enumerate(pairwise(edges)):
        if high > low:
            _write(source / f"{batch:05d}.parquet", case.items.slice(low, high - low), batch + 1)
        engine.start()
        engine.drain()
        if batch in stops:
            engine.close()
            engine = _engine(spark, folder, case, zones)
    engine.run_once()
    outcome = Outcome(books=engine.deliveries.books(case.stream.name))
    for asked in case.queries:
        outcome.results[asked.name] = engine.results(asked.name).to_pylist()
    dead = engine.deliveries.dead_letters(case.stream.name)
    outcome.dead = [row for table in dead for row in table.to_pylist()]
    engine.close()
    return outcome


def _write(path: Path, rows: pa.RecordBatch, modified: int) -> None:
    pq.write_table(pa.Table.from_batches([rows]), path)
    os.utime(path, (1_700_000_000 + modified, 1_700_000_000 + modified))


def _engine(spark: SparkSession, folder: Path, case: Case, zones: int) -> Engine:
    stream = case.stream
    engine = Engine(spark, folder / "out", settings=Settings(zones=zones, max_files_per_batch=1))
    names = ("time", "id", "position", "object", "regions", "bounds", "metric", "unit")
    settings = {name: getattr(stream, name) for name in names if getattr(stream, name) not in (None, ())}
    lengths = {"lateness": stream.lateness, "tick": stream.tick, "expire": stream.expire}
    timed = stream.time_type is ColumnType.TIMESTAMP  # lengths are stored in microseconds
    settings |= {
        name: length / MICROSECONDS if timed else length
        for name, length in lengths.items()
        if length is not None
    }
    settings = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
    for operator in stream.operators:
        engine.operator(operator.name, operator, operator.type)
    made = engine.stream(stream.name, "parquet", path=str(folder / "source"), **settings)
    assert made.columns == stream.columns
    for name in names:
        assert getattr(made, name) in (getattr(stream, name), settings.get(name))
    return engine
