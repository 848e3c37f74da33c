"""The register of active queries: kept in chunks, so that one change among many writes little."""

from __future__ import annotations

import json

import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.state import State


def begin(*numbers: int) -> Packet:
    count = len(numbers)
    columns = [
        pa.array(numbers, pa.int64()),
        pa.array([f"q{n}" for n in numbers], pa.string()),
        pa.array([json.dumps({"n": n}) for n in numbers], pa.string()),
        pa.array(["null"] * count, pa.string()),
        pa.array([0] * count, pa.int64()),
        pa.array([""] * count, pa.string()),
    ]
    return Packet(1, 0, Kind.ACTIVATE, pa.record_batch(columns, schema=control.CONTROL))


def end(*numbers: int) -> Packet:
    count = len(numbers)
    columns = [
        pa.array(numbers, pa.int64()),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.string()),
        pa.array(["12.5"] * count, pa.string()),
        pa.array([9] * count, pa.int64()),
        pa.array([""] * count, pa.string()),
    ]
    return Packet(1, 0, Kind.CANCEL, pa.record_batch(columns, schema=control.CONTROL))


def test_queries_come_and_go() -> None:
    state = State()
    began, ended = control.apply(state, [begin(1, 2, 2500), end(2), begin(3)])
    assert [query.number for query in began] == [1, 2, 2500, 3]
    assert ended == [control.Cancelled(2, 12.5, 9)]
    assert list(control.queries(state)) == [1, 3, 2500]
    assert control.queries(state)[3] == control.Query(3, "q3", {"n": 3}, 0, None)


def test_one_change_writes_one_chunk() -> None:
    state = State()
    control.apply(state, [begin(*range(5000))])
    state.take_changes()
    control.apply(state, [end(4321)])
    changed, _ = state.take_changes()
    assert [key for key, _ in changed] == ["queries/00000004"]
    assert len(control.queries(state)) == 4999


def test_ending_what_never_began_is_nothing() -> None:
    state = State()
    control.apply(state, [begin(1), end(7), end(1)])
    assert control.queries(state) == {}
    assert state.keys() == []
