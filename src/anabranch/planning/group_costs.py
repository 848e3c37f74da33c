"""How many items pass the condition of a sharing group, and how many bytes of them are read.

Both are estimates for 1,000 items of the stream, from a sample of its source. Without a sample nothing is
known. CPU is not estimated: a job that runs measures it (spark/stages.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.model.stream import Stream
from anabranch.planning.cost import CostModel
from anabranch.planning.matching import needs
from anabranch.planning.properties import Properties, source_properties
from anabranch.planning.selections import columns_of, residual
from anabranch.planning.sharing_groups import SharingGroup, query_properties
from anabranch.planning.statistics import Statistics

#: Estimates are for so many items of the stream.
ITEMS = 1000.0


@dataclass(frozen=True)
class Estimate:
    """Rows that pass the condition of a group, and bytes of the columns of them that are used; None where
    nothing is known.
    """

    rows: float | None = None
    bytes: float | None = None


def estimates_of(
    groups: Sequence[SharingGroup], streams: Mapping[str, Stream], statistics: Mapping[str, Statistics]
) -> list[Estimate]:
    """Returns an estimate per group; a stream without statistics has none. Parents come before their
    children.
    """
    model = CostModel(statistics)
    columns = _columns(groups, streams)
    out = []
    for index, group in enumerate(groups):
        if group.stream not in statistics:
            out.append(Estimate())
            continue
        passed = replace(source_properties(streams[group.stream]), selection=group.condition)
        rows = model.frequency(passed)
        is_filter = group.family == "filters"
        size = model.size(replace(passed, columns=columns[index])) if is_filter else None
        out.append(Estimate(rows, None if size is None else rows * size))
    return out


def _columns(groups: Sequence[SharingGroup], streams: Mapping[str, Stream]) -> list[frozenset[str]]:
    """Returns the columns that are read of the items of each group of filters, at it and below, without those
    that operators compute."""
    columns = [
        frozenset(column for one in _properties(group, streams[group.stream]) for column in _read(one))
        for group in groups
    ]
    for index in reversed(range(len(groups))):
        parent = groups[index].parent
        if parent is not None:
            left = residual(groups[index].condition, groups[parent].condition)
            columns[parent] |= columns[index] | columns_of(left)
    own = ({column.name for column in streams[group.stream].columns} for group in groups)
    return [read & names for read, names in zip(columns, own, strict=True)]


def _properties(group: SharingGroup, stream: Stream) -> Iterator[Properties]:
    if group.family == "filters":
        for one in group.members:
            yield query_properties(one.kind, one.spec, stream)


def _read(one: Properties) -> Iterator[str]:
    yield from needs(one, one)
    for made in one.operators:
        yield from made.reads
