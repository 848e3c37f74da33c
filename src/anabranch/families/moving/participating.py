"""The participating server table (PST) of a querying server: what each region last said about each of its
queries.

For plus and minus tuples nothing is kept: an object that goes from one region to another comes as a minus
and a plus of the same tick, which cancel out. For values it is the latest local value of every region, for
nearest objects the list of the zone that answers.
"""

from __future__ import annotations

import numpy as np

from anabranch.families.moving.names import NameTable
from anabranch.families.moving.plans import Plan
from anabranch.kernels.moving_arrays import NEAREST, OBJECTS, QUERY_BLOCK
from anabranch.kernels.moving_assemble import CANDIDATE, Candidates, Locals
from anabranch.zones.columns import Array
from anabranch.zones.state import State

VALUES, LISTS = "values/", "lists/"


class Participating:
    """In memory between batches; built from the state where a worker takes a zone over."""

    def __init__(self, zones: int, names: NameTable) -> None:
        self.zones, self.names = zones, names
        self.places: dict[int, int] = {}  # of queries, by number
        self.numbers = np.full(64, -1, np.int64)  # of queries, by place
        self._free_places = list(range(63, -1, -1))
        self.local = _new_locals(64, zones)
        self.lists = _new_lists(64, 64)
        self._lists_end = 1  # entry 0 is the spare one that sorting needs
        self._free_lists: dict[int, list[int]] = {}

    def add(self, plan: Plan, place: int | None = None) -> int:
        if place is None:
            if not self._free_places:
                self._grow()
            place = self._free_places.pop()
        self.places[plan.number] = place
        self.numbers[place] = plan.number
        self.local.mode[place] = plan.mode
        if plan.mode == NEAREST:
            self.lists.k[place] = plan.k
            self.lists.first[place] = self._allot(plan.k)
        return place

    def remove(self, number: int) -> None:
        place = self.places.pop(number)
        if self.local.mode[place] == NEAREST:
            self._free_lists.setdefault(int(self.lists.k[place]), []).append(int(self.lists.first[place]))
            self.lists.dirty[place // QUERY_BLOCK] = 1
        elif self.local.mode[place] != OBJECTS:
            self.local.dirty[place // QUERY_BLOCK] = 1
        self.numbers[place], self.lists.held[place], self.lists.k[place] = -1, 0, 0
        self.local.mode[place], self.local.joined[place] = OBJECTS, 0
        self.local.told[place], self.local.told_who[place] = np.nan, -1
        self._free_places.append(place)

    def mode_of(self, number: int) -> int:
        return int(self.local.mode[self.places[number]])

    def places_of(self, numbers: Array) -> Array:
        """The places of queries, -1 for those that are not here."""
        known = np.flatnonzero(self.numbers >= 0)
        known = known[np.argsort(self.numbers[known])]
        if not len(known):
            return np.full(len(numbers), -1, np.int64)
        spot = np.minimum(np.searchsorted(self.numbers[known], numbers), len(known) - 1)
        return np.where(self.numbers[known[spot]] == numbers, known[spot], -1)

    def reserve(self, places: int) -> None:
        while len(self.numbers) < places:
            self._grow()

    def _grow(self) -> None:
        old = len(self.numbers)
        self.numbers = np.concatenate([self.numbers, np.full(old, -1, np.int64)])
        local, lists = _new_locals(2 * old, self.zones), _new_lists(2 * old, len(self.lists.entries))
        for before, after in zip([*self.local, *self.lists], [*local, *lists], strict=True):
            after[: len(before)] = before
        self.local, self.lists = local, lists
        self._free_places = list(range(2 * old - 1, old - 1, -1)) + self._free_places

    def _allot(self, size: int) -> int:
        free = self._free_lists.get(size)
        if free:
            return free.pop()
        first, self._lists_end = self._lists_end, self._lists_end + size
        if self._lists_end > len(self.lists.entries):
            lists = _new_lists(len(self.numbers), 2 * self._lists_end)
            for before, after in zip(self.lists, lists, strict=True):
                after[: len(before)] = before
            self.lists = lists
        return first

    # what is stored

    @staticmethod
    def load(state: State, zones: int, plans: dict[int, Plan]) -> Participating:
        table = Participating(zones, NameTable.load(state))
        kept: dict[int, tuple[str, int]] = {}
        for prefix in (VALUES, LISTS):
            for key in state.keys(prefix):
                chunk = state.get(key)
                assert chunk is not None
                kept |= {number: (key, row) for row, number in enumerate(chunk["number"].tolist())}
        for plan in plans.values():
            key, row = kept.get(plan.number, ("", 0))
            chunk = state.get(key) or {}
            if key:
                table.reserve(int(chunk["place"][row]) + 1)
                place = table.add(plan, int(chunk["place"][row]))
                table._take(chunk, row, place, key.startswith(LISTS))
        table._free_places = np.flatnonzero(table.numbers < 0)[::-1].tolist()
        for number in plans.keys() - table.places.keys():
            table.add(plans[number])
        return table

    def _take(self, chunk: dict[str, Array], row: int, place: int, is_list: bool) -> None:
        if not is_list:
            for name in ("joined", "value", "who", "told", "told_who"):
                getattr(self.local, name)[place] = chunk[name][row]
            return
        first, held = int(self.lists.first[place]), int(chunk["held"][row])
        from_row = int(chunk["held"][:row].sum())
        self.lists.held[place] = held
        for name in CANDIDATE.names or ():
            self.lists.entries[name][first : first + held] = chunk[name][from_row : from_row + held]

    def save(self, state: State) -> None:
        """Stores what changed since the last call."""
        self.names.save(state)
        for block in np.flatnonzero(self.local.dirty).tolist():
            place = self._places(block, (self.local.mode != OBJECTS) & (self.local.mode != NEAREST))
            chunk = {
                name: getattr(self.local, name)[place]
                for name in ("joined", "value", "who", "told", "told_who")
            }
            self._put(state, f"{VALUES}{block:08d}", place, chunk)
        for block in np.flatnonzero(self.lists.dirty).tolist():
            place = self._places(block, self.local.mode == NEAREST)
            entries = [
                np.arange(f, f + h)
                for f, h in zip(self.lists.first[place], self.lists.held[place], strict=True)
            ]
            entry = np.concatenate([*entries, np.zeros(0, np.int64)])
            chunk = {name: self.lists.entries[name][entry] for name in CANDIDATE.names or ()}
            self._put(state, f"{LISTS}{block:08d}", place, chunk | {"held": self.lists.held[place]})
        self.local.dirty[:] = 0
        self.lists.dirty[:] = 0

    def _places(self, block: int, wanted: Array) -> Array:
        first, last = block * QUERY_BLOCK, (block + 1) * QUERY_BLOCK
        return first + np.flatnonzero(wanted[first:last] & (self.numbers[first:last] >= 0))

    def _put(self, state: State, key: str, place: Array, chunk: dict[str, Array]) -> None:
        if len(place):
            state.put(key, {"place": place, "number": self.numbers[place]} | chunk)
        else:
            state.drop(key)


def _new_locals(size: int, zones: int) -> Locals:
    return Locals(
        np.full(size, OBJECTS, np.uint8),
        np.zeros((size, zones), np.uint8),
        np.full((size, zones), np.nan),
        np.full((size, zones), -1, np.int64),
        np.full(size, np.nan),
        np.full(size, -1, np.int64),
        np.zeros(size // QUERY_BLOCK + 1, np.uint8),
    )


def _new_lists(size: int, entries: int) -> Candidates:
    return Candidates(
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size // QUERY_BLOCK + 1, np.uint8),
        np.zeros(entries, CANDIDATE),
    )
