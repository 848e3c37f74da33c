"""What is said of a job that failed: from traces as Spark gives them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from anabranch.chain.control import control_packets
from anabranch.chain.order import Order
from anabranch.chain.packets import ORDER, Kind, Packet
from anabranch.chain.stages import CONTROL, ROUTE, WHERE, Chains, Inbox, Stage, in_order, run_stages
from anabranch.chain.state import State
from anabranch.families.registry import family
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate
from anabranch.model.errors import RunError, SubscriptionError
from anabranch.model.stream import Stream
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.spark.engine import Engine
from anabranch.spark.failures import TOO_SLOW, failure_of, reason
from anabranch.spark.without import Without, set_without, without_packets

WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted SQLSTATE: XXKST
org.apache.spark.api.python.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "rendezvous.py", line 7, in step

OverflowError: Python int too large to convert to C long
{note}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:581)
Caused by: org.apache.spark.api.python.PythonException: An exception was thrown from the Python worker:
"""


def note(**facts: object) -> str:
    return WHERE + json.dumps({"family": "nearest", "stage": "rendezvous", "zone": 3, **facts})


def test_the_cause_and_where_it_was() -> None:
    failure = failure_of(WORKER.format(note=note(begins=["absurd"])))
    assert failure.cause == "OverflowError: Python int too large to convert to C long"
    assert failure.where == (
        "stage rendezvous of nearest, zone 3, in the batch in which subscription 'absurd' begins"
    )
    assert failure.suspects == ("absurd",)
    assert failure_of(WORKER.format(note=note(begins=["a", "b"]))).suspects == ()
    assert failure_of(WORKER.format(note=note(begins=["a", "b"], names=["b"]))).suspects == ("b",)
    assert "PythonException" not in reason(WORKER.format(note=""))


def test_a_damaged_checkpoint_is_named() -> None:
    text = (
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. Caused by: "
        "java.io.FileNotFoundException: "
        "File file:/d/out/_anabranch/checkpoints/s/state/0/0/7.changelog is not there"
    )
    said = reason(text)
    assert "checkpoint is damaged: /d/out/_anabranch/checkpoints/s/state/0/0/7.changelog" in said
    assert "Restore the whole folder" in said


def test_a_repeated_batch_runs_without_a_subscription(tmp_path: Path) -> None:
    """Whether it begins in that batch, waits for its time, or has been running."""
    layout = Layout(tmp_path)
    set_without(layout, "s", [Without(1, "filters", "a", 4)])
    assert without_packets(str(tmp_path), "s", 3) == without_packets(str(tmp_path), "t", 4) == []
    cancelled = without_packets(str(tmp_path), "s", 4)
    stream = Stream("s", (Column("t", ColumnType.INT),), time="t")
    chains = Chains(stream, [family("filters")], 1)

    def activate(time: int | None) -> Inbox:
        packets = control_packets([Activate(1, "a", {}, time, "filters")], version=7)
        return [((CONTROL, 7, count), packet) for count, packet in enumerate(packets)]

    items = pa.record_batch({"t": pa.array([1, 2, 3], pa.int64())})
    rows = [((ROUTE, 0, 0), Packet(ORDER, 0, Kind.ITEMS, items, {"source": [0]}))]
    for before, now in (([], activate(None)), ([], activate(2)), (activate(None), []), (activate(2), [])):
        state = State()
        order = Order(chains)
        if before:
            order.step(0, state, in_order(before))
        sent = order.step(0, state, in_order([*rows, *cancelled, *now]))
        assert not [packet for packet in sent if packet.kind in (Kind.ITEMS, Kind.ACTIVATE)]
        assert not any(len(numbers) for numbers in (state.get("active") or {}).values())
        sent = order.step(0, state, in_order([((ROUTE, 0, 0), replace(rows[0][1], rows=items))]))
        assert not [packet for packet in sent if packet.kind is Kind.ITEMS]


def test_slow_processes_are_tried_again_until_they_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Engine.__new__(Engine)
    engine.layout, engine._retries = Layout(tmp_path), {}
    engine.deliveries = Deliveries(engine.layout)
    error = PySparkException(f"Cannot start: {TOO_SLOW}.")
    for _ in range(20):
        engine._recover("s", error)
    assert engine._retries["s"].count == 20
    said = [line for line in capsys.readouterr().err.splitlines() if "starts again in" in line]
    assert [line.split()[-2] for line in said[:8]] == ["1", "2", "4", "8", "16", "32", "60", "60"]
    engine.deliveries.commit("s", Manifest(0))
    engine._recover("s", error)
    assert "starts again in 1 s" in capsys.readouterr().err
    with pytest.raises(RunError, match=r"stream s, batch 1 failed: ValueError: no"):
        engine._recover("s", PySparkException("Traceback (most recent call last):\n  x\nValueError: no\n"))


class Failing(Stage):
    name, zones = "share", 1

    def __init__(self, error: Exception) -> None:
        self.error = error

    def step(self, zone: int, state: State, packets: list[Packet]) -> list[Packet]:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("no"), SubscriptionError("no", ["x"])])
def test_stages_say_where_they_failed(error: Exception) -> None:
    (packet,) = control_packets([Activate(1, "a", {}), Activate(2, "b", {})])
    packet = Packet(1, 0, Kind.ACTIVATE, packet.rows, family="filters")
    inboxes = {("filters", 1, 0): [((0, 0, 0), packet)]}
    with pytest.raises(type(error)) as caught:
        run_stages(lambda family, depth: Failing(error), [1], inboxes, lambda address: State())
    facts = json.loads(caught.value.__notes__[0].removeprefix(WHERE))
    assert (facts["family"], facts["stage"], facts["begins"]) == ("filters", "share", ["a", "b"])
    assert facts["names"] == list(getattr(error, "subscriptions", []))
    assert pa.types.is_int64(packet.rows.column("number").type)
