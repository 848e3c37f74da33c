"""The homes of all items: recent buffers, who was sent what, and which zone wants which cells.

In: items as they arrive, mergers as they change. Out: the items to send to a zone, by the rules of the home
stage (families/nearest/home.py), for all homes at once: a home's part are its cells. Never: an item twice to
the same zone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.families.nearest.interest import ALL, NONE, Merger
from anabranch.zones.columns import Array


class Homes:
    def __init__(self, cell: Array, cells: int) -> None:
        """cell: the cells of all items to come, int64[n]."""
        self.cell = cell
        self.cells = cells
        self.told: dict[int, Merger] = {}
        self.flags: dict[int, Array] = {}  # bool[cells]
        self.grown: set[int] = set()
        self.low = 0  # the oldest item in the buffers
        self.stop = 0
        self.sent: dict[int, Array] = {}  # bool, from `low` on
        self.lost = np.empty(0, np.bool_)  # items that went with their home

    def arrive(self, stop: int) -> None:
        more = stop - self.stop
        self.sent = {zone: np.r_[marks, np.zeros(more, np.bool_)] for zone, marks in self.sent.items()}
        self.lost = np.r_[self.lost, np.zeros(more, np.bool_)]
        self.stop = stop

    def send(self, zone: int, merger: Merger | None, begun: bool, first: int, stop: int) -> Array:
        """The numbers of the items that a zone gets now, ascending."""
        marks = self.sent.setdefault(zone, np.zeros(self.stop - self.low, np.bool_))
        if merger is not None and (merger.want == ALL or not merger.holds(stop, stop - 1)):
            want = np.ones(len(marks), np.bool_)
        else:
            want = np.zeros(len(marks), np.bool_)
            since = self.low if zone in self.grown else first
            if merger is not None:
                want[since - self.low :] = self.flags[zone][self.cell[since : self.stop]]
            if begun:
                want[first - self.low :] = True
        self.grown.discard(zone)
        now = want & ~marks & ~self.lost
        marks |= now
        return self.low + np.flatnonzero(now)

    def hear(self, zone: int, merger: Merger, toggled: Array) -> None:
        """A merger changed; in effect from the next batch on."""
        before = self.told.get(zone)
        if merger.want == NONE:
            self.told.pop(zone, None)
            self.flags.pop(zone, None)
            self.sent.pop(zone, None)
            return
        flags = self.flags.setdefault(zone, np.zeros(self.cells, np.bool_))
        flags[toggled] ^= True
        if len(toggled) or before is None or before.want != merger.want:
            self.grown.add(zone)
        self.told[zone] = merger

    def forget(self, low: int) -> None:
        """Nobody wants what is older."""
        drop = max(0, low - self.low)
        self.sent = {zone: marks[drop:] for zone, marks in self.sent.items()}
        self.lost = self.lost[drop:]
        self.low += drop

    def split(self, zone: int, new: int) -> None:
        """A zone was split: both halves want and have what the whole did."""
        for table in (self.flags, self.sent):
            if zone in table:
                table[new] = table[zone].copy()
        if zone in self.told:
            self.told[new] = self.told[zone]
        if zone in self.grown:
            self.grown.add(new)

    # failures

    def lose(self, cells: Array) -> None:
        """The home of these cells failed: its buffer is gone, and what it knew of others' interest."""
        self.lost |= np.isin(self.cell[self.low : self.stop], cells)
        for flags in self.flags.values():
            flags[cells] = False

    def packed(self, cells: Array) -> dict[str, Any]:
        """What the home of these cells holds, as a copy."""
        here = np.isin(self.cell[self.low : self.stop], cells) & ~self.lost
        flags = {zone: flags[cells] for zone, flags in self.flags.items()}
        return {"items": self.low + np.flatnonzero(here), "flags": flags}

    def restore(self, cells: Array, packed: dict[str, Any]) -> None:
        items = packed["items"]
        self.lost[items[items >= self.low] - self.low] = False
        for zone, flags in packed["flags"].items():
            if zone in self.flags:
                self.flags[zone][cells] = flags
