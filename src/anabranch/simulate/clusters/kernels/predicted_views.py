"""Extra-N: the predicted views of one query (Chandi, section 3.1), to compare with.

Windows are numbered by their start, k * slide, and a point is in the windows first..last. A predicted view of
a future window holds what is known of it: how many neighbours each point will have there, and which cores
belong together. As the points of a window that will still be there in the next are fewer, a point that is
core in window k + 1 is core in window k: `core` is the last window in which a point is core so far.

A point that is not core in all its windows keeps links to those neighbours that share such a window with it;
they are fewer than `count`. A core keeps a count and a membership per view, no links (hybrid abstraction).

Points lie in a ring as long as the window; the views of a point in a ring as long as a point has windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from anabranch.families.clusters.kernels.neighbour_lists import distance_of
from anabranch.families.clusters.kernels.point_roles import CORE, EDGE, NOISE
from anabranch.model.arrays import Bytes, Floats, Ints32
from anabranch.numeric.jit import kernel, leaf
from anabranch.simulate.clusters.kernels.range_search import BatchNeighbours


class PredictedViews(NamedTuple):
    counts: Ints32  # [window, views]: neighbours of a point in each of its windows, up to `count`
    member: Ints32  # int32[window, views]: leads on to the point that stands for the cluster
    core: Ints32  # [window]: the last window in which the point is core
    last: Ints32  # [window]: the last window that holds the point
    links: Ints32  # [window, count]: positions of neighbours
    linked: Ints32  # [window]: how many these are


def new_views(count: int, size: int, slide: int) -> PredictedViews:
    views = -(-size // slide)
    return PredictedViews(
        np.zeros((size, views), np.int32),
        np.zeros((size, views), np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros((size, max(1, count)), np.int32),
        np.zeros(size, np.int32),
    )


@leaf
def _root(member: Ints32, point: int, view: int) -> int:
    """The point that stands for the cluster of a core in a view; shortens the way there."""
    while member[point, view] != point:
        member[point, view] = member[member[point, view], view]
        point = int64(member[point, view])
    return point


@leaf
def _join(member: Ints32, one: int, other: int, view: int) -> None:
    if member[one, view] != member[other, view]:
        one, other = _root(member, one, view), _root(member, other, view)
        member[max(one, other), view] = min(one, other)


@leaf
def _link(links: Ints32, linked: Ints32, owner: int, neighbour: int, oldest: int) -> None:
    """Adds a link; where there is no room, those to points before `oldest` go first."""
    size = linked[owner]
    if size == links.shape[1]:
        kept = 0
        for entry in range(size):
            if links[owner, entry] >= oldest:
                links[owner, kept] = links[owner, entry]
                kept += 1
        size = kept
    links[owner, size] = neighbour
    linked[owner] = size + 1


@leaf
def _back(index: int, steps: int, length: int) -> int:
    """The index that many steps before another in a ring; a division would take longer."""
    index -= steps
    return index if index >= 0 else index + length


@leaf
def _view(view: int, steps: int, spans: int) -> int:
    """The view that many windows after another."""
    view += steps
    return view if view < spans else view - spans


@leaf
def _new_core(views: PredictedViews, owner: int, until: int, first: int, oldest: int) -> None:
    """A point has become core in further windows, up to `until`: joins it with the cores it is linked to.

    Links that serve only windows in which it is core now are dropped. The oldest window that is not over is
    `first`, which begins at `oldest`.
    """
    member, core, last, links, linked = views.member, views.core, views.last, views.links, views.linked
    length, spans = member.shape
    begin = max(core[owner] + 1, first)
    core[owner] = until
    kept = 0
    for entry in range(linked[owner]):
        position = links[owner, entry]
        if position < oldest:
            continue
        other = position % length
        shared = min(last[owner], last[other])
        for window in range(begin, min(until, shared, core[other]) + 1):
            _join(member, owner, other, window % spans)
        if shared > until:
            links[owner, kept] = position
            kept += 1
    linked[owner] = kept


@kernel
def add_to_views(
    views: PredictedViews, reach: float, count: int, slide: int, start: int, stop: int,
    neighbours: BatchNeighbours, nearest_first: bool,
) -> None:  # fmt: skip
    """Adds the points at positions start..stop with their neighbours.

    Only neighbours within the range count; nearest_first says that they are sorted by distance.
    """
    offset, ends, near, far = neighbours.offset, neighbours.ends, neighbours.near, neighbours.far
    counts, member, cores, lasts = views.counts, views.member, views.core, views.last
    links, linked = views.links, views.linked
    size, spans = member.shape
    tally = np.zeros(spans + 1, np.int32)
    for point in range(start, stop):
        last = point // slide
        if last * slide + size <= point:
            continue  # between two windows
        first = max(0, -((size - 1 - point) // slide))
        oldest = first * slide
        here, begin = point % size, first % spans
        lasts[here] = last
        linked[here] = 0
        low, high = ends[point - start], ends[point - start + 1]
        tally[:] = 0
        for entry in range(low, high):
            if far[entry] > reach:
                if nearest_first:
                    break
                continue
            position = near[entry] + offset
            if position >= oldest:
                tally[lasts[_back(here, point - position, size)] - first] += 1
        known = 0
        core = first - 1
        for window in range(last, first - 1, -1):
            known += tally[window - first]
            if core < first and known >= count:
                core = window
            view = _view(begin, window - first, spans)
            counts[here, view] = min(known, count)
            member[here, view] = here
        cores[here] = core
        for entry in range(low, high):
            if far[entry] > reach:
                if nearest_first:
                    break
                continue
            position = near[entry] + offset
            if position < oldest:
                continue
            there = _back(here, point - position, size)
            shared = lasts[there]
            was = max(cores[there], first - 1)
            if was < shared:
                until = was
                for window in range(was + 1, shared + 1):
                    view = _view(begin, window - first, spans)
                    counts[there, view] += 1
                    if counts[there, view] >= count:
                        until = window
                if until > was:
                    _new_core(views, there, until, first, oldest)
                if until < shared:
                    _link(links, linked, there, point, oldest)
            if core < shared:
                _link(links, linked, here, position, oldest)
            for window in range(first, min(core, shared, cores[there]) + 1):
                _join(member, here, there, _view(begin, window - first, spans))


@kernel
def label_view(
    views: PredictedViews,
    points: Floats,
    offset: int,
    start: int,
    stop: int,
    window: int,
    clusters: Ints32,
    roles: Bytes,
) -> int:
    """Fills clusters and roles of the points at positions start..stop; returns the number of clusters."""
    length, spans = views.member.shape
    view = window % spans
    numbers = np.zeros(length, np.int32)
    count = 0
    for point in range(start, stop):
        here = point % length
        role = CORE
        core = here
        if views.core[here] < window:
            role = NOISE
            nearest, distance = -1, np.inf
            for entry in range(views.linked[here]):
                other = int64(views.links[here, entry])
                if other < start or views.core[other % length] < window:
                    continue
                away = distance_of(points, point - offset, other - offset)
                if nearest < 0 or away < distance or (away == distance and other < nearest):
                    nearest, distance = other, away
            if nearest >= 0:
                role = EDGE
                core = nearest % length
        roles[point - start] = role
        clusters[point - start] = 0
        if role != NOISE:
            tree = _root(views.member, core, view)
            if numbers[tree] == 0:
                count += 1
                numbers[tree] = count
            clusters[point - start] = numbers[tree]
    return count
