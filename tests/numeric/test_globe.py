"""Places on a globe: the same place has the same bits, and chords grow with distances along the surface."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anabranch.numeric.globe import EARTH_RADIUS, chord_of, places_on_globe


def _place(longitude: float, latitude: float) -> list[float]:
    return [float(each) for each in places_on_globe(np.array([longitude]), np.array([latitude]))[0]]


@pytest.mark.parametrize("longitude", [-180.0, -170.25, -0.1, 0.0, 12.7, 179.999])
def test_longitudes_name_the_same_place_modulo_360(longitude: float) -> None:
    for turns in (-2, -1, 1, 2):
        name = longitude + 360.0 * turns
        if name - 360.0 * turns == longitude:  # else another place was rounded to
            assert _place(name, 33.3) == _place(longitude, 33.3)
    assert _place(180.0, 5.0) == _place(-180.0, 5.0)


def test_at_a_pole_all_longitudes_are_the_same_place() -> None:
    for pole in (90.0, -90.0):
        assert _place(0.0, pole) == _place(77.0, pole) == _place(-180.0, pole)


def test_beyond_a_pole_there_is_no_place() -> None:
    for longitude, latitude in ((0.0, 90.5), (0.0, -91.0), (math.inf, 0.0), (math.nan, 0.0), (0.0, math.nan)):
        assert math.isnan(sum(_place(longitude, latitude)))


def test_chords_are_those_of_haversine_distances() -> None:
    random = np.random.default_rng(3)
    lon, lat = random.uniform(-360, 720, 400), np.degrees(np.arcsin(random.uniform(-1, 1, 400)))
    lon[::3], lat[::3] = lon[0] + random.normal(0, 0.01, 134), lat[0] + random.normal(0, 0.01, 134)
    places = places_on_globe(lon, lat)
    chords = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
    east, north = np.radians(lon), np.radians(lat)
    half = np.sin((north[:, None] - north) / 2) ** 2
    half += np.cos(north[:, None]) * np.cos(north) * np.sin((east[:, None] - east) / 2) ** 2
    distances = 2 * EARTH_RADIUS["m"] * np.arcsin(np.sqrt(np.minimum(half, 1)))
    for unit, per_metre in (("m", 1.0), ("km", 1e-3), ("miles", 1 / 1609.344)):
        for reach in (0.5, 700.0, 5e4, 9e6, 2.1e7):
            clear = np.abs(distances - reach) > 1e-3  # metres
            within = chords <= chord_of(reach * per_metre, unit)
            assert (within == (distances <= reach))[clear].all()
