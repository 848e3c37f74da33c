"""The plan of a network, explained: who reads what from where, and what travels; planned and measured."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from anabranch.planning.installed import Installed, Node, QueryPlan
from anabranch.planning.network import Pair, pair
from anabranch.sites.measured import SiteMeasures
from anabranch.sites.planner import NetworkState, Registered


def explained(state: NetworkState, measured: SiteMeasures) -> dict[str, Any]:
    """Returns `links`, `sites`, `flows` and `subscriptions`, for people and programs."""
    deployments = state.deployments()
    planned = planned_bytes(state, measured)
    links = [
        {
            "between": list(state.file.between[ends]),
            "bandwidth": link.bandwidth * 8,
            "bytes": measured.bytes(ends),
            "planned_bytes": round(planned[ends]),
        }
        for ends, link in state.file.network.links.items()
    ]
    sites = [
        {
            "name": name,
            "capacity": site.capacity,
            "cpu_seconds": round(measured.cpu_seconds(name), 3),
            "nodes": len(deployments[name].queries),
        }
        for name, site in state.file.network.sites.items()
    ]
    carried = [node for node in state.installed.nodes.values() if len(node.path) > 1]
    return {
        "strategy": state.file.planner.strategy.value,
        "links": links,
        "sites": sites,
        "flows": [_flow(node) for node in carried],
        "subscriptions": [_subscription(one, state.installed) for one in state.active()],
    }


def planned_bytes(state: NetworkState, measured: SiteMeasures) -> dict[Pair, float]:
    """Returns what the plan expects on each link for the items that have been read so far."""
    out = dict.fromkeys(state.file.network.links, 0.0)
    model = state.installed.model
    for node in state.installed.nodes.values():
        stream = node.properties.stream
        items = measured.books(stream).get("processed", 0)
        each = model.traffic(node.properties) / max(model.statistics[stream].rate, 1e-12)
        for one, other in pairwise(node.path):
            out[pair(one, other)] += each * items
    return out


def _flow(node: Node) -> dict[str, Any]:
    return {
        "flow": node.number,
        "carries": node.properties.text,
        "path": list(node.path),
        "made_from": node.parent,
        "read_by": sorted(node.subscribers),
    }


def _subscription(one: Registered, installed: Installed) -> dict[str, Any]:
    return {
        "name": one.name,
        "site": one.site,
        "query": one.query,
        "ways": [way_of(part.name, installed) for part in one.parts],
    }


def way_of(name: str, installed: Installed) -> list[dict[str, Any]]:
    """Returns the streams behind a subscription, from its site back to where its stream is registered."""
    out = []
    number: int | None = installed.reads[name]
    while number is not None:
        node = installed.nodes[number]
        out.append({"node": number, "carries": node.properties.text, "path": list(node.path)})
        number = node.parent
    return out


def chosen(plan: QueryPlan, installed: Installed) -> list[str]:
    """Says in words what a plan takes, what it adds, and what that costs."""
    parent = installed.nodes[plan.parent]
    what = "registered stream" if parent.parent is None else f"flow {parent.number}"
    if not plan.steps:
        return [f"reads {what} at {parent.path[-1]}, which is there already: {parent.properties.text}"]
    lines = [f"takes {what} at {plan.steps[0].path[0]}: {parent.properties.text}"]
    for step in plan.steps:
        carried = " -> ".join(step.path)
        how = f"carried {carried}" if len(step.path) > 1 else "where it is read"
        lines.append(f"makes {step.properties.text} at {step.path[0]}, {how}")
    links, sites = installed.network.links, installed.network.sites
    for ends, traffic in plan.traffic.items():
        part = 100 * traffic / links[ends].bandwidth
        lines.append(f"adds {traffic * 8:,.0f} bits/s to {ends[0]} - {ends[1]} ({part:.3g} % of it)")
    for site, load in plan.loads.items():
        if load > 0:
            lines.append(f"adds {100 * load / sites[site].capacity:.3g} % of {site}")
    return [*lines, f"costs {plan.cost:.3g}, the least of the plans that were compared"]
