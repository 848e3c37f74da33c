"""One part of a group that is split over zones: the structure of what a zone owns and of the border around.

In: all points of the group, in order of arrival, of which it takes its own and those within the largest range
of them. Out: what it knows of windows that are due, for the group's home to be merged with what other parts
know. Never: a say about whether another part's point is core, but that it is.

For an own point all neighbours are here, so all that is found of it holds. A border point has neighbours
elsewhere: where it is core by those here, it is core; where it is not, its owner knows. So a part tells

    own points        in which windows they are core, and the trees of these
    border points     the same as far as it knows; where it does not know, which trees they touch
                      (kernels/crossings): one of two parts is enough for that
    both              the nearest core that it knows of, where it does not know them to be core
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from anabranch.families.clusters.areas import Area
from anabranch.families.clusters.structure import Pattern, Structure
from anabranch.kernels import cores, nearest_core, searchgrid
from anabranch.kernels.forest import NOBODY
from anabranch.zones.columns import Array
from anabranch.zones.state import Arrays


class Part:
    """Positions are those of the group; the structure has its own, from 0 for the first point it took."""

    def __init__(self, axes: int, offset: int, area: Area) -> None:
        self.area, self.stop = area, offset  # the position of the next point
        self.structure = Structure(axes)
        self._begin = 0  # the structure's position of the first point below
        self._positions: Array = np.empty(0, np.int64)
        self._owners: Array = np.empty(0, np.int32)
        self._width = 0.0

    def ask(self, patterns: Iterable[Pattern]) -> None:
        """From the next point on, the border is as wide as the largest range."""
        asked = list(patterns)
        self.structure.ask(asked)
        self._width = searchgrid.cell_side(max((reach for reach, _ in asked), default=0.0))

    @property
    def live(self) -> int:
        """How many of its points a window could still hold when that was worked out last."""
        return len(self._positions)

    def append(self, points: Array) -> int:
        """Takes of points float64[n, axes], the newest of the group, what is in or near its area; returns how
        many.
        """
        owners = self.area.owners(points)
        taken = np.flatnonzero((owners == self.area.zone) | self.area.takes(points, self._width))
        if len(taken):
            self.structure.append(points[taken])
            self._positions = np.concatenate([self._positions, self.stop + taken])
            self._owners = np.concatenate([self._owners, owners[taken]])
        self.stop += len(points)
        return len(taken)

    def forget(self, position: int) -> None:
        """No window will hold a point before `position` any more."""
        gone = int(np.searchsorted(self._positions, position))
        self.structure.forget(self._begin + gone)
        self._begin += gone
        self._positions, self._owners = self._positions[gone:], self._owners[gone:]
        self.stop = max(self.stop, position)

    def known(self, ranges: Array, counts: Array, starts: Array) -> Arrays:
        """What is known of such windows, which are given by range and end with the newest point: arrays as
        `merge` reads them. Places of points count from the first point of all windows.
        """
        base, windows = int(starts.min()), len(starts)
        firsts = np.searchsorted(self._positions, starts)
        least = int(firsts.min())
        if least == len(self._positions):
            return _nothing(windows)
        grown = self.structure.grown(ranges, counts, firsts + self._begin)
        _, masks, woods, edges = grown
        shift = self.structure.offset - self._begin  # of a place here to one among the positions below
        places = (self._positions - base).astype(np.int32)
        here = np.arange(least, len(places)) - shift
        owners, own = self._owners[least:], self._owners[least:] == self.area.zone
        edge, core, window = nearest_core.one_by_one(edges)
        touched = self.structure.touched(here[owners > self.area.zone].astype(np.int32), grown)
        here = here[own | masks[here].any(axis=1)]
        return {
            "place": places[here + shift],
            "own": self._owners[here + shift] == self.area.zone,
            "masks": masks[here, : cores.words_used(windows)],
            "runs": np.flatnonzero(np.diff(woods.part, prepend=-1, append=-1)),
            "cells": woods.cell_of[:, here],
            "at": woods.at,
            "leader": woods.leader,
            "first": _moved(woods.first, places, shift),
            "edge point": places[edge + shift],
            "edge core": places[core + shift],
            "edge window": window,
            "touched point": places[touched.point + shift],
            "touched window": touched.window,
            "touched tree": touched.tree,
        }


def _moved(first: Array, places: Array, shift: int) -> Array:
    moved = first.copy()
    known = first != NOBODY
    moved[known] = places[first[known] + shift]
    return moved


def _nothing(windows: int) -> Arrays:
    empty = np.empty(0, np.int32)
    names = ("place", "leader", "first", "edge point", "edge core", "edge window")
    return dict.fromkeys((*names, "touched point", "touched window", "touched tree"), empty) | {
        "own": np.empty(0, bool),
        "masks": np.empty((0, cores.words_used(windows)), np.int64),
        "runs": np.array([0, windows]),
        "cells": np.empty((1, 0), np.int32),
        "at": np.zeros(windows + 1, np.int64),
    }
