"""Ways for the streams of a plan, around what is full (StreamGlobe 4.6.1, both bypassing schemes).

In: a plan's two ends, and a function that prices a way. Out: ways, the shortest first.
Never: an endless search: each way avoids something more than the one before.

- REDUCED (the paper's default): the shortest way; if it overloads links or sites, the shortest way without
  them, and so on until nothing is overloaded or no way is left.
- WEIGHTED: one way, the lightest when links and sites weigh more the fuller they are.
- NONE: the shortest way only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.sharing.choices import Bypass
from anabranch.sharing.installed import Installed
from anabranch.sharing.network import Network, Path, pair
from anabranch.sharing.plan import Plan


def plans_around(
    scheme: Bypass, installed: Installed, start: str, end: str, priced: Callable[[Path], Plan]
) -> Iterator[Plan]:
    """The plans over the ways that a scheme finds."""
    network = installed.network
    path = lightest(installed, start, end) if scheme is Bypass.WEIGHTED else network.way(start, end)
    if path is None:
        return
    plan = priced(path)
    yield plan
    if scheme is Bypass.REDUCED and len(path) > 1:
        yield from _reduced(network, plan, path, priced)


def _reduced(network: Network, plan: Plan, path: Path, priced: Callable[[Path], Plan]) -> Iterator[Plan]:
    start, end = path[0], path[-1]
    sites, links = frozenset[str](), frozenset[tuple[str, str]]()
    while plan.full:
        more_sites = {one for one in plan.full if isinstance(one, str) and one not in (start, end)} - sites
        more_links = {one for one in plan.full if not isinstance(one, str)} - links
        if not more_sites and not more_links:
            return
        sites, links = sites | more_sites, links | more_links
        around = network.way_around(start, end, sites, links)
        if around is None:
            return
        plan = priced(around)
        yield plan


def lightest(installed: Installed, start: str, end: str) -> Path | None:
    def fullness(free: float) -> float:
        return 1 / max(free, 1e-3)

    def weight(one: str, other: str) -> float:
        ends = (installed.free_load(one), installed.free_load(other))
        return fullness(installed.free_bandwidth(pair(one, other))) + sum(map(fullness, ends))

    return installed.network.lightest_way(start, end, weight)
