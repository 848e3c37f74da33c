"""The stages of the filters family in one process, with sharing and without.

In: subscriptions, batches of photons. Out: items a second and, to see that both give the same, result rows a
subscription. Without sharing every subscription has stages `share` and `compose` of its own; order, the
batches and the kernels are the same. The first batch, in which queries begin, is not timed.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.control import control_packets
from anabranch.chain.order import Order
from anabranch.chain.packets import DELIVER, ORDER, Kind, Packet
from anabranch.chain.stages import Chain, Chains
from anabranch.chain.state import State
from anabranch.families.filters.family import Filters
from anabranch.families.filters.spec import Aggregate, Select
from anabranch.families.results import SUBSCRIPTION, SUBSCRIPTIONS
from anabranch.model.control_log import Activate
from anabranch.model.stream import Stream

Spec = Select | Aggregate


@dataclass
class Rate:
    """What a contestant did: items, and how long that took by the clock and on the CPU."""

    items: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    rows: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def timed(self, counts: bool) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        if counts:
            self.seconds += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu

    @property
    def by_clock(self) -> float:
        return self.items / self.seconds

    @property
    def by_cpu(self) -> float:
        return self.items / self.cpu


class Subscribers:
    """Some subscriptions that share their stages."""

    def __init__(self, chain: Chain, asked: Sequence[Activate]) -> None:
        self.chain = chain
        self.numbers = {each.number for each in asked}
        self.states = [State() for _ in chain.stages]

    def step(self, sent: Sequence[Packet]) -> list[Packet]:
        """The results of a batch, given what order sent."""
        mail: dict[int, list[Packet]] = defaultdict(list)
        for packet in sent:
            mail[packet.stage].append(packet)
        results = []
        for place, (stage, state) in enumerate(zip(self.chain.stages, self.states, strict=True), start=1):
            for packet in stage.step(0, state, mail[place]):
                if packet.stage == DELIVER:
                    results.append(packet)
                else:
                    mail[packet.stage].append(packet)
        return results

    def begun_by(self, sent: Sequence[Packet]) -> list[Packet]:
        """The same packets, with no other queries than these."""
        return [packet if packet.kind is not Kind.ACTIVATE else self._own(packet) for packet in sent]

    def _own(self, packet: Packet) -> Packet:
        mine = pc.is_in(packet.column("number"), value_set=pa.array(sorted(self.numbers)))
        return Packet(packet.stage, packet.zone, packet.kind, packet.rows.filter(mine), packet.facts)


def run(stream: Stream, specs: Sequence[Spec], batches: Sequence[pa.RecordBatch], shared: bool) -> Rate:
    asked = [Activate(number, f"q{number}", spec.to_json()) for number, spec in enumerate(specs)]
    chains = Chains(stream, [Filters()], 1)
    order, books = Order(chains), State()
    each = [asked] if shared else [[one] for one in asked]
    groups = [Subscribers(chains["filters"], mine) for mine in each]
    rate = Rate()
    for place, items in enumerate(batches):
        mail = [] if place else control_packets(asked)
        mail.append(Packet(ORDER, 0, Kind.ITEMS, items, {"source": [place]}))
        with rate.timed(place > 0):
            sent = [packet for packet in order.step(0, books, mail) if packet.stage != DELIVER]
        for group in groups:
            own = sent if place else group.begun_by(sent)
            with rate.timed(place > 0):
                results = group.step(own)
            rate.rows.update(_counted(results) if place else {})
        rate.items += items.num_rows if place else 0
    return rate


def _counted(results: Sequence[Packet]) -> Counter[str]:
    """Result rows a subscription."""
    found: Counter[str] = Counter()
    for packet in results:
        names = packet.rows.column(
            SUBSCRIPTION if SUBSCRIPTION in packet.rows.schema.names else SUBSCRIPTIONS
        )
        names = names.flatten() if pa.types.is_list(names.type) else names
        counts = np.bincount(names.indices.to_numpy(), minlength=len(names.dictionary))
        found.update(dict(zip(names.dictionary.to_pylist(), counts.tolist(), strict=True)))
    return found
