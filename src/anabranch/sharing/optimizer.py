"""Registers subscriptions one after the other, each with the cheapest plan (StreamGlobe 4.4 to 4.6).

In: the properties of a subscription and the site where it is wanted. Out: a plan, installed; or Rejected.
Never: a change for those who are registered already, other than in what it costs.

Three strategies, the paper's:

- data-shipping: the whole stream travels to every query, once for each, and is evaluated there;
- query-shipping: every query is evaluated where the stream is registered, and its result travels;
- stream-sharing: OPTIMIZEQUERY (algorithm 1) searches, from the stream's site outwards, the sites that carry
  a stream from which the query can be made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from heapq import nsmallest

from anabranch.model.errors import QueryError
from anabranch.sharing.choices import Bypass, Strategy
from anabranch.sharing.cost import CostModel, Flow
from anabranch.sharing.installed import Added, Installed, Node
from anabranch.sharing.network import Network, Path
from anabranch.sharing.plan import Plan, Rejected, Step, Widening
from anabranch.sharing.properties import Properties
from anabranch.sharing.routes import plans_around
from anabranch.sharing.shareability import needs, shareable
from anabranch.sharing.widening import added_by, widened

#: Of the streams that match at a site, so many are tried: those that need the least work.
TRIED = 3
#: So many streams are tried for widening.
WIDENED = 8


class Optimizer:
    """`widen`: loosen streams where that is cheaper. `admit`: take a plan even where it overloads."""

    def __init__(
        self,
        network: Network,
        model: CostModel,
        sources: list[Properties],
        strategy: Strategy = Strategy.STREAM_SHARING,
        bypass: Bypass = Bypass.REDUCED,
        widen: bool = False,
        admit: bool = False,
    ) -> None:
        self.network, self.model = network, model
        self.strategy, self.bypass, self.widen, self.admit = strategy, bypass, widen, admit
        self.installed = Installed(network, model, sources)
        self._planned: tuple[Properties, Flow] | None = None
        self.visited = 0  # sites that the last search looked at

    def register(self, name: str, wanted: Properties, site: str) -> Plan:
        """The plan, installed. Rejected, with nothing changed, where every plan overloads something."""
        plan = self.plan(name, wanted, site)
        if plan.full and not self.admit:
            raise Rejected(name, plan)
        self.installed.install(name, plan)
        return plan

    def cancel(self, name: str) -> None:
        if name not in self.installed.reads:
            raise QueryError(f"there is no subscription {name!r} to cancel")
        self.installed.cancel(name)

    def plan(self, name: str, wanted: Properties, site: str) -> Plan:
        """The best plan by cost; one that overloads nothing is better than any that does."""
        if name in self.installed.reads:
            raise QueryError(f"subscription {name!r} is registered already")
        if wanted.stream not in self.installed.sources:
            raise QueryError(f"subscription {name}: there is no stream {wanted.stream!r}")
        if site not in self.network.sites:
            raise QueryError(f"subscription {name}: there is no site {site!r}")
        source = self.installed.nodes[self.installed.sources[wanted.stream]].properties
        if not shareable(source, wanted):
            unknown = ", ".join(sorted(needs(wanted, source) - source.columns))
            raise QueryError(f"subscription {name}: stream {wanted.stream} has no column {unknown}")
        self._planned = None
        best: Plan | None = None
        for plan in self._plans(wanted, site):
            if best is None or (bool(plan.full), plan.cost) < (bool(best.full), best.cost):
                best = plan
        if best is None:
            begin = self.network.streams[wanted.stream]
            raise QueryError(f"subscription {name}: there is no way from site {begin} to site {site}")
        return best

    # candidates

    def _plans(self, wanted: Properties, site: str) -> Iterator[Plan]:
        source = self.installed.nodes[self.installed.sources[wanted.stream]]
        match self.strategy:
            case Strategy.DATA_SHIPPING:
                yield from self._along(source, source.path[0], wanted, site, at_end=True)
            case Strategy.QUERY_SHIPPING:
                yield from self._along(source, source.path[0], wanted, site, at_end=False)
            case Strategy.STREAM_SHARING:
                local = self._local(wanted, site)
                if local is not None:
                    yield local
                    return
                yield from self._along(source, source.path[0], wanted, site, at_end=True)
                for node, tap in self._search(source, wanted):
                    yield from self._along(node, tap, wanted, site)
                if self.widen:
                    yield from self._widenings(wanted, site)

    def _local(self, wanted: Properties, site: str) -> Plan | None:
        """An equal stream that is at the site already costs nothing (4.6.4)."""
        here = [n for n in self.installed.equal_to(wanted) if self.installed.nodes[n].path[-1] == site]
        return Plan(min(here), ()) if here else None

    def _search(self, source: Node, wanted: Properties) -> Iterator[tuple[Node, str]]:
        """OPTIMIZEQUERY: breadth first over the sites that carry a stream that matches.

        A stream that matches is made from one that matches, so the search finds all of them, and never
        looks at a site that carries none.
        """
        at: dict[str, list[tuple[float, int, Node]]] = {}
        passed = self._flow(wanted).selected
        for node in self.installed.matching(wanted):
            effort = self.model.work_of(wanted, node.properties, node.frequency, passed)
            for site in node.path:
                at.setdefault(site, []).append((effort, node.number, node))
        queue, seen = deque(source.path), set(source.path)
        while queue:
            here = queue.popleft()
            for _, _, node in nsmallest(TRIED, at[here]):
                yield node, here
            for _, _, node in at[here]:
                for there in node.path:
                    if there not in seen:
                        seen.add(there)
                        queue.append(there)
        self.visited = len(seen)

    # plans

    def _along(
        self, node: Node, tap: str, wanted: Properties, site: str, at_end: bool | None = None
    ) -> Iterator[Plan]:
        """Plans that take a node at one of its sites: the query is evaluated there, or where it is wanted, or
        on the way. `at_end` settles where."""

        def priced(path: Path, place: int) -> Plan:
            where = len(path) - 1 if at_end or place >= len(path) else place
            steps = [Step(node.properties, path[: where + 1])] if where else []
            if wanted != node.properties or where < len(path) - 1 or not steps:
                steps.append(Step(wanted, path[where:]))
            return self._priced(node, tuple(steps))

        way = self.network.way(tap, site)
        if way is None:
            return
        places = [0] if at_end is not None or wanted == node.properties else range(len(way))
        for place in places:
            yield from plans_around(self.bypass, self.installed, tap, site, partial(priced, place=place))

    def _priced(self, node: Node, steps: tuple[Step, ...]) -> Plan:
        """The last step is the query; those before carry the node on as it is."""
        added = Added(self.network, self.model)
        *forward, last = steps
        for step in forward:
            added.charge(step.path, 0.0, node.frequency, node.traffic)
        flow = self._flow(last.properties)
        work = self.model.work_of(last.properties, node.properties, node.frequency, flow.selected)
        added.charge(last.path, work, flow.frequency, flow.traffic)
        return self._with_cost(Plan(node.number, steps, added.loads, added.traffic))

    def _flow(self, wanted: Properties) -> Flow:
        """Of the query that is being planned it is reckoned once."""
        if self._planned is None or self._planned[0] is not wanted:
            self._planned = (wanted, self.model.flow(wanted))
        return self._planned[1]

    def _with_cost(self, plan: Plan) -> Plan:
        network, free = self.network, self.installed
        links = {
            ends: (added / network.links[ends].bandwidth, free.free_bandwidth(ends))
            for ends, added in plan.traffic.items()
        }
        sites = {
            site: (load / network.sites[site].capacity, free.free_load(site))
            for site, load in plan.loads.items()
        }
        full = tuple(
            name
            for used in (sites, links)
            for name, (added, left) in used.items()
            if added > 0 and added > left
        )
        cost = self.model.cost(links.values(), sites.values())
        return replace(plan, cost=cost, full=full)

    def _widenings(self, wanted: Properties, site: str) -> Iterator[Plan]:
        for stream in self.installed.index.nearest(wanted, WIDENED):
            for number in sorted(self.installed.equal_to(stream)):
                node = self.installed.nodes[number]
                loose = widened(node, wanted, self.installed)
                if loose is None:
                    continue
                for tap in node.path:
                    way = self.network.way(tap, site)
                    if way is not None:
                        added = added_by(node, loose, wanted, way, self.installed)
                        steps, widening = (Step(wanted, way),), Widening(number, loose)
                        yield self._with_cost(
                            Plan(number, steps, added.loads, added.traffic, widening=widening)
                        )
