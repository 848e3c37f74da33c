"""Sites on Spark: what every subscriber reads is what one engine gives; what travelled is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from anabranch.cli.main import status
from anabranch.job.trial import Trial
from anabranch.sites.network_file import NetworkFile, load_network
from anabranch.sites.planner import NetworkPlanner
from anabranch.sites.run import run_sites
from tests.sites.networks import columns_of, subscription, write_network

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "hot": ("office", "SELECT ra, en FROM photons WHERE en > 1.3"),
    "hotter": ("hub", "SELECT en FROM photons WHERE en > 2.5"),
    "mean": (
        "office",
        "SELECT avg(en) AS m, count(*) AS n FROM photons WINDOW RANGE 20 STEP 10 HAVING m > 2",
    ),
    "all": ("plant", "SELECT en FROM photons WHERE en < 1"),
    "near": ("hub", "SELECT NEAREST 2 TO (100, 10) BY (ra, dec) FROM photons WHERE en > 1.3 WINDOW RANGE 15"),
}


def expected(file: NetworkFile, query: str) -> list[dict[str, object]]:
    ((schema, tables),) = Trial(query, file.streams.values()).parts()
    return pa.concat_tables([schema.empty_table(), *tables]).to_pylist()


def test_each_subscriber_gets_what_one_engine_gives(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [subscription(name, site, query) for name, (site, query) in QUERIES.items()]
    path = write_network(tmp_path, *asked)
    planner = NetworkPlanner(load_network(path), columns_of)
    planner.sync()
    run_sites(planner, list(planner.file.folders), once=True, session=spark)

    def said(*arguments: str) -> str:
        capsys.readouterr()
        assert status(list(arguments)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    for name, (_, query) in QUERIES.items():
        rows = [json.loads(line) for line in said("results", str(path), name).splitlines()]
        assert rows == expected(planner.file, query), name
    facts = json.loads(said("explain", str(path), "--format", "json"))
    assert [link["between"] for link in facts["links"]] == [["plant", "hub"], ["hub", "office"]]
    assert all(link["bytes"] > 0 and link["planned_bytes"] > 0 for link in facts["links"])
    assert {site["name"]: site["nodes"] for site in facts["sites"]}["office"] == 2
    assert all(site["cpu_seconds"] > 0 for site in facts["sites"])
    assert "hotter" in said("list", str(path))
    run_sites(planner, list(planner.file.folders), once=True, session=spark)  # nothing is left to do
    assert said("results", str(path), "hotter").count("\n") == len(
        expected(planner.file, QUERIES["hotter"][1])
    )
