"""SIGKILL at random moments changes nothing: the same rows, none twice, none missing.

A job of many small batches runs in a process of its own; it is killed and started again, and meanwhile
another process subscribes and cancels. `make test` kills three times, `make torture` fifty.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.cli.main import status
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from tests.spark.delivered import delivered

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("ANABRANCH_KILLS", "3"))
FILES = max(18, KILLS * 6)
ROWS = 6000  # a file: enough for packets that wait in files
SEED = int(os.environ.get("ANABRANCH_SEED", "11"))

JOB = """
[stream.photons]
source = {{ format = "parquet", path = "source" }}
time = "t"

[engine]
max_files_per_batch = {files}
trigger = {pace}

[[subscription]]
name = "all"
query = "SELECT t, v FROM photons"

[[subscription]]
name = "few"
query = "SELECT t, v FROM photons WHERE v > 0.5 AND NOT v > 0.6"

[[subscription]]
name = "timed"
query = "SELECT t FROM photons WHERE v < 0.3"
activate = {early}
cancel = {late}

[[subscription]]
name = "windows"
query = "SELECT count(*) AS n, sum(v) AS s, max(t) AS t FROM photons WHERE v>0.25 WINDOW ROWS 5000 STEP 1700"

[sink]
format = "parquet"
path = "{sink}"
"""


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    folder = tmp_path_factory.mktemp("kills")
    rng = np.random.default_rng(SEED)
    count = FILES * ROWS
    table = pa.table({"t": np.arange(count) // 3, "v": rng.random(count)})
    (folder / "source").mkdir()
    for file in range(FILES):
        path = folder / "source" / f"{file:05d}.parquet"
        pq.write_table(table.slice(file * ROWS, ROWS), path)
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))
    return folder, table


def _job(folder: Path, sink: str, last: int, files: int) -> Path:
    path = folder / f"{sink}.toml"
    pace = 1 if files == 1 else 0  # others must have had their say before the stream is where they mean
    path.write_text(JOB.format(sink=sink, early=last // 5, late=last // 2, files=files, pace=pace))
    return path


def _start(job: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "anabranch", "run", str(job), "--once", "--quiet"]
    with job.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def _anabranch(*arguments: str) -> None:
    """From here: a Python of its own may take as long to start as the stream to where the command means."""
    assert status(list(arguments)) == 0


def _windows(rows: list[dict]) -> list[dict]:
    """ROWS 5000 STEP 1700: the full ones."""
    cut = [rows[first : first + 5000] for first in range(0, len(rows) - 4999, 1700)]
    return [
        {"n": len(part), "s": math.fsum(r["v"] for r in part), "t": max(r["t"] for r in part)} for part in cut
    ]


def _wait_for_batch(
    sink: Path, batch: int, process: subprocess.Popen[bytes], patience_s: float = 240
) -> None:
    until = time.monotonic() + patience_s
    while Deliveries(Layout(sink)).latest("photons") < batch and process.poll() is None:
        assert time.monotonic() < until, f"batch {batch} did not come"
        time.sleep(0.05)


def _kill(process: subprocess.Popen[bytes], all_of_it: bool) -> None:
    """The whole process group, or only Python: the JVM must then notice and go by itself."""
    if all_of_it:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def test_kills_change_nothing(items: tuple[Path, pa.Table]) -> None:
    folder, table = items
    rows = table.to_pylist()
    last = rows[-1]["t"]
    job, sink = _job(folder, "disturbed", last, 1), folder / "disturbed"
    chance = random.Random(SEED)
    soon = last * 4 // 5
    for kill in range(KILLS):
        process = _start(job)
        _wait_for_batch(sink, (kill + 1) * FILES // (KILLS + 2), process)
        if kill == 0:
            _anabranch(
                "subscribe",
                str(sink),
                "coming",
                "SELECT t, v FROM photons WHERE v > 0.9",
                "--activate",
                str(soon),
            )
            _anabranch("subscribe", str(sink), "now", "SELECT t, v FROM photons WHERE v > 0.8")
            _anabranch("cancel", str(sink), "few", "--at", str(soon))
        time.sleep(chance.uniform(0, 1.5))
        assert process.poll() is None, job.with_suffix(".log").read_text()
        _kill(process, all_of_it=kill % 2 == 0)
    assert _start(job).wait(300) == 0, job.with_suffix(".log").read_text()

    assert delivered(sink, "all") == rows
    assert delivered(sink, "few") == [r for r in rows if 0.5 < r["v"] <= 0.6 and r["t"] <= soon]
    assert delivered(sink, "timed") == [
        {"t": r["t"]} for r in rows if r["v"] < 0.3 and last // 5 < r["t"] <= last // 2
    ]
    assert delivered(sink, "coming") == [r for r in rows if r["v"] > 0.9 and r["t"] > soon]
    now = delivered(sink, "now")
    matching = [r for r in rows if r["v"] > 0.8]
    assert 0 < len(now) < len(matching)
    assert now == matching[-len(now) :]  # from where it began to the end, none missing, none twice
    windows = _windows([r for r in rows if r["v"] > 0.25])
    found = delivered(sink, "windows")
    assert [(w["n"], w["t"]) for w in found] == [(w["n"], w["t"]) for w in windows]
    assert [w["s"] for w in found] == pytest.approx([w["s"] for w in windows])
    books = Deliveries(Layout(sink)).books("photons")
    assert books["rows_in"] == books["processed"] == len(rows)

    undisturbed = _job(folder, "undisturbed", last, FILES // 4)
    assert _start(undisturbed).wait(300) == 0, undisturbed.with_suffix(".log").read_text()
    for name in ("all", "timed", "windows"):
        assert delivered(folder / "undisturbed", name) == delivered(sink, name)
