"""What a zone keeps: the points of the largest window and no more, and nothing for queries of other zones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.chain.runner import Runner
from anabranch.chain.state import State
from anabranch.families.clusters.cluster_group import PER_CHUNK
from anabranch.families.clusters.family import ClustersFamily
from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Cancel, End
from anabranch.model.stream import Stream
from anabranch.model.window import Window

STREAM = Stream("s", tuple(Column(name, ColumnType.FLOAT) for name in "txy"), time="t")


def _items(start: int, stop: int) -> pa.RecordBatch:
    rng = np.random.default_rng(start)
    return pa.record_batch(
        {
            "t": np.arange(start, stop, dtype=np.float64),
            "x": rng.random(stop - start),
            "y": rng.random(stop - start),
        }
    )


def _query(
    number: int, window: Window, by: tuple[str, ...] = ("x", "y"), emit: Emit = Emit.SUMMARY
) -> Activate:
    return Activate(number, f"q{number}", Clusters(0.05, 3, by, window, emit=emit).to_json())


def _zones(runner: Runner) -> list[State]:
    return [state for (_, depth, _), state in sorted(runner.states.items()) if depth == 1]


@pytest.mark.parametrize("emit", list(Emit))
def test_state_does_not_grow_with_the_stream(emit: Emit) -> None:
    runner = Runner(STREAM, ClustersFamily(), 1)
    runner.batch(_items(0, 1000), [_query(0, Window("rows", 3000, 500), emit=emit)])
    sizes = []
    for start in range(1000, 60_000, 1000):
        runner.batch(_items(start, start + 1000))
        sizes.append(_zones(runner)[0].nbytes)
    assert max(sizes[30:]) <= max(sizes[:30]) * 1.05
    assert max(sizes) < (3000 + 2 * PER_CHUNK) * 64


def test_a_batch_writes_the_chunks_that_changed() -> None:
    runner = Runner(STREAM, ClustersFamily(), 1)
    runner.batch(_items(0, 20_000), [_query(0, Window("rows", 18_000, 100))])
    state = _zones(runner)[0]
    list(state.take_changes()[0])
    runner.batch(_items(20_000, 20_010))
    written = [key.split("/")[2] for key, _ in state.take_changes()[0]]
    assert written == ["points", "queries"]


def test_points_between_windows_that_lie_apart_are_not_kept() -> None:
    runner = Runner(STREAM, ClustersFamily(), 1)
    runner.batch(_items(0, 500), [_query(0, Window("rows", 100, 100_000))])
    runner.batch(_items(500, 30_000))
    assert not [key for key in _zones(runner)[0].keys("g/") if "/points/" in key]
    wide = Clusters(0.5, 3, ("x", "y"), Window("rows", 50, 10), emit=Emit.SUMMARY)
    runner.batch(
        _items(30_000, 30_050), [Activate(1, "q1", wide.to_json())]
    )  # it needs the next points again
    (rows,) = runner.tables["summary"][2]
    assert (rows["cores"][0].as_py(), rows["noise"][0].as_py()) == (50, 0)


def test_each_group_is_in_a_zone_of_its_own_and_the_others_keep_numbers_only() -> None:
    runner = Runner(STREAM, ClustersFamily(), 4)
    window = Window("rows", 50, 10)
    queries = [_query(0, window), _query(1, window, ("x",)), _query(2, window, ("y",)), _query(3, window)]
    runner.batch(_items(0, 200), queries)
    owners = {
        key: zone
        for zone, state in enumerate(_zones(runner))
        for key in {k.split("/")[1] for k in state.keys("g/")}
    }
    assert len(owners) == 3
    assert len(set(owners.values())) == 3
    for zone, state in enumerate(_zones(runner)):
        if zone not in owners.values():
            assert state.keys("") == ["assigned", "work"]


def test_a_new_group_goes_to_the_zone_with_the_fewest_queries() -> None:
    """Two queries over (x, y), one over x: that over y goes to the zone of x, and stays when x is gone."""
    runner = Runner(STREAM, ClustersFamily(), 2)
    window = Window("rows", 50, 10)
    runner.batch(_items(0, 200), [_query(0, window), _query(1, window), _query(2, window, ("x",))])
    runner.batch(_items(200, 210), [_query(3, window, ("y",))])
    assert [len({key.split("/")[1] for key in state.keys("g/")}) for state in _zones(runner)] == [1, 2]
    runner.batch(_items(210, 220), [Cancel(2), Cancel(0), Cancel(1)])
    runner.batch(_items(220, 230), [_query(4, window), _query(5, window, ("y",))])
    assert [len({key.split("/")[1] for key in state.keys("g/")}) for state in _zones(runner)] == [1, 1]
    runner.batch(None, [Cancel(3), Cancel(4), Cancel(5)])
    assert [state.keys("") for state in _zones(runner)] == [[], []]


def test_the_state_of_a_group_is_dropped_with_its_last_query() -> None:
    runner = Runner(STREAM, ClustersFamily(), 1)
    window = Window("rows", 50, 10)
    runner.batch(
        _items(0, 200), [_query(0, window), _query(1, window, emit=Emit.CHANGES), _query(2, window, ("x",))]
    )
    runner.batch(_items(200, 250), [Cancel(1), Cancel(77)])
    assert not [key for key in _zones(runner)[0].keys("g/") if "/members/" in key]
    runner.batch(_items(250, 300), [Cancel(0)])
    assert len({key.split("/")[1] for key in _zones(runner)[0].keys("g/")}) == 1
    runner.batch(None, [Cancel(2)])
    assert not _zones(runner)[0].keys("")


def test_nothing_comes_after_the_end() -> None:
    runner = Runner(STREAM, ClustersFamily(), 1)
    runner.batch(_items(0, 200), [_query(0, Window("range", 50, 10))])
    runner.batch(None, [End()])
    tables = {batch: len(rows) for batch, rows in runner.tables["summary"].items()}
    runner.batch(_items(200, 300))
    assert {batch: len(rows) for batch, rows in runner.tables["summary"].items()} == tables
    assert _zones(runner)[0].keys("") == ["ended"]


def test_a_step_that_fails_leaves_nothing_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try begins from the chunks of state, not from arrays that the failed step changed."""
    expected, runner = (Runner(STREAM, ClustersFamily(), 1) for _ in range(2))
    query = _query(0, Window("rows", 300, 50), emit=Emit.CHANGES)
    for each in (expected, runner):
        each.batch(_items(0, 1000), [query])
    kept = runner.stopped()
    with monkeypatch.context() as patch:
        patch.setattr("anabranch.families.clusters.cluster_group.ClusterGroup.packets", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runner.batch(_items(1000, 1500))
    runner.states["", 0, 0] = State()
    for key, (token, body) in kept["states"]["", 0, 0].items():
        runner.states["", 0, 0].load(key, token, body)
    for each in (expected, runner):
        each.batch(_items(1000, 1500))
    last = max(expected.tables["changes"])
    assert pa.Table.from_batches(runner.tables["changes"][last]) == pa.Table.from_batches(
        expected.tables["changes"][last]
    )
