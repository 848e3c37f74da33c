"""A job on a standalone cluster, a master and two workers on loopback, by spark-submit: `make cluster`.

Seven Java processes on two cores take minutes, so it is not among the tests that run every time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import anabranch
from tests.spark.delivered import delivered

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("ANABRANCH_CLUSTER" not in os.environ, reason="takes minutes: make cluster"),
]

PORT = 7199
MASTER = f"spark://127.0.0.1:{PORT}"
SPARK = Path(pyspark.__file__).parent / "bin"
HERE = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}

JOB = """
[stream.items]
source = { format = "parquet", path = "source" }
time = "t"

[engine]
max_files_per_batch = 1

[[subscription]]
name = "few"
query = "SELECT t, v FROM items WHERE v > 0.9"

[[subscription]]
name = "windows"
query = "SELECT count(*) AS n, max(t) AS t FROM items WHERE v > 0.5 WINDOW ROWS 1000 STEP 700"

[[subscription]]
name = "near"
query = "SELECT NEAREST 3 TO (0.25) BY (v) FROM items WINDOW ROWS 500"

[sink]
format = "parquet"
path = "out"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *arguments: str) -> None:
        command = [str(SPARK / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        with (tmp_path / "cluster.log").open("ab") as log:
            started.append(
                subprocess.Popen(
                    [*command, "--webui-port", "0", *arguments],
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **HERE, "SPARK_WORKER_DIR": str(tmp_path / "work")},
                )
            )

    start("master.Master", "--port", str(PORT))
    time.sleep(5)
    for _ in range(2):
        start("worker.Worker", "--cores", "1", "--memory", "1g", MASTER)
    yield MASTER
    for process in reversed(started):
        process.terminate()
        process.wait(30)


def test_a_job_by_spark_submit(cluster: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = pa.table({"t": np.arange(20_000), "v": rng.random(20_000)})
    (tmp_path / "source").mkdir()
    for file in range(2):
        pq.write_table(table.slice(file * 10_000, 10_000), tmp_path / "source" / f"{file}.parquet")
    (tmp_path / "job.toml").write_text(JOB)
    done = subprocess.run(
        [
            str(SPARK / "spark-submit"),
            *("--master", cluster, "--executor-memory", "1g", "--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", "spark.ui.enabled=false"),
            str(Path(anabranch.__file__).with_name("__main__.py")),
            *("run", "job.toml", "--once"),
        ],
        cwd=tmp_path,
        env={**os.environ, **HERE},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert list((tmp_path / "work").glob("app-*")), "nothing ran on the workers"
    rows = table.to_pylist()
    assert delivered(tmp_path / "out", "few") == [row for row in rows if row["v"] > 0.9]
    some = [row["t"] for row in rows if row["v"] > 0.5]
    found = [(row["n"], row["t"]) for row in delivered(tmp_path / "out", "windows")]
    assert found == [(1000, some[first + 999]) for first in range(0, len(some) - 999, 700)]
    held: dict[int, float] = {}
    for row in delivered(tmp_path / "out", "near"):
        if row["op"] == "+":
            held[row["id"]] = row["distance"]
        else:
            del held[row["id"]]
    assert sorted(held.values()) == sorted(abs(row["v"] - 0.25) for row in rows[-500:])[:3]
