"""The contract of a stage, and of a chain of them.

A stage is a pure function over arrays: what it returns and what it puts into the state follow from the zone,
the state and the packets alone. No clock, no randomness that is not seeded from its input, no files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.zones.packets import Packet
from anabranch.zones.spread import Spread
from anabranch.zones.state import State

#: Who sent a packet: (stage, zone, count). Sorting by it gives the order in which a step sees its packets.
Sender = tuple[int, int, int]
Mail = list[tuple[Sender, Packet]]

#: The senders that are not stages; control comes before items.
CONTROL: int = -2
ROUTE: int = -1


class Stage(ABC):
    """One step of a chain. `zones` is how many zones it has, numbered from 0."""

    name: str
    zones: int

    @abstractmethod
    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        """Called at most once a batch for each zone, and never for a zone without packets.

        Packets come in a fixed order: first back packets (from this or a later stage, in the batch before),
        then by the stage that sent them, the sender's zone, and the order in which it sent them.

        From order come, in stream order: ACTIVATE and CANCEL to every zone of every stage (and REBALANCE, for
        families that know what to do with it), ITEMS to the zones
        of the first stage as the family's spread says, and last, in every batch that brings control or items,
        one PROGRESS to every zone of every stage; a batch may also bring back packets alone. PROGRESS facts:
        `number` (of the next item), `time` (no item that is still to come is older; None before the first),
        `last` (time of the last item), `origin` (time of the first item), `ended` (the stream has ended).

        A packet returned for a later stage arrives in the same batch. One for this or an earlier stage is a
        back packet: it arrives at the start of the next batch. One for DELIVER leaves the chain.
        """


@dataclass(frozen=True)
class Chain:
    """The stages of one family on one stream, after order."""

    stages: tuple[Stage, ...]
    spread: Spread

    def zones(self, place: int) -> int:
        """How many zones the stage at this place has; place 0 is order, which has one."""
        return 1 if place == 0 else self.stages[place - 1].zones

    def addresses(self) -> Iterator[tuple[int, int]]:
        """(place, zone) of every zone after order."""
        for place, stage in enumerate(self.stages, start=1):
            for zone in range(stage.zones):
                yield place, zone

    def back_sender(self, sender: Sender) -> Sender:
        """The sender of a back packet, so that it sorts before everything that the next batch brings
        itself.
        """
        return (sender[0] - len(self.stages) - 100, sender[1], sender[2])


def in_order(packets: Sequence[tuple[Sender, Packet]]) -> list[Packet]:
    """Packets as a step gets them."""
    return [packet for _, packet in sorted(packets, key=lambda pair: pair[0])]
