"""Planning over sites, kept in the network's catalog: all of a change, or nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from anabranch.model.errors import JobError
from anabranch.model.subscription import Subscription
from anabranch.sites.network_file import load_network
from anabranch.sites.planner import NetworkPlanner
from tests.sites.networks import NETWORK, columns_of, subscription, write_network

HOT = subscription("hot", "office", "SELECT ra, en FROM photons WHERE en > 1.3")
HOTTER = subscription("hotter", "office", "SELECT en FROM photons WHERE en > 2.5")
WHOLE = "SELECT * FROM photons"


def planner_of(path: Path) -> NetworkPlanner:
    return NetworkPlanner(load_network(path), columns_of)


def test_a_stream_that_is_there_is_shared_at_its_end(tmp_path: Path) -> None:
    planner = planner_of(write_network(tmp_path, HOT, HOTTER))
    planner.sync()
    sites = planner.state().deployments()
    assert list(sites["plant"].queries) == ["flow:1"]
    assert len(sites["hub"].passages) == 1
    assert not sites["hub"].streams
    assert {query.stream for query in sites["office"].queries.values()} == {"photons-1"}


def test_the_plan_outlives_the_process(tmp_path: Path) -> None:
    path = write_network(tmp_path, HOT, HOTTER)
    planner_of(path).sync()
    first = planner_of(path).state()
    planner_of(path).sync()
    again = planner_of(path).state()
    assert again.deployments() == first.deployments()
    assert again.installed.loads == first.installed.loads


def test_what_only_one_needed_goes_with_it(tmp_path: Path) -> None:
    planner = planner_of(write_network(tmp_path, HOT))
    planner.sync()
    planner.cancel("hot", None)
    sites = planner.state().deployments()
    assert not any(site.queries or site.passages or site.exports for site in sites.values())
    with pytest.raises(JobError, match="cancelled already"):
        planner.cancel("hot", None)
    with pytest.raises(JobError, match="unknown subscription 'hit'; did you mean 'hot'"):
        planner.cancel("hit", None)


def test_nothing_is_half_installed(tmp_path: Path) -> None:
    wrong = subscription("wrong", "hub", "SELECT enn FROM photons")
    path = write_network(tmp_path, HOT, wrong)
    with pytest.raises(JobError, match=r"network.toml: subscription wrong: unknown column 'enn'"):
        planner_of(path).sync()
    with planner_of(path).catalog() as catalog:
        assert catalog.state() == {}


def test_links_without_a_way(tmp_path: Path) -> None:
    alone = NETWORK.replace('[[link]]\nbetween = ["hub", "office"]\nbandwidth = 1000000\n', "")
    path = write_network(tmp_path, HOT, network=alone)
    with pytest.raises(JobError, match="subscription hot: there is no way from site plant to site office"):
        planner_of(path).sync()


def test_a_rejection_says_what_is_full_and_by_how_much(tmp_path: Path) -> None:
    narrow = NETWORK.replace("bandwidth = 1000000", "bandwidth = 10000", 1)
    query = subscription("all", "office", WHOLE)
    path = write_network(tmp_path, query, "[planner]\nrate = 100\n", network=narrow)
    with pytest.raises(JobError, match=r"subscription all: no plan .* link hub - plant by \d+ %"):
        planner_of(path).sync()


def test_without_a_rate_a_network_file_is_not_refused(tmp_path: Path) -> None:
    narrow = NETWORK.replace("bandwidth = 1000000", "bandwidth = 100", 1)
    planner = planner_of(write_network(tmp_path, subscription("all", "office", WHOLE), network=narrow))
    planner.sync()
    assert "all" in planner.state().installed.reads


def test_concurrent_subscriptions_are_serialised(tmp_path: Path) -> None:
    path = write_network(tmp_path, HOT)
    planner_of(path).sync()

    def subscribe(number: int) -> None:
        query = f"SELECT en FROM photons WHERE en > {number}"
        planner_of(path).subscribe(Subscription(f"q{number}", query), "hub", {})

    threads = [threading.Thread(target=subscribe, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = planner_of(path).state()
    assert {one.name for one in state.active()} == {"hot", *(f"q{number}" for number in range(6))}
    assert len({one.number for one in state.active()}) == 7
    assert set(state.installed.reads) == {one.name for one in state.active()}


def test_names_and_sites_of_new_subscriptions_are_checked(tmp_path: Path) -> None:
    planner = planner_of(write_network(tmp_path, HOT))
    planner.sync()
    with pytest.raises(JobError, match="the name 'hot' is taken"):
        planner.subscribe(Subscription("hot", WHOLE), "hub", {})
    with pytest.raises(JobError, match="unknown site 'hob'; did you mean 'hub'"):
        planner.subscribe(Subscription("more", WHOLE), "hob", {})
    with pytest.raises(JobError, match="a name cannot begin with flow:"):
        planner.subscribe(Subscription("flow:1", WHOLE), "hub", {})
