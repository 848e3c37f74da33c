"""What the dashboard shows of sharing: the plan, and the network that it loads (the paper's figure 23).

    monitor = Monitor(layout, scenario)
    with monitor.following():
        monitor.plan()         # what `explain` says
        monitor.network()      # load of every site and traffic of every link, at the measured rate

The engine runs at one site; the network is only planned. Plans are kept: a subscription that is added or
cancelled changes the plan of the others. A thread follows the subscriptions, so that nobody has to wait for
the plan of thousands of them.
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
from anabranch.catalog.entries import Entry
from anabranch.families.registry import NAMES as FAMILY_NAMES
from anabranch.model.stream import Stream
from anabranch.planning.cost import CostModel
from anabranch.planning.explain import explained, statistics_of
from anabranch.planning.group_costs import ITEMS
from anabranch.planning.network import Network
from anabranch.planning.optimizer import Optimizer
from anabranch.planning.properties import source_properties
from anabranch.planning.scenario import Scenario
from anabranch.planning.sharing_groups import query_properties
from anabranch.planning.statistics import Statistics
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.service.explanation import catalog_queries, samples_of, with_measures

log = logging.getLogger("anabranch.service")

#: The rate is measured over so many batches.
BATCHES = 20
#: How often it looks for new subscriptions, in seconds. After work it rests so many times as long: the
#: streams need the processor more.
LOOK_S, RESTS = 2.0, 10.0

#: stream -> version of its control log: what changes when a subscription is added or cancelled.
Versions = dict[str, int]


class Monitor:
    """One per service. May be used from several threads; they plan one at a time."""

    def __init__(self, layout: Layout, scenario: Scenario | None = None) -> None:
        self.layout, self.scenario = layout, scenario
        self._sites = {one.name: one.site for one in scenario.queries} if scenario else {}
        self._planning, self._loading = threading.Lock(), threading.Lock()
        self._planned: tuple[Versions, dict[str, Any]] | None = None
        self._followed: Versions | None = None
        self._optimizer: Optimizer | None = None
        self._statistics: dict[str, Statistics] = {}
        self._numbers: dict[str, int] = {}  # label -> number of the subscriptions in the plan of the network

    @contextmanager
    def following(self) -> Iterator[None]:
        """Keeps up with the subscriptions while the context lasts."""
        stopped = threading.Event()

        def follow() -> None:
            rest = 0.0
            while not stopped.wait(rest):
                started = time.monotonic()
                try:
                    self.plan()
                    self.network()
                except Exception as error:  # a request will say it; the catalog may be away for a while
                    log.warning("the plan cannot be brought up to date: %s", error)
                rest = max(LOOK_S, RESTS * (time.monotonic() - started))

        thread = threading.Thread(target=follow, name="monitor", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def plan(self) -> dict[str, Any]:
        """Returns what `explain` says, computed again when the subscriptions have changed."""
        with self._planning:
            with Catalog.existing(self.layout.catalog) as catalog:
                versions = _versions(catalog)
            if self._planned is None or self._planned[0] != versions:
                self._planned = versions, plan_of(self.layout)
            return self._planned[1]

    def network(self) -> dict[str, Any]:
        with self._loading, Catalog.existing(self.layout.catalog) as catalog:
            streams = catalog.streams()
            if self._optimizer is None:
                declared = {name: catalog.declaration(name) for name in streams}
                self._statistics, _ = statistics_of(streams, samples_of(streams, declared))
                self._optimizer = _optimizer(self.scenario, streams, self._statistics)
            basis = self._measure(self._optimizer.network)
            self._optimizer.installed.refresh()
            versions = _versions(catalog)
            if self._followed != versions:
                entries = {one.label: one for one in catalog.subscriptions(family="filters")}
                self._follow(self._optimizer, entries, streams)
                self._followed = versions
            return {"basis": basis, **_facts(self._optimizer)}

    def _measure(self, network: Network) -> list[str]:
        """Brings the rates up to date and returns a line per stream that says them."""
        said = []
        for name, known in self._statistics.items():
            if name not in network.streams:
                said.append(f"{name}: the network has no site for it, so it is left out")
                continue
            rate = measured_rate(Deliveries(self.layout), name)
            known.rate = ITEMS if rate is None else rate
            how = "as nothing is measured yet" if rate is None else "as measured"
            said.append(f"{name}: {known.rate:,.0f} items per second, {how}")
        return said

    def _follow(self, planner: Optimizer, entries: dict[str, Entry], streams: dict[str, Stream]) -> None:
        for name, number in list(self._numbers.items()):
            if name not in entries or entries[name].number != number:
                planner.cancel(name)
                del self._numbers[name]
        for name, entry in entries.items():
            if name not in self._numbers and entry.stream in planner.installed.sources:
                site = self._sites.get(entry.name, planner.network.streams[entry.stream])
                planner.register(name, query_properties(entry.kind, entry.spec, streams[entry.stream]), site)
                self._numbers[name] = entry.number


def plan_of(layout: Layout) -> dict[str, Any]:
    """Returns what `anabranch explain --format json` prints."""
    with Catalog.existing(layout.catalog) as catalog:
        found = catalog_queries(catalog)
    samples = samples_of(found.streams, found.declarations)
    explanation = explained(found.queries, found.streams, samples)
    return with_measures(explanation, layout, found.streams).to_json()


def _versions(catalog: Catalog) -> Versions:
    return {stream: catalog.version(stream, FAMILY_NAMES) for stream in catalog.streams()}


def measured_rate(deliveries: Deliveries, stream: str) -> float | None:
    """Returns items per second over the last batches, of the branch that is furthest; None if not known."""
    branch = deliveries.furthest(stream)
    if branch is None:
        return None
    latest = deliveries.latest(branch)
    found = [
        (deliveries.written(branch, batch), manifest.books.get("processed", 0))
        for batch in (max(0, latest - BATCHES), latest)
        if (manifest := deliveries.manifest(branch, batch)) is not None
    ]
    (began, before), (ended, after) = found[0], found[-1]
    return (after - before) / (ended - began) if ended > began else None


def _optimizer(
    scenario: Scenario | None, streams: dict[str, Stream], statistics: dict[str, Statistics]
) -> Optimizer:
    """Returns an optimizer that accepts overload: what is too much is shown in red."""
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
