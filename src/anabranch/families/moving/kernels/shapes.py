"""Distances, ranges, and boxes that are sure to hold a range; in the plane and on a globe.

On a globe x is the longitude and y the latitude in degrees, and lengths are in the unit of the radius:

    distance = 2 R asin sqrt( sin^2((lat1 - lat2) / 2) + cos lat1 cos lat2 sin^2((lon1 - lon2) / 2) )

A box there is `width` along the focal point's parallel and `height` along the meridian.
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.families.moving.kernels.arrays import BOX, Int, Metric, Record
from anabranch.model.arrays import Words
from anabranch.numeric.jit import leaf, twig

_DEGREE = math.pi / 180
_ONE = np.uint64(1)
#: A square of this half side fits into a circle of radius 1.
_HALF_DIAGONAL = math.sqrt(0.5)


@twig
def _arc(radius: float, x: float, y: float, focal_x: float, focal_y: float) -> float:
    lat, focal_lat = y * _DEGREE, focal_y * _DEGREE
    over = math.sin(wrapped(x - focal_x) * _DEGREE / 2)
    along = math.sin((lat - focal_lat) / 2)
    chord = along * along + math.cos(lat) * math.cos(focal_lat) * over * over
    return 2 * radius * math.asin(min(1.0, math.sqrt(chord)))


@leaf
def distance(metric: Metric, x: float, y: float, focal_x: float, focal_y: float) -> float:
    if metric.globe:
        return _arc(metric.radius, x, y, focal_x, focal_y)
    dx, dy = x - focal_x, y - focal_y
    return math.sqrt(dx * dx + dy * dy)


@leaf
def wrapped(degrees: float) -> float:
    """Returns a longitude, or a difference of two, between -180 and 180."""
    if -180.0 <= degrees <= 180.0:
        return degrees
    turn = np.fmod(degrees, 360.0)
    if turn > 180.0:
        return turn - 360.0
    return turn + 360.0 if turn < -180.0 else turn


@leaf
def turn_beside(low: float, high: float, degrees: float) -> float:
    """How far a longitude lies outside of the meridians from `low` eastward to `high`, either way around."""
    turn = np.fmod(degrees - low, 360.0)
    if turn < 0.0:
        turn += 360.0
    return 0.0 if turn <= high - low else min(turn - (high - low), 360.0 - turn)


@leaf
def grid_x(metric: Metric, x: float) -> float:
    """Returns the x of a point for grids and regions: as it is, or a longitude between -180 and 180."""
    return wrapped(x) if metric.globe else x


@twig
def _in_globe_box(
    radius: float, a: float, b: float, x: float, y: float, focal_x: float, focal_y: float
) -> bool:
    degree = _DEGREE * radius
    wide = abs(wrapped(x - focal_x)) * math.cos(focal_y * _DEGREE) * degree
    return wide <= a and abs(y - focal_y) * degree <= b


@leaf
def inside(
    metric: Metric, shape: Int, a: float, b: float, x: float, y: float, focal_x: float, focal_y: float
) -> bool:
    """Whether a point is within a circle of radius a, or a box 2a by 2b, around the focal point; borders
    belong to it.
    """
    if shape != BOX:
        return distance(metric, x, y, focal_x, focal_y) <= a
    if metric.globe:
        return _in_globe_box(metric.radius, a, b, x, y, focal_x, focal_y)
    return abs(x - focal_x) <= a and abs(y - focal_y) <= b


@twig
def _degrees(radius: float, shape: Int, a: float, b: float, focal_y: float) -> tuple[float, float]:
    """Returns half the width and height in degrees of a box that holds a range on the globe; 180 is all
    around.
    """
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


@twig
def _globe_extent(
    radius: float, shape: Int, a: float, b: float, focal_x: float, focal_y: float
) -> tuple[float, float, float, float]:
    x = wrapped(focal_x)
    wide, tall = _degrees(radius, shape, a, b, focal_y)
    wide = wide * (1 + 1e-9) + 1e-6
    tall = tall * (1 + 1e-9) + 1e-6
    if x - wide < -180.0 or x + wide > 180.0:  # across the date line: all around
        return -math.inf, math.inf, focal_y - tall, focal_y + tall
    return x - wide, x + wide, focal_y - tall, focal_y + tall


@leaf
def extent(
    metric: Metric, shape: Int, a: float, b: float, focal_x: float, focal_y: float
) -> tuple[float, float, float, float]:
    """Returns (low x, high x, low y, high y) of a box that holds every point of the range, with room for
    rounding errors.
    """
    if metric.globe:
        return _globe_extent(metric.radius, shape, a, b, focal_x, focal_y)
    tall = b if shape == BOX else a
    dx = a + 1e-9 * (a + abs(focal_x)) + 1e-300
    dy = tall + 1e-9 * (tall + abs(focal_y)) + 1e-300
    return focal_x - dx, focal_x + dx, focal_y - dy, focal_y + dy


@leaf
def inner_extent(
    metric: Metric, shape: Int, a: float, b: float, focal_x: float, focal_y: float
) -> tuple[float, float, float, float]:
    """Returns (low x, high x, low y, high y) of a box all of whose points are in the range, in spite of
    rounding errors; empty (low above high) if there is none, and on a globe.
    """
    if metric.globe or not a < math.inf:
        return 1.0, -1.0, 1.0, -1.0
    wide, tall = (a, b) if shape == BOX else (a * _HALF_DIAGONAL, a * _HALF_DIAGONAL)
    dx = wide - 1e-9 * (wide + abs(focal_x))
    dy = tall - 1e-9 * (tall + abs(focal_y))
    return focal_x - dx, focal_x + dx, focal_y - dy, focal_y + dy


@leaf
def truth(truths: Words, row: Int, condition: Int) -> bool:
    """Returns the bit of a condition among those of a report; -1 is the condition that always holds."""
    return bool(condition < 0) or bool((truths[row, condition >> 6] >> np.uint64(condition & 63)) & _ONE)


@leaf
def in_range(
    metric: Metric,
    query: Record,
    who: Int,
    x: float,
    y: float,
    truths: Words,
    row: Int,
    focal_x: float,
    focal_y: float,
) -> bool:
    """Whether an object in this state belongs to a query's range when its focal point is there."""
    if who == query.focal:
        return False
    if not inside(metric, np.int64(query.shape), query.a, query.b, x, y, focal_x, focal_y):
        return False
    return truth(truths, row, np.int64(query.condition))
