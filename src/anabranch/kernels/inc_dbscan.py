"""Incremental DBSCAN for one query (Ester and others 1998; Chandi, section 8), to compare with.

A point is inserted when it arrives and deleted when its window has passed. It keeps its count of neighbours
and the label of its cluster, if it is core. Labels are joined when an insertion connects clusters, and lead
on to the one that stands for all. When a deletion takes cores away, the cores around them (the seeds) may
have lost their connection: searches spread from all seeds at once, until they have met or one of them has
seen all of its part, which then gets a new label.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.rangesearch import within
from anabranch.kernels.roles import CORE, EDGE, NOISE
from anabranch.kernels.searchgrid import Grid, distance_of, into_grid

Array = np.ndarray[Any, Any]


class Marks(NamedTuple):
    """What is known of points, by their place in the index, and of labels."""

    near: Array  # int32[points]: how many neighbours
    label: Array  # int32[points], of cores
    same: Array  # int32[labels]: leads on to the label that stands for the cluster
    labels: Array  # int64[1]: how many labels there are


class Search(NamedTuple):
    """An index, and room for its searches."""

    points: Array
    grid: Grid
    side: float
    rings: int
    reach: float
    chains: Array  # int32[cells around a point]
    near: Array  # int32[points]


class Spreading(NamedTuple):
    """Searches that spread from seeds: seed of each core that was seen, and the cores of each seed in turn.

    The cores of a seed are a chain: those that were searched around, then those that were not.
    """

    seen: Array  # int32[points]: the number of the seed, or -1
    after: Array  # int32[points]
    head: Array  # int32[seeds]
    done: Array  # int32[seeds]: the last that was searched around, or -1
    next: Array  # int32[seeds]: the first that was not searched around, or -1
    tail: Array  # int32[seeds]
    met: Array  # int32[seeds]: leads on to the seed that stands for all that met it


def new_marks(points: int) -> Marks:
    return Marks(
        np.zeros(points, np.int32),
        np.full(points, -1, np.int32),
        np.arange(2 * points, dtype=np.int32),
        np.zeros(1, np.int64),
    )


def new_spreading(points: int) -> Spreading:
    seen = np.full(points, -1, np.int32)
    return Spreading(seen, *(np.empty(points, np.int32) for _ in range(6)))


@kernel
def _stand(same: Array, label: int) -> int:
    while same[label] != label:
        same[label] = same[same[label]]
        label = same[label]
    return label


@kernel
def _new_label(marks: Marks, first: int, stop: int) -> int:
    """The next label; when they run out, all cores get theirs anew."""
    if marks.labels[0] == len(marks.same):
        numbers = np.full(len(marks.same), -1, np.int32)
        used = 0
        for point in range(first, stop):
            if marks.label[point] >= 0:
                label = _stand(marks.same, marks.label[point])
                if numbers[label] < 0:
                    numbers[label] = used
                    used += 1
                marks.label[point] = numbers[label]
        for label in range(len(marks.same)):
            marks.same[label] = label
        marks.labels[0] = used
    marks.labels[0] += 1
    return marks.labels[0] - 1


@kernel
def _around(search: Search, point: int, first: int) -> int:
    """The neighbours of a point from `first` on, into search.near; returns how many."""
    return within(
        search.points, point, first, search.grid, search.side, search.rings, search.reach, search.chains,
        search.near,
    )  # fmt: skip


@kernel
def _new_core(marks: Marks, point: int, near: Array, found: int, first: int, stop: int) -> None:
    """Joins a new core with those of its neighbours that are core; without any it begins a cluster."""
    label = -1
    for entry in range(found):
        other = near[entry]
        if marks.label[other] >= 0:
            theirs = _stand(marks.same, marks.label[other])
            if label < 0:
                label = theirs
            elif label != theirs:
                marks.same[max(label, theirs)] = min(label, theirs)
                label = min(label, theirs)
    marks.label[point] = label if label >= 0 else _new_label(marks, first, stop)


@kernel
def _insert(
    marks: Marks, search: Search, count: int, point: int, first: int, near: Array, found: int
) -> None:
    """Inserts a point, which is in the grid, with its neighbours in the window."""
    marks.near[point] = found
    marks.label[point] = -1
    for entry in range(found):
        marks.near[near[entry]] += 1
    if found >= count:
        _new_core(marks, point, near, found, first, point)
    for entry in range(found):
        other = near[entry]
        if marks.near[other] >= count and marks.label[other] < 0:
            _new_core(marks, other, search.near, _around(search, other, first), first, point + 1)


@kernel
def insert_alone(marks: Marks, search: Search, count: int, start: int, stop: int, first: int) -> None:
    """Inserts points start..stop, each after a search of its own."""
    near = np.empty(stop, np.int32)
    for point in range(start, stop):
        found = _around(search, point, first)
        near[:found] = search.near[:found]
        into_grid(search.grid, search.points, point, search.side)
        _insert(marks, search, count, point, first, near, found)


@kernel
def insert_shared(
    marks: Marks, search: Search, count: int, start: int, stop: int, first: int,
    ends: Array, near: Array, far: Array, shift: int,
) -> None:  # fmt: skip
    """Inserts points start..stop with neighbours that were found for all queries at once.

    Those of point start + i are near[ends[i]:ends[i + 1]] + shift; see rangesearch.enter_all.
    """
    mine = np.empty(stop, np.int32)
    for point in range(start, stop):
        found = 0
        for entry in range(ends[point - start], ends[point - start + 1]):
            if far[entry] <= search.reach and near[entry] + shift >= first:
                mine[found] = near[entry] + shift
                found += 1
        into_grid(search.grid, search.points, point, search.side)
        _insert(marks, search, count, point, first, mine, found)


@kernel
def _seed_of(met: Array, seed: int) -> int:
    while met[seed] != seed:
        met[seed] = met[met[seed]]
        seed = met[seed]
    return seed


@kernel
def _meet(spreading: Spreading, one: int, other: int) -> int:
    """Two searches have met: what is left of both goes on as one; returns it."""
    head, after, tail = spreading.head, spreading.after, spreading.tail
    done, todo = spreading.done, spreading.next
    if todo[one] < 0:  # all searched: this one first
        after[tail[one]] = head[other]
        if done[other] < 0:
            done[other] = tail[one]
        head[other] = head[one]
        spreading.met[one] = other
        return other
    if todo[other] < 0:
        after[tail[other]] = head[one]
        if done[one] < 0:
            done[one] = tail[other]
        head[one] = head[other]
        spreading.met[other] = one
        return one
    # what `other` has searched around goes before all of `one`, what it has not, after it
    if done[other] >= 0:
        after[done[other]] = head[one]
        if done[one] < 0:
            done[one] = done[other]
        head[one] = head[other]
    after[tail[one]] = todo[other]
    tail[one] = tail[other]
    spreading.met[other] = one
    return one


@kernel
def _spread(
    marks: Marks, search: Search, spreading: Spreading, seeds: Array, count: int, first: int, stop: int
) -> None:
    """Finds out which of the cores `seeds`, of one cluster so far, are connected; parts get new labels."""
    for seed in range(count):
        spreading.seen[seeds[seed]] = seed
        spreading.head[seed] = spreading.next[seed] = spreading.tail[seed] = seeds[seed]
        spreading.done[seed] = -1
        spreading.after[seeds[seed]] = -1
        spreading.met[seed] = seed
    alive = count
    turn = 0
    while alive > 1:
        seed = turn % count
        turn += 1
        if spreading.met[seed] != seed or spreading.head[seed] < 0:
            continue
        point = spreading.next[seed]
        if point < 0:  # the part is complete: it has split off
            label = _new_label(marks, first, stop)
            member = spreading.head[seed]
            while member >= 0:
                marks.label[member] = label
                spreading.seen[member] = -1
                member = spreading.after[member]
            spreading.head[seed] = -1
            alive -= 1
            continue
        spreading.done[seed] = point
        spreading.next[seed] = spreading.after[point]
        found = _around(search, point, first)
        for entry in range(found):
            other = search.near[entry]
            if marks.label[other] < 0:
                continue
            if spreading.seen[other] < 0:
                spreading.seen[other] = seed
                spreading.after[other] = -1
                spreading.after[spreading.tail[seed]] = other
                spreading.tail[seed] = other
                if spreading.next[seed] < 0:
                    spreading.next[seed] = other
            else:
                theirs = _seed_of(spreading.met, spreading.seen[other])
                if theirs != seed:
                    seed = _meet(spreading, seed, theirs)
                    alive -= 1
                    if alive == 1:
                        break
    for seed in range(count):
        if spreading.met[seed] == seed and spreading.head[seed] >= 0:
            member = spreading.head[seed]
            while member >= 0:
                spreading.seen[member] = -1
                member = spreading.after[member]


@kernel
def delete_until(
    marks: Marks, search: Search, spreading: Spreading, count: int, start: int, stop: int, newest: int
) -> None:
    """Deletes the points start..stop, the oldest of the window, one by one; `newest` is the next to come."""
    lost = np.empty(newest, np.int32)
    seeds = np.empty(newest, np.int32)
    labels = np.empty(newest, np.int32)
    part = np.empty(newest, np.int32)
    for point in range(start, stop):
        first = point + 1
        found = _around(search, point, first)
        gone = 0
        known = 0
        was_core = marks.label[point] >= 0
        marks.label[point] = -1
        for entry in range(found):
            other = search.near[entry]
            marks.near[other] -= 1
            if marks.near[other] == count - 1:
                lost[gone] = other
                gone += 1
        for entry in range(gone):
            marks.label[lost[entry]] = -1
        if was_core:
            for entry in range(found):
                if marks.label[search.near[entry]] >= 0:
                    seeds[known] = search.near[entry]
                    spreading.seen[seeds[known]] = 0
                    known += 1
        for entry in range(gone):
            around = _around(search, lost[entry], first)
            for place in range(around):
                other = search.near[place]
                if marks.label[other] >= 0 and spreading.seen[other] < 0:
                    seeds[known] = other
                    spreading.seen[other] = 0
                    known += 1
        for entry in range(known):
            spreading.seen[seeds[entry]] = -1
            labels[entry] = _stand(marks.same, marks.label[seeds[entry]])
        for entry in range(known):  # the seeds of each cluster
            label = labels[entry]
            if label < 0:
                continue
            size = 0
            for other in range(entry, known):
                if labels[other] == label:
                    part[size] = seeds[other]
                    size += 1
                    labels[other] = -1
            if size > 1:
                _spread(marks, search, spreading, part, size, first, newest)


@kernel
def roles_of(marks: Marks, search: Search, start: int, stop: int, clusters: Array, roles: Array) -> int:
    """Fills clusters and roles of the points start..stop; one search an edge or noise point."""
    numbers = np.zeros(len(marks.same), np.int32)
    count = 0
    for point in range(start, stop):
        core = point
        role = CORE
        if marks.label[point] < 0:
            core = -1
            distance = np.inf
            found = _around(search, point, start)
            for entry in range(found):
                other = search.near[entry]
                if marks.label[other] < 0:
                    continue
                away = distance_of(search.points, point, other)
                if core < 0 or away < distance or (away == distance and other < core):
                    core, distance = other, away
            role = NOISE if core < 0 else EDGE
        roles[point - start] = role
        clusters[point - start] = 0
        if core >= 0:
            label = _stand(marks.same, marks.label[core])
            if numbers[label] == 0:
                count += 1
                numbers[label] = count
            clusters[point - start] = numbers[label]
    return count
