"""Flows: pieces keep the place of their items, come in any order, and count once."""

from __future__ import annotations

from dataclasses import asdict
from itertools import permutations

import pyarrow as pa
import pytest

from anabranch.chain.flows import FLOW, PieceFacts, facts_in_bytes, piece_bytes, piece_of
from anabranch.chain.packets import ORDER, Kind, Packet
from anabranch.chain.runner import Runner
from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Output, Select
from anabranch.families.registry import family
from anabranch.families.results import rows_of
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate
from anabranch.model.stream import Stream
from anabranch.model.window import Window

STREAM = Stream("s-1", (Column("t", ColumnType.INT),), time="t", flow=True)
COUNT = Aggregate((Aggregation(Function.COUNT, None, "n"),), Window("range", 10, 10)).to_json()
SELECT = Select((Output("t", "t"),)).to_json()


def piece(
    sequence: int, numbers: list[int], times: list[int], number: int, last: int, **more: object
) -> Packet:
    """A piece of a stream that began at time 3."""
    facts = PieceFacts(sequence, sequence, 0, None, number, last, last, 3, False)
    rows = pa.record_batch({"#": pa.array(numbers, pa.int64()), "t": pa.array(times, pa.int64())})
    return Packet(ORDER, 0, Kind.ITEMS, rows, {FLOW: asdict(facts) | more})


PIECES = [
    piece(0, [2], [5], 4, 8),
    piece(1, [], [], 9, 30),
    piece(2, [9, 11], [31, 34], 12, 34),
    piece(3, [], [], 12, 34, ended=True),
]


def results(runner: Runner, name: str, spec: dict[str, object]) -> list[dict[str, object]]:
    table, shown = family("filters").shown(STREAM, spec)
    batches = runner.tables[table].values()
    return [
        row
        for rows in batches
        for row in rows_of(rows, family("filters").table(table), name, shown).to_pylist()
    ]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_pieces_come_in_any_order_and_count_once(order: tuple[int, ...]) -> None:
    runner = Runner(STREAM, family("filters"))
    runner.batch(control=[Activate(0, "n", COUNT), Activate(1, "all", SELECT)])
    for sequence in order:
        runner.batch(pieces=[PIECES[sequence], PIECES[sequence]])
    runner.batch(pieces=[PIECES[0]])
    assert [row["t"] for row in results(runner, "all", SELECT)] == [5, 31, 34]
    assert runner.books["processed"] == 3
    assert runner.books["number"] == 12
    assert runner.books["ended"]


def test_windows_close_where_they_would_at_the_source() -> None:
    """They are counted from the first item of the registered stream, and close when that has gone on."""
    runner = Runner(STREAM, family("filters"))
    runner.batch(control=[Activate(0, "n", COUNT)], pieces=[PIECES[0]])
    assert results(runner, "n", COUNT) == []
    runner.batch(pieces=[PIECES[1]])
    assert results(runner, "n", COUNT) == [{"window_start": 3, "window_end": 13, "items": 1, "n": 1}]
    runner.batch(pieces=PIECES[2:])
    ends = [row["window_end"] for row in results(runner, "n", COUNT)]
    assert ends == [13, 33, 43]


def test_a_query_is_activated_where_the_registered_stream_has_its_time() -> None:
    """Time 20 passes without an item in the flow: the first window that begins after it is [23, 33)."""
    runner = Runner(STREAM, family("filters"))
    runner.batch(control=[Activate(0, "n", COUNT, time=20)])
    for each in PIECES:
        runner.batch(pieces=[each])
    starts = [row["window_start"] for row in results(runner, "n", COUNT)]
    assert starts == [23, 33]


def test_a_query_waits_for_the_beginning_of_its_flow() -> None:
    """A flow that was begun while the stream ran: windows begin after the item before it."""
    runner = Runner(STREAM, family("filters"))
    runner.batch(control=[Activate(0, "n", COUNT)])
    begun = {"first": 9, "begin": 30}
    for each in (piece(0, [], [], 9, 30, **begun), piece(1, [9, 11], [31, 34], 12, 34, ended=True, **begun)):
        runner.batch(pieces=[each])
    assert [row["window_start"] for row in results(runner, "n", COUNT)] == [33]


def test_a_piece_travels_as_bytes() -> None:
    body = piece_bytes(PIECES[2])
    assert piece_of(body).rows.equals(PIECES[2].rows)
    assert facts_in_bytes(body).number == 12
