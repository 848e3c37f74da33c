"""Ours: one structure for all queries (docs/decisions/cluster-structure.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.families.clusters.structure import Due, Found, Structure
from anabranch.simulate.clusters.strategy import Oldest, Query, Strategy
from anabranch.zones.columns import Array


class Chandi(Strategy):
    name = "chandi"

    def __init__(self, queries: Sequence[Query], axes: int) -> None:
        self.queries = list(queries)
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
        windows = {number: self._window(number) for number in due}
        found = self.structure.clusters(windows.values())
        for number, window in windows.items():
            yield number, found[window]

    def _window(self, number: int) -> Due:
        query = self.queries[number]
        return (query.range, query.count), self.stop - query.size

    @property
    def structure_bytes(self) -> int:
        return self.structure.nbytes
