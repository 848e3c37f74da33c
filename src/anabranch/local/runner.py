"""The stages of one family on one stream, in one process: for tests, for simulation, and for small streams
without Spark.

In: batches of items and of control. Out: result tables, dead letters and books. Does what spark/stages does,
with a dictionary in place of Spark's state store; `stopped()` is what a checkpoint would hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from anabranch.families.base import Family
from anabranch.model.control import Control
from anabranch.model.stream import Stream
from anabranch.zones.asked import control_packets
from anabranch.zones.order import Order
from anabranch.zones.packets import DELIVER, ORDER, Kind, Packet, decode, encode
from anabranch.zones.stage import CONTROL, ROUTE, Chain, Mail, Stage, in_order
from anabranch.zones.state import State


class LocalRunner:
    def __init__(self, stream: Stream, family: Family, zones: int = 1) -> None:
        self.stream, self.family = stream, family
        self.chain: Chain = family.chain(stream, zones)
        self.stages: list[Stage] = [Order(stream, self.chain), *self.chain.stages]
        self.states: dict[tuple[int, int], State] = {}
        self.back: Mail = []
        self.batches = 0
        #: table -> number of the batch -> the rows it delivered
        self.tables: dict[str, dict[int, list[pa.RecordBatch]]] = defaultdict(lambda: defaultdict(list))
        self.dead: list[pa.RecordBatch] = []
        self.books: dict[str, Any] = {}
        self.notes: list[dict[str, Any]] = []

    def batch(self, items: pa.RecordBatch | None = None, control: Sequence[Control] = ()) -> None:
        """One batch: control takes effect before the items."""
        mail: dict[int, Mail] = defaultdict(list)
        for sender, packet in self.back:
            mail[packet.stage].append((self.chain.back_sender(sender), packet))
        self.back = []
        for count, packet in enumerate(control_packets(control)):
            mail[ORDER].append(((CONTROL, 0, count), packet))
        if items is not None and items.num_rows:
            facts = {"source": [self.batches]}
            mail[ORDER].append(((ROUTE, 0, 0), Packet(ORDER, 0, Kind.ITEMS, items, facts)))
        for place in range(len(self.stages)):
            self._run_stage(place, mail)
        self.batches += 1

    def settle(self, most: int = 100) -> None:
        """Empty batches until no back packet is under way."""
        for _ in range(most):
            if not self.back:
                return
            self.batch()
        raise RuntimeError(f"back packets still under way after {most} batches")

    def _run_stage(self, place: int, mail: dict[int, Mail]) -> None:
        by_zone: dict[int, Mail] = defaultdict(list)
        for sender, packet in mail.pop(place, []):
            by_zone[packet.zone].append((sender, packet))
        for zone in sorted(by_zone):
            state = self.states.setdefault((place, zone), State())
            sent = self.stages[place].step(zone, state, in_order(by_zone[zone]))
            for count, packet in enumerate(sent):
                if packet.stage == DELIVER:
                    self._deliver(packet)
                elif packet.stage > place:
                    mail[packet.stage].append(((place, zone, count), packet))
                else:
                    self.back.append(((place, zone, count), packet))

    def _deliver(self, packet: Packet) -> None:
        match packet.kind:
            case Kind.RESULT:
                if packet.rows.num_rows:
                    self.tables[packet.facts["table"]][self.batches].append(packet.rows)
            case Kind.DEAD:
                self.dead.append(packet.rows)
            case Kind.BOOKS:
                self.books = dict(packet.facts)
            case _:
                self.notes.append(dict(packet.facts))

    # stopping and going on

    def stopped(self) -> dict[str, Any]:
        """All that has to outlive the process, as bytes."""
        states = {}
        for address, state in self.states.items():
            states[address] = {key: (state.tokens[key], state.encoded(key)) for key in state.tokens}
        back = [(sender, packet.stage, packet.zone, encode(packet)) for sender, packet in self.back]
        return {"states": states, "back": back, "batches": self.batches}

    def resume(self, stopped: dict[str, Any]) -> None:
        """Goes on from what another runner was stopped with. The results so far stay with that one."""
        for address, chunks in stopped["states"].items():
            state = self.states[address] = State()
            for key, (token, body) in chunks.items():
                state.load(key, token, body)
        self.back = [(sender, decode(body, stage, zone)) for sender, stage, zone, body in stopped["back"]]
        self.batches = stopped["batches"]
