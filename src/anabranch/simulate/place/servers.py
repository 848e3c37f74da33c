"""Nine regional servers: the stages of the moving family, a zone a server, with a clock for each.

In: the reports and new queries of a second. Out: what every stage sent, and how long each server worked.
Never: an answer of its own.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.families.registry import family
from anabranch.model.control import Control
from anabranch.simulate.place.world import SERVERS, STREAM, Array
from anabranch.zones.asked import control_packets
from anabranch.zones.order import Order
from anabranch.zones.packets import DELIVER, ORDER, Kind, Packet
from anabranch.zones.stage import CONTROL, ROUTE, Sender, Stage, in_order
from anabranch.zones.state import State

REGION, ASSEMBLE = "region", "assemble"


@dataclass
class Second:
    """What the stages did in a second, by their names."""

    sent: dict[str, list[Packet]] = field(default_factory=dict)
    spent: dict[str, Array] = field(default_factory=dict)  # processor seconds, by server

    def slowest(self, stage: str) -> float:
        return float(self.spent[stage].max())


class Servers:
    def __init__(self) -> None:
        chain = family("moving").chain(STREAM, SERVERS)
        self._stages: list[Stage] = [Order(STREAM, chain), *chain.stages]
        self._states: dict[tuple[int, int], State] = defaultdict(State)

    def second(self, items: pa.RecordBatch | None, control: Sequence[Control] = ()) -> Second:
        mail: dict[tuple[int, int], list[tuple[Sender, Packet]]] = defaultdict(list)
        for count, packet in enumerate(control_packets(control)):
            mail[ORDER, 0].append(((CONTROL, 0, count), packet))
        if items is not None:
            mail[ORDER, 0].append(((ROUTE, 0, 0), Packet(ORDER, 0, Kind.ITEMS, items, {"source": [0]})))
        done = Second()
        for place, stage in enumerate(self._stages):
            done.sent[stage.name], done.spent[stage.name] = [], np.zeros(SERVERS)
            for zone in range(SERVERS):
                if (place, zone) not in mail:
                    continue
                begun = time.process_time()
                sent = stage.step(zone, self._states[place, zone], in_order(mail[place, zone]))
                done.spent[stage.name][zone] = time.process_time() - begun
                done.sent[stage.name] += sent
                for count, packet in enumerate(sent):
                    if packet.stage != DELIVER:
                        mail[packet.stage, packet.zone].append(((place, zone, count), packet))
        return done
