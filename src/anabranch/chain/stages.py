"""The contract of a stage, of the chain of stages that a family has, and of the chains that share one order.

    order --+--> share --> compose                    filters
            +--> home --> rendezvous                  nearest
            +--> neighbourhood                        clusters
            +--> home --> region --> assemble         moving
    depth 0      1        2          3

A stage is a pure function over arrays: what it returns and what it puts into the state follow from the zone,
the state and the packets alone. No clock, no randomness that is not seeded from its input, no files.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from anabranch.chain.packets import ORDER, Kind, Packet
from anabranch.chain.state import State
from anabranch.model.arrays import Array
from anabranch.model.stream import Stream

#: Who sent a packet: (stage, zone, count). Sorting by it gives the order in which a step sees its packets.
Sender = tuple[int, int, int]
Inbox = list[tuple[Sender, Packet]]

#: The senders that are not stages; control comes before items.
CONTROL: int = -2
ROUTE: int = -1
#: What is taken from the stage of a sender whose packet waited for the next batch.
BACK: int = 1000


#: How the note begins that an error of a stage gets; JSON follows. So many subscriptions are named at most.
WHERE, MOST_NAMED = "anabranch was in: ", 100


class Stage(ABC):
    """One step of a chain. `zones` is how many zones it has, numbered from 0."""

    name: str
    zones: int

    @abstractmethod
    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        """Called at most once per batch for each zone, and never for a zone without packets.

        Packets come in a fixed order: first back packets (from this or a later stage, in the batch before),
        then by the stage that sent them, the sender's zone, and the order in which it sent them.

        From order come, in stream order: ACTIVATE and CANCEL to every zone of every stage (and REBALANCE, for
        families that know what to do with it), ITEMS to the zones of the first stage as the family's spread
        says, and last, in every batch that brings control or items, one PROGRESS to every zone of every
        stage; a batch may also bring back packets alone. A family without queries gets nothing. PROGRESS has
        `number` (of the next item), `time` (no item that is still to come is older; None before the first),
        `last` (time of the last item), `origin` (time of the first item), `ended` (the stream has ended).

        A packet returned for a later stage arrives in the same batch. One for this or an earlier stage is a
        back packet: it arrives at the start of the next batch. One for DELIVER leaves the chain. To order a
        stage sends CANCEL only, of a query that is suspended (budget.py).
        """


class RescalableStage(Stage):
    """A stage whose number of zones may change between two batches (chain/rescale.py)."""

    @abstractmethod
    def rezoned(self, zone: int, before: Sequence[State]) -> State:
        """Returns the state of a zone after the number of zones has become `self.zones`.

        `before` are the states of all zones until now, in order. They are not used any more afterwards. It
        is called between two batches, while no back packet is under way.
        """


class Spread(ABC):
    """How order deals items out to the zones of the first stage of a family."""

    @abstractmethod
    def deal(self, items: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(zone, items for it), each zone's items in stream order; `items` are numbered and not empty."""


