"""Operators of users on real Spark: from a module beside the job file, and from Python."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.cli.main import status
from anabranch.model.errors import JobError
from anabranch.spark.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

JOB = """
[stream.s]
source = { format = "csv", path = "in.csv", schema = "t long, v double" }
time = "t"

[operators]
scale = "scaling:scale"
word = { function = "scaling:word", type = "string" }

[[subscription]]
name = "scaled"
query = "SELECT scale(v, 2.5) AS e, word(t) AS w FROM s WHERE scale(v, 2.5) > 3"

[[subscription]]
name = "sums"
query = "SELECT sum(scale(v, 2.5)) AS e FROM s WINDOW ROWS 2"

[sink]
format = "parquet"
path = "out"
"""
MODULE = """
def scale(values, factor):
    return values * factor

def word(values):
    return [f"at {value}" for value in values]
"""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert status(list(arguments)) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_job_with_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.csv").write_text("t,v\n1,1.0\n2,2.0\n3,\n4,4.0\n")
    (tmp_path / "scaling.py").write_text(MODULE)
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    assert status(["run", str(job), "--once", "--quiet"]) == 0
    capsys.readouterr()
    out = str(tmp_path / "out")
    assert printed(capsys, "results", out, "scaled", "--format", "json") == [
        {"e": 5.0, "w": "at 2"},
        {"e": 10.0, "w": "at 4"},
    ]
    assert [row["e"] for row in printed(capsys, "results", out, "sums", "--format", "json")] == [7.5, 10.0]
    assert status(["explain", out]) == 0
    explained = capsys.readouterr().out
    assert "scale(v, 2.5) > 3" in explained
    assert "s, filters: scale(v, 2.5) is computed once for 2 subscriptions" in explained
    assert status(["translate", "SELECT scale(v, 2) FROM s", "--target", out]) == 2
    job.write_text(JOB.replace('"scaling:scale"', '"scaling:word"'))
    assert status(["run", str(job), "--once"]) == 2
    assert "operator scale was scaling:scale, is scaling:word now" in capsys.readouterr().err


def test_from_python_with_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    power = 2  # a function of this test: it is sent to the workers by value

    def raised(values: Any, less: float) -> Any:
        return values**power - less

    def engine() -> Engine:
        made = Engine(spark, tmp_path / "out")
        made.operator("raised", raised)
        with pytest.raises(JobError, match="registered already"):
            made.operator("raised", raised)
        made.stream("s", "parquet", path=str(tmp_path / "in"), time="t")
        with pytest.raises(JobError, match="before the streams"):
            made.operator("more", raised)
        return made

    def file(number: int) -> None:
        rows = pa.table({"t": [2 * number, 2 * number + 1], "v": [float(number), number + 0.5]})
        path = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1_700_000_000 + number,) * 2)

    file(0)
    with engine() as first:
        first.subscribe(
            "sums", "SELECT sum(raised(v, 1)) AS e FROM s WHERE raised(v, 1) >= -1 WINDOW RANGE 4"
        )
        first.start()
        first.drain()
    file(1)
    file(2)
    with engine() as second:
        second.subscribe("items", "SELECT raised(v, 1.0) AS e FROM s WHERE t > 3")
        second.start()
        second.drain()
        assert second.results("sums").column("e").to_pylist() == [0.0 + 0.25 + 1.0 + 2.25 - 4]
        assert second.results("items").column("e").to_pylist() == [3.0, 5.25]


def test_what_fails_is_said_and_left_out(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch that fails twice because of a subscription is run without it; others lose nothing."""
    pq.write_table(pa.table({"t": [1, 2], "v": [1.0, 2.0]}), tmp_path / "in.parquet")
    with Engine(spark, tmp_path / "out") as engine:
        engine.operator("less", lambda values: values[:1], "float")
        engine.stream("s", "parquet", path=str(tmp_path / "in.parquet"), time="t")
        engine.subscribe("bystander", "SELECT v FROM s")
        engine.subscribe("q", "SELECT less(v) FROM s")
        engine.run_once()
        said = capsys.readouterr().err
        assert "batch 0 failed: operator less(v), used by q: it gave 1 values for 2 items" in said
        assert "in stage share of filters, zone 0" in said
        assert f"the whole trace is in {tmp_path}/out/_anabranch/failures/" in said
        assert "subscription 'q' is cancelled: batch 0 of stream s failed twice with it" in said
        assert "OperatorFault" in next((tmp_path / "out/_anabranch/failures").iterdir()).read_text()
        assert engine.results("bystander").column("v").to_pylist() == [1.0, 2.0]
        assert not engine.catalog.subscription("q").active
        assert engine.count("q") == 0
