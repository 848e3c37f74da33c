"""Incremental DBSCAN for every query (Chandi, section 8); with `rqs`, new points are searched for once.

Deletions search for each query by itself also with `rqs`, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anabranch.families.clusters.found import Found
from anabranch.kernels import inc_dbscan
from anabranch.kernels.inc_dbscan_labels import Search, new_marks, new_spreading
from anabranch.simulate.clusters.index import Index, Neighbours
from anabranch.simulate.clusters.strategy import Oldest, Query, Strategy
from anabranch.zones.columns import Array


class _Clustered:
    """The clusters of one query in the points of its window."""

    def __init__(self, query: Query, axes: int) -> None:
        self.query = query
        self.index = Index(axes, query.size, query.range)
        self.marks = new_marks(len(self.index.points))
        self.spreading = new_spreading(len(self.index.points))
        self.stop = self.first = 0  # positions: the next point, the first point of the window

    def _search(self) -> Search:
        index = self.index
        cells = (2 * index.rings + 1) ** min(3, index.points.shape[1])
        chains, near = np.empty(cells, np.int32), np.empty(len(index.points), np.int32)
        return Search(index.points, index.grid, index.side, index.rings, self.query.range, chains, near)

    def enter(self, points: Array, shared: Neighbours | None) -> None:
        query = self.query
        self._delete_until(query.first_window(self.stop) * query.slide)
        moved = self.index.append(points, self.first)
        for array in (self.marks.near, self.marks.label) if moved else ():
            array[: len(array) - moved] = array[moved:].copy()
        offset, search = self.index.offset, self._search()
        start = max(self.stop, self.first)
        self.stop += len(points)
        if start >= self.stop:
            return
        low, high, first = start - offset, self.stop - offset, self.first - offset
        if shared is None:
            inc_dbscan.insert_alone(self.marks, search, query.count, low, high, first)
        else:
            ends = shared.ends[start - (self.stop - len(points)) :]
            inc_dbscan.insert_shared(
                self.marks, search, query.count, low, high, first,
                ends, shared.near, shared.far, shared.offset - offset,
            )  # fmt: skip

    def _delete_until(self, first: int) -> None:
        offset = self.index.offset
        if first > self.first:
            until = min(first, self.stop)
            if until > self.first:
                inc_dbscan.delete_until(
                    self.marks, self._search(), self.spreading, self.query.count,
                    self.first - offset, until - offset, self.stop - offset,
                )  # fmt: skip
            self.first = first

    def found(self) -> Found:
        size = self.query.size
        start, offset = self.stop - size, self.index.offset
        clusters, roles = np.empty(size, np.int32), np.empty(size, np.uint8)
        count = inc_dbscan.roles_of(
            self.marks, self._search(), start - offset, self.stop - offset, clusters, roles
        )
        return Found(start, clusters, roles, count)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.marks, *self.spreading))


class IncDbscan(Strategy):
    name = "inc-dbscan"

    def __init__(self, queries: Sequence[Query], axes: int) -> None:
        self.queries = list(queries)
        self.clustered = [_Clustered(query, axes) for query in queries]

    def enter(self, points: Array) -> None:
        for each in self.clustered:
            each.enter(points, None)

    def found(self, due: Sequence[int]) -> Iterator[tuple[int, Found]]:
        for number in due:
            yield number, self.clustered[number].found()

    @property
    def structure_bytes(self) -> int:
        return sum(each.nbytes for each in self.clustered)


class IncDbscanShared(IncDbscan):
    name = "inc-dbscan-rqs"

    def __init__(self, queries: Sequence[Query], axes: int) -> None:
        super().__init__(queries, axes)
        reach = max(query.range for query in queries)
        self.index = Index(axes, max(query.size for query in queries), reach)
        self.stop = 0
        self.oldest = Oldest(queries)

    def enter(self, points: Array) -> None:
        first = self.oldest.needed(self.stop)
        self.index.append(points, first)
        neighbours = self.index.neighbours(len(points), first)
        for each in self.clustered:
            each.enter(points, neighbours)
        self.stop += len(points)
