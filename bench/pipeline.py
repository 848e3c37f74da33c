"""The ground floor's speed: `python -m bench.pipeline [--rows 4000000] [--json FILE]`.

Ratios from one run: the plain pipeline beside Spark alone on the same files, many selections beside one, and
5,000 ranges beside Spark's broadcast range join with the same output. Also: batch time with little data, the
workers' memory, and what a zone with 50 MB of state adds to a batch.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from anabranch.model.job import EngineSettings as Settings
from anabranch.spark.engine import Engine
from anabranch.spark.session import make_session
from bench.harness import Report, best, turns
from bench.memory import worker_bytes
from bench.state import added_by_state

FILES = 8
WARM_BATCHES = 80  # Java compiles as it goes: until then batches get faster; the last 20 are measured
LIMITS = {"ra": (0.0, 360.0), "dec": (-90.0, 90.0), "en": (0.0, 1.0)}

#: A range in some columns.
Box = dict[str, tuple[float, float]]


def write_files(folder: Path, rows: int) -> None:
    """Photons that do not cluster, so that a selection's width is its share of the rows."""
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True)
    each = rows // FILES
    for file in range(FILES):
        columns = {
            "t": np.arange(file * each, (file + 1) * each) / 1000.0,
            **{column: rng.uniform(*limits, each) for column, limits in LIMITS.items()},
            "phc": rng.integers(0, 4096, each),
        }
        pq.write_table(pa.table(columns), folder / f"part-{file}.parquet")


def rate_of(query: StreamingQuery, rows_each: int = 1) -> float:
    """Rows a second over all batches but the first, which compiles and starts workers. `rows_each`: of what
    Spark counts as a row; of ours that is a file.
    """
    progress = [p for p in query.recentProgress if p["numInputRows"]][1:]
    return sum(p["numInputRows"] * rows_each for p in progress) / (
        sum(p["durationMs"]["triggerExecution"] for p in progress) / 1000
    )


