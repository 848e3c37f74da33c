"""More objects than the laws draw: grids with many cells, lists with many candidates, several zones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.families.moving.runs import GLOBE, PLANE, crowd
from tests.laws.case import run_local
from tests.oracles.moving import moving_oracle

STREAMS = {
    "plane": PLANE,
    "plane, silent ones go": replace(PLANE, expire=1.3),
    "plane, no bounds": replace(PLANE, bounds=(), expire=3.0),
    "plane, rectangles": replace(
        PLANE, bounds=(), regions=((0.0, 0.0, 5.0, 5.0), (4.0, 4.0, 9.0, 9.0), (6.0, 0.0, 9.0, 3.0))
    ),
    "globe": GLOBE,
    "globe, silent ones go": replace(GLOBE, bounds=(), expire=2.0),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_equals_the_oracle(name: str, seed: int) -> None:
    case = crowd(seed, STREAMS[name])
    wanted = moving_oracle(case)
    assert sum(map(len, wanted.values())) > 500
    assert run_local(case).results == wanted
    assert run_local(case, cuts=(100, 500, 501, 900), zones=3, stops=(1, 2)).results == wanted
    assert run_local(case, cuts=tuple(range(0, 1200, 40)), zones=5, stops=(3, 8)).results == wanted


@pytest.mark.slow
def test_many_cells_and_queries_that_come_and_go() -> None:
    """Ranges that cover whole cells of the grid, and queries that have not seen who is in them."""
    case = crowd(4, PLANE, objects=300, reports=2500)
    wanted = moving_oracle(case)
    assert sum(map(len, wanted.values())) > 1000
    assert run_local(case, cuts=tuple(range(0, 2500, 100))).results == wanted
    assert run_local(case, cuts=tuple(range(0, 2500, 250)), zones=4, stops=(2,)).results == wanted


LAYOUTS: list[dict[str, Any]] = [
    {"regions": (1, 1)},
    {"regions": (7, 2)},
    {"regions": (3, 3), "bounds": ((4, 5), (4, 5))},
    {"bounds": ()},
    {"regions": ((0.0, 0.0, 3.0, 9.0), (2.0, 2.0, 8.0, 8.0))},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_regions_change_nothing(layout: dict[str, Any]) -> None:
    case = crowd(3, PLANE)
    other = replace(case, stream=replace(PLANE, **layout))
    assert run_local(other, zones=4).results == run_local(case, zones=4).results
