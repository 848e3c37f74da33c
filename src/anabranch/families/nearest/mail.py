"""What a step of rendezvous gets, sorted by what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from anabranch.families.nearest import messages as m
from anabranch.model.stream import Time
from anabranch.zones.packets import Kind, Packet


@dataclass(frozen=True)
class Progress:
    """Where the stream stands after the batch: the number of the next item, the time of the last."""

    number: int = 0
    last: Time | None = None
    ended: bool = False

    @staticmethod
    def of(packets: Sequence[Packet]) -> Progress | None:
        """None in a batch that brings nothing but back packets: the stream stands where it stood."""
        for packet in packets:
            if packet.kind is Kind.PROGRESS:
                return Progress(packet.facts["number"], packet.facts["last"], packet.facts["ended"])
        return None


@dataclass
class Mail:
    progress: Progress | None
    controls: list[Packet] = field(default_factory=list)  # ACTIVATE and CANCEL, in order
    items: list[pa.RecordBatch] = field(default_factory=list)
    passed: list[Packet] = field(default_factory=list)
    extents: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def sorted(packets: Sequence[Packet]) -> Mail:
        mail = Mail(Progress.of(packets))
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                mail.controls.append(packet)
            elif m.said(packet, m.ITEMS):
                mail.items.append(packet.rows)
            elif m.said(packet, m.PASSED):
                mail.passed.append(packet)
            elif m.said(packet, m.EXTENT):
                mail.extents.append(packet.facts["extent"])
        return mail
