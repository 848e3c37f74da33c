"""Points on a globe as points in space, so that neighbours on the earth are found as they are in the plane.

    places = places_on_globe(longitudes, latitudes)     # [n, 3]: points of the unit sphere
    reach = chord_of(10.0, "km")                        # two points are within 10 km of each other exactly if
                                                        # the straight line between their places is no longer

The way along the surface grows with the straight line through the sphere, the chord, so nothing is lost.
Longitudes that differ by 360 degrees name the same place, and at a pole all longitudes do: the same place has
the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.model.arrays import Floats
from anabranch.numeric.jit import loop

#: Mean radius of the earth in the units that distances on a globe can have.
EARTH_RADIUS = {"km": 6371.0088, "m": 6371008.8, "miles": 6371.0088 / 1.609344}
#: Is more than any chord.
_ALL = 3.0


def chord_of(distance: float, unit: str | None) -> float:
    """The chord, on the unit sphere, of a distance along the surface of the earth; the default unit is km."""
    angle = distance / EARTH_RADIUS[unit or "km"]
    return _ALL if angle >= math.pi else 2.0 * math.sin(angle / 2.0)


def places_on_globe(longitudes: Floats, latitudes: Floats) -> Floats:
    """[n, 3], from degrees; NaN where they name no place: a latitude beyond a pole, or no number."""
    places = np.empty((len(longitudes), 3), np.float64)
    with np.errstate(invalid="ignore"):
        _write_places(np.fmod(longitudes, 360.0), latitudes.copy(), places)
    return places


@loop
def _write_places(longitudes: Floats, latitudes: Floats, places: Floats) -> None:
    """From longitudes between -360 and 360, with the functions of the C library, one by one: those of NumPy
    may differ in the last bit by the length of an array.
    """
    for index in range(len(longitudes)):
        longitude, latitude = longitudes[index], latitudes[index]
        if longitude >= 180.0:  # as fmod, both are exact
            longitude -= 360.0
        elif longitude < -180.0:
            longitude += 360.0
        if not abs(latitude) <= 90.0:
            latitude = math.nan
        across = 0.0 if abs(latitude) == 90.0 else math.cos(math.radians(latitude))
        # from the first eighth of the circle, so that places to both sides of 180 or 90 degrees are as far
        east = min(abs(longitude), 180.0 - abs(longitude))
        if east <= 45.0:
            along, beside = math.cos(math.radians(east)), math.sin(math.radians(east))
        else:
            along, beside = math.sin(math.radians(90.0 - east)), math.cos(math.radians(90.0 - east))
        places[index, 0] = across * (along if abs(longitude) <= 90.0 else -along)
        places[index, 1] = across * math.copysign(beside, longitude)
        places[index, 2] = math.sin(math.radians(latitude))


def surface_distances(chords: Floats, unit: str | None) -> Floats:
    """The distances along the surface of the earth, given chords on the unit sphere; the default unit is
    km.
    """
    distances = np.empty(len(chords))
    _write_distances(chords, EARTH_RADIUS[unit or "km"], distances)
    return distances


@loop
def _write_distances(chords: Floats, radius: float, distances: Floats) -> None:
    for index in range(len(chords)):
        distances[index] = 2.0 * radius * math.asin(min(1.0, chords[index] / 2.0))
