"""The plan that runs beside a fresh one for all queries at once.

In: an optimizer with what it has installed, in the order in which queries came. Out: the cheapest plan that
was found for the same queries at the same sites, and what changes for whom. Never: a query that runs and
would find no place, or other rows for anybody; every plan for a query gives the same rows.

Plans are made one after the other, so they depend on the order of arrival: a query that came before a wider
one cannot be made from it, and a widened node stays wide. Fresh plans are tried in four orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from anabranch.sharing.installed import Installed
from anabranch.sharing.optimizer import Optimizer
from anabranch.sharing.plan import Rejected
from anabranch.sharing.properties import Properties


@dataclass(frozen=True)
class Placed:
    """A subscription, and the site where it is wanted."""

    name: str
    properties: Properties
    site: str


@dataclass(frozen=True)
class Change:
    """How a subscription is made: streams with their ways, from its own back to the registered one."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def running(installed: Installed) -> list[Placed]:
    """Who reads what where, in the order of arrival."""
    nodes = ((name, installed.nodes[number]) for name, number in installed.reads.items())
    return [Placed(name, node.properties, node.path[-1]) for name, node in nodes]


def total(installed: Installed) -> float:
    """C of all that is installed, as if it were added to an empty network."""
    network = installed.network
    links = ((used / network.links[ends].bandwidth, 1.0) for ends, used in installed.traffic.items())
    sites = ((used / network.sites[site].capacity, 1.0) for site, used in installed.loads.items())
    return installed.model.cost(links, sites)


def fresh(optimizer: Optimizer) -> Optimizer:
    """An optimizer with the cheapest plan for all who run; with the plan that runs, if none is cheaper."""
    installed, asked = optimizer.installed, running(optimizer.installed)
    traffic: Callable[[Placed], float] = lambda one: installed.model.traffic(one.properties)  # noqa: E731
    orders = (asked, asked[::-1], sorted(asked, key=traffic), sorted(asked, key=traffic, reverse=True))
    best = optimizer
    for order in orders:
        made = _planned(optimizer, order)
        if made is not None and total(made.installed) < total(best.installed) * (1 - 1e-9):
            best = made
    return best


def _planned(like: Optimizer, order: Iterable[Placed]) -> Optimizer | None:
    """All of them in this order; None where one finds no place."""
    sources = [like.installed.nodes[number].properties for number in like.installed.sources.values()]
    made = Optimizer(like.network, like.model, sources, like.strategy, like.bypass, like.widen, like.admit)
    try:
        for one in order:
            made.register(one.name, one.properties, one.site)
    except Rejected:
        return None
    return made


def changes(before: Installed, after: Installed) -> list[Change]:
    """The subscriptions that are made in another way."""
    pairs = ((name, _made(before, name), _made(after, name)) for name in before.reads)
    return [Change(name, old, new) for name, old, new in pairs if old != new]


def _made(installed: Installed, name: str) -> tuple[str, ...]:
    number: int | None = installed.reads[name]
    steps = []
    while number is not None:
        node = installed.nodes[number]
        steps.append(f"{node.properties.text}: {' > '.join(node.path)}")
        number = node.parent
    return tuple(steps)
