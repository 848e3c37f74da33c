"""Chandi, the algorithm of the paper: one IntView for all queries and windows (sections 4 to 7, figure 17).

    queries                      the predicted view tree                the meta query
    (0.2, 10) (0.3, 7) ...  -->  root: the smallest range, the    and   windows begin wherever a window of
                                 largest count; above it the more       some query begins, and live as long
                                 relaxed queries, level by level        as some query needs them

Same counts, same ranges or same windows are special cases: then the tree is a path, or has one node.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from anabranch.families.clusters.structure import Pattern, WindowClusters
from anabranch.model.arrays import Floats, Ints
from anabranch.simulate.clusters.kernels import integrated_views
from anabranch.simulate.clusters.kernels.integrated_views import (
    NONE,
    PredictedWindows,
    ViewTree,
    bits_of,
    words_for,
)
from anabranch.simulate.clusters.point_index import PointIndex
from anabranch.simulate.clusters.strategy import ClusterQuery, ClusterStrategy, OldestNeeded

#: How much more a difference in ranges counts than one in counts when a parent is chosen (section 5.3).
_RANGE_WEIGHT = 2.0


def levels_of(patterns: Sequence[Pattern]) -> list[list[Pattern]]:
    """The levels of the predicted view tree, the most restricted queries first: each is the skyline of what
    is left. The first is the most restricted query of all, a virtual one if need be.
    """
    root = (min(reach for reach, _ in patterns), max(count for _, count in patterns))
    left, levels = set(patterns) - {root}, [[root]]
    while left:
        level = [one for one in left if not any(is_more_restricted(other, one) for other in left - {one})]
        levels.append(sorted(level))
        left -= set(level)
    return levels


def is_more_restricted(one: Pattern, other: Pattern) -> bool:
    """Definition 5.2; a query is more restricted than itself."""
    return one[0] <= other[0] and one[1] >= other[1]


def parents_of(levels: Sequence[Sequence[Pattern]]) -> dict[Pattern, Pattern]:
    """For each query but the root the most similar one of the level before that is more restricted."""
    every = [pattern for level in levels for pattern in level]
    ranges, counts = ({pattern[part] for pattern in every} for part in (0, 1))
    wide, many = max(max(ranges) - min(ranges), 1e-300), max(max(counts) - min(counts), 1)

    def apart(one: Pattern, other: Pattern) -> float:
        return _RANGE_WEIGHT * (one[0] - other[0]) / wide + (other[1] - one[1]) / many

    parents = {}
    for before, level in pairwise(levels):
        for pattern in level:
            candidates = [other for other in before if is_more_restricted(other, pattern)]
            parents[pattern] = candidates[int(np.argmin([apart(pattern, other) for other in candidates]))]
    return parents


def view_tree(patterns: Sequence[Pattern]) -> tuple[ViewTree, list[Pattern]]:
    """The predicted view tree of some queries, and what is asked at each of its nodes."""
    levels = levels_of(patterns)
    above: dict[Pattern, list[Pattern]] = {}
    for pattern, parent in parents_of(levels).items():
        above.setdefault(parent, []).append(pattern)
    order: list[Pattern] = []
    out: dict[Pattern, int] = {}
    todo = [(levels[0][0], False)]
    while todo:
        pattern, is_done = todo.pop()
        if is_done:
            out[pattern] = len(order)
            continue
        order.append(pattern)
        todo.append((pattern, True))
        todo += [(each, False) for each in above.get(pattern, ())]
    ranges = np.array([reach for reach, _ in order], np.float64)
    ends = np.array([out[pattern] for pattern in order], np.int32)
    steps = np.unique(ranges)
    within = bits_of(ranges >= np.append(steps, np.inf)[:, None])
    return ViewTree(ranges, np.array([count for _, count in order], np.int32), ends, steps, within), order


class Chandi(ClusterStrategy):
    name = "chandi"

    def __init__(self, queries: Sequence[ClusterQuery], axes: int) -> None:
        self.queries, self.axes = list(queries), axes
        self.size = max(query.size for query in queries)
        self.tree, order = view_tree([(query.range, query.count) for query in queries])
        self.nodes = [order.index((query.range, query.count)) for query in queries]
        starts = sum(self.size // query.slide + 1 for query in queries)  # at most, in the largest window
        room = min(starts, self.size // math.gcd(*(query.slide for query in queries)) + 1) + 1
        assert room < NONE, "too many windows for one structure"
        self.windows = PredictedWindows(
            np.zeros(room, np.int64),
            np.zeros((room, len(order)), np.int64),
            np.zeros((room, words_for(len(order))), np.int64),
        )
        self.numbers: dict[int, int] = {}  # of live windows, by start
        self.stop = self.begun = self.oldest = 0
        self.slides: Ints = np.array([query.slide for query in queries])
        self.needed = OldestNeeded(queries)
        self.index = PointIndex(axes, self.size, max(query.range for query in queries))
        self.view = integrated_views.new_views(self.size, len(order), room)

    def add(self, points: Floats) -> None:
        first, at, end = self.stop, self.stop, self.stop + len(points)
        self.index.append(points, self.needed.before(first))
        neighbours = self.index.neighbours(len(points), self.needed.before(first))
        while at < end:
            self._begin_windows(at)
            self._purge(at)
            until = min(end, int((-(-(at + 1) // self.slides) * self.slides).min()))
            while at < until and self.oldest < self.begun:
                at = integrated_views.add_to_views(
                    self.view, self.tree, self.windows, at, until, first, self.begun - 1, self.oldest,
                    neighbours,
                )  # fmt: skip
                if self.view.free[4]:
                    self._build_again(at)
                elif at < until:
                    links = 2 * int(neighbours.ends[at - first + 1] - neighbours.ends[at - first]) + 1
                    self.view = integrated_views.with_room(self.view, links, 0)
            at = until
        self.stop = end

    def _build_again(self, stop: int) -> None:
        """Adds the points before `stop` once more, with room for twice as many memberships."""
        members, room = 2 * len(self.view.to), len(self.windows.starts)
        empty = integrated_views.new_views(self.size, len(self.tree.ranges), room)
        self.view = integrated_views.with_room(empty, 0, members)
        index = PointIndex(self.axes, self.size, self.index.reach)
        starts = [int(self.windows.starts[each % room]) for each in range(self.oldest, self.begun)]
        index.offset = starts[0]
        for number, (low, high) in enumerate(pairwise([*starts, stop])):
            index.append(self.index.points[low - self.index.offset : high - self.index.offset], starts[0])
            neighbours, at = index.neighbours(high - low, starts[0]), low
            while at < high:
                at = integrated_views.add_to_views(
                    self.view, self.tree, self.windows, at, high, low, self.oldest + number, self.oldest,
                    neighbours,
                )  # fmt: skip
                if self.view.free[4]:
                    self._build_again(stop)
                    return
                self.view = integrated_views.with_room(self.view, 2 * int(neighbours.ends[-1]) + 1, 0)

    def _begin_windows(self, position: int) -> None:
        """Adds the window of the meta query that begins here, if one does, as the new root of the IntView."""
        served = np.flatnonzero(position % self.slides == 0)
        if len(served):
            row = self.begun % len(self.windows.starts)
            until = self.windows.until[row]
            self.windows.starts[row], until[:] = position, 0
            for number in served.tolist():
                node = self.nodes[number]
                until[node] = max(until[node], position + self.queries[number].size)
            for node in range(len(until)):
                until[node] = until[node : self.tree.out[node]].max()
            self.numbers[position] = self.begun
            self.begun += 1

    def _purge(self, position: int) -> None:
        """Removes the oldest windows that no query needs any more."""
        room = len(self.windows.starts)
        while self.oldest < self.begun and self.windows.until[self.oldest % room, 0] <= position:
            del self.numbers[int(self.windows.starts[self.oldest % room])]
            self.oldest += 1
        self.windows.serves[:] = bits_of(self.windows.until > position)

    def clusters(self, due: Sequence[int]) -> Iterator[tuple[int, WindowClusters]]:
        for number in due:
            query = self.queries[number]
            start = self.stop - query.size
            clusters, roles = np.empty(query.size, np.int32), np.empty(query.size, np.uint8)
            count = integrated_views.label_view(
                self.view, self.tree, self.index.points, self.index.offset, start, self.stop,
                self.numbers[start], self.nodes[number], clusters, roles,
            )  # fmt: skip
            yield number, WindowClusters(start, clusters, roles, count)

    @property
    def structure_bytes(self) -> int:
        return sum(array.nbytes for array in (*self.view, *self.windows, *self.tree))
