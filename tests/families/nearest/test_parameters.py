"""The parameters of the paper's table 1, as settings of a stream: they change the work, never the results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch.families.nearest.family import ZoneOfPosition
from anabranch.families.nearest.spec import Nearest
from anabranch.job.declarations import declare
from anabranch.job.job_file import load_job
from anabranch.language.bind import compile_query
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from tests.families.nearest.test_splits import crowd
from tests.laws.case import run_local
from tests.oracles.nearest import nearest_oracle

JOB = """
[stream.sensors]
source = {{ format = "parquet", path = "sensors/*.parquet" }}
position = ["a", "b"]
{settings}

[sink]
format = "parquet"
path = "out"

[[subscription]]
name = "near"
query = "SELECT NEAREST 3 TO (0, 0) FROM sensors WINDOW ROWS 100 USING PA"
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"nearest_buffer": 5},
        {"nearest_buffer": 40, "nearest_gamma": 0.0, "nearest_resolution": 3},
        {"nearest_gamma": 2.0, "nearest_resolution": 1},
        {"nearest_resolution": 100_000},
    ],
)
def test_results_stay(settings: dict[str, Any]) -> None:
    case = crowd(2, items=400, queries=20)
    changed = replace(case, stream=replace(case.stream, **settings))
    assert run_local(changed, cuts=range(0, 400, 40), zones=2).results == nearest_oracle(case)


def test_a_job_sets_them(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    lines = [
        "nearest_buffer = 2000",
        "nearest_gamma = 0.5",
        "nearest_resolution = 12",
        "nearest_sigma = 0.01",
    ]
    path.write_text(JOB.format(settings="\n".join(lines)))
    job = load_job(path)
    stream = declare(job.streams["sensors"], tuple(Column(name, ColumnType.FLOAT) for name in "ab"))
    assert (stream.nearest_buffer, stream.nearest_gamma) == (2000, 0.5)
    spec = compile_query(job.subscriptions[0].query, {"sensors": stream}).spec
    assert isinstance(spec, Nearest)
    assert spec.sigma == 0.01
    grid = ZoneOfPosition(replace(stream, bounds=((0.0, 1.0), (0.0, 1.0))), 4).grid
    assert len(grid.zone_of) == 144
    assert np.array_equal(np.unique(grid.zone_of), [0, 1, 2, 3])


@pytest.mark.parametrize("line", ["nearest_buffer = 0", "nearest_gamma = -1", "nearest_sigma = 1.5"])
def test_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(JOB.format(settings=line))
    with pytest.raises(JobError, match=line.split()[0]):
        load_job(path)
