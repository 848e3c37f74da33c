"""The third stage of moving: the querying servers. A zone has the assemblers of the queries whose issuers are
in its region (QueryingServers).

In: fragments of the regions, by tick; names of objects; activations and cancellations; where issuers are.
Out: result rows, by query and tick; within a tick first those that leave, then those that enter, each by
name; and assemblers whose issuers have gone to another region (section 4.4, phase II). Never: a position that
no region sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.balance import Patience
from anabranch.chain.items import ARROW_TYPES, subscription_column
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.state import Arrays, State
from anabranch.families.moving import servers
from anabranch.families.moving.kernels.arrays import MINUS_OF_K, NEAREST, OBJECTS, PLUS_OF_K, QUERY_BLOCK
from anabranch.families.moving.kernels.assemble_fragments import (
    CANDIDATE,
    FRAGMENT,
    CandidateLists,
    LocalValues,
    assemble_nearest,
    assemble_values,
)
from anabranch.families.moving.kernels.object_names import (
    ObjectNames,
    counting_order,
    sort_by_name,
)
from anabranch.families.moving.query_plans import (
    ListStarts,
    MovingPlan,
    apply_control,
    finish,
    last_ticks,
    plan_of,
    plans,
)
from anabranch.families.moving.servers import (
    MovingStage,
    QueryingServers,
    Ticks,
    at_type,
    final_before,
    final_tick,
    progress_of,
    put_final,
    ticks_known,
)
from anabranch.model.arrays import Array, Bools, Ints
from anabranch.model.stream import Stream
from anabranch.numeric.slots import Slots, grown

MOVING, VALUES = "moving", "values"

_TABLE = "participating servers"
_VALUES, _LISTS = "values/", "lists/"
_STORED_OF_VALUE = ("joined", "value", "who", "result", "result_who")
_OF_TUPLE = ("tick", "op", "who", "x", "y", "distance")
#: The mode of a query that is no longer here.
_GONE = np.uint8(255)
#: Keys are sorted by counting if there are fewer than so many possible ones per row; queries are found
#: through a table if it has fewer than so many entries per query; and a share of the queries that are few.
_COUNTED, _SPARSE, _FEW = 8, 16, 16


class Assemble(MovingStage):
    name = "assemble"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        super().__init__(stream, zones, patience)
        self.at = ARROW_TYPES[at_type(stream)]

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        table, querying = state.cached(_TABLE, state.keys(), lambda: self._loaded(zone, state))
        table.install(plans(state, self.integers), packets)
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                for query in apply_control(state, packet)[0]:
                    if querying[query.number] == zone:
                        table.add(plan_of(query, self.integers))
        for packet in servers.of_kind(packets, servers.NAMES):
            table.names.add(*servers.names_in(packet))
        progress = progress_of(packets)
        ticks = ticks_known(state, self.stream, progress)
        fragments = servers.of_kind(packets, servers.FRAGMENTS)
        out = self._results(state, table, fragments, ticks) if fragments else []
        if progress and ticks is not None:
            done = self._finished(state, ticks, final_tick(ticks, progress))
            querying.remove(done)
            for number in table.slot_of.keys() & set(done):
                table.remove(number)
        out += self._ship(zone, state, table, querying, packets)
        table.save(state)
        querying.save(state)
        state.cache(_TABLE, state.keys(), (table, querying))
        return out

    def _loaded(self, zone: int, state: State) -> tuple[ParticipatingServers, QueryingServers]:
        querying, known = QueryingServers(state, self.zones), plans(state, self.integers)
        mine = {number: plan for number, plan in known.items() if querying[number] == zone}
        return ParticipatingServers.load(state, self.zones, mine), querying

    def _ship(
        self,
        zone: int,
        state: State,
        table: ParticipatingServers,
        querying: QueryingServers,
        packets: Sequence[Packet],
    ) -> list[Packet]:
        """Returns the assemblers whose issuers are in other regions now: they start there with the next
        batch, before its fragments. All fragments of this batch have been processed.
        """
        leaving: dict[int, list[int]] = defaultdict(list)
        for number, before in querying.adopt(packets, control.queries(state)):
            if before == zone and querying[number] != zone:
                leaving[querying[number]].append(number)
        out: list[Packet] = []
        for other, numbers in sorted(leaving.items()):
            out += [
                servers.message(servers.ASSEMBLE, other, what, columns, zone)
                for what, columns in table.shipped(numbers).items()
            ]
            for number in numbers:
                table.remove(number)
        return out

    def _finished(self, state: State, ticks: Ticks, final: int) -> list[int]:
        """Removes the queries whose last fragments have come and returns their numbers. With several zones
        those of nearest objects may be a batch late.
        """
        last, before = last_ticks(state, ticks), final_before(state)
        modes = plans(state, self.integers)
        late = {number for number in last if self.zones > 1 and modes[number].mode == NEAREST}
        done = finish(state, before, {number: last[number] for number in late})
        done += finish(state, final, {number: tick for number, tick in last.items() if number not in late})
        if late:
            put_final(state, final)
        return done

    def _results(
        self, state: State, table: ParticipatingServers, packets: Sequence[Packet], ticks: Ticks | None
    ) -> list[Packet]:
        """Returns result rows from the fragments of all regions; none if objects only changed servers, which
        may happen in a batch without ticks.
        """
        slot = table.slots_of(servers.column(packets, "query", np.int64))
        mode = np.append(table.slots["mode"], _GONE)[slot]
        tuples, out = _tuples(packets, slot, mode == OBJECTS), []
        if not (mode == OBJECTS).all():
            fragments, names = _fragments(packets, slot), table.names.arrays
            nearest, of_value = mode == NEAREST, (mode != OBJECTS) & (mode != NEAREST) & (mode != _GONE)
            if nearest.any():
                ranked = assemble_nearest(_by_tick(fragments[nearest]), table.lists(), names)
                tuples = {
                    name: np.concatenate([tuples[name], ranked["query" if name == "slot" else name]])
                    for name in tuples
                }
            if of_value.any():
                values = assemble_values(_by_tick(fragments[of_value]), table.values(), names)
                if len(values):
                    out.append(self._value_rows(state, table, values, ticks))
        return self._moving_rows(state, table, tuples, ticks) + out

    def _moving_rows(
        self, state: State, table: ParticipatingServers, tuples: Arrays, ticks: Ticks | None
    ) -> list[Packet]:
        """Returns a packet with plus and minus tuples in the order of results, if any are left."""
        who, names = tuples["who"], table.names
        order = sort_by_name(*_tuple_order(tuples), who, names.arrays)
        if not len(order):
            return []
        slot, far = tuples["slot"][order], tuples["distance"][order]
        # rows of one object follow each other before they are sorted, and names are far apart in memory
        objects = pa.array(names.integers(who)[order]) if self.integers else names.shown(who[order], False)
        columns = {
            "subscription": _subscriptions(state, table, slot),
            "at": self._at(tuples["tick"][order], ticks),
            "op": _ops(tuples["op"][order] > 0),
            "object": objects,
            "x": pa.array(tuples["x"][order]),
            "y": pa.array(tuples["y"][order]),
            "distance": pa.array(far, mask=np.isnan(far)) if np.isnan(far).any() else pa.array(far),
            "complete": _complete(table.slots["mode"][slot] == NEAREST, tuples["op"][order]),
        }
        return [Packet(DELIVER, 0, Kind.RESULT, pa.record_batch(columns), {"table": MOVING})]

    def _value_rows(
        self, state: State, table: ParticipatingServers, rows: Array, ticks: Ticks | None
    ) -> Packet:
        columns = {
            "subscription": _subscriptions(state, table, rows["query"]),
            "at": self._at(rows["tick"], ticks),
            "value": pa.array(rows["x"], mask=np.isnan(rows["x"])),
            "object": table.names.shown(np.ascontiguousarray(rows["who"]), self.integers),
        }
        return Packet(DELIVER, 0, Kind.RESULT, pa.record_batch(columns), {"table": VALUES})

    def _at(self, numbers: Ints, ticks: Ticks | None) -> pa.Array:
        assert ticks is not None
        times = pa.array(ticks.times(numbers))
        return times.cast(pa.int64()).cast(self.at) if pa.types.is_timestamp(self.at) else times.cast(self.at)


def _tuples(packets: Sequence[Packet], slot: Ints, is_tuple: Bools) -> Arrays:
    """Returns the columns of the rows of all regions that are plus and minus tuples."""
    columns = {name: servers.column(packets, name, FRAGMENT[name]) for name in _OF_TUPLE} | {"slot": slot}
    return columns if is_tuple.all() else {name: column[is_tuple] for name, column in columns.items()}


def _fragments(packets: Sequence[Packet], slot: Ints) -> Array:
    """Returns the rows (FRAGMENT) of all regions."""
    rows = np.zeros(len(slot), FRAGMENT)
    for name in _OF_TUPLE:
        rows[name] = servers.column(packets, name, FRAGMENT[name])
    rows["slot"] = slot
    senders = [packet.facts["from"] for packet in packets]
    rows["zone"] = np.repeat(np.array(senders, np.int64), [packet.rows.num_rows for packet in packets])
    return rows


def _by_tick(fragments: Array) -> Array:
    """Returns fragments by query and tick, minus rows first."""
    return fragments[np.lexsort((fragments["op"], fragments["tick"], fragments["slot"]))]


def _tuple_order(tuples: Arrays) -> tuple[Ints, Ints]:
    """Returns (order, key) that sort plus and minus rows by query, tick, minus before plus. Ticks are
    numbered again where a key would not fit into one number.
    """
    slot, tick = tuples["slot"], tuples["tick"]
    if not len(slot):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    tick = tick - tick.min()
    if int(tick.max() + 1) * int(slot.max() + 1) >= 1 << 61:
        tick = np.unique(tick, return_inverse=True)[1]
    ticks = int(tick.max()) + 1
    key = 2 * (slot * ticks + tick) + (tuples["op"] > 0)
    size = 2 * (int(slot.max()) + 1) * ticks
    return counting_order(key, size) if size < _COUNTED * len(key) else np.argsort(key), key


def _ops(enters: Bools) -> pa.StringArray:
    """Returns "+" or "-" for each row."""
    signs = np.where(enters, np.uint8(ord("+")), np.uint8(ord("-")))
    offsets = np.arange(len(enters) + 1, dtype=np.int32)
    return pa.StringArray.from_buffers(len(enters), pa.py_buffer(offsets), pa.py_buffer(signs))


def _complete(nearest: Bools, op: Ints) -> pa.BooleanArray:
    """Returns for rows of nearest objects whether the answer holds k of them, and null for the others."""
    if not nearest.any():
        return pa.nulls(len(nearest), pa.bool_())
    return pa.array((op == PLUS_OF_K) | (op == MINUS_OF_K), mask=~nearest)


def _subscriptions(state: State, table: ParticipatingServers, slots: Ints) -> pa.DictionaryArray:
    """Returns the names of the subscriptions in these slots, of which equal ones lie together."""
    begins = np.ones(len(slots), bool)
    begins[1:] = slots[1:] != slots[:-1]
    return subscription_column(table.subscriptions(state, slots[begins]), np.cumsum(begins) - 1)


def _slot_table(slots: Ints, number: Ints) -> tuple[int, Ints, Ints]:
    """Returns (first, table, slots by number). The slot of query n is table[n - first], -1 where it is not
    here, as the last entry is; there is no table where numbers are too far apart.
    """
    slots = slots[np.argsort(number[slots])]
    if not len(slots):
        return 0, np.zeros(0, np.int64), slots
    first, last = int(number[slots[0]]), int(number[slots[-1]])
    if last - first > _SPARSE * len(slots) + 1000:
        return 0, np.zeros(0, np.int64), slots
    table = np.full(last - first + 2, -1, np.int64)
    table[number[slots] - first] = slots
    return first, table, slots


class ParticipatingServers:
    """The participating server table (PST) of a querying server: what each region last said about each of its
    queries. Kept in memory between batches; built from the state where a worker takes a zone over.

    For plus and minus tuples nothing is kept: an object that goes from one region to another comes as a minus
    and a plus of the same tick, which cancel out. For values it is the latest local value of every region,
    for nearest objects the list of the zone that answers.
    """

    def __init__(self, zones: int, names: ObjectNames) -> None:
        self.names = names
        self.slot_of: dict[int, int] = {}  # by the number of a query
        self.slots = Slots(
            number=(np.int64, -1),
            mode=(np.uint8, OBJECTS),
            joined=(np.dtype((np.uint8, (zones,))), 0),
            value=(np.dtype((np.float64, (zones,))), np.nan),
            who=(np.dtype((np.int64, (zones,))), -1),
            result=(np.float64, np.nan),
            result_who=(np.int64, -1),
            k=(np.int64, 0),
            first=(np.int64, 0),
            size=(np.int64, 0),
        )
        self._list_starts = ListStarts(first=1)  # entry 0 is the spare one that sorting needs
        self._entries = np.zeros(64, CANDIDATE)
        self._dirty_values = np.zeros(1, np.uint8)  # one per block of slots to be stored
        self._dirty_lists = np.zeros(1, np.uint8)
        self._slot_table: tuple[int, Ints, Ints] | None = None  # made when it is needed
        self._names: pa.StringArray | None = None  # of subscriptions by slot, likewise

    def add(self, plan: MovingPlan) -> None:
        slot = self.slots.take()
        self._fit_blocks()
        self._set_plan(slot, plan)

    def _set_plan(self, slot: int, plan: MovingPlan) -> None:
        self.slot_of[plan.number] = slot
        self._slot_table = self._names = None
        self.slots["number"][slot] = plan.number
        self.slots["mode"][slot] = plan.mode
        if plan.mode == NEAREST:
            self.slots["k"][slot] = plan.k
            self._start_list(slot, plan.k)

    def _start_list(self, slot: int, k: int) -> None:
        self.slots["first"][slot] = self._list_starts.take(slot, k)
        if self._list_starts.end > len(self._entries):
            self._entries = grown(self._entries, 2 * self._list_starts.end, len(self._entries))

    def _fit_lists(self) -> None:
        """Makes lists longer that all objects could be in."""
        for slot, k, start in self._list_starts.outgrown(len(self.names.arrays.start)):
            entries = self._entries[start : start + int(self.slots["size"][slot])].copy()
            self._start_list(slot, k)
            first = int(self.slots["first"][slot])
            self._entries[first : first + len(entries)] = entries

    def remove(self, number: int) -> None:
        slot = self.slot_of.pop(number)
        self._slot_table = self._names = None
        if self.slots["mode"][slot] == NEAREST:
            self._list_starts.give_back(slot)
            self._dirty_lists[slot // QUERY_BLOCK] = 1
        elif self.slots["mode"][slot] != OBJECTS:
            self._dirty_values[slot // QUERY_BLOCK] = 1
        self.slots.give_back(slot)

    def _fit_blocks(self) -> None:
        more = -(-self.slots.size // QUERY_BLOCK) - len(self._dirty_values)
        if more > 0:
            self._dirty_values = np.concatenate([self._dirty_values, np.zeros(more, np.uint8)])
            self._dirty_lists = np.concatenate([self._dirty_lists, np.zeros(more, np.uint8)])

    def slots_of(self, numbers: Ints) -> Ints:
        """Returns the slots of queries, -1 for those that are not here."""
        if self._slot_table is None:
            self._slot_table = _slot_table(self.slots.live, self.slots["number"])
        first, table, known = self._slot_table
        if len(table):
            index = numbers - first
            if len(index) and (index.min() < 0 or index.max() >= len(table)):
                index = np.where((index < 0) | (index >= len(table)), len(table) - 1, index)
            return table[index]
        if not len(known):
            return np.full(len(numbers), -1, np.int64)
        number = self.slots["number"]
        index = np.minimum(np.searchsorted(number[known], numbers), len(known) - 1)
        return np.where(number[known[index]] == numbers, known[index], -1)

    def subscriptions(self, state: State, slots: Ints) -> list[str] | pa.StringArray:
        """Returns the names of the subscriptions in these slots."""
        if self._names is None and _FEW * len(slots) < len(self.slot_of):
            active = control.queries(state)
            return [active[number].name for number in self.slots["number"][slots].tolist()]
        if self._names is None:
            active = control.queries(state)
            numbers = self.slots["number"].tolist()
            self._names = pa.array([active[n].name if n in active else "" for n in numbers], pa.string())
        return self._names.take(pa.array(slots))

    def values(self) -> LocalValues:
        """Returns the local values as kernels take them; valid until a query is added."""
        columns = {name: self.slots[name] for name in ("mode", *_STORED_OF_VALUE)}
        return LocalValues(**columns, dirty=self._dirty_values)

    def lists(self) -> CandidateLists:
        """Returns the lists as kernels take them; valid until a query or an object is added."""
        self._fit_lists()
        columns = {name: self.slots[name] for name in ("k", "first", "size")}
        return CandidateLists(**columns, dirty=self._dirty_lists, entries=self._entries)

    # assemblers that move

    def shipped(self, numbers: list[int]) -> dict[str, dict[str, Array]]:
        """Returns the columns of the messages that take these queries to another server, by what they are."""
        slots = np.array([self.slot_of[number] for number in numbers])
        query, zones = np.array(numbers), self.slots["joined"].shape[1]
        entries = {
            name: np.concatenate([self._list(slot)[name] for slot in slots.tolist()])
            for name in CANDIDATE.names or ()
        }
        table = {name: self.slots[name][slots].reshape(-1) for name in ("joined", "value", "who")}
        results = {name: self.slots[name][slots] for name in ("result", "result_who")}
        return {
            servers.ASSEMBLERS: {"query": query, **results},
            servers.TABLE_VALUES: {
                "query": np.repeat(query, zones),
                "sender": np.tile(np.arange(zones), len(query)),
                **table,
            },
            servers.TABLE_LISTS: {"query": np.repeat(query, self.slots["size"][slots]), **entries},
        }

    def _list(self, slot: int) -> Array:
        """Returns the entries (CANDIDATE) of a query."""
        first = int(self.slots["first"][slot])
        return self._entries[first : first + int(self.slots["size"][slot])]

    def install(self, plans: dict[int, MovingPlan], packets: Sequence[Packet]) -> None:
        """Takes over the queries that other servers have shipped, without those that have ended."""
        moved = servers.of_kind(packets, servers.ASSEMBLERS)
        if not moved:
            return
        for number in servers.column(moved, "query", np.int64).tolist():
            if number in plans and number not in self.slot_of:
                self.add(plans[number])
        self._fit_lists()
        slot = self.slots_of(servers.column(moved, "query", np.int64))
        for name in ("result", "result_who"):
            column = servers.column(moved, name, self.slots[name].dtype)
            self.slots[name][slot[slot >= 0]] = column[slot >= 0]
        values = servers.of_kind(packets, servers.TABLE_VALUES)
        entry = self.slots_of(servers.column(values, "query", np.int64))
        sender = servers.column(values, "sender", np.int64)
        for name in ("joined", "value", "who"):
            column = servers.column(values, name, self.slots[name].dtype)
            self.slots[name][entry[entry >= 0], sender[entry >= 0]] = column[entry >= 0]
        self._install_lists(servers.of_kind(packets, servers.TABLE_LISTS))
        self._dirty_values[slot[slot >= 0] // QUERY_BLOCK] = 1
        self._dirty_lists[slot[slot >= 0] // QUERY_BLOCK] = 1

    def _install_lists(self, packets: Sequence[Packet]) -> None:
        slot = self.slots_of(servers.column(packets, "query", np.int64))
        entries = {name: servers.column(packets, name, CANDIDATE[name]) for name in CANDIDATE.names or ()}
        for here in np.unique(slot[slot >= 0]).tolist():
            rows, first = np.flatnonzero(slot == here), int(self.slots["first"][here])
            self.slots["size"][here] = len(rows)
            for name, column in entries.items():
                self._entries[name][first : first + len(rows)] = column[rows]

    # what is stored

    @staticmethod
    def load(state: State, zones: int, plans: dict[int, MovingPlan]) -> ParticipatingServers:
        table = ParticipatingServers(zones, ObjectNames.load(state))
        table._fit_lists()
        chunks = {key: state.get(key) or {} for prefix in (_VALUES, _LISTS) for key in state.keys(prefix)}
        if chunks:
            table.slots.restore(np.concatenate([chunk["slot"] for chunk in chunks.values()]))
            table._fit_blocks()
        for key, chunk in chunks.items():
            for row, (slot, number) in enumerate(zip(chunk["slot"], chunk["number"], strict=True)):
                table._set_plan(int(slot), plans[int(number)])
                table._load_row(chunk, row, int(slot), key.startswith(_LISTS))
        for number in plans.keys() - table.slot_of.keys():
            table.add(plans[number])
        return table

    def _load_row(self, chunk: dict[str, Array], row: int, slot: int, is_list: bool) -> None:
        if not is_list:
            for name in _STORED_OF_VALUE:
                self.slots[name][slot] = chunk[name][row]
            return
        first, size = int(self.slots["first"][slot]), int(chunk["size"][row])
        from_row = int(chunk["size"][:row].sum())
        self.slots["size"][slot] = size
        for name in CANDIDATE.names or ():
            self._entries[name][first : first + size] = chunk[name][from_row : from_row + size]

    def save(self, state: State) -> None:
        """Stores what changed since the last call."""
        self.names.save(state)
        mode = self.slots["mode"]
        for block in np.flatnonzero(self._dirty_values).tolist():
            slot = self._in_block(block, (mode != OBJECTS) & (mode != NEAREST))
            chunk = {name: self.slots[name][slot] for name in _STORED_OF_VALUE}
            self._put(state, f"{_VALUES}{block:08d}", slot, chunk)
        for block in np.flatnonzero(self._dirty_lists).tolist():
            slot = self._in_block(block, mode == NEAREST)
            size = self.slots["size"][slot]
            ranges = zip(self.slots["first"][slot].tolist(), size.tolist(), strict=True)
            entry = np.concatenate([*(np.arange(f, f + n) for f, n in ranges), np.zeros(0, np.int64)])
            chunk = {name: self._entries[name][entry] for name in CANDIDATE.names or ()}
            self._put(state, f"{_LISTS}{block:08d}", slot, chunk | {"size": size})
        self._dirty_values[:] = 0
        self._dirty_lists[:] = 0

    def _in_block(self, block: int, wanted: Bools) -> Ints:
        """Returns the slots of a block that are in use and wanted."""
        first, end = block * QUERY_BLOCK, (block + 1) * QUERY_BLOCK
        return first + np.flatnonzero(wanted[first:end] & (self.slots["number"][first:end] >= 0))

    def _put(self, state: State, key: str, slot: Ints, chunk: dict[str, Array]) -> None:
        if len(slot):
            state.put(key, {"slot": slot, "number": self.slots["number"][slot]} | chunk)
        else:
            state.drop(key)
