"""Subscriptions that a job goes on without, although a batch that is to be repeated begins with them.

    _anabranch/without/<branch>.json       [{"number": 7, "family": "nearest", "name": "absurd", "batch": 12}]

Spark has logged which control files batch 12 has, so the repeated batch would activate query 7 again. Order
therefore gets a cancellation of it in batch 12, after all control and before the items. The file stays: when
batch 12 is repeated once more, it sees the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from anabranch.chain.control import cancel_rows
from anabranch.chain.packets import ORDER, Kind, Packet
from anabranch.chain.stages import CONTROL, Inbox
from anabranch.model.files import written_atomically
from anabranch.results.layout import Layout

#: Greater than the version of any control file, so that cancellations come after all activations.
_LAST = 2**31 - 1


@dataclass(frozen=True)
class Without:
    number: int
    family: str
    name: str
    batch: int


def without(layout: Layout, branch: str) -> list[Without]:
    """Returns what a branch goes on without."""
    try:
        return [Without(**each) for each in json.loads(layout.without(branch).read_bytes())]
    except FileNotFoundError:
        return []


def set_without(layout: Layout, branch: str, entries: Sequence[Without]) -> None:
    with written_atomically(layout.without(branch)) as file:
        file.write_text(json.dumps([asdict(each) for each in entries]))


def without_packets(root: str, branch: str, batch: int) -> Inbox:
    """Returns the cancellations that order gets in a batch."""
    now = [each for each in without(Layout(Path(root)), branch) if each.batch == batch]
    return [
        ((CONTROL, _LAST, count), Packet(ORDER, 0, Kind.CANCEL, cancel_rows([each.number], each.family)))
        for count, each in enumerate(now)
    ]
