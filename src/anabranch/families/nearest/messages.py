"""What home and rendezvous say to each other: PARTIAL packets, told apart by the fact `say`.

| say     | from       | to         | rows and facts                                                       |
|---------|------------|------------|----------------------------------------------------------------------|
| items   | home       | rendezvous | items, by number; those older than this batch come to be known late  |
| passed  | home       | rendezvous | numbers and times of new items that were not sent, and which         |
|         |            |            | coordinates they have                                                |
| extent  | home       | rendezvous | `extent`: least and greatest of each number column, until the space  |
|         |            |            | is known                                                             |
| space   | rendezvous | home       | `bounds`: the space, once                                            |
| merger  | rendezvous | home       | which cells the zone is interested in now; see interest.py           |
| work    | rendezvous | home 0     | `work` in the last batches; whether somebody `asked` for it          |
| divide  | home 0     | rendezvous | `other`, `share`: give that zone this share of your queries          |
| splits  | rendezvous | all        | `splits`: whose queries are from now on; `other`: who got some       |
| moving  | rendezvous | rendezvous | queries that are the other's from now on; `low` of their buffer      |
| chunks  | rendezvous | rendezvous | their candidates and clocks, as chunks of state                      |
| shelf   | rendezvous | rendezvous | the items that they may need                                         |

Counters have the paper's names (section 5.2); a NOTE carries them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from anabranch.zones.packets import DELIVER, EMPTY, Kind, Packet

HOME, RENDEZVOUS = 1, 2

ITEMS, PASSED, EXTENT, SPACE, MERGER = "items", "passed", "extent", "space", "merger"
WORK, DIVIDE, SPLITS, MOVING, CHUNKS, SHELF = "work", "divide", "splits", "moving", "chunks", "shelf"

#: An item reaches its home; a home forwards it to another zone; a zone reports it to a subscriber; a zone
#: tells a home which cells it is interested in; a query begins or ends at its zone.
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


def say(what: str, stage: int, zone: int, rows: pa.RecordBatch = EMPTY, /, **facts: Any) -> Packet:
    return Packet(stage, zone, Kind.PARTIAL, rows, {"say": what, **facts})


def said(packet: Packet, what: str) -> bool:
    return packet.kind is Kind.PARTIAL and packet.facts["say"] == what


def note(stage: str, zone: int, counters: Mapping[str, int]) -> list[Packet]:
    """The counters of one zone in one batch, if there is anything to count."""
    counted = {name: count for name, count in counters.items() if count}
    if not counted:
        return []
    return [
        Packet(
            DELIVER,
            0,
            Kind.NOTE,
            facts={"family": "nearest", "stage": stage, "zone": zone, "messages": counted},
        )
    ]
