"""Control: how queries are activated and cancelled between two items of a stream.

    log --> control_packets --> Pending, in order --> ACTIVATE and CANCEL --> queries, in the stages

The catalog's log, a job or a test gives `Activate` and `Cancel` records. They travel to order as packets,
wait there until the stream has reached their time, and go on to every zone of every stage with the number
of the item before which they take effect:

    activate = 10, cancel = 20      items at   8  10 | 12  20 | 21
                                         ACTIVATE ---+        +--- CANCEL

All these packets have one schema, CONTROL. A query without a time takes effect before the items of the batch
that brings it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.packets import EMPTY, ORDER, Kind, Packet
from anabranch.chain.state import State
from anabranch.model.arrays import Array, Ints
from anabranch.model.control_log import Activate, Cancel, Control, End, Rebalance
from anabranch.model.stream import Time

#: Rows of ACTIVATE and CANCEL packets. `spec` and `time` are JSON; `time` is null where none was given.
#: `item` is null until order has placed the row: it takes effect before the item of that number. CANCEL rows
#: have neither name nor spec.
CONTROL = pa.schema(
    [
        ("number", pa.int64()),
        ("name", pa.string()),
        ("spec", pa.string()),
        ("time", pa.string()),
        ("item", pa.int64()),
        ("family", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query that runs. `first_item` is the number of the first item that it can see; `activate` is the
    moment of its activation: the time it was given, or the time of the last item before it, or None at the
    very start.
    """

    number: int
    name: str
    spec: dict[str, Any]
    first_item: int
    activate: Time | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A query that was cancelled. `cancel` is the time it was given, or that of the last item before it, or
    None; `end_item` is the number of the first item that it does not see any more. A later stage gets CANCEL
    before the items that an earlier one still sends from before it, so it needs `end_item` to tell which of
    them the query saw.
    """

    number: int
    cancel: Time | None
    end_item: int


# from the log to order

_KINDS = {Activate: Kind.ACTIVATE, Cancel: Kind.CANCEL, Rebalance: Kind.REBALANCE, End: Kind.END}
#: The values of a row of CONTROL.
_Row = tuple[int, str | None, str | None, Time | None, int | None, str]


def control_packets(controls: Sequence[Control], version: int | None = None) -> list[Packet]:
    """Packets for order: one per run of controls of the same kind, in the order of the log. `version` is that
    of the log: order takes no version twice.
    """
    facts = {} if version is None else {"version": version}
    return [
        Packet(ORDER, 0, _KINDS[kind], _control_rows(list(run)), facts)
        for kind, run in groupby(controls, key=type)
    ]


def _control_rows(run: list[Control]) -> pa.RecordBatch:
    rows: list[_Row] = []
    for control in run:
        match control:
            case Activate(number, name, spec, time, family):
                rows.append((number, name, json.dumps(spec), time, None, family))
            case Cancel(number, time, family):
                rows.append((number, None, None, time, None, family))
            case Rebalance(family):
                rows.append((-1, None, None, None, None, family))
    return _rows(rows) if rows else EMPTY


def cancel_rows(numbers: Iterable[int], family: str) -> pa.RecordBatch:
    """Rows of a CANCEL packet for order: these queries end before the items of the next batch."""
    return _rows([(number, None, None, None, None, family) for number in numbers])


def _rows(rows: Sequence[_Row]) -> pa.RecordBatch:
    numbers, names, specs, times, items, families = zip(*rows, strict=True)
    columns = [numbers, names, specs, [json.dumps(time) for time in times], items, families]
    return pa.record_batch(
        [pa.array(column, kind.type) for column, kind in zip(columns, CONTROL, strict=True)], schema=CONTROL
    )


# in order


@dataclass(frozen=True)
class _Waiting:
    """A row of control that has not taken effect yet."""

    kind: Kind
    number: int
    time: Time | None
    name: str | None
    spec: str | None
    family: str


@dataclass(frozen=True)
class Event:
    """What takes effect for the queries of a family at one place of the stream: ACTIVATE or CANCEL."""

    kind: Kind
    family: str
    rows: pa.RecordBatch


@dataclass
class Pending:
    """Control that waits in order for its moment."""

    waiting: list[_Waiting] = field(default_factory=list)
    changed: bool = False

    KEY = "pending"

    def add(self, packet: Packet) -> None:
        """Takes up the ACTIVATE or CANCEL packets of the control log."""
        if packet.kind not in (Kind.ACTIVATE, Kind.CANCEL):
            return
        self.changed = True
        for row in packet.rows.to_pylist():
            new = _waiting(packet.kind, row)
            if new.kind is Kind.ACTIVATE or not self._is_never_active(new):
                self.waiting.append(new)

    def _is_never_active(self, cancel: _Waiting) -> bool:
        """Whether the query is cancelled before its activation; then both are forgotten. A cancellation that
        is moved forward replaces the old one.
        """
        same = [other for other in self.waiting if other.number == cancel.number]
        self.waiting = [w for w in self.waiting if w.number != cancel.number or w.kind is Kind.ACTIVATE]
        for activate in (other for other in same if other.kind is Kind.ACTIVATE):
            if cancel.time is None or (activate.time is not None and cancel.time <= activate.time):
                self.waiting.remove(activate)
                return True
        return False

    def due(self, number: int, last: Time | None) -> list[Event]:
        """What takes effect before item `number`: all without a time, and those whose time has passed. `last`
        is the time of the item before.
        """
        now = [w for w in self.waiting if w.time is None or (last is not None and w.time < last)]
        return self._take(now, number, last)

    def cuts(
        self, times: Array | None, numbers: Array, last: Time | None
    ) -> Iterator[tuple[int, list[Event]]]:
        """(index, what takes effect before the item at that index), in order, for items that leave now.

        `numbers` are those of the items, and `last` is the time of the item before them.
        """
        events = self.due(int(numbers[0]), last)
        if events:
            yield 0, events
        if times is None or not self.waiting:
            return
        by_index: dict[int, list[_Waiting]] = {}
        for waiting in self.waiting:
            assert waiting.time is not None  # those without a time were due
            index = int(np.searchsorted(times, waiting.time, side="right"))
            if index < len(numbers):
                by_index.setdefault(index, []).append(waiting)
        for index in sorted(by_index):
            before = times[index - 1].item() if index else last
            yield index, self._take(by_index[index], int(numbers[index]), before)

    def _take(self, now: list[_Waiting], number: int, last: Time | None) -> list[Event]:
        if not now:
            return []
        self.changed = True
        taken = {id(waiting) for waiting in now}
        self.waiting = [waiting for waiting in self.waiting if id(waiting) not in taken]
        return [
            Event(kind, family, _placed(run, number, last))
            for (kind, family), run in groupby(now, key=lambda waiting: (waiting.kind, waiting.family))
        ]

    @classmethod
    def load(cls, state: State) -> Pending:
        rows = state.rows(cls.KEY)
        if rows is None:
            return Pending()
        return Pending([_waiting(Kind(row["kind"]), row) for row in rows.to_pylist()])

    def save(self, state: State) -> None:
        if not self.changed:
            return
        if not self.waiting:
            state.drop(self.KEY)
            return
        rows = _rows([(w.number, w.name, w.spec, w.time, None, w.family) for w in self.waiting])
        kinds = pa.array([int(w.kind) for w in self.waiting], pa.int64())
        state.put(self.KEY, rows.append_column("kind", kinds))


def _waiting(kind: Kind, row: Mapping[str, Any]) -> _Waiting:
    return _Waiting(kind, row["number"], json.loads(row["time"]), row["name"], row["spec"], row["family"])


def _placed(run: Iterable[_Waiting], number: int, last: Time | None) -> pa.RecordBatch:
    """The rows that the stages get: the moment is the time given, or that of the last item."""
    return _rows([(w.number, w.name, w.spec, _moment(w.time, last), number, w.family) for w in run])


def _moment(time: Time | None, last: Time | None) -> Time | None:
    if time is None:
        return last
    return time if last is None else max(time, last)


# in the stages

PREFIX = "queries/"
#: Queries are kept in chunks of so many, so that one activation among ten thousand writes little.
PER_CHUNK = 1000


def activated(packet: Packet) -> list[Query]:
    """The queries that an ACTIVATE packet activates."""
    return [
        Query(row["number"], row["name"], json.loads(row["spec"]), row["item"], json.loads(row["time"]))
        for row in packet.rows.to_pylist()
    ]


def cancelled(packet: Packet) -> list[Cancelled]:
    """The queries that a CANCEL packet cancels."""
    return [Cancelled(row["number"], json.loads(row["time"]), row["item"]) for row in packet.rows.to_pylist()]


def queries(state: State) -> dict[int, Query]:
    """The queries of this zone by number, in order of activation (numbers ascend); do not change it."""
    chunks = state.keys(PREFIX)

    def build() -> dict[int, Query]:
        return {query.number: query for key in chunks for query in _parsed(state, key)}

    return state.cached("queries", chunks, build)


def apply(state: State, packets: Iterable[Packet]) -> tuple[list[Query], list[Cancelled]]:
    """Carries out the ACTIVATE and CANCEL packets among `packets`, in their order, and returns the queries
    that were activated and those that were cancelled.

    A query that is activated and cancelled in the same call is in both lists.
    """
    new: list[Query] = []
    gone: list[Cancelled] = []
    for packet in packets:
        if packet.kind is Kind.ACTIVATE:
            new.extend(activated(packet))
            _add(state, packet.rows)
        elif packet.kind is Kind.CANCEL:
            gone.extend(cancelled(packet))
            _remove(state, packet.rows.column("number"))
    return new, gone


def copy(before: State, state: State, numbers: Ints) -> None:
    """Adds the queries of another state that have these numbers."""
    for key in before.keys(PREFIX):
        rows = before.rows(key)
        assert rows is not None
        own = rows.filter(pc.is_in(rows.column("number"), value_set=pa.array(numbers, pa.int64())))
        if own.num_rows:
            _add(state, own)


def _key(number: int) -> str:
    return f"{PREFIX}{number // PER_CHUNK:08d}"


def _parsed(state: State, key: str) -> list[Query]:
    def parse() -> list[Query]:
        rows = state.rows(key)
        assert rows is not None
        return activated(Packet(0, 0, Kind.ACTIVATE, rows))

    return state.cached(f"parsed {key}", [key], parse)


def _add(state: State, rows: pa.RecordBatch) -> None:
    chunk_of = pc.divide(rows.column("number"), PER_CHUNK)
    for chunk in pc.unique(chunk_of).to_pylist():
        new = rows.filter(pc.equal(chunk_of, chunk))
        key = _key(chunk * PER_CHUNK)
        old = state.rows(key)
        state.put(key, new if old is None else _by_number(pa.concat_batches([old, new])))


def _by_number(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Queries in order of activation; those that come from another zone may be older than those here."""
    numbers = rows.column("number").to_numpy()
    return rows if (numbers[1:] > numbers[:-1]).all() else rows.take(pa.array(np.argsort(numbers)))


def _remove(state: State, numbers: pa.Array) -> None:
    for chunk in pc.unique(pc.divide(numbers, PER_CHUNK)).to_pylist():
        key = _key(chunk * PER_CHUNK)
        old = state.rows(key)
        if old is None:
            continue
        kept = old.filter(pc.invert(pc.is_in(old.column("number"), value_set=numbers)))
        if kept.num_rows:
            state.put(key, kept)
        else:
            state.drop(key)
