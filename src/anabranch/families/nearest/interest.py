"""What home and rendezvous tell each other: above all, which cells are of interest (D-ZaLaPS, section 5.2).

A zone merges the balls of its queries, cell by cell, for each tuple of columns they go by: its *merger*.
Homes keep a copy of every zone's mergers and forward an item to the zones one of whose mergers wants its
cell. A merger wants

    none     nothing: no queries
    all      everything: a query has no radius (fewer than k are known, RA, counted rows), or the balls cover
             half of the space anyway
    cells    some cells, and until when that holds: for batches that end before the item `end_item` and before
             the time `time`. After that the guards of some query may have left the window, and home must
             treat the merger as `all`

`low` is the number of the oldest item that may still be wanted when a ball grows: what is older and was
not wanted is dominated. `counts` says that a window counts items, so that those not sent must at least be
counted (the message `passed`).

Balls are marked a tenth too large, and cells are unmarked only after the length of REBUILD batches, so that
homes hear of few changes.

Messages are PARTIAL packets, told apart by the fact `message`:

| message | from       | to         | rows and facts                                                       |
|---------|------------|------------|----------------------------------------------------------------------|
| items   | home       | rendezvous | items, by number; those older than this batch come to be known late  |
| passed  | home       | rendezvous | numbers and times of new items that were not sent, and which         |
|         |            |            | coordinates they have                                                |
| extent  | home       | rendezvous | `extent`: least and greatest of each number column, until the space  |
|         |            |            | is known                                                             |
| space   | rendezvous | home       | `bounds`: the space, once                                            |
| merger  | rendezvous | home       | which of the home's cells the zone is interested in now, and until   |
|         |            |            | when that holds; to homes whose cells did not change only the limits |
| work    | rendezvous | home 0     | `work` in the last batches; whether it was `requested`               |
| divide  | home 0     | rendezvous | `other`, `share`: give that zone this share of your queries          |
| splits  | rendezvous | all        | `splits`: who owns which queries from now on; `other`: who got some  |
| queries | rendezvous | rendezvous | queries that the other owns from now on; `low` of their buffer       |
| chunks  | rendezvous | rendezvous | their candidates and clocks, as chunks of state                      |
| stored  | rendezvous | rendezvous | the items that they may need                                         |

Counters have the paper's names (section 5.2); a NOTE carries them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.packets import EMPTY, Kind, Packet
from anabranch.chain.state import Arrays, State, from_json, to_json
from anabranch.families.nearest.kernels.interest_grid import cover
from anabranch.families.nearest.space import By, CellGrid, save_splits
from anabranch.model.arrays import Array, Bools, Bytes, Floats, Ints, Ints32
from anabranch.model.stream import Time

#: The depths of the two stages.
HOME, RENDEZVOUS = 1, 2

ITEMS, PASSED, EXTENT, SPACE, MERGER = "items", "passed", "extent", "space", "merger"
WORK, DIVIDE, SPLITS, QUERIES, CHUNKS, STORED = "work", "divide", "splits", "queries", "chunks", "stored"

#: An item reaches its home; a home forwards it to another zone; a zone reports it to a subscriber; a zone
#: tells a home which cells it is interested in; a query is activated or cancelled at its zone.
NOTIFY_RENDEZVOUS = "notify rendezvous"
NOTIFY_INTERESTED = "notify interested"
NOTIFY_OWNER = "notify owner"
MERGER_UPDATE = "merger update"
QUERY_ACTIVATION = "query activation"
QUERY_CANCELLATION = "query cancellation"
#: Not of the paper, which has no batches: a zone tells a home that its cells of interest hold for longer.
LIMIT_RENEWAL = "limit renewal"
COUNTERS = (
    NOTIFY_RENDEZVOUS,
    NOTIFY_INTERESTED,
    NOTIFY_OWNER,
    MERGER_UPDATE,
    QUERY_ACTIVATION,
    QUERY_CANCELLATION,
)


def message(name: str, depth: int, zone: int, rows: pa.RecordBatch = EMPTY, /, **facts: Any) -> Packet:
    return Packet(depth, zone, Kind.PARTIAL, rows, {"message": name, **facts})


def is_message(packet: Packet, name: str) -> bool:
    return packet.kind is Kind.PARTIAL and packet.facts["message"] == name


@dataclass(frozen=True)
class StreamProgress:
    """Where the stream stands after a batch: the number of the next item, the time of the last."""

    number: int = 0
    last: Time | None = None
    ended: bool = False

    @staticmethod
    def of(packets: Sequence[Packet]) -> StreamProgress | None:
        """Returns None in a batch that brings nothing but back packets: the stream stands where it stood."""
        for packet in packets:
            if packet.kind is Kind.PROGRESS:
                return StreamProgress(packet.facts["number"], packet.facts["last"], packet.facts["ended"])
        return None


@dataclass(frozen=True)
class ZoneProgress:
    """Where a zone stands after a batch. `low` is the number of the oldest item still in its buffer."""

    stream: StreamProgress = field(default_factory=StreamProgress)
    low: int = 0

    KEY = "progress"

    @classmethod
    def load(cls, state: State) -> ZoneProgress:
        facts = state.get_json(cls.KEY)
        return cls() if facts is None else cls(StreamProgress(*facts[:3]), facts[3])

    def save(self, state: State) -> None:
        stream = self.stream
        state.put_json(self.KEY, [stream.number, stream.last, stream.ended, self.low])


PREFIX = "merger/"

NONE, ALL, CELLS = "none", "all", "cells"
REBUILD = 32
_MARGIN = 1.1


@dataclass(frozen=True)
class Merger:
    by: By
    want: str = NONE
    low: int = 0
    end_item: int | None = None
    time: Time | None = None
    counts: bool = False

    def holds(self, progress: StreamProgress) -> bool:
        """Returns whether the guards are there throughout a batch after which the stream stands here."""
        if self.end_item is not None and progress.number > self.end_item:
            return False
        return self.time is None or progress.last is None or progress.last < self.time

    def ends_before(self, other: Merger) -> bool:
        """Returns whether some guards may leave sooner than another merger says."""
        item = self.end_item is not None and (other.end_item is None or self.end_item < other.end_item)
        return item or (self.time is not None and (other.time is None or self.time < other.time))

    def facts(self) -> dict[str, Any]:
        return {
            "by": list(self.by),
            "want": self.want,
            "low": self.low,
            "end_item": self.end_item,
            "time": self.time,
            "counts": self.counts,
        }

    @staticmethod
    def of(facts: dict[str, Any]) -> Merger:
        known = {name: facts[name] for name in ("want", "low", "end_item", "time", "counts")}
        return Merger(tuple(facts["by"]), **known)


# in homes


class MergerTable:
    """A home's copy of the mergers of all zones."""

    def __init__(self, state: State) -> None:
        self.state = state
        #: (zone, by) whose cells grew in this batch
        self.grown: set[tuple[int, By]] = set()

    def update(self, zone: int, facts: dict[str, Any], toggled: pa.RecordBatch, cells: int) -> None:
        """Updates one merger of a zone. toggled: the cells that changed sides"""
        merger = Merger.of(facts)
        key = self._key(zone, merger.by)
        if merger.want == NONE:
            self.state.drop(key)
            return
        stored = self.state.get(key)
        before = from_json(stored["facts"])["want"] if stored is not None else NONE
        packed = stored["cells"] if stored is not None else np.zeros(-(-cells // 8), np.uint8)
        if toggled.num_columns:
            flags = np.unpackbits(packed, count=cells)
            flags[toggled.column("cell").to_numpy()] ^= 1
            packed = np.packbits(flags)
        if toggled.num_columns or before != merger.want:
            self.grown.add((zone, merger.by))
        self.state.put(key, {"facts": to_json(merger.facts()), "cells": packed})

    def mergers(self, zone: int) -> list[Merger]:
        keys = self.state.keys(f"{PREFIX}{zone:06d}/")
        return [_read(self.state, key) for key in keys]

    def flags(self, zone: int, by: By, cells: int) -> Bools:
        """Returns whether the zone wants each cell, [cells]."""
        key = self._key(zone, by)
        stored = self.state.get(key)
        assert stored is not None
        return self.state.cached(
            f"flags {key}", [key], lambda: np.unpackbits(stored["cells"], count=cells).view(np.bool_)
        )

    def _key(self, zone: int, by: By) -> str:
        return f"{PREFIX}{zone:06d}/{json.dumps(by)}"


@dataclass(frozen=True)
class HomeInterest:
    """A merger of a zone, and what a home needs to apply it to its items."""

    merger: Merger
    grown: bool  # in this batch
    flags: Callable[[], Bools]  # whether each cell is wanted
    cells: Callable[[], Ints]  # of the home's items, the new ones last; -1 where a coordinate is missing


def wanted_items(
    interests: Sequence[HomeInterest],
    new_query: bool,
    progress: StreamProgress | None,
    first_new: int,
    size: int,
) -> tuple[int, Bools]:
    """Returns an index and, for the home's items from there on, whether the zone wants them; it may have some
    of them already.

    A zone that gets a new query wants all new items. Older items that were not wanted before are looked at
    again only if a merger has grown or does not hold any more.
    """
    mergers = [one.merger for one in interests]
    if any(one.want == ALL or (progress and not one.holds(progress)) for one in mergers):
        return 0, np.ones(size, np.bool_)
    first = 0 if any(one.grown for one in interests) else first_new
    want = np.zeros(size - first, np.bool_)
    if first < size:
        for one in interests:
            cells = one.cells()[first:]
            want |= one.flags()[cells] & (cells >= 0)
    if new_query:
        want[first_new - first :] = True
    return first, want


# in rendezvous


@dataclass(frozen=True)
class QueryBalls:
    """The balls of the queries of one tuple of columns after a batch."""

    query: Ints  # numbers, ascending
    point: Floats  # [n, d]
    radius: Floats  # [n]

    @staticmethod
    def none(by: By) -> QueryBalls:
        return QueryBalls(np.empty(0, np.int64), np.empty((0, len(by))), np.empty(0))


class OwnMerger:
    """A zone's merger for one tuple of columns, as it last told the homes: `sent`."""

    def __init__(self, state: State, by: By, grid: CellGrid, number: int) -> None:
        """`number` is that of the stream's next item."""
        self.state, self.by, self.grid, self.number = state, by, grid, number
        self.key = PREFIX + json.dumps(by)
        stored = state.get(self.key)
        self.sent = _read(state, self.key) if stored is not None else Merger(by)
        #: the number of the item at which all cells are marked again from nothing
        self.rebuild_at = int(stored["rebuild_at"][0]) if stored is not None else 0

    @property
    def needs_balls(self) -> bool:
        """Whether the balls matter now; not while the merger is ALL because they covered the space a
        moment ago.
        """
        return self.sent.want != ALL or self.number >= self.rebuild_at

    def update(
        self, wanted: Merger, balls: QueryBalls, arrived: int, ahead: StreamProgress
    ) -> tuple[Merger, Ints32] | None:
        """Returns what to tell the homes, if anything: the merger and the cells that changed sides.

        `wanted.want` is CELLS or NONE; `arrived` is how many items the batch brought, `ahead` where the
        stream may stand after the next.
        """
        if wanted.want == NONE:
            self.state.drop(self.key)
            return (wanted, np.empty(0, np.int32)) if self.sent.want != NONE else None
        if not self.needs_balls:
            return None
        before = self._marked()
        now, rebuild_at = self._marked_after(before, balls, arrived)
        if now is None or 2 * int(now.cells.sum()) >= self.grid.count:
            wanted, now = _all(wanted), _MarkedCells.none(self.grid.count)
        toggled = np.flatnonzero(now.cells != before.cells).astype(np.int32)
        merger = self.sent if self._still_good(wanted, arrived, ahead) else wanted
        if merger != self.sent or now is not before or rebuild_at != self.rebuild_at:
            self._save(merger, now, rebuild_at)
        return (merger, toggled) if len(toggled) or merger != self.sent else None

    def _marked(self) -> _MarkedCells:
        stored = self.state.get(self.key)
        if stored is None:
            return _MarkedCells.none(self.grid.count)
        cells = np.unpackbits(stored["cells"], count=self.grid.count)
        return _MarkedCells(cells, stored["query"], stored["radius"])

    def _marked_after(
        self, before: _MarkedCells, balls: QueryBalls, arrived: int
    ) -> tuple[_MarkedCells | None, int]:
        """Returns the cells after the batch, None for all, and the number of the item at which to mark them
        again from nothing.
        """
        if np.isinf(balls.radius).any():
            return None, 0  # as soon as all have a radius
        rebuild_at = self.rebuild_at
        if self.number >= rebuild_at or not np.isin(before.query, balls.query, assume_unique=True).all():
            before, rebuild_at = _MarkedCells.none(self.grid.count), self.number + REBUILD * max(1, arrived)
        return before.with_balls(balls, self.grid), rebuild_at

    def _still_good(self, wanted: Merger, arrived: int, ahead: StreamProgress) -> bool:
        """Returns whether what the homes know will do for another batch: the guards they rely on outlast it,
        and they do not keep many more items than they need.
        """
        if wanted == self.sent:
            return True
        if wanted.want != self.sent.want or wanted.want == ALL or wanted.counts != self.sent.counts:
            return False
        if wanted.ends_before(self.sent):
            return False
        return self.sent.holds(ahead) and wanted.low - self.sent.low <= 4 * arrived

    def _save(self, wanted: Merger, marked: _MarkedCells, rebuild_at: int) -> None:
        arrays: Arrays = {
            "facts": to_json(wanted.facts()),
            "cells": np.packbits(marked.cells),
            "query": marked.query,
            "radius": marked.radius,
            "rebuild_at": np.array([rebuild_at], np.int64),
        }
        self.state.put(self.key, arrays)


@dataclass(frozen=True)
class _MarkedCells:
    """The cells that are marked, and for which queries up to which radius."""

    cells: Bytes  # [cells]
    query: Ints
    radius: Floats

    @staticmethod
    def none(cells: int) -> _MarkedCells:
        return _MarkedCells(np.zeros(cells, np.uint8), np.empty(0, np.int64), np.empty(0))

    def with_balls(self, balls: QueryBalls, grid: CellGrid) -> _MarkedCells:
        """Returns these, and the cells of balls that are new or outgrew their mark."""
        radius = np.full(len(balls.query), -1.0)
        radius[np.searchsorted(balls.query, self.query)] = self.radius
        grown = balls.radius > radius
        if not grown.any():
            same = len(self.query) == len(balls.query)
            return self if same else replace(self, query=balls.query, radius=radius)
        radius[grown] = balls.radius[grown] * _MARGIN
        cells = self.cells.copy()
        cover(cells, balls.point[grown], radius[grown], grid.low, grid.scale, grid.resolution)
        return _MarkedCells(cells, balls.query, radius)


def _read(state: State, key: str) -> Merger:
    stored = state.get(key)
    assert stored is not None
    return state.cached(f"merger {key}", [key], lambda: Merger.of(from_json(stored["facts"])))


def _all(wanted: Merger) -> Merger:
    """Returns a merger that wants everything until something else is said: without limits that would have to
    be renewed.
    """
    return replace(wanted, want=ALL, low=0, end_item=None, time=None, counts=False)


def count_informed(before: Merger, merger: Merger, toggled: Ints32, home_of: Array, sender: int) -> int:
    """Returns how many others a zone or peer has to tell that its cells of interest changed: the homes of the
    cells that changed sides, or all if the whole space did. home_of: who is home to each cell
    """
    homes = home_of if merger.want != before.want else home_of[toggled]
    return len(np.unique(homes[homes != sender]))


def merger_columns(state: State) -> list[By]:
    """Returns the tuples of columns for which a rendezvous zone has a merger that homes know."""
    return [tuple(json.loads(key.removeprefix(PREFIX))) for key in state.keys(PREFIX)]


def toggled_rows(cells: Ints32) -> pa.RecordBatch:
    """Returns cells that changed sides as rows of a packet."""
    return pa.record_batch({"cell": pa.array(cells, pa.int32())})


def receive_splits(state: State, packets: Sequence[Packet]) -> set[int]:
    """Saves a new table of splits, if one came. Returns the zones that get queries by it."""
    others: set[int] = set()
    for packet in packets:
        if is_message(packet, SPLITS):
            save_splits(state, packet.facts["splits"])
            others.add(packet.facts["other"])
    return others
