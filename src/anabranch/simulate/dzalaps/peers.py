"""What peers keep and do: the home side for all peers at once, and the rendezvous side zone by zone.

The rules are those of the stages, and so is the code (families/nearest: interest, query_groups).
Time is the number of the item: one item per unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anabranch.chain.control import Query
from anabranch.chain.state import State
from anabranch.families.nearest import query_groups
from anabranch.families.nearest.interest import (
    CELLS,
    NONE,
    HomeInterest,
    Merger,
    OwnMerger,
    QueryBalls,
    StreamProgress,
    wanted_items,
)
from anabranch.families.nearest.kernels.arrays import Items
from anabranch.families.nearest.kernels.item_boxes import BLOCK, boxes_of, unknown
from anabranch.families.nearest.query_groups import (
    Cancellations,
    ChunkUpdate,
    QueryChunk,
    QueryGroup,
    chunk_of,
)
from anabranch.families.nearest.rendezvous import MOST_RECENT
from anabranch.families.nearest.space import By, CellGrid
from anabranch.families.nearest.spec import Nearest
from anabranch.model.arrays import Bools, Floats, Ints, Ints32


class PeerHomes:
    """The homes of all items: recent buffers, which zone was sent what, and which zone wants which cells.

    A peer is home to the cells of its zones. An item is never sent twice to the same zone.
    """

    def __init__(self, cell: Ints, cells: int) -> None:
        """cell: the cells of all items to come, [n]"""
        self.cell = cell
        self.cells = cells
        self.mergers: dict[int, Merger] = {}  # by zone
        self.flags: dict[int, Bools] = {}  # by zone, [cells]
        self.grown: set[int] = set()
        self.low = 0  # the oldest item in the buffers
        self.stop = 0
        self.sent: dict[int, Bools] = {}  # by zone, from `low` on
        self.lost: Bools = np.empty(0, np.bool_)  # items that went with their home

    def arrive(self, stop: int) -> None:
        """The items before `stop` have reached their homes."""
        more = stop - self.stop
        self.sent = {zone: np.r_[marks, np.zeros(more, np.bool_)] for zone, marks in self.sent.items()}
        self.lost = np.r_[self.lost, np.zeros(more, np.bool_)]
        self.stop = stop

    def send(self, zone: int, new_query: bool, first: int, stop: int) -> Ints:
        """Returns the numbers of the items that a zone gets now, ascending."""
        marks = self.sent.setdefault(zone, np.zeros(self.stop - self.low, np.bool_))
        merger, grown = self.mergers.get(zone), zone in self.grown
        interests = []
        if merger is not None:
            cells = self.cell[self.low : self.stop]
            interests.append(HomeInterest(merger, grown, lambda: self.flags[zone], lambda: cells))
        progress = StreamProgress(stop, stop - 1)
        since, want = wanted_items(interests, new_query, progress, first - self.low, len(marks))
        self.grown.discard(zone)
        now = want & ~marks[since:] & ~self.lost[since:]
        marks[since:] |= now
        return self.low + since + np.flatnonzero(now)

    def update(self, zone: int, merger: Merger, toggled: Ints32) -> None:
        """Updates the merger of a zone; in effect from the next batch on. toggled: the cells that changed
        sides
        """
        before = self.mergers.get(zone)
        if merger.want == NONE:
            self.mergers.pop(zone, None)
            self.flags.pop(zone, None)
            self.sent.pop(zone, None)
            return
        flags = self.flags.setdefault(zone, np.zeros(self.cells, np.bool_))
        flags[toggled] ^= True
        if len(toggled) or before is None or before.want != merger.want:
            self.grown.add(zone)
        self.mergers[zone] = merger

    def drop_before(self, low: int) -> None:
        """Drops the items that nobody wants any more."""
        drop = max(0, low - self.low)
        self.sent = {zone: marks[drop:] for zone, marks in self.sent.items()}
        self.lost = self.lost[drop:]
        self.low += drop

    def split(self, zone: int, new: int) -> None:
        """A zone was split: both halves want and have what the whole did."""
        for table in (self.flags, self.sent):
            if zone in table:
                table[new] = table[zone].copy()
        if zone in self.mergers:
            self.mergers[new] = self.mergers[zone]
        if zone in self.grown:
            self.grown.add(new)

    # failures

    def lose(self, cells: Ints) -> None:
        """The home of these cells failed: its buffer is gone, and what it knew of others' interest."""
        self.lost |= np.isin(self.cell[self.low : self.stop], cells)
        for flags in self.flags.values():
            flags[cells] = False

    def packed(self, cells: Ints) -> dict[str, Any]:
        """Returns a copy of what the home of these cells has."""
        here = np.isin(self.cell[self.low : self.stop], cells) & ~self.lost
        flags = {zone: flags[cells] for zone, flags in self.flags.items()}
        return {"items": self.low + np.flatnonzero(here), "flags": flags}

    def restore(self, cells: Ints, packed: dict[str, Any]) -> None:
        items = packed["items"]
        self.lost[items[items >= self.low] - self.low] = False
        for zone, flags in packed["flags"].items():
            if zone in self.flags:
                self.flags[zone][cells] = flags


