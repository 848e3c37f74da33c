"""Continuous kNN queries (section 5): search regions that follow their focal objects (table 3).

In: a world and k. Out: what it cost, and how often a search region held k objects at once. Never: an object
outside of a query's search region.

The moving family adjusts search regions once per batch, and its results are proven (docs/moving.md). Here are
the paper's rules, second by second, because the number of messages depends on them.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from anabranch.model.arrays import Array, Floats, Ints
from anabranch.simulate.place import costs
from anabranch.simulate.place.costs import PlaceOutcome
from anabranch.simulate.place.world import REPORT_SECONDS, SERVERS, World, server_of

#: The expanding factor, how often a search region is adjusted, and when there are many more than k.
ALPHA = 0.2
ADJUST_SECONDS = 5
MANY = (1 + ALPHA) ** 2
DIAGONAL = math.sqrt(2)  # of the space


class ObjectCells:
    """Objects by the cells of a grid, to find those within a circle."""

    def __init__(self, positions: Floats) -> None:
        self.positions, self.side = positions, max(1, int(math.sqrt(len(positions) / 16)))
        column, row = np.minimum((positions * self.side).astype(np.int64), self.side - 1).T
        cell = row * self.side + column
        self._order = np.argsort(cell, kind="stable")
        self._first = np.searchsorted(cell[self._order], np.arange(self.side * self.side + 1))

    def within(self, centre: Array, radius: float) -> tuple[Array, Array]:
        """Returns (objects, distances), in no order."""
        low = np.clip(((centre - radius) * self.side).astype(np.int64), 0, self.side - 1)
        high = np.clip(((centre + radius) * self.side).astype(np.int64), 0, self.side - 1)
        rows = range(int(low[1]) * self.side, int(high[1]) * self.side + 1, self.side)
        runs = [self._order[self._first[row + low[0]] : self._first[row + high[0] + 1]] for row in rows]
        near = np.concatenate(runs)
        far = np.hypot(*(self.positions[near] - centre).T)
        inside = far <= radius
        return near[inside], far[inside]


def search_radius(old: float, far: Array, k: int, local: float) -> float:
    """CalcSearchRegion (table 3): returns the new radius, up to the whole space, from the distances of
    objList. `local` is the distance of the k-th nearest at the focal object's own server.
    """
    if len(far) == 0:
        return local
    if len(far) < k:
        return min((1 + ALPHA) * old * math.sqrt(k / len(far)), DIAGONAL)
    if len(far) > MANY * k:
        return (1 + ALPHA) * float(np.partition(far, k - 1)[k - 1])
    return old


@dataclass
class _NearestQuery:
    radius: float = 0.0
    objects: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # the PST: objects and their servers
    servers: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


class NearestExperiment:
    def __init__(self, world: World, k: int) -> None:
        self.world, self.k = world, k
        self.pairs = world.pairs()
        self.queries = [_NearestQuery() for _ in self.pairs]
        self.outcome = PlaceOutcome("nearest", k)
        self._mark = np.full(world.size.objects, -1, np.int64)
        self._results = self._enough = 0

    def run(self, seconds: int) -> PlaceOutcome:
        for _ in range(REPORT_SECONDS):
            self.world.step()
        for second in range(seconds + 1):
            queried = server_of(self.world.positions[self.pairs[:, 1]])
            moved = np.zeros(self.world.size.objects, bool)
            moved[self.world.step()] = True
            self._second(second, moved, queried)
            if second:
                now = server_of(self.world.positions[self.pairs[:, 1]])
                self.outcome.crossings += int(np.count_nonzero(queried != now))
        self._add_handoffs()
        self.outcome.enough = self._enough / max(self._results, 1)
        return self.outcome

    def _second(self, second: int, moved: Array, queried: Array) -> None:
        """Evaluates all search regions and local results; the first second is the plans' initialization."""
        server, size = server_of(self.world.positions), np.zeros((SERVERS, SERVERS))
        started = time.process_time()
        buckets, work = ObjectCells(self.world.positions), []
        shared = (time.process_time() - started) / SERVERS
        for number, (focal, _) in enumerate(self.pairs):
            started = time.process_time()
            changed = self._evaluate(number, focal, second, moved, buckets, server)
            work.append(time.process_time() - started)
            size[:, queried[number]] += costs.TUPLE_BYTES * changed
        # a server works on its own queries one after the other: half of them come before a query, on average
        each = np.bincount(queried, work, minlength=SERVERS)
        busiest = shared + float(each.max()) / 2
        if second == 0:
            self.outcome.starts += [
                4 * costs.travel(0) + costs.travel(costs.QUERY_BYTES) + one for one in work
            ]
            return
        self.outcome.seconds += 1
        self.outcome.local_packets += costs.packets(size)
        self.outcome.answers.append(costs.MEAN_WAIT_SECONDS + busiest + costs.travel(float(size.max())))
        self.outcome.updates += [
            2 * costs.travel(costs.QUERY_BYTES) + shared + one
            for one, (focal, _) in zip(work, self.pairs, strict=True)
            if moved[focal]
        ]

    def _evaluate(
        self, number: int, focal: int, second: int, moved: Array, buckets: ObjectCells, server: Array
    ) -> Array:
        """Returns [servers]: the tuples that each participating server sends. When there are fewer than k,
        the focal object moves or five seconds are over, the search region is calculated again.
        """
        query, centre = self.queries[number], self.world.positions[focal]
        near, far = (
            buckets.within(centre, query.radius) if query.radius else (np.zeros(0, np.int64), np.zeros(0))
        )
        near, far = near[near != focal], far[near != focal]
        if second:
            self._results += 1
            self._enough += len(far) >= self.k
        due = len(far) < self.k or moved[focal] or second % ADJUST_SECONDS == 0
        while due:
            local = (
                self._local_distance(buckets, centre, server[focal], focal, server) if len(far) == 0 else 0.0
            )
            radius = search_radius(query.radius, far, self.k, local)
            if radius == query.radius:
                break
            query.radius = radius
            near, far = buckets.within(centre, radius)
            near, far = near[near != focal], far[near != focal]
            due = len(far) < self.k and radius < DIAGONAL  # it expands until there are k
        return self._differences(query, *self._lists(near, far, server[near]), moved)

    def _lists(self, near: Array, far: Array, at: Array) -> tuple[Array, Array]:
        """Returns (objects, servers) without those that are not among the k nearest of their server."""
        kept = np.ones(len(near), bool)
        if len(near) > self.k:
            for server in np.flatnonzero(np.bincount(at) > self.k):
                there = np.flatnonzero(at == server)
                kept[there[np.argpartition(far[there], self.k)[self.k :]]] = False
        return near[kept], at[kept]

    def _differences(self, query: _NearestQuery, near: Array, at: Array, moved: Array) -> Array:
        """Returns tuples per server: objects that entered its list, left it, or moved within it."""
        mark = self._mark
        mark[query.objects] = query.servers
        stayed = mark[near] == at
        mark[query.objects] = -1
        mark[near] = at
        left = query.servers[mark[query.objects] != query.servers]
        mark[near] = -1
        query.objects, query.servers = near, at
        sent = np.concatenate([at[~stayed | moved[near]], left])
        return np.bincount(sent, minlength=SERVERS)

    def _local_distance(
        self, buckets: ObjectCells, centre: Array, own: int, focal: int, server: Array
    ) -> float:
        """Returns the distance of the k-th nearest object at the focal object's server; if it has fewer, the
        diagonal.
        """
        radius = math.sqrt(self.k / len(server))
        while radius < DIAGONAL:
            near, far = buckets.within(centre, radius)
            far = far[(server[near] == own) & (near != focal)]
            if len(far) >= self.k:
                return float(np.partition(far, self.k - 1)[self.k - 1])
            radius *= 1.5
        return DIAGONAL

    def _add_handoffs(self) -> None:
        for query in self.queries:
            entries = costs.OBJECT_ENTRY_BYTES * len(query.objects)
            self.outcome.handoffs.append(costs.handoff(len(np.unique(query.servers)), entries))
