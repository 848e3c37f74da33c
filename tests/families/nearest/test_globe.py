"""Nearest on a globe: `metric = "haversine"` over the stream's position, whatever longitudes are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.chain.items import arrow_schema
from anabranch.families.nearest.spec import Nearest
from anabranch.language.bind import compile_query
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import QueryError
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from tests.laws.case import Asked, Case, run_local
from tests.oracles.nearest import nearest_oracle

SHIPS = Stream(
    "ships",
    tuple(Column(name, ColumnType.FLOAT) for name in ("lon", "lat", "draught")),
    position=("lon", "lat"),
    metric="haversine",
)


def case(places: Sequence[tuple[float, float]], *specs: Nearest, stream: Stream = SHIPS) -> Case:
    lon, lat = zip(*places, strict=True)
    columns = {"lon": lon, "lat": lat, "draught": [1.0] * len(lon)}
    items = pa.record_batch(
        [pa.array(columns[name], pa.float64()) for name in columns], schema=arrow_schema(stream)
    )
    asked = tuple(Asked(f"q{number}", spec.to_json()) for number, spec in enumerate(specs))
    return Case(stream, items, asked, "nearest")


def nearest(
    k: int, point: tuple[float, ...], by: tuple[str, ...] = ("lon", "lat"), rows: int = 100
) -> Nearest:
    return Nearest(k, point, by, Window("rows", rows, rows))


def answers(case: Case, zones: int = 1) -> dict[str, list[tuple[float, float]]]:
    """The longitude and the distance of each row that is added."""
    rows = run_local(case, zones=zones).results
    return {name: [(row["lon"], row["distance"]) for row in rows[name] if row["op"] == "+"] for name in rows}


@pytest.mark.parametrize("zones", [1, 3])
def test_longitudes_name_the_same_place_modulo_360(zones: int) -> None:
    """Of 179.9, 190, 20 and 300 degrees on the equator 179.9 is the nearest to 180.5, by all its names."""
    for turn in (-720.0, -360.0, 0.0, 360.0):
        places = [(300.0, 0.0), (20.0, 0.0), (190.0 + turn, 0.0), (179.9 - turn, 0.0)]
        found = answers(case(places, nearest(1, (180.5 + turn, 0.0))), zones)["q0"]
        assert found[-1][0] == 179.9 - turn
        assert found[-1][1] == pytest.approx(math.radians(0.6) * 6371.0088, rel=1e-9)


@pytest.mark.parametrize(("unit", "radius"), [(None, 6371.0088), ("m", 6371008.8), ("miles", 3958.7613)])
def test_distances_are_in_the_unit_of_the_stream(unit: str | None, radius: float) -> None:
    over_the_pole = case([(10.0, 80.0)], nearest(1, (190.0, 80.0)), stream=replace(SHIPS, unit=unit))
    assert answers(over_the_pole)["q0"][0][1] == pytest.approx(math.radians(20) * radius, rel=1e-6)


def test_at_equal_distance_across_180_degrees_the_earlier_ranks_first() -> None:
    for first, second in ((179.0, 181.0), (-179.0, 179.0), (181.0, -181.0)):
        assert [
            lon for lon, _ in answers(case([(first, 5.0), (second, 5.0)], nearest(1, (180.0, 5.0))))["q0"]
        ] == [first]


def test_at_a_pole_all_longitudes_are_one_place() -> None:
    places = [(0.0, 89.0), (77.0, 90.0), (-120.0, 90.0)]
    assert answers(case(places, nearest(2, (45.0, 90.0))))["q0"] == [
        (0.0, pytest.approx(math.radians(1) * 6371.0088, rel=1e-9)),
        (77.0, 0.0),
        (-120.0, 0.0),
    ]


def test_columns_in_the_other_order_and_other_columns() -> None:
    """Latitude first is the same query; columns that are not the position are measured as they are."""
    places = [(179.0, 1.0), (-179.5, 0.0)]
    found = answers(
        case(
            places,
            nearest(1, (0.0, 180.0), ("lat", "lon")),
            nearest(1, (180.0,), ("lon",)),
            nearest(1, (180.0, 1.0), ("lon", "draught")),
        )
    )
    assert [lon for lon, _ in found["q0"]] == [179.0, -179.5]
    assert found["q1"] == found["q2"] == [(179.0, 1.0)]


@pytest.mark.parametrize("zones", [1, 4])
def test_thousands_of_items_all_over_the_globe(zones: int) -> None:
    """Uniform on the sphere, longitudes by several names; balls, cells and homes are those of places."""
    random = np.random.default_rng(7)
    count = 1500
    lon = random.uniform(-180, 180, count) + 360.0 * random.integers(-1, 2, count)
    lat = np.degrees(np.arcsin(random.uniform(-1, 1, count)))
    points = [(180.0, 0.0), (-179.5, 60.0), (0.0, 90.0), (359.0, -89.5), (42.0, 13.0)]
    specs = [nearest(3, point, rows=300) for point in points]
    drawn = case(list(zip(lon.tolist(), lat.tolist(), strict=True)), *specs)
    expected: Any = nearest_oracle(drawn)
    assert run_local(drawn, cuts=range(0, count, 60), zones=zones).results == expected


def test_a_point_beyond_a_pole_is_refused() -> None:
    for by, point in (("lon, lat", "0, 90.5"), ("lat, lon", "-91, 0")):
        with pytest.raises(QueryError, match=r"the latitude of the point is .* between -90 and 90"):
            compile_query(
                f"SELECT NEAREST 1 TO ({point}) BY ({by}) FROM ships WINDOW ROWS 5", {"ships": SHIPS}
            )
    compile_query("SELECT NEAREST 1 TO (0, 91) BY (lon, draught) FROM ships WINDOW ROWS 5", {"ships": SHIPS})
