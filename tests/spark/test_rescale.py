"""A job that is stopped goes on with another number of zones, and its rows stay the same."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from anabranch.chain.runner import Runner
from anabranch.families.registry import NAMES
from anabranch.families.registry import family as family_of
from anabranch.families.results import rows_of
from anabranch.language.bind import compile_query
from anabranch.model.control_log import Activate, End
from anabranch.model.errors import JobError
from anabranch.model.job import EngineSettings
from anabranch.model.stream import Stream
from anabranch.spark.engine import Engine

QUERIES = {
    "hot": "SELECT t, x FROM s WHERE x > 0.9",
    "mean": "SELECT avg(x) AS a, count(*) AS n FROM s WHERE y > 0.3 WINDOW RANGE 30 STEP 20",
    "rows": "SELECT max(x) AS m FROM s WINDOW ROWS 40 STEP 15",
    "near": "SELECT NEAREST 3 TO (0.5, 0.5) BY (x, y) FROM s WINDOW RANGE 25",
    "dense": "SELECT CLUSTERS WITHIN 0.1 MIN 3 BY (x, y) FROM s WINDOW ROWS 60 STEP 30",
    "around": "SELECT OBJECTS WITHIN 0.3 OF OBJECT 'o1' FROM s",
    "closest": "SELECT NEAREST 2 OBJECTS TO (0.2, 0.2) FROM s",
}
FILES, ROWS = 3, 60


def items(file: int) -> pa.RecordBatch:
    random = np.random.default_rng(file)
    return pa.record_batch(
        {
            "t": file * ROWS + np.arange(ROWS),
            "x": random.random(ROWS),
            "y": random.random(ROWS),
            "o": [f"o{index % 7}" for index in range(ROWS)],
        }
    )


def engine_with(spark: SparkSession, folder: Path, zones: int | None) -> tuple[Engine, Stream]:
    engine = Engine(spark, folder / "out", settings=EngineSettings(zones=zones, max_files_per_batch=1))
    settings = {"time": "t", "position": ["x", "y"], "object": "o", "bounds": [[0, 1], [0, 1]]}
    return engine, engine.stream("s", "parquet", path=str(folder / "*.parquet"), tick=5, **settings)


def expected(stream: Stream) -> dict[str, list[dict]]:
    """What one process gives without any change."""
    runner = Runner(stream, [family_of(name) for name in NAMES])
    bound = {name: compile_query(text, {"s": stream}) for name, text in QUERIES.items()}
    controls = [
        Activate(number, name, query.spec.to_json(), family=query.family)
        for number, (name, query) in enumerate(bound.items())
    ]
    for file in range(FILES):
        runner.batch(items(file), controls if not file else [])
    runner.batch(None, [End()])
    runner.settle()
    out = {}
    for name, query in bound.items():
        table, shown = family_of(query.family).shown(stream, query.spec.to_json())
        of = family_of(query.family).table(table)
        out[name] = [
            row
            for batch in runner.tables[table].values()
            for row in rows_of(batch, of, name, shown).to_pylist()
        ]
    return out


def test_zones_may_change_between_two_runs(spark: SparkSession, tmp_path: Path) -> None:
    zones: int | None = 1
    for file, rescales in enumerate([(3,), (4, 2), ()]):
        path = tmp_path / f"{file:03d}.parquet"
        pq.write_table(pa.Table.from_batches([items(file)]), path)
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))
        engine, stream = engine_with(spark, tmp_path, zones)
        with engine:
            if not file:
                engine.subscribe_many(QUERIES)
            if not rescales:
                engine.run_once()
                break
            engine.start()
            engine.drain()
            with pytest.raises(JobError, match="stop it first"):
                engine.rescale(rescales[0])
            engine.stop()
            for wanted in rescales:
                engine.rescale(wanted)
        zones = None
    found = {name: engine.results(name).to_pylist() for name in QUERIES}
    assert found == expected(stream)
    assert all(found.values())
    assert engine.deliveries.books("s")["processed"] == FILES * ROWS
