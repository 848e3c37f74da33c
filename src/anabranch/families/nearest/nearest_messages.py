"""The messages between home and rendezvous: PARTIAL packets, told apart by the fact `message`.

| message | from       | to         | rows and facts                                                       |
|---------|------------|------------|----------------------------------------------------------------------|
| items   | home       | rendezvous | items, by number; those older than this batch come to be known late  |
| passed  | home       | rendezvous | numbers and times of new items that were not sent, and which         |
|         |            |            | coordinates they have                                                |
| extent  | home       | rendezvous | `extent`: least and greatest of each number column, until the space  |
|         |            |            | is known                                                             |
| space   | rendezvous | home       | `bounds`: the space, once                                            |
| merger  | rendezvous | home       | which cells the zone is interested in now; see interest.py           |
| work    | rendezvous | home 0     | `work` in the last batches; whether it was `requested`               |
| divide  | home 0     | rendezvous | `other`, `share`: give that zone this share of your queries          |
| splits  | rendezvous | all        | `splits`: who owns which queries from now on; `other`: who got some  |
| queries | rendezvous | rendezvous | queries that the other owns from now on; `low` of their buffer       |
| chunks  | rendezvous | rendezvous | their candidates and clocks, as chunks of state                      |
| stored  | rendezvous | rendezvous | the items that they may need                                         |

Counters have the paper's names (section 5.2); a NOTE carries them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from anabranch.chain.packets import DELIVER, EMPTY, Kind, Packet
from anabranch.model.stream import Time

#: The depths of the two stages.
HOME, RENDEZVOUS = 1, 2

ITEMS, PASSED, EXTENT, SPACE, MERGER = "items", "passed", "extent", "space", "merger"
WORK, DIVIDE, SPLITS, QUERIES, CHUNKS, STORED = "work", "divide", "splits", "queries", "chunks", "stored"

#: An item reaches its home; a home forwards it to another zone; a zone reports it to a subscriber; a zone
#: tells a home which cells it is interested in; a query is activated or cancelled at its zone.
NOTIFY_RENDEZVOUS = "notify rendezvous"
NOTIFY_INTERESTED = "notify interested"
NOTIFY_OWNER = "notify owner"
MERGER_UPDATE = "merger update"
QUERY_ACTIVATION = "query activation"
QUERY_CANCELLATION = "query cancellation"
COUNTERS = (
    NOTIFY_RENDEZVOUS,
    NOTIFY_INTERESTED,
    NOTIFY_OWNER,
    MERGER_UPDATE,
    QUERY_ACTIVATION,
    QUERY_CANCELLATION,
)


def message(name: str, depth: int, zone: int, rows: pa.RecordBatch = EMPTY, /, **facts: Any) -> Packet:
    return Packet(depth, zone, Kind.PARTIAL, rows, {"message": name, **facts})


def is_message(packet: Packet, name: str) -> bool:
    return packet.kind is Kind.PARTIAL and packet.facts["message"] == name


def counters_note(stage: str, zone: int, counters: Mapping[str, int]) -> list[Packet]:
    """Returns a note of the counters of one zone in one batch, if there is anything to count."""
    counted = {name: count for name, count in counters.items() if count}
    if not counted:
        return []
    facts = {"family": "nearest", "stage": stage, "zone": zone, "messages": counted}
    return [Packet(DELIVER, 0, Kind.NOTE, facts=facts)]


@dataclass(frozen=True)
class StreamProgress:
    """Where the stream stands after a batch: the number of the next item, the time of the last."""

    number: int = 0
    last: Time | None = None
    ended: bool = False

    @staticmethod
    def of(packets: Sequence[Packet]) -> StreamProgress | None:
        """Returns None in a batch that brings nothing but back packets: the stream stands where it stood."""
        for packet in packets:
            if packet.kind is Kind.PROGRESS:
                return StreamProgress(packet.facts["number"], packet.facts["last"], packet.facts["ended"])
        return None


@dataclass
class Inbox:
    """What a step of rendezvous gets, sorted by what it is."""

    progress: StreamProgress | None
    controls: list[Packet] = field(default_factory=list)  # ACTIVATE and CANCEL, in order
    items: list[pa.RecordBatch] = field(default_factory=list)
    passed: list[Packet] = field(default_factory=list)
    extents: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def of(packets: Sequence[Packet]) -> Inbox:
        inbox = Inbox(StreamProgress.of(packets))
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                inbox.controls.append(packet)
            elif is_message(packet, ITEMS):
                inbox.items.append(packet.rows)
            elif is_message(packet, PASSED):
                inbox.passed.append(packet)
            elif is_message(packet, EXTENT):
                inbox.extents.append(packet.facts["extent"])
        return inbox
