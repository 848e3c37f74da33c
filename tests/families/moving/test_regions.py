"""Every point has one region; a range is never told of too few."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.moving.kernels.arrays import BOX, CIRCLE, Metric
from anabranch.families.moving.kernels.region_layout import (
    GRID,
    LOGARITHMIC,
    RECTANGLES,
    RegionLayout,
    log_step,
    mark_zones,
    zones_of,
)
from anabranch.families.moving.kernels.shapes import extent, inside, wrapped
from tests.drawn import examples

PLANE = Metric(False, 0.0)
_none = np.zeros((0, 4))
_rectangles = np.array([(-3, -3, 0, 0), (-1, -1, 1, 1), (1, 0, 3, 3), (-3, 1.5, -2, 3)], np.float64)
LAYOUTS = [
    RegionLayout(GRID, 4, 3, 3, -3.0, -3.0, 0.5, 0.5, _none, _none),
    RegionLayout(GRID, 3, 4, 2, -1.0, 0.0, 2.0, 1.0, _none, _none),
    RegionLayout(GRID, 2, 1, 5, 0.0, 0.0, 0.0, 0.1, _none, _none),
    RegionLayout(RECTANGLES, 3, 0, 0, 0.0, 0.0, 0.0, 0.0, _rectangles, _none),
    RegionLayout(LOGARITHMIC, 5, 0, 0, 0.0, 0.0, 0.0, 0.0, _none, _none),
]
_splits = np.array([(0, 0, -0.5, 1), (1, 1, 0.25, 2), (2, 0, 1.0, 0), (0, 1, 0.0, 2)], np.float64)
SPLIT = [layout._replace(splits=_splits) for layout in LAYOUTS if layout.zones > 2]
_places = st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 1.5, 3.0, 1e-9, -1e6]) | st.floats(-5, 5)
_lengths = st.sampled_from([0.0, 0.5, 1.0, 2.5]) | st.floats(0, 6)


def _region(layout: RegionLayout, x: float, y: float) -> int:
    """The plain twin of `zones_of`, as regions."""
    if layout.kind == GRID:
        column = min(max(math.floor((x - layout.x) * layout.per_x), 0), layout.columns - 1)
        row = min(max(math.floor((y - layout.y) * layout.per_y), 0), layout.rows - 1)
        return row * layout.columns + column
    far = [
        math.hypot(max(a - x, 0, x - c), max(b - y, 0, y - d)) for a, b, c, d in layout.rectangles.tolist()
    ]
    return far.index(min(far))


@given(st.sampled_from(LAYOUTS[:4]), _places, _places)
def test_a_point_has_one_region(layout: RegionLayout, x: float, y: float) -> None:
    assert zones_of(PLANE, layout, np.array([x]), np.array([y]))[0] == _region(layout, x, y) % layout.zones


@settings(max_examples=examples(300))
@given(
    st.sampled_from(LAYOUTS + SPLIT),
    st.sampled_from([CIRCLE, BOX]),
    st.tuples(_lengths, _lengths),
    st.tuples(_places, _places),
    st.tuples(_places, _places),
)
def test_a_range_is_told_of_every_region_in_it(
    layout: RegionLayout,
    shape: int,
    size: tuple[float, float],
    focal: tuple[float, float],
    point: tuple[float, float],
) -> None:
    if not inside(PLANE, shape, *size, *point, *focal):
        return
    marks = np.zeros(layout.zones, np.uint8)
    mark_zones(layout, *extent(PLANE, shape, *size, *focal), marks)
    assert marks[zones_of(PLANE, layout, *(np.array([c]) for c in point))[0]]


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_log_steps_are_monotone(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert log_step(low) <= log_step(high)


_longitudes = st.sampled_from([-180.0, 180.0, 179.5, -179.5, 0.0, 190.0, 540.0]) | st.floats(-400, 400)
_latitudes = st.sampled_from([-90.0, 90.0, 89.9, 0.0, 45.0]) | st.floats(-90, 90)


@settings(max_examples=examples(300))
@given(
    st.sampled_from([CIRCLE, BOX]),
    st.tuples(st.floats(0, 25000), st.floats(0, 25000)),
    st.tuples(_longitudes, _latitudes),
    st.tuples(_longitudes, _latitudes),
)
def test_extents_on_a_globe(
    shape: int, size: tuple[float, float], focal: tuple[float, float], point: tuple[float, float]
) -> None:
    metric = Metric(True, 6371.0088)
    low_x, high_x, low_y, high_y = extent(metric, shape, *size, *focal)
    if inside(metric, shape, *size, *point, *focal):
        assert low_x <= wrapped(point[0]) <= high_x
        assert low_y <= point[1] <= high_y


@given(st.floats(-2000, 2000))
def test_turns(degrees: float) -> None:
    assert -180 <= wrapped(degrees) <= 180
    assert math.isclose(
        math.cos(math.radians(wrapped(degrees))), math.cos(math.radians(degrees)), abs_tol=1e-9
    )
