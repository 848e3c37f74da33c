"""The slices that a zone of `compose` keeps: the open one of each derived stream, and the closed ones that
windows still need.

In: slices from `share`. Out: for the kernels, open slices by slot and closed ones in one arena, linked
derived stream by derived stream. In the state, so that a batch writes little: open slices in chunks
`streams/` of some derived streams each, and closed ones, which never change, in chunks `slices/` in the order
they were closed. When more than half of them are dead, the living are moved together.
"""

from __future__ import annotations

import numpy as np

from anabranch.families.filters.layouts import LayoutBook
from anabranch.kernels.slices import Rows, Shapes
from anabranch.kernels.windows import Lists, evict, link, unlink, walk
from anabranch.zones.columns import Array
from anabranch.zones.state import State

PREFIX = "slices/"
PER_CHUNK = 512

_NAMES = ("number", "time", "position", "items", "layout")


def empty_rows(count: int, words: int, time: np.dtype) -> Rows:
    """Room for slices."""
    integers = [np.empty(count, np.int64) for _ in range(5)]
    return Rows._make([integers[0], np.empty(count, time), *integers[1:], np.empty(words, np.int64)])


class Arena:
    """Closed slices: rows that are only ever appended, until the living are moved together."""

    def __init__(self, time: np.dtype) -> None:
        self.rows = empty_rows(0, 0, time)
        self.streams = np.empty(0, np.int64)  # id of the derived stream of each row
        self.lists = Lists(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
        self.used = 0
        self.words = 0
        self.dead = 0
        self._stored = 0  # rows that the state has
        self._chunks = 0

    def ready(self, slots: int) -> None:
        """Makes room for the lists of so many derived streams."""
        more = slots - len(self.lists.first)
        if more > 0:
            none = np.full(max(more, slots), -1, np.int64)
            self.lists = Lists(np.r_[self.lists.first, none], np.r_[self.lists.last, none], self.lists.next)

    def append(self, slots: Array, ids: Array, rows: Rows) -> None:
        """Adds closed slices of the derived streams `slots`, whose ids are `ids`."""
        first = self.used
        self._add(ids, rows)
        link(slots, np.arange(first, self.used), self.lists)

    def _add(self, ids: Array, rows: Rows) -> None:
        count, words = len(rows.number), len(rows.words)
        self._reserve(self.used + count, self.words + words)
        fresh = slice(self.used, self.used + count)
        for own, new in zip(self.rows[:-2], rows[:-2], strict=True):
            own[fresh] = new
        self.rows.at[fresh] = rows.at + self.words
        self.rows.words[self.words : self.words + words] = rows.words
        self.streams[fresh] = ids
        self.used, self.words = self.used + count, self.words + words

    def _reserve(self, rows: int, words: int) -> None:
        if rows > len(self.streams):
            room = max(rows, 2 * len(self.streams), 1024)
            grown = [_grown(part, room, self.used) for part in self.rows[:-1]]
            self.rows = Rows._make([*grown, self.rows.words])
            self.streams = _grown(self.streams, room, self.used)
            self.lists = self.lists._replace(next=_grown(self.lists.next, room, self.used))
        if words > len(self.rows.words):
            room = max(words, 2 * len(self.rows.words), 1024)
            self.rows = self.rows._replace(words=_grown(self.rows.words, room, self.words))

    def evict(self, slots: Array, shapes: Shapes) -> None:
        """Slices of these derived streams that no window to come can need are dead."""
        self.dead += int(evict(slots, shapes, self.rows, self.lists))

    def forget(self, slot: int) -> None:
        """A derived stream died, and its slices with it."""
        self.dead += int(unlink(slot, self.lists))

    # in the state

    def save(self, state: State, book: LayoutBook, live: Array, ids: Array) -> None:
        """Puts what was closed since the last time; moves the living together if most are dead."""
        if self.dead > self.used // 2:
            self._move(live, ids, book)
        if self.used > self._stored:
            for chunk in range(self._stored // PER_CHUNK, -(-self.used // PER_CHUNK)):
                state.put(f"{PREFIX}{chunk:08d}", self._chunk(chunk))
        for chunk in range(-(-self.used // PER_CHUNK), self._chunks):
            state.drop(f"{PREFIX}{chunk:08d}")
        self._stored, self._chunks = self.used, -(-self.used // PER_CHUNK)

    def _chunk(self, chunk: int) -> dict[str, Array]:
        first, stop = chunk * PER_CHUNK, min(self.used, (chunk + 1) * PER_CHUNK)
        end = int(self.rows.at[stop]) if stop < self.used else self.words
        arrays = {name: getattr(self.rows, name)[first:stop].copy() for name in _NAMES}
        words = self.rows.words[int(self.rows.at[first]) : end].copy()
        return {"stream": self.streams[first:stop].copy(), **arrays, "words": words}

    def _move(self, live: Array, ids: Array, book: LayoutBook) -> None:
        rows, owners = np.empty(self.used, np.int64), np.empty(self.used, np.int64)
        found = walk(live, self.lists, rows, owners)
        rows, owners = rows[:found], owners[:found]
        old = self.rows
        widths = book.arrays.width[old.layout[rows]]
        at = np.cumsum(widths) - widths
        words = np.repeat(old.at[rows] - at, widths) + np.arange(int(widths.sum()))
        kept = Rows._make([*(part[rows] for part in old[:-2]), at, old.words[words]])
        self.used = self.words = self.dead = self._stored = 0
        self.lists.first[:] = -1
        self.lists.last[:] = -1
        self.append(owners, ids[owners], kept)

    def load(self, state: State, book: LayoutBook, slots: Array, ids: Array) -> None:
        """Takes over what the state has, given the slots and ids of the derived streams that live."""
        for key in state.keys(PREFIX):
            arrays = state.get(key)
            assert arrays is not None
            widths = book.arrays.width[arrays["layout"]]
            named = [arrays[name] for name in _NAMES]
            rows = Rows._make([*named, np.cumsum(widths) - widths, arrays["words"]])
            self._add(arrays["stream"], rows)
            self._chunks += 1
        self._stored = self.used
        if not self.used:
            return
        order = np.argsort(ids)
        owners = self.streams[: self.used]
        place = np.minimum(np.searchsorted(ids[order], owners), max(len(ids) - 1, 0))
        living = np.flatnonzero(ids[order][place] == owners) if len(ids) else np.empty(0, np.int64)
        self.dead = self.used - len(living)
        link(slots[order][place[living]], living, self.lists)


def _grown(array: Array, room: int, used: int) -> Array:
    grown = np.empty(room, array.dtype)
    grown[:used] = array[:used]
    return grown
