"""The home zone's work: the last report per tick and object, moves and departures for the regions, and focal
updates for the regions that they concern.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anabranch.families.moving.kernels.arrays import BLOCK, ZERO, Int, Metric, Record
from anabranch.families.moving.kernels.region_layout import RegionLayout, mark_zones, zone_of
from anabranch.families.moving.kernels.shapes import extent
from anabranch.model.arrays import Array, Bools, Bytes, Floats, Ints, Words
from anabranch.numeric.jit import inner, kernel, twig

#: What a home zone knows of an object: the last report that went to a region; number and zone are -1 before
#: the first.
KNOWN = np.dtype(
    [
        ("x", np.float64),
        ("y", np.float64),
        ("number", np.int64),
        ("expires", np.int64),
        ("zone", np.int64),
    ],
    align=True,
)

#: An entry of the forwarding request table: a query that follows an object.
FOLLOWER = np.dtype(
    [
        ("query", np.int64),
        ("last_tick", np.int64),
        ("shape", np.int64),
        ("a", np.float64),
        ("b", np.float64),
        ("issued", np.int64),  # 1: by an issuer, who need not be where the focal object is
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
        ("expires", np.int64),
    ],
    align=True,
)


#: The last report of an object, as a zone that has new queries for nearest objects gets it.
RECORD = np.dtype(
    [("x", np.float64), ("y", np.float64), ("number", np.int64), ("expires", np.int64)], align=True
)

#: The shape of an entry whose query is for nearest objects: one zone has it, by its number.
ONE_ZONE = 2

_LEAVES, _NONE = np.int64(1), ZERO


class ReportBatch(NamedTuple):
    """Reports in stream order."""

    records: Array  # REPORT
    truths: Words  # [reports, words], one bit per condition


class KnownObjects(NamedTuple):
    """What a home zone knows of its objects. There are at least as many words as in a batch of reports."""

    records: Array  # KNOWN
    truths: Words  # [objects, words], one bit per condition
    dirty: Bytes  # one per block to be stored


class Followers(NamedTuple):
    """The forwarding request table: the queries that follow an object are entries first[index] up to, but not
    with, first[index + 1].
    """

    first: Ints
    entries: Array  # FOLLOWER


@kernel
def last_of_tick(tick: Ints, index: Ints, count: Int) -> Bools:
    """Whether each report is its object's last in its tick. Reports are by tick, of `count` objects."""
    seen = np.empty(count, np.int64)
    out = np.empty(len(tick), np.bool_)
    for row in range(len(tick)):  # and not all of them: there may be far more objects than reports
        seen[index[row]] = -1
    for row in range(len(tick) - 1, -1, -1):
        out[row] = seen[index[row]] != tick[row]
        seen[index[row]] = tick[row]
    return out


@inner
def _longer(array: Ints) -> Ints:
    """Returns a table of twice the length."""
    more = np.empty((2 * len(array), array.shape[1]), np.int64)
    for row in range(len(array)):
        for column in range(array.shape[1]):
            more[row, column] = array[row, column]
    return more


@twig
def _mark(metric: Metric, layout: RegionLayout, follower: Record, x: float, y: float, marks: Bytes) -> None:
    """Marks the zones that participate in a query (PSet) when its focal point is there, and no others."""
    if follower.shape == ONE_ZONE:
        for zone in range(len(marks)):
            marks[zone] = 0
        marks[follower.query % layout.zones] = 1
        return
    low_x, high_x, low_y, high_y = extent(metric, follower.shape, follower.a, follower.b, x, y)
    mark_zones(layout, low_x, high_x, low_y, high_y, marks)


@inner
def _appended(table: Ints, count: Int, a: Int, b: Int, c: Int, d: Int) -> Ints:
    """Returns the table with one more row at `count`; twice as long if it was full."""
    if count == len(table):
        table = _longer(table)
    table[count, 0] = a
    table[count, 1] = b
    table[count, 2] = c
    table[count, 3] = d
    return table


