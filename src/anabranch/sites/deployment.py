"""From a plan to what each site runs: streams, queries, and the flows that it sends and passes on.

    plan      node 3: photons[en > 1.3](en, ra), made at plant1, carried plant1 -> hub -> office; hot reads it

    plant1    stream photons; query flow:3 on it; its results go to hub as flow 3
    hub       passes flow 3 on to office, as it is
    office    stream photons-3, which is flow 3; query hot on it

A node that stays at its site needs no query of its own: who reads it is a query on what the node is made
from, and the engine of the site shares what can be shared. Pure: no files, no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from anabranch.families.filters.spec import (
    Aggregate,
    Aggregation,
    Function,
    Output,
    Select,
    spec_of,
    with_normal,
)
from anabranch.families.registry import family as family_of
from anabranch.model.stream import Stream, Time
from anabranch.planning.installed import Installed, Node
from anabranch.planning.properties import ITEMS, Properties, canonical_name
from anabranch.planning.selections import residual, term_of
from anabranch.predicates.conjunction import EVERYTHING, Normal
from anabranch.predicates.terms import TRUE, Term
from anabranch.sites.wanted import Wanted, origin_at_site

#: How the names of queries begin that make a flow; a subscription cannot be called so.
FLOW_QUERY = "flow:"

START, END = "window_start", "window_end"


@dataclass(frozen=True)
class FlowHop:
    """A flow on one link: that of a node, from a site to the next."""

    node: int
    sender: str
    receiver: str


@dataclass(frozen=True)
class SiteStream:
    """A stream at a site: a registered one, or a flow that arrives (`hop`)."""

    stream: Stream
    properties: Properties
    hop: FlowHop | None = None


@dataclass(frozen=True)
class SiteQuery:
    """A query of the engine at a site, on one of its streams."""

    name: str
    stream: str
    family: str
    kind: str
    query: str
    spec: dict[str, Any]
    activate: Time | None = None
    cancel: Time | None = None
    origin: str = ""  # which registration it belongs to: a name may be registered again


@dataclass(frozen=True)
class Passage:
    """A flow that a site passes on as it is; `arrives` may be that of another node that carries the same."""

    arrives: FlowHop
    leaves: FlowHop


@dataclass
class Deployment:
    """What one site runs. `exports`: the flow that each query of ours makes."""

    streams: dict[str, SiteStream] = field(default_factory=dict)
    queries: dict[str, SiteQuery] = field(default_factory=dict)
    exports: dict[str, FlowHop] = field(default_factory=dict)
    passages: list[Passage] = field(default_factory=list)


def deployments(
    installed: Installed, wanted: Iterable[Wanted], streams: Mapping[str, Stream]
) -> dict[str, Deployment]:
    """Returns what each site runs so that every subscription gets its rows."""
    plan = _Plan(installed, streams)
    for node in installed.nodes.values():
        if node.parent is not None and len(node.path) > 1:
            plan.carry(node)
    for one in wanted:
        plan.subscribe(one)
    return plan.sites


class _Plan:
    def __init__(self, installed: Installed, streams: Mapping[str, Stream]) -> None:
        self.installed, self.registered = installed, streams
        self.sites = {site: Deployment() for site in installed.network.sites}
        self._flows: dict[int, Stream] = {}
        for name, site in installed.network.streams.items():
            properties = installed.nodes[installed.sources[name]].properties
            self.sites[site].streams[name] = SiteStream(streams[name], properties)

    def carry(self, node: Node) -> None:
        """Adds the query that makes a node, and the sites that pass it on."""
        first = node.path[0]
        hops = [FlowHop(node.number, *pair) for pair in pairwise(node.path)]
        from_ = self._input(node.parent, first)
        if from_.hop is not None and from_.properties == node.properties:
            self.sites[first].passages.append(Passage(from_.hop, hops[0]))
        else:
            query = self._making(node, from_)
            self.sites[first].queries[query.name] = query
            self.sites[first].exports[query.name] = hops[0]
        for arrives, leaves in pairwise(hops):
            self.sites[arrives.receiver].passages.append(Passage(arrives, leaves))

    def subscribe(self, wanted: Wanted) -> None:
        node = self.installed.nodes[self.installed.reads[wanted.name]]
        here = node.number if len(node.path) > 1 or node.parent is None else node.parent
        source = self._input(here, wanted.site)
        query = SiteQuery(
            wanted.name,
            source.stream.name,
            wanted.family,
            wanted.kind,
            wanted.query,
            wanted.spec if source.hop is None else _spec_on(wanted, source),
            wanted.activate,
            wanted.cancel,
            origin_at_site(wanted.number),
        )
        if source.properties.aggregated is not None:
            query = replace(query, kind="select")
        self.sites[wanted.site].queries[wanted.name] = query

    def _input(self, number: int | None, site: str) -> SiteStream:
        """Returns the stream at a site that holds what a node carries, or from which it is made there."""
        assert number is not None
        node = self.installed.nodes[number]
        if node.parent is None:
            return self.sites[site].streams[node.properties.stream]
        if site == node.path[0]:
            return self._input(node.parent, site)
        before = node.path[node.path.index(site) - 1]
        stream = self._flow(node)
        hop = FlowHop(number, before, site)
        return self.sites[site].streams.setdefault(stream.name, SiteStream(stream, node.properties, hop))

    def _making(self, node: Node, source: SiteStream) -> SiteQuery:
        spec = _node_spec(node.properties, source, self.registered[node.properties.stream])
        name, kind = f"{FLOW_QUERY}{node.number}", spec["kind"]
        return SiteQuery(name, source.stream.name, "filters", kind, node.properties.text, spec, origin=name)

    def _flow(self, node: Node) -> Stream:
        """Returns the stream that a flow is where it arrives."""
        if node.number not in self._flows:
            self._flows[node.number] = flow_stream(node, self.registered[node.properties.stream])
        return self._flows[node.number]


def flow_stream(node: Node, registered: Stream) -> Stream:
    name, properties = f"{registered.name}-{node.number}", node.properties
    if properties.aggregated is not None:
        spec = _aggregate_spec(properties, EVERYTHING, registered)
        _, shown = family_of("filters").shown(registered, spec.to_json())
        return Stream(name, tuple(one.column for one in shown), time=START, flow=True)
    columns = tuple(column for column in registered.columns if column.name in properties.columns)
    there = {column.name for column in columns}
    has_position = set(registered.position) <= there
    return replace(
        registered,
        name=name,
        columns=columns,
        lateness=0,
        id=registered.id if registered.id in there else None,
        object=registered.object if registered.object in there else None,
        position=registered.position if has_position else (),
        bounds=registered.bounds if has_position else (),
        metric=registered.metric if has_position else "euclidean",
        unit=registered.unit if has_position else None,
        apart=(),
        flow=True,
    )


# --- specs ---


def _node_spec(properties: Properties, source: SiteStream, registered: Stream) -> dict[str, Any]:
    """Returns the query that makes the stream of these properties."""
    left = residual(properties.selection, source.properties.selection)
    if properties.aggregated is not None:
        assert source.properties.aggregated is None, "windows are not made from windows"
        return with_normal(_aggregate_spec(properties, left, registered), source.stream).to_json()
    columns = [column.name for column in registered.columns if column.name in properties.columns]
    outputs = tuple(Output(name, name) for name in columns)
    return with_normal(Select(outputs, _term(left)), source.stream).to_json()


def _aggregate_spec(properties: Properties, left: Normal, registered: Stream) -> Aggregate:
    """Returns the aggregate whose columns are called as properties call them: `sum(en)`. An average travels
    beside its sum and count: it comes from the exact sum, which no flow carries.
    """
    aggregated = properties.aggregated
    assert aggregated is not None
    parts = sorted((part.column, part.function) for part in aggregated.parts)
    both = {column for column, one in parts if one is Function.SUM} & {
        column for column, one in parts if one is Function.COUNT
    }
    parts += [(column, Function.AVG) for column in sorted(both)]
    made = [Aggregation(function, column, f"{function.value}({column})") for column, function in parts]
    return Aggregate(tuple(made), aggregated.window, _term(left), _term(aggregated.having))


def _spec_on(wanted: Wanted, source: SiteStream) -> dict[str, Any]:
    """Returns the query of a subscriber on a flow: what is left of it to do."""
    if not wanted.whole:
        return wanted.spec
    spec = spec_of(wanted.spec)
    if source.properties.aggregated is not None:
        assert isinstance(spec, Aggregate)
        return _reading(spec, wanted.properties, source)
    left = residual(wanted.properties.selection, source.properties.selection)
    return with_normal(replace(spec, condition=_term(left), normal=None), source.stream).to_json()


def _reading(spec: Aggregate, properties: Properties, source: SiteStream) -> dict[str, Any]:
    """Returns the select that shows results of windows as the subscriber named them."""
    assert properties.aggregated is not None
    assert source.properties.aggregated is not None
    shown = [(name, name) for name in (START, END, ITEMS)]
    shown += [(canonical_name(one), one.name) for one in spec.aggregations if one.is_shown]
    left = residual(properties.aggregated.having, source.properties.aggregated.having)
    made = Select(tuple(Output(*pair) for pair in shown), _term(left))
    return with_normal(made, source.stream).to_json()


def _term(normal: Normal) -> Term:
    return TRUE if normal == EVERYTHING else term_of(normal)
