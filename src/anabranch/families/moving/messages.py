"""What the stages of moving say to each other: PARTIAL packets, told apart by the fact `what`.

| what      | from, to                 | rows                                                          |
|-----------|--------------------------|---------------------------------------------------------------|
| names     | home to region, assemble | who, name: an object that was not known before                |
| moves     | home to region           | tick, who, x, y, number, gone, leaves, t0, t1, ...            |
| search    | region to all homes      | bits: the cells that its nearest queries search (rasters.py); facts |
|           |                          | `box`, `late`: those of the last batch, too                   |
| records   | home to region           | who, x, y, number, gone, t0, ...: objects in cells new to it  |
| near moves | home to region          | as moves, of the objects in those cells                       |
| focal     | home to region           | tick, who, x, y, gone: where a focal object is                |
| requests  | home to region           | focal, query, flags: what that means for a query              |
| fragments | region to assemble       | tick, query, op, who, x, y, distance; x may be a local value  |
| work      | region to home 0         | none; facts `work` in the last batches, `asked` by somebody   |
| divide    | home 0 to region         | none; facts `other`, `share`: give that zone so much          |
| splits    | region to all of both    | zone, axis, cut, other: the table of splits (splits.py)       |
| arrivals  | region to region         | as moves: objects whose position is another zone's now        |
| local plans | region to region       | query, x, y, focal, gone, known: queries that may concern it  |

Only final ticks travel, by tick within a packet. `who` is an object's number, `gone` the tick at which it is
gone if it stays silent. A focal object is told to a server once, however many queries follow it; `focal` is
the row of that in the focal message of the same sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.moving.names import Strings
from anabranch.zones.columns import Array
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.state import Arrays

NAMES, MOVES, FOCAL_UPDATES, FRAGMENTS = "names", "moves", "focal", "fragments"
REQUESTS, SEARCH, RECORDS, NEAR_MOVES = "requests", "search", "records", "near moves"
WORK, DIVIDE, SPLITS, ARRIVALS, LOCAL_PLANS = "work", "divide", "splits", "arrivals", "local plans"

#: The columns of a table of splits.
SPLIT = ("zone", "axis", "cut", "other")

#: Flags of a request: the region participates in the query; the focal object is there (and not gone).
PARTICIPATES, IS_KNOWN = 1, 2


def message(stage: int, zone: int, what: str, columns: dict[str, Array], sender: int, **facts: Any) -> Packet:
    rows = pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))
    return Packet(stage, zone, Kind.PARTIAL, rows, {"what": what, "from": sender, **facts})


def names_message(stage: int, zone: int, who: Array, strings: Strings, sender: int) -> Packet:
    offsets, data = strings
    names = pa.BinaryArray.from_buffers(
        pa.binary(), len(who), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    rows = pa.record_batch([pa.array(who), names], names=["who", "name"])
    return Packet(stage, zone, Kind.PARTIAL, rows, {"what": NAMES, "from": sender})


def named(packet: Packet) -> tuple[Array, Strings]:
    """(objects, names) of a names message."""
    column = packet.rows.column("name")
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].copy()
    body = np.frombuffer(data, np.uint8).copy() if data is not None else np.zeros(0, np.uint8)
    return packet.rows.column("who").to_numpy().copy(), (edges, body)


def of_kind(packets: Sequence[Packet], what: str) -> list[Packet]:
    return [packet for packet in packets if packet.kind is Kind.PARTIAL and packet.facts["what"] == what]


def column(packets: Sequence[Packet], name: str, kind: Any) -> Array:
    """A column of several messages one after the other, as an array that can be written to."""
    parts = [packet.rows.column(name).to_numpy(zero_copy_only=False) for packet in packets]
    if not parts:
        return np.zeros(0, kind)
    return np.concatenate(parts).astype(kind, copy=False)


def words(packets: Sequence[Packet], count: int) -> Array:
    """The truths of moves: uint64[rows, count]; words that a message lacks are 0."""
    out = np.zeros((sum(packet.rows.num_rows for packet in packets), count), np.uint64)
    first = 0
    for packet in packets:
        for word in range(count):
            if f"t{word}" in packet.rows.schema.names:
                out[first : first + packet.rows.num_rows, word] = packet.rows.column(f"t{word}").to_numpy()
        first += packet.rows.num_rows
    return out


def moves(report: Arrays, rows: Array, leaves: Array) -> dict[str, Array]:
    """The columns of a moves message."""
    columns = {name: report[name][rows] for name in ("tick", "who", "x", "y", "number", "gone")}
    columns["leaves"] = leaves.astype(np.uint8)
    return columns | word_columns(report["truths"][rows])


def word_columns(truths: Array) -> dict[str, Array]:
    return {f"t{word}": truths[:, word].copy() for word in range(truths.shape[1])}


def splits_of(packet: Packet) -> Array:
    """The table of a splits message, float64[:, 4]."""
    return np.column_stack([packet.rows.column(name).to_numpy() for name in SPLIT])
