"""The plan that runs beside a fresh one for all queries at once: of a network, and of an engine.

    better = fresh(optimizer)                              # the cheapest plan found for the same queries
    changes(optimizer.installed, better.installed)         # what changes for whom
    replayed(stream, log).moved                            # conditions of an engine that would hang elsewhere

Plans in a network are made one after the other, so they depend on the order of arrival: a query that came
before a wider one cannot be made from it, and a widened node stays wide. Fresh plans are tried in four
orders. Every plan for a query gives the same rows, and no query that runs is left without a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from anabranch.chain.control import Query
from anabranch.families.filters.forest import ROOT, Forest
from anabranch.families.filters.share import SharedQueries
from anabranch.model.control_log import Activate, Cancel, Control
from anabranch.model.stream import Stream
from anabranch.planning.installed import Installed, Rejected
from anabranch.planning.optimizer import Optimizer
from anabranch.planning.properties import Properties
from anabranch.predicates.text import normal_text

#: The family that shares conditions.
FAMILY = "filters"
EVERY_ITEM = "every item"


@dataclass(frozen=True)
class PlacedQuery:
    """A subscription, and the site where it is wanted."""

    name: str
    properties: Properties
    site: str


@dataclass(frozen=True)
class PlanChange:
    """How a subscription is made: streams with their ways, from its own back to the registered one."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def running(installed: Installed) -> list[PlacedQuery]:
    """Returns who reads what where, in the order of arrival."""
    nodes = ((name, installed.nodes[number]) for name, number in installed.reads.items())
    return [PlacedQuery(name, node.properties, node.path[-1]) for name, node in nodes]


def total(installed: Installed) -> float:
    """Returns C of all that is installed, as if it were added to an empty network."""
    network = installed.network
    links = ((used / network.links[ends].bandwidth, 1.0) for ends, used in installed.traffic.items())
    sites = ((used / network.sites[site].capacity, 1.0) for site, used in installed.loads.items())
    return installed.model.cost(links, sites)


def fresh(optimizer: Optimizer) -> Optimizer:
    """Returns an optimizer with the cheapest plan for all queries; the given one if none is cheaper."""
    installed, queries = optimizer.installed, running(optimizer.installed)
    traffic: Callable[[PlacedQuery], float] = lambda one: installed.model.traffic(one.properties)  # noqa: E731
    orders = (
        queries,
        queries[::-1],
        sorted(queries, key=traffic),
        sorted(queries, key=traffic, reverse=True),
    )
    best = optimizer
    for order in orders:
        plan = _planned(optimizer, order)
        if plan is not None and total(plan.installed) < total(best.installed) * (1 - 1e-9):
            best = plan
    return best


def _planned(like: Optimizer, order: Iterable[PlacedQuery]) -> Optimizer | None:
    """Registers all of them in this order; returns None where one overloads the network."""
    sources = [like.installed.nodes[number].properties for number in like.installed.sources.values()]
    optimizer = Optimizer(
        like.network, like.model, sources, like.strategy, like.bypass, like.widen, like.admit
    )
    try:
        for one in order:
            optimizer.register(one.name, one.properties, one.site)
    except Rejected:
        return None
    return optimizer


def changes(before: Installed, after: Installed) -> list[PlanChange]:
    """Returns the subscriptions that are made in another way."""
    pairs = ((name, _derivation(before, name), _derivation(after, name)) for name in before.reads)
    return [PlanChange(name, old, new) for name, old, new in pairs if old != new]


def _derivation(installed: Installed, name: str) -> tuple[str, ...]:
    number: int | None = installed.reads[name]
    steps = []
    while number is not None:
        node = installed.nodes[number]
        steps.append(f"{node.properties.text}: {' > '.join(node.path)}")
        number = node.parent
    return tuple(steps)


# --- of an engine ---


@dataclass(frozen=True)
class ConditionParents:
    """condition -> the one that it hangs below: in the plan that runs, and in one built for all queries at
    once."""

    subscriptions: int
    running: dict[str, str]
    fresh: dict[str, str]

    @property
    def moved(self) -> list[str]:
        return [
            condition for condition, parent in self.running.items() if self.fresh.get(condition) != parent
        ]


def replayed(stream: Stream, log: Iterable[Control]) -> ConditionParents:
    """Returns the plan of the engine. It is found by applying the control log of the stream's select and
    aggregate queries with the code of the engine, one entry after the other.
    """
    sharing, active = SharedQueries(stream, 1, ()), dict[int, Query]()
    for control in log:
        if isinstance(control, Activate):
            query = active[control.number] = Query(control.number, control.name, control.spec, 0, None)
            if sharing.covers(query):
                sharing.add(query)
            else:
                sharing = SharedQueries(stream, 1, active.values())
        elif isinstance(control, Cancel):
            sharing.remove(control.number)
            active.pop(control.number, None)
    fresh = SharedQueries(stream, 1, active.values())
    return ConditionParents(len(active), _parents(sharing.forest), _parents(fresh.forest))


def _parents(forest: Forest) -> dict[str, str]:
    texts = {node: normal_text(forest.normal(node)) for node in forest.nodes} | {ROOT: EVERY_ITEM}
    return {texts[node]: texts[forest.parent(node)] for node in forest.nodes}
