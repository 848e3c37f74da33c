"""What stages take is measured where Spark runs them, and reaches the manifest; here without Spark itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.chain.control import control_packets
from anabranch.chain.packets import ORDER, Kind, Packet
from anabranch.chain.stages import CONTROL, MOST_DEPTHS, ROUTE, Chains
from anabranch.families.registry import family
from anabranch.language.bind import compile_query
from anabranch.spark.deliver import Task
from anabranch.spark.rows import columns_of, frame, record_batch
from anabranch.spark.stages import StageRunner
from tests.language.streams import stream
from tests.laws.case import Asked, Case

STREAM = stream("s", "t:float x:float y:float", time="t", position=("x", "y"))


class Store:
    """A state variable of Spark: a value, or a map."""

    def __init__(self) -> None:
        self.value: Any = None
        self.map: dict[Any, Any] = {}
        self.get = lambda: self.value
        self.getValue = self.map.__getitem__
        self.updateValue = self.map.__setitem__
        self.removeKey = self.map.pop

    def update(self, value: Any) -> None:
        self.value = value


def test_what_stages_take_reaches_the_manifest(tmp_path: Path) -> None:
    items = pa.record_batch({name: [float(n) for n in range(100)] for name in "txy"})
    asked = Asked("hot", compile_query("SELECT x FROM s WHERE x >= 50", {"s": STREAM}).spec.to_json())
    packets = control_packets(Case(STREAM, items, (asked,), "filters").controls())
    inbox = [((CONTROL, 0, count), packet) for count, packet in enumerate(packets)]
    inbox.append(((ROUTE, 0, 0), Packet(ORDER, 0, Kind.ITEMS, items, {"source": [0]})))
    chains = Chains(STREAM, [family("filters")], 1)
    runner = StageRunner("q", chains, range(MOST_DEPTHS + 1), 1, None, Store(), Store())
    (out,) = runner.rows(0, iter([frame(columns_of(inbox, 1))]))
    rows = record_batch({name: out[name].tolist() for name in out.columns})
    reports = list(Task(str(tmp_path), "s", "s", None)._written(iter([rows]), "batch"))
    (work,) = [value["work"] for kind, _, value in reports if kind == "note" and "work" in value]
    taken = {(by, stage): numbers for by, stage, *numbers in work}
    assert {by for by, _ in taken} == {"", "filters"}
    rows_in, bytes_in, rows_out, cpu_us = taken["filters", "share"]
    assert rows_in >= 100
    assert bytes_in >= 100 * 24
    assert rows_out == 50
    assert cpu_us > 0
