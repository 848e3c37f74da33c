"""Labels of clusters for incremental DBSCAN, and what becomes of them when cores leave: see `inc_dbscan`.

When a deletion takes cores away, the cores around them (the seeds) may have lost their connection: searches
spread from all seeds at once, until they have met or one of them has seen all of its part, which then gets a
new label.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.rangesearch import within
from anabranch.kernels.searchgrid import Grid

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


@leaf
def label_of(same: Array, label: int) -> int:
    while same[label] != label:
        same[label] = same[same[label]]
        label = same[label]
    return label


@kernel
def new_label(marks: Marks, first: int, stop: int) -> int:
    """The next label; when they run out, all cores get theirs anew."""
    if marks.labels[0] == len(marks.same):
        numbers = np.full(len(marks.same), -1, np.int32)
        used = 0
        for point in range(first, stop):
            if marks.label[point] >= 0:
                label = label_of(marks.same, marks.label[point])
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
def around_of(search: Search, point: int, first: int) -> int:
    """The neighbours of a point from `first` on, into search.near; returns how many."""
    return within(
        search.points, point, first, search.grid, search.side, search.rings, search.reach, search.chains,
        search.near,
    )  # fmt: skip


@leaf
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
def spread(
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
            label = new_label(marks, first, stop)
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
        found = around_of(search, point, first)
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