class Contest:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.source = spark, folder, folder / "source"
        self.schema = spark.read.parquet(str(self.source)).schema

    def spark_alone(self) -> float:
        """Spark reads the files and pushes them through an empty mapInArrow and a shuffle."""

        def empty(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches

        return self._streamed(lambda rows: rows.mapInArrow(empty, self.schema).repartition(2), "noop", None)

    def range_join(self, boxes: list[Box]) -> float:
        """Rules as a table, broadcast: what a Spark user writes for many ranges."""
        columns = list(boxes[0])
        types = ", ".join(f"{column}_low double, {column}_high double" for column in columns)
        rules = self.spark.createDataFrame(
            [(n, *(edge for pair in box.values() for edge in pair)) for n, box in enumerate(boxes)],
            f"rule int, {types}",
        )

        def joined(rows: DataFrame) -> DataFrame:
            inside = (F.col(c).between(F.col(f"{c}_low"), F.col(f"{c}_high")) for c in columns)
            return rows.join(F.broadcast(rules), reduce(and_, inside)).select("rule", "t", "en")

        return self._streamed(joined, "parquet", self.folder / "joined")

    def _streamed(self, make: Callable[[DataFrame], DataFrame], form: str, path: Path | None) -> float:
        checkpoint = self.folder / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 2)
        writer = make(reader.parquet(str(self.source))).writeStream.format(form)
        if path is not None:
            writer = writer.option("path", str(path))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return rate_of(query)

    def ours(self, queries: list[str]) -> float:
        # a new one: Spark may still write to the checkpoint of the turn before
        out = Path(tempfile.mkdtemp(dir=self.folder))
        with Engine(self.spark, out, settings=Settings(max_files_per_batch=2)) as engine:
            engine.stream("photons", "parquet", path=str(self.source), time="t")
            engine.subscribe_many({f"q{number}": text for number, text in enumerate(queries)})
            engine.start()
            engine.drain()
            (query,) = engine.queries.values()
            return rate_of(query, engine.deliveries.books("photons")["rows_in"] // FILES)

    def steady(self) -> tuple[float, float]:
        """(median seconds a batch with little data, bytes that the Python workers use)."""
        # a new one: Spark may still write to the checkpoint of the turn before
        out = Path(tempfile.mkdtemp(dir=self.folder))
        with Engine(self.spark, out, settings=Settings(trigger=0.1)) as engine:
            engine.stream("photons", "generator", name="photons", rate=1000, time="det_time")
            engine.subscribe_many({f"q{n}": f"SELECT en FROM photons WHERE en > {n}" for n in range(1, 101)})
            engine.start()
            (query,) = engine.queries.values()
            while not query.recentProgress or query.recentProgress[-1]["batchId"] < WARM_BATCHES:
                engine.check()
                query.awaitTermination(1)
            times = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
            return statistics.median(times) / 1000, worker_bytes()


def ranges(count: int, share: float, *columns: str) -> list[Box]:
    """Boxes in these columns that each hold this share of the rows."""
    rng, side = np.random.default_rng(5), share ** (1 / len(columns))
    boxes: list[Box] = []
    for _ in range(count):
        box = {}
        for column in columns:
            least, greatest = LIMITS[column]
            low = rng.uniform(0, 1 - side)
            box[column] = (
                float(least + low * (greatest - least)),
                float(least + (low + side) * (greatest - least)),
            )
        boxes.append(box)
    return boxes


def selections(boxes: list[Box]) -> list[str]:
    return [
        "SELECT t, en FROM photons WHERE "
        + " AND ".join(f"{column} BETWEEN {low!r} AND {high!r}" for column, (low, high) in box.items())
        for box in boxes
    ]


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    report = Report("bench/pipeline")
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as name:
        folder = Path(name)
        write_files(folder / "source", given.rows)
        spark = make_session("bench", log=folder / "spark.log")
        contest = Contest(spark, folder)
        some = {count: selections(ranges(count, 0.001, "en")) for count in (1000, 10_000)}
        lines, boxes = ranges(5000, 0.001, "en"), ranges(5000, 0.001, "ra", "dec")
        seconds, memory = contest.steady()
        report.figure("steady batch with little data, s", seconds)
        report.figure("memory of the Python workers, 100 selections, MB", memory / 1e6)
        figures = turns(
            {
                "Spark alone, rows/s": contest.spark_alone,
                "1 selection of 1 %, rows/s": lambda: contest.ours(selections(ranges(1, 0.01, "en"))),
                "1,000 selections of 0.1 %, rows/s": lambda: contest.ours(some[1000]),
                "10,000 selections of 0.1 %, rows/s": lambda: contest.ours(some[10_000]),
                "5,000 ranges of en, 0.1 % each, rows/s": lambda: contest.ours(selections(lines)),
                "5,000 boxes of ra and dec, 0.1 % each, rows/s": lambda: contest.ours(selections(boxes)),
            },
            given.rounds,
        )
        figures |= turns(
            {
                "Spark's range join, 5,000 ranges, rows/s": lambda: contest.range_join(lines),
                "Spark's range join, 5,000 boxes, rows/s": lambda: contest.range_join(boxes),
            },
            1,
        )
        rates = {name: best(values) for name, values in figures.items()}
        for name, value in rates.items():
            report.figure(name, value)
        alone, one, thousand, ten_thousand, on_line, in_plane, line_join, plane_join = rates.values()
        report.ratio("one selection / Spark alone", one / alone, at_least=0.5)
        report.ratio("1,000 selections / one", thousand / one, at_least=0.5)
        report.ratio("10,000 selections / one", ten_thousand / one, at_least=0.2)
        report.ratio("5,000 ranges / Spark's range join", on_line / line_join, at_least=10)
        report.ratio("5,000 boxes / Spark's range join", in_plane / plane_join, at_least=10)
        report.figure("memory of the Python workers, after all of this, MB", worker_bytes() / 1e6)
        report.ratio("steady batch, s", seconds, at_most=0.6)
        added = added_by_state(spark, folder / "state", megabytes=50, share=0.01)
        report.figure("50 MB of state, 1 % changed: added to a batch, s", added)
        report.ratio("50 MB of state adds, s", added, at_most=0.05)
        spark.stop()
    report.show(given.json)


if __name__ == "__main__":
    main()
