"""Who shares what with whom: the groups that the queries of a stream fall into.

Queries with the same condition are one group. A group of filters hangs below the tightest condition that
contains its own, so that its condition is tested only on the items that passed that one:

    en > 1                   2 subscriptions
      en > 1 AND ra < 5      1 subscription, on the items of its parent

How the queries run is decided by their families; this describes it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from anabranch.families.filters.computed_columns import made_of, widened
from anabranch.families.filters.forest import Forest
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.model.stream import Stream
from anabranch.planning.properties import Properties, properties_of
from anabranch.predicates.conjunction import Normal
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import from_json
from anabranch.predicates.text import normal_text

EVERY_ITEM = "every item"
#: Properties that are kept: plans are built again when one of thousands of subscriptions is added or removed.
MOST_KEPT = 1 << 15
KINDS: dict[str, type[Select | Aggregate]] = {"select": Select, "aggregate": Aggregate}


class PlannedQuery(Protocol):
    """A subscription with its query as data, wherever it is kept."""

    @property
    def name(self) -> str: ...
    @property
    def stream(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def spec(self) -> dict[str, Any]: ...


@dataclass
class SharingGroup:
    """Queries that share work. `shared` says what they have in common; `parent` is the index of the group
    whose items this one selects from."""

    stream: str
    family: str
    shared: str
    condition: Normal
    members: list[PlannedQuery] = field(default_factory=list)
    parent: int | None = None
    depth: int = 0

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]


def groups_of(queries: Iterable[PlannedQuery], streams: Mapping[str, Stream]) -> list[SharingGroup]:
    """Returns all groups; a group comes after its parent."""
    by_family: dict[tuple[str, str], list[PlannedQuery]] = {}
    for query in queries:
        by_family.setdefault((query.stream, query.family), []).append(query)
    out: list[SharingGroup] = []
    for (stream, family), members in by_family.items():
        first, build = len(out), _filter_groups if family == "filters" else _other_groups
        groups = build(members, streams[stream])
        for group in groups:
            group.parent = None if group.parent is None else group.parent + first
        out += groups
    return out


def query_properties(kind: str, spec: dict[str, Any], stream: Stream) -> Properties:
    """Returns the properties of a select or aggregate query. The spec is looked up as text, in which 1 and
    1.0 differ."""
    return _query_properties(kind, json.dumps(spec), stream)


@lru_cache(MOST_KEPT)
def _query_properties(kind: str, spec: str, stream: Stream) -> Properties:
    return properties_of(KINDS[kind].from_json(json.loads(spec)), stream)


def _text(normal: Normal) -> str:
    text = normal_text(normal)
    return EVERY_ITEM if text == "true" else text


def _filter_groups(members: Sequence[PlannedQuery], stream: Stream) -> list[SharingGroup]:
    """Returns a group per node of the forest that the family itself would build, depth first."""
    normals = [query_properties(one.kind, one.spec, stream).selection for one in members]
    forest = Forest.build(normals, widened(stream, (made for one in members for made in made_of(one.spec))))
    indices = {node: index for index, node in enumerate(forest.nodes)}
    groups = [
        SharingGroup(stream.name, "filters", _text(forest.normal(node)), forest.normal(node))
        for node in indices
    ]
    for one, normal in zip(members, normals, strict=True):
        groups[indices[forest.node_of(normal)]].members.append(one)
    return _depth_first(groups, [indices.get(forest.parent(node)) for node in indices])


def _depth_first(groups: list[SharingGroup], parents: list[int | None]) -> list[SharingGroup]:
    children: dict[int | None, list[int]] = {}
    for index, parent in enumerate(parents):
        children.setdefault(parent, []).append(index)
    out: list[SharingGroup] = []
    stack: list[tuple[int, int | None, int]] = [
        (index, None, 0) for index in reversed(children.get(None, []))
    ]
    while stack:
        index, parent, depth = stack.pop()
        group = groups[index]
        group.parent, group.depth = parent, depth
        here = len(out)
        out.append(group)
        stack += [(child, here, depth + 1) for child in reversed(children.get(index, []))]
    return out


def _other_groups(members: Sequence[PlannedQuery], stream: Stream) -> list[SharingGroup]:
    """nearest and clusters share by coordinates, all kinds by the condition on the items."""
    groups: dict[str, SharingGroup] = {}
    for one in members:
        by = one.spec.get("by")
        parts = [f"by ({', '.join(by)})"] if by else []
        condition = normal_form(from_json(one.spec["condition"]), stream)
        parts.append(_text(condition))
        shared = ", ".join(parts)
        groups.setdefault(shared, SharingGroup(stream.name, one.family, shared, condition)).members.append(
            one
        )
    return list(groups.values())


def group_summary(groups: Sequence[SharingGroup]) -> list[str]:
    """Returns a line per stream and family: how many subscriptions there are, and what they share."""
    out = []
    for stream, family in dict.fromkeys((group.stream, group.family) for group in groups):
        own = [group for group in groups if (group.stream, group.family) == (stream, family)]
        count = sum(len(group.members) for group in own)
        line = f"{stream}, {family}: {_count(count, 'subscription')}"
        if family == "filters":
            roots = sum(group.parent is None for group in own)
            line += f", {_count(len(own), 'condition')}: {roots} tested on every item"
            line += f", {len(own) - roots} only on what passes another" if len(own) > roots else ""
        else:
            line += f" in {_count(len(own), 'group')}"
        out.append(line)
        users = Counter(made.name for group in own for one in group.members for made in made_of(one.spec))
        for name, count in sorted(users.items()):
            out.append(f"{stream}, {family}: {name} is computed once for {_count(count, 'subscription')}")
    return out


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
