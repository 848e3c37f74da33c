"""What a home zone keeps for the search regions of queries for nearest objects.

In: the cells that each zone's queries search (rasters.py), as back packets, and reports in stream order. Out:
for each zone, the moves of objects into, within and out of its cells; when cells are new to it, the records
of the objects there. Never: a record of a report that no query for nearest objects could see.

A zone has exactly the objects in its cells. What was sent in the last batch is kept, with what was known
before: a zone whose cells were too few for its answers asks for that batch again (near.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from anabranch.families.moving import messages
from anabranch.families.moving.arrays import grown, records
from anabranch.families.moving.chunks import get_columns, put_columns, widened
from anabranch.families.moving.rasters import EVERYTHING, NOTHING, arrays_of, raster_from
from anabranch.kernels.moving_arrays import BLOCK, Space
from anabranch.kernels.moving_home import REPORT
from anabranch.kernels.moving_search import RECORD, Raster, follow, inside
from anabranch.zones.columns import Array
from anabranch.zones.packets import Packet
from anabranch.zones.state import Arrays, State

KEYS = "search/"
RASTERS, RECORDS, RECENT, BEFORE = KEYS + "rasters/", KEYS + "records/", KEYS + "recent/", KEYS + "before/"


class _Known:
    """Records of objects at some moment."""

    def __init__(self, index: Array, known: Array, truths: Array) -> None:
        self.index, self.records, self.truths = index, known, truths
        self.x, self.y = known["x"].copy(), known["y"].copy()

    def missing(self, space: Space, old: Raster, kept: Raster, new: Raster) -> Array:
        """Which of them are in cells that are new to a zone; it has those in old cells that it kept."""
        if new is NOTHING:
            return np.zeros(0, np.int64)
        has = inside(space, old, self.x, self.y) & inside(space, kept, self.x, self.y)
        return np.flatnonzero(inside(space, new, self.x, self.y) & ~has)

    def columns(self, rows: Array, zones: int, zone: int) -> dict[str, Array]:
        """The columns of a records message."""
        columns = {"who": self.index[rows] * zones + zone}
        columns |= {name: self.records[name][rows] for name in RECORD.names or ()}
        return columns | messages.word_columns(self.truths[rows])


class Interest:
    """In memory between batches; built from the state where a worker takes a zone over."""

    def __init__(self, space: Space, zones: int) -> None:
        self.space, self.zones = space, zones
        self._clear()

    def _clear(self) -> None:
        self.is_needed = False  # whether somebody asks for nearest objects, or did in the last batch
        self.rasters = [NOTHING] * self.zones
        self.records = _nobody(64)
        self.truths = np.zeros((64, 1), np.uint64)
        self._dirty = np.zeros(1, np.uint8)  # one a block of records to be stored
        self._told: set[int] = set()  # zones whose rasters are to be stored
        self._recent: Arrays | None = None
        self._before: Arrays | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no zone searches any cell."""
        return all(raster is NOTHING for raster in self.rasters)

    def adopt(self, told: Mapping[int, tuple[Raster, bool]], begun: set[int], zone: int) -> list[Packet]:
        """Goes by new rasters from this batch on, with everything for zones in which a query has begun; the
        records that these zones lack, and the moves of the last batch for those that are late.
        """
        out = []
        known: dict[bool, _Known] = {}
        for other in sorted(told.keys() | begun):
            old = self.rasters[other]
            kept, late = told.get(other, (old, False))
            new = EVERYTHING if other in begun else kept
            self.rasters[other] = new
            self._told.add(other)
            if late not in known:
                known[late] = self._last_batch_before() if late else self._now()
            missing = known[late].missing(self.space, old, kept, new)
            if len(missing) or late:  # who is late waits, also for nothing
                columns = known[late].columns(missing, self.zones, zone)
                out.append(messages.message(2, other, messages.RECORDS, columns, zone))
            if late and self._recent is not None:
                out += self._moved(zone, other, self._recent)
        return out

    def _now(self) -> _Known:
        """The records of all objects."""
        index = np.flatnonzero(self.records["number"] >= 0)
        return _Known(index, self.records[index], self.truths[index])

    def _last_batch_before(self) -> _Known:
        """The same as of before the last batch."""
        if self._recent is None:
            return self._now()
        silent = self.records["number"] >= 0
        silent[self._recent["index"]] = False
        index = np.flatnonzero(silent)
        if self._before is None:
            return _Known(index, self.records[index], self.truths[index])
        return _Known(
            np.concatenate([index, self._before["index"]]),
            np.concatenate([self.records[index], records(RECORD, self._before)]),
            np.concatenate([self.truths[index], widened(self._before["truths"], self.truths.shape[1])]),
        )

    def share(self, report: Arrays | None, count: int, zone: int) -> list[Packet]:
        """The moves of this batch's reports for every zone; there are `count` objects."""
        self._recent = self._before = None
        if report is None:
            return []
        self._make_room(count, report["truths"].shape[1])
        index = np.unique(report["index"])
        index = index[self.records["number"][index] >= 0]
        if len(index):
            there = self.records[index]
            self._before = {"index": index, "truths": self.truths[index]}
            self._before |= {name: there[name].copy() for name in RECORD.names or ()}
        truths = widened(report["truths"], self.truths.shape[1])
        prior = follow(records(REPORT, report), truths, self.records, self.truths, self._dirty)
        self._recent = report | {"prior_x": prior[0].copy(), "prior_y": prior[1].copy()}
        self._recent.pop("time")
        return [packet for other in range(self.zones) for packet in self._moved(zone, other, self._recent)]

    def _moved(self, zone: int, other: int, report: Arrays) -> list[Packet]:
        raster = self.rasters[other]
        if raster is NOTHING:
            return []
        now = inside(self.space, raster, report["x"], report["y"])
        rows = np.flatnonzero(now | inside(self.space, raster, report["prior_x"], report["prior_y"]))
        if not len(rows):
            return []
        leaves = ~now[rows] | (report["gone"][rows] <= report["tick"][rows])
        return [messages.message(2, other, messages.NEAR_MOVES, messages.moves(report, rows, leaves), zone)]

    def _make_room(self, count: int, words: int) -> None:
        self.records = grown(self.records, count, _nobody(1))
        self.truths = widened(self.truths, words)
        self.truths = grown(self.truths, len(self.records), np.zeros((1, self.truths.shape[1]), np.uint64))
        self._dirty = grown(self._dirty, len(self.records) // BLOCK + 1, np.zeros(1, np.uint8))

    # what is stored

    @staticmethod
    def load(state: State, space: Space, zones: int) -> Interest:
        interest = Interest(space, zones)
        for key in state.keys(RASTERS):
            interest.rasters[int(key.removeprefix(RASTERS))] = raster_from(state.get(key) or {})
        for key in state.keys(RECORDS):
            chunk = state.get(key)
            assert chunk is not None
            first, length = int(key.removeprefix(RECORDS)) * BLOCK, len(chunk["x"])
            interest._make_room(first + length, chunk["truths"].shape[1])
            for name in RECORD.names or ():
                interest.records[name][first : first + length] = chunk[name]
            interest.truths[first : first + length, : chunk["truths"].shape[1]] = chunk["truths"]
        interest._recent, interest._before = get_columns(state, RECENT), get_columns(state, BEFORE)
        return interest

    def save(self, state: State) -> None:
        """Stores what changed since the last call."""
        for zone in sorted(self._told):
            key = f"{RASTERS}{zone:08d}"
            if self.rasters[zone] is NOTHING:
                state.drop(key)
            else:
                state.put(key, arrays_of(self.rasters[zone]))
        for block in np.flatnonzero(self._dirty).tolist():
            rows = slice(block * BLOCK, (block + 1) * BLOCK)
            chunk = {name: self.records[name][rows].copy() for name in RECORD.names or ()}
            state.put(f"{RECORDS}{block:08d}", chunk | {"truths": self.truths[rows].copy()})
        put_columns(state, RECENT, self._recent)
        put_columns(state, BEFORE, self._before)
        self._dirty[:] = 0
        self._told = set()

    def forget(self, state: State) -> None:
        stored = state.keys(KEYS)
        for key in stored:
            state.drop(key)
        if stored:
            self._clear()


def _nobody(size: int) -> Array:
    out = np.zeros(size, RECORD)
    out["number"] = -1
    return out
