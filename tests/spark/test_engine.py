"""The engine as a notebook would use it: subscriptions come and go while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Engine
from anabranch.families.registry import family
from anabranch.language.bind import compile_query
from anabranch.model.errors import JobError, QueryError
from anabranch.model.job import EngineSettings as Settings
from anabranch.results.manifests import Manifests
from tests.laws.case import Asked, Case, run_local
from tests.sending.hooks import hooked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def wait_until(condition, patience_s: float = 60) -> None:
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


def test_subscriptions_come_and_go_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    """One of them has a receiver, which fails at first: it gets every row, in order, with a key."""
    batches: list[int] = []
    with (
        hooked(lambda n: 500 if n == 0 else 200) as hook,
        Engine(
            spark, tmp_path / "out", after=lambda branch, manifest: batches.append(manifest.batch)
        ) as engine,
    ):
        engine.stream("photons", "generator", name="photons", rate=5000, time="det_time")
        hot = engine.subscribe("hot", "SELECT det_time, en FROM photons WHERE en > 5")
        engine.start()
        wait_until(lambda: len(batches) >= 2)
        before = len(batches)
        bright = engine.subscribe("bright", "SELECT en FROM photons WHERE en > 1", deliver=hook.url)
        wait_until(lambda: len(bright.results()) > 0)
        assert len(batches) <= before + 3  # the one that ran, and two more
        hot.cancel()
        wait_until(lambda: len(batches) >= before + 5)
        engine.stop(patience_s=30)
        assert hook.arrived() == bright.results().to_dict("records") != []
        (first, _, _), (second, _, _), *_ = hook.tries
        assert first == second
        found = hot.results()
        assert isinstance(found, pd.DataFrame)
        assert (found.en > 5).all()
        assert found.det_time.is_monotonic_increasing
        assert len(found)
        assert bright.results(spark=True).count() == len(bright.results())
        books = engine.deliveries.books("photons")
        assert books["rows_in"] == books["processed"] + books["late"] + books["rejected"] > 0
        assert found.det_time.max() < books["last"]  # cancelled while the stream went on


def test_who_asks_too_much_of_a_batch_is_suspended(spark: SparkSession, tmp_path: Path) -> None:
    """10,000 windows per item are allowed, two million in a batch of 200 items are not."""
    times = [20_000.0 * number for number in range(200)]
    pq.write_table(pa.table({"t": times}), tmp_path / "items.parquet")
    with Engine(spark, tmp_path / "out") as engine:
        engine.stream("s", path=str(tmp_path / "*.parquet"), time="t")
        absurd = engine.subscribe("absurd", "SELECT count(*) AS n FROM s WINDOW RANGE 10000 STEP 1")
        fair = engine.subscribe("fair", "SELECT count(*) AS n FROM s WINDOW RANGE 40000")
        engine.run_once()
        assert len(absurd.results()) == 0
        assert fair.results().n.tolist() == [2] * 100
        entry = engine.catalog.subscription("absurd")
        number, reason = entry.number, entry.suspended
        assert reason is not None
        assert reason.startswith("at item 0: it would give 1,980,001 windows")
        assert engine.catalog.subscription("fair").suspended is None
        (letters,) = [table.to_pylist() for table in engine.deliveries.dead_letters("s")]
        assert [letter["reason"] for letter in letters] == [f"subscription #{number} was suspended {reason}"]
        books = engine.deliveries.books("s")
        assert (books["processed"], books["rejected"]) == (200, 0)


def test_one_engine_a_sink(spark: SparkSession, tmp_path: Path) -> None:
    with (
        Engine(spark, tmp_path / "out"),
        pytest.raises(JobError, match="another process runs a job"),
    ):
        Engine(spark, tmp_path / "out")


def test_bad_queries_never_reach_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    with Engine(spark, tmp_path / "out") as engine:
        engine.stream("photons", "generator", name="photons", time="det_time")
        for query, said in (
            ("SELECT enn FROM photons", "did you mean 'en'"),
            ("SELECT en FROM fotons", "photons"),
            ("SELECT en FROM photons WHERE en < 1 AND en > 2", "never be true|exclude"),
        ):
            with pytest.raises(QueryError, match=said):
                engine.subscribe("q", query)
        assert engine.catalog.count() == 0


def test_another_jobs_sink_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with Engine(spark, tmp_path / "out") as engine:
        engine.stream("photons", "generator", name="photons", time="det_time")
    with Engine(spark, tmp_path / "out") as engine, pytest.raises(JobError, match="photons"):
        engine.stream("photons", "generator", name="photons", time="en")


KINDS = {
    "hot": "SELECT t, v FROM items WHERE v > 0.7",
    "mean": "SELECT avg(v) AS m, count(*) AS n FROM items WINDOW RANGE 20 STEP 10",
    "near": "SELECT NEAREST 2 TO (0.5, 0.5) BY (x, y) FROM items WINDOW RANGE 30",
    "dense": "SELECT CLUSTERS WITHIN 0.2 MIN 2 BY (x, y) FROM items WINDOW ROWS 40 STEP 20",
    "close": "SELECT OBJECTS WITHIN 0.3 OF OBJECT 'o1' FROM items",
}


@pytest.mark.parametrize(("zones", "apart"), [(1, ()), (2, ("clusters",))])
def test_all_kinds_of_a_stream_are_one_query(
    spark: SparkSession, tmp_path: Path, zones: int, apart: tuple[str, ...]
) -> None:
    """Half of the queries come when the stream is half way; the rows are those of one process."""
    random = np.random.default_rng(zones)
    columns = {name: random.random(200) for name in ("v", "x", "y")}
    table = pa.table({"t": np.arange(200.0), **columns, "o": [f"o{n % 7}" for n in range(200)]})
    settings = {"time": "t", "position": ["x", "y"], "object": "o", "bounds": [[0, 1], [0, 1]]}
    source = tmp_path / "items"
    source.mkdir()
    pq.write_table(table.slice(0, 100), source / "0.parquet")
    with Engine(spark, tmp_path / "out", settings=Settings(zones=zones)) as engine:
        engine.stream("items", path=str(source), apart=list(apart), **settings)
        for name, query in KINDS.items():
            engine.subscribe(name, query)
        engine.start()
        engine.drain()
        assert sorted(engine.queries) == ["items", *(f"items.{family}" for family in apart)]
        for name, query in KINDS.items():
            engine.subscribe(f"late {name}".replace(" ", "_"), query, activate=99.0)
        pq.write_table(table.slice(100), source / "1.parquet")
        engine.run_once()
        found = {entry.name: engine.results(entry.name) for entry in engine.catalog.subscriptions()}
        stream = engine.streams["items"]
        _, work = Manifests(engine.layout).work("items")
    assert {family for family, _ in work} == {"", "filters", "nearest", "clusters", "moving"}
    assert all(cpu_us > 0 for *_, cpu_us in work.values())  # what `explain` shows is measured
    assert work["filters", "share"][0] >= 200
    rows = table.combine_chunks().to_batches()[0]
    for name, query in KINDS.items():
        bound = compile_query(query, {"items": stream})
        spec, by = bound.spec.to_json(), family(bound.family)
        asked = (Asked(name, spec), Asked(f"late_{name}", spec, 99.0))
        expected = run_local(Case(stream, rows, asked, by.name)).results
        assert {each: found[each].to_pylist() for each in expected} == expected, name
        assert found[name].num_rows, name


def test_a_job_with_other_branches_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [1]}), tmp_path / "items.parquet")
    (tmp_path / "out" / "_anabranch" / "manifests" / "items.filters").mkdir(parents=True)
    with Engine(spark, tmp_path / "out") as engine:
        engine.stream("items", "parquet", path=str(tmp_path / "*.parquet"), time="t")
        engine.subscribe("q", "SELECT t FROM items")
        with pytest.raises(JobError, match=r"has results of items\.filters"):
            engine.start()


@pytest.mark.parametrize(("zones", "operators"), [(1, 1), (2, 4)])
def test_one_zone_is_one_operator(spark: SparkSession, tmp_path: Path, zones: int, operators: int) -> None:
    pq.write_table(pa.table({"t": [1, 2, 3]}), tmp_path / "items.parquet")
    with Engine(spark, tmp_path / "out", settings=Settings(zones=zones)) as engine:
        engine.stream("items", "parquet", path=str(tmp_path / "*.parquet"), time="t")
        engine.subscribe("q", "SELECT t FROM items WHERE t > 1")
        engine.start()
        engine.drain()
        (progress,) = [query.lastProgress for query in engine.queries.values()]
        assert progress is not None
        assert len(progress["stateOperators"]) == operators
        assert all(each["numShufflePartitions"] == zones for each in progress["stateOperators"])
        assert engine.results("q").column("t").to_pylist() == [2, 3]


def test_zones_are_those_that_a_job_began_with(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    query = "SELECT count(*) AS n, sum(v) AS s FROM items WINDOW ROWS 30 STEP 7"

    def run(settings: Settings, first: int) -> list[dict[str, Any]]:
        rows = {"t": list(range(first, first + 50)), "v": list(range(first, first + 50))}
        pq.write_table(pa.table(rows), source / f"{first:03d}.parquet")
        with Engine(spark, tmp_path / "out", settings=settings) as engine:
            engine.stream("items", "parquet", path=str(source), time="t")
            if not first:
                engine.subscribe("q", query)
            engine.start()
            engine.drain()
            return engine.results("q").to_pylist()

    run(Settings(zones=2), 0)
    with pytest.raises(JobError, match=r"zones = 5, but .* was started with 2"):
        run(Settings(zones=5), 50)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "3")  # a larger machine
    try:
        found = run(Settings(), 50)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
    expected = [(30, sum(range(first, first + 30))) for first in range(0, 71, 7)]
    assert [(row["n"], row["s"]) for row in found] == expected
