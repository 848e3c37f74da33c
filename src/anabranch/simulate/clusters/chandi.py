"""Ours: one structure for all queries (docs/decisions/cluster-structure.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anabranch.families.clusters.found import Found
from anabranch.families.clusters.structure import Structure
from anabranch.simulate.clusters.strategy import Oldest, Query, Strategy
from anabranch.zones.columns import Array


class Chandi(Strategy):
    name = "chandi"

    def __init__(self, queries: Sequence[Query], axes: int) -> None:
        self.ranges = np.array([query.range for query in queries])
        self.counts = np.array([query.count for query in queries])
        self.sizes = np.array([query.size for query in queries])
        self.structure = Structure(axes)
        self.stop = 0
        self.oldest = Oldest(queries)
        self.structure.ask((query.range, query.count) for query in queries)

    def enter(self, points: Array) -> None:
        self.structure.forget(self.oldest.needed(self.stop))
        needed = points[max(0, self.structure.stop - self.stop) :]  # no window holds those before
        if len(needed):
            self.structure.append(needed)
        self.stop += len(points)

    def found(self, due: Sequence[int]) -> Iterator[tuple[int, Found]]:
        which = np.array(due)
        starts = self.stop - self.sizes[which]
        yield from zip(
            due, self.structure.clusters(self.ranges[which], self.counts[which], starts), strict=True
        )

    @property
    def structure_bytes(self) -> int:
        return self.structure.nbytes
