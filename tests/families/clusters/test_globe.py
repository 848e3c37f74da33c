"""Clusters on a globe: with `metric = "haversine"` ranges are distances on the earth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.numeric.globe import EARTH_RADIUS
from tests.laws.case import Asked, Case, run_local
from tests.oracles.dbscan import clusters_from

SHIPS = Stream(
    "ships",
    tuple(Column(name, ColumnType.FLOAT) for name in ("lon", "lat", "speed")),
    position=("lon", "lat"),
    metric="haversine",
)


def _results(
    lon: list[float],
    lat: list[float],
    within: float,
    emit: Emit = Emit.MEMBERS,
    by: tuple[str, ...] = ("lon", "lat"),
    **how: Any,
) -> list[dict[str, Any]]:
    items = pa.record_batch({"lon": lon, "lat": lat, "speed": [0.0] * len(lon)})
    spec = Clusters(within, 2, by, Window("rows", len(lon), len(lon)), emit=emit)
    case = Case(SHIPS, items, (Asked("q", spec.to_json()),), "clusters")
    return run_local(case, **how).results["q"]


def test_across_180_degrees_and_all_names_of_a_longitude() -> None:
    lon, lat = [179.9, -179.9, 180.5, -179.7, 540.2, 20.0], [0.0] * 6
    found = _results(lon, lat, 50.0)  # km; neighbours are 22 to 33 km apart
    assert {(row["cluster"], row["id"]) for row in found} == {(1, each) for each in range(5)}


def test_around_a_pole() -> None:
    lon, lat = [0.0, 90.0, 180.0, 270.0, 13.0], [89.9, 89.9, 89.9, 89.9, 80.0]
    assert {row["id"] for row in _results(lon, lat, 16.0)} == {0, 1, 2, 3}
    assert {row["id"] for row in _results([0.0, 123.0, 250.0], [90.0] * 3, 0.0)} == {0, 1, 2}


def test_other_columns_stay_in_the_plane() -> None:
    lon, lat = [0.0, 0.5, 1.0], [0.0, 0.0, 0.0]
    assert _results(lon, lat, 0.5, by=("lon", "speed")) != []
    assert _results(lon, lat, 0.5) == []
    assert _results(lon, lat, 56.0) == _results(lon, lat, 56.0, by=("lat", "lon")) != []


def test_the_summary_of_a_cluster_across_180_degrees_is_narrow() -> None:
    (row,) = _results([179.5, -179.5, 180.0, -180.0], [1.0, 2.0, 1.0, 2.0], 200.0, Emit.SUMMARY)
    assert (row["low"], row["high"], row["centre"]) == ([179.5, 1.0], [180.5, 2.0], [180.0, 1.5])
    (row,) = _results([-180.0, -179.5, 180.0], [1.0, 1.0, 1.0], 200.0, Emit.SUMMARY)
    assert (row["low"], row["high"]) == ([-180.0, 1.0], [-179.5, 1.0])


@pytest.mark.parametrize("names", ["-180..180", "0..360", "mixed"])
def test_as_haversine_distances_say(names: str) -> None:
    """Points at random, where no two distances tie, against clusters from a matrix of haversine distances."""
    random = np.random.default_rng(len(names))
    centres = np.array([[180.0, 10.0], [0.0, -60.0], [75.0, 89.5], [-90.0, -89.9], [179.0, 12.0]])
    points = centres[random.integers(0, 5, 500)] + random.normal(0, 1.5, (500, 2))
    lon, lat = points[:, 0], 90.0 - np.abs(90.0 - np.abs(points[:, 1]))
    lat *= np.sign(points[:, 1])
    turns = {"-180..180": 0, "0..360": 1, "mixed": 2}[names]
    lon = np.where(turns == 0, (lon + 180) % 360 - 180, np.where(turns == 1, lon % 360, lon))
    lon = lon + 360.0 * random.integers(-1, 2, 500) if turns == 2 else lon
    east, north = np.radians(lon), np.radians(lat)
    half = np.sin((north[:, None] - north) / 2) ** 2
    half += np.cos(north[:, None]) * np.cos(north) * np.sin((east[:, None] - east) / 2) ** 2
    distances = 2 * EARTH_RADIUS["km"] * np.arcsin(np.sqrt(np.minimum(half, 1)))
    for within in (12.5, 40.0, 900.0):
        clusters, _ = clusters_from(distances, within, 2)
        found = {row["id"]: row["cluster"] for row in _results(list(lon), list(lat), within, cuts=[90, 300])}
        assert [found.get(each, 0) for each in range(500)] == clusters.tolist()
    assert math.isfinite(float(distances.max()))
