"""The third stage of moving: the querying servers. A zone is the queries with number % zones == zone.

In: fragments of the regions, by tick; names of objects; activations and cancellations. Out: result rows, by
query and tick; within a tick first those that leave, then those that enter, each by name. Never: a position
that no region sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.families.moving import messages
from anabranch.families.moving.held import give_back, take
from anabranch.families.moving.messages import FRAGMENTS, NAMES
from anabranch.families.moving.names import has_integers
from anabranch.families.moving.participating import Participating
from anabranch.families.moving.plans import controls, finish, last_ticks, note_control, plan_of, plans
from anabranch.families.moving.ticks import (
    Ticks,
    at_type,
    final_before,
    final_tick,
    note_final,
    progress_of,
    ticks_known,
)
from anabranch.kernels.moving_arrays import NEAREST, OBJECTS, ROW
from anabranch.kernels.moving_assemble import FRAGMENT, assemble_nearest, assemble_values
from anabranch.kernels.moving_names import arrange
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
        progress = progress_of(packets)
        ticks = ticks_known(state, self.stream, progress)
        fragments = _fragments(messages.of_kind(packets, FRAGMENTS), table)
        out = self._answers(state, table, fragments, ticks) if len(fragments) else []
        if progress and ticks is not None:
            for number in self._over(state, table, ticks, final_tick(ticks, progress)):
                table.remove(number)
        table.save(state)
        give_back(state, HELD, table)
        return out

    def _over(self, state: State, table: Participating, ticks: Ticks, final: int) -> list[int]:
        """Forgets the queries whose last fragments have come: with several zones those of nearest objects may
        be a batch late.
        """
        last, since = last_ticks(state, ticks), final_before(state)
        late = {number for number in last if self.zones > 1 and table.mode_of(number) == NEAREST}
        done = finish(state, since, {number: last[number] for number in late})
        done += finish(state, final, {number: tick for number, tick in last.items() if number not in late})
        if late:
            note_final(state, final)
        return done

    def _answers(
        self, state: State, table: Participating, fragments: Array, ticks: Ticks | None
    ) -> list[Packet]:
        """Result rows from the rows (ROW, `query` being its place) of all regions and who sent them; none if
        objects only changed servers, which may happen in a batch without ticks.
        """
        mode = table.local.mode[fragments["place"]]
        names, out = table.names.arrays, []
        rows = [fragments if (mode == OBJECTS).all() else fragments[mode == OBJECTS]]
        if (mode == NEAREST).any():
            ranked = assemble_nearest(_by_tick(fragments[mode == NEAREST]), table.lists, names)
            rows.append(_as_fragments(ranked))
        moved = np.concatenate(rows) if len(rows) > 1 else rows[0]
        order = arrange(*_tuple_order(moved), np.ascontiguousarray(moved["who"]), names)
        if len(order):
            out.append(self._moving_rows(state, table, moved[order], ticks))
        of_value = (mode != OBJECTS) & (mode != NEAREST)
        if of_value.any():
            told = assemble_values(_by_tick(fragments[of_value]), table.local, names)
            if len(told):
                out.append(self._value_rows(state, table, told, ticks))
        return out

    def _moving_rows(self, state: State, table: Participating, rows: Array, ticks: Ticks | None) -> Packet:
        nearest = table.local.mode[rows["place"]] == NEAREST
        columns = {
            "subscription": _subscriptions(state, table, rows["place"]),
            "at": self._at(rows["tick"], ticks),
            "op": _OPS.take(pa.array((rows["op"] + 1) // 2)),
            "object": table.names.shown(np.ascontiguousarray(rows["who"]), self.integers),
            "x": pa.array(rows["x"]),
            "y": pa.array(rows["y"]),
            "distance": pa.array(rows["distance"], mask=np.isnan(rows["distance"])),
            "complete": pa.array(np.ones(len(rows), bool), mask=~nearest),
        }
        return Packet(DELIVER, 0, Kind.RESULT, pa.record_batch(columns), {"table": MOVING})

    def _value_rows(self, state: State, table: Participating, rows: Array, ticks: Ticks | None) -> Packet:
        columns = {
            "subscription": _subscriptions(state, table, rows["query"]),
            "at": self._at(rows["tick"], ticks),
            "value": pa.array(rows["x"], mask=np.isnan(rows["x"])),
            "object": table.names.shown(np.ascontiguousarray(rows["who"]), self.integers),
        }
        return Packet(DELIVER, 0, Kind.RESULT, pa.record_batch(columns), {"table": VALUES})

    def _at(self, numbers: Array, ticks: Ticks | None) -> pa.Array:
        assert ticks is not None
        times = pa.array(ticks.times(numbers))
        return times.cast(pa.int64()).cast(self.at) if pa.types.is_timestamp(self.at) else times.cast(self.at)


def _fragments(packets: Sequence[Packet], table: Participating) -> Array:
    """The rows (FRAGMENT) of all regions; rows of queries that are gone are left out."""
    rows = np.zeros(sum(packet.rows.num_rows for packet in packets), FRAGMENT)
    for name in ("tick", "op", "who", "x", "y", "distance"):
        rows[name] = messages.column(packets, name, FRAGMENT[name])
    rows["place"] = table.places_of(messages.column(packets, "query", np.int64))
    senders = [packet.facts["from"] for packet in packets]
    rows["zone"] = np.repeat(np.array(senders, np.int64), [packet.rows.num_rows for packet in packets])
    return rows if (rows["place"] >= 0).all() else rows[rows["place"] >= 0]


def _as_fragments(rows: Array) -> Array:
    out = np.zeros(len(rows), FRAGMENT)
    for name in ROW.names or ():
        out["place" if name == "query" else name] = rows[name]
    return out


def _by_tick(fragments: Array) -> Array:
    """Fragments by query and tick, minus rows first."""
    return fragments[np.lexsort((fragments["op"], fragments["tick"], fragments["place"]))]


def _tuple_order(rows: Array) -> tuple[Array, Array]:
    """(order, key): plus and minus rows by query, tick, minus before plus, in one number each where that
    fits.
    """
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    tick = rows["tick"] - rows["tick"].min()
    if int(tick.max() + 1) * int(rows["place"].max() + 1) >= 1 << 61:
        tick = np.unique(tick, return_inverse=True)[1]
    key = 2 * (rows["place"] * (tick.max() + 1) + tick) + (rows["op"] > 0)
    return np.argsort(key), key


def _subscriptions(state: State, table: Participating, places: Array) -> pa.DictionaryArray:
    """The names of the subscriptions at these places, of which equal ones lie together."""
    begins = np.ones(len(places), bool)
    begins[1:] = places[1:] != places[:-1]
    active = queries.active(state)
    names = [active[number].name for number in table.numbers[places[begins]].tolist()]
    return subscription_column(names, np.cumsum(begins) - 1)
