"""Order: items in stream order, late told from timely, queries begun and ended between two items.

Timelines read left to right; `|` cuts batches.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.chain import control
from anabranch.chain.items import LEAP, numbers_of, times_of
from anabranch.chain.order import CHUNK_BYTES, LINGER, Order
from anabranch.chain.packets import DELIVER, ORDER, Kind, Packet
from anabranch.chain.runner import Runner
from anabranch.chain.stages import Broadcast, ByZone, Chain, Chains, Slices, Stage
from anabranch.chain.state import State
from anabranch.families.base import Family, Table
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Cancel, Control, End, Rebalance
from anabranch.model.stream import Stream

Seen = list[tuple[str, object]]


class Recorder(Stage):
    """Writes down what it is given, as notes."""

    name = "recorder"
    zones = 1

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        seen: Seen = []
        for packet in packets:
            if packet.kind is Kind.ITEMS:
                times = times_of(packet.rows, self.stream).tolist() if self.stream.time else None
                seen.append(("items", [numbers_of(packet.rows).tolist(), times]))
            elif packet.kind is Kind.ACTIVATE:
                seen += [("begin", [q.number, q.first_item, q.activate]) for q in control.activated(packet)]
            elif packet.kind is Kind.CANCEL:
                seen += [("end", [q.number, q.cancel]) for q in control.cancelled(packet)]
            elif packet.kind is Kind.PROGRESS:
                seen.append(("progress", packet.facts["time"]))
        return [Packet(DELIVER, 0, Kind.NOTE, facts={"seen": seen})]


class Recording(Family):
    name = "recording"
    kinds = ()
    tables = (Table("none"),)

    def chain(self, stream: Stream, zones: int) -> Chain:
        return Chain((Recorder(stream),), Broadcast(1))

    def shown(self, stream: Stream, spec: dict) -> tuple:
        raise NotImplementedError


def stream(lateness: int = 0, time: str | None = "t") -> Stream:
    return Stream("s", (Column("t", ColumnType.INT),), time=time, lateness=lateness)


#: A query that runs all the time: a family without one would get no items.
ALWAYS = Activate(99, "always", {})


def run(of: Stream, *batches: tuple[list[int], list[Control]], always: bool = True) -> tuple[Seen, Runner]:
    runner = Runner(of, Recording())
    if always:
        runner.batch(control=[ALWAYS])
        runner.notes = []
    for times, controls in batches:
        runner.batch(pa.record_batch({"t": pa.array(times, pa.int64())}), controls)
    return [entry for note in runner.notes for entry in note["seen"]], runner


def test_without_lateness_items_leave_at_once_and_older_ones_are_late() -> None:
    seen, runner = run(stream(), ([1, 3, 2, 3], []), ([2, 5], []))
    assert seen == [
        ("items", [[0, 1, 2], [1, 3, 3]]),
        ("progress", 3),
        ("items", [[3], [5]]),
        ("progress", 5),
    ]
    assert runner.books == {
        "rows_in": 6, "processed": 4, "late": 2, "rejected": 0, "waiting": 0,
        "number": 4, "time": 5, "last": 5, "origin": 1, "ended": False, "version": 0,
    }  # fmt: skip
    assert [row["content"] for rows in runner.dead for row in rows.to_pylist()] == ['{"t": 2}', '{"t": 2}']


def test_with_lateness_items_wait_for_older_ones() -> None:
    # greatest seen      10  14  14  15  15
    # least allowed       7  11  11  12  12
    seen, runner = run(stream(3), ([10, 14, 11, 15, 9], []), ([], [End()]))
    assert seen == [
        ("items", [[0, 1], [10, 11]]),
        ("progress", 12),
        ("items", [[2, 3], [14, 15]]),
        ("progress", 15),
    ]
    assert runner.books["late"] == 1
    assert runner.books["ended"]


def test_equal_times_keep_source_order() -> None:
    seen, _ = run(stream(1), ([5, 5, 6, 5, 5], []), ([], [End()]))
    assert [entry for entry in seen if entry[0] == "items"] == [
        ("items", [[0, 1, 2, 3], [5, 5, 5, 5]]),
        ("items", [[4], [6]]),
    ]


def test_queries_without_a_time_begin_before_the_batch() -> None:
    seen, _ = run(stream(), ([1, 2], []), ([3], [Activate(7, "q", {})]), ([4], [Cancel(7)]))
    assert [entry for entry in seen if entry[0] != "progress"] == [
        ("items", [[0, 1], [1, 2]]),
        ("begin", [7, 2, 2]),
        ("items", [[2], [3]]),
        ("end", [7, 3]),
        ("items", [[3], [4]]),
    ]


def test_queries_with_times_cut_the_items() -> None:
    seen, _ = run(stream(), ([8, 10, 12, 20, 21], [Activate(0, "q", {}, 10), Cancel(0, 20)]))
    assert seen[:-1] == [
        ("items", [[0, 1], [8, 10]]),
        ("begin", [0, 2, 10]),
        ("items", [[2, 3], [12, 20]]),
        ("end", [0, 20]),
        ("items", [[4], [21]]),
    ]


def test_a_family_without_queries_gets_nothing() -> None:
    seen, runner = run(
        stream(),
        ([1, 2], []),
        ([3, 4], [Activate(7, "q", {}, 3), Cancel(7, 5)]),
        ([5, 6], []),
        *(([time], []) for time in range(7, 12)),
        always=False,
    )
    assert seen == [
        ("begin", [7, 3, 3]),
        ("items", [[3], [4]]),
        ("progress", 4),
        ("items", [[4], [5]]),
        ("end", [7, 5]),
        *(("progress", time) for time in range(6, 6 + 1 + LINGER)),
    ]
    assert runner.books["processed"] == 11


def test_only_families_with_queries_share_their_work_again() -> None:
    order, state = Runner(stream(), Recording()).stage(0), State()
    rebalance = control.control_packets([Rebalance()])
    assert not [packet for packet in order.step(0, state, rebalance) if packet.stage == 1]
    sent = order.step(0, state, [*control.control_packets([ALWAYS]), *rebalance])
    assert [packet.kind for packet in sent if packet.stage == 1] == [
        Kind.ACTIVATE,
        Kind.REBALANCE,
        Kind.PROGRESS,
    ]


def test_control_of_a_version_is_taken_once() -> None:
    order, state = Runner(stream(), Recording()).stage(0), State()
    first = control.control_packets([Activate(7, "q", {})], version=3)
    assert any(packet.kind is Kind.ACTIVATE for packet in order.step(0, state, first))
    assert order.step(0, state, first) == []
    later = order.step(0, state, control.control_packets([Cancel(7)], version=4))
    assert any(packet.kind is Kind.CANCEL for packet in later)


@pytest.mark.parametrize("cancel", [None, 5, 10])
def test_a_query_cancelled_before_it_begins_never_does(cancel: int | None) -> None:
    seen, _ = run(stream(), ([1], [Activate(0, "q", {}, 10)]), ([2], [Cancel(0, cancel)]), ([30], []))
    assert not [entry for entry in seen if entry[0] in ("begin", "end")]


def test_an_end_can_be_moved_forward() -> None:
    seen, _ = run(stream(), ([1], [Activate(0, "q", {}), Cancel(0, 100)]), ([2], [Cancel(0)]), ([300], []))
    assert [entry for entry in seen if entry[0] == "end"] == [("end", [0, 1])]


def test_without_time_items_are_in_source_order() -> None:
    seen, _ = run(stream(time=None), ([3, 1, 2], []), ([0], []))
    assert seen == [
        ("items", [[0, 1, 2], None]),
        ("progress", None),
        ("items", [[3], None]),
        ("progress", None),
    ]


def test_packets_are_sorted_by_their_place_in_the_source() -> None:
    runner = Runner(stream(), Recording())
    order = runner.stage(0)
    packets = [
        Packet(0, 0, Kind.ITEMS, pa.record_batch({"t": pa.array(times, pa.int64())}), {"source": source})
        for times, source in (([5, 6], [1, "b", 0]), ([1, 2], [1, "a", 0]), ([3, 4], [1, "a", 100]))
    ]
    sent = order.step(0, State(), [*control.control_packets([ALWAYS]), *packets])
    assert [times_of(p.rows, runner.stream).tolist() for p in sent if p.kind is Kind.ITEMS] == [
        [1, 2],
        [3, 4],
        [5, 6],
    ]


def test_rows_with_an_order_of_their_own_are_merged() -> None:
    runner = Runner(stream(), Recording())
    packets = [
        Packet(
            0,
            0,
            Kind.ITEMS,
            pa.record_batch({"t": pa.array(times, pa.int64()), "#order": pa.array(times, pa.int64())}),
            {"source": [n]},
        )
        for n, times in enumerate([[1, 4, 6], [2, 3, 7]])
    ]
    sent = runner.stage(0).step(0, State(), [*control.control_packets([ALWAYS]), *packets])
    assert [times_of(p.rows, runner.stream).tolist() for p in sent if p.kind is Kind.ITEMS] == [
        [1, 2, 3, 4, 6, 7]
    ]


def test_spreads() -> None:
    rows = pa.record_batch({"#": pa.array(range(5), pa.int64())})
    assert [(zone, numbers_of(part).tolist()) for zone, part in Slices(2, least=1).deal(rows)] == [
        (0, [0, 1, 2]),
        (1, [3, 4]),
    ]
    assert [(zone, part.num_rows) for zone, part in Slices(2, least=100).deal(rows)] == [(0, 5)]
    assert [zone for zone, _ in Broadcast(3).deal(rows)] == [0, 1, 2]
    by_zone = ByZone(lambda part: numbers_of(part) % 2)
    assert [(zone, numbers_of(part).tolist()) for zone, part in by_zone.deal(rows)] == [
        (0, [0, 2, 4]),
        (1, [1, 3]),
    ]


def test_a_batch_writes_what_it_brings_however_much_waits() -> None:
    """Items that wait are in chunks that never change, of at most about a megabyte each."""
    chains = Chains(stream(lateness=1_000_000), [], 1)
    order, state = Order(chains), State()
    written = []
    for batch in range(4):
        times = pa.array(np.arange(200_000, dtype=np.int64) + batch)
        items = Packet(ORDER, 0, Kind.ITEMS, pa.record_batch({"t": times}), {"source": [batch]})
        order.step(0, state, [items])
        changed, _ = state.take_changes()
        sizes = [len(body) for key, body in changed if key.startswith("waiting/")]
        assert max(sizes) < 1.1 * CHUNK_BYTES
        written.append(sum(sizes))
    assert max(written) < 1.1 * min(written)
    order.step(0, state, [Packet(ORDER, 0, Kind.END)])
    assert not state.keys("waiting/")
    assert order.step(0, state, [Packet(ORDER, 0, Kind.END)])[-1].facts["processed"] == 800_000


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=4),
    st.integers(1, 25),
    st.integers(0, 9),
)
def test_items_that_leap_are_rejected(batches: list[list[int]], step: int, lateness: int) -> None:
    """Compared with the greatest time before them, without those that leapt."""
    _, runner = run(replace(stream(lateness), max_step=step), *((times, []) for times in batches))
    seen, leaping, late = None, [], 0
    for time in (time for times in batches for time in times):
        if seen is not None and time > seen + step:
            leaping.append(time)
        else:
            seen = time if seen is None else max(seen, time)
            late += time < seen - lateness
    letters = [row for rows in runner.dead for row in rows.to_pylist()]
    assert [json.loads(row["content"])["t"] for row in letters if row["reason"] == LEAP] == leaping
    assert (runner.books["rejected"], runner.books["late"]) == (len(leaping), late)


def test_a_time_beyond_all_numbers_leaps() -> None:
    _, runner = run(replace(stream(), max_step=10), ([1, 2**63 - 1, 2], []), ([2**63 - 5, 5], []))
    assert (runner.books["processed"], runner.books["rejected"]) == (3, 2)
