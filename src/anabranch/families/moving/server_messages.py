"""What the stages of moving send each other: PARTIAL packets, whose fact `what` says what they are.

| what          | from, to                 | rows                                                            |
|---------------|--------------------------|-----------------------------------------------------------------|
| names         | home to region, assemble | who, name: an object that was not known before                  |
| moves         | home to region           | tick, who, x, y, number, expires, leaves, t0, t1, ...           |
| search        | region to all homes      | bits: the cells that its nearest queries search;                |
|               |                          | facts `box`, and `late`: the last batch needs them, too    |
| records       | home to region           | who, x, y, number, expires, t0, ...: objects in cells new to it |
| nearest moves | home to region           | as moves, of the objects in those cells                         |
| focal         | home to region           | tick, who, x, y, expires: where a focal object is               |
| requests      | home to region           | focal, query, flags: what that means for a query                |
| fragments     | region to assemble       | tick, query, op, who, x, y, distance; x may be a local value    |
| work          | region to home 0         | none; facts `work` in the last batches, `asked` by somebody     |
| divide        | home 0 to region         | none; facts `other`, `share`: give that zone so much            |
| splits        | region to all of both    | zone, axis, cut, other: the table of splits (regions)           |
| arrivals      | region to region         | as moves: objects whose position is another zone's now          |
| local plans   | region to region         | query, x, y, focal, expires, known: queries that may concern it |

Only final ticks travel, sorted by tick within a packet. `who` is an object's number, `expires` the tick at
which it is gone if it stays silent, and t0, t1, ... are the words of its condition bits. A server gets a
focal object once per report, however many queries follow it; `focal` is the row of that in the focal message
of the same sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.packets import Kind, Packet
from anabranch.chain.state import Arrays
from anabranch.families.moving.object_names import Strings
from anabranch.model.arrays import Array, Bools, Floats, Ints, Words

NAMES, MOVES, FOCAL_UPDATES, FRAGMENTS = "names", "moves", "focal", "fragments"
REQUESTS, SEARCH, RECORDS, NEAREST_MOVES = "requests", "search", "records", "nearest moves"
WORK, DIVIDE, SPLITS, ARRIVALS, LOCAL_PLANS = "work", "divide", "splits", "arrivals", "local plans"

#: The depths of the stages in their chain.
HOME, REGION, ASSEMBLE = 1, 2, 3

#: The columns of a table of splits.
SPLIT = ("zone", "axis", "cut", "other")

#: Flags of a request: the region participates in the query; the focal object is there (and has not expired).
PARTICIPATES, IS_KNOWN = 1, 2


def message(depth: int, zone: int, what: str, columns: dict[str, Array], sender: int, **facts: Any) -> Packet:
    rows = pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))
    return Packet(depth, zone, Kind.PARTIAL, rows, {"what": what, "from": sender, **facts})


def names_message(depth: int, zone: int, who: Ints, strings: Strings, sender: int) -> Packet:
    offsets, data = strings
    names = pa.BinaryArray.from_buffers(
        pa.binary(), len(who), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    rows = pa.record_batch([pa.array(who), names], names=["who", "name"])
    return Packet(depth, zone, Kind.PARTIAL, rows, {"what": NAMES, "from": sender})


def names_in(packet: Packet) -> tuple[Ints, Strings]:
    """Returns (objects, names) of a names message."""
    column = packet.rows.column("name")
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].copy()
    body = np.frombuffer(data, np.uint8).copy() if data is not None else np.zeros(0, np.uint8)
    return packet.rows.column("who").to_numpy().copy(), (edges, body)


def of_kind(packets: Sequence[Packet], what: str) -> list[Packet]:
    return [packet for packet in packets if packet.kind is Kind.PARTIAL and packet.facts["what"] == what]


def column(packets: Sequence[Packet], name: str, kind: Any) -> Array:
    """Returns a column of several messages one after the other, as an array that can be written to."""
    parts = [packet.rows.column(name).to_numpy(zero_copy_only=False) for packet in packets]
    if not parts:
        return np.zeros(0, kind)
    return np.concatenate(parts).astype(kind, copy=False)


def truths_in(packets: Sequence[Packet], words: int) -> Words:
    """Returns the condition bits of moves, [rows, words]; words that a message lacks are 0."""
    out = np.zeros((sum(packet.rows.num_rows for packet in packets), words), np.uint64)
    first = 0
    for packet in packets:
        for word in range(words):
            if f"t{word}" in packet.rows.schema.names:
                out[first : first + packet.rows.num_rows, word] = packet.rows.column(f"t{word}").to_numpy()
        first += packet.rows.num_rows
    return out


def truth_columns(truths: Words) -> dict[str, Array]:
    return {f"t{word}": truths[:, word].copy() for word in range(truths.shape[1])}


def move_columns(report: Arrays, rows: Ints, leaves: Ints | Bools) -> dict[str, Array]:
    """Returns the columns of a moves message."""
    columns = {name: report[name][rows] for name in ("tick", "who", "x", "y", "number", "expires")}
    columns["leaves"] = leaves.astype(np.uint8)
    return columns | truth_columns(report["truths"][rows])


def splits_in(packet: Packet) -> Floats:
    """Returns the table of a splits message, [:, 4]."""
    return np.column_stack([packet.rows.column(name).to_numpy() for name in SPLIT])