@dataclass
class PeerZone:
    """A zone's queries, their candidates, and the items it was sent: the rendezvous side of a peer."""

    by: By
    buffer: int | None  # how many items are recent; as the stage does it, if None
    gamma: float = 0.2  # the pruning coefficient
    queries: dict[int, Query] = field(default_factory=dict)
    state: State = field(default_factory=State)
    known: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # numbers, ascending
    low: int = 0  # what is older has left the buffer
    _chunk: tuple[list[int], QueryGroup, QueryChunk] | None = None

    def update(self, points: Floats, sent: Ints, first: int, stop: int) -> ChunkUpdate:
        """The batch first <= number < stop, of which this zone was sent some, and perhaps some older ones."""
        group, chunk = self._queries()
        self.known = np.union1d(self.known[self.known >= self.low], sent)
        first_new = int(np.searchsorted(self.known, first))
        late = np.searchsorted(self.known, sent[(sent < first) & (sent >= self.low)]).astype(np.int64)
        position = np.ascontiguousarray(points[self.known].T)
        mask, clock = np.empty((0, len(self.known)), np.bool_), self.known.astype(np.float64)
        now = np.float64(first - 1)
        items = Items(
            position, self.known, clock, mask, first_new, late, now, 0, group.never, MOST_RECENT, self.gamma
        )
        boxes = boxes_of(position, first_new, BLOCK)
        nothing = Cancellations({}, {})
        return query_groups.update_candidates(
            self.state, group, chunk, items, boxes, unknown(), stop - 1, nothing, until_wanted=True
        )

    def merge(
        self, grid: CellGrid, update: ChunkUpdate | None, first: int, stop: int
    ) -> tuple[Merger, Merger, Ints32] | None:
        """Returns, after the batch, the merger that homes know, the new one and the cells that changed sides;
        None if nothing changed.
        """
        own = OwnMerger(self.state, self.by, grid, stop)
        before = own.sent
        wanted, balls = self._wanted(update, stop)
        self.low = min(wanted.low, before.low) if before.want == CELLS else wanted.low
        arrived = stop - first
        ahead = StreamProgress(stop + 2 * arrived, stop - 1 + 2 * arrived)
        if update is not None and not own.needs_balls:
            return None
        change = own.update(wanted, balls, arrived, ahead)
        return None if change is None else (before, *change)

    def _wanted(self, update: ChunkUpdate | None, stop: int) -> tuple[Merger, QueryBalls]:
        if update is None:
            return Merger(self.by, low=stop), QueryBalls.none(self.by)
        group, chunk = self._queries()
        limited = update.until[(update.radius < np.inf) & (update.until < group.never)]
        until = int(limited.min()) if len(limited) else None
        low = max(min(stop, update.low), self.low)
        return Merger(self.by, CELLS, low, None, until), QueryBalls(chunk.numbers, chunk.point, update.radius)

    def _queries(self) -> tuple[QueryGroup, QueryChunk]:
        numbers = sorted(self.queries)
        if self._chunk is None or self._chunk[0] != numbers:
            group = QueryGroup(self.by, "range", True, np.dtype(np.float64))
            members = [(self.queries[n], Nearest.from_json(self.queries[n].spec)) for n in numbers]
            chunk = chunk_of("all", group, members)
            if self.buffer is not None:
                chunk = replace(chunk, recent=np.minimum(chunk.recent, self.buffer))
            self._chunk = (numbers, group, chunk)
        return self._chunk[1], self._chunk[2]

    # handing over

    def packed(self) -> dict[str, Any]:
        """Returns a copy of all that another peer needs to go on."""
        return {
            "queries": dict(self.queries),
            "chunks": {key: (self.state.tokens[key], self.state.encoded(key)) for key in self.state.tokens},
            "known": self.known.copy(),
            "low": self.low,
        }

    def unpack(self, packed: dict[str, Any]) -> PeerZone:
        """Returns a zone that goes on from there."""
        state = State()
        for key, (token, body) in packed["chunks"].items():
            state.load(key, token, body)
        return replace(
            self.emptied(),
            queries=dict(packed["queries"]),
            state=state,
            known=packed["known"].copy(),
            low=packed["low"],
        )

    def emptied(self) -> PeerZone:
        return PeerZone(self.by, self.buffer, self.gamma)
