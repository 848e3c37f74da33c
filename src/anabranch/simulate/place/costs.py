"""What one setting of the experiment costs: packets between regional servers, the time they take, and the
figures 8 to 13 of the paper that come of it.

Messages travel in packets of 1,024 bytes. Several result tuples share a packet (section 6), whatever queries
they belong to; a server sends itself none. The paper does not say what network it had; here it is a gigabit
per second, half a millisecond each way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from anabranch.model.arrays import Floats
from anabranch.simulate.place.world import SERVERS

PACKET_BYTES = 1024
LATENCY_SECONDS = 0.0005
BYTES_PER_SECOND = 1e9 / 8

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


def packets(size: Floats) -> int:
    """Returns the packets of all pairs of servers, from bytes[sender, receiver]."""
    apart = size * (1 - np.eye(SERVERS))
    return int(np.ceil(apart / PACKET_BYTES).sum())


def travel(size: float) -> float:
    """Returns the seconds that so many bytes take from one server to another."""
    return LATENCY_SECONDS + size / BYTES_PER_SECOND


@dataclass(frozen=True)
class Handoff:
    """Assembler operator shipping (section 4.4) of one query."""

    packets: int
    size: float
    seconds: float


def handoff(participating: int, entries: float) -> Handoff:
    """Returns the cost of three steps: S1 the query; S2 a notice to every participating server and the
    tracking server, and their replies; S3 the participating server table, of so many bytes.
    """
    table = int(np.ceil(max(entries, 1) / PACKET_BYTES))
    sent = 1 + 2 * (participating + 1) + table
    size = QUERY_BYTES * (1 + 2 * (participating + 1)) + entries
    return Handoff(sent, size, travel(QUERY_BYTES) + 2 * travel(QUERY_BYTES) + travel(entries))


# what was measured


@dataclass
class PlaceOutcome:
    """What one setting measured. `kind` is the curve (objects, count, max, nearest), `at` the value on the x
    axis: a share or k.
    """

    kind: str
    at: float
    seconds: int = 0
    local_packets: int = 0
    starts: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)  # what it would take to ship each query at the end
    crossings: int = 0  # of issuers from server to server
    enough: float = 1.0  # share of answers for which the search region held k objects at once

    @property
    def figures(self) -> dict[str, float]:
        """The means, by the names of `FIGURES`."""
        shipped = self.handoffs
        return {
            "plan initialization, s": _mean(self.starts),
            "answer update, s": _mean(self.answers),
            "query update, s": _mean(self.updates),
            "handoff, s": _mean([one.seconds for one in shipped]),
            "local result packets per second": self.local_packets / max(self.seconds, 1),
            "handoff packets": _mean([one.packets for one in shipped]),
            "handoff bytes": _mean([one.size for one in shipped]),
        }


#: Figure of the paper -> what it shows.
FIGURES = {
    8: "plan initialization, s",
    9: "answer update, s",
    10: "query update, s",
    11: "handoff, s",
    12: "local result packets per second",
    13: "handoff packets",
}


def _mean(values: list[float] | list[int]) -> float:
    return fmean(values) if values else float("nan")
