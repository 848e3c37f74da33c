"""What `anabranch explain` and the dashboard show: who shares what with whom, and what it costs.

explanation = explained(queries, streams, {"photons": sample})
explanation.to_json()      # {"summary": [...], "groups": [...], "measured": [...], "messages": {...}}
explanation.mermaid()      # a diagram

How many items pass a condition is estimated from a sample of the source. What the stages of all families took
is measured, once the job has run. The summary says which is which; what is not known is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.model.stream import Stream
from anabranch.planning.group_costs import ITEMS, Estimate, estimates_of
from anabranch.planning.sharing_groups import PlannedQuery, SharingGroup, group_summary, groups_of
from anabranch.planning.statistics import Statistics

if TYPE_CHECKING:
    import pyarrow as pa

#: So many names of a group are shown.
MOST_NAMED = 8
UNKNOWN = "-"

TITLE = ("stream", "family", "shared", "rows", "bytes", "subscriptions", "names")
NUMBERS = ("rows", "bytes", "subscriptions")
MEASURED_TITLE = ("stream", "family", "stage", "rows in", "bytes in", "rows out", "CPU ms")

#: Items of a stream and where they are from; or None and why there are none.
Sample = tuple["pa.RecordBatch | None", str]


@dataclass(frozen=True)
class Measured:
    """What a stage of a running job took, over all its zones: rows and bytes of the packets that came in,
    rows of the packets that it sent on or delivered, and CPU.
    """

    stream: str
    family: str
    stage: str
    rows_in: int
    bytes_in: int
    rows_out: int
    cpu_us: int


@dataclass(frozen=True)
class Explanation:
    """`measured` is empty before the job has run."""

    groups: list[SharingGroup]
    estimates: list[Estimate]
    summary: list[str]
    measured: list[Measured] = field(default_factory=list)
    #: By stream, family and the papers' names: how many messages a job that has run has sent.
    messages: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns a row per group for a table with the columns TITLE."""
        return [
            (
                group.stream,
                group.family,
                "  " * group.depth + group.shared,
                *_numbers(estimate),
                len(group.members),
                _named(group.names),
            )
            for group, estimate in zip(self.groups, self.estimates, strict=True)
        ]

    def measured_rows(self) -> list[tuple[Any, ...]]:
        """Returns a row per stage for a table with the columns MEASURED_TITLE."""
        return [
            (
                *(one.stream, one.family, one.stage),
                *(f"{number:,}" for number in (one.rows_in, one.bytes_in, one.rows_out)),
                f"{one.cpu_us / 1000:,.1f}",
            )
            for one in self.measured
        ]

    def to_json(self) -> dict[str, Any]:
        groups = [
            {
                "group": index,
                "stream": group.stream,
                "family": group.family,
                "shared": group.shared,
                "parent": group.parent,
                "rows": estimate.rows,
                "bytes": estimate.bytes,
                "subscriptions": [{"name": member.name, "kind": member.kind} for member in group.members],
            }
            for index, (group, estimate) in enumerate(zip(self.groups, self.estimates, strict=True))
        ]
        return {
            "summary": self.summary,
            "groups": groups,
            "measured": [asdict(one) for one in self.measured],
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
            rows, size = _numbers(self.estimates[index])
            known = f"<br/>{rows} rows" if rows != UNKNOWN else ""
            known += f", {size} bytes" if size != UNKNOWN else ""
            lines.append(f'  {above} --> g{index}["{_label(what)}{known}"]')
            lines.append(f'  g{index} --- q{index}(["{_label(_named(group.names))}"])')
        return "\n".join(lines)


def explained(
    queries: Iterable[PlannedQuery], streams: Mapping[str, Stream], samples: Mapping[str, Sample]
) -> Explanation:
    groups = groups_of(queries, streams)
    statistics, basis = statistics_of(streams, samples)
    known = {name: one for name, one in statistics.items() if samples[name][0] is not None}
    return Explanation(groups, estimates_of(groups, streams, known), [*group_summary(groups), *basis])


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
            said.append(f"{name}: how many items pass a condition is not known: {where}")
        else:
            known.observe(rows, rows.num_rows / ITEMS)
            said.append(f"{name}: rows and bytes for {ITEMS:,.0f} items are estimated from {where}")
    return found, said


def _numbers(estimate: Estimate) -> tuple[str, ...]:
    return tuple(UNKNOWN if one is None else f"{one:,.0f}" for one in (estimate.rows, estimate.bytes))


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _label(text: str) -> str:
    """Mermaid reads HTML's entities, written with # instead of &."""
    return "".join(f"#{ord(letter)};" if letter in '#&"<>' else letter for letter in text)
