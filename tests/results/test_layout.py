"""Where things live, and which folder or file a command is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.job.job_file import load_job
from anabranch.model.errors import JobError
from anabranch.results.layout import Layout, layout_for, layout_of
from tests.job.jobs import GOOD, changed, write_job


def test_places() -> None:
    layout = Layout(Path("/out"))
    assert layout.catalog == Path("/out/_anabranch/catalog.sqlite")
    assert layout.checkpoint("s") == Path("/out/_anabranch/checkpoints/s")
    assert layout.manifests("s.clusters") == Path("/out/_anabranch/manifests/s.clusters")
    assert layout.back("s") == Path("/out/_anabranch/back/s")
    assert layout.results("s", "select") == Path("/out/results/s/select")
    assert layout.dead_letters("s") == Path("/out/dead_letters/s")
    assert layout.lock == Path("/out/_anabranch/lock")


def test_branches_that_delivered(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.branches("s") == ()
    assert layout.branch("s", "nearest") == "s"
    for name in ("s.nearest", "s.clusters", "s2.moving"):
        layout.manifests(name).mkdir(parents=True)
    assert layout.branches("s") == ("s.clusters", "s.nearest")
    layout.manifests("s").mkdir()
    assert layout.branches("s") == ("s", "s.clusters", "s.nearest")
    assert (layout.branch("s", "nearest"), layout.branch("s", "moving")) == ("s.nearest", "s")


def test_of_a_job(tmp_path: Path) -> None:
    assert layout_of(write_job(tmp_path)) == Layout(tmp_path / "out")
    elsewhere = load_job(write_job(tmp_path, GOOD + '[engine]\ncheckpoint = "state"\n'))
    assert layout_for(elsewhere).checkpoint("s") == tmp_path / "state" / "s"


def test_of_a_job_whose_sink_has_no_path(tmp_path: Path) -> None:
    kafka = '[sink]\nformat = "kafka"\nbootstrap = "h:1"\ntopic = "t"'
    text = changed(('[sink]\nformat = "parquet"\npath = "out"', kafka))
    assert layout_of(write_job(tmp_path, text, "sky.toml")).root == tmp_path / "sky.anabranch"


def test_of_a_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out" / "_anabranch").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert layout_of(Path("out")) == Layout(tmp_path / "out")


def test_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"there is no .*nowhere; give a job"):
        layout_of(tmp_path / "nowhere")
    with pytest.raises(JobError, match="is not the folder of a job's sink, or the job has not run yet"):
        layout_of(tmp_path)
    write_job(tmp_path)
    with pytest.raises(JobError, match=r"did you mean .*job\.toml\?"):
        layout_of(tmp_path)
