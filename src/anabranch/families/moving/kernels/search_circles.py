"""Search regions of queries for nearest objects (PLACE*, section 5): how large they are, and which cells they
cover together.

A search region is a circle around where the focal object was. A list is proven at a tick if

    distance(focal object, centre) + distance of the k-th nearest  <=  radius

because then every object that could be nearer is in the circle, by the triangle inequality, on a globe too.
The circles of a zone are sent as a raster: cells over all of them, one bit per cell. Whether a position is in
a raster is decided by the same kernel in every stage.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anabranch.families.moving.kernels.arrays import (
    AGED_OBJECTS,
    BLOCK,
    CIRCLE,
    PRESENT,
    QUERY_BLOCK,
    Metric,
    ObjectGrid,
    Record,
    ServerArrays,
)
from anabranch.families.moving.kernels.object_grid import add_to_grid, remove_by_age, remove_from_cell
from anabranch.families.moving.kernels.region_layout import step_of
from anabranch.families.moving.kernels.shapes import distance, extent, grid_x
from anabranch.model.arrays import Array, Bools, Floats, Ints, Words
from anabranch.numeric.jit import kernel, leaf

_ONE = np.uint64(1)

#: The expanding factor of the paper.
ALPHA = 0.2

#: What is left, after a batch, of what was learnt before it.
_FORGETS = 0.95

#: A circle of at least so many radii of the globe is taken for the whole of it.
_ROUND = 3.1


class Raster(NamedTuple):
    """Cells over a rectangle, row by row, one bit each; beyond it there is nothing."""

    x: float
    y: float
    high_x: float
    high_y: float
    per_x: float  # columns per unit of x
    per_y: float
    columns: int
    rows: int
    bits: Words


@leaf
def _contains(raster: Raster, x: float, y: float) -> bool:
    if not (raster.x <= x <= raster.high_x and raster.y <= y <= raster.high_y):
        return False
    column = step_of(x, raster.x, raster.per_x, raster.columns)
    cell = step_of(y, raster.y, raster.per_y, raster.rows) * raster.columns + column
    return bool((raster.bits[cell >> 6] >> np.uint64(cell & 63)) & _ONE)


@kernel
def in_raster(metric: Metric, raster: Raster, xs: Floats, ys: Floats) -> Bools:
    """Whether each position is in a cell of the raster; NaN never is."""
    out = np.empty(len(xs), np.bool_)
    for row in range(len(xs)):
        out[row] = _contains(raster, grid_x(metric, xs[row]), ys[row])
    return out


@kernel
def circles_box(metric: Metric, queries: Array) -> tuple[float, float, float, float]:
    """Returns (low x, high x, low y, high y) of a box that holds all finite circles; low above high if there
    is none.
    """
    low_x, high_x, low_y, high_y = math.inf, -math.inf, math.inf, -math.inf
    for slot in range(len(queries)):
        query = queries[slot]
        if query.number < 0 or not 0.0 <= query.reach < math.inf:
            continue
        box = extent(metric, CIRCLE, query.reach, 0.0, query.centre_x, query.centre_y)
        low_x, high_x = min(low_x, box[0]), max(high_x, box[1])
        low_y, high_y = min(low_y, box[2]), max(high_y, box[3])
    return low_x, high_x, low_y, high_y


@kernel
def mark_cells(metric: Metric, queries: Array, raster: Raster) -> None:
    """Sets the bits of the cells that a circle's box touches."""
    for slot in range(len(queries)):
        query = queries[slot]
        if query.number < 0 or not 0.0 <= query.reach < math.inf:
            continue
        low_x, high_x, low_y, high_y = extent(
            metric, CIRCLE, query.reach, 0.0, query.centre_x, query.centre_y
        )
        first = step_of(low_x, raster.x, raster.per_x, raster.columns)
        last = step_of(high_x, raster.x, raster.per_x, raster.columns)
        for row in range(
            step_of(low_y, raster.y, raster.per_y, raster.rows),
            step_of(high_y, raster.y, raster.per_y, raster.rows) + 1,
        ):
            for column in range(first, last + 1):
                cell = row * raster.columns + column
                raster.bits[cell >> 6] |= _ONE << np.uint64(cell & 63)


@kernel
def reset_needs(metric: Metric, queries: Array) -> None:
    """Before the ticks of a batch: notes what each query needs already. A query without a circle is measured
    from where its focal object is first.
    """
    for slot in range(len(queries)):
        query = queries[slot]
        if query.number < 0:
            continue
        query.need = -math.inf
        query.stray = 0.0
        if not 0.0 <= query.reach < math.inf:
            query.centre_x = math.nan
            query.centre_y = math.nan
        if query.live:
            update_need(metric, query)


