"""Continuous range queries (section 4) on nine servers: the stages of the moving family, one zone per server,
with a clock for each.

In: a world, a share of the space and a value or none. Out: what it cost. What regions send to assemblers is
what the family's stages send.

Response times are those of the stages on this machine, with the time on the wire:
- plan initialization: two round trips to find the focal object, a way to the participating servers, work;
- answer update: half a second until the next sending, the server's work, the wire, the assembler's work;
- query update: from tracking to querying to participating servers, and the work of the slowest.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.chain.control import control_packets
from anabranch.chain.order import Order
from anabranch.chain.packets import DELIVER, ORDER, Kind, Packet
from anabranch.chain.stages import CONTROL, ROUTE, Chains, Sender, Stage, in_order
from anabranch.chain.state import State
from anabranch.families.moving import servers
from anabranch.families.moving.kernels.arrays import MINUS, PLUS
from anabranch.families.registry import family
from anabranch.model.arrays import Array, Floats, Ints
from anabranch.model.control_log import Activate, Control
from anabranch.simulate.place import costs
from anabranch.simulate.place.costs import PlaceOutcome
from anabranch.simulate.place.world import REPORT_SECONDS, SERVERS, STREAM, World, range_spec, server_of

REGION, ASSEMBLE = "region", "assemble"
VALUES = {"objects": None, "count": "count", "max": "max(x)"}


@dataclass
class Second:
    """What the stages did in one second, by their names."""

    sent: dict[str, list[Packet]] = field(default_factory=dict)
    spent: dict[str, Floats] = field(default_factory=dict)  # processor seconds, by server

    def slowest(self, stage: str) -> float:
        return float(self.spent[stage].max())


class Servers:
    def __init__(self) -> None:
        chains = Chains(STREAM, [family("moving")], SERVERS)
        self._stages: list[Stage] = [Order(chains), *chains["moving"].stages]
        self._states: dict[tuple[int, int], State] = defaultdict(State)

    def second(self, items: pa.RecordBatch | None, control: Sequence[Control] = ()) -> Second:
        inboxes: dict[tuple[int, int], list[tuple[Sender, Packet]]] = defaultdict(list)
        for count, packet in enumerate(control_packets(control)):
            inboxes[ORDER, 0].append(((CONTROL, 0, count), packet))
        if items is not None:
            inboxes[ORDER, 0].append(((ROUTE, 0, 0), Packet(ORDER, 0, Kind.ITEMS, items, {"source": [0]})))
        done = Second()
        for depth, stage in enumerate(self._stages):
            done.sent[stage.name], done.spent[stage.name] = [], np.zeros(SERVERS)
            for zone in range(SERVERS):
                if (depth, zone) not in inboxes:
                    continue
                started = time.process_time()
                sent = stage.step(zone, self._states[depth, zone], in_order(inboxes[depth, zone]))
                done.spent[stage.name][zone] = time.process_time() - started
                done.sent[stage.name] += sent
                for count, packet in enumerate(sent):
                    if packet.stage != DELIVER:
                        inboxes[packet.stage, packet.zone].append(((depth, zone, count), packet))
        return done


class RangeExperiment:
    def __init__(self, world: World, kind: str, share: float) -> None:
        self.world, self.kind, self.share = world, kind, share
        self.pairs = world.pairs()
        self.servers = Servers()
        #: The participating server table: how many objects each server has sent for each query.
        self.sent_objects = np.zeros((len(self.pairs), SERVERS), np.int64)
        self.outcome = PlaceOutcome(kind, share)

    def run(self, seconds: int) -> PlaceOutcome:
        control = [Activate(number, f"q{number}", self._spec(pair)) for number, pair in enumerate(self.pairs)]
        for second in range(REPORT_SECONDS + 1 + seconds):
            queried = server_of(self.world.positions[self.pairs[:, 1]])
            who = self.world.step()
            done = self.servers.second(self.world.items(who), control if second == 0 else ())
            now = server_of(self.world.positions[self.pairs[:, 1]])
            size = self._add_fragments(done, queried)
            if second > REPORT_SECONDS:
                self._add_second(done, size)
                self.outcome.crossings += int(np.count_nonzero(queried != now))
        self._add_handoffs()
        self._probe()
        return self.outcome

    def _spec(self, pair: Array) -> dict[str, object]:
        return range_spec(pair, self.share, VALUES[self.kind])

    def _add_fragments(self, done: Second, queried: Ints) -> Floats:
        """Returns bytes[sender, querying server] of this second's local results."""
        size = np.zeros((SERVERS, SERVERS))
        each = costs.TUPLE_BYTES if self.kind == "objects" else costs.VALUE_BYTES
        for packet in servers.of_kind(done.sent[REGION], servers.FRAGMENTS):
            query, op = (packet.rows.column(name).to_numpy() for name in ("query", "op"))
            server = packet.facts["from"]
            size[server] += each * np.bincount(queried[query], minlength=SERVERS)
            if self.kind == "objects":
                np.add.at(self.sent_objects[:, server], query[op == PLUS], 1)
                np.subtract.at(self.sent_objects[:, server], query[op == MINUS], 1)
            else:
                self.sent_objects[query, server] = 1
        return size

    def _add_second(self, done: Second, size: Floats) -> None:
        out = self.outcome
        out.seconds += 1
        out.local_packets += costs.packets(size)
        work, assembly = done.slowest(REGION), done.slowest(ASSEMBLE)
        out.answers.append(costs.MEAN_WAIT_SECONDS + work + costs.travel(float(size.max())) + assembly)
        out.updates.append(2 * costs.travel(costs.QUERY_BYTES) + work)

    def _add_handoffs(self) -> None:
        entry = costs.OBJECT_ENTRY_BYTES if self.kind == "objects" else costs.VALUE_ENTRY_BYTES
        for table in self.sent_objects:
            self.outcome.handoffs.append(
                costs.handoff(int(np.count_nonzero(table)), float(entry * table.sum()))
            )

    def _probe(self) -> None:
        """Activates a few more queries, on servers that are at work."""
        first = len(self.pairs)
        for number, pair in enumerate(self.pairs[:: max(1, first // 5)][:5]):
            done = self.servers.second(None, [Activate(first + number, f"probe{number}", self._spec(pair))])
            work = done.slowest(REGION) + done.slowest(ASSEMBLE)
            self.outcome.starts.append(4 * costs.travel(0) + costs.travel(costs.QUERY_BYTES) + work)
