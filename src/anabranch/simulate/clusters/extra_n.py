"""Extra-N: predicted views for every query (Chandi, section 3); with `rqs`, one range search for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anabranch.families.clusters.structure import WindowClusters
from anabranch.model.arrays import Floats
from anabranch.simulate.clusters.kernels import predicted_views
from anabranch.simulate.clusters.kernels.range_search import BatchNeighbours, sort_by_distance
from anabranch.simulate.clusters.point_index import PointIndex
from anabranch.simulate.clusters.strategy import ClusterQuery, ClusterStrategy, OldestNeeded

#: From so many queries on it pays to sort the neighbours that all share by distance.
_MANY = 200


class ExtraN(ClusterStrategy):
    """Every query searches for itself."""

    name = "extra-n"

    def __init__(self, queries: Sequence[ClusterQuery], axes: int) -> None:
        self.queries = list(queries)
        self.stop = 0
        self.sorts = False
        self.views = [predicted_views.new_views(query.count, query.size, query.slide) for query in queries]
        self.indexes = self._indexes(axes)

    def _indexes(self, axes: int) -> list[PointIndex]:
        return [PointIndex(axes, query.size, query.range) for query in self.queries]

    def add(self, points: Floats) -> None:
        for number, query in enumerate(self.queries):
            first = query.first_window(self.stop) * query.slide
            self.indexes[number].append(points, first)
            self._add_to_views(number, len(points), self.indexes[number].neighbours(len(points), first))
        self.stop += len(points)

    def _add_to_views(self, number: int, more: int, neighbours: BatchNeighbours) -> None:
        query = self.queries[number]
        predicted_views.add_to_views(
            self.views[number], query.range, query.count, query.slide, self.stop, self.stop + more,
            neighbours, self.sorts,
        )  # fmt: skip

    def clusters(self, due: Sequence[int]) -> Iterator[tuple[int, WindowClusters]]:
        for number in due:
            query, index = self.queries[number], self.indexes[number]
            start = self.stop - query.size
            clusters, roles = np.empty(query.size, np.int32), np.empty(query.size, np.uint8)
            count = predicted_views.label_view(
                self.views[number], index.points, index.offset, start, self.stop, start // query.slide,
                clusters, roles,
            )  # fmt: skip
            yield number, WindowClusters(start, clusters, roles, count)

    @property
    def structure_bytes(self) -> int:
        return sum(array.nbytes for views in self.views for array in views)


class ExtraNShared(ExtraN):
    """One range search per point, at the largest range; every query uses the neighbours within its own."""

    name = "extra-n-rqs"

    def __init__(self, queries: Sequence[ClusterQuery], axes: int) -> None:
        super().__init__(queries, axes)
        self.sorts = len(queries) >= _MANY
        self.oldest = OldestNeeded(queries)

    def _indexes(self, axes: int) -> list[PointIndex]:
        size, reach = max(query.size for query in self.queries), max(query.range for query in self.queries)
        return [PointIndex(axes, size, reach)] * len(self.queries)

    def add(self, points: Floats) -> None:
        first = self.oldest.before(self.stop)
        index = self.indexes[0]
        index.append(points, first)
        neighbours = index.neighbours(len(points), first)
        if self.sorts:
            sort_by_distance(neighbours)
        for number in range(len(self.queries)):
            self._add_to_views(number, len(points), neighbours)
        self.stop += len(points)
