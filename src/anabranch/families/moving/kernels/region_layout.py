"""The regional server table (RST): which server a point belongs to, and which servers a range may touch;
known to every zone alike.

| setting         | regions                                                                             |
|-----------------|-------------------------------------------------------------------------------------|
| [columns, rows] | equal cells over `bounds`, row by row; what lies beyond belongs to the nearest cell |
| rectangles      | the first that contains the point, else the nearest                                 |
| no `bounds`     | those of the positions in the first batch that has any (region)                     |

Every point belongs to exactly one region, and a region to zone `region % zones`, unless a split has given
that part of the zone to another. On a globe, longitudes name the same place modulo 360. `mark_zones` may mark
a zone too many, never one too few: a region that the range does not touch has nothing to send and costs
little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anabranch.families.moving.kernels.arrays import Int, Metric
from anabranch.families.moving.kernels.shapes import extent, turn_beside, wrapped
from anabranch.model.arrays import Bytes, Floats, Ints
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream
from anabranch.numeric.globe import EARTH_RADIUS
from anabranch.numeric.jit import kernel, leaf, twig

#: Layouts: a grid over bounds, or a list of rectangles.
GRID, RECTANGLES = 0, 1

#: A range that is at least so many degrees wide is taken to go all around.
_ROUND = 359.0


class RegionLayout(NamedTuple):
    kind: int
    zones: int
    globe: bool
    centre: float  # on a globe, the longitude in the middle of the grid
    columns: int
    rows: int
    x: float  # the low corner of the grid
    y: float
    per_x: float  # columns per unit of x
    per_y: float
    rectangles: Floats  # [:, 4]: low x, low y, high x, high y
    #: [:, 4], in the order in which they came: (zone, axis, cut, other); what the zone has at or
    #: beyond the cut, on axis 0 (x) or 1 (y), belongs to the other
    splits: Floats


Bounds = Sequence[tuple[float, float]]


def layout_of(stream: Stream, zones: int, learned: Bounds | None = None) -> RegionLayout:
    """Returns the regional servers of a stream, folded onto `zones` zones. Where the stream has no bounds and
    none are `learned` yet, all belongs to the first.
    """
    none, globe = np.zeros((0, 4)), stream.metric == "haversine"
    if has_rectangles(stream):
        rectangles = np.array(stream.regions, np.float64)
        if (rectangles[:, 2] < rectangles[:, 0]).any() or (rectangles[:, 3] < rectangles[:, 1]).any():
            raise JobError(
                f"stream {stream.name}: a region is (low x, low y, high x, high y), low before high"
            )
        return RegionLayout(RECTANGLES, zones, globe, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0, rectangles, none)
    columns, rows = _columns_and_rows(stream)
    if columns < 1 or rows < 1:
        raise JobError(
            f"stream {stream.name}: regions = [{columns}, {rows}]; at least one column and one row"
        )
    bounds = learned or stream.bounds
    if not bounds:
        return RegionLayout(GRID, zones, globe, 0.0, 1, 1, 0.0, 0.0, 0.0, 0.0, none, none)
    (low_x, high_x), (low_y, high_y) = bounds[:2]
    per_x = columns / (high_x - low_x) if high_x > low_x else 0.0
    per_y = rows / (high_y - low_y) if high_y > low_y else 0.0
    low_x, low_y, centre = float(low_x), float(low_y), (low_x + high_x) / 2
    return RegionLayout(GRID, zones, globe, centre, columns, rows, low_x, low_y, per_x, per_y, none, none)


def regions_of(stream: Stream) -> int:
    """Returns how many regional servers a stream has."""
    if has_rectangles(stream):
        return len(stream.regions)
    columns, rows = _columns_and_rows(stream)
    return columns * rows


def _columns_and_rows(stream: Stream) -> tuple[int, int]:
    """Returns how many columns and rows of regions a stream has, where they are a grid."""
    columns, rows = (int(count) for count in stream.regions)  # type: ignore[arg-type]  # no rectangles
    return columns, rows


def has_rectangles(stream: Stream) -> bool:
    return bool(stream.regions) and isinstance(stream.regions[0], tuple)


def metric_of(stream: Stream) -> Metric:
    """Returns how a stream measures distances."""
    if stream.metric == "euclidean":
        return Metric(False, 0.0)
    if stream.metric != "haversine":
        raise JobError(f"stream {stream.name}: metric = {stream.metric!r}; it is euclidean or haversine")
    unit = stream.unit or "km"
    if unit not in EARTH_RADIUS:
        raise JobError(f"stream {stream.name}: unit = {unit!r}; it is one of {', '.join(EARTH_RADIUS)}")
    return Metric(True, EARTH_RADIUS[unit])


@leaf
def step_of(value: float, low: float, per_unit: float, count: Int) -> Int:
    """Returns the column or row of a value; what lies beyond belongs to the nearest. Monotone in `value`."""
    steps = (value - low) * per_unit
    if not steps > 0.0:
        return np.int64(0)
    return np.int64(count - 1) if steps >= count else np.int64(steps)


@leaf
def layout_x(layout: RegionLayout, x: float) -> float:
    """Returns the x by which regions know a position: on a globe, the longitude of that place that is nearest
    to the middle of the regions.
    """
    return layout.centre + wrapped(x - layout.centre) if layout.globe else x


@leaf
def _beside(low: float, high: float, value: float) -> float:
    """How far a value lies outside [low, high]."""
    return max(low - value, 0.0, value - high)


@leaf
def _rectangle_distance(layout: RegionLayout, index: Int, x: float, y: float) -> float:
    low, high = layout.rectangles[index, 0], layout.rectangles[index, 2]
    dx = _beside(low, high, x)
    if layout.globe and dx > 0.0:
        dx = turn_beside(low, high, x)
    dy = _beside(layout.rectangles[index, 1], layout.rectangles[index, 3], y)
    return math.hypot(dx, dy)


@leaf
def _nearest_rectangle(layout: RegionLayout, x: float, y: float) -> Int:
    """Returns the first rectangle that contains the point, else the first of the nearest."""
    best, least = np.int64(0), math.inf
    for index in range(len(layout.rectangles)):
        distance = _rectangle_distance(layout, index, x, y)
        if distance < least:
            best, least = np.int64(index), distance
    return best


@leaf
def zone_of(layout: RegionLayout, x: float, y: float) -> Int:
    """Returns the zone of the regional server that a position belongs to."""
    x = layout_x(layout, x)
    zone = _first_zone(layout, x, y)
    for index in range(len(layout.splits)):
        value = x if layout.splits[index, 1] == 0.0 else y
        if zone == layout.splits[index, 0] and value >= layout.splits[index, 2]:
            zone = np.int64(layout.splits[index, 3])
    return zone


@leaf
def _first_zone(layout: RegionLayout, x: float, y: float) -> Int:
    """The zone of a point before any split."""
    if layout.zones == 1:
        return np.int64(0)
    if layout.kind == GRID:
        column = step_of(x, layout.x, layout.per_x, layout.columns)
        row = step_of(y, layout.y, layout.per_y, layout.rows)
        return np.int64((row * layout.columns + column) % layout.zones)
    return np.int64(_nearest_rectangle(layout, x, y) % layout.zones)


@leaf
def _set_all(marks: Bytes, value: Int) -> None:
    for zone in range(len(marks)):
        marks[zone] = value


@twig
def mark_zones(
    layout: RegionLayout, low_x: float, high_x: float, low_y: float, high_y: float, marks: Bytes
) -> None:
    """Sets marks[zone] = 1 for every zone that may hold a point of this box (bounds may be infinite), the
    others 0.
    """
    _set_all(marks, 0)
    if layout.zones == 1:
        marks[0] = 1
        return
    if layout.globe:
        low, high = layout_x(layout, low_x), layout_x(layout, high_x)
        if high_x - low_x < _ROUND and low <= high:
            low_x, high_x = low, high
        else:  # across the meridian opposite to the middle
            low_x, high_x = -math.inf, math.inf
    _mark_first(layout, low_x, high_x, low_y, high_y, marks)
    for index in range(len(layout.splits)):
        high = high_x if layout.splits[index, 1] == 0.0 else high_y
        if marks[np.int64(layout.splits[index, 0])] and high >= layout.splits[index, 2]:
            marks[np.int64(layout.splits[index, 3])] = 1


@twig
def _mark_first(
    layout: RegionLayout, low_x: float, high_x: float, low_y: float, high_y: float, marks: Bytes
) -> None:
    """`mark_zones` before any split."""
    if layout.kind == GRID:
        first = step_of(low_x, layout.x, layout.per_x, layout.columns)
        last = step_of(high_x, layout.x, layout.per_x, layout.columns)
        for row in range(
            step_of(low_y, layout.y, layout.per_y, layout.rows),
            step_of(high_y, layout.y, layout.per_y, layout.rows) + 1,
        ):
            for column in range(first, last + 1):
                marks[(row * layout.columns + column) % layout.zones] = 1
    else:
        _mark_rectangles(layout, low_x, high_x, low_y, high_y, marks)


@twig
def _mark_rectangles(
    layout: RegionLayout, low_x: float, high_x: float, low_y: float, high_y: float, marks: Bytes
) -> None:
    """A point p of the box lies within `half` of its centre c. If p is outside all rectangles and r is its
    nearest, then d(c, r) - half <= d(p, r) <= d(p, s) <= d(c, s) + half for every other s; so r is within 2
    * half of the least d(c, s). That also holds for every rectangle that reaches into the box, as d(c, r)
    <= half.
    """
    x, y = (low_x + high_x) / 2, (low_y + high_y) / 2
    dx, dy = high_x - x, high_y - y
    half = math.hypot(dx, dy)
    if not half < math.inf:
        _set_all(marks, 1)
        return
    least = math.inf
    for index in range(len(layout.rectangles)):
        least = min(least, _rectangle_distance(layout, index, x, y))
    reach = (least + 2 * half) * (1 + 1e-9) + 1e-9 * (abs(x) + abs(y))
    for index in range(len(layout.rectangles)):
        if _rectangle_distance(layout, index, x, y) <= reach:
            marks[index % layout.zones] = 1


@kernel
def zones_of(layout: RegionLayout, xs: Floats, ys: Floats) -> Ints:
    """Returns the zone of the regional server that each position belongs to."""
    out = np.empty(len(xs), np.int64)
    for index in range(len(xs)):
        out[index] = zone_of(layout, xs[index], ys[index])
    return out


@kernel
def participates(
    metric: Metric, layout: RegionLayout, zone: Int, shape: Int, a: float, b: float, x: float, y: float
) -> bool:
    """Whether a zone is one of those that participate in a query (PSet) when its focal point is there."""
    marks = np.zeros(layout.zones, np.uint8)
    low_x, high_x, low_y, high_y = extent(metric, shape, a, b, x, y)
    mark_zones(layout, low_x, high_x, low_y, high_y, marks)
    return marks[zone] != 0


@kernel
def layout_xs(layout: RegionLayout, xs: Floats) -> Floats:
    """Returns the x by which regions know these positions."""
    out = np.empty(len(xs))
    for index in range(len(xs)):
        out[index] = layout_x(layout, xs[index])
    return out
