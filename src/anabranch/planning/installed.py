"""What runs in a network: plans that are installed, the nodes they add, and what is left of sites and links.

A node is a stream that is made at a site and carried along a path. Nodes, and pieces of their paths, that
nobody needs any more are removed.

    photons at SP4 --- node 1: vela, made at SP4, carried SP4 -> SP5 -> SP1, read by q1
                        '- node 2: rxj, made at SP5 from node 1, carried SP5 -> SP7, read by q2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from anabranch.model.errors import QueryError
from anabranch.planning.cost import CostModel
from anabranch.planning.index import StreamIndex
from anabranch.planning.matching import shareable
from anabranch.planning.network import Network, Pair, Path, pair
from anabranch.planning.properties import Properties


@dataclass(frozen=True)
class PlanStep:
    """A stream that a plan adds: made at the first site of its path, carried to the last."""

    properties: Properties
    path: Path


@dataclass(frozen=True)
class Widening:
    """A node that runs already is loosened to `properties`, so that it contains the new query, too."""

    node: int
    properties: Properties


@dataclass(frozen=True)
class QueryPlan:
    """What a new subscription adds to the network, and what that would cost.

    Take node `parent`, at the first site of the first step, and make the steps of it, each from the one
    before. Without steps the subscriber reads the node as it is.
    """

    parent: int
    steps: tuple[PlanStep, ...]
    loads: dict[str, float] = field(default_factory=dict)  # CPU seconds per second that it adds
    traffic: dict[Pair, float] = field(default_factory=dict)  # bytes per second that it adds
    cost: float = 0.0
    full: tuple[str | Pair, ...] = ()  # the sites and links that it would overload
    lacking: tuple[float, ...] = ()  # of each of them, the part of its capacity that is missing
    widening: Widening | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "parent": self.parent,
            "steps": [{"makes": step.properties.text, "path": list(step.path)} for step in self.steps],
            "loads": self.loads,
            "traffic": {" - ".join(ends): traffic for ends, traffic in self.traffic.items()},
            "cost": self.cost,
            "overloads": [one if isinstance(one, str) else " - ".join(one) for one in self.full],
            "widens": None if self.widening is None else self.widening.node,
        }


class Rejected(QueryError):
    """No plan without overload; nothing was changed."""

    def __init__(self, name: str, plan: QueryPlan) -> None:
        names = [
            f"{f'site {one}' if isinstance(one, str) else 'link ' + ' - '.join(one)} by {100 * part:.3g} %"
            for one, part in zip(plan.full, plan.lacking, strict=True)
        ]
        super().__init__(
            f"subscription {name}: no plan without overload; the best one would overload {', '.join(names)}. "
            "Cancel others, raise capacity or bandwidth, or ask for less"
        )
        self.plan = plan


@dataclass
class Node:
    """A stream in the network. `work`, `frequency` and `traffic` are what was charged when it was added, so
    that exactly that is given back."""

    number: int
    properties: Properties
    parent: int | None  # None: a registered stream
    path: Path
    work: float = 0.0
    frequency: float = 0.0
    traffic: float = 0.0
    children: set[int] = field(default_factory=set)
    subscribers: set[str] = field(default_factory=set)
    before: tuple[Properties, ...] = ()  # what it carried before it was widened, the first first


class Installed:
    def __init__(self, network: Network, model: CostModel, sources: Iterable[Properties]) -> None:
        self.network, self.model = network, model
        self.nodes: dict[int, Node] = {}
        self.loads = dict.fromkeys(network.sites, 0.0)
        self.traffic = dict.fromkeys(network.links, 0.0)
        self.reads: dict[str, int] = {}  # subscription -> the node it reads
        self.sources: dict[str, int] = {}
        self.index = StreamIndex()
        self._by_properties: dict[Properties, set[int]] = {}
        self._next = 0
        for source in sources:
            node = self._add(source, None, (network.streams[source.stream],))
            self.sources[source.stream] = node.number

    def to_json(self) -> dict[str, Any]:
        """Returns what is installed, without what it costs."""
        nodes = [
            {
                "number": node.number,
                "properties": node.properties.to_json(),
                "parent": node.parent,
                "path": list(node.path),
                "subscribers": sorted(node.subscribers),
                "before": [one.to_json() for one in node.before],
            }
            for node in self.nodes.values()
        ]
        return {"next": self._next, "nodes": nodes}

    @staticmethod
    def from_json(
        network: Network, model: CostModel, sources: Iterable[Properties], given: Mapping[str, Any]
    ) -> Installed:
        """Returns what `to_json` described, in the same network; it may have more streams by now."""
        installed = Installed(network, model, ())
        for each in given["nodes"]:
            number, parent = each["number"], each["parent"]
            installed._next = number
            node = installed._add(Properties.from_json(each["properties"]), parent, tuple(each["path"]))
            node.subscribers = set(each["subscribers"])
            node.before = tuple(map(Properties.from_json, each["before"]))
            installed.reads.update(dict.fromkeys(node.subscribers, number))
            if parent is None:
                installed.sources[node.properties.stream] = number
        installed._next = given["next"]
        for source in sources:
            if source.stream not in installed.sources:
                added = installed._add(source, None, (network.streams[source.stream],))
                installed.sources[source.stream] = added.number
        return installed

    # what is free

    def free_load(self, site: str) -> float:
        """Returns the part of a site that is free."""
        return 1 - self.loads[site] / self.network.sites[site].capacity

    def free_bandwidth(self, ends: Pair) -> float:
        return 1 - self.traffic[ends] / self.network.links[ends].bandwidth

    def equal_to(self, wanted: Properties) -> set[int]:
        """Returns the nodes that carry exactly this."""
        return self._by_properties.get(wanted, set())

    def matching(self, wanted: Properties) -> list[Node]:
        """Returns the nodes that carry a stream from which this can be made. Each distinct stream is matched
        once, however many nodes carry it."""
        return [
            self.nodes[number]
            for stream in self.index.matching(wanted)
            for number in self._by_properties[stream]
        ]

    def dependencies(self) -> set[tuple[int, int]]:
        """Returns the dependency graph: edges (from, to) where node `to` is made from node `from`."""
        return {(node.parent, node.number) for node in self.nodes.values() if node.parent is not None}

    # changes

    def refresh(self) -> None:
        """Estimates all nodes again, after the statistics have changed."""
        for node in self.nodes.values():
            self._charge(node, -1)
            self._estimate(node)
            self._charge(node, 1)

    def install(self, name: str, plan: QueryPlan) -> None:
        if plan.widening is not None:
            self.widen(plan.widening.node, plan.widening.properties)
        number = plan.parent
        for step in plan.steps:
            number = self._add(step.properties, number, step.path).number
        self.nodes[number].subscribers.add(name)
        self.reads[name] = number

    def cancel(self, name: str) -> None:
        """Removes a subscriber and all that only this one needed."""
        number = self.reads.pop(name)
        self.nodes[number].subscribers.remove(name)
        self._release(number)

    def widen(self, number: int, loose: Properties) -> None:
        """Makes node `number` carry more. Its readers read a new node, made from it at its end, that carries
        what it carried before; what was made from it is made from the wider one."""
        node = self.nodes[number]
        assert node.parent is not None, "a registered stream is as wide as can be"
        before, readers = node.properties, node.subscribers
        node.subscribers, node.before = set(), (*node.before, before)
        self._change(node, loose)
        if readers:
            kept = self._add(before, number, node.path[-1:])
            kept.subscribers = readers
            self.reads.update(dict.fromkeys(readers, kept.number))

    def _change(self, node: Node, properties: Properties) -> None:
        """Makes a node carry something else, from which its children can be made as well."""
        self._charge(node, -1)
        self._unlist(node)
        node.properties = properties
        self._estimate(node)
        self._list(node)
        self._charge(node, 1)
        for child in (self.nodes[child] for child in node.children):
            self._charge(child, -1)
            self._estimate(child)
            self._charge(child, 1)

    def _add(self, properties: Properties, parent: int | None, path: Path) -> Node:
        node = Node(self._next, properties, parent, path)
        self._next += 1
        self.nodes[node.number] = node
        if parent is not None:
            self.nodes[parent].children.add(node.number)
        self._estimate(node)
        self._list(node)
        self._charge(node, 1)
        return node

    def _release(self, number: int) -> None:
        node = self.nodes[number]
        if node.parent is None:
            return
        if not node.children and not node.subscribers:
            self._charge(node, -1)
            self._unlist(node)
            del self.nodes[number]
            self.nodes[node.parent].children.remove(number)
            self._release(node.parent)
            return
        wanted = [self.nodes[child].properties for child in node.children]
        for index, tighter in enumerate(node.before):  # a widened node: as tight as its users allow
            if not node.subscribers and all(shareable(tighter, one) for one in wanted):
                node.before = node.before[:index]
                self._change(node, tighter)
                break
        if not node.subscribers:  # carried only as far as somebody uses it
            used = {self.nodes[child].path[0] for child in node.children}
            last = max(index for index, site in enumerate(node.path) if site in used)
            if last < len(node.path) - 1:
                self._charge(node, -1)
                node.path = node.path[: last + 1]
                self._charge(node, 1)

    # index and charges

    def _list(self, node: Node) -> None:
        carriers = self._by_properties.setdefault(node.properties, set())
        if not carriers:
            self.index.add(node.properties)
        carriers.add(node.number)

    def _unlist(self, node: Node) -> None:
        carriers = self._by_properties[node.properties]
        carriers.remove(node.number)
        if not carriers:
            del self._by_properties[node.properties]
            self.index.remove(node.properties)

    def _estimate(self, node: Node) -> None:
        model = self.model
        if node.parent is not None:
            node.work = model.work(node.properties, self.nodes[node.parent].properties)
        node.frequency = model.frequency(node.properties)
        node.traffic = model.traffic(node.properties)

    def _charge(self, node: Node, sign: int) -> None:
        if node.parent is None:
            return  # a registered stream costs nothing here
        added = Added(self.network, self.model)
        added.charge(node.path, node.work, node.frequency, node.traffic)
        for site, load in added.loads.items():
            self.loads[site] += sign * load
        for ends, amount in added.traffic.items():
            self.traffic[ends] += sign * amount


class Added:
    """What streams add to sites and links: work where they are made, forwarding at both ends of every link,
    and bytes on the link."""

    def __init__(self, network: Network, model: CostModel) -> None:
        self.network, self.model = network, model
        self.loads: dict[str, float] = {}
        self.traffic: dict[Pair, float] = {}

    def charge(self, path: Path, work: float, frequency: float, traffic: float) -> None:
        sites, loads = self.network.sites, self.loads
        loads[path[0]] = loads.get(path[0], 0.0) + work * sites[path[0]].index
        forward = self.model.loads.forward * frequency
        for one, other in pairwise(path):
            for site in (one, other):
                loads[site] = loads.get(site, 0.0) + forward * sites[site].index
            ends = pair(one, other)
            self.traffic[ends] = self.traffic.get(ends, 0.0) + traffic
