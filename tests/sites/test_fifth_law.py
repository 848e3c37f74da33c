"""The fifth law: whatever the network, the strategy and the order of registration, each subscription gets the
rows that one engine gives; wherever batches are cut and sites stop."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from anabranch.catalog.entries import NewSubscription
from anabranch.sites.deployment import deployments
from anabranch.sites.wanted import wanted_of
from tests.drawn import examples
from tests.laws.case import Case, Row, run_local
from tests.laws.customers import customers
from tests.sites.draw_networks import planned
from tests.sites.local import LocalSites

CUSTOMERS = {customer.name: customer for customer in customers()}

relaxed = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def run_sites(case: Case, sites: LocalSites, site: str, data: st.DataObject) -> None:
    """Feeds the items in drawn batches; pieces arrive when it is drawn so, and streams stop meanwhile."""
    cuts = data.draw(st.lists(st.integers(1, 40), max_size=6), label="cuts")
    edges = [0, *sorted(set(cuts) & set(range(1, case.items.num_rows))), case.items.num_rows]
    chances = st.sampled_from(["nothing", "arrive", "stop"])
    for low, high in pairwise(edges):
        sites.feed(site, case.stream.name, case.items.slice(low, high - low))
        for key, stream in sites.streams.items():
            chance = data.draw(chances, label=f"{key}")
            if chance == "stop":
                stream.stop_and_resume()
            elif chance == "arrive" and stream.source.hop is not None:
                sites.arrive(*key, data.draw(st.integers(1, 3)))
    sites.feed(site, case.stream.name, None, end=True)
    sites.settle(data.draw(st.sampled_from([1, 1000]), label="pieces at once"))


def one_engine(case: Case, sites: LocalSites) -> dict[str, list[Row]]:
    """What one engine gives. Reports from before a moving query's activation count where another moving query
    was running on the stream: at a site, on the stream there.
    """
    if case.family != "moving":
        return run_local(case).results
    out: dict[str, list[Row]] = {}
    for stream in sites.streams.values():
        names = {query.name for query in stream.queries}
        here = tuple(asked for asked in case.queries if asked.name in names)
        out |= run_local(replace(case, queries=here)).results
    return out


@pytest.mark.parametrize("name", CUSTOMERS)
@relaxed
@given(data=st.data())
def test_sites_give_what_one_engine_gives(name: str, data: st.DataObject) -> None:
    customer = CUSTOMERS[name]
    case = data.draw(customer.cases.filter(lambda case: case.queries))
    optimizer, wanted = data.draw(planned(case))
    streams = {case.stream.name: case.stream}
    sites = LocalSites(deployments(optimizer.installed, wanted, streams))
    run_sites(case, sites, optimizer.network.streams[case.stream.name], data)
    one = one_engine(case, sites)
    for asked in case.queries:
        assert customer.canonical(sites.rows(asked.name)) == customer.canonical(one[asked.name]), asked.name


@pytest.mark.parametrize("name", ["select", "aggregate", "clusters", "nearest"])
@relaxed
@given(data=st.data())
def test_a_subscription_may_come_while_sites_run(name: str, data: st.DataObject) -> None:
    """It sees the items after the time that the stream has reached, like one that is activated then."""
    customer = CUSTOMERS[name]
    some = customer.cases.filter(lambda case: case.stream.time is not None and len(case.queries) > 1)
    case = data.draw(some)
    late = replace(case.queries[-1], after=None, until=None)
    optimizer, wanted = data.draw(planned(replace(case, queries=case.queries[:-1])))
    streams, home = {case.stream.name: case.stream}, optimizer.network.streams[case.stream.name]
    sites = LocalSites(deployments(optimizer.installed, wanted, streams))
    middle = data.draw(st.integers(1, max(1, case.items.num_rows - 1)), label="middle")
    sites.feed(home, case.stream.name, case.items.slice(0, middle))
    sites.settle()
    running = sites.streams.get((home, case.stream.name))
    assume(running is not None and running.runner.books.get("last") is not None)
    reached = running.runner.books["last"]
    kind = late.spec["kind"]
    new = NewSubscription(late.name, case.stream.name, case.family, kind, "", late.spec, reached)
    site = data.draw(st.sampled_from(sorted(optimizer.network.sites)), label="site")
    one = wanted_of(new, site, case.stream, began=True)
    optimizer.register(one.name, one.properties, site)
    sites.install(deployments(optimizer.installed, [*wanted, one], streams))
    sites.feed(home, case.stream.name, case.items.slice(middle))
    sites.feed(home, case.stream.name, None, end=True)
    sites.settle(data.draw(st.sampled_from([1, 1000]), label="pieces at once"))
    queries = (*case.queries[:-1], replace(late, after=reached))
    expected = run_local(replace(case, queries=queries), cuts=[middle]).results
    for asked in queries:
        rows = customer.canonical(sites.rows(asked.name))
        assert rows == customer.canonical(expected[asked.name]), asked.name
