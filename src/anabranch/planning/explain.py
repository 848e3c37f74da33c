"""What `anabranch explain` and the dashboard show: who shares what with whom, and what it costs.

explanation = explained(queries, streams, {"photons": sample})
explanation.to_json()      # {"summary": [...], "groups": [...], "subscriptions": [...]}
explanation.mermaid()      # a diagram
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.model.stream import Stream
from anabranch.planning.group_costs import ITEMS, GroupCost, SharingCosts, cost_summary, costs_of
from anabranch.planning.sharing_groups import PlannedQuery, SharingGroup, group_summary, groups_of
from anabranch.planning.statistics import Statistics

if TYPE_CHECKING:
    import pyarrow as pa

#: So many names of a group are shown.
MOST_NAMED = 8
UNKNOWN = "-"

TITLE = ("stream", "family", "shared", "rows", "bytes", "CPU us", "subscriptions", "names")
NUMBERS = ("rows", "bytes", "CPU us", "subscriptions")

#: Items of a stream and where they are from; or None and why there are none.
Sample = tuple["pa.RecordBatch | None", str]


@dataclass(frozen=True)
class Explanation:
    groups: list[SharingGroup]
    costs: SharingCosts
    summary: list[str]
    #: By stream, family and the papers' names: how many messages a job that has run has sent.
    messages: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns a row per group for a table with the columns TITLE."""
        return [
            (
                group.stream,
                group.family,
                "  " * group.depth + group.shared,
                *_numbers(cost),
                len(group.members),
                _named(group.names),
            )
            for group, cost in zip(self.groups, self.costs.groups, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        groups = [
            {
                "group": index,
                "stream": group.stream,
                "family": group.family,
                "shared": group.shared,
                "parent": group.parent,
                "rows": cost.rows,
                "bytes": cost.bytes,
                "cpu_us": cost.cpu,
                "subscriptions": [{"name": member.name, "kind": member.kind} for member in group.members],
            }
            for index, (group, cost) in enumerate(zip(self.groups, self.costs.groups, strict=True))
        ]
        subscriptions = [
            {"name": name, "cpu_alone_us": alone, "cpu_shared_us": self.costs.shared[name]}
            for name, alone in self.costs.alone.items()
        ]
        return {
            "summary": self.summary,
            "groups": groups,
            "subscriptions": subscriptions,
            "messages": self.messages,
        }

    def mermaid(self) -> str:
        """Returns a diagram: streams at the top, below them what is shared, and the subscriptions."""
        lines = ["flowchart TD"]
        names = dict.fromkeys(group.stream for group in self.groups)
        streams = {stream: index for index, stream in enumerate(names)}
        lines += [f'  s{index}[("{_label(stream)}")]' for stream, index in streams.items()]
        for index, group in enumerate(self.groups):
            above = f"s{streams[group.stream]}" if group.parent is None else f"g{group.parent}"
            what = group.shared if group.family == "filters" else f"{group.family} {group.shared}"
            rows, size, cpu = _numbers(self.costs.groups[index])
            cost = f"{rows} rows" if cpu == UNKNOWN else f"{rows} rows, {size} bytes, {cpu} us"
            lines.append(f'  {above} --> g{index}["{_label(what)}<br/>{cost}"]')
            lines.append(f'  g{index} --- q{index}(["{_label(_named(group.names))}"])')
        return "\n".join(lines)


def explained(
    queries: Iterable[PlannedQuery], streams: Mapping[str, Stream], samples: Mapping[str, Sample]
) -> Explanation:
    groups = groups_of(queries, streams)
    statistics, basis = statistics_of(streams, samples)
    costs = costs_of(groups, streams, statistics)
    return Explanation(groups, costs, [*group_summary(groups), *cost_summary(costs), *basis])


def statistics_of(
    streams: Mapping[str, Stream], samples: Mapping[str, Sample]
) -> tuple[dict[str, Statistics], list[str]]:
    """Returns statistics of a sample of each stream, as if 1,000 items came per second; and a line per stream
    that says what they rest on.
    """
    found, said = {}, []
    for name, stream in streams.items():
        known = found[name] = Statistics(stream)
        rows, where = samples[name]
        if rows is None:
            known.rate = ITEMS
            said.append(f"{name}: costs rest on defaults (a range lets a third of the items pass): {where}")
        else:
            known.observe(rows, rows.num_rows / ITEMS)
            said.append(f"{name}: costs rest on {where}")
    return found, said


def _numbers(cost: GroupCost) -> tuple[str, ...]:
    return tuple(UNKNOWN if one is None else f"{one:,.0f}" for one in (cost.rows, cost.bytes, cost.cpu))


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _label(text: str) -> str:
    """Mermaid reads HTML's entities, written with # instead of &."""
    return "".join(f"#{ord(letter)};" if letter in '#&"<>' else letter for letter in text)
