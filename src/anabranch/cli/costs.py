"""What a plan costs: rows, bytes and CPU of every group, and what each subscription costs alone and shared.

In: groups, and statistics of their streams. Out: costs of 1,000 items of the stream. Never: a run; the CPU is
the cost model's, in units of its reference machine, so only ratios mean something.

What a group takes is split among all subscriptions at and below it, so what all pay together is what runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.cli.sharing import Group, wanted
from anabranch.model.stream import Stream
from anabranch.sharing.conditions import columns_of, residual
from anabranch.sharing.cost import CostModel
from anabranch.sharing.properties import Properties, source_properties
from anabranch.sharing.shareability import needs
from anabranch.sharing.statistics import Statistics

#: Costs are for so many items of the stream.
ITEMS = 1000.0


@dataclass(frozen=True)
class GroupCost:
    """Rows that pass the group's condition, bytes of the columns that are used of them, CPU in microseconds;
    None where the cost model knows nothing about the family."""

    rows: float
    bytes: float | None
    cpu: float | None


@dataclass
class Costs:
    groups: list[GroupCost] = field(default_factory=list)
    alone: dict[str, float] = field(default_factory=dict)  # subscription -> CPU in microseconds
    shared: dict[str, float] = field(default_factory=dict)


def costs_of(
    groups: Sequence[Group], streams: Mapping[str, Stream], statistics: Mapping[str, Statistics]
) -> Costs:
    """Parents come before their children in `groups`."""
    model, out = CostModel(statistics), Costs()
    asked = [_asked(group, streams[group.stream]) for group in groups]
    users, columns = _users(groups), _columns(groups, asked, streams)
    paid: list[
        float
    ] = []  # by each subscription at or below a group, for the conditions above it and its own
    for place, group in enumerate(groups):
        source = source_properties(streams[group.stream])
        passed = replace(source, selection=group.condition)
        rows = model.frequency(passed)
        if group.family != "filters":
            paid.append(0.0)
            out.groups.append(GroupCost(rows, None, None))
            continue
        above = source if group.parent is None else replace(source, selection=groups[group.parent].condition)
        spent = model.work(passed, above) * 1e6
        paid.append(spent / users[place] + (0.0 if group.parent is None else paid[group.parent]))
        distinct: dict[Properties, list[str]] = {}
        for name, one in asked[place].items():
            distinct.setdefault(one, []).append(name)
        work = _work(distinct, passed, model)
        for one, names in distinct.items():
            spent += work[one] * 1e6
            alone = model.work(passed, source) + _work([one], passed, model)[one]
            out.alone |= dict.fromkeys(names, alone * 1e6)
            out.shared |= dict.fromkeys(names, paid[place] + work[one] * 1e6 / len(names))
        size = model.size(replace(passed, columns=columns[place]))
        out.groups.append(GroupCost(rows, rows * size, spent))
    return out


def _asked(group: Group, stream: Stream) -> dict[str, Properties]:
    """The properties of each subscription of a group of filters."""
    if group.family != "filters":
        return {}
    return {one.name: wanted(one.kind, one.spec, stream) for one in group.members}


def _work(distinct: Collection[Properties], passed: Properties, model: CostModel) -> dict[Properties, float]:
    """What each distinct query adds to the items of its group.

    Aggregates share slices: an item is added to its slice once for all of them, and each composes its windows
    from slices no longer than the least step.
    """
    windows = {one: one.aggregated.window for one in distinct if one.aggregated is not None}
    lifting = model.frequency(passed) * model.loads.aggregate / max(len(windows), 1)
    out = {one: model.work(one, passed) for one in distinct if one not in windows}
    for one, window in windows.items():
        least = min(other.step for other in windows.values() if other.unit == window.unit)
        slices = max(1.0, window.size / least)
        out[one] = lifting + model.frequency(one) * slices * model.loads.combine
    return out


def _users(groups: Sequence[Group]) -> list[int]:
    """How many subscriptions are at or below each group."""
    users = [len(group.members) for group in groups]
    for place in reversed(range(len(groups))):
        parent = groups[place].parent
        if parent is not None:
            users[parent] += users[place]
    return users


def _columns(
    groups: Sequence[Group], asked: Sequence[dict[str, Properties]], streams: Mapping[str, Stream]
) -> list[frozenset[str]]:
    """What is read of the items of each group, at it and below, without what operators make."""
    columns = [frozenset(column for one in those.values() for column in _read(one)) for those in asked]
    for place in reversed(range(len(groups))):
        parent = groups[place].parent
        if parent is not None:
            left = residual(groups[place].condition, groups[parent].condition)
            columns[parent] |= columns[place] | columns_of(left)
    own = ({column.name for column in streams[group.stream].columns} for group in groups)
    return [read & names for read, names in zip(columns, own, strict=True)]


def _read(one: Properties) -> Iterator[str]:
    yield from needs(one, one)
    for made in one.operators:
        yield from made.reads


def summary(costs: Costs) -> list[str]:
    """What sharing saves."""
    alone, shared = sum(costs.alone.values()), sum(costs.shared.values())
    if not alone or not shared:
        return []
    ratio = f"{alone / shared:.1f} times as much"
    return [f"CPU for {ITEMS:,.0f} items: {shared:,.0f} us as it is shared, {alone:,.0f} us alone: {ratio}"]
