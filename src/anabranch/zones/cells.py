"""The grid of cells: a box of the coordinate space, cut into equal parts along every dimension.

In: bounds and points. Out: cells, numbered row by row (the last dimension runs fastest). A point beyond the
bounds belongs to the nearest cell, so the outermost cells reach to infinity. Never: a zone; which zone has
which cells is can.py's matter.

    resolution 4, bounds (0, 8) x (0, 4)      (1.5, 3.2) -> column 0, row 3 -> cell 3
                                              (99, -7)   -> column 3, row 0 -> cell 12
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.zones.columns import Array

#: About as many cells as the paper's experiments use, whatever the number of dimensions (section 6.3).
MOST_CELLS = 1 << 16
FINEST = 1024

Bounds = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Cells:
    """`resolution` cells along each dimension of `bounds`."""

    bounds: Bounds
    resolution: int

    @staticmethod
    def over(bounds: Sequence[tuple[float, float]]) -> Cells:
        """The grid with about MOST_CELLS cells: 256 x 256, 16 x 16 x 16 x 16, and 1 cell from 17 dimensions
        on.
        """
        resolution = int(MOST_CELLS ** (1 / len(bounds)) + 1e-9)
        return Cells(tuple((float(low), float(high)) for low, high in bounds), min(resolution, FINEST))

    @property
    def dimensions(self) -> int:
        return len(self.bounds)

    @property
    def count(self) -> int:
        return int(self.resolution**self.dimensions)

    @property
    def low(self) -> Array:
        return np.array([low for low, _ in self.bounds], np.float64)

    @property
    def scale(self) -> Array:
        """Cells a unit of length, along each dimension; 0 where the bounds have no extent, which is then one
        cell.
        """
        widths = np.array([high - low for low, high in self.bounds], np.float64)
        usable = np.isfinite(widths) & (widths > 0)
        return np.where(usable, self.resolution / np.where(usable, widths, 1.0), 0.0)

    def of(self, points: Array) -> Array:
        """The cells of points, float64[n, dimensions]; -1 for a point with a missing coordinate. int64[n]."""
        with np.errstate(invalid="ignore", over="ignore"):
            steps = (points - self.low) * self.scale
        steps = np.clip(np.nan_to_num(steps, nan=0.0), 0, self.resolution - 1).astype(np.int64)
        cells = np.zeros(len(points), np.int64)
        for dimension in range(self.dimensions):
            cells = cells * self.resolution + steps[:, dimension]
        cells[np.isnan(points).any(axis=1)] = -1
        return cells
