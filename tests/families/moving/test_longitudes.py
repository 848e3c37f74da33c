"""Longitudes name the same place modulo 360: whoever counts them, and however, the answers are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from anabranch.chain.items import arrow_schema
from anabranch.families.moving.spec import Circle, KNearest, Moving
from tests.families.moving.runs import GLOBE, crowd, rows_of
from tests.laws.case import Asked, Case, run_local
from tests.oracles.moving import moving_oracle

FRAMES = {
    "from -180 to 180": lambda x, random: np.remainder(x + 180, 360) - 180,
    "from 0 to 360": lambda x, random: np.remainder(x, 360),
    "mixed": lambda x, random: x + 360 * random.integers(-2, 3, len(x)),
}


@pytest.mark.parametrize("zones", [1, 3])
def test_the_nearest_ship_is_across_the_date_line(zones: int) -> None:
    ships = [("focal", 180.5), ("near", 179.9), ("east", 190.0), ("far", 20.0), ("west", 300.0)]
    items = rows_of(GLOBE, [(0.0, name, x, 0.0) for name, x in ships])
    case = Case(GLOBE, items, (Asked("q", Moving(KNearest(1), "focal").to_json()),), "moving")
    (row,) = run_local(case, zones=zones).results["q"]
    assert row["object"] == "near"
    assert row["distance"] == pytest.approx(66.7, abs=0.1)


@pytest.mark.parametrize("zones", [1, 2])
def test_the_same_place_after_a_turn(zones: int) -> None:
    items = rows_of(
        GLOBE, [(0.0, "focal", 180.5, 10.0), (0.0, "same", -179.5, 10.0), (0.0, "other", 0.0, 10.0)]
    )
    case = Case(GLOBE, items, (Asked("q", Moving(Circle(0.0), "focal").to_json()),), "moving")
    rows = run_local(case, zones=zones).results["q"]
    assert [(row["object"], row["distance"]) for row in rows] == [("same", 0.0)]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(("zones", "regions"), [(1, (3, 3)), (4, (6, 2))])
def test_a_crowd_counted_in_any_way(frame: str, zones: int, regions: tuple[int, int]) -> None:
    """Hundreds of objects, poles among their places, over all regions."""
    stream = replace(GLOBE, regions=regions, bounds=((0, 360), (-90, 90)))
    case = crowd(11, stream, objects=300, reports=900)
    random = np.random.default_rng(5)
    x, y = (case.items.column(name).to_numpy().copy() for name in ("x", "y"))
    y[::40] = np.where(random.random(len(y[::40])) < 0.5, 90.0, -90.0)
    columns = dict(zip(case.items.schema.names, case.items.columns, strict=True))
    columns |= {"x": pa.array(FRAMES[frame](np.round(x), random)), "y": pa.array(y)}
    case = replace(case, items=pa.record_batch(columns, schema=arrow_schema(stream)))
    assert run_local(case, cuts=range(0, 900, 150), zones=zones).results == moving_oracle(case)
