"""How order deals items out to the zones of the first stage of a family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from anabranch.zones.columns import Array


class Spread(ABC):
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
        order = np.argsort(zones, kind="stable")
        sorted_zones = zones[order]
        starts = np.flatnonzero(np.r_[True, sorted_zones[1:] != sorted_zones[:-1]])
        if len(starts) == 1:
            yield int(zones[0]), items
            return
        dealt = items.take(pa.array(order))
        for first, stop in zip(starts, np.r_[starts[1:], len(order)], strict=True):
            yield int(sorted_zones[first]), dealt.slice(first, stop - first)
