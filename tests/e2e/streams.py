"""The generated streams of the browser tests and the screenshots."""

from __future__ import annotations

from typing import Any

from anabranch.job.generated_streams import AIRCRAFT, flights, photons, targets
from anabranch.model.columns import Column, ColumnType
from tests.e2e.engine import Generated

FLOAT, INT, STRING = ColumnType.FLOAT, ColumnType.INT, ColumnType.STRING
#: Generators seed a block by where it begins, so a batch is always a whole block.


def _columns(**types: ColumnType) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in types.items())


def _fast_flights(first: int, count: int) -> dict[str, Any]:
    """Ten seconds from report to report, so that aircraft are seen to move."""
    made = flights(first, count)
    seconds = made["time"] * 10
    moved = {name: [] for name in ("longitude", "latitude", "altitude")}
    for second in sorted(set(seconds.tolist())):
        there = flights(second * AIRCRAFT, AIRCRAFT)
        for name, values in moved.items():
            values += there[name].tolist()
    return made | moved | {"time": seconds}


def generated(photons_a_batch: int = 2_000) -> list[Generated]:
    return [
        Generated(
            "photons",
            {"time": "det_time", "position": ["ra", "dec"], "bounds": [[0, 360], [-90, 90]]},
            _columns(det_time=FLOAT, ra=FLOAT, dec=FLOAT, en=FLOAT, phc=INT),
            photons,
            photons_a_batch,
        ),
        Generated(
            "targets",
            {"time": "time", "position": ["latitude", "longitude"]},
            _columns(time=FLOAT, target=INT, latitude=FLOAT, longitude=FLOAT),
            targets,
            500,
        ),
        Generated(
            "flights",
            {
                "time": "time",
                "object": "icao24",
                "position": ["longitude", "latitude"],
                "tick": 10,
                "metric": "haversine",
                "unit": "km",
                "bounds": [[1.1, 3.7], [47.8, 49.9]],
                "regions": [3, 3],
            },
            _columns(time=INT, icao24=STRING, longitude=FLOAT, latitude=FLOAT, altitude=FLOAT),
            _fast_flights,
            AIRCRAFT,
        ),
    ]
