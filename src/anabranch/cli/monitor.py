"""What the dashboard shows of sharing: the plan, and the network that it loads (the paper's figure 23).

In: the sink of a job that runs, and a network of sites. Out: what `explain` says; load of every site and
traffic of every link, reckoned by the optimizer at the rate that was measured. Never: a placement of what
runs; the engine runs at one site, the network is planned.

Plans are kept: a subscription that comes or goes is registered or cancelled in the plan of the others. A
thread follows the subscriptions, so that who looks first at thousands of them need not wait.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.deliveries import Deliveries
from anabranch.catalog.entries import Entry
from anabranch.catalog.layout import Layout
from anabranch.cli.costs import ITEMS
from anabranch.cli.explain import plan_of, statistics_of
from anabranch.cli.sharing import wanted
from anabranch.model.stream import Stream
from anabranch.sharing.cost import CostModel
from anabranch.sharing.network import Network
from anabranch.sharing.optimizer import Optimizer
from anabranch.sharing.properties import source_properties
from anabranch.sharing.scenario import Scenario
from anabranch.sharing.statistics import Statistics

log = logging.getLogger("anabranch.service")

#: The rate is measured over so many batches.
BATCHES = 20
#: How often it looks for new subscriptions; it rests so many times as long as it worked, for the streams need
#: the processor more.
LOOK_S, RESTS = 2.0, 10.0

#: (stream, family, version of its control log): what changes when a subscription comes or goes.
Versions = list[tuple[str, str, int]]


class Monitor:
    """One for a service. May be used from several threads; a plan is made by one at a time."""

    def __init__(self, layout: Layout, scenario: Scenario | None = None) -> None:
        self.layout, self.scenario = layout, scenario
        self._sites = {one.name: one.site for one in scenario.queries} if scenario else {}
        self._planning, self._loading = threading.Lock(), threading.Lock()
        self._planned: tuple[Versions, dict[str, Any]] | None = None
        self._followed: Versions | None = None
        self._optimizer: Optimizer | None = None
        self._statistics: dict[str, Statistics] = {}
        self._numbers: dict[str, int] = {}  # of the subscriptions that are in the network's plan

    @contextmanager
    def following(self) -> Iterator[None]:
        """Keeps up with the subscriptions while the context lasts."""
        stopped = threading.Event()

        def follow() -> None:
            rest = 0.0
            while not stopped.wait(rest):
                begun = time.monotonic()
                try:
                    self.plan()
                    self.network()
                except Exception as error:  # who looks is told; the catalog may be away for a while
                    log.warning("the plan cannot be brought up to date: %s", error)
                rest = max(LOOK_S, RESTS * (time.monotonic() - begun))

        thread = threading.Thread(target=follow, name="monitor", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def plan(self) -> dict[str, Any]:
        """What `explain` says, reckoned again when the subscriptions have changed."""
        with self._planning:
            with Catalog.existing(self.layout.catalog) as catalog:
                versions = _versions(catalog)
            if self._planned is None or self._planned[0] != versions:
                self._planned = versions, plan_of(self.layout.root)
            return self._planned[1]

    def network(self) -> dict[str, Any]:
        with self._loading, Catalog.existing(self.layout.catalog) as catalog:
            streams = catalog.streams()
            if self._optimizer is None:
                declared = {name: catalog.declaration(name) for name in streams}
                self._statistics, _ = statistics_of(streams, declared)
                self._optimizer = _optimizer(self.scenario, streams, self._statistics)
            basis = self._measure(self._optimizer.network)
            self._optimizer.installed.refresh()
            versions = _versions(catalog)
            if self._followed != versions:
                entries = {one.name: one for one in catalog.subscriptions(family="filters")}
                self._follow(self._optimizer, entries, streams)
                self._followed = versions
            return {"basis": basis, **_facts(self._optimizer)}

    def _measure(self, network: Network) -> list[str]:
        """Brings the rates up to date; what they are."""
        said = []
        for name, known in self._statistics.items():
            if name not in network.streams:
                said.append(f"{name}: the network has no site for it, so it is left out")
                continue
            rate = measured_rate(Deliveries(self.layout), name)
            known.rate = ITEMS if rate is None else rate
            how = "as nothing is measured yet" if rate is None else "as measured"
            said.append(f"{name}: {known.rate:,.0f} items a second, {how}")
        return said

    def _follow(self, planner: Optimizer, entries: dict[str, Entry], streams: dict[str, Stream]) -> None:
        for name, number in list(self._numbers.items()):
            if name not in entries or entries[name].number != number:
                planner.cancel(name)
                del self._numbers[name]
        for name, entry in entries.items():
            if name not in self._numbers and entry.stream in planner.installed.sources:
                site = self._sites.get(name, planner.network.streams[entry.stream])
                planner.register(name, wanted(entry.kind, entry.spec, streams[entry.stream]), site)
                self._numbers[name] = entry.number


def _versions(catalog: Catalog) -> Versions:
    return [
        (stream, family, catalog.version(stream, family))
        for stream in catalog.streams()
        for family in catalog.families(stream)
    ]


def measured_rate(deliveries: Deliveries, stream: str) -> float | None:
    """Items a second over the last batches, of the family that is the furthest."""
    rates = []
    for family in deliveries.layout.families(stream):
        latest = deliveries.latest(stream, family)
        found = [
            (deliveries.written(stream, family, batch), manifest)
            for batch in (max(0, latest - BATCHES), latest)
            if (manifest := deliveries.manifest(stream, family, batch)) is not None
        ]
        if len(found) == 2 and found[1][0] > found[0][0]:
            items = found[1][1].books.get("processed", 0) - found[0][1].books.get("processed", 0)
            rates.append(items / (found[1][0] - found[0][0]))
    return max(rates) if rates else None


def _optimizer(
    scenario: Scenario | None, streams: dict[str, Stream], statistics: dict[str, Statistics]
) -> Optimizer:
    """Plans are taken even where they overload: what is too much is shown in red."""
    network = Network.single(streams) if scenario is None else scenario.network
    sources = [source_properties(streams[name]) for name in network.streams if name in streams]
    return Optimizer(network, CostModel(statistics), sources, admit=True)


def _facts(planner: Optimizer) -> dict[str, Any]:
    installed, network = planner.installed, planner.network
    made = Counter(node.path[0] for node in installed.nodes.values() if node.parent is not None)
    readers: Counter[str] = Counter()
    for node in installed.nodes.values():
        readers[node.path[-1]] += len(node.subscribers)
    sites = [
        {
            "name": name,
            "capacity": site.capacity,
            "load": installed.loads[name],
            "part": installed.loads[name] / site.capacity,
            "streams": [stream for stream, where in network.streams.items() if where == name],
            "makes": made[name],
            "readers": readers[name],
        }
        for name, site in network.sites.items()
    ]
    links = [
        {
            "ends": ends,
            "bandwidth": link.bandwidth,
            "traffic": installed.traffic[ends],
            "part": installed.traffic[ends] / link.bandwidth,
        }
        for ends, link in network.links.items()
    ]
    return {"sites": sites, "links": links}
