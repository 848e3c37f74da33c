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

from anabranch.chain.control import control_packets
from anabranch.chain.order import Order
from anabranch.chain.packets import DELIVER, ORDER, Kind, Packet, decode, encode
from anabranch.chain.stages import CONTROL, ROUTE, Chain, HasChain, Inbox, Stage, in_order
from anabranch.chain.state import State
from anabranch.model.control_log import Control
from anabranch.model.stream import Stream


class Runner:
    def __init__(self, stream: Stream, family: HasChain, zones: int = 1) -> None:
        self.stream, self.family = stream, family
        self.chain: Chain = family.chain(stream, zones)
        self.stages: list[Stage] = [Order(stream, self.chain), *self.chain.stages]
        self.states: dict[tuple[int, int], State] = {}
        self.back: Inbox = []
        self.batches = 0
        #: table -> number of the batch -> the rows it delivered
        self.tables: dict[str, dict[int, list[pa.RecordBatch]]] = defaultdict(lambda: defaultdict(list))
        self.dead: list[pa.RecordBatch] = []
        self.books: dict[str, Any] = {}
        self.notes: list[dict[str, Any]] = []

    def batch(
        self,
        items: pa.RecordBatch | None = None,
        control: Sequence[Control] = (),
        rejected: pa.RecordBatch | None = None,
    ) -> None:
        """Runs one batch: control takes effect before the items. `rejected` are dead letters of its rows."""
        inboxes: dict[int, Inbox] = defaultdict(list)
        for sender, packet in self.back:
            inboxes[packet.stage].append((self.chain.back_sender(sender), packet))
        self.back = []
        for count, packet in enumerate(control_packets(control)):
            inboxes[ORDER].append(((CONTROL, 0, count), packet))
        if rejected is not None and rejected.num_rows:
            inboxes[ORDER].append(((ROUTE, 0, 0), Packet(ORDER, 0, Kind.DEAD, rejected)))
        if items is not None and items.num_rows:
            facts = {"source": [self.batches]}
            inboxes[ORDER].append(((ROUTE, 0, 1), Packet(ORDER, 0, Kind.ITEMS, items, facts)))
        for depth in range(len(self.stages)):
            self._run_stage(depth, inboxes)
        self.batches += 1

    def settle(self, most: int = 100) -> None:
        """Empty batches until no back packet is under way."""
        for _ in range(most):
            if not self.back:
                return
            self.batch()
        raise RuntimeError(f"back packets still under way after {most} batches")

    def _run_stage(self, depth: int, inboxes: dict[int, Inbox]) -> None:
        by_zone: dict[int, Inbox] = defaultdict(list)
        for sender, packet in inboxes.pop(depth, []):
            by_zone[packet.zone].append((sender, packet))
        for zone in sorted(by_zone):
            state = self.states.get((depth, zone))
            if state is None:
                state = self.states[depth, zone] = State()
            try:
                sent = self.stages[depth].step(zone, state, in_order(by_zone[zone]))
            except BaseException:
                state.forget_cache()
                raise
            for count, packet in enumerate(sent):
                if packet.stage == DELIVER:
                    self._deliver(packet)
                elif packet.stage > depth:
                    inboxes[packet.stage].append(((depth, zone, count), packet))
                else:
                    self.back.append(((depth, zone, count), packet))

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
