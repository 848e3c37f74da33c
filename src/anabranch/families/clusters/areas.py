"""Who owns which part of a plane that is split, and what lies so near a part that it needs it as well.

In: a table of splits, points. Out: the zone that owns each point; which points a part takes. Never: a part
without a neighbour of one of its own points.

A group begins in one zone, its home. A split gives what a zone owns at or beyond a cut to another zone.

    splits                          a zone's area is a few boxes; its border is what is within the largest
    (0, x, 5.0, 1)    0 | 1         range of one of them
    (0, y, 3.0, 2)   ---+
                      2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anabranch.zones.columns import Array


class Split(NamedTuple):
    """What `zone` owns at or beyond `cut` on the axis is `other`'s."""

    zone: int
    axis: int
    cut: float
    other: int


@dataclass(frozen=True)
class Area:
    """What `zone` owns of a group that began at `home`."""

    home: int
    zone: int
    splits: tuple[Split, ...]

    def to_json(self) -> list[Any]:
        return [self.home, [list(split) for split in self.splits]]

    @staticmethod
    def from_json(body: Sequence[Any], zone: int) -> Area:
        home, splits = body
        return Area(home, zone, tuple(Split(*split) for split in splits))

    def split(self, axis: int, cut: float, other: int) -> Area:
        return replace(self, splits=(*self.splits, Split(self.zone, axis, cut, other)))

    @property
    def zones(self) -> list[int]:
        """All zones that may own something."""
        return sorted({self.home, *(split.other for split in self.splits)})

    def owners(self, points: Array) -> Array:
        """The zones that own points, float64[n, axes]: int32[n]."""
        owners = np.full(len(points), self.home, np.int32)
        for zone, axis, cut, other in self.splits:
            owners[(owners == zone) & (points[:, axis] >= cut)] = other
        return owners

    def takes(self, points: Array, width: float) -> Array:
        """Whether points are within `width` of what this zone owns, in each coordinate."""
        taken = np.zeros(len(points), bool)
        with np.errstate(invalid="ignore", over="ignore"):
            for box in self._boxes:
                near = np.ones(len(points), bool)
                for axis, (low, high) in box.items():  # differences, as distances are made of them
                    near &= (low - points[:, axis] <= width) & (points[:, axis] - high <= width)
                taken |= near
        return taken

    @cached_property
    def _boxes(self) -> list[dict[int, tuple[float, float]]]:
        """The boxes that are this zone's, by the axes on which they end somewhere."""
        boxes: list[tuple[int, dict[int, tuple[float, float]]]] = [(self.home, {})]
        for zone, axis, cut, other in self.splits:
            parts = []
            for owner, box in boxes:
                low, high = box.get(axis, (-np.inf, np.inf))
                if owner != zone or cut >= high:
                    parts.append((owner, box))
                elif cut <= low:
                    parts.append((other, box))
                else:
                    parts += [(zone, box | {axis: (low, cut)}), (other, box | {axis: (cut, high)})]
            boxes = parts
        return [box for owner, box in boxes if owner == self.zone]
