"""Control as packets for order: what the catalog's log, a job or a test asks of a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from anabranch.model.control import Activate, Cancel, Control, End, Rebalance
from anabranch.zones.packets import ORDER, Kind, Packet
from anabranch.zones.pending import ASKED_BEGIN, ASKED_CEASE


def control_packets(controls: Sequence[Control]) -> list[Packet]:
    """One packet a run of the same kind, in the order of the log."""
    packets: list[Packet] = []
    run: list[Control] = []
    for control in controls:
        if run and type(run[0]) is not type(control):
            packets.append(_packet(run))
            run = []
        run.append(control)
    return [*packets, _packet(run)] if run else packets


def _packet(run: list[Control]) -> Packet:
    begins = [control for control in run if isinstance(control, Activate)]
    if begins:
        columns = [
            pa.array([b.number for b in begins], pa.int64()),
            pa.array([b.name for b in begins], pa.string()),
            pa.array([json.dumps(b.spec) for b in begins], pa.string()),
            pa.array([json.dumps(b.after) for b in begins], pa.string()),
        ]
        return Packet(ORDER, 0, Kind.ACTIVATE, pa.record_batch(columns, schema=ASKED_BEGIN))
    ends = [control for control in run if isinstance(control, Cancel)]
    if ends:
        columns = [
            pa.array([e.number for e in ends], pa.int64()),
            pa.array([json.dumps(e.until) for e in ends], pa.string()),
        ]
        return Packet(ORDER, 0, Kind.CANCEL, pa.record_batch(columns, schema=ASKED_CEASE))
    if isinstance(run[0], Rebalance):
        return Packet(ORDER, 0, Kind.REBALANCE)
    assert all(isinstance(control, End) for control in run)
    return Packet(ORDER, 0, Kind.END)
