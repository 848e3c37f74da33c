"""Extra-N: the predicted views of one query (Chandi, section 3.1), to compare with.

Windows are numbered by their start, k * slide, and a point is in the windows first..last. A predicted view of
a future window holds what is known of it: how many neighbours each point will have there, and which cores
belong together. As the points of a window that will still be there in the next are fewer, a point that is
core in window k + 1 is core in window k: `core` is the last window in which a point is core so far.

A point that is not core in all its windows keeps links to those neighbours that share such a window with it;
they are fewer than `count`. A core keeps a count and a membership a view, no links (hybrid abstraction).

Points lie in a ring as long as the window; the views of a point in a ring as long as a point has windows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.roles import CORE, EDGE, NOISE
from anabranch.kernels.searchgrid import distance_of

Array = np.ndarray[Any, Any]


class Views(NamedTuple):
    counts: Array  # int32[window, views]: neighbours of a point in each of its windows, up to `count`
    member: Array  # int32[window, views]: leads on to the place that stands for the cluster
    core: Array  # int32[window]: the last window in which the point is core
    last: Array  # int32[window]: the last window that holds the point
    links: Array  # int32[window, count]: positions of neighbours
    linked: Array  # int32[window]: how many these are


def new_views(count: int, size: int, slide: int) -> Views:
    views = -(-size // slide)
    return Views(
        np.zeros((size, views), np.int32),
        np.zeros((size, views), np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros((size, max(1, count)), np.int32),
        np.zeros(size, np.int32),
    )


@leaf
def _stand(member: Array, place: int, view: int) -> int:
    """The place that stands for the cluster of a core in a view; shortens the way there."""
    while member[place, view] != place:
        member[place, view] = member[member[place, view], view]
        place = member[place, view]
    return place


@leaf
def _join(member: Array, one: int, other: int, view: int) -> None:
    if member[one, view] != member[other, view]:
        one, other = _stand(member, one, view), _stand(member, other, view)
        member[max(one, other), view] = min(one, other)


@leaf
def _link(links: Array, linked: Array, owner: int, neighbour: int, oldest: int) -> None:
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
def _back(place: int, steps: int, length: int) -> int:
    """The place that many steps before another in a ring; a division would take longer."""
    place -= steps
    return place if place >= 0 else place + length


@leaf
def _view(view: int, steps: int, spans: int) -> int:
    """The view that many windows after another."""
    view += steps
    return view if view < spans else view - spans


@leaf
def _new_core(
    member: Array, core: Array, last: Array, links: Array, linked: Array,
    owner: int, until: int, first: int, oldest: int,
) -> None:  # fmt: skip
    """A point has become core in further windows, up to `until`: joins it with the cores it is linked to.

    Links that serve only windows in which it is core now are dropped. The oldest window that is not over is
    `first`, which begins at `oldest`.
    """
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
def enter_views(
    views: Views, reach: float, count: int, slide: int, start: int, stop: int,
    offset: int, ends: Array, near: Array, far: Array, nearest_first: bool,
) -> None:  # fmt: skip
    """Enters the points at positions start..stop with their neighbours (`near` is position - offset).

    Only neighbours within the range count. See rangesearch.enter_all for ends, near and far; nearest_first
    says that they are sorted by distance.
    """
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
        neighbours = 0
        core = first - 1
        for window in range(last, first - 1, -1):
            neighbours += tally[window - first]
            if core < first and neighbours >= count:
                core = window
            view = _view(begin, window - first, spans)
            counts[here, view] = min(neighbours, count)
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
                    _new_core(member, cores, lasts, links, linked, there, until, first, oldest)
                if until < shared:
                    _link(links, linked, there, point, oldest)
            if core < shared:
                _link(links, linked, here, position, oldest)
            for window in range(first, min(core, shared, cores[there]) + 1):
                _join(member, here, there, _view(begin, window - first, spans))


@kernel
def roles_in_view(
    views: Views,
    points: Array,
    offset: int,
    start: int,
    stop: int,
    window: int,
    clusters: Array,
    roles: Array,
) -> int:
    """Fills clusters and roles of the points at positions start..stop, as roles.roles_in does."""
    length, spans = views.member.shape
    view = window % spans
    numbers = np.zeros(length, np.int32)
    count = 0
    for point in range(start, stop):
        place = point % length
        role = CORE
        core = place
        if views.core[place] < window:
            role = NOISE
            nearest, distance = -1, np.inf
            for entry in range(views.linked[place]):
                other = views.links[place, entry]
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
            tree = _stand(views.member, core, view)
            if numbers[tree] == 0:
                count += 1
                numbers[tree] = count
            clusters[point - start] = numbers[tree]
    return count
