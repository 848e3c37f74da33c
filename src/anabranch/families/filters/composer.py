"""What a zone of `compose` knows and does in a batch: slices in, windows out.

In: the queries that begin and end in this batch, the slices of this batch, the progress of time. Out: rows of
the table `aggregate`.

In the state, beside the queries and their derived streams (held.py): `clock`, how far windows are composed,
`members`, for each query its derived stream and the position at which its windows in rows begin, and `made`,
the columns that operators make. All else is made from these when another worker takes over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.filters.answers import MEMBER, Answers
from anabranch.families.filters.conditions import key_of
from anabranch.families.filters.derived import Shape
from anabranch.families.filters.held import Held
from anabranch.families.filters.incoming import Incoming
from anabranch.families.filters.made import widened
from anabranch.families.filters.spec import Aggregate
from anabranch.families.filters.stored import get_json, put_json
from anabranch.kernels import edges, windows
from anabranch.kernels.slices import FLOAT_TIME
from anabranch.model.operators import Made
from anabranch.model.stream import Stream, Time
from anabranch.zones import queries
from anabranch.zones.packets import Packet
from anabranch.zones.state import State

CLOCK, MEMBERS, MADE = "clock", "members", "made"


@dataclass
class Asked:
    """A query here: its derived stream, where its windows begin, its place among the answers, its shape."""

    spec: Aggregate
    stream: int
    base: int = 0
    slot: int = -1
    shape: int = -1


class Composer:
    def __init__(self, stream: Stream, made: Iterable[Made] = ()) -> None:
        """`made` are the columns that operators make for the queries here, or made for earlier ones."""
        self.made = list({column.name: column for column in made}.values())
        self.stream = stream = widened(stream, self.made)
        self.held = Held(stream)
        self.derived = self.held.derived
        self.answers = Answers(stream)
        self.asked: dict[int, Asked] = {}  # number of the query -> it
        self.last: Time | None = None
        self.ended = False
        self._members_changed = False

    def step(
        self,
        began: Sequence[queries.Active],
        ceased: Sequence[queries.Ceased],
        partials: Sequence[Packet],
        progress: Mapping[str, Any],
    ) -> pa.RecordBatch | None:
        if self.ended:
            return None
        self.derived.begin_at(progress["origin"])
        for query in began:  # derived streams first: the slices of this batch refer to them
            self._enter(query)
        incoming = Incoming.read(partials, self.derived)
        for query in began:
            self._begin(query, incoming)
        for end in ceased:
            self._limit(end, incoming)
        self.held.take_in(incoming)
        rows = self._windows(progress)
        for end in ceased:
            self._leave(end.number)
        self.held.clear()
        return rows

    # queries

    def _enter(self, query: queries.Active) -> None:
        spec = Aggregate.from_json(query.spec)
        self.asked[query.number] = Asked(spec, self.held.enter(key_of(query.spec, self.stream), spec))
        self._members_changed = True

    def _begin(self, query: queries.Active, incoming: Incoming) -> None:
        """Gives a query its windows: from the position before its first item, or after its activation."""
        asked = self.asked[query.number]
        if asked.spec.window.by_rows:
            passed = int(self.derived.streams["passed"][asked.stream])
            asked.base = passed + incoming.before(asked.stream, query.start)
        low = self._placed(query, asked)
        if self.derived.shapes["users"][asked.shape] == 1:
            self.derived.shapes["next"][asked.shape] = low

    def _placed(self, query: queries.Active, asked: Asked) -> int:
        """Puts a query among the answers; out: the number of its first window."""
        asked.shape = self.derived.enter_shape(
            asked.stream, Shape.of(asked.spec.window, self.stream), asked.base
        )
        asked.slot = self.answers.add(query.name, asked.spec, asked.shape)
        member = (query.number, self.derived.streams["id"][asked.stream], asked.base)
        for name, value in zip(MEMBER, member, strict=True):
            self.answers.queries[name][asked.slot] = value
        low = 0 if asked.spec.window.by_rows else self._first_window(asked.shape, query.since)
        self.answers.queries["low"][asked.slot] = low
        return low

    def _first_window(self, shape: int, since: Time | None) -> int:
        """The first window of a shape in time that begins after a moment."""
        if since is None or self.derived.origin is None:
            return 0  # a query that is there before the first item gets all windows
        shapes = self.derived.shapes
        if shapes["axis"][shape] == FLOAT_TIME:
            base, step = shapes["base_float"][shape], shapes["step_float"][shape]
            return int(edges.first_after_float(base, step, 0.0, float(since)))
        moment = np.int64(math.floor(since))
        return int(edges.first_after(shapes["base"][shape], shapes["step"][shape], np.int64(0), moment))

    def _limit(self, end: queries.Ceased, incoming: Incoming) -> None:
        """A query that ends gets the windows that are full at that moment and no others."""
        asked = self.asked[end.number]
        by_rows = asked.spec.window.by_rows
        high = 0
        if by_rows or (end.until is not None and self.derived.origin is not None):
            passed = int(self.derived.streams["passed"][asked.stream])
            position = np.int64(passed + incoming.before(asked.stream, end.stop))
            moment = np.int64(0) if end.until is None else self._moment(asked.shape, end.until)
            high = int(windows.first_open(self.derived.shape_arrays(), asked.shape, moment, position))
        self.answers.queries["high"][asked.slot] = high

    def _moment(self, shape: int, time: Time) -> np.generic:
        """A time as the kernels want it. By 10.5, windows of integers have reached what they have by 10."""
        if self.derived.shapes["axis"][shape] == FLOAT_TIME:
            return np.float64(time)
        return np.int64(math.floor(time))

    def _leave(self, number: int) -> None:
        asked = self.asked.pop(number)
        self.answers.remove(asked.slot, asked.spec)
        self.derived.leave_shape(asked.shape, Shape.of(asked.spec.window, self.stream))
        self.held.leave(asked.stream, asked.spec)
        self._members_changed = True

    # windows

    def _windows(self, progress: Mapping[str, Any]) -> pa.RecordBatch | None:
        """The results of the windows that are full now, or that the end of the stream leaves."""
        self.last, self.ended = progress["last"], progress["ended"]
        if not self.asked:
            return None
        composed = self.held.composed(self.last, self.ended)
        shapes = self.derived.shape_arrays()
        if self.ended:
            self.answers.at_end(shapes, self.derived.streams["passed"])
        if not len(composed.k):
            return None
        return self.answers.rows(composed, shapes, self.derived.book.arrays)

    # in the state

    def save(self, state: State) -> None:
        """Puts what changed. After the end of the stream nothing is needed but to know of it."""
        put_json(state, CLOCK, [self.derived.origin, self.last, self.ended, self.held.next_id])
        if self.made:
            put_json(state, MADE, [column.to_json() for column in self.made])
        if self.ended:
            state.drop(MEMBERS)
            self.held.drop(state)
            return
        if self._members_changed:
            state.put(MEMBERS, self.answers.members())
            self._members_changed = False
        self.held.save(state)

    @staticmethod
    def load(stream: Stream, state: State, more: Iterable[Made] = ()) -> Composer:
        """What the state says, made anew; `more` columns are for queries that begin."""
        made = Composer(stream, [*map(Made.from_json, get_json(state, MADE) or ()), *more])
        clock = get_json(state, CLOCK)
        if clock is None:
            return made
        made.derived.origin, made.last, made.ended, made.held.next_id = clock
        if not made.ended:
            made._restore(state)
        return made

    def _restore(self, state: State) -> None:
        slot_of = self.held.load_open(state)
        members = state.get(MEMBERS)
        listed = [] if members is None else zip(*(members[name].tolist() for name in MEMBER), strict=True)
        placed = {number: (slot_of[stream_id], base) for number, stream_id, base in listed}
        for number, query in queries.active(state).items():
            slot, base = placed[number]
            asked = self.asked[number] = Asked(Aggregate.from_json(query.spec), slot, base)
            self.derived.enter(key_of(query.spec, self.stream), asked.spec, slot)
            self._placed(query, asked)
        self.held.load_closed(state, self.last)
