"""Jobs as plain data."""

from __future__ import annotations

from pathlib import Path

from anabranch.model.job import Sink, Source


def test_paths_of_sources_and_sinks() -> None:
    assert Source("csv", {"path": "/d/x.csv"}).path == "/d/x.csv"
    assert Source("rate").path is None
    assert Sink("json", {"path": "/d/out"}).path == Path("/d/out")
    assert Sink("kafka", {"topic": "t"}).path is None