@kernel
def route_reports(
    metric: Metric, layout: RegionLayout, reports: ReportBatch, known: KnownObjects, followers: Followers
) -> tuple[Ints, Ints, Floats]:
    """Returns moves and focal updates, in stream order, and where the objects were before; `known` is brought
    up to date, and the blocks of it that changed are marked.

    moves: [n, 4], (zone, row of the report, 1 if the object leaves the zone or is gone, 0). updates:
    [m, 4], (zone, row of the report, query, 1 the zone participates + 2 the focal point is known). before:
    [2, reports], NaN where nobody knew.
    """
    rows = reports.records
    prior = np.full((2, len(rows)), math.nan)
    moves, move = np.empty((len(rows) + 1, 4), np.int64), ZERO
    updates, update = np.empty((64, 4), np.int64), ZERO
    old, new = np.zeros(layout.zones, np.uint8), np.zeros(layout.zones, np.uint8)
    for row in range(len(rows)):
        report, before = rows[row], known.records[rows[row].index]
        if before.number >= 0:
            prior[0, row] = before.x
            prior[1, row] = before.y
        zone = zone_of(layout, report.x, report.y)
        is_gone = report.expires <= report.tick
        if before.zone >= 0 and before.zone != zone:
            moves = _appended(moves, move, before.zone, row, _LEAVES, _NONE)
            move += 1
        moves = _appended(moves, move, zone, row, np.int64(is_gone), _NONE)
        move += 1
        for entry in range(followers.first[report.index], followers.first[report.index + 1]):
            follower = followers.entries[entry]
            if report.tick > follower.last_tick:
                continue
            _mark(metric, layout, follower, report.x, report.y, new)
            for server in range(layout.zones):
                old[server] = 0
            if before.number >= 0:
                _mark(metric, layout, follower, before.x, before.y, old)
            for server in range(layout.zones):
                if old[server] or new[server]:
                    flags = np.int64(new[server]) + (0 if is_gone else 2)
                    updates = _appended(updates, update, server, row, follower.query, flags)
                    update += 1
        before.x = report.x
        before.y = report.y
        before.number = report.number
        before.expires = report.expires
        before.zone = zone
        for word in range(reports.truths.shape[1]):
            known.truths[report.index, word] = reports.truths[row, word]
        known.dirty[report.index // BLOCK] = 1
    return moves[:move], updates[:update], prior


@kernel
def participants(metric: Metric, layout: RegionLayout, followers: Array, x: float, y: float) -> Bytes:
    """Returns [followers, zones]: which zones participate in each query (FOLLOWER) when its focal point is
    there.
    """
    out = np.zeros((len(followers), layout.zones), np.uint8)
    for row in range(len(followers)):
        _mark(metric, layout, followers[row], x, y, out[row])
    return out


#: What `count_messages` counts.
FOCAL_UPDATES, REGISTRATIONS, UPDATES, DROPS, REQUEST_SHIPPINGS = 0, 1, 2, 3, 4


@twig
def _mark_regions(
    metric: Metric, regions: RegionLayout, follower: Record, x: float, y: float, marks: Bytes
) -> None:
    """Marks the regions that participate in a query; of one for nearest objects, that of its focal point."""
    for region in range(len(marks)):
        marks[region] = 0
    if math.isnan(x):
        return
    if follower.shape == ONE_ZONE:
        marks[zone_of(regions, x, y)] = 1
        return
    low_x, high_x, low_y, high_y = extent(metric, follower.shape, follower.a, follower.b, x, y)
    mark_zones(regions, low_x, high_x, low_y, high_y, marks)


@kernel
def count_messages(
    metric: Metric,
    regions: RegionLayout,
    followers: Array,
    querying: Ints,
    report: Ints,
    before: Floats,
    after: Floats,
) -> Ints:
    """Returns how many messages the paper's servers send when focal points move, [5]: from the tracking to
    the querying server, and from there to new, current and old participants (RangeAssemUpd, table 2), and
    between tracking servers. What stays within a server is not counted.

    A row per query (FOLLOWER) and report: `querying` is the region of the querying server, -1 where it is not
    known; `before` and `after` are [2, rows], NaN where there is no focal point. Rows of one `report` lie
    together.
    """
    counts = np.zeros(5, np.int64)
    if regions.zones == 1:
        return counts
    old, new = np.zeros(regions.zones, np.uint8), np.zeros(regions.zones, np.uint8)
    for row in range(len(followers)):
        _mark_regions(metric, regions, followers[row], before[0, row], before[1, row], old)
        _mark_regions(metric, regions, followers[row], after[0, row], after[1, row], new)
        is_there = not math.isnan(after[0, row])
        focal = after if is_there else before
        here, at = zone_of(regions, focal[0, row], focal[1, row]), querying[row]
        if not followers[row].issued:
            at = here
        for region in range(regions.zones):
            if region != at:
                counts[REGISTRATIONS] += new[region] > old[region]
                counts[UPDATES] += new[region] and old[region]
                counts[DROPS] += new[region] < old[region]
        if not is_there:
            continue
        counts[FOCAL_UPDATES] += here != at
        is_first = row == 0 or report[row] != report[row - 1]
        if is_first and not math.isnan(before[0, row]):
            counts[REQUEST_SHIPPINGS] += here != zone_of(regions, before[0, row], before[1, row])
    return counts
