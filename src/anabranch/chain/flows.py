"""Flows: what travels from site to site of a stream, and the order of items that arrive so.

    site A   photons: items 0 1 2 3 4 5 6 7 ...      a query selects some of them
                            |   |   |
             pieces of the flow, one per batch:   [1, 3 | next is 4]  [5 | next is 6]  [ | next is 8, ended]
                            |   |   |
    site B   the same items, with the numbers that they have at A

A piece is a packet: rows, and facts about the registered stream. With these, a stage at B sees what it would
see at A behind the same selection: windows begin and close there, queries are activated between the same two
items, and time goes on where nothing was selected. A flow of results of windows has no numbers; it is a
stream of its own, whose time is the beginning of a window.

Pieces are numbered. One that has come before is dropped, one that comes too early waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.control import Pending
from anabranch.chain.items import numbers_of, times_of, with_numbers
from anabranch.chain.order import Active, Books, Clock, Order
from anabranch.chain.packets import ORDER, Kind, Packet, decode, encode, facts_in, header_of
from anabranch.chain.stages import Chains
from anabranch.chain.state import State
from anabranch.model.stream import NUMBER, Time

FLOW = "flow"
_EARLY = "piece/"


@dataclass(frozen=True)
class PieceFacts:
    """Of one piece, in the words of the registered stream.

    `first` is the number of the first item that the flow can have, and `begin` the time of the item before
    it: there the query that makes the flow was activated. `number`, `time`, `last`, `origin` and `ended` are
    those of PROGRESS (chain/stages.py) after this piece; times are None in a flow of results of windows.
    `batch` is the sender's.
    """

    sequence: int
    batch: int
    first: int
    begin: Time | None
    number: int
    time: Time | None
    last: Time | None
    origin: Time | None
    ended: bool


def next_piece(
    sent: PieceFacts | None,
    rows: pa.Table,
    before: Mapping[str, Any],
    books: Mapping[str, Any],
    batch: int,
    ended: bool,
) -> Packet | None:
    """Returns the piece that a batch adds to a flow; None where there is nothing to say.

    `sent` are the facts of the last piece, `before` and `books` the books of the stream before and after the
    batch. `ended`: the stream has ended and no result is under way.
    """
    numbered = NUMBER in rows.schema.names
    keys = ("time", "last", "origin") if numbered else ()
    facts = PieceFacts(
        sequence=0 if sent is None else sent.sequence + 1,
        batch=batch,
        first=(before.get("number", 0) if numbered else 0) if sent is None else sent.first,
        begin=(before.get("last") if numbered else None) if sent is None else sent.begin,
        number=books["number"],
        ended=ended,
        **{key: books[key] if key in keys else None for key in ("time", "last", "origin")},
    )
    if sent is not None and not rows.num_rows:
        same = (sent.number, sent.time, sent.ended) == (facts.number, facts.time, facts.ended)
        if same or (not numbered and sent.ended == facts.ended):
            return None
    batches = rows.combine_chunks().to_batches()
    some = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
    return Packet(ORDER, 0, Kind.ITEMS, some.replace_schema_metadata(), {FLOW: asdict(facts)})


def facts_of(piece: Packet) -> PieceFacts:
    return PieceFacts(**piece.facts[FLOW])


def piece_bytes(piece: Packet) -> bytes:
    """A piece as it travels: a packet whose columns are compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, piece.rows.schema, options=options) as writer:
        writer.write_batch(piece.rows)
    return header_of(piece) + bytes(sink.getvalue().to_pybytes())


def piece_of(body: bytes) -> Packet:
    return decode(body, ORDER, 0)


def facts_in_bytes(body: bytes) -> PieceFacts:
    """The facts of a piece as it travels; its rows stay as they are."""
    return PieceFacts(**facts_in(body)[FLOW])


def order_of(chains: Chains) -> Order:
    """The first stage of a stream."""
    return FlowOrder(chains) if chains.stream.flow else Order(chains)


class FlowOrder(Order):
    """Order for a flow: its items are in order and, other than results of windows, have their numbers."""

    def _has_begun(self, clock: Clock) -> bool:
        return clock.pieces > 0

    def _processed(
        self,
        state: State,
        packets: Sequence[Packet],
        books: Books,
        clock: Clock,
        pending: Pending,
        active: Active,
    ) -> list[Packet]:
        out: list[Packet] = []
        for piece in self._in_sequence(state, packets, clock):
            facts = facts_of(piece)
            if facts.sequence == 0:
                books.number, clock.last = facts.first, facts.begin
            out += self._taken(piece.rows, facts, books, clock, pending, active)
            clock.ended |= facts.ended
        return out

    def _in_sequence(self, state: State, packets: Sequence[Packet], clock: Clock) -> Iterator[Packet]:
        """The pieces that are next, each once; those that come too early wait in the state."""
        pieces = [packet for packet in packets if packet.kind is Kind.ITEMS]
        for key in state.keys(_EARLY):
            kept = state.get(key)
            assert kept is not None
            pieces.append(decode(kept["body"].tobytes(), ORDER, 0))
            state.drop(key)
        for piece in sorted(pieces, key=lambda piece: facts_of(piece).sequence):
            sequence = facts_of(piece).sequence
            if sequence == clock.pieces:
                clock.pieces += 1
                yield piece
            elif sequence > clock.pieces:
                body = np.frombuffer(encode(piece), np.uint8)
                state.put(f"{_EARLY}{sequence:012d}", {"body": body})

    def _taken(
        self,
        rows: pa.RecordBatch,
        facts: PieceFacts,
        books: Books,
        clock: Clock,
        pending: Pending,
        active: Active,
    ) -> list[Packet]:
        """The items of a piece, cut where a query begins or ends; also behind the last of them, where the
        registered stream has gone on.
        """
        own = NUMBER not in rows.schema.names
        if own:
            rows = with_numbers(rows, np.arange(books.number, books.number + rows.num_rows, dtype=np.int64))
        times = times_of(rows, self.stream) if self.stream.time is not None else None
        numbers = numbers_of(rows)
        last, time, origin = facts.last, facts.time, facts.origin
        if own:
            time = last = times[-1].item() if times is not None and len(times) else clock.last
            origin = (
                times[0].item() if clock.origin is None and times is not None and len(times) else clock.origin
            )
        elif last is not None and times is not None:
            numbers, times = np.append(numbers, facts.number), np.append(times, last)
        out: list[Packet] = []
        first = 0
        for index, events in pending.cuts(times, numbers, clock.last) if len(numbers) else ():
            out += self._dealt(rows.slice(first, index - first), active)
            out += self._controls(events, active)
            first = index
        out += self._dealt(rows.slice(first), active)
        books.rows_in += rows.num_rows
        books.processed += rows.num_rows
        books.number = books.number + rows.num_rows if own else facts.number
        clock.last, clock.seen, clock.origin = last, time, origin
        return out
