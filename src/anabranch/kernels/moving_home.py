"""The home zone's work: the last report of a tick, moves and departures, and focal updates for the regions
they concern.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.moving_arrays import BLOCK, ZERO, Int, Space
from anabranch.kernels.moving_shapes import across, extent
from anabranch.kernels.regions import Layout, mark_zones, zone_of

Array = np.ndarray[Any, Any]


#: What a home zone knows of an object: the last report that went to a region; number and zone are -1 before
#: the first.
KNOWN = np.dtype([("x", np.float64), ("y", np.float64), ("number", np.int64), ("zone", np.int64)], align=True)

#: An entry of the forwarding request table: a query that follows an object.
FOLLOWER = np.dtype(
    [
        ("query", np.int64),
        ("start", np.int64),  # the number of the first report it sees
        ("end", np.int64),  # its last tick
        ("shape", np.int64),
        ("a", np.float64),
        ("b", np.float64),
    ],
    align=True,
)

#: A report in stream order; `index` is the object's in its home zone.
REPORT = np.dtype(
    [
        ("tick", np.int64),
        ("index", np.int64),
        ("x", np.float64),
        ("y", np.float64),
        ("number", np.int64),
        ("gone", np.int64),
    ],
    align=True,
)


#: The shape of an entry whose query asks for nearest objects: one zone answers it, by its number.
ONE_ZONE = 2

_LEAVES, _NONE = np.int64(1), ZERO


class Followers(NamedTuple):
    """The forwarding request table: those who follow an object are entries first[index] to first[index + 1]
    - 1.
    """

    first: Array  # int64
    entries: Array  # FOLLOWER


@kernel
def last_of_tick(tick: Array, index: Array, count: Int) -> Array:
    """bool[n]: whether a report is its object's last in its tick; reports come by tick, objects are 0 to
    count - 1.
    """
    seen = np.full(count, np.int64(-1))
    out = np.empty(len(tick), np.bool_)
    for row in range(len(tick) - 1, -1, -1):
        out[row] = seen[index[row]] != tick[row]
        seen[index[row]] = tick[row]
    return out


@kernel
def _grown(array: Array) -> Array:
    more = np.empty((2 * len(array), array.shape[1]), array.dtype)
    for row in range(len(array)):
        for column in range(array.shape[1]):
            more[row, column] = array[row, column]
    return more


@kernel
def _mark(space: Space, layout: Layout, follower: Any, x: float, y: float, marks: Array) -> None:
    """The zones that participate in a query (PSet) when its focal point is there."""
    if follower.shape == ONE_ZONE:
        marks[:] = 0
        marks[follower.query % layout.zones] = 1
        return
    low_x, high_x, low_y, high_y = extent(space, follower.shape, follower.a, follower.b, x, y)
    mark_zones(layout, low_x, high_x, low_y, high_y, marks)


@kernel
def _noted(table: Array, count: Int, a: Int, b: Int, c: Int, d: Int) -> Array:
    """The table with one row more at `count`; twice as long if it was full."""
    if count == len(table):
        table = _grown(table)
    table[count, 0] = a
    table[count, 1] = b
    table[count, 2] = c
    table[count, 3] = d
    return table


@kernel
def forward(
    space: Space, layout: Layout, reports: Array, known: Array, dirty: Array, followers: Followers
) -> tuple[Array, Array]:
    """Moves and focal updates, in stream order; `known` is brought up to date, and the blocks of it that
    changed are marked.

    moves: int64[n, 4], (zone, row of the report, 1 if the object leaves the zone or is gone, 0). updates:
    int64[m, 4], (zone, row of the report, query, 1 the zone participates + 2 the focal point is known).
    """
    moves, move = np.empty((len(reports) + 1, 4), np.int64), ZERO
    updates, update = np.empty((64, 4), np.int64), ZERO
    old, new = np.zeros(layout.zones, np.uint8), np.zeros(layout.zones, np.uint8)
    for row in range(len(reports)):
        report, before = reports[row], known[reports[row].index]
        zone = zone_of(layout, across(space, report.x), report.y)
        is_gone = report.gone <= report.tick
        if before.zone >= 0 and before.zone != zone:
            moves = _noted(moves, move, before.zone, row, _LEAVES, _NONE)
            move += 1
        moves = _noted(moves, move, zone, row, np.int64(is_gone), _NONE)
        move += 1
        for entry in range(followers.first[report.index], followers.first[report.index + 1]):
            follower = followers.entries[entry]
            if report.number < follower.start or report.tick > follower.end:
                continue
            _mark(space, layout, follower, report.x, report.y, new)
            old[:] = 0
            if before.number >= follower.start:
                _mark(space, layout, follower, before.x, before.y, old)
            for server in range(layout.zones):
                if old[server] or new[server]:
                    flags = np.int64(new[server]) + (0 if is_gone else 2)
                    updates = _noted(updates, update, server, row, follower.query, flags)
                    update += 1
        before.x = report.x
        before.y = report.y
        before.number = report.number
        before.zone = zone
        dirty[report.index // BLOCK] = 1
    return moves[:move], updates[:update]


@kernel
def servers_of(space: Space, layout: Layout, xs: Array, ys: Array) -> Array:
    """int64[n]: the zone of the regional server that each position belongs to."""
    out = np.empty(len(xs), np.int64)
    for place in range(len(xs)):
        out[place] = zone_of(layout, across(space, xs[place]), ys[place])
    return out


@kernel
def participates(
    space: Space, layout: Layout, zone: Int, shape: Int, a: float, b: float, x: float, y: float
) -> bool:
    """Whether a zone is one of those that participate in a query (PSet) when its focal point is there."""
    marks = np.zeros(layout.zones, np.uint8)
    low_x, high_x, low_y, high_y = extent(space, shape, a, b, x, y)
    mark_zones(layout, low_x, high_x, low_y, high_y, marks)
    return marks[zone] != 0


@kernel
def crossed(space: Space, xs: Array) -> Array:
    """float64[n]: the x by which regions know these positions."""
    out = np.empty(len(xs))
    for place in range(len(xs)):
        out[place] = across(space, xs[place])
    return out
