"""Regions that split while the stream runs change where work is done and nothing that comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.families.moving.family import MovingFamily
from anabranch.families.moving.splits import MOST, Patience, cut, division
from anabranch.kernels.moving_arrays import Space
from anabranch.local.runner import LocalRunner
from anabranch.model.stream import Stream
from anabranch.zones.state import State
from tests.families.moving_runs import GLOBE, PLANE, crowd
from tests.laws.case import run_local
from tests.laws.draw_moving import cases
from tests.oracles.moving import moving_oracle

#: Divides whoever has most to do, after every batch.
RESTLESS = MovingFamily(Patience(batches=1, hot=0.0, least=1))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cases(),
    st.lists(st.integers(1, 50), max_size=20),
    st.integers(2, 5),
    st.lists(st.integers(0, 20), max_size=3),
)
def test_splits_change_nothing(case, cuts: list[int], zones: int, stops: list[int]) -> None:
    split = run_local(case, cuts=cuts, zones=zones, stops=stops, made=RESTLESS)
    assert split.results == moving_oracle(case)


@pytest.mark.parametrize("stream", [PLANE, GLOBE], ids=["plane", "globe"])
@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_under_many_splits(stream: Stream, seed: int) -> None:
    case = crowd(seed, stream)
    split = run_local(case, cuts=range(0, 1200, 23), zones=4, stops=[7, 30], made=RESTLESS)
    assert split.results == moving_oracle(case)


def _run(runner: LocalRunner, case, every: int) -> None:
    for first in range(0, case.items.num_rows, every):
        runner.batch(case.items.slice(first, every), case.controls() if first == 0 else ())


def _splits(state: State) -> Sequence[list[float]]:
    held = state.get("splits")
    return [] if held is None else held["table"].tolist()


def test_a_hot_zone_is_divided_and_all_zones_know() -> None:
    case = crowd(5, PLANE)  # 9 regions over 4 zones: one has three of them
    runner = LocalRunner(case.stream, MovingFamily(Patience(batches=4, hot=1.1, least=20)), 4)
    _run(runner, case, 40)
    runner.settle()
    tables = [_splits(state) for (stage, _), state in sorted(runner.states.items()) if stage in (1, 2)]
    assert len(tables) == 8
    assert 0 < len(tables[0]) <= 10
    assert all(table == tables[0] for table in tables)


def test_divided_work_evens_out() -> None:
    """All objects are in one of nine regions; they end up in all four zones."""
    corner = replace(PLANE, bounds=((0, 1000), (0, 1000)))
    case = crowd(6, corner)
    runner = LocalRunner(case.stream, MovingFamily(Patience(batches=3, hot=1.5, least=20)), 4)
    _run(runner, case, 30)
    held = [
        sum(len((state.get(key) or {})["who"]) for key in state.keys("objects/"))
        for (stage, _), state in sorted(runner.states.items())
        if stage == 2
    ]
    assert sum(held) == 60
    assert min(held) >= 5


def test_patience() -> None:
    calm = Patience(hot=1.5, least=100)
    assert division(np.array([300, 100, 100]), 0, calm) == (0, 1, pytest.approx(1 / 3))
    assert division(np.array([100, 100, 100]), 0, calm) is None
    assert division(np.array([90, 0, 0]), 0, calm) is None  # too little to matter
    assert division(np.array([300, 100, 100]), MOST, calm) is None


def test_cuts() -> None:
    plane, globe = Space(False, 0.0), Space(True, 6371.0)
    x, y = np.arange(100.0), np.zeros(100)
    assert cut(plane, x, y, 0.25) == (0, 75.0)
    assert cut(plane, y, x, 0.25) == (1, 75.0)
    assert cut(plane, np.ones(5), np.ones(5), 0.5) is None
    assert cut(plane, np.array([1.0, 1.0, 2.0]), np.ones(3), 0.5) == (0, 2.0)
    assert cut(plane, np.empty(0), np.empty(0), 0.5) is None
    assert cut(globe, np.array([170.0, 190.0]), np.zeros(2), 0.5) == (0, 170.0)  # 190 degrees are -170
