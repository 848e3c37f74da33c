"""Incremental DBSCAN for every query (Chandi, section 8).

With `rqs`, the neighbours of new points are searched for once. Deletions search for each query by itself also
then, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anabranch.families.clusters.structure import WindowClusters
from anabranch.model.arrays import Floats
from anabranch.simulate.clusters.kernels import incremental_labels
from anabranch.simulate.clusters.kernels.range_search import BatchNeighbours
from anabranch.simulate.clusters.point_index import PointIndex
from anabranch.simulate.clusters.strategy import ClusterQuery, ClusterStrategy, OldestNeeded


class _OneQuery:
    """The clusters of one query in the points of its window."""

    def __init__(self, query: ClusterQuery, axes: int) -> None:
        self.query = query
        self.index = PointIndex(axes, query.size, query.range)
        self.labels = incremental_labels.new_labels(len(self.index.points))
        self.seed_searches = incremental_labels.new_seed_searches(len(self.index.points))
        self.stop = self.first = 0  # positions: the next point, the first point of the window

    def add(self, points: Floats, shared: BatchNeighbours | None) -> None:
        query = self.query
        self._delete_until(query.first_window(self.stop) * query.slide)
        moved = self.index.append(points, self.first)
        for array in (self.labels.near, self.labels.label) if moved else ():
            array[: len(array) - moved] = array[moved:].copy()
        offset, search = self.index.offset, self.index.search()
        start = max(self.stop, self.first)
        self.stop += len(points)
        if start >= self.stop:
            return
        low, high, first = start - offset, self.stop - offset, self.first - offset
        if shared is None:
            incremental_labels.insert_alone(self.labels, search, query.count, low, high, first)
        else:
            ends = shared.ends[start - (self.stop - len(points)) :]
            shared = shared._replace(ends=ends, offset=shared.offset - offset)
            incremental_labels.insert_shared(self.labels, search, query.count, low, high, first, shared)

    def _delete_until(self, first: int) -> None:
        offset = self.index.offset
        if first > self.first:
            until = min(first, self.stop)
            if until > self.first:
                incremental_labels.delete_until(
                    self.labels, self.index.search(), self.seed_searches, self.query.count,
                    self.first - offset, until - offset, self.stop - offset,
                )  # fmt: skip
            self.first = first

    def clusters(self) -> WindowClusters:
        size = self.query.size
        start, offset = self.stop - size, self.index.offset
        clusters, roles = np.empty(size, np.int32), np.empty(size, np.uint8)
        count = incremental_labels.label_points(
            self.labels, self.index.search(), start - offset, self.stop - offset, clusters, roles
        )
        return WindowClusters(start, clusters, roles, count)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.labels, *self.seed_searches))


class IncDbscan(ClusterStrategy):
    name = "inc-dbscan"

    def __init__(self, queries: Sequence[ClusterQuery], axes: int) -> None:
        self.queries = list(queries)
        self.each_query = [_OneQuery(query, axes) for query in queries]

    def add(self, points: Floats) -> None:
        for each in self.each_query:
            each.add(points, None)

    def clusters(self, due: Sequence[int]) -> Iterator[tuple[int, WindowClusters]]:
        for number in due:
            yield number, self.each_query[number].clusters()

    @property
    def structure_bytes(self) -> int:
        return sum(each.nbytes for each in self.each_query)


class IncDbscanShared(IncDbscan):
    name = "inc-dbscan-rqs"

    def __init__(self, queries: Sequence[ClusterQuery], axes: int) -> None:
        super().__init__(queries, axes)
        reach = max(query.range for query in queries)
        self.index = PointIndex(axes, max(query.size for query in queries), reach)
        self.stop = 0
        self.oldest = OldestNeeded(queries)

    def add(self, points: Floats) -> None:
        first = self.oldest.before(self.stop)
        self.index.append(points, first)
        neighbours = self.index.neighbours(len(points), first)
        for each in self.each_query:
            each.add(points, neighbours)
        self.stop += len(points)
