"""What a zone of `compose` knows and does in a batch: slices in, windows out.

In: the queries that begin and end in this batch, the slices of this batch, the progress of time. Out: rows of
the table `aggregate`.

In the state, beside the queries and the slices (slices.py): `clock`, how far windows are composed; `members`,
for each query its derived stream and the position at which its windows in rows begin; `layouts`; `streams/`,
derived streams with their open slices. All else is made from these when another worker takes over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.filters.answers import Answers
from anabranch.families.filters.conditions import key_of
from anabranch.families.filters.derived import DerivedStreams, Shape
from anabranch.families.filters.slices import PREFIX as SLICES
from anabranch.families.filters.slices import Arena, empty_rows
from anabranch.families.filters.spec import Aggregate
from anabranch.kernels import edges, slices, windows
from anabranch.kernels.slices import FLOAT_TIME, ROW, Rows
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.zones import queries
from anabranch.zones.columns import Array
from anabranch.zones.packets import Packet
from anabranch.zones.state import State

CLOCK, MEMBERS, LAYOUTS, STREAMS = "clock", "members", "layouts", "streams/"
PER_CHUNK = 256

_STORED = ("id", "key", "passed", "number", "time", "position", "items", "held")
_OPEN = ("number", "time", "position", "items", "layout", "at")


@dataclass
class Asked:
    """A query here: its place among the answers, its derived stream, its shape, and where its windows
    begin.
    """

    spec: Aggregate
    slot: int
    stream: int
    shape: int
    base: int


class Incoming:
    """The slices of a batch, in the order of the stream."""

    def __init__(self, slots: Array, rows: Rows) -> None:
        self.slots, self.rows = slots, rows
        self._sorted: tuple[Array, Array, Array] | None = None

    def before(self, slot: int, number: int) -> int:
        """How many items of a derived stream came in this batch before item `number` of the stream."""
        if self._sorted is None:
            order = np.argsort(self.slots, kind="stable")
            self._sorted = (self.slots[order], self.rows.number[order], self.rows.items[order])
        slots, numbers, items = self._sorted
        first, stop = np.searchsorted(slots, [slot, slot + 1])
        return int(items[first : first + np.searchsorted(numbers[first:stop], number)].sum())


class Composer:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.time_type = np.dtype(np.float64 if stream.time_type is ColumnType.FLOAT else np.int64)
        self.derived = DerivedStreams(stream)
        streams = self.derived.streams
        streams.add_column("id", np.int64, -1)
        for name in ("number", "position", "items", "at"):
            streams.add_column(name, np.int64, 0)
        streams.add_column("time", self.time_type, 0)
        streams.add_column("held", np.int64, 0)  # the layout of the open slice
        self.words = np.empty(0, np.int64)  # of the open slices
        self.arena = Arena(self.time_type)
        self.answers = Answers(stream)
        self.asked: dict[int, Asked] = {}  # number of the query -> it
        self.last: Time | None = None
        self.ended = False
        self.next_id = 0
        self._fitted = True
        self._touched: set[int] = set()  # chunks of derived streams to put
        self._members_changed = False

    # a batch

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
        incoming = self._incoming(partials)
        for query in began:
            self._begin(query, incoming)
        for end in ceased:
            self._limit(end, incoming)
        self._take_in(incoming)
        rows = self._windows(progress)
        for end in ceased:
            self._leave(end.number)
        self._clear()
        return rows

    def _enter(self, query: queries.Active) -> None:
        spec = Aggregate.from_json(query.spec)
        key = key_of(spec.condition, self.stream)
        known = key in self.derived.slot_of
        slot = self.derived.enter(key, spec)
        if not known:
            self.derived.streams["id"][slot] = self.next_id
            self.next_id += 1
        self.asked[query.number] = Asked(spec, -1, slot, -1, 0)
        self._touched.add(slot // PER_CHUNK)
        self._fitted, self._members_changed = False, True

    def _begin(self, query: queries.Active, incoming: Incoming) -> None:
        """Gives a query its windows: from the position before its first item, or after the moment of its
        activation.
        """
        asked = self.asked[query.number]
        shape = Shape.of(asked.spec.window, self.stream)
        low = 0
        if shape.axis == ROW:
            asked.base = int(self.derived.streams["passed"][asked.stream]) + incoming.before(
                asked.stream, query.start
            )
        self._shaped(query, asked, shape)
        if shape.axis != ROW:
            low = self._first_window(asked.shape, query.since)
            if self.derived.shapes["users"][asked.shape] == 1:
                self.derived.shapes["next"][asked.shape] = low
        self.answers.queries["low"][asked.slot] = low

    def _shaped(self, query: queries.Active, asked: Asked, shape: Shape) -> None:
        asked.shape = self.derived.enter_shape(asked.stream, shape, asked.base)
        asked.slot = self.answers.add(query.name, asked.spec, asked.shape, 0)

    def _first_window(self, shape: int, since: Time | None) -> int:
        """The first window of a shape in time that begins after a moment."""
        if since is None or self.derived.origin is None:
            return 0  # a query that is there before the first item gets all windows
        shapes = self.derived.shapes
        if shapes["axis"][shape] == FLOAT_TIME:
            return int(
                edges.first_after_float(
                    shapes["base_float"][shape], shapes["step_float"][shape], 0.0, float(since)
                )
            )
        moment = np.int64(math.floor(since))
        return int(edges.first_after(shapes["base"][shape], shapes["step"][shape], np.int64(0), moment))

    def _limit(self, end: queries.Ceased, incoming: Incoming) -> None:
        """A query that ends gets the windows that are full at that moment and no others."""
        asked = self.asked[end.number]
        position = int(self.derived.streams["passed"][asked.stream]) + incoming.before(asked.stream, end.stop)
        high = 0
        if self.derived.shapes["axis"][asked.shape] == ROW or (
            end.until is not None and self.derived.origin is not None
        ):
            moment = self._moment(asked.shape, end.until)
            high = int(
                windows.first_open(self.derived.shape_arrays(), asked.shape, moment, np.int64(position))
            )
        self.answers.queries["high"][asked.slot] = high

    def _moment(self, shape: int, time: Time | None) -> Any:
        """A time as the kernels want it. Integer windows have reached exactly what they have at the next
        integer below.
        """
        if time is None:
            return self.time_type.type(0)
        if self.time_type == np.int64 and self.derived.shapes["axis"][shape] != FLOAT_TIME:
            return np.int64(math.floor(time))
        return np.float64(time)

    # slices

    def _incoming(self, partials: Sequence[Packet]) -> Incoming:
        """The slices of a batch, sorted by their first items."""
        if not partials:
            return Incoming(np.empty(0, np.int64), empty_rows(0, 0, self.time_type))
        slots, layouts, words = [], [], []
        for packet in partials:
            keys, codes = packet.column("stream").dictionary, packet.column("stream").indices
            # a packet for several zones keeps its dictionary when it is dealt out
            own = np.array([self.derived.slot_of.get(key, -1) for key in keys.to_pylist()], np.int64)
            slots.append(own[codes.to_numpy()])
            assert slots[-1].min() >= 0, "slices of a derived stream that no query of this zone asks for"
            local = np.array(self.derived.book.understood(packet.facts["layouts"]), np.int64)
            layouts.append(local[packet.column("layout").to_numpy()])
            words.append(packet.column("words").flatten().to_numpy())
        number, time, items = (
            np.concatenate([packet.column(name).to_numpy() for packet in partials])
            for name in ("number", "time", "items")
        )
        layout = np.concatenate(layouts)
        width = self.derived.book.arrays.width[layout]
        parts = [number, time, np.zeros(len(number), np.int64), items, layout, np.cumsum(width) - width]
        owners = np.concatenate(slots)
        if (number[1:] < number[:-1]).any():
            order = np.argsort(number, kind="stable")
            parts, owners = [part[order] for part in parts], owners[order]
        return Incoming(owners, Rows._make([*parts, np.concatenate(words)]))

    def _take_in(self, incoming: Incoming) -> None:
        """Adds the slices of a batch to the open ones, and moves those that are closed to the arena."""
        self._fit()
        if not len(incoming.slots):
            return
        streams, layouts = self.derived.stream_arrays(), self.derived.book.arrays
        slots, count = incoming.slots, len(incoming.slots)
        out = empty_rows(count, int(layouts.width[streams.layout[slots]].sum()), self.time_type)
        owners = np.empty(count, np.int64)
        rows, words = slices.cut(
            slots,
            np.arange(count),
            incoming.rows,
            layouts,
            self.derived.shape_arrays(),
            streams,
            self._held(),
            out,
            owners,
        )
        if rows:
            closed = Rows._make([*(part[:rows] for part in out[:-1]), out.words[:words]])
            self.arena.append(owners[:rows], self.derived.streams["id"][owners[:rows]], closed)
        self._touched.update((np.flatnonzero(np.bincount(slots)) // PER_CHUNK).tolist())

    def _held(self) -> Rows:
        """The open slices, by the slot of their derived stream."""
        streams = self.derived.streams
        named = [streams["held" if name == "layout" else name] for name in _OPEN]
        return Rows._make([*named, self.words])

    def _fit(self) -> None:
        """Brings the open slices into the layouts that their derived streams have now."""
        if self._fitted:
            return
        streams, layouts = self.derived.streams, self.derived.book.arrays
        changed = np.flatnonzero(streams["held"] != streams["layout"])
        self._touched.update(np.unique(changed // PER_CHUNK).tolist())
        width = layouts.width[streams["layout"]]
        at = np.cumsum(width) - width
        words = np.empty(int(width.sum()), np.int64)
        slices.refit(self._held(), layouts, streams["layout"], at, words)
        self.words = words
        streams["at"][:] = at
        streams["held"][:] = streams["layout"]
        self.arena.ready(streams.size)
        self._fitted = True

    # windows

    def _windows(self, progress: Mapping[str, Any]) -> pa.RecordBatch | None:
        """The results of the windows that are full now, or that the end of the stream leaves."""
        self.ended = progress["ended"]
        self.last = progress["last"]
        live = self.derived.shapes.live
        if not len(live):
            return None
        composed = self._composed(live, self.ended)
        shapes = self.derived.shape_arrays()
        if self.ended:
            self.answers.at_end(shapes)
        if not len(composed.k):
            return None
        return self.answers.rows(composed, shapes, self.derived.book.arrays)

    def _composed(self, due: Array, ended: bool) -> windows.Composed:
        last = np.asarray(self.last if self.last is not None else 0, self.time_type)[()]
        given = (
            due,
            last,
            ended,
            self.derived.shape_arrays(),
            self.derived.book.arrays,
            self.derived.stream_arrays(),
            self._held(),
            self.arena.rows,
            self.arena.lists,
        )
        found, words = windows.compose(*given, _room(0, 0), True)
        out = _room(found, words)
        windows.compose(*given, out, False)
        return out

    def _leave(self, number: int) -> None:
        asked = self.asked.pop(number)
        self.answers.remove(asked.slot)
        self.derived.leave_shape(asked.shape, Shape.of(asked.spec.window, self.stream))
        self._touched.add(asked.stream // PER_CHUNK)
        if self.derived.leave(asked.stream, asked.spec):
            self.arena.forget(asked.stream)
        self._fitted, self._members_changed = False, True

    def _clear(self) -> None:
        self._fit()
        self.arena.evict(self.derived.streams.live, self.derived.shape_arrays())

    # in the state

    def save(self, state: State) -> None:
        """Puts what changed. After the end of the stream nothing is needed but to know of it."""
        _put_json(state, CLOCK, [self.derived.origin, self.last, self.ended, self.next_id])
        if self.ended:
            for key in (MEMBERS, LAYOUTS, *state.keys(STREAMS), *state.keys(SLICES)):
                state.drop(key)
            return
        _put_json(state, LAYOUTS, self.derived.book.described(range(len(self.derived.book.entries))))
        if self._members_changed:
            ids = self.derived.streams["id"]
            rows = [(number, ids[asked.stream], asked.base) for number, asked in self.asked.items()]
            state.put(MEMBERS, {"members": np.array(rows, np.int64).reshape(-1, 3)})
        for chunk in sorted(self._touched):
            self._put_streams(state, chunk)
        live = self.derived.streams.live
        self.arena.save(state, self.derived.book, live, self.derived.streams["id"])
        self._members_changed, self._touched = False, set()

    def _put_streams(self, state: State, chunk: int) -> None:
        streams, key = self.derived.streams, f"{STREAMS}{chunk:08d}"
        live = streams.live
        slots = live[live // PER_CHUNK == chunk]
        if not len(slots):
            state.drop(key)
            return
        width = self.derived.book.arrays.width[streams["held"][slots]]
        words = np.repeat(streams["at"][slots] - (np.cumsum(width) - width), width) + np.arange(
            int(width.sum())
        )
        arrays = {name: streams[name][slots] for name in _STORED}
        state.put(key, {"slot": slots, **arrays, "words": self.words[words]})

    @staticmethod
    def load(stream: Stream, state: State) -> Composer:
        """What the state says, made anew."""
        made = Composer(stream)
        clock = _get_json(state, CLOCK)
        if clock is None:
            return made
        made.derived.origin, made.last, made.ended, made.next_id = clock
        if made.ended:
            return made
        made.derived.book.understood(_get_json(state, LAYOUTS) or [])
        made._load_streams(state)
        streams = made.derived.streams
        slot_of = {stream_id: slot for slot, stream_id in enumerate(streams["id"].tolist())}
        members = state.get(MEMBERS)
        listed = [] if members is None else members["members"].tolist()
        bases = {number: (slot_of[stream_id], base) for number, stream_id, base in listed}
        for number, query in queries.active(state).items():
            made._restore(query, *bases[number])
        made._fitted = False
        made._fit()
        made.arena.load(state, made.derived.book, streams.live, streams["id"][streams.live])
        made._touched, made._members_changed = set(), False
        return made

    def _load_streams(self, state: State) -> None:
        chunks = [state.get(key) for key in state.keys(STREAMS)]
        if not chunks:
            return
        together = {
            name: np.concatenate([chunk[name] for chunk in chunks if chunk])
            for name in (*_STORED, "slot", "words")
        }
        slots, streams = together["slot"], self.derived.streams
        streams.restore(slots)
        for name in _STORED:
            streams[name][slots] = together[name]
        width = self.derived.book.arrays.width[together["held"]]
        streams["at"][slots] = np.cumsum(width) - width
        self.words = together["words"]

    def _restore(self, query: queries.Active, slot: int, base: int) -> None:
        spec = Aggregate.from_json(query.spec)
        self.derived.enter(key_of(spec.condition, self.stream), spec, slot)
        asked = self.asked[query.number] = Asked(spec, -1, slot, -1, base)
        shape = Shape.of(spec.window, self.stream)
        self._shaped(query, asked, shape)
        if shape.axis != ROW:
            self.answers.queries["low"][asked.slot] = self._first_window(asked.shape, query.since)
        last, count = self._moment(asked.shape, self.last), self.derived.streams["passed"][slot]
        if shape.axis == ROW or self.last is not None:
            self.derived.shapes["next"][asked.shape] = windows.first_open(
                self.derived.shape_arrays(), asked.shape, last, count
            )


def _put_json(state: State, key: str, value: Any) -> None:
    body = np.frombuffer(json.dumps(value).encode(), np.uint8)
    held = state.get(key)
    if held is None or not np.array_equal(held["json"], body):
        state.put(key, {"json": body})


def _get_json(state: State, key: str) -> Any:
    held = state.get(key)
    return None if held is None else json.loads(bytes(held["json"]))


def _room(count: int, words: int) -> windows.Composed:
    integers = [np.empty(count, np.int64) for _ in range(5)]
    return windows.Composed._make([*integers, np.empty(words, np.int64)])
