"""Zones out of cells by the splits of a Content-Addressable Network (D-ZaLaPS, section 5.1).

In: a grid of cells and how many zones there shall be. Out: which zone has which cell. Every zone is a box of
cells. The first zone has all of them; each further one takes the upper half of the largest, along the
dimensions in turn. A zone is never smaller than a cell: where there are more zones than cells, the last ones
have none. Never: chance; the same grid and number give the same zones everywhere.

    resolution 4, 2 dimensions, 5 zones       2 2 1 1       1 took the right half of 0, then 2 and 3 the
                                              2 2 1 1       upper halves of 0 and 1, and 4 the right half
                                              0 4 3 3       ... of 0's remaining quarter
                                              0 4 3 3
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.zones.cells import Cells
from anabranch.zones.columns import Array


@dataclass(frozen=True)
class Box:
    """The cells from `low` (inclusive) to `high` (exclusive) along each dimension. `turn` is the dimension to
    split next.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    turn: int = 0

    @property
    def cells(self) -> int:
        count = 1
        for low, high in zip(self.low, self.high, strict=True):
            count *= high - low
        return count

    def halves(self) -> tuple[Box, Box] | None:
        """The lower half, which stays, and the upper one, which goes; None for a single cell."""
        dimensions = len(self.low)
        for step in range(dimensions):
            along = (self.turn + step) % dimensions
            middle = (self.low[along] + self.high[along] + 1) // 2
            if middle < self.high[along]:
                turn = (along + 1) % dimensions
                lower = Box(self.low, _with(self.high, along, middle), turn)
                return lower, Box(_with(self.low, along, middle), self.high, turn)
        return None


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def boxes(cells: Cells, zones: int) -> list[Box]:
    """The boxes of the zones, at most one a cell, in the order in which the zones joined."""
    start = Box((0,) * cells.dimensions, (cells.resolution,) * cells.dimensions)
    out = [start]
    while len(out) < zones:
        largest = max(range(len(out)), key=lambda zone: (out[zone].cells, -zone))
        halves = out[largest].halves()
        if halves is None:
            break
        out[largest] = halves[0]
        out.append(halves[1])
    return out


def zones_of_cells(cells: Cells, zones: int) -> Array:
    """The zone of every cell, int32[cells.count]."""
    zone_of = np.empty((cells.resolution,) * cells.dimensions, np.int32)
    for zone, box in enumerate(boxes(cells, zones)):
        zone_of[tuple(slice(low, high) for low, high in zip(box.low, box.high, strict=True))] = zone
    return zone_of.reshape(-1)
