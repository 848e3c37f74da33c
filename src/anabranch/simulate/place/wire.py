"""What travels between regional servers, in packets of 1,024 bytes, and how long it takes.

In: tuples a pair of servers. Out: packets and seconds. Never: a packet from a server to itself.

Several result tuples share a packet (section 6), whatever queries they belong to. The paper does not say what
network it had; here it is a gigabit a second, half a millisecond each way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.simulate.place.world import SERVERS

Array = np.ndarray[Any, Any]

PACKET_BYTES = 1024
LATENCY_SECONDS = 0.0005
BYTES_A_SECOND = 1e9 / 8

#: A plus or minus tuple: query, object, x, y, time, sign. A local aggregate: query, value, object, time.
TUPLE_BYTES = 8 * 5 + 1
VALUE_BYTES = 8 * 4
#: A query with its focal point. An entry of the participating server table: object, x, y; or value, object.
QUERY_BYTES = 100
OBJECT_ENTRY_BYTES = 8 * 3
VALUE_ENTRY_BYTES = 8 * 2

#: Participating servers send their results every second, so an update waits half of that.
SEND_SECONDS = 1.0
MEAN_WAIT_SECONDS = SEND_SECONDS / 2


def packets(size: Array) -> int:
    """The packets of all pairs of servers, from bytes[sender, receiver]."""
    apart = size * (1 - np.eye(SERVERS))
    return int(np.ceil(apart / PACKET_BYTES).sum())


def travel(size: float) -> float:
    """Seconds that so many bytes take from one server to another."""
    return LATENCY_SECONDS + size / BYTES_A_SECOND


@dataclass(frozen=True)
class Handoff:
    """Assembler operator shipping (section 4.4) of one query."""

    packets: int
    size: float
    seconds: float


def handoff(participating: int, entries: float) -> Handoff:
    """S1 the query; S2 a notice to every participating server and the tracking server, and their answers; S3
    the participating server table, of so many bytes.
    """
    table = int(np.ceil(max(entries, 1) / PACKET_BYTES))
    sent = 1 + 2 * (participating + 1) + table
    size = QUERY_BYTES * (1 + 2 * (participating + 1)) + entries
    return Handoff(sent, size, travel(QUERY_BYTES) + 2 * travel(QUERY_BYTES) + travel(entries))
