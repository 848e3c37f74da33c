"""Peers on a torus of cells: who has which zone, who is next to whom, and how a message finds its way.

In: peers that join, leave or fail. Out: the zone and the peer of a cell, neighbours, routes, and who takes a
zone over. The zones always partition the torus. Each is a box of cells, split in half on a join, along the
dimensions in turn, and never smaller than a cell. A peer that leaves hands its zones as they are to a
neighbour, which then has several. Never: what is stored in a zone; whoever keeps that moves it as the zones
move.

    resolution 4, 2 dimensions      0 0 1 1      2 joined at a cell of zone 0: the upper half of its rows
                                    0 0 1 1      neighbours of 2: 0, 1 (and 0 again around the torus)
                                    2 2 1 1
                                    2 2 1 1
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anabranch.zones.can.boxes import Box
from anabranch.zones.cells import Cells
from anabranch.zones.columns import Array


@dataclass(frozen=True)
class Split:
    """A join: `zone` kept its lower half, `new` is the upper one and belongs to the new peer."""

    zone: int
    new: int
    peer: int


class Can:
    def __init__(self, cells: Cells) -> None:
        """One peer, 0, which has the one zone, 0."""
        self.cells = cells
        start = Box((0,) * cells.dimensions, (cells.resolution,) * cells.dimensions)
        self.boxes: list[Box] = [start]
        self.peer_of: list[int] = [0]  # by zone
        self.peers: set[int] = {0}
        self.zone_of = np.zeros(cells.count, np.int32)
        self._next = 1
        self._near: dict[int, list[int]] = {}
        self._links: int | None = None

    # who is where

    def zones_of(self, peer: int) -> list[int]:
        return [zone for zone, holder in enumerate(self.peer_of) if holder == peer]

    def volume(self, peer: int) -> int:
        """How many cells a peer has."""
        return sum(self.boxes[zone].cells for zone in self.zones_of(peer))

    def neighbours(self, zone: int) -> list[int]:
        """The zones that share a face with this one on the torus, ascending."""
        if zone not in self._near:
            self._near[zone] = self._found(zone)
        return self._near[zone]

    def peers_near(self, peer: int) -> list[int]:
        """The peers of neighbouring zones, ascending."""
        near = {self.peer_of[other] for zone in self.zones_of(peer) for other in self.neighbours(zone)}
        return sorted(near - {peer})

    @property
    def links(self) -> int:
        """How many messages it takes that every peer informs its neighbours."""
        if self._links is None:
            pairs = {
                (self.peer_of[zone], self.peer_of[other])
                for zone in range(len(self.boxes))
                for other in self.neighbours(zone)
            }
            self._links = sum(peer != other for peer, other in pairs)
        return self._links

    def _found(self, zone: int) -> list[int]:
        low = np.array([box.low for box in self.boxes])
        high = np.array([box.high for box in self.boxes])
        box, side = self.boxes[zone], self.cells.resolution
        overlap = (low < box.high) & (high > box.low)
        abut = ((low - box.high) % side == 0) | ((high - box.low) % side == 0)
        faces = np.zeros(len(self.boxes), np.bool_)
        for along in range(self.cells.dimensions):
            others = [place for place in range(self.cells.dimensions) if place != along]
            faces |= abut[:, along] & overlap[:, others].all(axis=1)
        faces[zone] = False
        return [int(other) for other in np.flatnonzero(faces)]

    # the way of a message

    def gap(self, zone: int, cell: int) -> int:
        """How many steps from cell to cell a zone is away from a cell; 0 if it has it."""
        side, total = self.cells.resolution, 0
        box = self.boxes[zone]
        for place, low, high in zip(self._steps(cell), box.low, box.high, strict=True):
            if not low <= place < high:
                total += min((low - place) % side, (place - high + 1) % side)
        return total

    def route(self, zone: int, cell: int) -> list[int]:
        """The zones that a message for a cell passes, from `zone` on: greedily, always to the neighbour that
        is nearest to the cell. The zone that has the cell one step nearer than this one is a neighbour, so
        every hop comes nearer, and the message arrives.
        """
        way = [zone]
        while self.zone_of[cell] != way[-1]:
            way.append(min(self.neighbours(way[-1]), key=lambda other: (self.gap(other, cell), other)))
        return way

    def hops(self, zone: int, cell: int) -> int:
        """How often a message for a cell goes from one peer to another."""
        way = [self.peer_of[passed] for passed in self.route(zone, cell)]
        return sum(here != there for here, there in pairwise(way))

    def _steps(self, cell: int) -> list[int]:
        steps = []
        for _ in range(self.cells.dimensions):
            cell, step = divmod(cell, self.cells.resolution)
            steps.append(step)
        return steps[::-1]

    # joins, departures and failures

    def join(self, cell: int) -> Split | None:
        """A new peer takes half of the zone that has this cell; None if that zone is a single cell."""
        zone = int(self.zone_of[cell])
        halves = self.boxes[zone].halves()
        if halves is None:
            return None
        split = Split(zone, len(self.boxes), self._next)
        self._next += 1
        self.boxes[zone], upper = halves
        self.boxes.append(upper)
        self.peer_of.append(split.peer)
        self.peers.add(split.peer)
        self._block(upper)[...] = split.new
        self._near.clear()
        self._links = None
        return split

    def heir(self, peer: int, among: Iterable[int] | None = None) -> int:
        """Who takes over from a peer: of its neighbours, or of those `among` them, the one with the fewest
        cells.
        """
        near = [other for other in self.peers_near(peer) if other in self.peers]
        if among is not None:
            near = [other for other in among if other in near]
        if not near:
            raise ValueError(f"peer {peer} has no neighbour left that could take over")
        return min(near, key=lambda other: (self.volume(other), other))

    def remove(self, peer: int, heir: int) -> list[int]:
        """The peer is gone; its zones, which are returned, are the heir's."""
        if heir == peer or heir not in self.peers:
            raise ValueError(f"peer {heir} cannot take over from peer {peer}")
        zones = self.zones_of(peer)
        for zone in zones:
            self.peer_of[zone] = heir
        self.peers.discard(peer)
        self._links = None
        return zones

    def _block(self, box: Box) -> Array:
        """The zones of the cells of a box, as a part of zone_of."""
        grid = self.zone_of.reshape((self.cells.resolution,) * self.cells.dimensions)
        return grid[tuple(slice(low, high) for low, high in zip(box.low, box.high, strict=True))]
