"""The derived streams of a zone of `compose`, with their open and closed slices.

In: the slices of a batch. Out: windows, composed from them. In the state: `streams/`, derived streams with
their open slices, some in each chunk; `slices/`, closed ones (slices.py); `layouts`, what their words mean.

A derived stream has a slot as long as it lives and an id that is never used again, by which closed slices in
the state are told from those of a derived stream that died.
"""

from __future__ import annotations

import numpy as np

from anabranch.families.filters.derived import DerivedStreams
from anabranch.families.filters.incoming import Incoming
from anabranch.families.filters.slices import PREFIX as SLICES
from anabranch.families.filters.slices import Arena, empty_rows
from anabranch.families.filters.spec import Aggregate
from anabranch.families.filters.stored import get_json, put_json
from anabranch.kernels import slices, windows
from anabranch.kernels.slices import Rows
from anabranch.model.stream import Stream, Time
from anabranch.zones.columns import Array
from anabranch.zones.state import State

LAYOUTS, STREAMS = "layouts", "streams/"
PER_CHUNK = 256

_STORED = ("id", "key", "passed", "number", "time", "position", "items", "held")
_OPEN = ("number", "time", "position", "items", "held", "at")


class Held:
    def __init__(self, stream: Stream) -> None:
        self.derived = DerivedStreams(stream)
        streams = self.derived.streams
        streams.add_column("id", np.int64, -1)
        for name in ("number", "position", "items", "at"):
            streams.add_column(name, np.int64, 0)
        streams.add_column("time", self.derived.time_type, 0)
        streams.add_column("held", np.int64, 0)  # the layout of the open slice
        self.words = np.empty(0, np.int64)  # of the open slices
        self.arena = Arena(self.derived.time_type)
        self.next_id = 0
        self._fitted = True
        self._touched: set[int] = set()  # chunks of derived streams to put
        self._layouts = 0  # how many of them the state has

    # derived streams

    def enter(self, key: int, spec: Aggregate) -> int:
        """The slot of the derived stream of a query that begins."""
        known = key in self.derived.slot_of
        slot = self.derived.enter(key, spec)
        if not known:
            self.derived.streams["id"][slot] = self.next_id
            self.next_id += 1
        self._touched.add(slot // PER_CHUNK)
        self._fitted = False
        return slot

    def leave(self, slot: int, spec: Aggregate) -> None:
        """A query ends, and its derived stream too if it was the last on it."""
        self._touched.add(slot // PER_CHUNK)
        if self.derived.leave(slot, spec):
            self.arena.forget(slot)
        self._fitted = False

    # a batch

    def take_in(self, incoming: Incoming) -> None:
        """Adds the slices of a batch to the open ones, and moves those that are closed to the arena."""
        self._fit()
        slots, count = incoming.slots, len(incoming.slots)
        if not count:
            return
        streams, layouts = self.derived.stream_arrays(), self.derived.book.arrays
        out = empty_rows(count, int(layouts.width[streams.layout[slots]].sum()), self.derived.time_type)
        owners = np.empty(count, np.int64)
        shapes, order = self.derived.shape_arrays(), np.arange(count)
        rows, words = slices.cut(
            slots, order, incoming.rows, layouts, shapes, streams, self._open(), out, owners
        )
        if rows:
            closed = Rows._make([*(part[:rows] for part in out[:-1]), out.words[:words]])
            self.arena.append(owners[:rows], self.derived.streams["id"][owners[:rows]], closed)
        self._touched.update((np.flatnonzero(np.bincount(slots)) // PER_CHUNK).tolist())

    def _open(self) -> Rows:
        """The open slices, by the slot of their derived stream."""
        return Rows._make([*(self.derived.streams[name] for name in _OPEN), self.words])

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
        slices.refit(self._open(), layouts, streams["layout"], at, words)
        self.words = words
        streams["at"][:] = at
        streams["held"][:] = streams["layout"]
        self.arena.ready(streams.size)
        self._fitted = True

    def composed(self, last: Time | None, ended: bool) -> windows.Composed:
        """The windows that are full at the time of the last item or, at the end of the stream, have begun."""
        given = (
            self.derived.shapes.live,
            self._moment(last),
            ended,
            self.derived.shape_arrays(),
            self.derived.book.arrays,
            self.derived.stream_arrays(),
            self._open(),
            self.arena.rows,
            self.arena.lists,
        )
        found, words = windows.compose(*given, _room(0, 0), True)
        out = _room(found, words)
        windows.compose(*given, out, False)
        return out

    def _moment(self, last: Time | None) -> np.generic:
        return np.float64(last or 0) if self.derived.time_type == np.float64 else np.int64(last or 0)

    def clear(self) -> None:
        """Lets go of the slices that no window to come can need."""
        self._fit()
        self.arena.evict(self.derived.streams.live, self.derived.shape_arrays())

    # in the state

    def save(self, state: State) -> None:
        book, streams = self.derived.book, self.derived.streams
        if len(book.entries) > self._layouts:
            put_json(state, LAYOUTS, book.described(range(len(book.entries))))
            self._layouts = len(book.entries)
        for chunk in sorted(self._touched):
            self._put_streams(state, chunk)
        self._touched = set()
        self.arena.save(state, book, streams.live, streams["id"])

    def _put_streams(self, state: State, chunk: int) -> None:
        streams, key = self.derived.streams, f"{STREAMS}{chunk:08d}"
        live = streams.live
        slots = live[live // PER_CHUNK == chunk]
        if not len(slots):
            state.drop(key)
            return
        width = self.derived.book.arrays.width[streams["held"][slots]]
        begin = np.cumsum(width) - width
        words = np.repeat(streams["at"][slots] - begin, width) + np.arange(int(width.sum()))
        arrays = {name: streams[name][slots] for name in _STORED}
        state.put(key, {"slot": slots, **arrays, "words": self.words[words]})

    @staticmethod
    def drop(state: State) -> None:
        for key in (LAYOUTS, *state.keys(STREAMS), *state.keys(SLICES)):
            state.drop(key)

    def load_open(self, state: State) -> dict[int, int]:
        """Takes derived streams and their open slices over; out: the slot of each id.

        Their queries come next, and then `load_closed`.
        """
        self.derived.book.understood(get_json(state, LAYOUTS) or [])
        self._layouts = len(self.derived.book.entries)
        chunks = [chunk for chunk in map(state.get, state.keys(STREAMS)) if chunk]
        if not chunks:
            return {}
        together = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        slots, streams = together["slot"], self.derived.streams
        streams.restore(slots)
        for name in _STORED:
            streams[name][slots] = together[name]
        width = self.derived.book.arrays.width[together["held"]]
        streams["at"][slots] = np.cumsum(width) - width
        self.words = together["words"]
        return dict(zip(together["id"].tolist(), slots.tolist(), strict=True))

    def load_closed(self, state: State, last: Time | None) -> None:
        """Takes closed slices over. Windows go on behind those that were full when time stood at `last`."""
        self._fitted = False
        self._fit()
        live: Array = self.derived.streams.live
        self.arena.load(state, self.derived.book, live, self.derived.streams["id"][live])
        places, streams = self.derived.shapes.live, self.derived.stream_arrays()
        windows.settle(places, self.derived.shape_arrays(), streams, self._moment(last), last is not None)
        self._touched = set()


def _room(count: int, words: int) -> windows.Composed:
    integers = [np.empty(count, np.int64) for _ in range(5)]
    return windows.Composed._make([*integers, np.empty(words, np.int64)])
