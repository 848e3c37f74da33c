"""Generated moving targets: convoys that drift, meet and part, and aircraft that belong to none.

In: which reports, by their count from 0. Out: their columns, the same for the same count and block. Never: a
look at the clock or at pyspark.

24 convoys of 20 vehicles drive around a region of about 1 by 1.5 degrees at 30 to 60 km/h. Convoys 2k and
2k + 1 have one route: for half of an hour or two they drive together, then the second leaves it for a while
and comes back. One report in ten is an aircraft somewhere. 100,000 reports are six hours, as in the
experiments of the Chandi paper (section 8), whose own data are not public.

    convoy 2k      ------------------------------------------
    convoy 2k + 1  ----------.               .---------.        union where they meet, split where they part
                              `-------------'           `----
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SCHEMA = "time double, target long, latitude double, longitude double"
SECONDS_A_REPORT = 6 * 3600 / 100_000
CONVOYS, VEHICLES = 24, 20
_SOUTH, _WEST, _HEIGHT_DEG, _WIDTH_DEG = 42.0, -72.0, 1.0, 1.5
_AIRCRAFT = 50
_COLUMN_S = 60.0  # the last vehicle of a convoy is this far behind the first
_JITTER_DEG = 0.0008


def targets(first: int, count: int) -> dict[str, Any]:
    """Reports first..first + count. Any target may report next."""
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
