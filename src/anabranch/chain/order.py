"""The stage that every chain begins with: it puts items into stream order and keeps the books.

In: ITEMS as route packed them (facts `source`: sorts packets into source order; an optional column `#order`
sorts rows across packets), DEAD rows that route rejected, and control. Out: numbered items in stream order
for the zones of the first stage; ACTIVATE, CANCEL, REBALANCE and PROGRESS for every zone; dead letters and
books for delivery. Never: a look at what an item means.

Order is by time, then by source order. With lateness L, an item may leave once no older one can still come:

    times seen      10  14  11  15  9        L = 3
    greatest seen   10  14  14  15  15
    least allowed    7  11  11  12  12       9 is late (9 < 12); 10, 11 may leave (<= 12); 14, 15 wait
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.arrow_columns import times_of, with_numbers
from anabranch.chain.control import Pending
from anabranch.chain.dead_letters import LATE, dead_letters
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.stages import Chain, Stage
from anabranch.chain.state import State
from anabranch.model.stream import Stream, Time

SOURCE_ORDER = "#order"
BUFFER, CLOCK, BOOKS = "buffer", "clock", "books"


@dataclass
class Clock:
    """Where the stream's time stands. All None until the first item."""

    seen: Time | None = None  # greatest time seen
    last: Time | None = None  # time of the last item that left
    origin: Time | None = None  # time of the first item that left
    ended: bool = False


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


class Order(Stage):
    name = "order"
    zones = 1

    def __init__(self, stream: Stream, chain: Chain) -> None:
        self.stream, self.chain = stream, chain

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        books = Books.load(state)
        clock = state.cached(CLOCK, [CLOCK], lambda: Clock(**(state.get_json(CLOCK) or {})))
        pending = Pending.load(state)
        out: list[Packet] = []
        for packet in packets:
            if packet.kind is Kind.DEAD:
                books.rejected += packet.rows.num_rows
                books.rows_in += packet.rows.num_rows
                out.append(Packet(DELIVER, 0, Kind.DEAD, packet.rows))
            else:
                pending.add(packet)
        timely: list[pa.RecordBatch] = []
        for rows in self._in_source_order(packets):
            books.rows_in += rows.num_rows
            kept, late = self._tell_late(rows, clock)
            if late is not None:
                books.late += late.num_rows
                out.append(Packet(DELIVER, 0, Kind.DEAD, dead_letters(late, self.stream, LATE)))
            if kept.num_rows:
                timely.append(kept)
        ended = any(packet.kind is Kind.END for packet in packets)
        for items in self._released(state, timely, clock, ended):
            out += self._sent(items, books, clock, pending)
        clock.ended |= ended
        out += self._controls(pending.due(books.number, clock.last))
        if any(packet.kind is Kind.REBALANCE for packet in packets):
            out += [Packet(depth, zone, Kind.REBALANCE) for depth, zone in self.chain.addresses()]
        out += self._announced(books, clock)
        books.save(state)
        pending.save(state)
        state.put_json(CLOCK, vars(clock))
        state.cache(CLOCK, [CLOCK], clock)
        return out

    def _in_source_order(self, packets: Sequence[Packet]) -> list[pa.RecordBatch]:
        items = [packet for packet in packets if packet.kind is Kind.ITEMS]
        items.sort(key=lambda packet: packet.facts["source"])
        batches = [packet.rows for packet in items]
        if not batches or SOURCE_ORDER not in batches[0].schema.names:
            return batches
        rows = pa.concat_batches(batches)
        order = np.argsort(rows.column(SOURCE_ORDER).to_numpy(), kind="stable")
        return [rows.drop_columns([SOURCE_ORDER]).take(pa.array(order))]

    def _tell_late(self, rows: pa.RecordBatch, clock: Clock) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The items that came in time and those that came late, by the greatest time before each."""
        if self.stream.time is None:
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
        waiting = state.rows(BUFFER)
        together = ([waiting] if waiting is not None else []) + timely
        if not together:
            return []
        rows = pa.concat_batches(together)
        times = times_of(rows, self.stream)
        order = np.argsort(times, kind="stable")
        rows = rows.take(pa.array(order))
        assert clock.seen is not None
        free = rows.num_rows
        if not ended:
            free = int(np.searchsorted(times[order], clock.seen - self.stream.lateness, side="right"))
        if free < rows.num_rows:
            state.put(BUFFER, rows.slice(free))
        else:
            state.drop(BUFFER)
        return [rows.slice(0, free)] if free else []

    def _sent(self, items: pa.RecordBatch, books: Books, clock: Clock, pending: Pending) -> list[Packet]:
        """Items for the zones of the first stage, cut where a query begins or ends between two of them."""
        out: list[Packet] = []
        times = times_of(items, self.stream) if self.stream.time is not None else None
        first = 0
        for index, events in pending.cuts(times, items.num_rows, books.number, clock.last):
            out += self._dealt(items.slice(first, index - first), books)
            out += self._controls(events)
            first = index
        out += self._dealt(items.slice(first), books)
        if times is not None:
            clock.last = times[-1].item()
            if clock.origin is None:
                clock.origin = times[0].item()
        return out

    def _dealt(self, items: pa.RecordBatch, books: Books) -> list[Packet]:
        if not items.num_rows:
            return []
        numbers = np.arange(books.number, books.number + items.num_rows, dtype=np.int64)
        books.number += items.num_rows
        books.processed += items.num_rows
        dealt = self.chain.spread.deal(with_numbers(items, numbers))
        return [Packet(1, zone, Kind.ITEMS, rows) for zone, rows in dealt]

    def _controls(self, events: list[tuple[Kind, pa.RecordBatch]]) -> list[Packet]:
        return [
            Packet(depth, zone, kind, rows) for kind, rows in events for depth, zone in self.chain.addresses()
        ]

    def _announced(self, books: Books, clock: Clock) -> list[Packet]:
        """The progress of time for every zone, and the books."""
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
        progress = [Packet(depth, zone, Kind.PROGRESS, facts=facts) for depth, zone in self.chain.addresses()]
        return [
            *progress,
            Packet(DELIVER, 0, Kind.BOOKS, facts=books.facts() | {"last": clock.last, "ended": clock.ended}),
        ]
