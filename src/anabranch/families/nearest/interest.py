"""Cells of interest: what a rendezvous zone wants to see, and how homes know (D-ZaLaPS, section 5.2).

A zone merges the balls of its queries, cell by cell, for each tuple of columns they go by: its *merger*.
Homes keep a copy of every zone's mergers and forward an item to the zones one of whose mergers wants its
cell. A merger is

    none     no queries
    all      everything: a query has no radius (fewer than k are known, RA, counted rows), or the balls cover
             half of the space anyway
    cells    some cells, and until when that holds: for batches that end before the number `numbers` and
             before the time `time`. After that the guards of some query may have left the window, and home
             must treat the merger as `all`

`low` is the number of the oldest item that may still be wanted when a ball grows: what is older and was
not wanted is dominated. `counts` says that a window counts items, so that those not sent must at least be
counted (messages.PASSED).

Balls are marked a tenth too large and cells are given back only after the length of REBUILD batches, so
that homes hear of few changes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.nearest.mail import Progress
from anabranch.families.nearest.space import By, Overlay
from anabranch.kernels.grid import cover
from anabranch.model.stream import Time
from anabranch.zones.cells import Cells
from anabranch.zones.columns import Array
from anabranch.zones.state import Arrays, State

PREFIX = "merger/"

NONE, ALL, CELLS = "none", "all", "cells"
REBUILD = 32
_MARGIN = 1.1


@dataclass(frozen=True)
class Merger:
    by: By
    want: str = NONE
    low: int = 0
    numbers: int | None = None
    time: Time | None = None
    counts: bool = False

    def holds(self, number: int, last: Time | None) -> bool:
        """Whether the guards are there throughout a batch that ends before this number and at this time."""
        if self.numbers is not None and number > self.numbers:
            return False
        return self.time is None or last is None or last < self.time

    def facts(self) -> dict[str, Any]:
        return {
            "by": list(self.by),
            "want": self.want,
            "low": self.low,
            "numbers": self.numbers,
            "time": self.time,
            "counts": self.counts,
        }

    @staticmethod
    def of(facts: dict[str, Any]) -> Merger:
        known = {name: facts[name] for name in ("want", "low", "numbers", "time", "counts")}
        return Merger(tuple(facts["by"]), **known)


class Table:
    """A home's copy of the mergers of all zones."""

    def __init__(self, state: State) -> None:
        self.state = state
        #: (zone, by) whose cells grew in this batch
        self.grown: set[tuple[int, By]] = set()

    def update(self, zone: int, facts: dict[str, Any], toggled: pa.RecordBatch, cells: int) -> None:
        """Takes over what a zone says about one of its mergers: the cells that changed sides, and the
        rest.
        """
        merger = Merger.of(facts)
        key = self._key(zone, merger.by)
        if merger.want == NONE:
            self.state.drop(key)
            return
        held = self.state.get(key)
        before = json.loads(bytes(held["facts"]))["want"] if held is not None else NONE
        packed = held["cells"] if held is not None else np.zeros(-(-cells // 8), np.uint8)
        if toggled.num_columns:
            flags = np.unpackbits(packed, count=cells)
            flags[toggled.column("cell").to_numpy()] ^= 1
            packed = np.packbits(flags)
        if toggled.num_columns or before != merger.want:
            self.grown.add((zone, merger.by))
        self.state.put(
            key, {"facts": np.frombuffer(json.dumps(merger.facts()).encode(), np.uint8), "cells": packed}
        )

    def mergers(self, zone: int) -> list[Merger]:
        keys = self.state.keys(f"{PREFIX}{zone:06d}/")
        return [_read(self.state, key) for key in keys]

    def flags(self, zone: int, by: By, cells: int) -> Array:
        """Whether the zone wants each cell, bool[cells]."""
        key = self._key(zone, by)
        held = self.state.get(key)
        assert held is not None
        return self.state.derived(
            f"flags {key}", [key], lambda: np.unpackbits(held["cells"], count=cells).view(np.bool_)
        )

    def _key(self, zone: int, by: By) -> str:
        return f"{PREFIX}{zone:06d}/{json.dumps(by)}"


@dataclass(frozen=True)
class Balls:
    """The queries of one tuple of columns after a batch."""

    query: Array  # numbers, ascending
    point: Array  # float64[n, d]
    radius: Array  # float64[n]


class Own:
    """A zone's merger for one tuple of columns, as it last told the homes."""

    def __init__(self, state: State, by: By, overlay: Overlay, number: int) -> None:
        """`number` is that of the stream's next item."""
        self.state, self.by, self.overlay, self.number = state, by, overlay, number
        self.key = PREFIX + json.dumps(by)
        held = state.get(self.key)
        self.told = _read(state, self.key) if held is not None else Merger(by)
        #: the number of the item at which cells are given back
        self.again = int(held["again"][0]) if held is not None else 0

    @property
    def asks(self) -> bool:
        """Whether the balls matter now; not while the merger is ALL because they covered the space a
        moment ago.
        """
        return self.told.want != ALL or self.number >= self.again

    def update(
        self, wanted: Merger, balls: Balls, arrived: int, soon: Progress
    ) -> tuple[Merger, Array] | None:
        """What to tell the homes, if anything: the merger and the cells that changed sides. `wanted.want`
        is CELLS or NONE.

        `arrived` is how many items the batch brought, `soon` where the stream may stand after the next.
        """
        if wanted.want == NONE:
            self.state.drop(self.key)
            return (wanted, np.empty(0, np.int32)) if self.told.want != NONE else None
        if not self.asks:
            return None
        cells = self.overlay.cells.count
        before = _marks(self.state.get(self.key), cells)
        now, again = self._marked(before, balls, arrived)
        if now is None or 2 * int(now.cells.sum()) >= cells:
            wanted, now = _all(wanted), _Marks.none(cells)
        toggled = np.flatnonzero(now.cells != before.cells).astype(np.int32)
        news = len(toggled) > 0 or not self._still_good(wanted, arrived, soon)
        if news or now is not before or again != self.again:
            self._save(wanted if news else self.told, now, again)
        return (wanted, toggled) if news else None

    def _marked(self, before: _Marks, balls: Balls, arrived: int) -> tuple[_Marks | None, int]:
        """The cells after the batch, None for all, and the number of the item at which to begin anew."""
        if np.isinf(balls.radius).any():
            return None, 0  # again as soon as all have a radius
        again = self.again
        if self.number >= again or not np.isin(before.query, balls.query, assume_unique=True).all():
            before, again = _Marks.none(self.overlay.cells.count), self.number + REBUILD * max(1, arrived)
        return before.with_balls(balls, self.overlay.cells), again

    def _still_good(self, wanted: Merger, arrived: int, soon: Progress) -> bool:
        """Whether what the homes know will do for another batch: the guards they rely on outlast it, and
        they do not keep many more items than they need.
        """
        if wanted == self.told:
            return True
        if wanted.want != self.told.want or wanted.want == ALL or wanted.counts != self.told.counts:
            return False
        return self.told.holds(soon.number, soon.last) and wanted.low - self.told.low <= 4 * arrived

    def _save(self, wanted: Merger, marks: _Marks, again: int) -> None:
        self.state.put(
            self.key,
            {
                "facts": np.frombuffer(json.dumps(wanted.facts()).encode(), np.uint8),
                "cells": np.packbits(marks.cells),
                "query": marks.query,
                "radius": marks.radius,
                "again": np.array([again], np.int64),
            },
        )


@dataclass(frozen=True)
class _Marks:
    """The cells that are marked, and for whom up to which radius."""

    cells: Array  # uint8[cells]
    query: Array
    radius: Array

    @staticmethod
    def none(cells: int) -> _Marks:
        return _Marks(np.zeros(cells, np.uint8), np.empty(0, np.int64), np.empty(0, np.float64))

    def with_balls(self, balls: Balls, grid: Cells) -> _Marks:
        """With the cells of balls that are new or outgrew their mark."""
        radius = np.full(len(balls.query), -1.0)
        radius[np.searchsorted(balls.query, self.query)] = self.radius
        grown = balls.radius > radius
        if not grown.any():
            return (
                self
                if len(self.query) == len(balls.query)
                else replace(self, query=balls.query, radius=radius)
            )
        radius[grown] = balls.radius[grown] * _MARGIN
        cells = self.cells.copy()
        cover(cells, balls.point[grown], radius[grown], grid.low, grid.scale, grid.resolution)
        return _Marks(cells, balls.query, radius)


def _marks(held: Arrays | None, cells: int) -> _Marks:
    if held is None:
        return _Marks.none(cells)
    return _Marks(np.unpackbits(held["cells"], count=cells), held["query"], held["radius"])


def _read(state: State, key: str) -> Merger:
    held = state.get(key)
    assert held is not None
    return state.derived(f"read {key}", [key], lambda: Merger.of(json.loads(bytes(held["facts"]))))


def _all(wanted: Merger) -> Merger:
    """Everything, for as long as nothing else is said: no limits that would have to be renewed."""
    return replace(wanted, want=ALL, low=0, numbers=None, time=None, counts=False)


def informed(told: Merger, merger: Merger, toggled: Array, home_of: Array, me: int) -> int:
    """How many others a zone or peer, `me`, has to tell of a change of its merger: the homes of the cells
    that changed sides, or all if the whole space did. home_of: who is home to each cell. A mere renewal of
    the limits goes along with the progress of time.
    """
    homes = home_of if merger.want != told.want else home_of[toggled]
    return len(np.unique(homes[homes != me]))


def told(state: State) -> list[By]:
    """The tuples of columns for which a rendezvous zone has a merger that homes know."""
    return [tuple(json.loads(key.removeprefix(PREFIX))) for key in state.keys(PREFIX)]


def toggled_rows(cells: Array) -> pa.RecordBatch:
    """Cells that changed sides, as rows of a packet."""
    return pa.record_batch({"cell": pa.array(cells, pa.int32())})
