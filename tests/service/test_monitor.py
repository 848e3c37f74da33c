"""The network that the dashboard shows: it follows the subscriptions and the measured rate."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.registration import bind_subscription
from anabranch.model.subscription import Subscription
from anabranch.planning.scenario import read_scenario
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.service.monitor import Monitor, measured_rate, plan_of

NETWORK = """
[site.source]
[site.desk]
[site.alone]
[[link]]
between = ["source", "desk"]
bandwidth_mbit = 1
[stream.photons]
site = "source"
[[query]]
name = "vela"
site = "desk"
query = "SELECT ra FROM photons"
"""


@pytest.fixture
def monitor(layout: Layout, tmp_path: Path) -> Monitor:
    (tmp_path / "network.toml").write_text(NETWORK)
    return Monitor(layout, read_scenario(tmp_path / "network.toml"))


def parts(monitor: Monitor) -> tuple[dict[str, Any], dict[str, Any]]:
    found = monitor.network()
    (link,) = found["links"]
    return {site["name"]: site for site in found["sites"]}, link


def test_what_is_wanted_elsewhere_crosses_a_link(monitor: Monitor, layout: Layout) -> None:
    """`vela` is wanted at the desk, `all` where the stream is registered."""
    sites, link = parts(monitor)
    assert [site["readers"] for site in sites.values()] == [1, 1, 0]
    assert (sites["source"]["streams"], sites["alone"]["load"]) == (["photons"], 0)
    assert (link["ends"], link["traffic"] > 0) == (("desk", "source"), True)
    assert link["part"] == link["traffic"] / 125_000
    with Catalog.existing(layout.catalog) as catalog:
        catalog.cancel("vela")
    sites, link = parts(monitor)
    assert [site["readers"] for site in sites.values()] == [1, 0, 0]
    assert link["traffic"] == pytest.approx(0, abs=1e-9)


def test_a_name_that_is_used_again(monitor: Monitor, layout: Layout) -> None:
    """Another query under the same name replaces the first."""
    _, before = parts(monitor)
    with Catalog.existing(layout.catalog) as catalog:
        catalog.cancel("vela")
        everything = Subscription("vela", "SELECT * FROM photons")
        catalog.subscribe_many([bind_subscription(everything, catalog.streams())])
    _, after = parts(monitor)
    assert after["traffic"] > before["traffic"]


def test_load_and_traffic_follow_the_rate(monitor: Monitor, layout: Layout) -> None:
    """Two batches, 1 item between them: a second apart, then half a second."""

    def written(batch: int, at: float) -> None:
        os.utime(layout.manifests("photons") / f"{batch:012d}.json", (at, at))

    written(0, 100.0)
    written(1, 101.0)
    assert measured_rate(Deliveries(layout), "photons") == pytest.approx(1)
    sites, link = parts(monitor)
    load = sites["source"]["load"]
    written(1, 100.5)
    assert measured_rate(Deliveries(layout), "photons") == pytest.approx(2)
    sites, twice = parts(monitor)
    assert twice["traffic"] == pytest.approx(2 * link["traffic"])
    assert sites["source"]["load"] == pytest.approx(2 * load)
    assert measured_rate(Deliveries(layout), "nothing") is None


def test_it_follows_before_anybody_looks(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[dict[str, Any]] = []

    def planned(root: Path) -> dict[str, Any]:
        plans.append(plan_of(root))
        return plans[-1]

    def wait_for(count: int) -> None:
        until = time.monotonic() + 20
        while len(plans) < count:
            assert time.monotonic() < until
            time.sleep(0.01)

    monkeypatch.setattr("anabranch.service.monitor.plan_of", planned)
    monkeypatch.setattr("anabranch.service.monitor.LOOK_S", 0.01)
    monkeypatch.setattr("anabranch.service.monitor.RESTS", 0.0)
    monitor = Monitor(layout)
    with monitor.following():
        wait_for(1)
        assert monitor.plan() is plans[0]
        with Catalog.existing(layout.catalog) as catalog:
            catalog.subscribe_many(
                [bind_subscription(Subscription("new", "SELECT dec FROM photons"), catalog.streams())]
            )
        wait_for(2)
        assert monitor.plan() is plans[1]
        assert "new" in {one["name"] for group in plans[1]["groups"] for one in group["subscriptions"]}
        (site,) = monitor.network()["sites"]
        assert site["readers"] == 3


def test_a_stream_that_has_no_site_is_named(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(NETWORK.replace("stream.photons", "stream.trades"))
    found = Monitor(layout, read_scenario(tmp_path / "network.toml")).network()
    assert found["basis"] == ["photons: the network has no site for it, so it is left out"]
    assert sum(site["load"] for site in found["sites"]) == 0
