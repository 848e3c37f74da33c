"""The strategies by name: ours, that of the Chandi paper, and those it is compared with there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anabranch.families.clusters.structure import ClusterStructure, WindowClusters
from anabranch.model.arrays import Floats
from anabranch.simulate.clusters.chandi import Chandi
from anabranch.simulate.clusters.extra_n import ExtraN, ExtraNShared
from anabranch.simulate.clusters.inc_dbscan import IncDbscan, IncDbscanShared
from anabranch.simulate.clusters.strategy import ClusterQuery, ClusterStrategy, OldestNeeded


class Anabranch(ClusterStrategy):
    """Our own structure, one for all queries (docs/decisions/cluster-structure.md)."""

    name = "anabranch"

    def __init__(self, queries: Sequence[ClusterQuery], axes: int) -> None:
        self.ranges = np.array([query.range for query in queries])
        self.counts = np.array([query.count for query in queries])
        self.sizes = np.array([query.size for query in queries])
        self.structure = ClusterStructure(axes)
        self.stop = 0
        self.oldest = OldestNeeded(queries)
        self.structure.set_patterns((query.range, query.count) for query in queries)

    def add(self, points: Floats) -> None:
        self.structure.drop_before(self.oldest.before(self.stop))
        needed = points[max(0, self.structure.stop - self.stop) :]  # no window holds those before
        if len(needed):
            self.structure.add(needed)
        self.stop += len(points)

    def clusters(self, due: Sequence[int]) -> Iterator[tuple[int, WindowClusters]]:
        which = np.array(due)
        starts = self.stop - self.sizes[which]
        found = self.structure.clusters(self.ranges[which], self.counts[which], starts)
        yield from zip(due, found, strict=True)

    @property
    def structure_bytes(self) -> int:
        return self.structure.nbytes


STRATEGIES: dict[str, type[ClusterStrategy]] = {
    strategy.name: strategy
    for strategy in (Anabranch, Chandi, ExtraN, ExtraNShared, IncDbscan, IncDbscanShared)
}
