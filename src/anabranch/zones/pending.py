"""Control that waits for its moment: queries that begin or end at a time that the stream has not reached.

A control packet takes effect between two items. Without a time of its own that is before the items of the
batch that brings it; with one, before the first item that is younger:

    activate = 10, cancel = 20      items at   8  10 | 12  20 | 21
                                         ACTIVATE ---+        +--- CANCEL
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.model.stream import Time
from anabranch.zones.columns import Array
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.queries import BEGIN, CEASE
from anabranch.zones.state import State

KEY = "pending"

#: Rows of ACTIVATE and CANCEL on their way from the control log to order; `at` is JSON, null without a time.
ASKED_BEGIN = pa.schema(
    [("number", pa.int64()), ("name", pa.string()), ("spec", pa.string()), ("at", pa.string())]
)
ASKED_CEASE = pa.schema([("number", pa.int64()), ("at", pa.string())])

Event = tuple[Kind, pa.RecordBatch]


@dataclass(frozen=True)
class Asked:
    kind: Kind
    number: int
    at: Time | None
    name: str = ""
    spec: str = ""


@dataclass
class Pending:
    waiting: list[Asked] = field(default_factory=list)
    changed: bool = False

    def note(self, packet: Packet) -> None:
        """Takes up the ACTIVATE or CANCEL packets of the control log."""
        if packet.kind not in (Kind.ACTIVATE, Kind.CANCEL):
            return
        self.changed = True
        for row in packet.rows.to_pylist():
            at = json.loads(row["at"])
            asked = Asked(packet.kind, row["number"], at, row.get("name", ""), row.get("spec", ""))
            if asked.kind is Kind.ACTIVATE or not self._never_begins(asked):
                self.waiting.append(asked)

    def _never_begins(self, cancel: Asked) -> bool:
        """Whether the query ends before it would have begun; then both are forgotten. An end that is moved
        forward replaces the old one.
        """
        same = [asked for asked in self.waiting if asked.number == cancel.number]
        self.waiting = [a for a in self.waiting if a.number != cancel.number or a.kind is Kind.ACTIVATE]
        for begin in (asked for asked in same if asked.kind is Kind.ACTIVATE):
            if cancel.at is None or (begin.at is not None and cancel.at <= begin.at):
                self.waiting.remove(begin)
                return True
        return False

    def due(self, number: int, last: Time | None) -> list[Event]:
        """What takes effect here: all without a time, and those whose time has passed."""
        now = [asked for asked in self.waiting if asked.at is None or (last is not None and asked.at < last)]
        return self._take(now, number, last)

    def cuts(
        self, times: Array | None, count: int, number: int, last: Time | None
    ) -> Iterator[tuple[int, list[Event]]]:
        """(place, what takes effect before the item at that place), in order, for items that leave now.

        `number` is the number of the first of them and `last` the time of the item before it.
        """
        events = self.due(number, last)
        if events:
            yield 0, events
        if times is None or not self.waiting:
            return
        places: dict[int, list[Asked]] = {}
        for asked in self.waiting:
            assert asked.at is not None  # those without a time were due
            place = int(np.searchsorted(times, asked.at, side="right"))
            if place < count:
                places.setdefault(place, []).append(asked)
        for place in sorted(places):
            before = times[place - 1].item() if place else last
            yield place, self._take(places[place], number + place, before)

    def _take(self, now: list[Asked], number: int, last: Time | None) -> list[Event]:
        if not now:
            return []
        self.changed = True
        taken = {id(asked) for asked in now}
        self.waiting = [asked for asked in self.waiting if id(asked) not in taken]
        events: list[Event] = []
        run: list[Asked] = []
        for asked in now:
            if run and run[-1].kind is not asked.kind:
                events.append(_event(run, number, last))
                run = []
            run.append(asked)
        return [*events, _event(run, number, last)]

    @staticmethod
    def load(state: State) -> Pending:
        rows = state.rows(KEY)
        if rows is None:
            return Pending()
        return Pending(
            [
                Asked(Kind(row["kind"]), row["number"], json.loads(row["at"]), row["name"], row["spec"])
                for row in rows.to_pylist()
            ]
        )

    def save(self, state: State) -> None:
        if not self.changed:
            return
        if not self.waiting:
            state.drop(KEY)
            return
        asked = self.waiting
        state.put(
            KEY,
            pa.record_batch(
                {
                    "kind": pa.array([int(a.kind) for a in asked], pa.int64()),
                    "number": pa.array([a.number for a in asked], pa.int64()),
                    "at": pa.array([json.dumps(a.at) for a in asked], pa.string()),
                    "name": pa.array([a.name for a in asked], pa.string()),
                    "spec": pa.array([a.spec for a in asked], pa.string()),
                }
            ),
        )


def _event(run: list[Asked], number: int, last: Time | None) -> Event:
    """A run of one kind as the rows that the stages get: the moment is the time asked for, or that of the
    last item.
    """
    kind = run[0].kind
    moments = [json.dumps(_moment(asked.at, last)) for asked in run]
    numbers = pa.array([asked.number for asked in run], pa.int64())
    if kind is Kind.CANCEL:
        stops = pa.array([number] * len(run), pa.int64())
        return kind, pa.record_batch([numbers, pa.array(moments, pa.string()), stops], schema=CEASE)
    columns = [
        numbers,
        pa.array([asked.name for asked in run], pa.string()),
        pa.array([asked.spec for asked in run], pa.string()),
        pa.array([number] * len(run), pa.int64()),
        pa.array(moments, pa.string()),
    ]
    return kind, pa.record_batch(columns, schema=BEGIN)


def _moment(at: Time | None, last: Time | None) -> Time | None:
    if at is None:
        return last
    return at if last is None else max(at, last)
