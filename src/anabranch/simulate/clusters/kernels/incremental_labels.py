"""Incremental DBSCAN for one query (Ester and others 1998; Chandi, section 8), to compare with.

A point is inserted when it arrives and deleted when its window has passed. It keeps its count of neighbours
and the label of its cluster, if it is core. Labels are joined when an insertion connects clusters, and lead
on to the one that stands for all.

A deletion may split a cluster. When it removes cores, the cores around them (the seeds) may have lost their
connection: searches spread from all seeds at once, until they have met or one of them has seen all of its
part, which then gets a new label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.families.clusters.kernels.neighbour_lists import add_to_grid, distance_of
from anabranch.families.clusters.kernels.point_roles import CORE, EDGE, NOISE
from anabranch.model.arrays import Bytes, Ints, Ints32
from anabranch.numeric.jit import kernel, leaf
from anabranch.simulate.clusters.kernels.range_search import BatchNeighbours, RangeSearch, within


class PointLabels(NamedTuple):
    """What is known of points, by their index, and of labels."""

    near: Ints32  # [points]: how many neighbours
    label: Ints32  # [points], of cores
    same: Ints32  # [labels]: leads on to the label that stands for the cluster
    used: Ints  # [1]: how many labels there are


class SeedSearches(NamedTuple):
    """Searches that spread from seeds: seed of each core that was seen, and the cores of each seed in turn.

    The cores of a seed are a chain: those that were searched around, then those that were not.
    """

    seen: Ints32  # [points]: the number of the seed, or -1
    after: Ints32  # [points]
    head: Ints32  # [seeds]
    done: Ints32  # [seeds]: the last that was searched around, or -1
    next: Ints32  # [seeds]: the first that was not searched around, or -1
    tail: Ints32  # [seeds]
    met: Ints32  # [seeds]: leads on to the seed that stands for all that met it


def new_labels(points: int) -> PointLabels:
    return PointLabels(
        np.zeros(points, np.int32),
        np.full(points, -1, np.int32),
        np.arange(2 * points, dtype=np.int32),
        np.zeros(1, np.int64),
    )


def new_seed_searches(points: int) -> SeedSearches:
    seen = np.full(points, -1, np.int32)
    return SeedSearches(seen, *(np.empty(points, np.int32) for _ in range(6)))


@leaf
def label_of(same: Ints32, label: int) -> int:
    while same[label] != label:
        same[label] = same[same[label]]
        label = same[label]
    return label


@kernel
def new_label(labels: PointLabels, first: int, stop: int) -> int:
    """Returns the next label; when they run out, all cores are labelled again."""
    if labels.used[0] == len(labels.same):
        numbers = np.full(len(labels.same), -1, np.int32)
        used = 0
        for point in range(first, stop):
            if labels.label[point] >= 0:
                label = label_of(labels.same, labels.label[point])
                if numbers[label] < 0:
                    numbers[label] = used
                    used += 1
                labels.label[point] = numbers[label]
        for label in range(len(labels.same)):
            labels.same[label] = label
        labels.used[0] = used
    labels.used[0] += 1
    return labels.used[0] - 1


@leaf
def _seed_of(met: Ints32, seed: int) -> int:
    while met[seed] != seed:
        met[seed] = met[met[seed]]
        seed = met[seed]
    return seed


@kernel
def _meet(seeking: SeedSearches, one: int, other: int) -> int:
    """Two searches have met: what is left of both goes on as one; returns it."""
    head, after, tail = seeking.head, seeking.after, seeking.tail
    done, todo = seeking.done, seeking.next
    if todo[one] < 0:  # all searched: this one first
        after[tail[one]] = head[other]
        if done[other] < 0:
            done[other] = tail[one]
        head[other] = head[one]
        seeking.met[one] = other
        return other
    if todo[other] < 0:
        after[tail[other]] = head[one]
        if done[one] < 0:
            done[one] = tail[other]
        head[one] = head[other]
        seeking.met[other] = one
        return one
    # what `other` has searched around goes before all of `one`, what it has not, after it
    if done[other] >= 0:
        after[done[other]] = head[one]
        if done[one] < 0:
            done[one] = done[other]
        head[one] = head[other]
    after[tail[one]] = todo[other]
    tail[one] = tail[other]
    seeking.met[other] = one
    return one


@kernel
def spread(
    labels: PointLabels,
    search: RangeSearch,
    seeking: SeedSearches,
    seeds: Ints32,
    count: int,
    first: int,
    stop: int,
) -> None:
    """Finds out which of the cores `seeds`, of one cluster so far, are connected; parts get new labels."""
    for seed in range(count):
        seeking.seen[seeds[seed]] = seed
        seeking.head[seed] = seeking.next[seed] = seeking.tail[seed] = seeds[seed]
        seeking.done[seed] = -1
        seeking.after[seeds[seed]] = -1
        seeking.met[seed] = seed
    alive = count
    turn = 0
    while alive > 1:
        seed = turn % count
        turn += 1
        if seeking.met[seed] != seed or seeking.head[seed] < 0:
            continue
        point = seeking.next[seed]
        if point < 0:  # the part is complete: it has split off
            label = new_label(labels, first, stop)
            member = seeking.head[seed]
            while member >= 0:
                labels.label[member] = label
                seeking.seen[member] = -1
                member = seeking.after[member]
            seeking.head[seed] = -1
            alive -= 1
            continue
        seeking.done[seed] = point
        seeking.next[seed] = seeking.after[point]
        found = within(search, point, first)
        for entry in range(found):
            other = search.near[entry]
            if labels.label[other] < 0:
                continue
            if seeking.seen[other] < 0:
                seeking.seen[other] = seed
                seeking.after[other] = -1
                seeking.after[seeking.tail[seed]] = other
                seeking.tail[seed] = other
                if seeking.next[seed] < 0:
                    seeking.next[seed] = other
            else:
                theirs = _seed_of(seeking.met, seeking.seen[other])
                if theirs != seed:
                    seed = _meet(seeking, seed, theirs)
                    alive -= 1
                    if alive == 1:
                        break
    for seed in range(count):
        if seeking.met[seed] == seed and seeking.head[seed] >= 0:
            member = seeking.head[seed]
            while member >= 0:
                seeking.seen[member] = -1
                member = seeking.after[member]


@kernel
def _new_core(labels: PointLabels, point: int, near: Ints32, found: int, first: int, stop: int) -> None:
    """Joins a new core with those of its neighbours that are core; without any it begins a cluster."""
    label = -1
    for entry in range(found):
        other = near[entry]
        if labels.label[other] >= 0:
            theirs = label_of(labels.same, labels.label[other])
            if label < 0:
                label = theirs
            elif label != theirs:
                labels.same[max(label, theirs)] = min(label, theirs)
                label = min(label, theirs)
    labels.label[point] = label if label >= 0 else new_label(labels, first, stop)


@kernel
def _insert(
    labels: PointLabels, search: RangeSearch, count: int, point: int, first: int, near: Ints32, found: int
) -> None:
    """Inserts a point, which is in the grid, with its neighbours in the window."""
    labels.near[point] = found
    labels.label[point] = -1
    for entry in range(found):
        labels.near[near[entry]] += 1
    if found >= count:
        _new_core(labels, point, near, found, first, point)
    for entry in range(found):
        other = near[entry]
        if labels.near[other] >= count and labels.label[other] < 0:
            _new_core(labels, other, search.near, within(search, other, first), first, point + 1)


@kernel
def insert_alone(
    labels: PointLabels, search: RangeSearch, count: int, start: int, stop: int, first: int
) -> None:
    """Inserts points start..stop, each after a search of its own."""
    near = np.empty(stop, np.int32)
    for point in range(start, stop):
        found = within(search, point, first)
        near[:found] = search.near[:found]
        add_to_grid(search.grid, point)
        _insert(labels, search, count, point, first, near, found)


@kernel
def insert_shared(
    labels: PointLabels, search: RangeSearch, count: int, start: int, stop: int, first: int,
    neighbours: BatchNeighbours,
) -> None:  # fmt: skip
    """Inserts points start..stop with neighbours that were found for all queries at once."""
    shift, ends, near, far = neighbours.offset, neighbours.ends, neighbours.near, neighbours.far
    mine = np.empty(stop, np.int32)
    for point in range(start, stop):
        found = 0
        for entry in range(ends[point - start], ends[point - start + 1]):
            if far[entry] <= search.reach and near[entry] + shift >= first:
                mine[found] = near[entry] + shift
                found += 1
        add_to_grid(search.grid, point)
        _insert(labels, search, count, point, first, mine, found)


@kernel
def delete_until(
    labels: PointLabels,
    search: RangeSearch,
    seeking: SeedSearches,
    count: int,
    start: int,
    stop: int,
    newest: int,
) -> None:
    """Deletes the points start..stop, the oldest of the window, one by one; `newest` is the next to come."""
    lost = np.empty(newest, np.int32)
    seeds = np.empty(newest, np.int32)
    of_seed = np.empty(newest, np.int32)  # labels
    part = np.empty(newest, np.int32)
    for point in range(start, stop):
        first = point + 1
        found = within(search, point, first)
        gone = 0
        known = 0
        was_core = labels.label[point] >= 0
        labels.label[point] = -1
        for entry in range(found):
            other = search.near[entry]
            labels.near[other] -= 1
            if labels.near[other] == count - 1:
                lost[gone] = other
                gone += 1
        for entry in range(gone):
            labels.label[lost[entry]] = -1
        if was_core:
            for entry in range(found):
                if labels.label[search.near[entry]] >= 0:
                    seeds[known] = search.near[entry]
                    seeking.seen[seeds[known]] = 0
                    known += 1
        for entry in range(gone):
            around = within(search, lost[entry], first)
            for entry_around in range(around):
                other = search.near[entry_around]
                if labels.label[other] >= 0 and seeking.seen[other] < 0:
                    seeds[known] = other
                    seeking.seen[other] = 0
                    known += 1
        for entry in range(known):
            seeking.seen[seeds[entry]] = -1
            of_seed[entry] = label_of(labels.same, labels.label[seeds[entry]])
        for entry in range(known):  # the seeds of each cluster
            label = of_seed[entry]
            if label < 0:
                continue
            size = 0
            for other in range(entry, known):
                if of_seed[other] == label:
                    part[size] = seeds[other]
                    size += 1
                    of_seed[other] = -1
            if size > 1:
                spread(labels, search, seeking, part, size, first, newest)


@kernel
def label_points(
    labels: PointLabels, search: RangeSearch, start: int, stop: int, clusters: Ints32, roles: Bytes
) -> int:
    """Fills clusters and roles of the points start..stop; one search per edge or noise point."""
    numbers = np.zeros(len(labels.same), np.int32)
    count = 0
    for point in range(start, stop):
        core = point
        role = CORE
        if labels.label[point] < 0:
            core = -1
            distance = np.inf
            found = within(search, point, start)
            for entry in range(found):
                other = search.near[entry]
                if labels.label[other] < 0:
                    continue
                away = distance_of(search.grid.points, point, other)
                if core < 0 or away < distance or (away == distance and other < core):
                    core, distance = other, away
            role = NOISE if core < 0 else EDGE
        roles[point - start] = role
        clusters[point - start] = 0
        if core >= 0:
            label = label_of(labels.same, labels.label[core])
            if numbers[label] == 0:
                count += 1
                numbers[label] = count
            clusters[point - start] = numbers[label]
    return count
