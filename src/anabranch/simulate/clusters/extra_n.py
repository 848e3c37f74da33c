"""Extra-N: predicted views for every query (Chandi, section 3); with `rqs`, one range search for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anabranch.families.clusters.found import Found
from anabranch.kernels import extra_n, rangesearch
from anabranch.simulate.clusters.index import Index, Neighbours
from anabranch.simulate.clusters.strategy import Oldest, Query, Strategy
from anabranch.zones.columns import Array

#: From so many queries on it pays to sort the neighbours that all share by distance.
_MANY = 200


class ExtraN(Strategy):
    """Every query searches for itself."""

    name = "extra-n"

    def __init__(self, queries: Sequence[Query], axes: int) -> None:
        self.queries = list(queries)
        self.stop = 0
        self.sorts = False
        self.views = [extra_n.new_views(query.count, query.size, query.slide) for query in queries]
        self.indexes = self._indexes(axes)

    def _indexes(self, axes: int) -> list[Index]:
        return [Index(axes, query.size, query.range) for query in self.queries]

    def enter(self, points: Array) -> None:
        for number, query in enumerate(self.queries):
            first = query.first_window(self.stop) * query.slide
            self.indexes[number].append(points, first)
            self._enter(number, len(points), self.indexes[number].neighbours(len(points), first))
        self.stop += len(points)

    def _enter(self, number: int, more: int, neighbours: Neighbours) -> None:
        query = self.queries[number]
        extra_n.enter_views(
            self.views[number], query.range, query.count, query.slide, self.stop, self.stop + more,
            neighbours.offset, neighbours.ends, neighbours.near, neighbours.far, self.sorts,
        )  # fmt: skip

    def found(self, due: Sequence[int]) -> Iterator[tuple[int, Found]]:
        for number in due:
            query, index = self.queries[number], self.indexes[number]
            start = self.stop - query.size
            clusters, roles = np.empty(query.size, np.int32), np.empty(query.size, np.uint8)
            count = extra_n.roles_in_view(
                self.views[number], index.points, index.offset, start, self.stop, start // query.slide,
                clusters, roles,
            )  # fmt: skip
            yield number, Found(start, clusters, roles, count)

    @property
    def structure_bytes(self) -> int:
        return sum(array.nbytes for views in self.views for array in views)


class ExtraNShared(ExtraN):
    """One range search a point, at the largest range; every query takes the neighbours within its own."""

    name = "extra-n-rqs"

    def __init__(self, queries: Sequence[Query], axes: int) -> None:
        super().__init__(queries, axes)
        self.sorts = len(queries) >= _MANY
        self.oldest = Oldest(queries)

    def _indexes(self, axes: int) -> list[Index]:
        size, reach = max(query.size for query in self.queries), max(query.range for query in self.queries)
        return [Index(axes, size, reach)] * len(self.queries)

    def enter(self, points: Array) -> None:
        first = self.oldest.needed(self.stop)
        index = self.indexes[0]
        index.append(points, first)
        neighbours = index.neighbours(len(points), first)
        if self.sorts:
            rangesearch.nearest_first(neighbours.ends, neighbours.near, neighbours.far)
        for number in range(len(self.queries)):
            self._enter(number, len(points), neighbours)
        self.stop += len(points)
