"""The experiments of the Chandi paper (section 8): strategies side by side, on the same queries and points.

    measure("chandi", queries, points)          -> CPU time per tuple, bytes, and a hash of all clusters
    figures(points, full=False)                 -> the same for the cases of figures 18 to 32

Strategies that give the same clusters have the same hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.families.clusters.structure import WindowClusters
from anabranch.model.arrays import Floats
from anabranch.simulate.clusters.chandi import Chandi
from anabranch.simulate.clusters.extra_n import ExtraN
from anabranch.simulate.clusters.point_index import PointIndex
from anabranch.simulate.clusters.strategies import STRATEGIES
from anabranch.simulate.clusters.strategy import ClusterQuery, ClusterStrategy, run
from anabranch.simulate.clusters.workloads import group

#: Incremental DBSCAN is too slow for the cases with many queries, in the paper as well.
_MANY = ("anabranch", "chandi", "extra-n", "extra-n-rqs")
#: Figures of the paper: case, numbers of queries, groups that are averaged, strategies.
FIGURES: dict[str, tuple[str, tuple[int, ...], int, tuple[str, ...]]] = {
    "18-19": ("count", (5, 10, 15, 20), 1, tuple(STRATEGIES)),
    "20-21": ("range", (5, 10, 15, 20), 1, tuple(STRATEGIES)),
    "22-23": ("win", (5, 10, 15, 20), 1, tuple(STRATEGIES)),
    "24-25": ("slide", (5, 10, 15, 20), 1, tuple(STRATEGIES)),
    "26-27": ("count and range", (5, 10, 15, 20), 1, tuple(STRATEGIES)),
    "28-29": ("win and slide", (5, 10, 15, 20), 1, tuple(STRATEGIES)),
    "30": ("all four", (20, 40, 60), 30, _MANY),
    "31-32": ("scaling", (10, 30, 100, 300, 1000), 1, _MANY),
}
#: Windows are shorter by this factor, groups fewer, and no more queries than these, unless all is asked for.
SHRINK, GROUPS, MOST_QUERIES = 5, 2, 100


@dataclass(frozen=True)
class StrategyRun:
    strategy: str
    cpu_ms_per_tuple: float
    search_ms_per_tuple: float | None  # of it, range searches; None where they cannot be told apart
    bytes: int
    clusters: str  # a hash of all outputs


class ClusterHash:
    """Of the clusters of all windows, in whatever order they come."""

    def __init__(self) -> None:
        self._windows: dict[tuple[int, int], bytes] = {}

    def add(self, query: int, found: WindowClusters) -> None:
        rows = found.clusters.astype(np.int32).tobytes() + found.roles.astype(np.uint8).tobytes()
        self._windows[query, found.start] = hashlib.sha256(rows).digest()

    def __str__(self) -> str:
        whole = hashlib.sha256()
        for (query, start), digest in sorted(self._windows.items()):
            whole.update(f"{query} {start} ".encode() + digest)
        return whole.hexdigest()[:16]


def warm_up(names: Sequence[str], axes: int) -> None:
    """Compiles what is measured."""
    points = np.random.default_rng(0).random((400, axes)) / 10
    queries = [ClusterQuery(0.01, 3, 150, 50), ClusterQuery(0.03, 4, 100, 30)]
    for name in names:
        run(STRATEGIES[name](queries, axes), queries, points)


def measure(name: str, queries: Sequence[ClusterQuery], points: Floats) -> StrategyRun:
    strategy, found = STRATEGIES[name](queries, points.shape[1]), ClusterHash()
    cost = run(strategy, queries, points, found.add)
    searches = _search_seconds(strategy)
    search = None if searches is None else searches / len(points) * 1e3
    return StrategyRun(name, cost.seconds / len(points) * 1e3, search, cost.most_bytes, str(found))


def _search_seconds(strategy: ClusterStrategy) -> float | None:
    """Incremental DBSCAN and ours search while they do other things."""
    if isinstance(strategy, Chandi):
        return strategy.index.seconds
    if isinstance(strategy, ExtraN):
        return sum(index.seconds for index in {id(each): each for each in strategy.indexes}.values())
    return None


def search_only(queries: Sequence[ClusterQuery], points: Floats) -> float:
    """Milliseconds per tuple of one range search at the largest range."""
    index = PointIndex(points.shape[1], max(query.size for query in queries), max(q.range for q in queries))
    most = max(query.size for query in queries)
    for start in range(0, len(points), 500):
        some, first = points[start : start + 500], max(0, start + 1 - most)
        index.append(some, first)
        index.neighbours(len(some), first)
    return index.seconds / len(points) * 1e3


@dataclass(frozen=True)
class FigureRow:
    """One strategy with so many queries in a case; means over all groups of queries."""

    figure: str
    case: str
    queries: int
    strategy: str
    cpu_ms_per_tuple: float
    search_ms_per_tuple: float | None
    bytes: float
    least_saving: float | None  # of CPU against extra-n-rqs, of all groups
    most_saving: float | None


def figures(
    points: Floats, names: Sequence[str], wanted: Sequence[str], full: bool = False
) -> Iterator[FigureRow]:
    """The rows of the figures that are wanted, one after the other."""
    warm_up(names, points.shape[1])
    for figure in wanted:
        case, sizes, groups, strategies = FIGURES[figure]
        for count in sizes:
            if full or count <= MOST_QUERIES:
                some = [name for name in strategies if name in names]
                yield from _rows(
                    figure, case, count, groups if full else min(groups, GROUPS), some, points, full
                )


def _rows(
    figure: str, case: str, count: int, groups: int, names: Sequence[str], points: Floats, full: bool
) -> Iterator[FigureRow]:
    runs: dict[str, list[StrategyRun]] = {name: [] for name in names}
    for seed in range(groups):
        queries = group(case, count, seed, 1 if full else SHRINK)
        for name in names:
            runs[name].append(measure(name, queries, points))
        hashes = {runs[name][-1].clusters for name in names}
        if len(hashes) > 1:
            raise AssertionError(f"{case}, {count} queries: strategies give other clusters")
    for name, each in runs.items():
        searches = [one.search_ms_per_tuple for one in each if one.search_ms_per_tuple is not None]
        savings = [
            1 - one.cpu_ms_per_tuple / other.cpu_ms_per_tuple
            for one, other in zip(each, runs.get("extra-n-rqs", ()), strict=False)
        ]
        yield FigureRow(
            figure,
            case,
            count,
            name,
            float(np.mean([one.cpu_ms_per_tuple for one in each])),
            float(np.mean(searches)) if searches else None,
            float(np.mean([one.bytes for one in each])),
            min(savings, default=None),
            max(savings, default=None),
        )
