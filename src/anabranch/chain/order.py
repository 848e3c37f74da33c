"""The stage that every stream begins with: it puts items into stream order and keeps the books.

In: ITEMS as route packed them (facts `source`: sorts packets into source order; an optional column `#order`
sorts rows across packets), DEAD rows that route rejected, control, and CANCEL from stages that suspended a
query (budget.py). Out: numbered items in stream order for the zones of the first stage of every family;
ACTIVATE, CANCEL, REBALANCE and PROGRESS for all its zones; dead letters and books for delivery. Never: a look
at what an item means.

A family gets items only while it has queries, and progress for a few batches more.

Order is by time, then by source order. With lateness L, an item may leave once no older one can still come:

    times seen      10  14  11  15  9        L = 3
    greatest seen   10  14  14  15  15
    least allowed    7  11  11  12  12       9 is late (9 < 12); 10, 11 may leave (<= 12); 14, 15 wait
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.control import Event, Pending
from anabranch.chain.items import LATE, LEAP, dead_letters, times_of, with_numbers
from anabranch.chain.packets import DELIVER, EMPTY, Kind, Packet
from anabranch.chain.stages import Chains, Stage
from anabranch.chain.state import State
from anabranch.model.arrays import Ints
from anabranch.model.stream import Stream, Time

SOURCE_ORDER = "#order"
CLOCK, BOOKS, WAITING, LEFT = "clock", "books", "waiting/", "left"
ACTIVE, LINGERING, VERSION = "active", "lingering", "version"
#: Items that wait are stored in chunks of about so many bytes.
CHUNK_BYTES = 1 << 20
#: A family gets progress for so many batches after that of its last query, to finish and to clear up.
LINGER = 3


@dataclass
class Clock:
    """Where the stream's time stands. All None until the first item."""

    seen: Time | None = None  # greatest time seen
    last: Time | None = None  # time of the last item that left
    origin: Time | None = None  # time of the first item that left
    ended: bool = False
    pieces: int = 0  # of a flow: how many have come


@dataclass
class Books:
    """`rows_in = processed + late + rejected`, plus what still waits to be put in order."""

    rows_in: int = 0
    processed: int = 0
    late: int = 0
    rejected: int = 0
    number: int = 0  # of the next item

    @staticmethod
    def load(state: State) -> Books:
        arrays = state.get(BOOKS)
        return Books(*arrays["counts"].tolist()) if arrays is not None else Books()

    def save(self, state: State) -> None:
        counts = [self.rows_in, self.processed, self.late, self.rejected, self.number]
        state.put(BOOKS, {"counts": np.array(counts, np.int64)})

    def facts(self) -> dict[str, Any]:
        """What delivery writes beside each batch. `waiting` items have come in, and it is not known yet
        whether they are late.
        """
        waiting = self.rows_in - self.processed - self.late - self.rejected
        return {
            "rows_in": self.rows_in,
            "processed": self.processed,
            "late": self.late,
            "rejected": self.rejected,
            "waiting": waiting,
        }


class Active:
    """The numbers of the queries that each family has. `awake` are the families that have queries, or have
    had some during the last batches.
    """

    def __init__(self, chains: Chains, state: State) -> None:
        self.chains = chains
        self.queries: dict[str, Ints] = dict(state.get(ACTIVE) or {})
        self._changed = False
        self._lingering: dict[str, int] = state.get_json(LINGERING) or {}  # batches that are left to them
        self.awake = dict.fromkeys([*self.families(), *self._lingering])

    def families(self) -> list[str]:
        return [family for family, numbers in self.queries.items() if len(numbers)]

    def known(self, event: Event) -> Event:
        """Returns an event without the cancellation of queries that are gone: who is suspended in the batch
        in which it is cancelled is cancelled twice.
        """
        if event.kind is not Kind.CANCEL:
            return event
        own = self.queries.get(self.chains.named(event.family), np.empty(0, np.int64))
        there = np.isin(event.rows.column("number").to_numpy(), own)
        return event if there.all() else replace(event, rows=event.rows.filter(pa.array(there)))

    def apply(self, event: Event) -> str:
        """Adds or removes the queries of an event, and returns their family."""
        family, numbers = self.chains.named(event.family), event.rows.column("number").to_numpy()
        combined = np.union1d if event.kind is Kind.ACTIVATE else np.setdiff1d
        self.queries[family] = combined(self.queries.get(family, numbers[:0]), numbers)
        self.awake[family] = None
        self._changed = True
        return family

    def save(self, state: State) -> None:
        if self._changed:
            state.put(ACTIVE, self.queries)
        idle = [family for family in self.awake if not len(self.queries[family])]
        left = {family: self._lingering.get(family, LINGER + 1) - 1 for family in idle}
        if left or self._lingering:
            state.put_json(LINGERING, {family: batches for family, batches in left.items() if batches})


