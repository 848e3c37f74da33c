"""Search regions of queries for nearest objects (PLACE*, section 5): how large they are, and which cells they
cover together.

A search region is a circle around where the focal object was. An answer is proven at a tick if

    distance(focal object, centre) + distance of the k-th nearest  <=  radius

for then every object that could be nearer is in the circle, by the triangle inequality, on a globe too.
The circles of a zone are told as a raster: cells over all of them, one bit a cell. Who tests a position
against a raster gets the same answer in every stage.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.moving_arrays import (
    AGED_OBJECTS,
    BLOCK,
    CIRCLE,
    QUERY_BLOCK,
    Array,
    Grid,
    Server,
    Space,
)
from anabranch.kernels.moving_grid import detach, forget, place_in_grid
from anabranch.kernels.moving_shapes import across, distance, extent
from anabranch.kernels.regions import step_of

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
    bits: Array  # uint64


#: What the last report of an object said, as homes keep it; number -1: none that a query could see.
RECORD = np.dtype(
    [("x", np.float64), ("y", np.float64), ("number", np.int64), ("gone", np.int64)], align=True
)


@leaf
def _contains(raster: Raster, x: float, y: float) -> bool:
    if not (raster.x <= x <= raster.high_x and raster.y <= y <= raster.high_y):
        return False
    column = step_of(x, raster.x, raster.per_x, raster.columns)
    cell = step_of(y, raster.y, raster.per_y, raster.rows) * raster.columns + column
    return bool((raster.bits[cell >> 6] >> np.uint64(cell & 63)) & _ONE)


@kernel
def inside(space: Space, raster: Raster, xs: Array, ys: Array) -> Array:
    """bool[n]: whether each position is in a cell of the raster; NaN never is."""
    out = np.empty(len(xs), np.bool_)
    for place in range(len(xs)):
        out[place] = _contains(raster, across(space, xs[place]), ys[place])
    return out


@kernel
def bounds(space: Space, queries: Array) -> tuple[float, float, float, float]:
    """(low x, high x, low y, high y) of a box that holds all finite circles; low above high if there is
    none.
    """
    low_x, high_x, low_y, high_y = math.inf, -math.inf, math.inf, -math.inf
    for place in range(len(queries)):
        query = queries[place]
        if query.number < 0 or not 0.0 <= query.reach < math.inf:
            continue
        box = extent(space, CIRCLE, query.reach, 0.0, query.centre_x, query.centre_y)
        low_x, high_x = min(low_x, box[0]), max(high_x, box[1])
        low_y, high_y = min(low_y, box[2]), max(high_y, box[3])
    return low_x, high_x, low_y, high_y


@kernel
def mark(space: Space, queries: Array, raster: Raster) -> None:
    """Sets the bits of the cells that a circle's box touches."""
    for place in range(len(queries)):
        query = queries[place]
        if query.number < 0 or not 0.0 <= query.reach < math.inf:
            continue
        low_x, high_x, low_y, high_y = extent(space, CIRCLE, query.reach, 0.0, query.centre_x, query.centre_y)
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
def begin(space: Space, queries: Array) -> None:
    """Before the ticks of a batch: what each query needs already. A query without a circle is measured from
    where its focal object is first.
    """
    for place in range(len(queries)):
        query = queries[place]
        if query.number < 0:
            continue
        query.need = -math.inf
        query.stray = 0.0
        if not 0.0 <= query.reach < math.inf:
            query.centre_x = math.nan
            query.centre_y = math.nan
        if query.live:
            note_need(space, query)


@leaf
def note_need(space: Space, query: Any) -> None:
    """Notes what a query needs now, if its answer is to be proven."""
    if math.isnan(query.centre_x):
        query.centre_x = query.x
        query.centre_y = query.y
    apart = distance(space, query.x, query.y, query.centre_x, query.centre_y)
    if query.need < 0.0:
        query.base = apart + query.a
    query.stray = max(query.stray, apart)
    query.need = max(query.need, apart + query.a)


