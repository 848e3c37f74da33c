"""examples/flights, without Spark: its job, its generator and its queries beside the oracle."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from anabranch.chain.items import arrow_schema
from anabranch.job.declarations import declare
from anabranch.job.generated_streams import AIRCRAFT, BLOCK, flights
from anabranch.job.job_file import load_job
from anabranch.language.bind import compile_query
from anabranch.model.columns import Column, ColumnType
from tests.laws.case import Asked, Case, run_local
from tests.oracles.moving import moving_oracle

JOB = Path(__file__).resolve().parents[3] / "examples" / "flights" / "job.toml"
COLUMNS = (
    Column("time", ColumnType.INT),
    Column("icao24", ColumnType.STRING),
    *(Column(name, ColumnType.FLOAT) for name in ("longitude", "latitude", "altitude")),
)


def test_the_flights_example() -> None:
    job = load_job(JOB)
    stream = declare(job.streams["flights"], COLUMNS)
    columns = flights(0, BLOCK)
    items = pa.record_batch({name: pa.array(column) for name, column in columns.items()})
    items = items.slice(0, 60 * AIRCRAFT).cast(arrow_schema(stream))
    queries = tuple(
        Asked(asked.name, compile_query(asked.query, {"flights": stream}).spec.to_json())
        for asked in job.subscriptions
    )
    case = Case(stream, items, queries, "moving")
    found = run_local(case, cuts=(5000, 5100), zones=4).results
    assert found == moving_oracle(case)
    assert all(len(rows) > 1 for rows in found.values())
