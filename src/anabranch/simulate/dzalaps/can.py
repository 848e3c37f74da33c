"""A Content-Addressable Network: peers on a torus of cells (D-ZaLaPS, sections 5.1 and 5.3).

It knows which peer has which zone, which zones are neighbours, and how a message finds its way, while peers
join, leave or fail. The zones always partition the torus. Each is a box of cells, split in half on a join,
along the dimensions in turn, and never smaller than a cell. A peer that leaves hands its zones as they are to
a neighbour, which then has several. What is stored in a zone is moved by whoever keeps it.

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

from anabranch.families.nearest.space import CellBox, CellGrid
from anabranch.model.arrays import Ints32


@dataclass(frozen=True)
class PeerJoin:
    """A join: `zone` kept its lower half, `new` is the upper one and belongs to the new peer."""

    zone: int
    new: int
    peer: int


class Can:
    def __init__(self, grid: CellGrid) -> None:
        """One peer, 0, which has the one zone, 0."""
        self.grid = grid
        self.boxes: list[CellBox] = [grid.whole_box()]
        self.peer_of: list[int] = [0]  # by zone
        self.peers: set[int] = {0}
        self.zone_of = np.zeros(grid.count, np.int32)
        self._next = 1
        self._neighbours: dict[int, list[int]] = {}
        self._links: int | None = None

    # who is where

    def zones_of(self, peer: int) -> list[int]:
        return [zone for zone, holder in enumerate(self.peer_of) if holder == peer]

    def volume(self, peer: int) -> int:
        """Returns how many cells a peer has."""
        return sum(self.boxes[zone].cells for zone in self.zones_of(peer))

    def neighbours(self, zone: int) -> list[int]:
        """Returns the zones that share a face with this one on the torus, ascending."""
        if zone not in self._neighbours:
            self._neighbours[zone] = self._touching(zone)
        return self._neighbours[zone]

    def neighbour_peers(self, peer: int) -> list[int]:
        """Returns the peers of neighbouring zones, ascending."""
        peers = {self.peer_of[other] for zone in self.zones_of(peer) for other in self.neighbours(zone)}
        return sorted(peers - {peer})

    @property
    def links(self) -> int:
        """How many messages it takes for every peer to inform its neighbours."""
        if self._links is None:
            pairs = {
                (self.peer_of[zone], self.peer_of[other])
                for zone in range(len(self.boxes))
                for other in self.neighbours(zone)
            }
            self._links = sum(peer != other for peer, other in pairs)
        return self._links

    def _touching(self, zone: int) -> list[int]:
        low = np.array([box.low for box in self.boxes])
        high = np.array([box.high for box in self.boxes])
        box, side = self.boxes[zone], self.grid.resolution
        overlap = (low < box.high) & (high > box.low)
        abut = ((low - box.high) % side == 0) | ((high - box.low) % side == 0)
        faces = np.zeros(len(self.boxes), np.bool_)
        for along in range(self.grid.dimensions):
            others = [other for other in range(self.grid.dimensions) if other != along]
            faces |= abut[:, along] & overlap[:, others].all(axis=1)
        faces[zone] = False
        return [int(other) for other in np.flatnonzero(faces)]

    # the way of a message

    def gap(self, zone: int, cell: int) -> int:
        """Returns how many steps from cell to cell a zone is away from a cell; 0 if it has it."""
        side, total = self.grid.resolution, 0
        box = self.boxes[zone]
        for step, low, high in zip(self._steps(cell), box.low, box.high, strict=True):
            if not low <= step < high:
                total += min((low - step) % side, (step - high + 1) % side)
        return total

    def route(self, zone: int, cell: int) -> list[int]:
        """Returns the zones that a message for a cell passes, from `zone` on: greedily, always to the
        neighbour that is nearest to the cell. The zone that has the cell one step nearer than this one is a
        neighbour, so every hop comes nearer, and the message arrives.
        """
        way = [zone]
        while self.zone_of[cell] != way[-1]:
            way.append(min(self.neighbours(way[-1]), key=lambda other: (self.gap(other, cell), other)))
        return way

    def hops(self, zone: int, cell: int) -> int:
        """Returns how often a message for a cell goes from one peer to another."""
        way = [self.peer_of[passed] for passed in self.route(zone, cell)]
        return sum(here != there for here, there in pairwise(way))

    def _steps(self, cell: int) -> list[int]:
        steps = []
        for _ in range(self.grid.dimensions):
            cell, step = divmod(cell, self.grid.resolution)
            steps.append(step)
        return steps[::-1]

    # joins, departures and failures

    def join(self, cell: int) -> PeerJoin | None:
        """Adds a peer, which takes half of the zone that has this cell; None if that is a single cell."""
        zone = int(self.zone_of[cell])
        halves = self.boxes[zone].halves()
        if halves is None:
            return None
        join = PeerJoin(zone, len(self.boxes), self._next)
        self._next += 1
        self.boxes[zone], upper = halves
        self.boxes.append(upper)
        self.peer_of.append(join.peer)
        self.peers.add(join.peer)
        self._zones_in(upper)[...] = join.new
        self._neighbours.clear()
        self._links = None
        return join

    def heir(self, peer: int, among: Iterable[int] | None = None) -> int:
        """Returns who takes over from a peer: of its neighbours, or of those `among` them, the one with the
        fewest cells.
        """
        heirs = [other for other in self.neighbour_peers(peer) if other in self.peers]
        if among is not None:
            heirs = [other for other in among if other in heirs]
        if not heirs:
            raise ValueError(f"peer {peer} has no neighbour left that could take over")
        return min(heirs, key=lambda other: (self.volume(other), other))

    def remove(self, peer: int, heir: int) -> list[int]:
        """Removes a peer. Returns its zones, which are the heir's from now on."""
        if heir == peer or heir not in self.peers:
            raise ValueError(f"peer {heir} cannot take over from peer {peer}")
        zones = self.zones_of(peer)
        for zone in zones:
            self.peer_of[zone] = heir
        self.peers.discard(peer)
        self._links = None
        return zones

    def _zones_in(self, box: CellBox) -> Ints32:
        """Returns the zones of the cells of a box, as a view of zone_of."""
        return self.zone_of.reshape((self.grid.resolution,) * self.grid.dimensions)[box.slices]
