"""Queries that go from zone to zone while the stream runs: results do not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from anabranch.chain.balance import Patience
from anabranch.chain.runner import Runner
from anabranch.chain.state import State
from anabranch.families.nearest import home
from anabranch.families.nearest.family import NearestFamily
from anabranch.families.nearest.spec import Nearest
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Rebalance
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from tests.drawn import examples
from tests.families.splits_runs import by_turns, crowd_at, disturbed
from tests.laws.case import Asked, Case, run_local
from tests.laws.draw_nearest import CUSTOMER
from tests.oracles.nearest import nearest_oracle

#: Divides whoever has most to do, after every batch.
RESTLESS = NearestFamily(Patience(batches=1, hot=0.0, least=1))
STREAM = Stream(
    "s", tuple(Column(name, ColumnType.FLOAT) for name in ("t", "a", "b")), time="t", position=("a", "b")
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@disturbed(CUSTOMER.cases)
def test_splits_change_nothing(case: Case, cuts: list[int], zones: int, stops: list[int]) -> None:
    split = run_local(case, cuts=cuts, zones=zones, stops=stops, made=RESTLESS)
    expected = CUSTOMER.oracle(case)
    for name, rows in expected.items():
        assert CUSTOMER.canonical(split.results[name]) == CUSTOMER.canonical(rows)


def crowd(seed: int, items: int = 1500, queries: int = 40) -> Case:
    """Items that cluster and drift, now and then without a coordinate; windows by time and by rows."""
    random = np.random.default_rng(seed)
    middle = np.cumsum(random.normal(0, 0.05, (items, 2)), axis=0)
    position = middle + random.normal(0, 1, (items, 2)).round(1)
    return crowd_at(position, random, STREAM, "nearest", _asked, queries)


def _asked(random: np.random.Generator, number: int, end: float) -> Asked:
    kind, size = [("range", 20.0), ("rows", 150), ("range", 7.5), ("rows", 31)][number % 4]
    by = ("a", "b") if number % 3 else ("b",)
    point = tuple(random.normal(0, 1.5, len(by)).round(1).tolist())
    method = "RA" if number % 7 == 0 else "RAPF"
    spec = Nearest(int(random.integers(1, 6)), point, by, Window(kind, size, 1), method=method)
    activate, cancel = (float(random.uniform(0, end)) if random.random() < 0.3 else None for _ in range(2))
    return Asked(f"q{number}", spec.to_json(), activate, cancel)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_a_crowd_with_many_splits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "division", by_turns)
    case = crowd(seed)
    split = run_local(case, cuts=range(0, 1500, 37), zones=4, stops=[7, 30], made=RESTLESS)
    assert split.results == nearest_oracle(case)


def _queries(state: State) -> int:
    return sum(rows.num_rows for rows in (state.rows(key) for key in state.keys("queries/")) if rows)


def test_divided_work_evens_out() -> None:
    """All queries are near each other, so one zone has them all; in the end each has some."""
    case = crowd(4, queries=60)
    wide = replace(case.stream, bounds=((-10, 1000), (-10, 1000)))
    runner = Runner(wide, NearestFamily(Patience(batches=3, hot=1.5, least=20)), 4)
    for first in range(0, case.items.num_rows, 50):
        runner.batch(case.items.slice(first, 50), case.controls() if first == 0 else ())
    queries = [_queries(state) for (_, stage, _), state in sorted(runner.states.items()) if stage == 2]
    assert min(queries) >= 3
    assert any("split" in note for note in runner.notes)


def test_a_rebalance_that_is_requested() -> None:
    """The default patience would not divide so little work."""
    case = crowd(9, queries=60)
    wide = replace(case.stream, bounds=((-10, 1000), (-10, 1000)))
    runner = Runner(wide, NearestFamily(), 4)
    runner.batch(case.items.slice(0, 300), case.controls())
    assert not any("split" in note for note in runner.notes)
    runner.batch(case.items.slice(300, 300), [Rebalance()])
    runner.batch(case.items.slice(600, 300))
    assert sum("split" in note for note in runner.notes) == 1