class Broadcast(Spread):
    """Every zone gets every item."""

    def __init__(self, zones: int) -> None:
        self.zones = zones

    def deal(self, items: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        for zone in range(self.zones):
            yield zone, items


class Slices(Spread):
    """Each zone gets a run of consecutive items; for stages that look at items one by one."""

    def __init__(self, zones: int, least: int = 1024) -> None:
        self.zones, self.least = zones, least

    def deal(self, items: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        size = max(self.least, -(-items.num_rows // self.zones))
        for zone, first in enumerate(range(0, items.num_rows, size)):
            yield zone, items.slice(first, size)


class ByZone(Spread):
    """Each item goes to the zone that a function of the items says."""

    def __init__(self, zone_of: Callable[[pa.RecordBatch], Array]) -> None:
        self.zone_of = zone_of

    def deal(self, items: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        zones = self.zone_of(items)
        if (zones == zones[0]).all():
            yield int(zones[0]), items
            return
        order = np.argsort(zones, kind="stable")
        sorted_zones = zones[order]
        starts = np.flatnonzero(np.r_[True, sorted_zones[1:] != sorted_zones[:-1]])
        dealt = items.take(pa.array(order))
        for first, stop in zip(starts, np.r_[starts[1:], len(order)], strict=True):
            yield int(sorted_zones[first]), dealt.slice(first, stop - first)


@dataclass(frozen=True)
class Chain:
    """The stages of one family on one stream, after order."""

    stages: tuple[Stage, ...]
    spread: Spread

    @property
    def is_rescalable(self) -> bool:
        return all(isinstance(stage, RescalableStage) for stage in self.stages)

    def addresses(self) -> Iterator[tuple[int, int]]:
        """(depth, zone) of every zone after order."""
        for depth, stage in enumerate(self.stages, start=1):
            for zone in range(stage.zones):
                yield depth, zone


class HasChain(Protocol):
    """A family, as far as running it is concerned."""

    @property
    def name(self) -> str: ...

    def chain(self, stream: Stream, zones: int) -> Chain:
        """The stages for this stream, with `zones` zones where a stage can have any number."""
        ...


class Chains:
    """The chains of the families that share one order on a stream.

    A chain is made when its family is needed for the first time, for that loads the kernels of the family.
    `kept` are the numbers of zones of families that have not the same as the others.
    """

    def __init__(
        self, stream: Stream, families: Iterable[HasChain], zones: int, kept: Mapping[str, int] | None = None
    ) -> None:
        self.stream, self.zones, self.kept = stream, zones, kept or {}
        self.families = {family.name: family for family in families}
        self._chains: dict[str, Chain] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_chains": {}}

    def named(self, family: str) -> str:
        """The family of this name; without a name, the only one there is."""
        if family:
            return family
        (only,) = self.families
        return only

    def zones_at(self, family: str, depth: int) -> int:
        """How many zones the stage at this depth has; order has one."""
        return 1 if depth == ORDER else self[family].stages[depth - 1].zones

    def __getitem__(self, family: str) -> Chain:
        chain = self._chains.get(family)
        if chain is None:
            zones = self.kept.get(family, self.zones)
            chain = self._chains[family] = self.families[family].chain(self.stream, zones)
        return chain


#: Where packets wait: the family, the depth of the stage and the zone. Order's family is "".
Address = tuple[str, int, int]
Inboxes = dict[Address, Inbox]
#: The greatest depth that a chain may have; so deep are the operators of a Spark query.
MOST_DEPTHS = 3


def run_stages(
    stage_of: Callable[[str, int], Stage],
    depths: Sequence[int],
    inboxes: Inboxes,
    state_of: Callable[[Address], State],
) -> Inbox:
    """Runs the stages of these depths, in order, on the packets in `inboxes`. Returns what leaves them: for
    stages of other depths, for delivery, or back to the next batch.
    """
    out: Inbox = []
    for depth in depths:
        for address in sorted(address for address in inboxes if address[1] == depth):
            family, _, zone = address
            state = state_of(address)
            stage, packets = stage_of(family, depth), in_order(inboxes.pop(address))
            try:
                sent = stage.step(zone, state, packets)
            except BaseException as error:
                state.forget_cache()
                error.add_note(_where(stage, family, zone, packets, error))
                raise
            for count, packet in enumerate(sent):
                if family and not packet.family and packet.stage != ORDER:  # order is no family's own
                    packet = replace(packet, family=family)
                here = packet.stage > depth and packet.stage in depths
                to = inboxes.setdefault((packet.family, packet.stage, packet.zone), []) if here else out
                to.append(((depth, zone, count), packet))
    return out


def _where(stage: Stage, family: str, zone: int, packets: Sequence[Packet], error: BaseException) -> str:
    """What a trace says beside an error of a stage: where it happened, which subscriptions begin in the
    batch, and which of them the error is because of, where it knows that.
    """
    begins = [packet.column("name").to_pylist() for packet in packets if packet.kind is Kind.ACTIVATE]
    names = sorted(set(chain.from_iterable(begins)))[:MOST_NAMED] if family else []
    facts = {"family": family, "stage": stage.name, "zone": zone, "begins": names}
    return WHERE + json.dumps(facts | {"names": list(getattr(error, "subscriptions", ()))})


def back_sender(sender: Sender) -> Sender:
    """The sender of a back packet, so that it sorts before everything that the next batch brings itself."""
    return (sender[0] - BACK, sender[1], sender[2])


def in_order(packets: Sequence[tuple[Sender, Packet]]) -> list[Packet]:
    """Packets as a step gets them."""
    return [packet for _, packet in sorted(packets, key=lambda pair: pair[0])]
