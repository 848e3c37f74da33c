"""`anabranch rebalance`: an entry of the control log for every family whose zones can share their work."""

from __future__ import annotations

from pathlib import Path

from anabranch.catalog.catalog import Catalog
from anabranch.model.control_log import Rebalance
from anabranch.results.layout import Layout
from tests.cli.conftest import Command


def test_it_is_logged_for_those_who_can(anabranch: Command, sink: Path) -> None:
    query = "SELECT NEAREST 3 TO (1, 2) BY (ra, dec) FROM photons WINDOW ROWS 10"
    assert anabranch("subscribe", sink, "near", query).code == 0
    said = anabranch("rebalance", sink)
    assert said.code == 0
    assert said.out == "photons: the zones of nearest will share their work again\n"
    with Catalog(Layout(sink).catalog) as catalog:
        last = catalog.log("photons", ["nearest"], 0, catalog.version("photons", ["nearest"]))[-1]
    assert last == Rebalance("nearest")


def test_groups_of_clusters_can(anabranch: Command, sink: Path) -> None:
    query = "SELECT CLUSTERS WITHIN 0.1 MIN 3 BY (ra, dec) FROM photons WINDOW ROWS 10"
    assert anabranch("subscribe", sink, "dense", query).code == 0
    assert anabranch("rebalance", sink).out == "photons: the zones of clusters will share their work again\n"


def test_others_have_nothing_to_share(anabranch: Command, sink: Path) -> None:
    said = anabranch("rebalance", sink)
    assert said.code == 2
    assert "no nearest, cluster or moving queries" in said.err
