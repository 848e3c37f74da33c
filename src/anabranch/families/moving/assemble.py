"""The third stage of moving: the querying servers. A zone is the queries with number % zones == zone.

In: fragments of the regions, by tick; names of objects; activations and cancellations. Out: result rows, by
query and tick; within a tick first those that leave, then those that enter, each by name. Never: a position
that no region sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.families.moving import messages
from anabranch.families.moving.held import give_back, take
from anabranch.families.moving.messages import FRAGMENTS, NAMES
from anabranch.families.moving.names import has_integers
from anabranch.families.moving.participating import Participating
from anabranch.families.moving.plans import controls, finish, last_ticks, note_control, plan_of, plans
from anabranch.families.moving.ticks import Ticks, at_type, final_tick, ticks_of
from anabranch.kernels.moving_arrays import NEAREST, OBJECTS, ROW
from anabranch.kernels.moving_assemble import FRAGMENT, assemble_nearest, assemble_values
from anabranch.kernels.moving_names import prefixes, settle_ties
from anabranch.model.stream import Stream
from anabranch.zones import queries
from anabranch.zones.columns import ARROW_TYPES, Array, subscription_column
from anabranch.zones.packets import DELIVER, Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State

HELD = "participating server table"
MOVING, VALUES = "moving", "values"
_OPS = pa.array(["-", "+"])


class Assemble(Stage):
    name = "assemble"

    def __init__(self, stream: Stream, zones: int) -> None:
        self.stream, self.zones = stream, zones
        self.integers = has_integers(stream)
        self.at = ARROW_TYPES[at_type(stream)]

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        table = take(state, HELD, lambda: Participating.load(state, self.zones, plans(state, self.integers)))
        for packet in controls(packets):
            mine = packet.rows.filter(pa.array(packet.rows.column("number").to_numpy() % self.zones == zone))
            for query in note_control(state, Packet(3, zone, packet.kind, mine))[0]:
                table.add(plan_of(query, self.integers))
        for packet in messages.of_kind(packets, NAMES):
            table.names.add(*messages.named(packet))
        out: list[Packet] = []
        progress = next(packet.facts for packet in packets if packet.kind is Kind.PROGRESS)
        ticks = ticks_of(self.stream, progress)
        if ticks is not None:
            fragments = _fragments(messages.of_kind(packets, FRAGMENTS), table)
            if len(fragments):
                out = self._answers(state, table, fragments, ticks)
            for number in finish(state, final_tick(ticks, progress), last_ticks(state, ticks)):
                table.remove(number)
        table.save(state)
        give_back(state, HELD, table)
        return out

    def _answers(self, state: State, table: Participating, fragments: Array, ticks: Ticks) -> list[Packet]:
        mode = table.local.mode[fragments["place"]]
        names, out = table.names.arrays, []
        tuples = _netted(fragments[mode == OBJECTS], self.zones)
        ranked = assemble_nearest(fragments[mode == NEAREST], table.lists, names)
        told = assemble_values(fragments[(mode != OBJECTS) & (mode != NEAREST)], table.local, names)
        rows = np.concatenate([tuples, ranked])
        if len(rows):
            out.append(self._moving_rows(state, table, rows[_order(rows, table)], ticks))
        if len(told):
            out.append(self._value_rows(state, table, told, ticks))
        return out

    def _moving_rows(self, state: State, table: Participating, rows: Array, ticks: Ticks) -> Packet:
        nearest = table.local.mode[rows["query"]] == NEAREST
        columns = {
            "subscription": _subscriptions(state, table, rows["query"]),
            "at": self._at(rows["tick"], ticks),
            "op": _OPS.take(pa.array((rows["op"] + 1) // 2)),
            "object": table.names.shown(np.ascontiguousarray(rows["who"]), self.integers),
            "x": pa.array(rows["x"]),
            "y": pa.array(rows["y"]),
            "distance": pa.array(rows["distance"], mask=np.isnan(rows["distance"])),
            "complete": pc.if_else(pa.array(nearest), True, None),
        }
        return Packet(DELIVER, 0, Kind.RESULT, pa.record_batch(columns), {"table": MOVING})

    def _value_rows(self, state: State, table: Participating, rows: Array, ticks: Ticks) -> Packet:
        columns = {
            "subscription": _subscriptions(state, table, rows["query"]),
            "at": self._at(rows["tick"], ticks),
            "value": pa.array(rows["x"], mask=np.isnan(rows["x"])),
            "object": table.names.shown(np.ascontiguousarray(rows["who"]), self.integers),
        }
        return Packet(DELIVER, 0, Kind.RESULT, pa.record_batch(columns), {"table": VALUES})

    def _at(self, numbers: Array, ticks: Ticks) -> pa.Array:
        times = pa.array(ticks.times(numbers))
        return times.cast(pa.int64()).cast(self.at) if pa.types.is_timestamp(self.at) else times.cast(self.at)


def _fragments(packets: Sequence[Packet], table: Participating) -> Array:
    """The rows (FRAGMENT) of all regions by query and tick, minus rows first; rows of queries that are gone
    are left out.
    """
    rows = np.zeros(sum(packet.rows.num_rows for packet in packets), FRAGMENT)
    for name in ("tick", "op", "who", "x", "y", "distance"):
        rows[name] = messages.column(packets, name, FRAGMENT[name])
    numbers, which = np.unique(messages.column(packets, "query", np.int64), return_inverse=True)
    places = np.array([table.places.get(number, -1) for number in numbers.tolist()], np.int64)
    rows["place"] = places[which]
    senders = [packet.facts["from"] for packet in packets]
    rows["zone"] = np.repeat(np.array(senders, np.int64), [packet.rows.num_rows for packet in packets])
    rows = rows[rows["place"] >= 0]
    return rows[np.lexsort((rows["op"], rows["tick"], rows["place"]))]


def _netted(fragments: Array, zones: int) -> Array:
    """Plus and minus tuples (ROW, `query` being its place) without those that cancel out: a minus of one
    region, a plus of another.
    """
    rows = np.empty(len(fragments), ROW)
    for name in ROW.names or ():
        rows[name] = fragments["place" if name == "query" else name]
    if zones == 1 or not len(rows):
        return rows
    order = np.lexsort((rows["who"], rows["tick"], rows["query"]))
    same = _equal(rows[order[1:]], rows[order[:-1]], "query", "tick", "who")
    paired = np.zeros(len(rows), bool)
    paired[order[1:]] |= same
    paired[order[:-1]] |= same
    return rows[~paired]


def _equal(left: Array, right: Array, *names: str) -> Array:
    return np.asarray(np.logical_and.reduce([left[name] == right[name] for name in names]))


def _order(rows: Array, table: Participating) -> Array:
    """Rows by query, tick, minus before plus, name."""
    who = np.ascontiguousarray(rows["who"])
    prefix = prefixes(table.names.arrays, who)
    order = np.lexsort((prefix, rows["op"], rows["tick"], rows["query"]))
    tied = np.zeros(len(order), bool)
    tied[1:] = _equal(rows[order[1:]], rows[order[:-1]], "query", "tick", "op")
    tied[1:] &= prefix[order[1:]] == prefix[order[:-1]]
    if tied.any():
        settle_ties(order, tied, table.names.arrays, who)
    return np.asarray(order)


def _subscriptions(state: State, table: Participating, places: Array) -> pa.DictionaryArray:
    used, codes = np.unique(places, return_inverse=True)
    active = queries.active(state)
    return subscription_column([active[int(table.numbers[place])].name for place in used], codes)