class WaitingItems:
    """Items that are not late, and may not leave yet because older ones can still come.

    They are kept in chunks, in the order in which they arrived. A chunk is sorted by time and never changes;
    only how many of its items have left does. So a batch writes what it brought, however much waits.
    """

    def __init__(self, state: State, stream: Stream) -> None:
        self.state, self.stream = state, stream
        self._left: dict[str, int] = state.get_json(LEFT) or {}  # by the key of a chunk

    def take(self, bound: Time | None) -> list[pa.RecordBatch]:
        """Returns the items that are not newer than `bound`, or all, in parts that are sorted by time; those
        that arrived first come first.
        """
        out: list[pa.RecordBatch] = []
        for key in self.state.keys(WAITING):
            rows = self.state.rows(key)
            assert rows is not None
            left = self._left.get(key, 0)
            stop = _until(rows, self.stream, bound)
            if stop > left:
                out.append(rows.slice(left, stop - left))
                self._left[key] = stop
            if stop == rows.num_rows:
                self.state.drop(key)
                self._left.pop(key, None)
        return out

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds items that are sorted by time, in chunks of about a megabyte."""
        if not rows.num_rows:
            return
        known = self.state.keys(WAITING)
        number = int(known[-1].removeprefix(WAITING)) + 1 if known else 0
        size = max(1, rows.num_rows * CHUNK_BYTES // max(1, rows.nbytes))
        for first in range(0, rows.num_rows, size):
            self.state.put(f"{WAITING}{number:012d}", rows.slice(first, size))
            number += 1

    def save(self) -> None:
        if self._left or self.state.get(LEFT) is not None:
            self.state.put_json(LEFT, self._left)


def _until(rows: pa.RecordBatch, stream: Stream, bound: Time | None) -> int:
    """How many items, which are sorted by time, are not newer than `bound`."""
    if bound is None:
        return int(rows.num_rows)
    return int(np.searchsorted(times_of(rows, stream), bound, side="right"))


def _by_time(parts: Sequence[pa.RecordBatch], stream: Stream) -> pa.RecordBatch:
    """Items of parts that arrived one after the other, by time; at the same time as they arrived."""
    rows = pa.concat_batches(parts)
    times = times_of(rows, stream)
    if (times[1:] >= times[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(times, kind="stable")))


class Order(Stage):
    name = "order"
    zones = 1

    def __init__(self, chains: Chains) -> None:
        self.stream, self.chains = chains.stream, chains

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        packets = self._new(state, packets)
        if not packets:
            return []
        books, pending, active = Books.load(state), Pending.load(state), Active(self.chains, state)
        clock = state.cached(CLOCK, [CLOCK], lambda: Clock(**(state.get_json(CLOCK) or {})))
        for packet in packets:
            pending.add(packet)
        out = self._processed(state, packets, books, clock, pending, active)
        if self._has_begun(clock):
            out += self._controls(pending.due(books.number, clock.last), active)
        for family in self._to_rebalance(packets):
            if family in active.awake:
                out += self._to_all(family, Kind.REBALANCE)
        out += self._announced(books, clock, active, state.get_json(VERSION) or 0)
        books.save(state)
        pending.save(state)
        active.save(state)
        state.put_json(CLOCK, vars(clock))
        state.cache(CLOCK, [CLOCK], clock)
        return out

    def _has_begun(self, clock: Clock) -> bool:
        """Whether control without a time takes effect now."""
        return True

    def _processed(
        self,
        state: State,
        packets: Sequence[Packet],
        books: Books,
        clock: Clock,
        pending: Pending,
        active: Active,
    ) -> list[Packet]:
        """What the items and dead letters of a batch give, and the control that takes effect among them."""
        out: list[Packet] = []
        for packet in packets:
            if packet.kind is Kind.DEAD:
                books.rejected += packet.rows.num_rows
                books.rows_in += packet.rows.num_rows
                out.append(Packet(DELIVER, 0, Kind.DEAD, packet.rows))
        timely: list[pa.RecordBatch] = []
        for rows in self._in_source_order(packets):
            books.rows_in += rows.num_rows
            kept, leaping = self._tell_leaping(rows, clock)
            if leaping is not None:
                books.rejected += leaping.num_rows
                out.append(Packet(DELIVER, 0, Kind.DEAD, dead_letters(leaping, self.stream, LEAP)))
            kept, late = self._tell_late(kept, clock)
            if late is not None:
                books.late += late.num_rows
                out.append(Packet(DELIVER, 0, Kind.DEAD, dead_letters(late, self.stream, LATE)))
            if kept.num_rows:
                timely.append(kept)
        ended = any(packet.kind is Kind.END for packet in packets)
        for items in self._released(state, timely, clock, ended):
            out += self._sent(items, books, clock, pending, active)
        clock.ended |= ended
        return out

    def _new(self, state: State, packets: Sequence[Packet]) -> list[Packet]:
        """Returns the packets without control that has come before, and without those that only wake."""
        known = last = state.get_json(VERSION) or 0
        new: list[Packet] = []
        for packet in packets:
            version = packet.facts.get("version")
            if packet.kind is Kind.WAKE or (version is not None and version <= known):
                continue
            last = max(last, version or 0)
            new.append(packet)
        if last > known:
            state.put_json(VERSION, last)
        return new

    def _to_rebalance(self, packets: Sequence[Packet]) -> set[str]:
        rows = [packet.column("family").to_pylist() for packet in packets if packet.kind is Kind.REBALANCE]
        return set(map(self.chains.named, chain.from_iterable(rows)))

    def _in_source_order(self, packets: Sequence[Packet]) -> list[pa.RecordBatch]:
        items = [packet for packet in packets if packet.kind is Kind.ITEMS]
        items.sort(key=lambda packet: packet.facts["source"])
        batches = [packet.rows for packet in items]
        if not batches or SOURCE_ORDER not in batches[0].schema.names:
            return batches
        rows = pa.concat_batches(batches)
        order = np.argsort(rows.column(SOURCE_ORDER).to_numpy(), kind="stable")
        return [rows.drop_columns([SOURCE_ORDER]).take(pa.array(order))]

    def _tell_leaping(
        self, rows: pa.RecordBatch, clock: Clock
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The items, and those that are further ahead of the greatest time before them than one may be."""
        step = self.stream.max_step
        if step is None or not rows.num_rows:
            return rows, None
        times = times_of(rows, self.stream)
        before = np.maximum.accumulate(times[:1] if clock.seen is None else np.array([clock.seen]))
        greatest = np.maximum.accumulate(np.concatenate([before, times]))[:-1]
        leaps = times > greatest + step
        if not leaps.any():
            return rows, None
        first = int(np.argmax(leaps))
        seen = greatest[first].item()
        for index, time in enumerate(times[first:].tolist(), first):  # one that leaps is not seen by the next
            leaps[index] = time > seen + step
            if not leaps[index]:
                seen = max(seen, time)
        return rows.filter(pa.array(~leaps)), rows.filter(pa.array(leaps))

    def _tell_late(self, rows: pa.RecordBatch, clock: Clock) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The items that came in time and those that came late, by the greatest time before each."""
        if self.stream.time is None or not rows.num_rows:
            return rows, None
        times = times_of(rows, self.stream)
        greatest = np.maximum.accumulate(times)
        if clock.seen is not None:
            greatest = np.maximum(greatest, clock.seen)
        clock.seen = greatest[-1].item()
        late = times < greatest - self.stream.lateness
        if not late.any():
            return rows, None
        return rows.filter(pa.array(~late)), rows.filter(pa.array(late))

    def _released(
        self, state: State, timely: list[pa.RecordBatch], clock: Clock, ended: bool
    ) -> list[pa.RecordBatch]:
        """The items that may leave now, in stream order; the others wait in the state."""
        if self.stream.time is None or self.stream.lateness == 0:
            return timely  # what is not late is in order already
        if clock.seen is None:
            return []
        bound = None if ended else clock.seen - self.stream.lateness
        waiting = WaitingItems(state, self.stream)
        free = waiting.take(bound)
        if timely:
            rows = _by_time(timely, self.stream)
            first = _until(rows, self.stream, bound)
            free.append(rows.slice(0, first))
            waiting.add(rows.slice(first))
        waiting.save()
        free = [rows for rows in free if rows.num_rows]
        return [_by_time(free, self.stream) if len(free) > 1 else free[0]] if free else []

    def _sent(
        self, items: pa.RecordBatch, books: Books, clock: Clock, pending: Pending, active: Active
    ) -> list[Packet]:
        """Items for the zones of the first stages, cut where a query begins or ends between two of them."""
        out: list[Packet] = []
        times = times_of(items, self.stream) if self.stream.time is not None else None
        numbers = np.arange(books.number, books.number + items.num_rows, dtype=np.int64)
        numbered = with_numbers(items, numbers)
        first = 0
        for index, events in pending.cuts(times, numbers, clock.last):
            out += self._dealt(numbered.slice(first, index - first), active)
            out += self._controls(events, active)
            first = index
        out += self._dealt(numbered.slice(first), active)
        books.number += items.num_rows
        books.processed += items.num_rows
        if times is not None:
            clock.last = times[-1].item()
            if clock.origin is None:
                clock.origin = times[0].item()
        return out

    def _dealt(self, numbered: pa.RecordBatch, active: Active) -> list[Packet]:
        if not numbered.num_rows:
            return []
        return [
            Packet(1, zone, Kind.ITEMS, rows, family=family)
            for family in active.families()
            for zone, rows in self.chains[family].spread.deal(numbered)
        ]

    def _controls(self, events: list[Event], active: Active) -> list[Packet]:
        out: list[Packet] = []
        for event in events:
            event = active.known(event)
            if event.rows.num_rows:
                out += self._to_all(active.apply(event), event.kind, event.rows)
        return out

    def _to_all(
        self, family: str, kind: Kind, rows: pa.RecordBatch = EMPTY, facts: dict[str, Any] | None = None
    ) -> list[Packet]:
        """The same to every zone of every stage of a family."""
        addresses = self.chains[family].addresses()
        return [Packet(depth, zone, kind, rows, facts or {}, family) for depth, zone in addresses]

    def _announced(self, books: Books, clock: Clock, active: Active, version: int) -> list[Packet]:
        """The progress of time for every zone of the families that are awake, and the books. `version` is how
        much of the control log has come.
        """
        time = None
        if clock.seen is not None and clock.origin is not None:
            time = clock.seen if clock.ended else clock.seen - self.stream.lateness
        facts = {
            "number": books.number,
            "time": time,
            "last": clock.last,
            "origin": clock.origin,
            "ended": clock.ended,
        }
        progress = [self._to_all(family, Kind.PROGRESS, facts=facts) for family in active.awake]
        return [
            *chain.from_iterable(progress),
            Packet(DELIVER, 0, Kind.BOOKS, facts=books.facts() | facts | {"version": version}),
        ]
