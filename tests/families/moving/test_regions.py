"""Every point has one region; a range is never told of too few."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.moving.kernels.arrays import BOX, CIRCLE, Metric
from anabranch.families.moving.kernels.region_layout import (
    GRID,
    RECTANGLES,
    RegionLayout,
    layout_of,
    mark_zones,
    zones_of,
)
from anabranch.families.moving.kernels.shapes import extent, inside, wrapped
from anabranch.model.stream import Stream
from tests.drawn import examples

PLANE = Metric(False, 0.0)
_none = np.zeros((0, 4))
_rectangles = np.array([(-3, -3, 0, 0), (-1, -1, 1, 1), (1, 0, 3, 3), (-3, 1.5, -2, 3)], np.float64)
LAYOUTS = [
    RegionLayout(GRID, 4, False, 0.0, 3, 3, -3.0, -3.0, 0.5, 0.5, _none, _none),
    RegionLayout(GRID, 3, False, 1.0, 4, 2, -1.0, 0.0, 2.0, 1.0, _none, _none),
    RegionLayout(GRID, 2, False, 0.0, 1, 5, 0.0, 0.0, 0.0, 0.1, _none, _none),
    RegionLayout(RECTANGLES, 3, False, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0, _rectangles, _none),
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


@given(st.sampled_from(LAYOUTS), _places, _places)
def test_a_point_has_one_region(layout: RegionLayout, x: float, y: float) -> None:
    assert zones_of(layout, np.array([x]), np.array([y]))[0] == _region(layout, x, y) % layout.zones


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
    assert marks[zones_of(layout, *(np.array([c]) for c in point))[0]]


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


_WORLD = Stream("ships", (), metric="haversine", regions=(4, 3))
_BANDS = ((-180.0, -90.0, -60.0, 90.0), (150.0, -90.0, 200.0, 90.0), (0.0, -90.0, 100.0, 10.0))
GLOBES = [
    *(
        layout_of(replace(_WORLD, bounds=(pair, (-90, 90))), 5)
        for pair in ((-180, 180), (0, 360), (170, 190))
    ),
    layout_of(replace(_WORLD, regions=_BANDS), 3),
]
_globe_splits = [one._replace(splits=np.array([(0, 0, 10.0, 1), (1, 1, 0.0, 2)])) for one in GLOBES]


@given(st.sampled_from(GLOBES + _globe_splits), st.sampled_from([-360, 360, 720]), _longitudes, _latitudes)
def test_longitudes_name_the_same_region_modulo_360(
    layout: RegionLayout, turn: int, x: float, y: float
) -> None:
    x = round(x, 3)  # whole turns later, the same place up to rounding: not on a border by chance
    there = zones_of(layout, np.array([x, x + turn, x - 1e-7, x + 1e-7]), np.full(4, y)).tolist()
    assert there[1] in (there[0], *there[2:])


@settings(max_examples=examples(300))
@given(
    st.sampled_from(GLOBES + _globe_splits),
    st.sampled_from([CIRCLE, BOX]),
    st.tuples(st.floats(0, 25000), st.floats(0, 25000)),
    st.tuples(_longitudes, _latitudes),
    st.tuples(_longitudes, _latitudes),
)
def test_a_range_on_a_globe_is_told_of_every_region_in_it(
    layout: RegionLayout,
    shape: int,
    size: tuple[float, float],
    focal: tuple[float, float],
    point: tuple[float, float],
) -> None:
    metric = Metric(True, 6371.0088)
    if not inside(metric, shape, *size, *point, *focal):
        return
    marks = np.zeros(layout.zones, np.uint8)
    mark_zones(layout, *extent(metric, shape, *size, *focal), marks)
    assert marks[zones_of(layout, *(np.array([c]) for c in point))[0]]
