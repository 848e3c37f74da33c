"""The second server of a region, for the zone's queries for nearest objects: with the objects in their search
regions alone.

In: moves of the objects in the cells that the zone told the homes, records of those in cells new to it, focal
updates. Out: the rows of proven answers; the cells for the next batch. Never: an answer that a larger search
region could change.

    batch b      all proven at every tick   rows; regions as CalcSearchRegion says, told if they changed
                 one is not                 no rows; the run is forgotten, its focal updates are kept; regions
                                            large enough for b are told, as late
    batch b + 1                             homes send what b lacked; now b is proven, and then its own ticks

A run that lacks objects has the k-th nearest too far away, never too near. So what it says an answer needs is
enough for the run with all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.families.moving import messages, stored
from anabranch.families.moving.arrays import records
from anabranch.families.moving.events import events_of, focal_updates, starts_of
from anabranch.families.moving.handover import moves_of
from anabranch.families.moving.plans import Plan, finish, last_ticks, plans
from anabranch.families.moving.rasters import (
    EVERYTHING,
    NOTHING,
    arrays_of,
    is_same,
    raster_from,
    raster_of,
    search_message,
)
from anabranch.families.moving.server import RegionalServer
from anabranch.families.moving.ticks import Ticks, final_tick, progress_of
from anabranch.kernels.moving_arrays import EVENT, NEVER, QUERY_BLOCK
from anabranch.kernels.moving_search import RECORD, Raster, adjust, begin, enlarge, learn, let_go, take_in
from anabranch.zones.columns import Array
from anabranch.zones.packets import Packet
from anabranch.zones.state import State

RASTER, LATE = stored.NEAR + "raster", stored.NEAR + "late"


class NearServer:
    """In memory between batches; built from the state where a worker takes the zone over."""

    def __init__(self, state: State, main: RegionalServer, integers: bool) -> None:
        self.main, self.integers = main, integers
        self.server = stored.load_near(state, main, plans(state, integers))
        held = state.get(RASTER)
        self.raster: Raster = NOTHING if held is None else raster_from(held)
        self._stored = self.raster

    @property
    def places(self) -> dict[int, int]:
        return self.server.places

    def add(self, plan: Plan, condition: int) -> None:
        """Enters a query. Homes send this zone everything from this batch on, as they see it begin, too."""
        self.server.add(plan, condition, plan.point is not None)
        self.raster = EVERYTHING

    def step(
        self,
        zone: int,
        homes: int,
        state: State,
        packets: Sequence[Packet],
        ticks: Ticks | None,
        since: int,
    ) -> tuple[list[Array], list[Packet]]:
        """The rows (ROW) of the ticks that are proven now, and what is told to the homes. Ticks up to `since`
        were final before this batch.
        """
        late = state.get(LATE)
        self._take_in(packets, since if late is None else int(late["since"][0]))
        if ticks is None or not self.places:
            self._save(state)
            return [], []
        moves = moves_of(messages.of_kind(packets, messages.NEAR_MOVES), self.server)
        rows = []
        if late is not None:
            state.drop(LATE)
            then = int(late["final"][0])
            rows.append(self._run(state, _part(moves, -1, then), records(EVENT, late), ticks, then))
            assert not self._is_short(), "a search region that was large enough is not"
            self._end(state, ticks, then)
            since = then
        self._save(state)  # what a run begins with that may be forgotten
        progress = progress_of(packets)
        if not progress:
            return rows, []
        final, updates = final_tick(ticks, progress), focal_updates(packets, self.server)
        found = self._run(state, _part(moves, since, final), updates, ticks, final)
        short = self._is_short()
        if short:
            self._forget_run(state)
            state.put(LATE, _late(updates, since, final))
        else:
            rows.append(found)
            self._end(state, ticks, final)
            adjust(self.server.space, self.server.arrays())
        told = [] if progress["ended"] and not short else self._told(zone, homes, short)
        self._save(state)
        return rows, told

    def _take_in(self, packets: Sequence[Packet], since: int) -> None:
        """Enters the objects of cells that are new to this zone, without those that were gone by then."""
        sent = messages.of_kind(packets, messages.RECORDS)
        who = messages.column(sent, "who", np.int64)
        if not len(who):
            return
        self.server.make_room(max(len(self.server.names.arrays.start), int(who.max()) + 1))
        columns = {name: messages.column(sent, name, RECORD[name]) for name in RECORD.names or ()}
        known, truths = records(RECORD, columns), messages.words(sent, self.server.truths.shape[1])
        here = known["gone"] > since
        take_in(
            self.server.space, self.server.arrays(), self.server.grid, who[here], known[here], truths[here]
        )
        if (known["gone"] != NEVER).any():
            self.server.list_by_age()

    def _run(
        self, state: State, moves: tuple[Array, Array], updates: Array, ticks: Ticks, final: int
    ) -> Array:
        begin(self.server.space, self.server.queries)
        last = last_ticks(state, ticks)
        starts = starts_of(state, self.server, ticks, final, last)
        found = self.server.run(*moves, events_of(self.server, updates, starts, last, final), final)
        learn(self.server.arrays())
        return found

    def _is_short(self) -> bool:
        """Whether an answer of the last run is not proven."""
        asked = self.server.queries
        short = (asked["number"] >= 0) & (asked["need"] > asked["reach"])
        return self.raster is not EVERYTHING and bool(short.any())

    def _forget_run(self, state: State) -> None:
        """Goes back to before the run, with search regions that are large enough for it."""
        found = self.server.queries
        enlarge(self.server.space, found)
        self.server = stored.load_near(state, self.main, plans(state, self.integers))
        places = np.flatnonzero(self.server.queries["number"] >= 0)
        for name in ("centre_x", "centre_y", "reach"):
            self.server.queries[name][places] = found[name][places]
        self.server.dirty_queries[places // QUERY_BLOCK] = 1

    def _end(self, state: State, ticks: Ticks, final: int) -> None:
        """Removes the queries whose last tick is over."""
        mine = {number: tick for number, tick in last_ticks(state, ticks).items() if number in self.places}
        for number in finish(state, final, mine):
            self.server.remove(number)

    def _told(self, zone: int, homes: int, late: bool) -> list[Packet]:
        """Goes by the search regions that there are now, from the next batch on."""
        raster = raster_of(self.server.space, self.server.queries)
        if is_same(raster, self.raster) and not late:
            return []
        self.raster = raster
        let_go(self.server.space, self.server.arrays(), self.server.grid, raster)
        return [search_message(home, raster, zone, late) for home in range(homes)]

    def _save(self, state: State) -> None:
        stored.save_near(state, self.server)
        if self.raster is not self._stored:
            if self.raster is NOTHING:
                state.drop(RASTER)
            else:
                state.put(RASTER, arrays_of(self.raster))
            self._stored = self.raster


def _part(moves: tuple[Array, Array], since: int, final: int) -> tuple[Array, Array]:
    """The moves of ticks after `since`, up to `final`."""
    rows = (moves[0]["tick"] > since) & (moves[0]["tick"] <= final)
    return moves if rows.all() else (moves[0][rows], moves[1][rows])


def _late(updates: Array, since: int, final: int) -> dict[str, Any]:
    """What is kept of a batch that has to be run again."""
    kept: dict[str, Any] = {name: updates[name].copy() for name in EVENT.names or ()}
    return kept | {"since": np.array([since]), "final": np.array([final])}
