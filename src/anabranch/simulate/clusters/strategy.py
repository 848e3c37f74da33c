"""What a strategy is that answers many clusters queries, and how one is run to compare it with others.

In: points in order of arrival, queries (range, count, size and slide of a window in rows). Out: the clusters
of every window that becomes complete, the same whatever the strategy; the time and the bytes it took. Never:
used by the stages on Spark, which are ours alone (families/clusters).
"""

from __future__ import annotations

import heapq
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from anabranch.families.clusters.found import Found
from anabranch.zones.columns import Array

#: Points enter in runs of at most this many.
_RUN = 512


@dataclass(frozen=True)
class Query:
    range: float
    count: int
    size: int
    slide: int

    def first_window(self, position: int) -> int:
        """The number of the oldest window that is not over before the point at `position` enters."""
        return max(0, -((self.size - 1 - position) // self.slide))


class Oldest:
    """Which point is the oldest that a window of any query can still hold."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.sizes = np.array([query.size for query in queries])
        self.slides = np.array([query.slide for query in queries])

    def needed(self, position: int) -> int:
        """Before the point at `position` enters: the least start of all queries' `first_window`."""
        windows = np.maximum(0, -((self.sizes - 1 - position) // self.slides))
        return int((windows * self.slides).min())


class Strategy(ABC):
    """Answers queries that all begin with the first point."""

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, queries: Sequence[Query], axes: int) -> None: ...

    @abstractmethod
    def enter(self, points: Array) -> None:
        """Takes the next points; no window ends before the last of them."""

    @abstractmethod
    def found(self, due: Sequence[int]) -> Iterator[tuple[int, Found]]:
        """(query, clusters) of the windows of these queries that end with the newest point."""

    @property
    @abstractmethod
    def structure_bytes(self) -> int:
        """What is kept to know clusters: neither coordinates nor the index to search them by."""


@dataclass
class Spent:
    """CPU seconds and bytes of one run; `seconds` leaves out what `seen` does with the answers."""

    points: int
    seconds: float = 0.0
    most_bytes: int = 0
    windows: int = 0


def run(
    strategy: Strategy,
    queries: Sequence[Query],
    points: Array,
    seen: Callable[[int, Found], None] = lambda query, found: None,
) -> Spent:
    """Lets a strategy answer all queries over the points, window by window."""
    spent = Spent(len(points))
    for start, stop, due in schedule(queries, len(points)):
        before = time.process_time()
        strategy.enter(points[start:stop])
        found = list(strategy.found(due)) if due else []
        spent.seconds += time.process_time() - before
        spent.windows += len(found)
        spent.most_bytes = max(spent.most_bytes, strategy.structure_bytes)
        for query, clusters in found:
            seen(query, clusters)
    return spent


def schedule(queries: Sequence[Query], stop: int) -> Iterator[tuple[int, int, list[int]]]:
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
