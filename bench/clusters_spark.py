"""The clusters operator on Spark beside the same operator in one process: `python -m bench.clusters_spark`.

100 arbitrary queries (the paper's scaling case) with EMIT SUMMARY over the same files of generated targets, a
file a batch, in turns. Tuples a second over all batches but the first.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.catalog.registration import bind_subscription
from anabranch.chain.runner import Runner
from anabranch.families.clusters.family import ClustersFamily
from anabranch.job.generated_streams import targets
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate
from anabranch.model.job import EngineSettings as Settings
from anabranch.model.stream import Stream
from anabranch.model.subscription import Subscription
from anabranch.simulate.clusters.workloads import group
from anabranch.spark.engine import Engine
from anabranch.spark.session import make_session
from bench.harness import Report, best, turns
from bench.pipeline import rate_of

COLUMNS = {"time": "FLOAT", "target": "INT", "latitude": "FLOAT", "longitude": "FLOAT"}
STREAM = Stream(
    "targets", tuple(Column(name, ColumnType[kind]) for name, kind in COLUMNS.items()), time="time"
)


def texts(count: int) -> dict[str, str]:
    """The queries as a subscriber writes them."""
    return {
        f"q{number}": f"SELECT CLUSTERS WITHIN {query.range!r} MIN {query.count} BY (latitude, longitude) "
        f"FROM targets WINDOW ROWS {query.size} STEP {query.slide} EMIT SUMMARY"
        for number, query in enumerate(group("scaling", count))
    }


def in_process(files: list[Path], queries: dict[str, str]) -> float:
    runner = Runner(STREAM, ClustersFamily())
    asked = [
        Activate(number, name, bind_subscription(Subscription(name, text), {"targets": STREAM}).spec)
        for number, (name, text) in enumerate(queries.items())
    ]
    begun, tuples = 0.0, 0
    for place, file in enumerate(files):
        if place == 1:
            begun = time.perf_counter()
        items = pq.read_table(file).combine_chunks().to_batches()[0]
        runner.batch(items, asked if place == 0 else ())
        tuples += items.num_rows if place else 0
    return tuples / (time.perf_counter() - begun)


def on_spark(spark: Any, source: Path, out: Path, queries: dict[str, str]) -> float:
    shutil.rmtree(out, ignore_errors=True)
    with Engine(spark, out, settings=Settings(max_files_per_batch=1)) as engine:
        engine.stream("targets", "parquet", path=str(source), time="time")
        engine.subscribe_many(queries)
        engine.start()
        engine.drain()
        (query,) = engine.queries.values()
        return rate_of(query)


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--batch", type=int, default=60_000, help="tuples a file")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    report = Report("bench/clusters_spark")
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as name:
        folder = Path(name)
        (folder / "source").mkdir()
        files = [folder / "source" / f"part-{place}.parquet" for place in range(given.batches)]
        for place, file in enumerate(files):
            pq.write_table(pa.table(targets(place * given.batch, given.batch)), file)
        queries = texts(given.queries)
        spark = make_session("bench", log=folder / "spark.log")
        contestants: dict[str, Callable[[], float]] = {
            "one process, tuples/s": lambda: in_process(files, queries),
            "Spark, tuples/s": lambda: on_spark(spark, folder / "source", folder / "out", queries),
        }
        rates = {name: best(values) for name, values in turns(contestants, given.rounds).items()}
        spark.stop()
    for name, rate in rates.items():
        report.figure(name, rate)
    process, engine = rates.values()
    report.ratio(f"{given.queries} queries: Spark / one process", engine / process, at_least=0.4)
    report.show(given.json)


if __name__ == "__main__":
    main()