@leaf
def update_need(metric: Metric, query: Record) -> None:
    """Notes what a query needs now for its list to be proven."""
    if math.isnan(query.centre_x):
        query.centre_x = query.x
        query.centre_y = query.y
    apart = distance(metric, query.x, query.y, query.centre_x, query.centre_y)
    if query.need < 0.0:
        query.base = apart + query.a
    query.stray = max(query.stray, apart)
    query.need = max(query.need, apart + query.a)


@kernel
def update_slack(server: ServerArrays) -> None:
    """After the ticks of a batch: notes how much more each query needed than at its start. Where there was no
    circle, too few objects may have been known at first, so only the way of the focal object counts.
    """
    for slot in range(len(server.queries)):
        query = server.queries[slot]
        if query.number < 0 or not query.live:
            continue
        has_circle = 0.0 <= query.reach < math.inf and query.need < math.inf
        slack = max(_FORGETS * query.slack, query.need - query.base if has_circle else query.stray)
        if slack != query.slack:
            query.slack = slack
            server.dirty_queries[slot // QUERY_BLOCK] = 1


@leaf
def _search_radius(metric: Metric, query: Record) -> float:
    """CalcSearchRegion (table 3) for a circle around where the focal object is now: the distance of the k-th
    nearest, what a batch may need beyond it, and the expanding factor; everything if fewer than k are known.
    """
    radius = (1 + ALPHA) * (query.a + query.slack)
    return math.inf if metric.globe and radius >= _ROUND * metric.radius else radius


@leaf
def _fits(metric: Metric, query: Record) -> bool:
    """Whether a circle can stay: neither nearly too small from where the focal object is now, nor much too
    large.
    """
    if not 0.0 <= query.reach < math.inf:
        return False
    apart, wanted = distance(metric, query.x, query.y, query.centre_x, query.centre_y), query.a + query.slack
    return (1 + ALPHA / 2) * (apart + wanted) <= query.reach <= (1 + ALPHA) * (1 + ALPHA) * wanted


@kernel
def adjust_circles(metric: Metric, server: ServerArrays) -> None:
    """Sets the search regions for the next batch: everything for queries that have not started, nothing for
    those without a focal point.
    """
    for slot in range(len(server.queries)):
        query = server.queries[slot]
        if query.number < 0 or (query.live and _fits(metric, query)):
            continue
        if query.live:
            query.reach = _search_radius(metric, query)
        else:
            query.reach = -math.inf if query.started else math.inf
        query.centre_x = query.x
        query.centre_y = query.y
        server.dirty_queries[slot // QUERY_BLOCK] = 1


@kernel
def enlarge_circles(metric: Metric, queries: Array) -> None:
    """Sets the search regions for a batch that is run again and the one after it, around the same centres:
    what the first needs, and what `adjust_circles` would give the second.
    """
    for slot in range(len(queries)):
        query = queries[slot]
        if query.number < 0:
            continue
        query.reach = max(query.reach, query.need)
        if query.live:
            apart = distance(metric, query.x, query.y, query.centre_x, query.centre_y)
            query.reach = max(query.reach, apart + _search_radius(metric, query))


@kernel
def add_objects(
    metric: Metric, server: ServerArrays, grid: ObjectGrid, who: Ints, records: Array, truths: Words
) -> None:
    """Adds objects (RECORD) that are not present. The list by age has to be built again afterwards."""
    for row in range(len(who)):
        this = server.objects[who[row]]
        this.x = records[row].x
        this.y = records[row].y
        this.number = records[row].number
        this.expires = records[row].expires
        this.present = 1
        server.tallies[PRESENT] += 1
        for word in range(server.truths.shape[1]):
            server.truths[who[row], word] = truths[row, word]
        add_to_grid(metric, server.objects, grid, who[row])
        server.dirty_objects[who[row] // BLOCK] = 1


@kernel
def remove_outside(metric: Metric, server: ServerArrays, grid: ObjectGrid, raster: Raster) -> None:
    """Removes the objects that are in no cell of a raster."""
    for who in range(len(server.objects)):
        this = server.objects[who]
        if this.present and not _contains(raster, grid_x(metric, this.x), this.y):
            remove_from_cell(server.objects, grid, who)
            remove_by_age(server.objects, server.ends, AGED_OBJECTS, who)
            this.present = 0
            server.tallies[PRESENT] -= 1
            server.dirty_objects[who // BLOCK] = 1
