"""Nearest on Spark, for bench.nearest: RAPF beside the plain pipeline, and how CPU grows with queries.

All processes count: Java, the driver, the Python workers. The first batches, in which queries begin, windows
fill and Java warms up, are not timed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from anabranch.model.job import EngineSettings as Settings
from anabranch.simulate.dzalaps.workload import Workload, uniform
from anabranch.spark.engine import Engine
from anabranch.spark.session import make_session
from bench.harness import Report, best, turns
from bench.memory import cpu_seconds
from bench.pipeline import Contest, ranges, selections, write_files

#: Items a batch, and batches: those that warm up, and those that are timed.
BATCH = 50_000
WARM, TIMED = 3, 4
MOST_GROWTH = 20


def beside_plain(report: Report, rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as name:
        folder = Path(name)
        write_files(folder / "source", rows)
        spark = make_session("bench", log=folder / "spark.log")
        contest = Contest(spark, folder)
        rng = np.random.default_rng(1)
        points = rng.uniform((0, -90, 0), (360, 90, 1), (400, 3)).tolist()
        nearest = [
            f"SELECT NEAREST 9 TO ({ra!r}, {dec!r}, {en!r}) BY (ra, dec, en) FROM photons WINDOW RANGE 40"
            for ra, dec, en in points
        ]
        figures = turns(
            {
                "plain pipeline, rows/s": lambda: contest.ours(selections(ranges(1, 0.01, "en"))),
                "400 nearest queries, k 9, rows/s": lambda: contest.ours(nearest),
            },
            2,
        )
        plain, ours = (best(values) for values in figures.values())
        for figure, values in figures.items():
            report.figure(figure, best(values))
        report.ratio("RAPF at k 9 / plain pipeline", ours / plain, at_least=0.4)
        spark.stop()


def growth(report: Report) -> None:
    """The setting of bench.nearest's `queries`, in one job with 40,000 and one with 400 of them. The larger
    one comes first, so that Java's warming up counts against it.
    """
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as name:
        folder = Path(name)
        work = uniform((WARM + TIMED) * BATCH, 40_000)
        _write(work, folder / "source")
        spark = make_session("bench", log=folder / "spark.log")
        costs = {}
        for queries in (40_000, 400):
            costs[queries] = _cpu_an_item(spark, folder, work, queries)
            report.figure(f"on Spark, {queries:,} queries: us an item", 1e6 * costs[queries])
        report.ratio(
            "on Spark, all processes: CPU an item, 40,000 queries / 400",
            costs[40_000] / costs[400],
            at_most=MOST_GROWTH,
        )
        spark.stop()


def _write(work: Workload, folder: Path) -> None:
    """One file a batch, read in this order."""
    folder.mkdir()
    for place in range(WARM + TIMED):
        file = folder / f"part-{place:03d}.parquet"
        rows = work.rows(place * BATCH, (place + 1) * BATCH)
        pq.write_table(pa.Table.from_batches([rows]), file)
        os.utime(file, (place, place))


def _cpu_an_item(spark: SparkSession, folder: Path, work: Workload, queries: int) -> float:
    out, columns = folder / "out", ", ".join(work.columns)
    shutil.rmtree(out, ignore_errors=True)
    asked = {
        f"q{number}": f"SELECT NEAREST 9 TO ({', '.join(map(repr, point))}) BY ({columns}) "
        "FROM items WINDOW RANGE 40000"
        for number, point in enumerate(work.queries[:queries].tolist())
    }
    with Engine(spark, out, settings=Settings(max_files_per_batch=1)) as engine:
        bounds = [[0.0, 1.0]] * len(work.columns)
        source = {"path": str(folder / "source"), "position": list(work.columns), "bounds": bounds}
        engine.stream("items", "parquet", time="t", **source)
        engine.subscribe_many(asked)
        engine.start()
        (query,) = engine.queries.values()
        while not query.lastProgress or query.lastProgress["batchId"] < WARM - 1:
            engine.check()
            time.sleep(0.02)
        begin, before = cpu_seconds(), engine.deliveries.books("items")["rows_in"]
        engine.drain()
        spent, items = cpu_seconds() - begin, len(work.items) - before
        print(f"  {queries:,} queries: {items:,} items timed", file=sys.stderr, flush=True)
        return spent / items
