"""Who shares what with whom: the groups that the subscriptions of a stream fall into.

In: bound subscriptions. Out: groups, those of filters in a forest: a condition hangs below the tightest one
that contains it, so it is looked at only on the items that passed that one. Never: how it runs; the families
decide that.

    en > 1              ibm, all of it        asked by 2
      en > 1 AND ra < 5   left                asked by 1, on the items of its parent
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from anabranch.catalog.entries import NewSubscription
from anabranch.families.filters.forest import Forest
from anabranch.families.filters.made import made_of, widened
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.model.stream import Stream
from anabranch.predicates.conjunction import Normal
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import from_json
from anabranch.predicates.text import normal_text
from anabranch.sharing.properties import Properties, properties_of

EVERY_ITEM = "every item"
#: Properties that are kept: a plan is made again when one of thousands of subscriptions comes or goes.
MOST_KEPT = 1 << 15
KINDS: dict[str, type[Select | Aggregate]] = {"select": Select, "aggregate": Aggregate}


@dataclass
class Group:
    """Subscriptions that share work. `shared` says what they have in common, `parent` is the place of the
    group whose items this one is chosen from."""

    stream: str
    family: str
    shared: str
    condition: Normal
    members: list[NewSubscription] = field(default_factory=list)
    parent: int | None = None
    depth: int = 0

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]


def groups_of(asked: Iterable[NewSubscription], streams: Mapping[str, Stream]) -> list[Group]:
    """All groups; a group comes after its parent."""
    by_place: dict[tuple[str, str], list[NewSubscription]] = {}
    for one in asked:
        by_place.setdefault((one.stream, one.family), []).append(one)
    out: list[Group] = []
    for (stream, family), members in by_place.items():
        first = len(out)
        made = (
            _filters(members, streams[stream]) if family == "filters" else _others(members, streams[stream])
        )
        for group in made:
            group.parent = None if group.parent is None else group.parent + first
        out += made
    return out


def wanted(kind: str, spec: dict[str, Any], stream: Stream) -> Properties:
    """What a selection or an aggregate asks for. The spec is looked up as text, in which 1 and 1.0 differ."""
    return _wanted(kind, json.dumps(spec), stream)


@lru_cache(MOST_KEPT)
def _wanted(kind: str, spec: str, stream: Stream) -> Properties:
    return properties_of(KINDS[kind].from_json(json.loads(spec)), stream)


def _condition(one: NewSubscription, stream: Stream) -> Normal:
    return normal_form(from_json(one.spec["condition"]), stream)


def _text(normal: Normal) -> str:
    text = normal_text(normal)
    return EVERY_ITEM if text == "true" else text


def _filters(members: Sequence[NewSubscription], stream: Stream) -> list[Group]:
    """A group a node of the forest that the family itself would build, depth first."""
    normals = [wanted(one.kind, one.spec, stream).selection for one in members]
    forest = Forest.build(normals, widened(stream, (made for one in members for made in made_of(one.spec))))
    places = {node: place for place, node in enumerate(forest.nodes)}
    groups = [
        Group(stream.name, "filters", _text(forest.normal(node)), forest.normal(node)) for node in places
    ]
    for one, normal in zip(members, normals, strict=True):
        groups[places[forest.node_of(normal)]].members.append(one)
    return _depth_first(groups, [places.get(forest.parent(node)) for node in places])


def _depth_first(groups: list[Group], parents: list[int | None]) -> list[Group]:
    children: dict[int | None, list[int]] = {}
    for place, parent in enumerate(parents):
        children.setdefault(parent, []).append(place)
    out: list[Group] = []
    stack: list[tuple[int, int | None, int]] = [
        (place, None, 0) for place in reversed(children.get(None, []))
    ]
    while stack:
        place, parent, depth = stack.pop()
        group = groups[place]
        group.parent, group.depth = parent, depth
        here = len(out)
        out.append(group)
        stack += [(child, here, depth + 1) for child in reversed(children.get(place, []))]
    return out


def _others(members: Sequence[NewSubscription], stream: Stream) -> list[Group]:
    """nearest and clusters share by coordinates, all kinds by the condition on the items."""
    groups: dict[str, Group] = {}
    for one in members:
        by = one.spec.get("by")
        parts = [f"by ({', '.join(by)})"] if by else []
        condition = _condition(one, stream)
        parts.append(_text(condition))
        shared = ", ".join(parts)
        groups.setdefault(shared, Group(stream.name, one.family, shared, condition)).members.append(one)
    return list(groups.values())


def summary(groups: Sequence[Group]) -> list[str]:
    """One line a stream and family: what it costs, and what it would cost alone."""
    out = []
    for stream, family in dict.fromkeys((group.stream, group.family) for group in groups):
        own = [group for group in groups if (group.stream, group.family) == (stream, family)]
        asked = sum(len(group.members) for group in own)
        line = f"{stream}, {family}: {_count(asked, 'subscription')}"
        if family == "filters":
            roots = sum(group.parent is None for group in own)
            line += f", {_count(len(own), 'condition')}: {roots} looked at for every item"
            line += f", {len(own) - roots} only for what passes another" if len(own) > roots else ""
        else:
            line += f" in {_count(len(own), 'group')}"
        out.append(line)
        users = Counter(made.name for group in own for one in group.members for made in made_of(one.spec))
        for name, count in sorted(users.items()):
            out.append(f"{stream}, {family}: {name} is made once for {_count(count, 'subscription')}")
    return out


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
