"""What a strategy for many clusters queries is, and how it is run to compare it with others.

A strategy gets points in order of arrival and queries (range, count, size and slide of a window in rows). It
gives the clusters of every window that becomes complete, which are the same for all strategies. Compared are
the time and the bytes that it takes. The stages use only ours (families/clusters).
"""

from __future__ import annotations

import heapq
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from anabranch.families.clusters.structure import WindowClusters
from anabranch.model.arrays import Floats

#: Points are added in runs of at most this many.
_RUN = 512


@dataclass(frozen=True)
class ClusterQuery:
    range: float
    count: int
    size: int
    slide: int

    def first_window(self, position: int) -> int:
        """The number of the oldest window that is not over before the point at `position` is added."""
        return max(0, -((self.size - 1 - position) // self.slide))


class OldestNeeded:
    """The oldest point that a window of any query can still hold."""

    def __init__(self, queries: Sequence[ClusterQuery]) -> None:
        self.sizes = np.array([query.size for query in queries])
        self.slides = np.array([query.slide for query in queries])

    def before(self, position: int) -> int:
        """Before the point at `position` is added: the least start of all queries' `first_window`."""
        windows = np.maximum(0, -((self.sizes - 1 - position) // self.slides))
        return int((windows * self.slides).min())


class ClusterStrategy(ABC):
    """Finds the clusters of queries that all begin with the first point."""

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, queries: Sequence[ClusterQuery], axes: int) -> None: ...

    @abstractmethod
    def add(self, points: Floats) -> None:
        """Adds the next points; no window ends before the last of them."""

    @abstractmethod
    def clusters(self, due: Sequence[int]) -> Iterator[tuple[int, WindowClusters]]:
        """(query, clusters) of the windows of these queries that end with the newest point."""

    @property
    @abstractmethod
    def structure_bytes(self) -> int:
        """What is kept to know clusters: neither coordinates nor the index to search them by."""


@dataclass
class RunCost:
    """CPU seconds and bytes of one run; `seconds` leaves out what `seen` does with the clusters."""

    points: int
    seconds: float = 0.0
    most_bytes: int = 0
    windows: int = 0


def run(
    strategy: ClusterStrategy,
    queries: Sequence[ClusterQuery],
    points: Floats,
    seen: Callable[[int, WindowClusters], None] = lambda query, clusters: None,
) -> RunCost:
    """Lets a strategy run all queries over the points, window by window."""
    cost = RunCost(len(points))
    for start, stop, due in schedule(queries, len(points)):
        before = time.process_time()
        strategy.add(points[start:stop])
        found = list(strategy.clusters(due)) if due else []
        cost.seconds += time.process_time() - before
        cost.windows += len(found)
        cost.most_bytes = max(cost.most_bytes, strategy.structure_bytes)
        for query, clusters in found:
            seen(query, clusters)
    return cost


def schedule(queries: Sequence[ClusterQuery], stop: int) -> Iterator[tuple[int, int, list[int]]]:
    """(first point, next point, queries due after it): the meta query, in runs of points."""
    ends = [(query.size, number) for number, query in enumerate(queries)]
    heapq.heapify(ends)
    position = 0
    while position < stop:
        upto = min(position + _RUN, stop, ends[0][0])
        due = []
        while ends[0][0] == upto:
            end, number = ends[0]
            due.append(number)
            heapq.heapreplace(ends, (end + queries[number].slide, number))
        yield position, upto, due
        position = upto
