"""Cells of interest: what a rendezvous zone wants to see, and how homes know (D-ZaLaPS, section 5.2).

A zone merges the balls of its queries, cell by cell, for each tuple of columns they go by: its *merger*.
Homes keep a copy of every zone's mergers and forward an item to the zones one of whose mergers wants its
cell. A merger is

    none    no queries all     everything: a query has no radius (fewer than k are known, RA, counted rows),
    or the balls cover half of the space anyway cells   some cells, and until when that holds: for batches
    that end before the number `numbers` and before the time `time`.
            After that the guards of some query may have left the window, and home must treat the merger as
            `all`

`low` is the number of the oldest item that may still be wanted when a ball grows: what is older and was not
wanted is dominated. `counts` says that a window counts items, so that those not sent must at least be counted
(messages.PASSED).

Balls are marked a tenth too large and cells are given back only every REBUILD batches, so that homes hear of
few changes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.nearest.space import By, Overlay
from anabranch.kernels.grid import cover
from anabranch.model.stream import Time
from anabranch.zones.columns import Array
from anabranch.zones.state import State

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
        return asdict(self)

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
        return [self._read(key) for key in keys]

    def flags(self, zone: int, by: By, cells: int) -> Array:
        """Whether the zone wants each cell, bool[cells]."""
        key = self._key(zone, by)
        held = self.state.get(key)
        assert held is not None
        return self.state.derived(
            f"flags {key}", [key], lambda: np.unpackbits(held["cells"], count=cells).view(np.bool_)
        )

    def _read(self, key: str) -> Merger:
        held = self.state.get(key)
        assert held is not None
        return self.state.derived(f"read {key}", [key], lambda: Merger.of(json.loads(bytes(held["facts"]))))

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

    def __init__(self, state: State, by: By, overlay: Overlay) -> None:
        self.state, self.by, self.overlay = state, by, overlay
        self.key = PREFIX + json.dumps(by)
        held = state.get(self.key)
        self.told = Merger.of(json.loads(bytes(held["facts"]))) if held is not None else Merger(by)
        self.cells = (
            np.unpackbits(held["cells"], count=overlay.cells.count) if held is not None else self._no_cells()
        )
        self.query = held["query"] if held is not None else np.empty(0, np.int64)
        self.marked = held["marked"] if held is not None else np.empty(0, np.float64)
        self.age = int(held["age"][0]) if held is not None else REBUILD
        self._held = (self.age, self.query, self.marked)

    def _no_cells(self) -> Array:
        return np.zeros(self.overlay.cells.count, np.uint8)

    def update(self, wanted: Merger, balls: Balls) -> tuple[Merger, Array] | None:
        """What to tell the homes, if anything: the merger and the cells that changed sides. `wanted.want` is
        CELLS or NONE.
        """
        if wanted.want == NONE:
            self.state.drop(self.key)
            return (wanted, np.empty(0, np.int32)) if self.told.want != NONE else None
        before = self.cells
        if np.isinf(balls.radius).any():
            wanted = _all(wanted)
            self.age = REBUILD  # as soon as all have a radius
        elif self.told.want == ALL and self.age < REBUILD:
            wanted = _all(wanted)  # it covered most of the space a moment ago
            self.age += 1
        else:
            self._mark(balls)
            if 2 * int(self.cells.sum()) >= len(self.cells):
                wanted = _all(wanted)
        if wanted.want == ALL:
            self.cells = self._no_cells()
            if len(self.query):
                self.query, self.marked = balls.query[:0], balls.radius[:0]
        toggled = np.flatnonzero(self.cells != before).astype(np.int32)
        unchanged = wanted == self.told and not len(toggled)
        age, query, marked = self._held
        if not (unchanged and self.age == age and self.query is query and self.marked is marked):
            self._save(wanted)
        return None if unchanged else (wanted, toggled)

    def _mark(self, balls: Balls) -> None:
        """Adds the cells of balls that outgrew their mark; begins anew when a query has gone or cells were
        long not given back.
        """
        stays = np.isin(self.query, balls.query, assume_unique=True).all()
        if self.age >= REBUILD or not stays:
            self.cells, marked, self.age = self._no_cells(), np.full(len(balls.query), -1.0), 0
        else:
            self.cells = self.cells.copy()
            marked = np.full(len(balls.query), -1.0)
            marked[np.searchsorted(balls.query, self.query)] = self.marked
            self.age += 1
        grown = balls.radius > marked
        if grown.any():
            marked[grown] = balls.radius[grown] * _MARGIN
            grid = self.overlay.cells
            cover(self.cells, balls.point[grown], marked[grown], grid.low, grid.scale, grid.resolution)
        self.query, self.marked = balls.query, marked

    def _save(self, wanted: Merger) -> None:
        self.state.put(
            self.key,
            {
                "facts": np.frombuffer(json.dumps(wanted.facts()).encode(), np.uint8),
                "cells": np.packbits(self.cells),
                "query": self.query,
                "marked": self.marked,
                "age": np.array([self.age], np.int64),
            },
        )


def _all(wanted: Merger) -> Merger:
    """Everything, for as long as nothing else is said: no limits that would have to be renewed."""
    return replace(wanted, want=ALL, low=0, numbers=None, time=None)


def told(state: State) -> list[list[str]]:
    """The tuples of columns for which a rendezvous zone has a merger that homes know."""
    return [json.loads(key.removeprefix(PREFIX)) for key in state.keys(PREFIX)]


def toggled_rows(cells: Array) -> pa.RecordBatch:
    """Cells that changed sides, as rows of a packet."""
    return pa.record_batch({"cell": pa.array(cells, pa.int32())})
