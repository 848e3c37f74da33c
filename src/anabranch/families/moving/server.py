"""A regional server in memory: its objects, the local parts of the queries it participates in, and the grid
over both.

Built from the state where a worker takes the zone over; the grid and the lists by age are never stored.
Which place a query has and how the grid is cut decides nothing about what comes out.
"""

from __future__ import annotations

import numpy as np

from anabranch.families.moving.arrays import grown, new_objects, new_queries
from anabranch.families.moving.conditions import Conditions
from anabranch.families.moving.names import NameTable
from anabranch.families.moving.plans import Plan
from anabranch.kernels.moving_arrays import (
    AGED_OBJECTS,
    AGED_QUERIES,
    BLOCK,
    NEAREST,
    NEVER,
    QUERY_BLOCK,
    Grid,
    Server,
    Space,
)
from anabranch.kernels.moving_grid import attach_all, forget_one, remember_all, unwatch_one, watch_all
from anabranch.kernels.moving_tick import run
from anabranch.zones.columns import Array

#: Objects a cell, if they were spread evenly; and the most memory for the bits of queries that watch cells.
PER_CELL = 4
MOST_WATCH_BYTES = 1 << 26
LEAST_COLUMNS, MOST_COLUMNS = 4, 256


class RegionalServer:
    def __init__(self, space: Space, names: NameTable, conditions: Conditions) -> None:
        self.space, self.names, self.conditions = space, names, conditions
        self.objects = new_objects(64)
        self.truths = np.zeros((64, conditions.words), np.uint64)
        self.queries = new_queries(64)
        self.lists = np.zeros(64, np.int64)
        self.ends = np.full((2, 2), -1, np.int64)
        self.dirty_objects = np.zeros(1, np.uint8)
        self.dirty_queries = np.zeros(1, np.uint8)
        self.places: dict[int, int] = {}  # of queries, by number
        self._free_places = list(range(63, -1, -1))
        self._lists_end = 0
        self._free_lists: dict[int, list[int]] = {}  # by k
        self._gridded = 0  # objects when the grid was made
        self.grid = self._new_grid(0.0, 1.0, 0.0, 1.0, 1)

    # queries come and go

    def add(self, plan: Plan, condition: int, here: bool, place: int | None = None) -> None:
        """Enters a query, at a place of its own or the one it had. A fixed focal point is known from the
        beginning.
        """
        if place is None:
            if not self._free_places:
                self.reserve(len(self.queries) + 1)
            place = self._free_places.pop()
        self.places[plan.number] = place
        query = self.queries[place]
        for name in ("number", "mode", "shape", "a", "b", "k", "start"):
            query[name] = getattr(plan, name)
        query["condition"] = condition
        if plan.point is not None:
            query["x"], query["y"] = plan.point
            query["known"], query["here"] = 1, here
        if plan.mode == NEAREST:
            query["first"] = self._allot(plan.k)
        self.dirty_queries[place // QUERY_BLOCK] = 1

    def remove(self, number: int) -> None:
        place = self.places.pop(number)
        query = self.queries[place]
        unwatch_one(self.queries, place, self.grid)
        forget_one(self.queries, self.ends, AGED_QUERIES, place)
        if query["mode"] == NEAREST:
            self._free_lists.setdefault(int(query["k"]), []).append(int(query["first"]))
        self.queries[place] = new_queries(1)[0]
        self.dirty_queries[place // QUERY_BLOCK] = 1
        self._free_places.append(place)

    def find_free_places(self) -> None:
        """After queries were entered at the places they had: what is free is what none of them has."""
        self._free_places = np.flatnonzero(self.queries["number"] < 0)[::-1].tolist()

    def _allot(self, k: int) -> int:
        free = self._free_lists.get(k)
        if free:
            return free.pop()
        first, self._lists_end = self._lists_end, self._lists_end + k
        self.lists = grown(self.lists, self._lists_end, np.zeros(1, np.int64))
        return first

    def reserve(self, places: int) -> None:
        """Makes room for queries at places below `places`."""
        old = len(self.queries)
        if places > old:
            self.queries = grown(self.queries, places + -places % 64, new_queries(1))
            self.dirty_queries = grown(
                self.dirty_queries, len(self.queries) // QUERY_BLOCK + 1, np.zeros(1, np.uint8)
            )
            self._free_places = list(range(len(self.queries) - 1, old - 1, -1)) + self._free_places
            self.make_grid()

    # objects come and go

    def make_room(self, count: int) -> None:
        """Room for objects with numbers below `count`, and for the bits of all conditions."""
        if self.conditions.words > self.truths.shape[1]:
            more = self.conditions.words - self.truths.shape[1]
            self.truths = np.concatenate([self.truths, np.zeros((len(self.truths), more), np.uint64)], axis=1)
        if count > len(self.objects):
            self.objects = grown(self.objects, count, new_objects(1))
            self.truths = grown(
                self.truths, len(self.objects), np.zeros((1, self.truths.shape[1]), np.uint64)
            )
            self.dirty_objects = grown(
                self.dirty_objects, len(self.objects) // BLOCK + 1, np.zeros(1, np.uint8)
            )

    def list_by_age(self) -> None:
        """The lists of objects and queries by the tick at which they are gone, made anew."""
        for records, which, there in (
            (self.objects, AGED_OBJECTS, "present"),
            (self.queries, AGED_QUERIES, "known"),
        ):
            mortal = np.flatnonzero((records["gone"] != NEVER) & (records[there] != 0))
            records["younger"] = records["older"] = -1
            remember_all(
                records, self.ends, which, mortal[np.argsort(records["gone"][mortal], kind="stable")]
            )

    def run(self, moves: Array, truths: Array, events: Array, last: int) -> Array:
        """The rows (ROW) of this server's fragments up to tick `last`; see kernels.moving_tick."""
        self._fit_grid(moves)
        found = run(self.space, self.arrays(), self.grid, self.names.arrays, moves, truths, events, last)
        return np.asarray(found)

    def arrays(self) -> Server:
        """As kernels take them; good until something grows."""
        return Server(
            self.objects,
            self.truths,
            self.queries,
            self.lists,
            self.ends,
            self.dirty_objects,
            self.dirty_queries,
        )

    # the grid

    def _fit_grid(self, moves: Array) -> None:
        """Makes the grid anew when it no longer fits: twice as many objects, or many reports from beyond
        its border.
        """
        if not len(moves):
            return
        grid = self.grid
        beyond = (moves["x"] < grid.x) | (moves["x"] > grid.x + grid.columns * grid.width)
        beyond |= (moves["y"] < grid.y) | (moves["y"] > grid.y + grid.rows * grid.height)
        count = np.count_nonzero(self.objects["present"]) + np.count_nonzero(
            self.objects["present"][moves["who"]] == 0
        )
        if count > 2 * self._gridded or 5 * np.count_nonzero(beyond) > len(beyond):
            self.make_grid(moves)

    def make_grid(self, moves: Array | None = None) -> None:
        """A grid over the middle 98 per cent of the objects (and of reports that are about to come), with
        every object and query.
        """
        present = self.objects[self.objects["present"] != 0]
        x, y, count = present["x"], present["y"], len(present)
        if moves is not None:
            x, y = np.concatenate([x, moves["x"]]), np.concatenate([y, moves["y"]])
            count += len(np.unique(moves["who"]))
        low_x, high_x = np.quantile(x, [0.01, 0.99]).tolist() if len(x) else (0.0, 1.0)
        low_y, high_y = np.quantile(y, [0.01, 0.99]).tolist() if len(y) else (0.0, 1.0)
        self._gridded = count
        self.grid = self._new_grid(low_x, high_x, low_y, high_y, count)
        attach_all(self.space, self.objects, self.grid)
        watch_all(self.space, self.queries, self.grid)

    def _new_grid(self, low_x: float, high_x: float, low_y: float, high_y: float, count: int) -> Grid:
        words = len(self.queries) // 64
        most = min(MOST_COLUMNS, int((MOST_WATCH_BYTES / (8 * words)) ** 0.5))
        side = max(LEAST_COLUMNS, min(most, int((count / PER_CELL) ** 0.5)))
        wide, tall = high_x - low_x, high_y - low_y
        return Grid(
            low_x - 0.01 * wide,
            low_y - 0.01 * tall,
            wide * 1.02 / side if wide > 0 else 1.0,
            tall * 1.02 / side if tall > 0 else 1.0,
            side,
            side,
            np.full(side * side, -1, np.int32),
            np.zeros((side * side, words), np.uint64),
            np.zeros((side * side, words), np.uint64),
        )
