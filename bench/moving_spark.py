"""The workload of bench/moving on Spark: parquet files of ten seconds each, one a batch, on all cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from anabranch.model.job import EngineSettings as Settings
from anabranch.results.manifests import Manifest
from anabranch.simulate.place.world import PAPER, REPORT_SECONDS, World
from anabranch.spark.engine import Engine
from anabranch.spark.session import make_session
from bench.harness import Report
from bench.moving import FENCE_SHARE, FENCES, fences

SECONDS_A_FILE, FILES = 10, 6


def write_files(folder: Path, world: World) -> None:
    folder.mkdir(parents=True)
    for file in range(FILES):
        batches = [world.items(world.step()) for _ in range(SECONDS_A_FILE)]
        pq.write_table(pa.Table.from_batches(batches), folder / f"part-{file:03d}.parquet")


def rate(spark: SparkSession, folder: Path, texts: list[str], out: Path) -> float:
    """Updates a second over the batches after everybody has reported once."""
    settings = Settings(max_files_per_batch=1)
    rows_in: dict[int, int] = {}

    def after(branch: str, manifest: Manifest) -> None:
        rows_in[manifest.batch] = manifest.books["rows_in"]

    with Engine(spark, out, settings=settings, after=after) as engine:
        engine.stream(
            "units",
            "parquet",
            path=str(folder),
            time="t",
            object="o",
            position=("x", "y"),
            regions=(3, 3),
            bounds=((0.0, 1.0), (0.0, 1.0)),
        )
        engine.subscribe_many({f"q{number}": text for number, text in enumerate(texts)})
        engine.start()
        engine.drain()
        (query,) = engine.queries.values()
        known = REPORT_SECONDS // SECONDS_A_FILE + 1
        steady: list[dict[str, Any]] = [p for p in query.recentProgress if p["numInputRows"]][known:]
        seconds = sum(p["durationMs"]["triggerExecution"] for p in steady) / 1000
        return (rows_in[steady[-1]["batchId"]] - rows_in[steady[0]["batchId"] - 1]) / seconds


def measure_on_spark(report: Report, folder: Path, scale: float) -> None:
    world = World(PAPER.scaled(scale))
    side = 0.1
    around = [
        f"SELECT OBJECTS IN BOX {side} BY {side} AROUND OBJECT {pair[0]} FROM units" for pair in world.pairs()
    ]
    side = FENCE_SHARE**0.5
    points = [spec["focal"] for spec in fences()]
    fixed = [f"SELECT OBJECTS IN BOX {side} BY {side} AROUND ({x!r}, {y!r}) FROM units" for x, y in points]
    write_files(folder / "source", world)
    spark = make_session("bench", log=folder / "spark.log")
    found = rate(spark, folder / "source", fixed, folder / "fences")
    report.figure(f"{FENCES:,} fences on Spark: updates/s", found)
    report.ratio(f"{FENCES:,} fences on Spark, updates/s", found, at_least=20_000)
    found = rate(spark, folder / "source", around, folder / "ranges")
    report.figure("9,000 ranges of 1 % on Spark: updates/s", found)
    spark.stop()
