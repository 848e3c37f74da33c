"""A regional server: its objects, the local parts of the queries it participates in, and the grid over both.

It is kept in memory between batches and built from the state where a worker takes the zone over. The grid and
the lists by age are never stored. Which slot a query has and how the grid is cut changes no result.

| chunk      | holds                                                                                    |
|------------|------------------------------------------------------------------------------------------|
| objects/n  | the present objects with numbers in block n                                              |
| locals/n   | the changing part of the queries with slots in block n, with their lists                 |
| names/n    | names of objects                                                                         |
| conditions | which bit is which condition                                                             |
| nearest/.. | objects/n and locals/n of the server for nearest objects, its raster, and what is late   |
| queries/n, cancelled | the queries, and those that are cancelled and not finished                     |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.chain import control
from anabranch.chain.packets import Packet
from anabranch.chain.state import State
from anabranch.families.moving import servers
from anabranch.families.moving.kernels.arrays import (
    AGED_OBJECTS,
    AGED_QUERIES,
    BLOCK,
    COUNT,
    ENDS,
    EVENT,
    FENCE,
    FENCE_BITS,
    FOCAL,
    LISTED,
    MOVE,
    MOVED,
    NEAREST,
    NEVER,
    PRESENT,
    QUERY,
    QUERY_BLOCK,
    ROW,
    STARTS,
    FenceIndex,
    Metric,
    MoveBatch,
    ObjectGrid,
    ServerArrays,
    TickScratch,
    new_objects,
    new_queries,
    present_objects,
    records,
)
from anabranch.families.moving.kernels.object_grid import (
    add_all_to_grid,
    count_cells,
    index_cells,
    list_by_age,
    place_fences,
    remove_one_by_age,
    unwatch_one,
    watch_all,
)
from anabranch.families.moving.kernels.object_names import ObjectNames
from anabranch.families.moving.kernels.region_tick import run
from anabranch.families.moving.query_plans import ENDLESS, ConditionBits, ListStarts, MovingPlan
from anabranch.families.moving.servers import Ticks
from anabranch.model.arrays import Array, Floats, Ints, Words
from anabranch.numeric.slots import Slots, grown

OBJECTS, LOCALS = "objects/", "locals/"

#: Objects per cell, if they were spread evenly; and the most memory for the bits of queries that watch cells.
PER_CELL = 4
MOST_WATCH_BYTES = 1 << 26
LEAST_COLUMNS, MOST_COLUMNS = 4, 256
#: Cells that all fences may touch, each counted for itself.
MOST_FENCE_CELLS = 1 << 23

#: So many new fences may have bits, and a share of the fences in the index.
FEW_FENCES = 64
SHARE_OF_FENCES = 1 / 16

_NO_FENCES = FenceIndex(np.zeros(0, FENCE), np.zeros(1, np.int32), np.zeros(0, FENCE_BITS))

_OF_PLAN = ("number", "mode", "shape", "a", "b", "k")
_STORED_OF_OBJECT = ("x", "y", "number", "expires")
_STORED_OF_QUERY = (
    *(
        "condition",
        "started",
        "known",
        "here",
        "live",
        "x",
        "y",
        "focal",
        "expires",
        "value",
        "who",
        "listed",
    ),
    *("centre_x", "centre_y", "reach", "slack"),
)


class RegionalServer:
    def __init__(self, metric: Metric, names: ObjectNames, conditions: ConditionBits) -> None:
        self.metric, self.names, self.conditions = metric, names, conditions
        self.objects = new_objects(64)
        self.truths = np.zeros((64, conditions.words), np.uint64)
        self.query_slots = Slots(query=(QUERY, new_queries(1)[0]))
        self.slot_of: dict[int, int] = {}  # by the number of a query
        self.lists = np.zeros(64, np.int64)
        self._list_starts = ListStarts()
        self.ends = np.full((2, 2), -1, np.int64)
        self.dirty_objects = np.zeros(1, np.uint8)
        self.dirty_queries = np.zeros(1, np.uint8)
        self.waiting: set[int] = set()  # slots of queries that have not started
        self.tallies = np.array([0, 0, 1, 0], np.int64)
        self._bits = QueryBits()
        self._idle_moves = 0  # since somebody looked for objects in cells
        self._objects_in_grid = 0  # when the grid was built
        self.make_grid()

    @property
    def queries(self) -> Array:
        """The records (QUERY) by slot; valid until a query is added."""
        return self.query_slots["query"]

    # queries

    def add(self, plan: MovingPlan, condition: int, here: bool) -> None:
        """Adds a query; `condition` is its bit, `here` whether this server participates."""
        slot = self.query_slots.take()
        self._fit_blocks()
        self._set_plan(slot, plan)
        query = self.queries[slot]
        query["condition"] = condition
        if plan.point is not None:
            query["here"] = here
        self.waiting.add(slot)
        self.dirty_queries[slot // QUERY_BLOCK] = 1

    def _set_plan(self, slot: int, plan: MovingPlan) -> None:
        self.slot_of[plan.number] = slot
        query = self.queries[slot]
        for name in _OF_PLAN:
            query[name] = getattr(plan, name)
        if plan.point is not None:  # a fixed focal point is known from the beginning
            query["x"], query["y"] = plan.point
            query["known"] = query["fixed"] = 1
        self._bits.add(query, slot)
        if plan.mode == NEAREST:
            self._start_list(slot, plan.k)

    def _start_list(self, slot: int, k: int) -> None:
        self.queries["list_start"][slot] = self._list_starts.take(slot, k)
        if self._list_starts.end > len(self.lists):
            self.lists = grown(self.lists, 2 * self._list_starts.end, len(self.lists))

    def remove(self, number: int) -> None:
        slot = self.slot_of.pop(number)
        query = self.queries[slot]
        unwatch_one(self.queries, slot, self.grid)
        remove_one_by_age(self.queries, self.ends, AGED_QUERIES, slot)
        self._bits.remove(query, slot)
        self.waiting.discard(slot)
        if query["mode"] == NEAREST:
            self._list_starts.give_back(slot)
        self.query_slots.give_back(slot)
        self.dirty_queries[slot // QUERY_BLOCK] = 1

    def _fit_blocks(self) -> None:
        """Makes room for all slots in the marks of blocks."""
        blocks = -(-self.query_slots.size // QUERY_BLOCK)
        if blocks > len(self.dirty_queries):
            more = np.zeros(blocks, np.uint8)
            self.dirty_queries = np.concatenate([self.dirty_queries, more])

    # objects

    def make_room(self, count: int) -> None:
        """Makes room for objects with numbers below `count`, and for the bits of all conditions."""
        if self.conditions.words > self.truths.shape[1]:
            more = self.conditions.words - self.truths.shape[1]
            self.truths = np.concatenate([self.truths, np.zeros((len(self.truths), more), np.uint64)], axis=1)
        old = len(self.objects)
        if count > old:
            more = max(old, count - old)
            self.objects = np.concatenate([self.objects, new_objects(more)])
            self.truths = np.concatenate([self.truths, np.zeros((more, self.truths.shape[1]), np.uint64)])
            for slot, k, start in self._list_starts.outgrown(len(self.objects)):
                entries = self.lists[start : start + int(self.queries["listed"][slot])].copy()
                self._start_list(slot, k)
                first = int(self.queries["list_start"][slot])
                self.lists[first : first + len(entries)] = entries
            blocks = len(self.objects) // BLOCK + 1
            self.dirty_objects = np.concatenate(
                [self.dirty_objects, np.zeros(blocks - len(self.dirty_objects), np.uint8)]
            )

    def set_bit(self, packet: Packet, homes: int) -> None:
        """Says of the objects of a home zone whether a condition holds for them, as a truths message does."""
        who, bit = packet.rows.column("who").to_numpy(), packet.facts["bit"]
        self.make_room(int(who.max(initial=-1)) + 1)
        word, mask = bit >> 6, np.uint64(1) << np.uint64(bit & 63)
        self.truths[packet.facts["from"] :: homes, word] &= ~mask
        self.truths[who, word] |= mask
        self.dirty_objects[np.flatnonzero(self.objects["present"]) // BLOCK] = 1

    def list_by_age(self) -> None:
        """Builds the lists of objects and queries by the tick at which they expire again."""
        for entries, which, there in (
            (self.objects, AGED_OBJECTS, "present"),
            (self.queries, AGED_QUERIES, "known"),
        ):
            mortal = np.flatnonzero((entries["expires"] != NEVER) & (entries[there] != 0))
            entries["younger"] = entries["older"] = -1
            order = mortal[np.argsort(entries["expires"][mortal], kind="stable")]
            list_by_age(entries, self.ends, which, order)

    def run(self, moves: MoveBatch, events: Array, last: int) -> Array:
        """Returns the rows (ROW) of this server's fragments up to tick `last`; see kernels/region_tick."""
        if not len(moves.records) and not len(events) and (self.ends[:, 0] < 0).all():
            return np.zeros(0, ROW)  # nothing changes, and nobody can expire
        self._fit_grid(moves.records)
        self._list_objects(len(events) > 0, len(moves.records))
        arrays = self.arrays()
        scratch = self._scratch(moves.records)
        return np.asarray(
            run(self.metric, arrays, self.grid, self.names.arrays, moves, events, last, scratch)
        )

    def arrays(self) -> ServerArrays:
        """Returns the arrays as kernels take them; valid until something grows."""
        return ServerArrays(
            self.objects,
            self.truths,
            self.queries,
            self.lists,
            self.ends,
            self.dirty_objects,
            self.dirty_queries,
            self.tallies,
        )

    def _scratch(self, moves: Array) -> TickScratch:
        objects, queries = len(self.objects), len(self.queries)
        longest = max(1, self._list_starts.longest)
        expire = self.ends[AGED_OBJECTS, 0] >= 0 or (len(moves) > 0 and moves["expires"][0] != NEVER)
        moved = objects if expire else min(objects, len(moves))  # an object changes once per tick
        return TickScratch(
            np.empty(moved, MOVED),
            np.empty((moved, self.truths.shape[1]), np.uint64),
            np.empty(queries, np.int64),
            np.empty(queries, np.int64),
            np.empty(max(objects, queries), np.int64),
            np.empty(longest, np.int64),
            np.empty(longest, np.float64),
        )

    # the grid

    def _fit_grid(self, moves: Array) -> None:
        """Builds the grid again when it no longer fits: twice as many objects, many reports from beyond its
        border, or many new queries.
        """
        is_made = self._bits.fit(self.queries)
        if len(moves):
            grid, x = self.grid, grid_xs(self.metric, moves["x"])
            beyond = (x < grid.x) | (x > grid.x + grid.columns * grid.width)
            beyond |= (moves["y"] < grid.y) | (moves["y"] > grid.y + grid.rows * grid.height)
            count = self.tallies[PRESENT] + np.count_nonzero(self.objects["present"][moves["who"]] == 0)
            is_fit = count <= 2 * self._objects_in_grid and 5 * np.count_nonzero(beyond) <= len(beyond)
            is_made = is_made and bool(is_fit)
        if not is_made:
            self.make_grid(moves)

    def make_grid(self, moves: Array | None = None) -> None:
        """Builds a grid over the middle 98 per cent of the objects (and of reports that are about to come),
        with every object and query.
        """
        present = self.objects[self.objects["present"] != 0]
        x, y, count = grid_xs(self.metric, present["x"]), present["y"], len(present)
        self.tallies[PRESENT] = count
        if moves is not None:
            x, y = np.concatenate([x, grid_xs(self.metric, moves["x"])]), np.concatenate([y, moves["y"]])
            count += len(np.unique(moves["who"]))
        self._objects_in_grid = count
        self._bits.assign(self.queries)
        self.grid = self._new_grid(_middle(x), _middle(y), count)
        self._fill_cells()
        watch_all(self.metric, self.queries, self.grid)

    def _new_grid(self, x: tuple[float, float], y: tuple[float, float], count: int) -> ObjectGrid:
        """Returns a grid between these bounds without objects, which nobody watches yet."""
        words, fences = self._bits.words, self._bits.fences
        most = min(MOST_COLUMNS, int((MOST_WATCH_BYTES / (8 * words)) ** 0.5))
        side = max(LEAST_COLUMNS, min(most, int((max(count, len(fences)) / PER_CELL) ** 0.5)))
        grid = self._empty_grid(x, y, side)
        while side > LEAST_COLUMNS and (
            count_cells(self.metric, self.queries, fences, grid) > MOST_FENCE_CELLS
        ):
            side = max(LEAST_COLUMNS, side // 2)
            grid = self._empty_grid(x, y, side)
        index = index_cells(self.metric, self.queries, place_fences(self.queries, fences), grid)
        return grid._replace(fences=index)

    def _empty_grid(self, x: tuple[float, float], y: tuple[float, float], side: int) -> ObjectGrid:
        wide, tall = x[1] - x[0], y[1] - y[0]
        return ObjectGrid(
            x[0] - 0.01 * wide,
            y[0] - 0.01 * tall,
            wide * 1.02 / side if wide > 0 else 1.0,
            tall * 1.02 / side if tall > 0 else 1.0,
            side,
            side,
            np.full(side * side, -1, np.int32),
            np.zeros((side * side, self._bits.words), np.uint64),
            np.zeros((side * side, self._bits.words), np.uint64),
            self._bits.slots,
            _NO_FENCES,
        )

    def _list_objects(self, now: bool, moves: int) -> None:
        """Makes the lists of the objects in each cell, if somebody needs them now and they were not kept.

        Where all queries are fences they are needed only when one starts. Keeping them costs each move more
        than all else, so that ends once as many objects have moved as a new list would hold.
        """
        self._idle_moves = 0 if now or self._bits.needing_lists else self._idle_moves + moves
        if self._idle_moves > self.tallies[PRESENT]:
            self.tallies[LISTED] = 0
        elif not self.tallies[LISTED]:
            self._fill_cells()

    def _fill_cells(self) -> None:
        self.grid.first[:] = -1
        add_all_to_grid(self.metric, self.objects, self.grid)
        self.tallies[LISTED] = 1

    # what is stored

    def load(self, state: State, plans: dict[int, MovingPlan], prefix: str = "") -> RegionalServer:
        """Fills this server, which has nothing yet, from the chunks under a prefix."""
        for key in state.keys(prefix + OBJECTS):
            chunk = state.get(key)
            assert chunk is not None
            who = chunk["who"]
            self.make_room(int(who.max()) + 1)
            for name in _STORED_OF_OBJECT:
                self.objects[name][who] = chunk[name]
            self.objects["present"][who] = 1
            self.truths[who, : chunk["truths"].shape[1]] = chunk["truths"]
        chunks = [state.get(key) or {} for key in state.keys(prefix + LOCALS)]
        if chunks:
            self.query_slots.restore(np.concatenate([chunk["slot"] for chunk in chunks]))
            self._fit_blocks()
        for chunk in chunks:
            self._load_queries(chunk, plans)
        self.make_grid()
        self.list_by_age()
        return self

    def _load_queries(self, chunk: dict[str, Array], plans: dict[int, MovingPlan]) -> None:
        taken = 0
        numbers = zip(chunk["slot"].tolist(), chunk["number"].tolist(), strict=True)
        for row, (slot, number) in enumerate(numbers):
            self._set_plan(slot, plans[number])
            query = self.queries[slot]
            for name in _STORED_OF_QUERY:
                query[name] = chunk[name][row]
            if not query["started"]:
                self.waiting.add(slot)
            if query["mode"] == NEAREST:
                query["a"] = chunk["a"][row]
                first, listed = int(query["list_start"]), int(query["listed"])
                self.lists[first : first + listed] = chunk["lists"][taken : taken + listed]
                taken += listed

    def save(self, state: State, prefix: str = "") -> None:
        """Stores the objects and queries that changed since the last call."""
        for block in np.flatnonzero(self.dirty_objects).tolist():
            who, truths, *columns = present_objects(self.objects, self.truths, block * BLOCK)
            chunk = {"who": who, "truths": truths, **dict(zip(_STORED_OF_OBJECT, columns, strict=True))}
            _put(state, f"{prefix}{OBJECTS}{block:08d}", chunk, len(who))
        for block in np.flatnonzero(self.dirty_queries).tolist():
            first = block * QUERY_BLOCK
            slot = first + np.flatnonzero(self.queries["number"][first : first + QUERY_BLOCK] >= 0)
            queries = self.queries[slot]
            ranges = zip(queries["list_start"].tolist(), queries["listed"].tolist(), strict=True)
            lists = [self.lists[start : start + listed] for start, listed in ranges]
            chunk = {"slot": slot, "lists": np.concatenate([*lists, np.zeros(0, np.int64)])}
            chunk |= {name: queries[name] for name in ("number", "a", *_STORED_OF_QUERY)}
            _put(state, f"{prefix}{LOCALS}{block:08d}", chunk, len(slot))
        self.dirty_objects[:] = 0
        self.dirty_queries[:] = 0


def grid_xs(metric: Metric, x: Floats) -> Floats:
    """Returns the x by which the grid knows positions: as `grid_x` does."""
    if not metric.globe or (np.abs(x) <= 180.0).all():
        return x
    return np.asarray(np.remainder(x + 180.0, 360.0) - 180.0)


def _middle(values: Array) -> tuple[float, float]:
    """Returns the bounds of the middle 98 per cent of some values."""
    if not len(values):
        return 0.0, 1.0
    low, high = np.quantile(values, [0.01, 0.99]).tolist()
    return low, high


def _put(state: State, key: str, chunk: dict[str, Array], entries: int) -> None:
    if entries:
        state.put(key, chunk)
    else:
        state.drop(key)


class QueryBits:
    """Where the queries of a server are in its grid: as fences, or with a bit of their own per cell.

    Fences are queries for a range around a fixed point. There may be very many of them, so they get places in
    an index (FenceIndex) and cost only the cells they touch. The others move, and so do the cells they watch:
    they have a bit each. A fence that is new has a bit as well, until enough have come to make the grid
    again.

    Bits in use are those of `slots` that are not -1; there are 64 * `words`.
    """

    def __init__(self) -> None:
        self.words = 1
        self.slots = np.full(64, -1, np.int64)
        self.fences = np.zeros(0, np.int64)  # slots of queries, in the order of their places
        self.needing_lists = 0  # queries that may look for objects in cells in any tick
        self._new: set[int] = set()  # slots
        self._free: list[int] = []
        self._loose = 0  # fences that have bits

    def add(self, query: Array, slot: int) -> None:
        """Notes a query (QUERY); it gets its bit from `fit`."""
        self._new.add(slot)
        self.needing_lists += _needs_lists(query)

    def remove(self, query: Array, slot: int) -> None:
        self._new.discard(slot)
        self.needing_lists -= _needs_lists(query)
        if query["bit"] >= 0:
            self._free.append(int(query["bit"]))
            self._loose -= int(query["fixed"])

    def fit(self, queries: Array) -> bool:
        """Gives new queries bits. Returns False if the grid has to be made again, with `assign`."""
        if not self._new:
            return True
        new = sorted(self._new)
        self._loose += int(np.count_nonzero(queries["fixed"][new]))
        few = FEW_FENCES + SHARE_OF_FENCES * len(self.fences)
        if len(new) > len(self._free) or self._loose > few:
            return False
        for slot in new:
            query, bit = queries[slot], self._free.pop()
            query["bit"], self.slots[bit] = bit, slot
        self._new = set()
        return True

    def assign(self, queries: Array) -> None:
        """Gives all queries new bits, or makes them fences."""
        there = queries["number"] >= 0
        is_fence = there & (queries["fixed"] != 0) & (queries["here"] != 0) & (queries["mode"] != NEAREST)
        slots = np.flatnonzero(is_fence)
        self.fences = slots[_by_neighbourhood(queries[slots])]
        queries["bit"] = queries["place"] = -1
        others = np.flatnonzero(there & ~is_fence)
        queries["bit"][others] = np.arange(len(others))
        while len(others) + FEW_FENCES > 64 * self.words:
            self.words *= 2
        self.slots = np.full(64 * self.words, -1, np.int64)
        self.slots[: len(others)] = others
        self._free = list(range(64 * self.words - 1, len(others) - 1, -1))
        self._new = set()
        self._loose = 0


def _needs_lists(query: Array) -> bool:
    return not query["fixed"] or bool(query["mode"] > COUNT)


def _by_neighbourhood(fences: Array) -> Ints:
    """Returns an order in which fences of similar size (within a factor of four) that lie near each other are
    near each other.
    """
    size = np.frexp(np.maximum(fences["a"], fences["b"]))[1] // 2
    code = _spread(fences["x"]) | (_spread(fences["y"]) << np.uint64(1))
    return np.lexsort((code, size))


def _spread(values: Array) -> Words:
    """Returns the values, as whole numbers of 16 bits, with a 0 between any two bits."""
    low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
    wide = high - low if high > low else 1.0
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num((values - low) / wide)
    out: Words = (share * 65535).astype(np.uint64)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        out = (out | (out << np.uint64(shift))) & np.uint64(mask)
    return out


# what messages bring, as kernels take it


def moves_in(packets: Sequence[Packet], server: RegionalServer) -> MoveBatch:
    """Returns the moves of all home zones in stream order; the server gets room for them."""
    columns = {name: servers.column(packets, name, MOVE[name]) for name in MOVE.names or ()}
    server.make_room(max(len(server.names.arrays.start), int(columns["who"].max(initial=-1)) + 1))
    moves, truths = records(MOVE, columns), servers.truths_in(packets, server.truths.shape[1])
    if len(packets) > 1:
        order = np.argsort(moves["number"], kind="stable")
        moves, truths = moves[order], truths[order]
    return MoveBatch(moves, truths)


def focal_events(packets: Sequence[Packet], server: RegionalServer) -> Array:
    """Returns the events (EVENT) of queries whose focal objects reported, as the home zones request them."""
    focal = servers.of_kind(packets, servers.FOCAL_UPDATES)
    requests = servers.of_kind(packets, servers.REQUESTS)
    if not requests:
        return np.zeros(0, EVENT)
    firsts = np.cumsum([0, *(packet.rows.num_rows for packet in focal)])[: len(focal)]
    row = servers.column(requests, "focal", np.int64)
    row += np.repeat(firsts, [packet.rows.num_rows for packet in requests])
    flags = servers.column(requests, "flags", np.uint8)
    events = np.zeros(len(row), EVENT)
    for name, column in (
        *(("tick", "tick"), ("x", "x"), ("y", "y"), ("focal", "who")),
        ("expires", "expires"),
    ):
        events[name] = servers.column(focal, column, EVENT[name])[row]
    events["kind"] = FOCAL
    numbers = servers.column(requests, "query", np.int64)
    events["slot"] = [server.slot_of.get(number, -1) for number in numbers.tolist()]
    events["here"] = (flags & servers.PARTICIPATES) != 0
    events["known"] = (flags & servers.IS_KNOWN) != 0
    return events[events["slot"] >= 0]


def query_events(
    state: State, server: RegionalServer, updates: Array, ticks: Ticks, last: dict[int, int], final: int
) -> Array:
    """Returns the events (EVENT) of queries up to tick `final`, by tick and kind: ends, starts, and focal
    updates. `last` are the last ticks of cancelled queries.
    """
    if not (len(updates) or last or server.waiting):
        return updates
    ends = [
        (tick + 1, server.slot_of[number])
        for number, tick in last.items()
        if tick < final and number in server.slot_of
    ]
    starts = _starts(state, server, ticks, last, final)
    few = np.zeros(len(ends) + len(starts), EVENT)
    few["tick"] = [tick for tick, _ in [*ends, *starts]]
    few["slot"] = [slot for _, slot in [*ends, *starts]]
    few["kind"] = [ENDS] * len(ends) + [STARTS] * len(starts)
    events = np.concatenate([few, updates])
    # by `expires` as well: the list of queries by age is in order only if they come in order
    return events[np.lexsort((events["expires"], events["kind"], events["tick"]))]


def _starts(
    state: State, server: RegionalServer, ticks: Ticks, last: dict[int, int], final: int
) -> list[tuple[int, int]]:
    """Returns (tick, slot) of the queries whose first tick is final now."""
    out = []
    active = control.queries(state) if server.waiting else {}
    for slot in sorted(server.waiting):
        number = int(server.queries["number"][slot])
        first = ticks.first_after(active[number].activate)
        if first <= min(final, last.get(number, ENDLESS)):
            out.append((first, slot))
    server.waiting.difference_update(slot for _, slot in out)
    return out
