"""Registers subscriptions one after the other, each with the cheapest plan (StreamGlobe 4.4 to 4.6).

    optimizer = Optimizer(network, model, sources)
    optimizer.register("vela", properties, "SP1")      # returns the plan, installed; or raises Rejected

Nothing changes for those who are registered already, other than what it costs. The paper's three strategies:

- data-shipping: the whole stream travels to every query, once for each, and is evaluated there;
- query-shipping: every query is evaluated where the stream is registered, and its result travels;
- stream-sharing: OPTIMIZEQUERY (algorithm 1) searches, from the stream's site outwards, the sites that carry
  a stream from which the query can be made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import partial
from heapq import nsmallest

from anabranch.model.errors import QueryError
from anabranch.planning.cost import CostModel, Flow
from anabranch.planning.installed import Added, Installed, Node, PlanStep, QueryPlan, Rejected, Widening
from anabranch.planning.matching import needs, shareable
from anabranch.planning.network import Network, Pair, Path, pair
from anabranch.planning.properties import Properties
from anabranch.planning.selections import columns_of, hull, residual

#: Of the streams that match at a site, so many are tried: those that need the least work.
TRIED = 3
#: So many streams are tried for widening.
WIDENED = 8


class SharingStrategy(StrEnum):
    """Where queries are evaluated."""

    DATA_SHIPPING = "data-shipping"
    QUERY_SHIPPING = "query-shipping"
    STREAM_SHARING = "stream-sharing"


class Bypass(StrEnum):
    """How full links and sites are avoided (StreamGlobe 4.6.1)."""

    REDUCED = "reduced"
    WEIGHTED = "weighted"
    NONE = "none"


class Optimizer:
    """`widen`: widen streams where that is cheaper. `admit`: accept a plan even where it overloads.
    `compose`: make windows from smaller windows, too, not only from items and equal windows.
    """

    def __init__(
        self,
        network: Network,
        model: CostModel,
        sources: list[Properties],
        strategy: SharingStrategy = SharingStrategy.STREAM_SHARING,
        bypass: Bypass = Bypass.REDUCED,
        widen: bool = False,
        admit: bool = False,
        compose: bool = True,
    ) -> None:
        self.network, self.model = network, model
        self.strategy, self.bypass, self.widen, self.admit = strategy, bypass, widen, admit
        self.compose = compose
        self.installed = Installed(network, model, sources)
        self._planned: tuple[Properties, Flow] | None = None
        self.visited = 0  # sites that the last search looked at

    def register(self, name: str, wanted: Properties, site: str) -> QueryPlan:
        """Returns the plan, installed. Raises Rejected, with nothing changed, where every plan overloads
        something."""
        plan = self.plan(name, wanted, site)
        if plan.full and not self.admit:
            raise Rejected(name, plan)
        self.installed.install(name, plan)
        return plan

    def cancel(self, name: str) -> None:
        if name not in self.installed.reads:
            raise QueryError(f"there is no subscription {name!r} to cancel")
        self.installed.cancel(name)

    def plan(self, name: str, wanted: Properties, site: str) -> QueryPlan:
        """Returns the best plan by cost; one that overloads nothing is better than any that does."""
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
        best: QueryPlan | None = None
        for plan in self._plans(wanted, site):
            if best is None or (bool(plan.full), plan.cost) < (bool(best.full), best.cost):
                best = plan
        if best is None:
            start = self.network.streams[wanted.stream]
            raise QueryError(f"subscription {name}: there is no way from site {start} to site {site}")
        return best

    # candidates

    def _plans(self, wanted: Properties, site: str) -> Iterator[QueryPlan]:
        source = self.installed.nodes[self.installed.sources[wanted.stream]]
        match self.strategy:
            case SharingStrategy.DATA_SHIPPING:
                yield from self._along(source, source.path[0], wanted, site, at_end=True)
            case SharingStrategy.QUERY_SHIPPING:
                yield from self._along(source, source.path[0], wanted, site, at_end=False)
            case SharingStrategy.STREAM_SHARING:
                local = self._local(wanted, site)
                if local is not None:
                    yield local
                    return
                yield from self._along(source, source.path[0], wanted, site, at_end=True)
                for node, tap in self._search(source, wanted):
                    yield from self._along(node, tap, wanted, site)
                if self.widen:
                    yield from self._widenings(wanted, site)

    def _local(self, wanted: Properties, site: str) -> QueryPlan | None:
        """An equal stream that is at the site already costs nothing (4.6.4)."""
        here = [n for n in self.installed.equal_to(wanted) if self.installed.nodes[n].path[-1] == site]
        return QueryPlan(min(here), ()) if here else None

    def _search(self, source: Node, wanted: Properties) -> Iterator[tuple[Node, str]]:
        """OPTIMIZEQUERY: breadth first over the sites that carry a stream that matches.

        A stream that matches is made from one that matches, so the search finds all of them, and never
        looks at a site that carries none.
        """
        at: dict[str, list[tuple[float, int, Node]]] = {}
        passed = self._flow(wanted).selected
        for node in self.installed.matching(wanted):
            if not (self.compose or _same_windows(node.properties, wanted)):
                continue
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
    ) -> Iterator[QueryPlan]:
        """Plans that take a node at one of its sites: the query is evaluated there, or where it is wanted, or
        on the way. `at_end` settles where."""

        def priced(path: Path, index: int) -> QueryPlan:
            where = len(path) - 1 if at_end or index >= len(path) else index
            steps = [PlanStep(node.properties, path[: where + 1])] if where else []
            if wanted != node.properties or where < len(path) - 1 or not steps:
                steps.append(PlanStep(wanted, path[where:]))
            return self._priced(node, tuple(steps))

        way = self.network.way(tap, site)
        if way is None:
            return
        indices = [0] if at_end is not None or wanted == node.properties else range(len(way))
        for index in indices:
            yield from plans_around(self.bypass, self.installed, tap, site, partial(priced, index=index))

    def _priced(self, node: Node, steps: tuple[PlanStep, ...]) -> QueryPlan:
        """The last step is the query; those before carry the node on as it is."""
        added = Added(self.network, self.model)
        *forward, last = steps
        for step in forward:
            added.charge(step.path, 0.0, node.frequency, node.traffic)
        flow = self._flow(last.properties)
        work = self.model.work_of(last.properties, node.properties, node.frequency, flow.selected)
        added.charge(last.path, work, flow.frequency, flow.traffic)
        return self._with_cost(QueryPlan(node.number, steps, added.loads, added.traffic))

    def _flow(self, wanted: Properties) -> Flow:
        """Returns the flow of a query; for the one that is being planned it is computed once."""
        if self._planned is None or self._planned[0] is not wanted:
            self._planned = (wanted, self.model.flow(wanted))
        return self._planned[1]

    def _with_cost(self, plan: QueryPlan) -> QueryPlan:
        network, free = self.network, self.installed
        links = {
            ends: (added / network.links[ends].bandwidth, free.free_bandwidth(ends))
            for ends, added in plan.traffic.items()
        }
        sites = {
            site: (load / network.sites[site].capacity, free.free_load(site))
            for site, load in plan.loads.items()
        }
        full: dict[str | Pair, float] = {
            name: added - left
            for used in (sites, links)
            for name, (added, left) in used.items()
            if added > 0 and added > left
        }
        cost = self.model.cost(links.values(), sites.values())
        return replace(plan, cost=cost, full=tuple(full), lacking=tuple(full.values()))

    def _widenings(self, wanted: Properties, site: str) -> Iterator[QueryPlan]:
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
                        steps, widening = (PlanStep(wanted, way),), Widening(number, loose)
                        yield self._with_cost(
                            QueryPlan(number, steps, added.loads, added.traffic, widening=widening)
                        )


def _same_windows(wide: Properties, narrow: Properties) -> bool:
    """Whether no window has to be made from others."""
    if wide.aggregated is None or narrow.aggregated is None:
        return True
    one, other = wide.aggregated.window, narrow.aggregated.window
    return (one.size, one.step) == (other.size, other.step)


# --- ways around full links and sites ---


def plans_around(
    scheme: Bypass, installed: Installed, start: str, end: str, priced: Callable[[Path], QueryPlan]
) -> Iterator[QueryPlan]:
    """Yields plans over the ways that a scheme finds, the shortest first.

    - REDUCED (the paper's default): the shortest way; if it overloads links or sites, the shortest way
      without them, and so on until nothing is overloaded or no way is left.
    - WEIGHTED: one way, the lightest when links and sites weigh more the fuller they are.
    - NONE: the shortest way only.
    """
    network = installed.network
    path = lightest(installed, start, end) if scheme is Bypass.WEIGHTED else network.way(start, end)
    if path is None:
        return
    plan = priced(path)
    yield plan
    if scheme is Bypass.REDUCED and len(path) > 1:
        yield from _reduced(network, plan, path, priced)


def _reduced(
    network: Network, plan: QueryPlan, path: Path, priced: Callable[[Path], QueryPlan]
) -> Iterator[QueryPlan]:
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


# --- widening (StreamGlobe 8) ---


def widened(node: Node, wanted: Properties, installed: Installed) -> Properties | None:
    """Returns what a node must carry to contain a new query as well; None where its parent cannot give that.

    Those who read the node get the same rows, made from the wider stream:

        node: ra 120..130, made at A, carried A -> B, read by q1       q2 at B asks for ra 125..138
        widened: ra 120..138 on the way A -> B; at B one filter for q1 and one for q2
    """
    stream = node.properties
    if node.parent is None or stream.aggregated is not None or stream.stream != wanted.stream:
        return None
    around = hull(stream.selection, wanted.selection)
    if around is None or not stream.operators <= wanted.operators:
        return None
    loose = replace(stream, selection=around)
    users = [wanted, *(installed.nodes[child].properties for child in node.children)]
    columns = stream.columns | columns_of(residual(stream.selection, around))
    for user in users:
        columns |= needs(user, loose)
    loose = replace(loose, columns=columns)
    above = installed.nodes[node.parent].properties
    fits = shareable(above, loose) and all(shareable(loose, user) for user in [stream, *users])
    return loose if fits and loose != stream else None


def added_by(node: Node, loose: Properties, wanted: Properties, path: Path, installed: Installed) -> Added:
    """Returns what a widened node adds to sites and links: the node itself, what is made from it, its
    readers, and the new query from there on."""
    model = installed.model
    added = Added(installed.network, model)
    assert node.parent is not None
    above = installed.nodes[node.parent].properties
    flow = model.flow(loose)
    added.charge(
        node.path,
        model.work(loose, above) - node.work,
        flow.frequency - node.frequency,
        flow.traffic - node.traffic,
    )
    for child in (installed.nodes[number] for number in node.children):
        added.charge(child.path[:1], model.work(child.properties, loose) - child.work, 0.0, 0.0)
    if node.subscribers:
        added.charge(node.path[-1:], model.work(node.properties, loose), 0.0, 0.0)
    own = model.flow(wanted)
    added.charge(path, model.work(wanted, loose), own.frequency, own.traffic)
    return added
