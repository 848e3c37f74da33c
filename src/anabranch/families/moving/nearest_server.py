"""The second server of a region, for the zone's queries for nearest objects. It has only the objects in their
search regions.

It gets the moves of objects in the cells that it asked the homes for, the records of objects in cells that
are new to it, and focal updates. Results leave it once no larger search region could change them:

    batch b      all proven at every tick   rows; search regions as CalcSearchRegion says, sent if they
    changed
                 one is not                 no rows; the run is undone, its focal updates are kept; search
                                            regions that are large enough for b are sent, as late
    batch b + 1                             homes send what b lacked; now b is proven, and then its own ticks

A run that lacks objects has the k-th nearest too far away, never too near. So the search regions that it says
it needs are large enough for the run with all objects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.chain.packets import Packet
from anabranch.chain.state import Arrays, State
from anabranch.families.moving import servers
from anabranch.families.moving.kernels.arrays import EVENT, NEVER, QUERY_BLOCK, Metric, MoveBatch, records
from anabranch.families.moving.kernels.home_moves import RECORD
from anabranch.families.moving.kernels.search_circles import (
    Raster,
    add_objects,
    adjust_circles,
    circles_box,
    enlarge_circles,
    mark_cells,
    remove_outside,
    reset_needs,
    update_slack,
)
from anabranch.families.moving.query_plans import MovingPlan, finish, last_ticks, plans
from anabranch.families.moving.regional_server import RegionalServer, focal_events, moves_in, query_events
from anabranch.families.moving.servers import Ticks, final_tick, progress_of
from anabranch.model.arrays import Array

PREFIX = "nearest/"
RASTER, LATE = PREFIX + "raster", PREFIX + "late"

#: Columns and rows of a raster.
SIDE = 128

_BOX = ("x", "y", "high_x", "high_y", "per_x", "per_y")

EVERYTHING = Raster(-math.inf, -math.inf, math.inf, math.inf, 0.0, 0.0, 1, 1, np.ones(1, np.uint64))
NOTHING = Raster(math.inf, math.inf, -math.inf, -math.inf, 0.0, 0.0, 1, 1, np.zeros(1, np.uint64))


class NearestServer:
    """Kept in memory between batches; built from the state where a worker takes the zone over. Names and
    conditions are those of the region's main server.
    """

    def __init__(self, state: State, main: RegionalServer, integers: bool) -> None:
        self.main, self.integers = main, integers
        self.server = self._loaded(state)
        stored = state.get(RASTER)
        self.raster: Raster = NOTHING if stored is None else raster_from(stored)
        self._stored = self.raster

    def _loaded(self, state: State) -> RegionalServer:
        server = RegionalServer(self.main.metric, self.main.names, self.main.conditions)
        return server.load(state, plans(state, self.integers), PREFIX)

    def __contains__(self, number: int) -> bool:
        """Whether it has the query of this number."""
        return number in self.server.slot_of

    def add(self, plan: MovingPlan, condition: int) -> None:
        """Adds a query. The homes see it activated, too, and send this zone everything from this batch on."""
        self.server.add(plan, condition, plan.point is not None)
        self.raster = EVERYTHING

    def step(
        self,
        zone: int,
        homes: int,
        state: State,
        packets: Sequence[Packet],
        ticks: Ticks | None,
        before: int,
    ) -> tuple[list[Array], list[Packet]]:
        """Returns the rows (ROW) of the ticks that are proven now, and messages for the homes. Ticks up to
        `before` were final before this batch.
        """
        late = state.get(LATE)
        self._add_records(packets, before if late is None else int(late["before"][0]))
        if ticks is None or not self.server.slot_of:
            self._save(state)
            return [], []
        moves = moves_in(servers.of_kind(packets, servers.NEAREST_MOVES), self.server)
        rows = []
        if late is not None:
            state.drop(LATE)
            then = int(late["final"][0])
            rows.append(self._run(state, _between(moves, -1, then), records(EVENT, late), ticks, then))
            assert not self._is_short(), "a search region that was large enough is not"
            self._finish(state, ticks, then)
            before = then
        self._save(state)  # what `_undo_run` goes back to
        progress = progress_of(packets)
        if not progress:
            return rows, []
        final, updates = final_tick(ticks, progress), focal_events(packets, self.server)
        new = self._run(state, _between(moves, before, final), updates, ticks, final)
        short = self._is_short()
        if short:
            self._undo_run(state)
            state.put(LATE, _late(updates, before, final))
        else:
            rows.append(new)
            self._finish(state, ticks, final)
            adjust_circles(self.server.metric, self.server.arrays())
        out = [] if progress["ended"] and not short else self._search(zone, homes, short)
        self._save(state)
        return rows, out

    def _add_records(self, packets: Sequence[Packet], before: int) -> None:
        """Adds the objects of cells that are new to this zone, without those that had expired by then."""
        sent = servers.of_kind(packets, servers.RECORDS)
        who = servers.column(sent, "who", np.int64)
        if not len(who):
            return
        server = self.server
        server.make_room(max(len(server.names.arrays.start), int(who.max()) + 1))
        columns = {name: servers.column(sent, name, RECORD[name]) for name in RECORD.names or ()}
        known, truths = records(RECORD, columns), servers.truths_in(sent, server.truths.shape[1])
        here = known["expires"] > before
        add_objects(server.metric, server.arrays(), server.grid, who[here], known[here], truths[here])
        if (known["expires"] != NEVER).any():
            server.list_by_age()

    def _run(self, state: State, moves: MoveBatch, updates: Array, ticks: Ticks, final: int) -> Array:
        reset_needs(self.server.metric, self.server.queries)
        events = query_events(state, self.server, updates, ticks, last_ticks(state, ticks), final)
        rows = self.server.run(moves, events, final)
        update_slack(self.server.arrays())
        return rows

    def _is_short(self) -> bool:
        """Whether a list of the last run is not proven."""
        queries = self.server.queries
        short = (queries["number"] >= 0) & (queries["need"] > queries["reach"])
        return self.raster is not EVERYTHING and bool(short.any())

    def _undo_run(self, state: State) -> None:
        """Goes back to before the run, with search regions that are large enough for it."""
        run = self.server.queries
        enlarge_circles(self.server.metric, run)
        self.server = self._loaded(state)
        slots = np.flatnonzero(self.server.queries["number"] >= 0)
        for name in ("centre_x", "centre_y", "reach"):
            self.server.queries[name][slots] = run[name][slots]
        self.server.dirty_queries[slots // QUERY_BLOCK] = 1

    def _finish(self, state: State, ticks: Ticks, final: int) -> None:
        """Removes the queries whose last tick is final."""
        mine = {number: tick for number, tick in last_ticks(state, ticks).items() if number in self}
        for number in finish(state, final, mine):
            self.server.remove(number)

    def _search(self, zone: int, homes: int, late: bool) -> list[Packet]:
        """Uses the search regions that there are now from the next batch on; returns messages if they
        changed.
        """
        raster = raster_of(self.server.metric, self.server.queries)
        if is_same(raster, self.raster) and not late:
            return []
        self.raster = raster
        remove_outside(self.server.metric, self.server.arrays(), self.server.grid, raster)
        return [search_message(home, raster, zone, late) for home in range(homes)]

    def _save(self, state: State) -> None:
        self.server.save(state, PREFIX)
        if self.raster is not self._stored:
            if self.raster is NOTHING:
                state.drop(RASTER)
            else:
                state.put(RASTER, raster_arrays(self.raster))
            self._stored = self.raster


def _between(moves: MoveBatch, before: int, final: int) -> MoveBatch:
    """Returns the moves of ticks after `before`, up to `final`."""
    rows = (moves.records["tick"] > before) & (moves.records["tick"] <= final)
    return moves if rows.all() else MoveBatch(moves.records[rows], moves.truths[rows])


def _late(updates: Array, before: int, final: int) -> dict[str, Any]:
    """Returns what is kept of a batch that has to be run again."""
    kept: dict[str, Any] = {name: updates[name].copy() for name in EVENT.names or ()}
    return kept | {"before": np.array([before]), "final": np.array([final])}


# rasters: the cells that the search regions of a zone's queries cover, as they are sent to the homes


def raster_of(metric: Metric, queries: Array) -> Raster:
    """Returns what the search regions of these queries (QUERY) cover together."""
    reach = queries["reach"][queries["number"] >= 0]
    if (reach == math.inf).any():
        return EVERYTHING
    low_x, high_x, low_y, high_y = circles_box(metric, queries)
    if low_x > high_x:
        return NOTHING
    if metric.globe:
        low_x, high_x = max(low_x, -180.0), min(high_x, 180.0)
    bits = np.zeros(SIDE * SIDE // 64, np.uint64)
    per_x, per_y = _per_unit(low_x, high_x), _per_unit(low_y, high_y)
    raster = Raster(low_x, low_y, high_x, high_y, per_x, per_y, SIDE, SIDE, bits)
    mark_cells(metric, queries, raster)
    return raster


def _per_unit(low: float, high: float) -> float:
    """Returns the cells per unit; 0, which puts all into one column, where that is no finite number."""
    size = high - low
    return SIDE / size if 0.0 < size < math.inf and SIDE / size < math.inf else 0.0


def is_same(one: Raster, other: Raster) -> bool:
    return one[:-1] == other[:-1] and bool(np.array_equal(one.bits, other.bits))


def search_message(home: int, raster: Raster, sender: int, late: bool) -> Packet:
    """`late`: it is needed for the last batch already."""
    facts = {"box": raster_arrays(raster)["box"].tolist(), "late": late}
    columns = {"bits": raster.bits}
    return servers.message(servers.HOME, home, servers.SEARCH, columns, sender, **facts)


def raster_in(packet: Packet) -> Raster:
    """Returns the raster of a search message."""
    bits = packet.rows.column("bits").to_numpy().copy()
    return raster_from({"box": np.array(packet.facts["box"], np.float64), "bits": bits})


def raster_arrays(raster: Raster) -> Arrays:
    return {"box": np.array([getattr(raster, name) for name in _BOX]), "bits": raster.bits}


def raster_from(arrays: Arrays) -> Raster:
    """Returns the raster of these arrays; everything and nothing are always the two above."""
    if len(arrays["bits"]) == 1:
        return EVERYTHING if arrays["bits"][0] else NOTHING
    box = dict(zip(_BOX, arrays["box"].tolist(), strict=True))
    return Raster(**box, columns=SIDE, rows=SIDE, bits=arrays["bits"])
