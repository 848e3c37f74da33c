"""Incremental DBSCAN for one query (Ester and others 1998; Chandi, section 8), to compare with.

A point is inserted when it arrives and deleted when its window has passed. It keeps its count of neighbours
and the label of its cluster, if it is core. Labels are joined when an insertion connects clusters, and lead
on to the one that stands for all; a deletion may split a cluster (see `inc_dbscan_labels`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.inc_dbscan_labels import (
    Marks,
    Search,
    Spreading,
    around_of,
    label_of,
    new_label,
    spread,
)
from anabranch.kernels.jit import kernel
from anabranch.kernels.roles import CORE, EDGE, NOISE
from anabranch.kernels.searchgrid import distance_of, into_grid

Array = np.ndarray[Any, Any]


@kernel
def _new_core(marks: Marks, point: int, near: Array, found: int, first: int, stop: int) -> None:
    """Joins a new core with those of its neighbours that are core; without any it begins a cluster."""
    label = -1
    for entry in range(found):
        other = near[entry]
        if marks.label[other] >= 0:
            theirs = label_of(marks.same, marks.label[other])
            if label < 0:
                label = theirs
            elif label != theirs:
                marks.same[max(label, theirs)] = min(label, theirs)
                label = min(label, theirs)
    marks.label[point] = label if label >= 0 else new_label(marks, first, stop)


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
            _new_core(marks, other, search.near, around_of(search, other, first), first, point + 1)


@kernel
def insert_alone(marks: Marks, search: Search, count: int, start: int, stop: int, first: int) -> None:
    """Inserts points start..stop, each after a search of its own."""
    near = np.empty(stop, np.int32)
    for point in range(start, stop):
        found = around_of(search, point, first)
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
        found = around_of(search, point, first)
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
            around = around_of(search, lost[entry], first)
            for place in range(around):
                other = search.near[place]
                if marks.label[other] >= 0 and spreading.seen[other] < 0:
                    seeds[known] = other
                    spreading.seen[other] = 0
                    known += 1
        for entry in range(known):
            spreading.seen[seeds[entry]] = -1
            labels[entry] = label_of(marks.same, marks.label[seeds[entry]])
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
                spread(marks, search, spreading, part, size, first, newest)


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
            found = around_of(search, point, start)
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
            label = label_of(marks.same, marks.label[core])
            if numbers[label] == 0:
                count += 1
                numbers[label] = count
            clusters[point - start] = numbers[label]
    return count
