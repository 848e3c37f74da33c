"""A job on Spark whose catalog is in PostgreSQL: other processes ask it questions while it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.model.job import EngineSettings as Settings
from anabranch.spark.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def arrive(folder: Path, first: int, count: int) -> None:
    times = list(range(first, first + count))
    table = pa.table({"t": pa.array(times, pa.int64()), "v": pa.array([t / 4 for t in times])})
    pq.write_table(table, folder / f"{first:06d}.parquet")


def command(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "anabranch", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_subscribed_from_elsewhere_while_it_runs(
    spark: SparkSession, postgres_catalog: str, tmp_path: Path
) -> None:
    (source := tmp_path / "in").mkdir()
    arrive(source, 0, 10)
    out, settings = tmp_path / "out", Settings(catalog=postgres_catalog)
    with Engine(spark, out, settings=settings) as engine:
        engine.stream("s", path=str(source), time="t")
        engine.subscribe("high", "SELECT t, v FROM s WHERE v >= 2")
        engine.start()
        engine.drain()
        assert "is subscription 2" in command("subscribe", out, "low", "SELECT t FROM s WHERE v < 3")
        arrive(source, 10, 10)
        engine.drain()
        command("cancel", out, "high")
        arrive(source, 20, 10)
        engine.drain()
    with Engine(spark, out, settings=settings) as engine:  # and it goes on where it was
        engine.stream("s", path=str(source), time="t")
        arrive(source, 30, 10)
        engine.run_once()
        high, low = engine.results("high").to_pylist(), engine.results("low").to_pylist()
    assert [row["t"] for row in high] == [*range(8, 20)]
    assert [row["t"] for row in low] == [10, 11]
    assert not list(out.rglob("catalog.sqlite*"))
    listed = command("list", out, "--all", "--format", "json").splitlines()
    assert ['"name": "high"' in line for line in listed] == [True, False]
