"""The families on one stream, in one process: for tests, for simulation, and for small streams without
Spark.

In: batches of items and of control. Out: result tables, dead letters and books. Does what spark/stages does,
with a dictionary in place of Spark's state store; `stopped()` is what a checkpoint would hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from anabranch.chain.control import control_packets
from anabranch.chain.flows import order_of
from anabranch.chain.packets import DELIVER, ORDER, Kind, Packet, decode, encode
from anabranch.chain.rescale import rezoned, with_zones
from anabranch.chain.stages import (
    CONTROL,
    MOST_DEPTHS,
    ROUTE,
    Address,
    Chains,
    HasChain,
    Inbox,
    Stage,
    back_sender,
    run_stages,
)
from anabranch.chain.state import State
from anabranch.model.control_log import Control
from anabranch.model.stream import Stream


class Runner:
    """Families on one stream; most users have a single one."""

    def __init__(
        self,
        stream: Stream,
        families: HasChain | Sequence[HasChain],
        zones: int = 1,
        kept: Mapping[str, int] | None = None,
    ) -> None:
        """`kept`: see Chains."""
        self.stream = stream
        self.chains = Chains(stream, families if isinstance(families, Sequence) else [families], zones, kept)
        self._order = order_of(self.chains)
        self.states: dict[Address, State] = defaultdict(State)
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
        pieces: Sequence[Packet] = (),
    ) -> None:
        """Runs one batch: control takes effect before the items. `rejected` are dead letters of its rows;
        `pieces` are those of a flow.
        """
        inboxes: dict[Address, Inbox] = defaultdict(list)
        for sender, packet in self.back:
            inboxes[packet.family, packet.stage, packet.zone].append((back_sender(sender), packet))
        self.back = []
        order = inboxes["", ORDER, 0]
        for count, packet in enumerate(control_packets(control)):
            order.append(((CONTROL, 0, count), packet))
        if rejected is not None and rejected.num_rows:
            order.append(((ROUTE, 0, 0), Packet(ORDER, 0, Kind.DEAD, rejected)))
        if items is not None and items.num_rows:
            facts = {"source": [self.batches]}
            order.append(((ROUTE, 0, 1), Packet(ORDER, 0, Kind.ITEMS, items, facts)))
        order += [((ROUTE, 0, count), piece) for count, piece in enumerate(pieces, 2)]
        if not order:
            del inboxes["", ORDER, 0]
        depths = range(MOST_DEPTHS + 1)
        for sender, packet in run_stages(self._stage, depths, inboxes, self.states.__getitem__):
            if packet.stage == DELIVER:
                self._deliver(packet)
            else:
                self.back.append((sender, packet))
        self.batches += 1

    def _stage(self, family: str, depth: int) -> Stage:
        return self.chains[family].stages[depth - 1] if depth else self._order

    def stage(self, depth: int, family: str = "") -> Stage:
        """The stage of a family at a depth; the family may be left out where there is only one."""
        return self._stage(self.chains.named(family) if depth else "", depth)

    def state(self, depth: int, zone: int, family: str = "") -> State:
        """The state of one of its zones."""
        return self.states[self.chains.named(family) if depth else "", depth, zone]

    def settle(self, most: int = 100) -> None:
        """Empty batches until no back packet is under way."""
        for _ in range(most):
            if not self.back:
                return
            self.batch()
        raise RuntimeError(f"back packets still under way after {most} batches")

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
        back = [
            (sender, encode(packet), packet.stage, packet.zone, packet.family) for sender, packet in self.back
        ]
        return {"states": states, "back": back, "batches": self.batches}

    def resume(self, stopped: dict[str, Any]) -> None:
        """Goes on from what another runner was stopped with. The results so far stay with that one."""
        for address, chunks in stopped["states"].items():
            state = self.states[address] = State()
            for key, (token, body) in chunks.items():
                state.load(key, token, body)
        self.back = [(sender, decode(*packet)) for sender, *packet in stopped["back"]]
        self.batches = stopped["batches"]

    def rescaled(self, zones: int) -> Runner:
        """Returns a runner that goes on from here with another number of zones. The results so far, and those
        of the batches that it takes until no back packet is under way, stay with this one.
        """
        self.settle()
        chains = with_zones(self.chains, zones, self.states)
        other = Runner(self.stream, list(chains.families.values()), zones, chains.kept)
        other.states.update(rezoned(self.chains, chains, self.states))
        other.batches = self.batches
        return other