@kernel
def learn(server: Server) -> None:
    """After the ticks of a batch: how much more each query came to need. Where there was no circle, at first
    too few objects may have been known, so only the way of the focal object counts.
    """
    for place in range(len(server.queries)):
        query = server.queries[place]
        if query.number < 0 or not query.live:
            continue
        has_circle = 0.0 <= query.reach < math.inf and query.need < math.inf
        slack = max(_FORGETS * query.slack, query.need - query.base if has_circle else query.stray)
        if slack != query.slack:
            query.slack = slack
            server.dirty_queries[place // QUERY_BLOCK] = 1


@leaf
def search_radius(space: Space, query: Any) -> float:
    """CalcSearchRegion (table 3) for a circle around where the focal object is now: the distance of the k-th
    nearest, what a batch may need beyond it, and the expanding factor; everything if fewer than k are known.
    """
    radius = (1 + ALPHA) * (query.a + query.slack)
    return math.inf if space.globe and radius >= _ROUND * space.radius else radius


@leaf
def _fits(space: Space, query: Any) -> bool:
    """Whether a circle can stay: neither nearly too small from where the focal object is now, nor much too
    large.
    """
    if not 0.0 <= query.reach < math.inf:
        return False
    apart, wanted = distance(space, query.x, query.y, query.centre_x, query.centre_y), query.a + query.slack
    return (1 + ALPHA / 2) * (apart + wanted) <= query.reach <= (1 + ALPHA) * (1 + ALPHA) * wanted


@kernel
def adjust(space: Space, server: Server) -> None:
    """The search regions for the next batch: of queries that have not begun everything, of those without a
    focal point nothing.
    """
    for place in range(len(server.queries)):
        query = server.queries[place]
        if query.number < 0 or (query.live and _fits(space, query)):
            continue
        if query.live:
            query.reach = search_radius(space, query)
        else:
            query.reach = -math.inf if query.started else math.inf
        query.centre_x = query.x
        query.centre_y = query.y
        server.dirty_queries[place // QUERY_BLOCK] = 1


@kernel
def enlarge(space: Space, queries: Array) -> None:
    """The search regions for a batch that is run again and the one after it, around the same centres: what
    the first needs, and what `adjust` would give the second.
    """
    for place in range(len(queries)):
        query = queries[place]
        if query.number < 0:
            continue
        query.reach = max(query.reach, query.need)
        if query.live:
            apart = distance(space, query.x, query.y, query.centre_x, query.centre_y)
            query.reach = max(query.reach, apart + search_radius(space, query))


@kernel
def take_in(space: Space, server: Server, grid: Grid, who: Array, records: Array, truths: Array) -> None:
    """Enters objects (RECORD) that are not present. The list by age is to be made anew afterwards."""
    for row in range(len(who)):
        this = server.objects[who[row]]
        this.x = records[row].x
        this.y = records[row].y
        this.number = records[row].number
        this.gone = records[row].gone
        this.present = 1
        for word in range(server.truths.shape[1]):
            server.truths[who[row], word] = truths[row, word]
        place_in_grid(space, server.objects, grid, who[row])
        server.dirty_objects[who[row] // BLOCK] = 1


@kernel
def let_go(space: Space, server: Server, grid: Grid, raster: Raster) -> None:
    """Forgets the objects that are in no cell of a raster."""
    for who in range(len(server.objects)):
        this = server.objects[who]
        if this.present and not _contains(raster, across(space, this.x), this.y):
            detach(server.objects, grid, who)
            forget(server.objects, server.ends, AGED_OBJECTS, who)
            this.present = 0
            server.dirty_objects[who // BLOCK] = 1


@kernel
def follow(reports: Array, truths: Array, records: Array, record_truths: Array, dirty: Array) -> Array:
    """float64[2, n]: where the object of each report was before, NaN where nobody knew; the records are
    brought up to date.
    """
    out = np.full((2, len(reports)), math.nan)
    for row in range(len(reports)):
        report, record = reports[row], records[reports[row].index]
        if record.number >= 0:
            out[0, row] = record.x
            out[1, row] = record.y
        record.x = report.x
        record.y = report.y
        record.number = report.number
        record.gone = report.gone
        for word in range(truths.shape[1]):
            record_truths[report.index, word] = truths[row, word]
        dirty[report.index // BLOCK] = 1
    return out
