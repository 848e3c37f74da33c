"""select: one row per item, for all who get it; and what its table looks like on the way."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.chain.packets import DELIVER, Kind, Packet, decode, encode
from anabranch.families.filters import share
from anabranch.model.control_log import Cancel
from anabranch.predicates.terms import Constant, Op
from tests.families.filters.runs import Run, items, select

NEGATIVE, ALL = Constant("a", Op.LT, 0.0), Constant("a", Op.LE, 100.0)


def _table(run: Run) -> list[pa.RecordBatch]:
    return [rows for batch in run.runner.tables["select"].values() for rows in batch]


def test_an_item_for_many_subscriptions_is_one_row() -> None:
    run = Run()
    run.batch(items([1, 2, 3], a=[-1.0, 1.0, None]), run.activate(low=select(NEGATIVE), all=select(ALL)))
    (rows,) = _table(run)
    assert rows.column("#").to_pylist() == [0, 1]
    assert [set(names) for names in rows.column("subscriptions").to_pylist()] == [{"low", "all"}, {"all"}]
    assert run.results("low") == [{"t": 1}]


def test_it_has_the_columns_that_anyone_chose() -> None:
    run = Run()
    run.batch(None, run.activate(x=select(ALL, ["t"]), y=select(ALL, ["n", "t"])))
    run.batch(items([1], a=[1.0]))
    assert _table(run)[-1].schema.names == ["#", "subscriptions", "t", "n"]
    run.batch(items([2], a=[1.0]), [Cancel(1)])
    assert _table(run)[-1].schema.names == ["#", "subscriptions", "t"]


def test_it_survives_packets_and_parquet() -> None:
    run = Run()
    run.batch(items([1, 2], a=[-1.0, 1.0]), run.activate(low=select(NEGATIVE), all=select(ALL)))
    (rows,) = _table(run)
    assert decode(encode(Packet(DELIVER, 0, Kind.RESULT, rows)), DELIVER, 0).rows.equals(rows)
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([rows]), file)
    assert pq.read_table(file).to_pylist() == rows.to_pylist()


def test_a_packet_names_only_the_subscriptions_that_occur_in_it() -> None:
    run = Run()
    many = {f"q{n}": select(Constant("n", Op.EQ, n)) for n in range(50)}
    run.batch(items([1, 2], n=[7, 7]), run.activate(**many))
    names = _table(run)[0].column("subscriptions").flatten().dictionary
    assert names.to_pylist() == ["q7"]


def test_queries_come_and_go_between_two_items() -> None:
    """activate = 2, cancel = 4 in one batch, without a cut:   1 2 | 3 4 | 5"""
    run = Run(zones=3)
    control = [*run.activate(q=select(ALL), activate_time=2), Cancel(0, 4)]
    run.batch(items([1, 2, 3, 4, 5], a=[0.0] * 5), control)
    assert run.results("q") == [{"t": 3}, {"t": 4}]


def test_one_more_query_changes_the_forest_that_is_there() -> None:
    run = Run()
    run.batch(items([1], n=[1]), run.activate(**{f"q{n}": select(Constant("n", Op.EQ, n)) for n in range(5)}))
    state = run.runner.state(1, 0)
    cached = state._cache["shared queries"][1]
    run.batch(items([2], n=[9]), run.activate(more=select(Constant("n", Op.EQ, 9))))
    assert state._cache["shared queries"][1] is cached
    run.batch(items([3], n=[9]), [Cancel(5)])
    assert state._cache["shared queries"][1] is cached
    assert run.results("more") == [{"t": 2}]


def test_cancelling_a_query_that_was_never_activated_does_nothing() -> None:
    run = Run()
    run.batch(items([1], a=[1.0]), [*run.activate(q=select(ALL)), Cancel(17)])
    assert run.results("q") == [{"t": 1}]


def test_many_pairs_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are counted in 32 bits: more pairs than that are cut, and nothing else changes."""
    rows = items(range(10), a=[float(index) for index in range(10)])
    specs = {f"q{index}": select(Constant("a", Op.GE, float(index))) for index in range(5)}
    whole, cut = Run(), Run()
    whole.batch(rows, whole.activate(**specs))
    monkeypatch.setattr(share, "MOST_PAIRS", 7)
    cut.batch(rows, cut.activate(**specs))
    assert len(cut.runner.tables["select"][0]) > 1
    assert all(cut.results(name) == whole.results(name) for name in specs)
    assert len(whole.results("q4")) == 6
