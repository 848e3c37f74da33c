"""What sharing groups cost: rows, bytes and CPU of each, and what each subscription costs alone and shared.

Costs are per 1,000 items of the stream and come from the cost model. Its CPU is that of a reference machine,
so only ratios mean something. What a group costs is divided among all subscriptions at and below it: all of
them together pay what runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.model.stream import Stream
from anabranch.planning.cost import CostModel
from anabranch.planning.matching import needs
from anabranch.planning.properties import Properties, source_properties
from anabranch.planning.selections import columns_of, residual
from anabranch.planning.sharing_groups import SharingGroup, query_properties
from anabranch.planning.statistics import Statistics

#: Costs are for so many items of the stream.
ITEMS = 1000.0


@dataclass(frozen=True)
class GroupCost:
    """Rows that pass the condition of a group, bytes of the columns of them that are used, CPU in
    microseconds; None where the cost model knows nothing about the family."""

    rows: float
    bytes: float | None
    cpu: float | None


@dataclass
class SharingCosts:
    groups: list[GroupCost] = field(default_factory=list)
    alone: dict[str, float] = field(default_factory=dict)  # subscription -> CPU in microseconds
    shared: dict[str, float] = field(default_factory=dict)


def costs_of(
    groups: Sequence[SharingGroup], streams: Mapping[str, Stream], statistics: Mapping[str, Statistics]
) -> SharingCosts:
    """Returns the costs of groups of which parents come before their children."""
    model, out = CostModel(statistics), SharingCosts()
    properties = [_properties(group, streams[group.stream]) for group in groups]
    users, columns = _users(groups), _columns(groups, properties, streams)
    # what each subscription at or below a group pays for its condition and those above it
    paid: list[float] = []
    for index, group in enumerate(groups):
        source = source_properties(streams[group.stream])
        passed = replace(source, selection=group.condition)
        rows = model.frequency(passed)
        if group.family != "filters":
            paid.append(0.0)
            out.groups.append(GroupCost(rows, None, None))
            continue
        above = source if group.parent is None else replace(source, selection=groups[group.parent].condition)
        spent = model.work(passed, above) * 1e6
        paid.append(spent / users[index] + (0.0 if group.parent is None else paid[group.parent]))
        distinct: dict[Properties, list[str]] = {}
        for name, one in properties[index].items():
            distinct.setdefault(one, []).append(name)
        work = _work(distinct, passed, model)
        for one, names in distinct.items():
            spent += work[one] * 1e6
            alone = model.work(passed, source) + _work([one], passed, model)[one]
            out.alone |= dict.fromkeys(names, alone * 1e6)
            out.shared |= dict.fromkeys(names, paid[index] + work[one] * 1e6 / len(names))
        size = model.size(replace(passed, columns=columns[index]))
        out.groups.append(GroupCost(rows, rows * size, spent))
    return out


def _properties(group: SharingGroup, stream: Stream) -> dict[str, Properties]:
    """Returns the properties of each subscription of a group of filters."""
    if group.family != "filters":
        return {}
    return {one.name: query_properties(one.kind, one.spec, stream) for one in group.members}


def _work(distinct: Collection[Properties], passed: Properties, model: CostModel) -> dict[Properties, float]:
    """Returns the work that each distinct query adds to that of its group.

    Aggregates share slices: an item is added to its slice once for all of them, and each composes its windows
    from slices no longer than the least step.
    """
    windows = {one: one.aggregated.window for one in distinct if one.aggregated is not None}
    add_items = model.frequency(passed) * model.loads.aggregate / max(len(windows), 1)
    out = {one: model.work(one, passed) for one in distinct if one not in windows}
    for one, window in windows.items():
        least = min(other.step for other in windows.values() if other.unit == window.unit)
        slices = max(1.0, window.size / least)
        out[one] = add_items + model.frequency(one) * slices * model.loads.combine
    return out


def _users(groups: Sequence[SharingGroup]) -> list[int]:
    """Returns how many subscriptions are at or below each group."""
    users = [len(group.members) for group in groups]
    for index in reversed(range(len(groups))):
        parent = groups[index].parent
        if parent is not None:
            users[parent] += users[index]
    return users


def _columns(
    groups: Sequence[SharingGroup], properties: Sequence[dict[str, Properties]], streams: Mapping[str, Stream]
) -> list[frozenset[str]]:
    """Returns the columns that are read of the items of each group, at it and below, without those that
    operators compute."""
    columns = [frozenset(column for one in own.values() for column in _read(one)) for own in properties]
    for index in reversed(range(len(groups))):
        parent = groups[index].parent
        if parent is not None:
            left = residual(groups[index].condition, groups[parent].condition)
            columns[parent] |= columns[index] | columns_of(left)
    own = ({column.name for column in streams[group.stream].columns} for group in groups)
    return [read & names for read, names in zip(columns, own, strict=True)]


def _read(one: Properties) -> Iterator[str]:
    yield from needs(one, one)
    for made in one.operators:
        yield from made.reads


def cost_summary(costs: SharingCosts) -> list[str]:
    """Returns a line that says what sharing saves; none where nothing is known."""
    alone, shared = sum(costs.alone.values()), sum(costs.shared.values())
    if not alone or not shared:
        return []
    ratio = f"{alone / shared:.1f} times as much"
    return [f"CPU for {ITEMS:,.0f} items: {shared:,.0f} us as it is shared, {alone:,.0f} us alone: {ratio}"]
