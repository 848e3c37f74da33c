"""Distances, ranges, and boxes that are sure to hold a range; in the plane and on a globe.

On a globe x is the longitude and y the latitude in degrees, and lengths are in the unit of the radius:

    distance = 2 R asin sqrt( sin^2((lat1 - lat2) / 2) + cos lat1 cos lat2 sin^2((lon1 - lon2) / 2) )

A box there is `width` along the focal point's parallel and `height` along the meridian.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.kernels.jit import leaf
from anabranch.kernels.moving_arrays import BOX, Array, Int, Space

_DEGREE = math.pi / 180
_ONE = np.uint64(1)
#: A square of this half side fits into a circle of radius 1.
_HALF_DIAGONAL = math.sqrt(0.5)


@leaf
def _arc(radius: float, x: float, y: float, focal_x: float, focal_y: float) -> float:
    lat, focal_lat = y * _DEGREE, focal_y * _DEGREE
    over = math.sin((x * _DEGREE - focal_x * _DEGREE) / 2)
    along = math.sin((lat - focal_lat) / 2)
    chord = along * along + math.cos(lat) * math.cos(focal_lat) * over * over
    return 2 * radius * math.asin(min(1.0, math.sqrt(chord)))


@leaf
def distance(space: Space, x: float, y: float, focal_x: float, focal_y: float) -> float:
    if space.globe:
        return _arc(space.radius, x, y, focal_x, focal_y)
    dx, dy = x - focal_x, y - focal_y
    return math.sqrt(dx * dx + dy * dy)


@leaf
def turned(degrees: float) -> float:
    """A longitude, or a difference of two, between -180 and 180."""
    if -180.0 <= degrees <= 180.0:
        return degrees
    turn = np.fmod(degrees, 360.0)
    if turn > 180.0:
        return turn - 360.0
    return turn + 360.0 if turn < -180.0 else turn


@leaf
def across(space: Space, x: float) -> float:
    """The x by which a point is kept in grids and regions: itself, or its longitude between -180 and 180."""
    return turned(x) if space.globe else x


@leaf
def _in_globe_box(
    radius: float, a: float, b: float, x: float, y: float, focal_x: float, focal_y: float
) -> bool:
    degree = _DEGREE * radius
    wide = abs(turned(x - focal_x)) * math.cos(focal_y * _DEGREE) * degree
    return wide <= a and abs(y - focal_y) * degree <= b


@leaf
def inside(
    space: Space, shape: Int, a: float, b: float, x: float, y: float, focal_x: float, focal_y: float
) -> bool:
    """Whether a point is within a circle of radius a, or a box 2a by 2b, around the focal point; borders
    belong to it.
    """
    if shape != BOX:
        return distance(space, x, y, focal_x, focal_y) <= a
    if space.globe:
        return _in_globe_box(space.radius, a, b, x, y, focal_x, focal_y)
    return abs(x - focal_x) <= a and abs(y - focal_y) <= b


@leaf
def _degrees(radius: float, shape: Int, a: float, b: float, focal_y: float) -> tuple[float, float]:
    """Half the width and height in degrees of a box that holds a range on the globe; 180 is all around."""
    if shape == BOX:
        tall = b / radius / _DEGREE
        narrow = math.cos(focal_y * _DEGREE) * radius * _DEGREE
        return (a / narrow if narrow * 180.0 > a else 180.0), tall
    angle = a / radius
    tall = angle / _DEGREE
    if angle >= math.pi / 2 or abs(focal_y) + tall >= 90.0 - 1e-6:  # the range holds a pole
        return 180.0, tall
    # the meridian that touches a circle of angle d around latitude f is asin(sin d / cos f) away
    return math.asin(min(1.0, math.sin(angle) / math.cos(focal_y * _DEGREE))) / _DEGREE, tall


@leaf
def _globe_extent(
    radius: float, shape: Int, a: float, b: float, focal_x: float, focal_y: float
) -> tuple[float, float, float, float]:
    x = turned(focal_x)
    wide, tall = _degrees(radius, shape, a, b, focal_y)
    wide = wide * (1 + 1e-9) + 1e-6
    tall = tall * (1 + 1e-9) + 1e-6
    if x - wide < -180.0 or x + wide > 180.0:  # across the date line: all around
        return -math.inf, math.inf, focal_y - tall, focal_y + tall
    return x - wide, x + wide, focal_y - tall, focal_y + tall


@leaf
def extent(
    space: Space, shape: Int, a: float, b: float, focal_x: float, focal_y: float
) -> tuple[float, float, float, float]:
    """(low x, high x, low y, high y) of a box that holds every point of the range, with room for rounding
    errors.
    """
    if space.globe:
        return _globe_extent(space.radius, shape, a, b, focal_x, focal_y)
    tall = b if shape == BOX else a
    dx = a + 1e-9 * (a + abs(focal_x)) + 1e-300
    dy = tall + 1e-9 * (tall + abs(focal_y)) + 1e-300
    return focal_x - dx, focal_x + dx, focal_y - dy, focal_y + dy


@leaf
def inner_extent(
    space: Space, shape: Int, a: float, b: float, focal_x: float, focal_y: float
) -> tuple[float, float, float, float]:
    """(low x, high x, low y, high y) of a box all of whose points are in the range, in spite of rounding
    errors; empty (low above high) if there is none, and on a globe.
    """
    if space.globe or not a < math.inf:
        return 1.0, -1.0, 1.0, -1.0
    wide, tall = (a, b) if shape == BOX else (a * _HALF_DIAGONAL, a * _HALF_DIAGONAL)
    dx = wide - 1e-9 * (wide + abs(focal_x))
    dy = tall - 1e-9 * (tall + abs(focal_y))
    return focal_x - dx, focal_x + dx, focal_y - dy, focal_y + dy


@leaf
def truth(truths: Array, row: Int, condition: Int) -> bool:
    """The bit of a condition among those of a report; -1 is the condition that always holds."""
    return bool(condition < 0) or bool((truths[row, condition >> 6] >> np.uint64(condition & 63)) & _ONE)


@leaf
def in_range(
    space: Space,
    query: Any,
    who: Int,
    number: Int,
    x: float,
    y: float,
    truths: Array,
    row: Int,
    focal_x: float,
    focal_y: float,
) -> bool:
    """Whether an object in this state belongs to a query's range when its focal point is there."""
    if number < query.start or who == query.focal:
        return False
    if not inside(space, query.shape, query.a, query.b, x, y, focal_x, focal_y):
        return False
    return truth(truths, row, query.condition)
