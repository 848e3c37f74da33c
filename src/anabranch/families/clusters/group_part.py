"""A group that is split over zones: who owns what part of the space, what a part knows, how parts are merged.

A group begins in one zone, its home. A split gives what a zone owns at or beyond a cut to another zone.

    splits                          a zone's area is a few boxes; its border is what is within the largest
    (0, x, 5.0, 1)    0 | 1         range of one of them
    (0, y, 3.0, 2)   ---+
                      2

Every part gets all points of the group in order of arrival. It adds its own points and the border points to
its structure. For an own point all neighbours are here, so all that is found of it is true. A border point
has neighbours elsewhere: where it is core by those here, it is core; where it is not, only its owner knows.
So of windows that are due a part reports to the group's home

    own points        in which windows they are core, and the trees of these
    border points     the same as far as it knows; where it does not know, which trees they touch
                      (kernels/part_borders): one of two parts is enough for that
    both              the nearest core that it knows of, where it does not know them to be core

and the home merges these reports (`merge_reports`) as if the group were in one zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anabranch.chain.state import Arrays
from anabranch.families.clusters.kernels import neighbour_lists, part_borders, point_roles
from anabranch.families.clusters.kernels.window_forest import NOBODY, WindowTrees
from anabranch.families.clusters.structure import ClusterStructure, Pattern, UnlabelledClusters
from anabranch.model.arrays import Bools, Floats, Ints, Ints32


class AreaSplit(NamedTuple):
    """What `zone` owns at or beyond `cut` on the axis is given to `other`."""

    zone: int
    axis: int
    cut: float
    other: int


@dataclass(frozen=True)
class GroupArea:
    """What `zone` owns of a group that began at `home`."""

    home: int
    zone: int
    splits: tuple[AreaSplit, ...]

    def to_json(self) -> list[Any]:
        return [self.home, [list(split) for split in self.splits]]

    @staticmethod
    def from_json(body: Sequence[Any], zone: int) -> GroupArea:
        home, splits = body
        return GroupArea(home, zone, tuple(AreaSplit(*split) for split in splits))

    def split(self, axis: int, cut: float, other: int) -> GroupArea:
        return replace(self, splits=(*self.splits, AreaSplit(self.zone, axis, cut, other)))

    @property
    def zones(self) -> list[int]:
        """All zones that may own something."""
        return sorted({self.home, *(split.other for split in self.splits)})

    def owners(self, points: Floats) -> Ints32:
        """The zones that own points, [n, axes]."""
        owners = np.full(len(points), self.home, np.int32)
        for zone, axis, cut, other in self.splits:
            owners[(owners == zone) & (points[:, axis] >= cut)] = other
        return owners

    def is_within(self, points: Floats, width: float) -> Bools:
        """Whether points are within `width` of what this zone owns, in each coordinate."""
        within = np.zeros(len(points), bool)
        with np.errstate(invalid="ignore", over="ignore"):
            for box in self._boxes:
                inside = np.ones(len(points), bool)
                for axis, (low, high) in box.items():  # differences, as distances are computed from them
                    inside &= (low - points[:, axis] <= width) & (points[:, axis] - high <= width)
                within |= inside
        return within

    @cached_property
    def _boxes(self) -> list[dict[int, tuple[float, float]]]:
        """The boxes of this zone, by the axes on which they are bounded."""
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


class GroupPart:
    """The part of a group that a zone owns. Positions are those of the group; the structure has its own, from
    0 for the first point that was added to it.
    """

    def __init__(self, axes: int, offset: int, area: GroupArea) -> None:
        self.area, self.stop = area, offset  # the position of the next point
        self.structure = ClusterStructure(axes)
        self._base = 0  # the structure's position of the first point below
        self._positions: Ints = np.empty(0, np.int64)
        self._owners: Ints32 = np.empty(0, np.int32)
        self._width = 0.0

    def set_patterns(self, patterns: Iterable[Pattern]) -> None:
        """From the next point on, the border is as wide as the largest range."""
        patterns = list(patterns)
        self.structure.set_patterns(patterns)
        self._width = neighbour_lists.cell_side(max((reach for reach, _ in patterns), default=0.0))

    @property
    def live(self) -> int:
        """How many of its points a window could still hold at the last `drop_before`."""
        return len(self._positions)

    def add(self, points: Floats) -> int:
        """Adds those of the points, [n, axes], that are in the area or its border; returns how many. They are
        the newest of the group.
        """
        owners = self.area.owners(points)
        mine = np.flatnonzero((owners == self.area.zone) | self.area.is_within(points, self._width))
        if len(mine):
            self.structure.add(points[mine])
            self._positions = np.concatenate([self._positions, self.stop + mine])
            self._owners = np.concatenate([self._owners, owners[mine]])
        self.stop += len(points)
        return len(mine)

    def drop_before(self, position: int) -> None:
        """No window will hold a point before `position` any more."""
        gone = int(np.searchsorted(self._positions, position))
        self.structure.drop_before(self._base + gone)
        self._base += gone
        self._positions, self._owners = self._positions[gone:], self._owners[gone:]
        self.stop = max(self.stop, position)

    def report(self, ranges: Floats, counts: Ints, starts: Ints) -> Arrays:
        """What is known of windows that end with the newest point, for `merge_reports`. They differ and are
        in the order of their ranges. Points are indexes from the first point of all windows.
        """
        base, windows = int(starts.min()), len(starts)
        firsts = np.searchsorted(self._positions, starts)
        least = int(firsts.min())
        if least == len(self._positions):
            return _empty_report(windows)
        unlabelled = self.structure.unlabelled(ranges, counts, firsts + self._base)
        _, masks, trees, edges = unlabelled
        shift = self.structure.offset - self._base  # from an index in the structure to one in the lines below
        index_of = (self._positions - base).astype(np.int32)
        here = np.arange(least, len(index_of)) - shift
        owners, own = self._owners[least:], self._owners[least:] == self.area.zone
        edge, core, window = point_roles.edge_columns(edges)
        borders = here[owners > self.area.zone].astype(np.int32)
        touched = self.structure.touched_trees(borders, unlabelled)
        here = here[own | masks[here].any(axis=1)]
        return {
            "point": index_of[here + shift],
            "own": self._owners[here + shift] == self.area.zone,
            "masks": masks[here, : point_roles.words_used(windows)],
            "runs": np.flatnonzero(np.diff(trees.run, prepend=-1, append=-1)),
            "cells": trees.cell_of[:, here],
            "at": trees.at,
            "leader": trees.leader,
            "first": _moved(trees.first, index_of, shift),
            "edge point": index_of[edge + shift],
            "edge core": index_of[core + shift],
            "edge window": window,
            "touched point": index_of[touched.point + shift],
            "touched window": touched.window,
            "touched tree": touched.tree,
        }


def _moved(first: Ints32, index_of: Ints32, shift: int) -> Ints32:
    moved = first.copy()
    known = first != NOBODY
    moved[known] = index_of[first[known] + shift]
    return moved


def _empty_report(windows: int) -> Arrays:
    empty = np.empty(0, np.int32)
    names = ("point", "leader", "first", "edge point", "edge core", "edge window")
    return dict.fromkeys((*names, "touched point", "touched window", "touched tree"), empty) | {
        "own": np.empty(0, bool),
        "masks": np.empty((0, point_roles.words_used(windows)), np.int64),
        "runs": np.array([0, windows]),
        "cells": np.empty((1, 0), np.int32),
        "at": np.zeros(windows + 1, np.int64),
    }


def merge_reports(
    reports: Sequence[Arrays], ranges: Floats, counts: Ints, starts: Ints, points: Floats
) -> UnlabelledClusters:
    """Cores, trees and edges of the windows that all parts reported on (`GroupPart.report`).

    points: [n, axes], all from the first point of all windows to the newest. Every point has one owner, who
    decides whether it is core.
    """
    rank = np.unique(ranges, return_inverse=True)[1]
    due = point_roles.new_due(rank, counts, starts - starts.min(), int(rank[-1]) + 1)
    masks = np.zeros((len(points), due.counters.shape[1]), np.int64)
    for report in reports:
        own = report["own"]
        masks[report["point"][own], : report["masks"].shape[1]] = report["masks"][own]
    trees, cells, shifts = _side_by_side(reports, len(starts), len(points))
    for report, of_rows, shift in zip(reports, cells, shifts, strict=True):
        borders = np.flatnonzero(~report["own"])
        known = report["masks"][borders]
        part_borders.join_known(trees, masks, report["point"][borders], known, of_rows.take(borders, axis=1))
        touched = (report[f"touched {name}"] for name in ("point", "window", "tree"))
        part_borders.join_touched(trees, masks, part_borders.TouchedTrees(*touched), shift)
    part_borders.flatten(trees)
    point, core, window = (
        np.concatenate([report[f"edge {name}"] for report in reports]) for name in ("point", "core", "window")
    )
    edges = part_borders.nearest_edges(point, core, window, masks, points)
    return UnlabelledClusters(due, masks, trees, edges)


def _side_by_side(
    reports: Sequence[Arrays], windows: int, points: int
) -> tuple[WindowTrees, list[Ints32], list[Ints32]]:
    """The trees of all parts, not joined yet; for each part the cells of its rows, [runs, rows], and where
    its cells begin, [windows].

    A run is some windows in which points count as the same cells. Parts may have cut the windows into
    different runs; here they are cut wherever a part did so.
    """
    edges = np.unique(np.concatenate([report["runs"] for report in reports]))
    run_of = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    each = np.array([np.diff(report["at"]) for report in reports])  # cells by part and window
    shifts = (np.cumsum(each, axis=0) - each).astype(np.int32)
    at = np.concatenate([[0], np.cumsum(each.sum(axis=0))])
    leader, first = np.empty(at[-1], np.int32), np.empty(at[-1], np.int32)
    cell_of = np.zeros((len(edges) - 1, points), np.int32)
    cells = []
    for report, sizes, shift in zip(reports, each, shifts, strict=True):
        to = np.repeat(at[:-1] + shift - report["at"][:-1], sizes) + np.arange(len(report["leader"]))
        leader[to] = report["leader"] + np.repeat(shift, sizes)
        first[to] = report["first"]
        run = np.searchsorted(report["runs"], edges[:-1], side="right") - 1
        of_rows = report["cells"][run] + shift[edges[:-1], None]
        cell_of[:, report["point"][report["own"]]] = of_rows[:, report["own"]]
        cells.append(of_rows)
    return WindowTrees(run_of, cell_of, at, leader, first), cells, list(shifts)
