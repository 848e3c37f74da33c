"""The grid of cells over a coordinate space, and zones made of them.

A grid is a box of the coordinate space, cut into equal parts along every dimension. Cells are numbered row by
row (the last dimension runs fastest). A point beyond the bounds belongs to the nearest cell, so the outermost
cells reach to infinity.

    resolution 4, bounds (0, 8) x (0, 4)      (1.5, 3.2) -> column 0, row 3 -> cell 3
                                              (99, -7)   -> column 3, row 0 -> cell 12

Zones are boxes of cells, made by the splits of a Content-Addressable Network (D-ZaLaPS, section 5.1). The
first zone has all cells; each further one takes the upper half of the largest, along the dimensions in turn.
A zone is never smaller than a cell: where there are more zones than cells, the last ones have none. The same
grid and number of zones give the same zones everywhere.

    resolution 4, 2 dimensions, 5 zones       2 2 1 1       1 took the right half of 0, then 2 and 3 the
                                              2 2 1 1       upper halves of 0 and 1, and 4 the right half
                                              0 4 3 3       of 0's remaining quarter
                                              0 4 3 3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import Floats, Ints, Ints32

#: About as many cells as the paper's experiments use, whatever the number of dimensions (section 6.3).
MOST_CELLS = 1 << 16
FINEST = 1024

Bounds = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class CellGrid:
    """`resolution` cells along each dimension of `bounds`."""

    bounds: Bounds
    resolution: int

    @staticmethod
    def over(bounds: Sequence[tuple[float, float]]) -> CellGrid:
        """Returns the grid with about MOST_CELLS cells: 256 x 256, 16 x 16 x 16 x 16, and 1 cell from 17
        dimensions on.
        """
        resolution = int(MOST_CELLS ** (1 / len(bounds)) + 1e-9)
        return CellGrid(tuple((float(low), float(high)) for low, high in bounds), min(resolution, FINEST))

    @property
    def dimensions(self) -> int:
        return len(self.bounds)

    @property
    def count(self) -> int:
        return int(self.resolution**self.dimensions)

    @property
    def low(self) -> Floats:
        return np.array([low for low, _ in self.bounds], np.float64)

    @property
    def scale(self) -> Floats:
        """Cells per unit of length, along each dimension; 0 where the bounds have no extent, which is then
        one cell.
        """
        widths = np.array([high - low for low, high in self.bounds], np.float64)
        usable = np.isfinite(widths) & (widths > 0)
        return np.where(usable, self.resolution / np.where(usable, widths, 1.0), 0.0)

    def cells_of(self, points: Floats) -> Ints:
        """Returns the cells of points, [n, dimensions]; -1 for a point with a missing coordinate."""
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (points - self.low) * self.scale
        steps = np.clip(np.nan_to_num(scaled, nan=0.0), 0, self.resolution - 1).astype(np.int64)
        cells = np.zeros(len(points), np.int64)
        for dimension in range(self.dimensions):
            cells = cells * self.resolution + steps[:, dimension]
        cells[np.isnan(points).any(axis=1)] = -1
        return cells

    def whole_box(self) -> CellBox:
        """Returns the box of all cells."""
        return CellBox((0,) * self.dimensions, (self.resolution,) * self.dimensions)


@dataclass(frozen=True)
class CellBox:
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

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(low, high) for low, high in zip(self.low, self.high, strict=True))

    def halves(self) -> tuple[CellBox, CellBox] | None:
        """Returns the lower half, which stays, and the upper one, which goes; None for a single cell."""
        dimensions = len(self.low)
        for step in range(dimensions):
            along = (self.turn + step) % dimensions
            middle = (self.low[along] + self.high[along] + 1) // 2
            if middle < self.high[along]:
                turn = (along + 1) % dimensions
                lower = CellBox(self.low, _with(self.high, along, middle), turn)
                return lower, CellBox(_with(self.low, along, middle), self.high, turn)
        return None


def _with(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def zone_boxes(grid: CellGrid, zones: int) -> list[CellBox]:
    """Returns the boxes of the zones, at most one per cell, in the order in which the zones joined."""
    out = [grid.whole_box()]
    while len(out) < zones:
        largest = max(range(len(out)), key=lambda zone: (out[zone].cells, -zone))
        halves = out[largest].halves()
        if halves is None:
            break
        out[largest] = halves[0]
        out.append(halves[1])
    return out


def zones_of_cells(grid: CellGrid, zones: int) -> Ints32:
    """Returns the zone of every cell, [grid.count]."""
    zone_of = np.empty((grid.resolution,) * grid.dimensions, np.int32)
    for zone, box in enumerate(zone_boxes(grid, zones)):
        zone_of[box.slices] = zone
    return zone_of.reshape(-1)
