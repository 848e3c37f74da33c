"""Loosening a stream that runs so that it contains a new query, too (StreamGlobe 8: widened streams).

In: a node, a query, and where it is wanted. Out: what the node would have to carry, and a plan with its cost.
Never: a difference for those who read the node: they get the same rows, made from the wider stream.

    node: ra 120..130, made at A, carried A -> B, read by q1       q2 at B asks ra 125..138
    widened: ra 120..138 on the way A -> B; at B one filter for q1 and one for q2
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.sharing.conditions import columns_of, hull, residual
from anabranch.sharing.installed import Installed, Node, uses
from anabranch.sharing.network import Pair, Path
from anabranch.sharing.properties import Properties
from anabranch.sharing.shareability import needs, shareable


def widened(node: Node, wanted: Properties, installed: Installed) -> Properties | None:
    """The properties that the node needs, None where no such stream can be made from its parent."""
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


def added_by(
    node: Node, loose: Properties, wanted: Properties, path: Path, installed: Installed
) -> tuple[dict[str, float], dict[Pair, float]]:
    """What it would add to sites and links: the node itself, what is made from it, who reads it, and the new
    query from there on."""
    model, network = installed.model, installed.network
    loads: dict[str, float] = {}
    traffic: dict[Pair, float] = {}

    def charge(path: Path, work: float, frequency: float, amount: float) -> None:
        more_loads, more_traffic = uses(network, model, path, work, frequency, amount)
        for site, load in more_loads.items():
            loads[site] = loads.get(site, 0.0) + load
        for ends, added in more_traffic.items():
            traffic[ends] = traffic.get(ends, 0.0) + added

    assert node.parent is not None
    above = installed.nodes[node.parent].properties
    charge(
        node.path,
        model.work(loose, above) - node.work,
        model.frequency(loose) - node.frequency,
        model.traffic(loose) - node.traffic,
    )
    for child in (installed.nodes[number] for number in node.children):
        charge(child.path[:1], model.work(child.properties, loose) - child.work, 0.0, 0.0)
    if node.subscribers:
        charge(node.path[-1:], model.work(node.properties, loose), 0.0, 0.0)
    charge(path, model.work(wanted, loose), model.frequency(wanted), model.traffic(wanted))
    return loads, traffic
