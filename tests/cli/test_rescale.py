"""`anabranch rescale` before there is anything to change. tests/spark/test_rescale.py changes a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli.main import status

JOB = """
[stream.s]
source = { format = "parquet", path = "*.parquet" }

[sink]
format = "parquet"
path = "out"
"""


def test_a_job_that_has_not_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    assert status(["rescale", str(job), "--zones", "3"]) == 2
    assert "has not run yet, so there is nothing to change: set zones = 3" in capsys.readouterr().err


@pytest.mark.parametrize("zones", ["0", "many", "1000000"])
def test_zones_are_a_number_within_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], zones: str
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    assert status(["rescale", str(job), "--zones", zones]) == 2
    assert "--zones" in capsys.readouterr().err
