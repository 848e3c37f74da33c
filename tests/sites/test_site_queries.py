"""The queries of a site as its engine takes them."""

from __future__ import annotations

from pathlib import Path

from anabranch.sites.network_file import load_network
from anabranch.sites.planner import NetworkPlanner
from anabranch.sites.site import new_subscriptions
from tests.sites.networks import NETWORK, columns_of, subscription, write_network

TWO = (
    "<r> { for $a in stream('photons')/photons/photon for $b in stream('more')/photons/photon "
    "where $a/en > 3 and $b/en > 3 return <p> { $a/ra } { $b/ra } </p> } </r>"
)
MORE = """
[stream.more]
site = "hub"
source = { format = "parquet", path = "photons/*.parquet" }
time = "det_time"
"""


def test_the_parts_of_a_query_over_two_streams_stay_together(tmp_path: Path) -> None:
    """Each is planned on its own: one comes from plant, the other from hub."""
    hot = subscription("hot", "office", "SELECT en FROM photons WHERE en > 2")
    both = subscription("both", "office", TWO)
    path = write_network(tmp_path, hot, both, network=NETWORK + MORE)
    planner = NetworkPlanner(load_network(path), columns_of)
    planner.sync()
    sites = planner.state().deployments()
    found = {new.name: new for new in new_subscriptions(sites["office"])}
    assert list(found) == ["hot", "both"]
    assert [part.name for part in found["both"].parts] == ["both/2"]
    assert not found["hot"].parts
    senders = [stream.hop.sender for stream in sites["office"].streams.values() if stream.hop]
    assert senders == ["hub"] * len(senders)
    assert len(new_subscriptions(sites["plant"])) == len(sites["plant"].exports)
