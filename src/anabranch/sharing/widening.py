"""Loosening a stream that runs so that it contains a new query, too (StreamGlobe 8: widened streams).

In: a node, a query, and where it is wanted. Out: what the node would have to carry, and a plan with its cost.
Never: a difference for those who read the node: they get the same rows, made from the wider stream.

    node: ra 120..130, made at A, carried A -> B, read by q1       q2 at B asks ra 125..138
    widened: ra 120..138 on the way A -> B; at B one filter for q1 and one for q2
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.sharing.conditions import columns_of, hull, residual
from anabranch.sharing.installed import Added, Installed, Node
from anabranch.sharing.network import Path
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


def added_by(node: Node, loose: Properties, wanted: Properties, path: Path, installed: Installed) -> Added:
    """What it would add to sites and links: the node itself, what is made from it, who reads it, and the new
    query from there on."""
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
    asked = model.flow(wanted)
    added.charge(path, model.work(wanted, loose), asked.frequency, asked.traffic)
    return added
