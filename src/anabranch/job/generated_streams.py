"""Generated streams, for demonstrations, tests and benchmarks: the columns of items, by their count from 0.

The same count gives the same items, so a replay sees what was seen before.

    photons(0, 1000)["ra"]      # right ascensions of the first thousand photons
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.model.arrays import Array
from anabranch.model.errors import JobError

#: Items are generated in blocks of so many.
BLOCK = 20_000


def photons(first: int, count: int) -> dict[str, Any]:
    """Photons over the sky: a background, and a third of them around a supernova remnant near Vela."""
    rng = np.random.default_rng([7, first])
    ra = rng.uniform(0, 360, count)
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, count)))
    remnant = rng.random(count) < 1 / 3
    ra[remnant] = rng.normal(128.8, 4, remnant.sum())
    dec[remnant] = rng.normal(-45.2, 3, remnant.sum())
    return {
        "det_time": (np.arange(first, first + count) / 1000.0),
        "ra": np.mod(ra, 360),
        "dec": dec,
        "en": rng.pareto(1.7, count) + 0.1,
        "phc": rng.integers(0, 4096, count),
    }


TARGETS_SCHEMA = "time double, target long, latitude double, longitude double"
SECONDS_A_REPORT = 6 * 3600 / 100_000
CONVOYS, VEHICLES = 24, 20
_SOUTH, _WEST, _HEIGHT_DEG, _WIDTH_DEG = 42.0, -72.0, 1.0, 1.5
_AIRCRAFT = 50
_COLUMN_S = 60.0  # the last vehicle of a convoy is this far behind the first
_JITTER_DEG = 0.0008


def targets(first: int, count: int) -> dict[str, Any]:
    """Moving targets: convoys that drift, meet and part, and aircraft that belong to none.

    24 convoys of 20 vehicles drive around a region of about 1 by 1.5 degrees at 30 to 60 km/h. Convoys 2k and
    2k + 1 have one route: for half of an hour or two they drive together, then the second leaves it for a
    while and comes back. One report in ten is an aircraft somewhere. 100,000 reports are six hours, as in the
    experiments of the Chandi paper (section 8), whose own data are not public.

        convoy 2k      ------------------------------------------
        convoy 2k + 1  ----------.               .---------.        union, and split
                                  `-------------'           `----
    """
    rng = np.random.default_rng([11, first])
    time = np.arange(first, first + count) * SECONDS_A_REPORT
    target = rng.integers(0, CONVOYS * VEHICLES, count)
    latitude, longitude = _driven(target // VEHICLES, time - target % VEHICLES * (_COLUMN_S / VEHICLES))
    latitude += rng.normal(0, _JITTER_DEG, count)
    longitude += rng.normal(0, _JITTER_DEG, count)
    aircraft = rng.random(count) < 0.1
    some = int(np.count_nonzero(aircraft))
    target[aircraft] = CONVOYS * VEHICLES + rng.integers(0, _AIRCRAFT, some)
    latitude[aircraft] = _SOUTH + rng.uniform(0, _HEIGHT_DEG, some)
    longitude[aircraft] = _WEST + rng.uniform(0, _WIDTH_DEG, some)
    return {"time": time, "target": target, "latitude": latitude, "longitude": longitude}


def _driven(convoy: Array, time: Array) -> tuple[Array, Array]:
    """Where the head of each convoy was at each time."""
    rng = np.random.default_rng(5)
    routes = CONVOYS // 2
    south, west = rng.uniform(0.2, 0.8, routes) * _HEIGHT_DEG, rng.uniform(0.2, 0.8, routes) * _WIDTH_DEG
    radius = rng.uniform(0.08, 0.25, routes)
    turns = rng.uniform(8e-5, 16e-5, routes) / radius  # radians a second: 8e-5 degrees a second are 32 km/h
    phase, lean = rng.uniform(0, 2 * np.pi, routes), rng.uniform(0.6, 1.4, routes)
    rhythm, beat = 2 * np.pi / rng.uniform(3600, 7200, routes), rng.uniform(0, 2 * np.pi, routes)
    detour, bearing = rng.uniform(0.05, 0.15, routes), rng.uniform(0, 2 * np.pi, routes)
    route = convoy // 2
    angle = turns[route] * time + phase[route]
    away = np.where(convoy % 2 == 1, np.maximum(0, np.sin(rhythm[route] * time + beat[route])), 0.0)
    away *= detour[route]
    latitude = _SOUTH + south[route] + radius[route] * np.sin(angle) + away * np.sin(bearing[route])
    longitude = (
        _WEST + west[route] + radius[route] * np.cos(angle * lean[route]) + away * np.cos(bearing[route])
    )
    return latitude, longitude


AIRCRAFT = 200


def flights(first: int, count: int) -> dict[str, Any]:
    """Aircraft around Paris, each reporting once per second: they go to and fro on lines of their own. Half
    of them start from an airport, where they meet.
    """
    number = np.arange(first, first + count)
    second, aircraft = number // AIRCRAFT, number % AIRCRAFT
    rng = np.random.default_rng(11)  # of the aircraft, the same for every block
    low, high = np.array([1.2, 47.9]), np.array([3.6, 49.8])
    ends = rng.uniform(low, high, (2, AIRCRAFT, 2))
    airports = np.array([[2.55, 49.01], [2.36, 48.72], [2.11, 49.45], [1.47, 48.05]])
    ends[0, ::2] = airports[rng.integers(0, len(airports), AIRCRAFT // 2)]
    ends[:, 1] = airports[0] + [[-0.2, 0.0], [0.2, 0.0]]  # one stays near the first of them
    seconds = rng.uniform(600, 1800, AIRCRAFT)
    phase = np.abs((second / seconds[aircraft] + rng.uniform(0, 2, AIRCRAFT)[aircraft]) % 2 - 1)
    place = ends[0, aircraft] + (ends[1] - ends[0])[aircraft] * phase[:, None]
    return {
        "time": second,
        "icao24": np.char.add("39", np.char.zfill(aircraft.astype(str), 4)),
        "longitude": place[:, 0],
        "latitude": place[:, 1],
        "altitude": 11_000 * phase,
    }


SITES = 400


def sensors(first: int, count: int) -> dict[str, Any]:
    """Sites that measure the air, each once in ten minutes: traffic, industry, town and country, and a summer
    smog that comes and goes.
    """
    number = np.arange(first, first + count)
    rng = np.random.default_rng(13)  # of the sites, the same for every block
    kinds = np.array([[90.0, 10.0, 60.0, 40.0], [40, 60, 70, 60], [50, 8, 40, 60], [10, 4, 20, 80]])
    usual = kinds[rng.integers(0, len(kinds), SITES)] * rng.uniform(0.7, 1.3, (SITES, 4))
    places = rng.uniform((5.9, 47.3), (15.0, 54.9), (SITES, 2))
    site, seconds = number % SITES, number / SITES * 600
    noise = np.random.default_rng([13, first]).lognormal(0, 0.25, (count, 4))
    read = usual[site] * noise
    read[:, 3] += 70 * np.maximum(0, np.sin(seconds / 86_400 * 2 * np.pi + site / SITES))
    columns = dict(zip(("no2", "so2", "pm10", "o3"), read.T, strict=True))
    return {
        "time": seconds,
        "site": np.char.add("S", np.char.zfill(site.astype(str), 3)),
        "longitude": places[site, 0],
        "latitude": places[site, 1],
        **columns,
    }


GENERATORS: dict[str, tuple[str, Callable[[int, int], dict[str, Any]]]] = {
    "photons": ("det_time double, ra double, dec double, en double, phc long", photons),
    "sensors": (
        "time double, site string, longitude double, latitude double, "
        "no2 double, so2 double, pm10 double, o3 double",
        sensors,
    ),
    "targets": (TARGETS_SCHEMA, targets),
    "flights": ("time long, icao24 string, longitude double, latitude double, altitude double", flights),
}


def schema_of(name: str) -> str:
    if name not in GENERATORS:
        raise JobError(f"there is no generator {name!r}; there are: {', '.join(GENERATORS)}")
    return GENERATORS[name][0]
