"""Many queries around fixed points: those in the index of fences, those that are new, and those that go."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.families.moving.kernels.arrays import LISTED
from anabranch.families.moving.regional_server import FEW_FENCES, RegionalServer
from anabranch.families.moving.spec import Box, Circle, Moving
from anabranch.model.arrays import Array
from anabranch.model.stream import Stream
from anabranch.predicates.terms import TRUE, Constant, Op
from tests.families.moving.runs import GLOBE, PLANE, crowd
from tests.laws.case import Asked, Case, run_local
from tests.oracles.moving import moving_oracle

MANY = 3 * FEW_FENCES
OBJECTS_ONLY, ALL_VALUES = (None, "count"), (None, None, "count", "min(x)", "max(y)")


def _fences(seed: int, stream: Stream, values: tuple[str | None, ...], reports: int = 500) -> Case:
    """Fences of all sizes: two thirds are there from the start, and many are cancelled on the way."""
    random = np.random.default_rng(seed)
    case = crowd(seed, stream, objects=40, reports=reports)
    end, unit = case.items.column("t")[-1].as_py(), 3000.0 if stream.metric == "haversine" else 1.0
    queries = []
    for number in range(MANY):
        size = unit * float(random.choice([0.2, 1, 1, 3, 20]))
        shape = Circle(size) if number % 2 else Box(size, 2 * size)
        point = (float(random.integers(-1, 12)), float(random.uniform(-1, 11)))
        condition = Constant("k", Op.EQ, 1) if number % 7 == 0 else TRUE
        spec = Moving(shape, point, condition, values[number % len(values)]).to_json()
        after = float(random.uniform(0, end)) if number % 3 == 0 else None
        until = float(random.uniform(0, end)) if number % 5 == 0 else None
        queries.append(Asked(f"fence-{number}", spec, after, until))
    return replace(case, queries=tuple(queries))


@pytest.mark.parametrize(
    "stream", [PLANE, GLOBE, replace(PLANE, expire=1.0)], ids=["plane", "globe", "expire"]
)
@pytest.mark.parametrize("values", [OBJECTS_ONLY, ALL_VALUES], ids=["objects", "values"])
@pytest.mark.slow
def test_fences_that_come_and_go(stream: Stream, values: tuple[str | None, ...]) -> None:
    case = _fences(1, stream, values)
    wanted = moving_oracle(case)
    assert sum(map(len, wanted.values())) > 300
    assert run_local(case, cuts=tuple(range(0, 500, 25))).results == wanted
    assert run_local(case, cuts=(100, 300), zones=3, stops=(1,)).results == wanted


def test_fences_are_in_the_index_and_lists_of_objects_only_where_they_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are dropped once every object has moved, and made again when the late fences start."""
    seen, run = [], RegionalServer.run

    def noted(self: RegionalServer, *arguments: Any) -> Array:
        rows = run(self, *arguments)
        seen.append((len(self.grid.fences.fences), int(self.tallies[LISTED])))
        return rows

    monkeypatch.setattr(RegionalServer, "run", noted)
    case = _fences(2, PLANE, OBJECTS_ONLY)
    late = [replace(query, after=8.0 if n < 5 else None, until=None) for n, query in enumerate(case.queries)]
    case = replace(case, queries=tuple(late))
    assert run_local(case, cuts=tuple(range(0, 500, 25))).results == moving_oracle(case)
    assert max(fences for fences, _ in seen) >= MANY - 5
    assert [listed for listed, _ in groupby(listed for _, listed in seen)] == [1, 0, 1, 0]


def test_an_object_that_reports_often_in_one_tick() -> None:
    """Superseded reports are dropped before the tick is due, when there are many."""
    stream = replace(PLANE, tick=1000.0)
    case = replace(_fences(3, stream, OBJECTS_ONLY, reports=30_000), queries=())
    spec = Moving(Circle(4.0), (5.0, 5.0)).to_json()
    case = replace(case, queries=(Asked("near", spec),))
    times = np.sort(np.random.default_rng(0).uniform(0, 2500, case.items.num_rows))
    case = replace(case, items=case.items.set_column(0, "t", pa.array(times)))
    wanted = run_local(case).results
    assert wanted["near"]
    assert run_local(case, cuts=tuple(range(0, 30_000, 3000)), stops=(4,)).results == wanted
