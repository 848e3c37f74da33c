"""What runs in the network: nodes of the dependency graph, and what they use of sites and links.

In: plans to install, subscriptions to cancel. Out: nodes, and what is free.
Never: a node, or a piece of its way, that nobody needs.

    photons at SP4 --- node 1: vela, made at SP4, carried SP4 -> SP5 -> SP1, read by q1
                        '- node 2: rxj, made at SP5 from node 1, carried SP5 -> SP7, read by q2
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from anabranch.sharing.cost import CostModel
from anabranch.sharing.index import Index
from anabranch.sharing.network import Network, Pair, Path, pair
from anabranch.sharing.plan import Plan
from anabranch.sharing.properties import Properties
from anabranch.sharing.shareability import shareable


@dataclass
class Node:
    """A stream in the network. `work`, `frequency` and `traffic` are what was reckoned when it was made, so
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
        self.index = Index()
        self._by_properties: dict[Properties, set[int]] = {}
        self._next = 0
        for source in sources:
            node = self._add(source, None, (network.streams[source.stream],))
            self.sources[source.stream] = node.number

    # what is free

    def free_load(self, site: str) -> float:
        """The part of a site that is free."""
        return 1 - self.loads[site] / self.network.sites[site].capacity

    def free_bandwidth(self, ends: Pair) -> float:
        return 1 - self.traffic[ends] / self.network.links[ends].bandwidth

    def equal_to(self, wanted: Properties) -> set[int]:
        """The nodes that carry exactly this."""
        return self._by_properties.get(wanted, set())

    def matching(self, wanted: Properties) -> list[Node]:
        """The nodes that carry a stream from which this can be made: each distinct stream is matched once,
        whatever the number of nodes that carry it."""
        return [
            self.nodes[number]
            for stream in self.index.matching(wanted)
            for number in self._by_properties[stream]
        ]

    def dependencies(self) -> set[tuple[int, int]]:
        """The dependency graph: edges (from, to) where node `to` is made from node `from`."""
        return {(node.parent, node.number) for node in self.nodes.values() if node.parent is not None}

    # changes

    def refresh(self) -> None:
        """Reckons all nodes again, after the statistics have changed."""
        for node in self.nodes.values():
            self._charge(node, -1)
            self._reckon(node)
            self._charge(node, 1)

    def install(self, name: str, plan: Plan) -> None:
        if plan.widening is not None:
            self.widen(plan.widening.node, plan.widening.properties)
        number = plan.parent
        for step in plan.steps:
            number = self._add(step.properties, number, step.path).number
        self.nodes[number].subscribers.add(name)
        self.reads[name] = number

    def cancel(self, name: str) -> None:
        """The subscriber leaves, and all that only he needed goes."""
        number = self.reads.pop(name)
        self.nodes[number].subscribers.remove(name)
        self._release(number)

    def widen(self, number: int, loose: Properties) -> None:
        """Node `number` carries more from now on. Who read it reads a new node, made from it at its end, that
        carries what it carried before; what was made from it is made from the wider one."""
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
        """The node carries something else, from which its children can be made as well."""
        self._charge(node, -1)
        self._unlist(node)
        node.properties = properties
        self._reckon(node)
        self._list(node)
        self._charge(node, 1)
        for child in (self.nodes[child] for child in node.children):
            self._charge(child, -1)
            self._reckon(child)
            self._charge(child, 1)

    def _add(self, properties: Properties, parent: int | None, path: Path) -> Node:
        node = Node(self._next, properties, parent, path)
        self._next += 1
        self.nodes[node.number] = node
        if parent is not None:
            self.nodes[parent].children.add(node.number)
        self._reckon(node)
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
        for place, tighter in enumerate(node.before):  # a widened node: as tight as those who remain allow
            if not node.subscribers and all(shareable(tighter, one) for one in wanted):
                node.before = node.before[:place]
                self._change(node, tighter)
                break
        if not node.subscribers:  # only as far as somebody takes it
            taken = {self.nodes[child].path[0] for child in node.children}
            last = max(place for place, site in enumerate(node.path) if site in taken)
            if last < len(node.path) - 1:
                self._charge(node, -1)
                node.path = node.path[: last + 1]
                self._charge(node, 1)

    # the books

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

    def _reckon(self, node: Node) -> None:
        model = self.model
        if node.parent is not None:
            node.work = model.work(node.properties, self.nodes[node.parent].properties)
        node.frequency = model.frequency(node.properties)
        node.traffic = model.traffic(node.properties)

    def _charge(self, node: Node, sign: int) -> None:
        if node.parent is None:
            return  # a registered stream is there, whoever uses it
        added = Added(self.network, self.model)
        added.charge(node.path, node.work, node.frequency, node.traffic)
        for site, load in added.loads.items():
            self.loads[site] += sign * load
        for ends, amount in added.traffic.items():
            self.traffic[ends] += sign * amount


class Added:
    """What streams add to sites and links: work where they are made, forwarding at both ends of every link,
    bytes on the link."""

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
