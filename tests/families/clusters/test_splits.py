"""Groups that are split over zones while the stream runs: nothing that comes out changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings

from anabranch.chain.balance import Division, Patience
from anabranch.chain.runner import Runner
from anabranch.chain.state import State
from anabranch.families.clusters import neighbourhood
from anabranch.families.clusters.cluster_group import ClusterGroup
from anabranch.families.clusters.family import ClustersFamily
from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.model.control_log import Activate, Cancel, Rebalance
from anabranch.model.window import Window
from tests.drawn import examples
from tests.families.clusters.runs import PLANE, crowd
from tests.families.splits_runs import disturbed
from tests.laws.case import Case, run_local
from tests.laws.draw_clusters import CUSTOMER

#: Divides the zone with the most work after every batch.
RESTLESS = ClustersFamily(Patience(batches=1, hot=0.0, least=1))


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits also where both sides need all points."""
    monkeypatch.setattr(neighbourhood, "WORTH", 1.0)


@settings(
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@disturbed(CUSTOMER.cases)
def test_splits_change_nothing(case: Case, cuts: list[int], zones: int, stops: list[int]) -> None:
    split = run_local(case, cuts=cuts, zones=zones, stops=stops, made=RESTLESS)
    assert split.results == CUSTOMER.oracle(case)


def _by_turns(told: dict[int, int], zones: int, splits: int, patience: Patience) -> Division | None:
    """Gives some of the work of a zone to another, whatever work they have."""
    drawn = sum(told.values())
    hot, away = drawn % zones, 1 + drawn // zones % (zones - 1)
    return Division(hot, (hot + away) % zones, 0.4)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_a_crowd_under_many_splits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    merges: list[int] = []
    merge = ClusterGroup.merge
    monkeypatch.setattr(
        ClusterGroup, "merge", lambda self, reports: merges.append(len(reports)) or merge(self, reports)
    )
    monkeypatch.setattr(neighbourhood, "division", _by_turns)
    case = crowd(seed)
    split = run_local(case, cuts=range(0, 1200, 37), zones=4, stops=[7, 20], made=RESTLESS)
    assert split.results == CUSTOMER.oracle(case)
    assert max(merges) >= 3
    assert len(merges) >= 10


def _items(start: int, stop: int) -> pa.RecordBatch:
    random = np.random.default_rng(start)
    return pa.record_batch(
        {
            "t": np.arange(start, stop, dtype=np.float64),
            "a": random.normal(0, 3, stop - start),
            "b": random.normal(0, 1, stop - start),
        }
    )


def _heavy(number: int = 0, emit: Emit = Emit.CHANGES) -> Activate:
    spec = Clusters(0.1, 3, ("a", "b"), Window("rows", 2000, 250), emit=emit)
    return Activate(number, f"q{number}", spec.to_json())


def _points(state: State) -> int:
    """How many points a part owns or needs; not those that it only counts."""
    (group,) = state.cached("groups", state.keys(), dict).values()
    return group.structure.live


def _zones(runner: Runner) -> list[State]:
    return [state for (_, depth, _), state in sorted(runner.states.items()) if depth == 1]


def test_one_heavy_group_is_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhood, "WORTH", 0.9)
    runner, whole = (Runner(PLANE, made, zones) for made, zones in _FAMILIES)
    for start in range(0, 20_000, 500):
        for each in (runner, whole):
            each.batch(_items(start, start + 500), [_heavy()] if start == 0 else ())
    runner.settle()
    points = [_points(state) for state in _zones(runner)]
    assert len(points) == 3
    assert min(points) > 100  # the home, which merges as well, has fewer than the others
    assert max(points) < 1400
    assert _rows(runner) == _rows(whole)


_FAMILIES = [(ClustersFamily(Patience(batches=3, hot=1.2, least=200)), 3), (ClustersFamily(), 1)]


def _rows(runner: Runner) -> list[dict]:
    return [row for rows in runner.tables["changes"].values() for each in rows for row in each.to_pylist()]


def test_rebalance_splits_at_once() -> None:
    """The default patience would not divide so little work, and zones do not even report it."""
    runner = Runner(PLANE, ClustersFamily(), 4)
    runner.batch(_items(0, 2500), [_heavy()])
    for start in range(2500, 7500, 500):
        runner.batch(_items(start, start + 500))
        assert not runner.back
    runner.batch(_items(7500, 8000), [Rebalance()])
    runner.settle()
    assert [note["split"]["to"] for note in runner.notes] == [1]


def test_ranges_that_reach_everywhere_are_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhood, "WORTH", 0.9)
    runner = Runner(PLANE, ClustersFamily(), 2)
    wide = Clusters(50.0, 3, ("a", "b"), Window("rows", 500, 250), emit=Emit.SUMMARY)
    runner.batch(_items(0, 1000), [Activate(0, "q", wide.to_json())])
    runner.batch(_items(1000, 1500), [Rebalance()])
    runner.settle()
    assert not runner.notes


def test_a_split_group_leaves_no_state() -> None:
    """Also where windows wait when its last query is cancelled and another query starts such a group."""
    runner, whole = Runner(PLANE, RESTLESS, 3), Runner(PLANE, ClustersFamily(), 1)
    for start in range(0, 6000, 500):
        control = [_heavy()] if start == 0 else ()
        if start == 5000:
            control = [Cancel(0), _heavy(1)]
        for each in (runner, whole):
            each.batch(_items(start, start + 500), control)
    assert any(note["split"]["to"] != 0 for note in runner.notes)
    for each in (runner, whole):
        each.batch(_items(6000, 9000))
        each.batch(None, [Cancel(1)])
    runner.settle()
    assert [state.keys() for state in _zones(runner)] == [[], [], []]
    assert _rows(runner) == _rows(whole)
