"""`anabranch simulate sharing`: tables, plots, a network of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command, anabranch

__all__ = ["anabranch"]

TRIANGLE = """
[site.A]
[site.B]
[site.C]
[[link]]
between = ["A", "B"]
[[link]]
between = ["B", "C"]
[stream.photons]
site = "A"
[[query]]
name = "hot"
site = "C"
query = "SELECT en FROM photons WHERE en > 2"
"""


def test_tables(anabranch: Command) -> None:
    done = anabranch("simulate", "sharing", "--scenario", "small", "--count", "500", "--plans")
    assert done.code == 0, done.err
    for title in (
        "plans of stream-sharing",
        "SP3 > SP0",
        "average load",
        "traffic of a link",
        "accumulated",
        "registration",
        "rejected queries",
    ):
        assert title in done.out
    assert "small: stream-sharing" in done.err  # progress


def test_plots_and_json(anabranch: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = anabranch("simulate", "sharing", "--count", "500", "--queries", "5", "--out", tmp_path / "p")
    assert done.code == 0, done.err
    assert sorted(file.name for file in (tmp_path / "p").iterdir()) == [
        "example-accumulated.png",
        "example-load-and-traffic.png",
        "example-registration.png",
        "example.json",
    ]
    found = json.loads((tmp_path / "p" / "example.json").read_text())
    assert found["plans"]["q1"]["steps"][0]["path"][0] == "SP4"
    assert found["tables"][0]["rows"][0].keys() == {
        "site",
        "data-shipping",
        "query-shipping",
        "stream-sharing",
    }


def test_a_network_of_ones_own(anabranch: Command, tmp_path: Path) -> None:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE)
    done = anabranch("simulate", "sharing", "--network", file, "--count", "500", "--calibrate")
    assert done.code == 0, done.err
    assert "B - C" in done.out
    file.write_text(TRIANGLE.replace("photons]", "stars]"))
    refused = anabranch("simulate", "sharing", "--network", file)
    assert refused.code == 2
    assert "the photons here are photons" in refused.err
