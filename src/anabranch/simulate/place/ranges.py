"""Continuous range queries (section 4) on nine servers: the stages of the moving family, a zone a server.

In: a world, a share of the space and a value or none. Out: what it cost. Never: an answer of its own; what
the regions send to the assemblers is what the family's stages send.

Response times are those of the stages on this machine, with the time on the wire:
- plan initialization: two round trips to find the focal object, a way to the participating servers, work;
- answer update: half a second until the next sending, the server's work, the wire, the assembler's work;
- query update: from tracking to querying to participating servers, and the work of the slowest.
"""

from __future__ import annotations

import numpy as np

from anabranch.families.moving import messages
from anabranch.kernels.moving_arrays import MINUS, PLUS
from anabranch.model.control import Activate
from anabranch.simulate.place import wire
from anabranch.simulate.place.outcome import Outcome
from anabranch.simulate.place.servers import ASSEMBLE, REGION, Second, Servers
from anabranch.simulate.place.world import (
    REPORT_SECONDS,
    SERVERS,
    Array,
    World,
    range_spec,
    server_of,
)

VALUES = {"objects": None, "count": "count", "max": "max(x)"}


class RangeExperiment:
    def __init__(self, world: World, kind: str, share: float) -> None:
        self.world, self.kind, self.share = world, kind, share
        self.pairs = world.pairs()
        self.servers = Servers()
        #: The participating server table: how many objects each server has told each query of.
        self.held = np.zeros((len(self.pairs), SERVERS), np.int64)
        self.outcome = Outcome(kind, share)

    def run(self, seconds: int) -> Outcome:
        control = [Activate(number, f"q{number}", self._spec(pair)) for number, pair in enumerate(self.pairs)]
        for second in range(REPORT_SECONDS + 1 + seconds):
            queried = server_of(self.world.places[self.pairs[:, 1]])
            who = self.world.step()
            done = self.servers.second(self.world.items(who), control if second == 0 else ())
            now = server_of(self.world.places[self.pairs[:, 1]])
            size = self._take_fragments(done, queried)
            if second > REPORT_SECONDS:
                self._note(done, size)
                self.outcome.crossings += int(np.count_nonzero(queried != now))
        self._note_handoffs()
        self._probe()
        return self.outcome

    def _spec(self, pair: Array) -> dict[str, object]:
        return range_spec(pair, self.share, VALUES[self.kind])

    def _take_fragments(self, done: Second, queried: Array) -> Array:
        """bytes[sender, querying server] of this second's local results."""
        size = np.zeros((SERVERS, SERVERS))
        each = wire.TUPLE_BYTES if self.kind == "objects" else wire.VALUE_BYTES
        for packet in messages.of_kind(done.sent[REGION], messages.FRAGMENTS):
            query, op = (packet.rows.column(name).to_numpy() for name in ("query", "op"))
            server = packet.facts["from"]
            size[server] += each * np.bincount(queried[query], minlength=SERVERS)
            if self.kind == "objects":
                np.add.at(self.held[:, server], query[op == PLUS], 1)
                np.subtract.at(self.held[:, server], query[op == MINUS], 1)
            else:
                self.held[query, server] = 1
        return size

    def _note(self, done: Second, size: Array) -> None:
        out = self.outcome
        out.seconds += 1
        out.local_packets += wire.packets(size)
        work, assembling = done.slowest(REGION), done.slowest(ASSEMBLE)
        out.answers.append(wire.MEAN_WAIT_SECONDS + work + wire.travel(float(size.max())) + assembling)
        out.updates.append(2 * wire.travel(wire.QUERY_BYTES) + work)

    def _note_handoffs(self) -> None:
        entry = wire.OBJECT_ENTRY_BYTES if self.kind == "objects" else wire.VALUE_ENTRY_BYTES
        for table in self.held:
            self.outcome.handoffs.append(
                wire.handoff(int(np.count_nonzero(table)), float(entry * table.sum()))
            )

    def _probe(self) -> None:
        """One query more, on servers that are at work."""
        first = len(self.pairs)
        for number, pair in enumerate(self.pairs[:: max(1, first // 5)][:5]):
            done = self.servers.second(None, [Activate(first + number, f"probe{number}", self._spec(pair))])
            work = done.slowest(REGION) + done.slowest(ASSEMBLE)
            self.outcome.starts.append(4 * wire.travel(0) + wire.travel(wire.QUERY_BYTES) + work)
