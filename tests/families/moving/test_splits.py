"""Regions that split while the stream runs change where work is done and nothing that comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings

from anabranch.chain.balance import Patience
from anabranch.chain.runner import Runner
from anabranch.chain.state import State
from anabranch.families.moving import object_home
from anabranch.families.moving.family import MovingFamily
from anabranch.model.control_log import Rebalance
from anabranch.model.stream import Stream
from tests.drawn import examples
from tests.families.moving.runs import GLOBE, PLANE, crowd
from tests.families.splits_runs import by_turns, disturbed
from tests.laws.case import run_local
from tests.laws.draw_moving import cases
from tests.oracles.moving import moving_oracle

#: Divides whoever has most to do, after every batch.
RESTLESS = MovingFamily(Patience(batches=1, hot=0.0, least=1))


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@disturbed(cases(), latest=50)
def test_splits_change_nothing(case, cuts: list[int], zones: int, stops: list[int]) -> None:
    split = run_local(case, cuts=cuts, zones=zones, stops=stops, made=RESTLESS)
    assert split.results == moving_oracle(case)


@pytest.mark.parametrize("stream", [PLANE, GLOBE], ids=["plane", "globe"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_a_crowd_under_many_splits(stream: Stream, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_home, "division", by_turns)
    case = crowd(seed, stream)
    split = run_local(case, cuts=range(0, 1200, 23), zones=4, stops=[7, 30], made=RESTLESS)
    assert split.results == moving_oracle(case)


def _run(runner: Runner, case, every: int) -> None:
    for first in range(0, case.items.num_rows, every):
        runner.batch(case.items.slice(first, every), case.controls() if first == 0 else ())


def _splits(state: State) -> Sequence[list[float]]:
    held = state.get("splits")
    return [] if held is None else held["table"].tolist()


def test_a_hot_zone_is_divided_and_all_zones_know() -> None:
    case = crowd(5, PLANE)  # 9 regions over 4 zones: one has three of them
    runner = Runner(case.stream, MovingFamily(Patience(batches=4, hot=1.1, least=20)), 4)
    _run(runner, case, 40)
    runner.settle()
    tables = [_splits(state) for (_, stage, _), state in sorted(runner.states.items()) if stage in (1, 2)]
    assert len(tables) == 8
    assert 0 < len(tables[0]) <= 10
    assert all(table == tables[0] for table in tables)


def test_divided_work_evens_out() -> None:
    """All objects are in one of nine regions; they end up in all four zones."""
    corner = replace(PLANE, bounds=((0, 1000), (0, 1000)))
    case = crowd(6, corner)
    runner = Runner(case.stream, MovingFamily(Patience(batches=3, hot=1.5, least=20)), 4)
    _run(runner, case, 30)
    held = [
        sum(len((state.get(key) or {})["who"]) for key in state.keys("objects/"))
        for (_, stage, _), state in sorted(runner.states.items())
        if stage == 2
    ]
    assert sum(held) == 60
    assert min(held) >= 5


def test_somebody_asks_for_it() -> None:
    """The default patience would not divide so little work."""
    case = crowd(9, PLANE)
    runner = Runner(replace(PLANE, bounds=((0, 1000), (0, 1000))), MovingFamily(), 4)
    runner.batch(case.items.slice(0, 300), case.controls())
    assert not any("split" in note for note in runner.notes)
    runner.batch(case.items.slice(300, 300), [Rebalance()])
    runner.batch(case.items.slice(600, 300))
    assert sum("split" in note for note in runner.notes) == 1
