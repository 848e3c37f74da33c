"""The command line on real Spark: a job from its file to its results, and what happens when something is
wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.cli.main import status
from anabranch.results.layout import Layout

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

JOB = """
[stream.s]
source = {{ format = "csv", path = "in.csv", schema = "t long, v double, name string" }}
time = "t"
lateness = 1

[[subscription]]
name = "high"
query = "SELECT t, v FROM s WHERE v > 1"

[[subscription]]
name = "names"
query = "SELECT name AS who FROM s WHERE name = 'a' OR name >= 'x'"

[sink]
format = "{form}"
path = "out"
"""

FULL_DISK = """
[stream.s]
source = {{ format = "parquet", path = "in.parquet" }}
time = "t"

[[subscription]]
name = "all"
query = "SELECT * FROM s"

[sink]
format = "parquet"
path = "{disk}/out"

[engine]
checkpoint = "checkpoints"
"""

ROWS = "t,v,name\n1,0.5,a\n3,1.5,b\n2,2.5,x\nbad,1,a\n1,9,late\n5,,zz\n"


def job(folder: Path, form: str = "parquet", text: str = JOB) -> str:
    (folder / "in.csv").write_text(ROWS)
    (folder / "job.toml").write_text(text.format(form=form))
    return str(folder / "job.toml")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict]:
    assert status(list(arguments)) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_job_from_file_to_results(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = job(tmp_path, form), str(tmp_path / "out")
    assert status(["run", file, "--once"]) == 0
    said = capsys.readouterr().err
    assert "6 rows in = 4 processed + 1 late + 1 rejected" in said
    assert printed(capsys, "results", out, "high") == [{"t": 2, "v": 2.5}, {"t": 3, "v": 1.5}]
    assert printed(capsys, "results", out, "names") == [{"who": "a"}, {"who": "x"}, {"who": "zz"}]
    dead = printed(capsys, "results", out, "--dead-letters")
    assert sorted(row["reason"] for row in dead) == ["late", "t: 'bad' is not a number"]
    assert "bad,1,a" in [row["content"] for row in dead]
    assert status(["run", file, "--once", "--quiet"]) == 0  # it has ended: nothing changes
    assert printed(capsys, "results", out, "high") == [{"t": 2, "v": 2.5}, {"t": 3, "v": 1.5}]


def test_a_bad_query_is_said_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = job(tmp_path, text=JOB.replace("v > 1", "vv > 1"))
    assert status(["run", file, "--once"]) == 2
    said = capsys.readouterr().err
    assert "unknown column 'vv'" in said
    assert "^^" in said
    assert not (tmp_path / "out" / "results").exists()


def test_a_changed_job_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = job(tmp_path)
    assert status(["run", file, "--once", "--quiet"]) == 0
    Path(file).write_text(JOB.format(form="parquet").replace("lateness = 1", "lateness = 7"))
    assert status(["run", file, "--once", "--quiet"]) == 2
    assert "lateness" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk of our own needs the right to mount one")
def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job fails with a clear message, nothing is damaged, and with room it goes on where it stopped."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mount: {mounted.stderr.decode().strip()}")
    try:
        count = 400_000
        table = pa.table({"t": list(range(count)), "v": [n * 0.618033988749895 % 1 for n in range(count)]})
        pq.write_table(table, tmp_path / "in.parquet")
        (tmp_path / "job.toml").write_text(FULL_DISK.format(disk=disk))
        assert status(["run", str(tmp_path / "job.toml"), "--once", "--quiet"]) == 1
        assert "disk is full" in capsys.readouterr().err
        layout = Layout(disk / "out")
        assert not list(layout.results("s", "select").glob("*"))
        subprocess.run(["mount", "-o", "remount,size=60m", str(disk)], check=True)
        assert status(["run", str(tmp_path / "job.toml"), "--once", "--quiet"]) == 0
        assert status(["results", str(disk / "out"), "all", "--format", "csv"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 400_001
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
