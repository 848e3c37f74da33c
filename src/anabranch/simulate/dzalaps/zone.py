"""A zone's queries, their candidates, and the items it was sent: the rendezvous side of a peer.

In: the items that homes sent. Out: what became and ceased to be one of the k nearest, and the change of the
merger. The work is done by the modules that the rendezvous stage uses (groups, candidates, interest). Time is
the number of the item: one item a unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anabranch.families.nearest import candidates, interest
from anabranch.families.nearest.groups import Group, Part, part_of
from anabranch.families.nearest.mail import Progress
from anabranch.families.nearest.space import By, Overlay
from anabranch.families.nearest.spec import Nearest
from anabranch.kernels.boxes import BLOCK, boxes_of
from anabranch.kernels.meeting import nobody_met
from anabranch.kernels.nearest_arrays import Items
from anabranch.kernels.skyband import Log
from anabranch.zones.columns import Array
from anabranch.zones.queries import Active
from anabranch.zones.state import State

_NOTHING_ENDS = candidates.Ending({}, {})


@dataclass
class Zone:
    by: By
    buffer: int | None  # how many items are recent; as the stage does it, if None
    queries: dict[int, Active] = field(default_factory=dict)
    state: State = field(default_factory=State)
    known: Array = field(default_factory=lambda: np.empty(0, np.int64))  # numbers, ascending
    low: int = 0  # what is older has left the buffer
    _part: tuple[list[int], Group, Part] | None = None

    def move(self, points: Array, sent: Array, first: int, stop: int) -> tuple[Log, candidates.Moved]:
        """The batch first <= number < stop, of which this zone was sent some, and perhaps some older ones."""
        group, part = self._queries()
        self.known = np.union1d(self.known[self.known >= self.low], sent)
        fresh = int(np.searchsorted(self.known, first))
        late = np.searchsorted(self.known, sent[(sent < first) & (sent >= self.low)]).astype(np.int64)
        place = np.ascontiguousarray(points[self.known].T)
        mask = np.empty((0, len(self.known)), np.bool_)
        items = Items(place, self.known, self.known.copy(), mask, fresh, late, np.int64(first - 1), 0)
        boxes = boxes_of(place, fresh, BLOCK)
        moved = candidates.move(
            self.state, group, part, items, boxes, nobody_met(), stop - 1, _NOTHING_ENDS, True
        )
        return moved.log, moved

    def merge(
        self, overlay: Overlay, moved: candidates.Moved | None, first: int, stop: int
    ) -> tuple[interest.Merger, interest.Merger, Array] | None:
        """After the batch: the merger that homes know, the new one and the cells that changed sides; None if
        nothing changed.
        """
        own = interest.Own(self.state, self.by, overlay, stop)
        before = own.told
        wanted, balls = self._wanted(moved, stop)
        self.low = min(wanted.low, before.low) if before.want == interest.CELLS else wanted.low
        arrived = stop - first
        soon = Progress(stop + 2 * arrived, stop - 1 + 2 * arrived)
        if moved is not None and not own.asks:
            return None
        update = own.update(wanted, balls, arrived, soon)
        return None if update is None else (before, *update)

    def _wanted(self, moved: candidates.Moved | None, stop: int) -> tuple[interest.Merger, interest.Balls]:
        none = interest.Balls(np.empty(0, np.int64), np.empty((0, len(self.by))), np.empty(0))
        if moved is None:
            return interest.Merger(self.by, low=stop), none
        group, part = self._queries()
        limited = moved.until[(moved.radius < np.inf) & (moved.until < group.never)]
        until = int(limited.min()) if len(limited) else None
        low = max(min(stop, moved.low), self.low)
        balls = interest.Balls(part.numbers, part.point, moved.radius)
        return interest.Merger(self.by, interest.CELLS, low, None, until), balls

    def _queries(self) -> tuple[Group, Part]:
        numbers = sorted(self.queries)
        if self._part is None or self._part[0] != numbers:
            group = Group(self.by, "range", np.dtype(np.int64))
            members = [(self.queries[n], Nearest.from_json(self.queries[n].spec)) for n in numbers]
            part = part_of("all", group, members)
            if self.buffer is not None:
                part = replace(part, recent=np.minimum(part.recent, self.buffer))
            self._part = (numbers, group, part)
        return self._part[1], self._part[2]

    # handing over

    def packed(self) -> dict[str, Any]:
        """All that another peer needs to go on, as a copy."""
        return {
            "queries": dict(self.queries),
            "chunks": {key: (self.state.tokens[key], self.state.encoded(key)) for key in self.state.tokens},
            "known": self.known.copy(),
            "low": self.low,
        }

    def unpack(self, packed: dict[str, Any]) -> Zone:
        """A zone that goes on from there."""
        state = State()
        for key, (token, body) in packed["chunks"].items():
            state.load(key, token, body)
        return Zone(
            self.by, self.buffer, dict(packed["queries"]), state, packed["known"].copy(), packed["low"]
        )

    def emptied(self) -> Zone:
        return Zone(self.by, self.buffer)
