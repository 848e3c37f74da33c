"""A query that asks for too much is cancelled everywhere, with a reason, and nobody else notices."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from anabranch.chain import control
from anabranch.chain.budget import Budget, suspended
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.runner import Runner
from anabranch.chain.stages import Broadcast, Chain, Stage
from anabranch.chain.state import State
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Cancel, Control
from anabranch.model.stream import Stream

STREAM = Stream("s", (Column("a", ColumnType.INT),))
BUDGET = Budget(base=10, per_item=2)


class Greedy(Stage):
    """A query asks for `spec["asks"]` rows per item. The stage keeps a diary of which queries see which
    batches.
    """

    name = "greedy"

    def __init__(self, family: str, zones: int) -> None:
        self.family, self.zones = family, zones
        self.diary: list[tuple[int, list[str]]] = []

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        control.apply(state, packets)
        items = sum(packet.rows.num_rows for packet in packets if packet.kind is Kind.ITEMS)
        number = next(p.facts["number"] for p in packets if p.kind is Kind.PROGRESS) - items
        queries = control.queries(state).values()
        self.diary.append((zone, [query.name for query in queries]))
        out: list[Packet] = []
        for query in queries:
            asked = query.spec["asks"] * items
            if zone == 0 and BUDGET.exceeded(asked, items):
                out += suspended(self.family, query, number, BUDGET.reason("rows", asked, items))
        return out


class GreedyFamily:
    name = "greedy"

    def __init__(self) -> None:
        self.stage: Greedy | None = None

    def chain(self, stream: Stream, zones: int) -> Chain:
        self.stage = Greedy(self.name, zones)
        return Chain((self.stage,), Broadcast(zones))


class Other(GreedyFamily):
    name = "other"


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(range(count), pa.int64())})


def asks(number: int, much: int, family: str = "greedy") -> Activate:
    return Activate(number, f"q{number}", {"asks": much}, family=family)


def test_who_asks_for_too_much_is_cancelled_in_all_zones_before_the_next_batch() -> None:
    family, other = GreedyFamily(), Other()
    runner = Runner(STREAM, [family, other], zones=2)
    runner.batch(rows(3), [asks(0, 1), asks(1, 5), asks(2, 5, "other")])
    assert runner.notes == []
    runner.batch(rows(4), [])
    facts = {"suspended": "q1", "query": 1, "item": 3}
    reason = "it would give 20 rows for 4 items (limits: batch_work 10, item_work 2)"
    note, of_other = runner.notes
    assert note == {**facts, "reason": reason}
    assert of_other["suspended"] == "q2"
    letter = runner.dead[0].to_pylist()[0]
    assert letter["reason"] == f"subscription #1 was suspended at item 3: {reason}"
    assert json.loads(letter["content"]) == {
        "query": 1,
        "item": 3,
        "reason": reason,
    }  # no name: others read it
    runner.batch(rows(100), [])
    assert family.stage is not None
    assert family.stage.diary[-2:] == [(0, ["q0"]), (1, ["q0"])]
    assert len(runner.notes) == 2
    assert runner.books["rejected"] == 0


@pytest.mark.parametrize("later", [[Cancel(1)], []])
def test_who_is_cancelled_in_the_same_batch_is_not_cancelled_again(later: list[Control]) -> None:
    family = GreedyFamily()
    runner = Runner(STREAM, [family])
    runner.batch(rows(1), [asks(0, 1), asks(1, 100)])
    runner.batch(rows(1), later)
    runner.batch(rows(1), [Cancel(1, family="greedy")])
    assert family.stage is not None
    assert family.stage.diary[1:] == [(0, ["q0"]), (0, ["q0"])]


def test_it_stays_suspended_after_a_stop() -> None:
    runner = Runner(STREAM, GreedyFamily())
    runner.batch(rows(1), [asks(0, 100)])
    family = GreedyFamily()
    resumed = Runner(STREAM, family)
    resumed.resume(runner.stopped())
    resumed.batch(rows(1), [])
    resumed.batch(rows(1), [])
    assert resumed.notes == []
