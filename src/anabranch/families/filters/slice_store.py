"""The slices that a zone of `compose` keeps, and the windows composed from them.

    slices of a batch --> the open slice of each derived stream --> closed slices, as long as windows need
    them

For the kernels, open slices lie by the slot of their derived stream, and closed ones in one arena, linked
derived stream by derived stream. In the state, so that a batch writes little:

    streams/   derived streams with their open slices, some in each chunk
    slices/    closed slices, which never change, in the order in which they were closed
    layouts    what their words mean

A derived stream has a slot as long as it lives and an id that is never used again. By the id, closed slices
in the state are told from those of a derived stream that was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from anabranch.chain.packets import Packet
from anabranch.chain.state import Arrays, State
from anabranch.families.filters.derived_streams import DerivedStreams, LayoutBook, time_words
from anabranch.families.filters.kernels import compose_windows, cut_slices
from anabranch.families.filters.kernels.compose_windows import (
    BLOCK_WIDTH,
    LEVELS,
    ClosedArrays,
    ComposedWindows,
    SliceBlocks,
    SliceLists,
)
from anabranch.families.filters.kernels.cut_slices import (
    LayoutArrays,
    ShapeArrays,
    SliceRows,
    empty_rows,
    first_rows,
)
from anabranch.families.filters.spec import Aggregate
from anabranch.model.arrays import Array, Ints
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.numeric.slots import Slots, grown

LAYOUTS, STREAMS, CLOSED = "layouts", "streams/", "slices/"
STREAMS_PER_CHUNK, SLICES_PER_CHUNK = 256, 512

#: Of a derived stream in the state.
_STORED = ("id", "key", "passed", "number", "time", "position", "items", "open_layout")
#: Of the open slices, in the order of SliceRows.
_OPEN = ("number", "time", "position", "items", "open_layout", "at")
#: Of a closed slice in the state, in the order of SliceRows.
_CLOSED = ("number", "time", "position", "items", "layout")


class IncomingSlices:
    """The slices that a batch brings to a zone, from all zones of `share`, in the order of the stream:
    `rows`, and in `slots` the derived stream of each.
    """

    def __init__(self, slots: Ints, rows: SliceRows) -> None:
        self.slots, self.rows = slots, rows
        self._sorted: tuple[Ints, Ints, Ints] | None = None

    @staticmethod
    def read(partials: Sequence[Packet], derived: DerivedStreams) -> IncomingSlices:
        if not partials:
            return IncomingSlices(np.empty(0, np.int64), empty_rows(0, 0))
        slots = np.concatenate([_slots(packet, derived) for packet in partials])
        layout = np.concatenate([_layouts(packet, derived) for packet in partials])
        number, time, items = (
            np.concatenate([packet.column(name).to_numpy() for packet in partials])
            for name in ("number", "time", "items")
        )
        words = np.concatenate([packet.column("words").flatten().to_numpy() for packet in partials])
        width = derived.book.arrays.width[layout]
        parts = [number, time, np.zeros(len(number), np.int64), items, layout, np.cumsum(width) - width]
        if (number[1:] < number[:-1]).any():
            order = np.argsort(number, kind="stable")
            parts, slots = [part[order] for part in parts], slots[order]
        return IncomingSlices(slots, SliceRows._make([*parts, words]))

    def items_before(self, slot: int, number: int) -> int:
        """Returns how many items of a derived stream this batch brings before item `number`."""
        if self._sorted is None:
            order = np.argsort(self.slots, kind="stable")
            self._sorted = (self.slots[order], self.rows.number[order], self.rows.items[order])
        slots, numbers, items = self._sorted
        first, stop = np.searchsorted(slots, [slot, slot + 1])
        return int(items[first : first + np.searchsorted(numbers[first:stop], number)].sum())


def _slots(packet: Packet, derived: DerivedStreams) -> Ints:
    column = packet.column("stream")
    # A packet for several zones keeps its dictionary when it is cut up, so some keys may not be from here.
    known = [derived.slot_of.get(key, -1) for key in column.dictionary.to_pylist()]
    slots: Ints = np.array(known, np.int64)[column.indices.to_numpy()]
    assert slots.min() >= 0, "slices of a derived stream that no query of this zone uses"
    return slots


def _layouts(packet: Packet, derived: DerivedStreams) -> Ints:
    sent = packet.column("layout").to_numpy()
    used = np.flatnonzero(np.bincount(sent))  # of others, which went to another zone, nothing is known here
    local = np.full(len(packet.facts["layouts"]), -1, np.int64)
    local[used] = derived.book.from_json(packet.facts["layouts"][number] for number in used)
    numbers: Ints = local[sent]
    return numbers


class ClosedSlices:
    """Rows that are only ever appended, until most are dead; then those that are alive are moved together."""

    def __init__(self) -> None:
        self.rows = empty_rows(0, 0)
        self.streams = np.empty(0, np.int64)  # id of the derived stream of each row
        self.lists = SliceLists(*(np.empty(0, np.int64) for _ in range(3)))
        self.blocks = SliceBlocks(
            np.empty(0, np.int64),
            np.empty((0, BLOCK_WIDTH), np.int64),
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty((0, LEVELS), np.int64),
        )
        self.used = 0
        self.words = 0
        self.dead = 0
        self._blocks_used = 0
        self._block_words = 0
        self._stored = 0  # rows that the state has
        self._chunks = 0

    @property
    def arrays(self) -> ClosedArrays:
        return ClosedArrays(self.rows, self.lists, self.blocks)

    def reserve_lists(self, slots: int) -> None:
        """Makes room for the lists of so many derived streams."""
        more = slots - len(self.lists.first)
        if more > 0:
            none = np.full(max(more, slots), -1, np.int64)
            self.lists = SliceLists(
                np.r_[self.lists.first, none], np.r_[self.lists.last, none], self.lists.next
            )
            begun = np.zeros((len(none), LEVELS), np.int64)
            self.blocks = self.blocks._replace(
                slices=np.r_[self.blocks.slices, np.zeros_like(none)], begun=np.r_[self.blocks.begun, begun]
            )

    def append(self, slots: Ints, ids: Ints, rows: SliceRows, layouts: LayoutArrays) -> None:
        """Adds closed slices of the derived streams `slots`, whose ids are `ids`."""
        first = self.used
        self._append_rows(ids, rows)
        self._link(slots, np.arange(first, self.used), layouts)

    def _link(self, slots: Ints, rows: Ints, layouts: LayoutArrays) -> None:
        """Appends these rows to the lists of their derived streams."""
        done = 0
        while True:
            done, self._blocks_used, self._block_words = compose_windows.link(
                slots, rows, done, self.arrays, layouts, self._blocks_used, self._block_words
            )
            if done == len(rows):
                return
            self._reserve_blocks(LEVELS * int(layouts.width.max()))

    def _reserve_blocks(self, words: int) -> None:
        """Makes room for the blocks that one more row may complete, and at least doubles it."""
        self.blocks = self.blocks._replace(
            rows=grown(self.blocks.rows, 2 * self._blocks_used + 2 * LEVELS, self._blocks_used),
            words=grown(self.blocks.words, 2 * self._block_words + 2 * words, self._block_words),
        )

    def _append_rows(self, ids: Ints, rows: SliceRows) -> None:
        count, words = len(rows.number), len(rows.words)
        self._reserve(self.used + count, self.words + words)
        new = slice(self.used, self.used + count)
        for own, other in zip(self.rows[:-2], rows[:-2], strict=True):
            own[new] = other
        self.rows.at[new] = rows.at + self.words
        self.rows.words[self.words : self.words + words] = rows.words
        self.streams[new] = ids
        self.used, self.words = self.used + count, self.words + words

    def _reserve(self, rows: int, words: int) -> None:
        if rows > len(self.streams):
            room = max(rows, 2 * len(self.streams), 1024)
            parts = [grown(part, room, self.used) for part in self.rows[:-1]]
            self.rows = SliceRows._make([*parts, self.rows.words])
            self.streams = grown(self.streams, room, self.used)
            self.lists = self.lists._replace(next=grown(self.lists.next, room, self.used))
            self.blocks = self.blocks._replace(smallest=grown(self.blocks.smallest, room, self.used))
        if words > len(self.rows.words):
            room = max(words, 2 * len(self.rows.words), 1024)
            self.rows = self.rows._replace(words=grown(self.rows.words, room, self.words))

    def evict(self, slots: Ints, shapes: ShapeArrays) -> None:
        """Lets go of slices of these derived streams that no window to come can need."""
        self.dead += int(compose_windows.evict(slots, shapes, self.arrays))

    def remove(self, slot: int) -> None:
        """Lets go of all slices of a derived stream."""
        self.dead += int(compose_windows.unlink(slot, self.arrays))

    # in the state

    def save(self, state: State, book: LayoutBook, live: Ints, ids: Ints) -> None:
        """Puts what was closed since the last time."""
        if self.dead > self.used // 2:
            self._compact(live, ids, book)
        if self.used > self._stored:
            for chunk in range(self._stored // SLICES_PER_CHUNK, -(-self.used // SLICES_PER_CHUNK)):
                state.put(f"{CLOSED}{chunk:08d}", self._chunk(chunk))
        for chunk in range(-(-self.used // SLICES_PER_CHUNK), self._chunks):
            state.drop(f"{CLOSED}{chunk:08d}")
        self._stored, self._chunks = self.used, -(-self.used // SLICES_PER_CHUNK)

    def _chunk(self, chunk: int) -> dict[str, Array]:
        first, stop = chunk * SLICES_PER_CHUNK, min(self.used, (chunk + 1) * SLICES_PER_CHUNK)
        end = int(self.rows.at[stop]) if stop < self.used else self.words
        arrays = {name: getattr(self.rows, name)[first:stop].copy() for name in _CLOSED}
        words = self.rows.words[int(self.rows.at[first]) : end].copy()
        return {"stream": self.streams[first:stop].copy(), **arrays, "words": words}

    def _compact(self, live: Ints, ids: Ints, book: LayoutBook) -> None:
        """Moves the slices that are alive together."""
        rows, owners = np.empty(self.used, np.int64), np.empty(self.used, np.int64)
        count = compose_windows.list_rows(live, self.lists, rows, owners)
        rows, owners = rows[:count], owners[:count]
        old = self.rows
        widths = book.arrays.width[old.layout[rows]]
        at = np.cumsum(widths) - widths
        words = np.repeat(old.at[rows] - at, widths) + np.arange(int(widths.sum()))
        kept = SliceRows._make([*(part[rows] for part in old[:-2]), at, old.words[words]])
        self.used = self.words = self.dead = self._stored = self._blocks_used = self._block_words = 0
        self.lists.first[:] = -1
        self.lists.last[:] = -1
        self.blocks.slices[:] = 0
        self.append(owners, ids[owners], kept, book.arrays)

    def load(self, state: State, book: LayoutBook, slots: Ints, ids: Ints) -> None:
        """Loads what the state has, given the slots and ids of the derived streams that are alive."""
        for key in state.keys(CLOSED):
            arrays = state.get(key)
            assert arrays is not None
            widths = book.arrays.width[arrays["layout"]]
            columns = [arrays[name] for name in _CLOSED]
            rows = SliceRows._make([*columns, np.cumsum(widths) - widths, arrays["words"]])
            self._append_rows(arrays["stream"], rows)
            self._chunks += 1
        self._stored = self.used
        if not self.used:
            return
        order = np.argsort(ids)
        owners = self.streams[: self.used]
        rank = np.minimum(np.searchsorted(ids[order], owners), max(len(ids) - 1, 0))
        alive = np.flatnonzero(ids[order][rank] == owners) if len(ids) else np.empty(0, np.int64)
        self.dead = self.used - len(alive)
        self._link(slots[order][rank[alive]], alive, book.arrays)


class DueShapes(NamedTuple):
    """Windows to compose: those of each of `shapes` from its next one to the one before `stops`."""

    shapes: Ints
    stops: Ints
    moment: int  # the word of the time of the last item
    ended: bool


class SliceStore:
    """The derived streams of a zone of `compose`, with their open and closed slices."""

    def __init__(self, stream: Stream) -> None:
        self.derived = DerivedStreams(stream)
        self.streams: Slots = self.derived.streams
        self.streams.add_column("id", np.int64, -1)
        for name in _OPEN:  # `open_layout` is the layout of the open slice
            self.streams.add_column(name, np.int64, 0)
        self.words = np.empty(0, np.int64)  # of the open slices
        self.closed = ClosedSlices()
        self.next_id = 0
        self._time_type = np.float64 if stream.time_type is ColumnType.FLOAT else np.int64
        self._fitted = True
        self._touched: set[int] = set()  # chunks of derived streams to put
        self._layouts = 0  # how many of them the state has
        self._windows = 1  # room for so many windows of a batch, as far as seen

    # queries

    def add(self, key: int, spec: Aggregate) -> int:
        """Adds a query; returns the slot of its derived stream and creates it if this is its first query."""
        known = key in self.derived.slot_of
        slot = self.derived.add(key, spec)
        if not known:
            self.streams["id"][slot] = self.next_id
            self.next_id += 1
        self._touched.add(slot // STREAMS_PER_CHUNK)
        self._fitted = False
        return slot

    def remove(self, slot: int, spec: Aggregate) -> None:
        """Removes a query, and its derived stream with the last one."""
        self._touched.add(slot // STREAMS_PER_CHUNK)
        if self.derived.remove(slot, spec):
            self.closed.remove(slot)
        self._fitted = False

    # a batch

    def append(self, incoming: IncomingSlices) -> None:
        """Adds the slices of a batch to the open ones, and moves those that reach an edge to the closed."""
        self._fit()
        slots, count = incoming.slots, len(incoming.slots)
        if not count:
            return
        streams, layouts = self.derived.stream_arrays(), self.derived.book.arrays
        out = empty_rows(count, int(layouts.width[streams.layout[slots]].sum()))
        owners = np.empty(count, np.int64)
        shapes, order = self.derived.shape_arrays(), np.arange(count)
        rows, words = cut_slices.cut(
            slots, order, incoming.rows, layouts, shapes, streams, self._open(), out, owners
        )
        if rows:
            owners = owners[:rows]
            self.closed.append(owners, self.streams["id"][owners], first_rows(out, rows, words), layouts)
        self._touched.update((np.flatnonzero(np.bincount(slots)) // STREAMS_PER_CHUNK).tolist())

    def _open(self) -> SliceRows:
        """The open slices, by the slot of their derived stream."""
        return SliceRows._make([*(self.streams[name] for name in _OPEN), self.words])

    def _fit(self) -> None:
        """Brings the open slices into the layouts that their derived streams have now."""
        if self._fitted:
            return
        streams, layouts = self.streams, self.derived.book.arrays
        changed = np.flatnonzero(streams["open_layout"] != streams["layout"])
        self._touched.update(np.unique(changed // STREAMS_PER_CHUNK).tolist())
        width = layouts.width[streams["layout"]]
        at = np.cumsum(width) - width
        words = np.empty(int(width.sum()), np.int64)
        cut_slices.refit(self._open(), layouts, streams["layout"], at, words)
        self.words = words
        streams["at"][:] = at
        streams["open_layout"][:] = streams["layout"]
        self.closed.reserve_lists(streams.size)
        self._fitted = True

    def due(self, last: Time | None, ended: bool) -> DueShapes:
        """Returns the windows that are full at the time of the last item or, at the end of the stream, have
        begun.
        """
        shapes, streams = self.derived.shape_arrays(), self.derived.stream_arrays()
        moment, live = self._time_word(last), self.derived.shapes.live
        due, stops = np.empty(len(live), np.int64), np.empty(len(live), np.int64)
        count = compose_windows.due_shapes(live, moment, ended, shapes, streams, due, stops)
        return DueShapes(due[:count], stops[:count], moment, ended)

    def count(self, shape: int, first: int, stop: int) -> int:
        """Returns how many of the windows first <= k < stop of a shape have items; none is composed."""
        shapes = self.derived.shape_arrays()
        return int(
            compose_windows.count_windows(shape, first, stop, shapes, self._open(), self.closed.arrays)
        )

    def compose(self, due: DueShapes) -> ComposedWindows:
        if not len(due.shapes):
            return _empty_composed(0, 0)
        shapes, streams = self.derived.shape_arrays(), self.derived.stream_arrays()
        layouts = self.derived.book.arrays
        widest = int(layouts.width.max())
        which, stops = due.shapes, due.stops
        given = (due.moment, due.ended, shapes, layouts, streams, self._open(), self.closed.arrays)
        out = _empty_composed(self._windows, self._windows * widest)
        at, k, count, words = compose_windows.compose(which, stops, 0, 0, *given, out, 0, 0)
        while at < len(which):
            out = _grown_composed(out, count, words, words + widest * (count + 64))
            at, k, count, words = compose_windows.compose(which, stops, at, k, *given, out, count, words)
        self._windows = count + count // 4 + 1
        return ComposedWindows._make([*(part[:count] for part in out[:-1]), out.words[:words]])

    def _time_word(self, time: Time | None) -> int:
        return int(time_words(np.array([time or 0], self._time_type))[0])

    def evict(self) -> None:
        """Lets go of the slices that no window to come can need."""
        self._fit()
        self.closed.evict(self.streams.live, self.derived.shape_arrays())

    # in the state

    def save(self, state: State) -> None:
        book = self.derived.book
        if len(book.entries) > self._layouts:
            state.put_json(LAYOUTS, book.to_json(range(len(book.entries))))
            self._layouts = len(book.entries)
        for chunk in sorted(self._touched):
            self._put_streams(state, chunk)
        self._touched = set()
        self.closed.save(state, book, self.streams.live, self.streams["id"])

    def _put_streams(self, state: State, chunk: int) -> None:
        streams, key = self.streams, f"{STREAMS}{chunk:08d}"
        live = streams.live
        slots = live[live // STREAMS_PER_CHUNK == chunk]
        if not len(slots):
            state.drop(key)
            return
        width = self.derived.book.arrays.width[streams["open_layout"][slots]]
        begin = np.cumsum(width) - width
        words = np.repeat(streams["at"][slots] - begin, width) + np.arange(int(width.sum()))
        arrays = {name: streams[name][slots] for name in _STORED}
        state.put(key, {"slot": slots, **arrays, "words": self.words[words]})

    @staticmethod
    def drop(state: State) -> None:
        for key in (LAYOUTS, *state.keys(STREAMS), *state.keys(CLOSED)):
            state.drop(key)

    def load_open(self, state: State) -> dict[int, int]:
        """Loads derived streams and their open slices; returns the slot of each id.

        Their queries come next, and then `load_closed`.
        """
        self.derived.book.from_json(state.get_json(LAYOUTS) or [])
        self._layouts = len(self.derived.book.entries)
        chunks = [chunk for chunk in map(state.get, state.keys(STREAMS)) if chunk]
        if not chunks:
            return {}
        joined = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        slots = joined["slot"]
        self.streams.restore(slots)
        for name in _STORED:
            self.streams[name][slots] = joined[name]
        width = self.derived.book.arrays.width[joined["open_layout"]]
        self.streams["at"][slots] = np.cumsum(width) - width
        self.words = joined["words"]
        return dict(zip(joined["id"].tolist(), slots.tolist(), strict=True))

    def load_closed(self, state: State, last: Time | None) -> None:
        """Loads closed slices. The next windows are those that were not full at the time `last`."""
        self._fitted = False
        self._fit()
        live: Ints = self.streams.live
        self.closed.load(state, self.derived.book, live, self.streams["id"][live])
        shapes, streams = self.derived.shape_arrays(), self.derived.stream_arrays()
        is_known = last is not None
        compose_windows.settle(self.derived.shapes.live, shapes, streams, self._time_word(last), is_known)
        self._touched = set()


def _grown_composed(old: ComposedWindows, count: int, words: int, room: int) -> ComposedWindows:
    """More room for windows, some of which are there already; `room` for words."""
    parts = [grown(part, 2 * count + 64, count) for part in old[:-1]]
    return ComposedWindows._make([*parts, grown(old.words, room, words)])


def _empty_composed(count: int, words: int) -> ComposedWindows:
    return ComposedWindows._make([*(np.empty(count, np.int64) for _ in range(5)), np.empty(words, np.int64)])


# another number of zones


def rezone_slices(
    stream: Stream, before: Sequence[State], state: State, is_own: Callable[[int], bool]
) -> int:
    """Puts the derived streams with keys that are the new zone's into its state, with their slices, from the
    states of all old zones. Returns the id of the next derived stream.

    Every old zone has ids, slots and layouts of its own. The id i of old zone z becomes i * zones + z.
    """
    book, next_id = LayoutBook(stream), 0
    book.lifted(())  # the first of every zone
    streams: list[Arrays] = []
    closed: list[Arrays] = []
    for zone, old in enumerate(before):
        layouts = np.array(book.from_json(old.get_json(LAYOUTS) or []), np.int64)
        here = _joined_chunks(old, STREAMS)
        if here is None:
            continue
        own = np.array([is_own(key) for key in here["key"].tolist()], np.bool_)
        ids = here["id"][own]
        streams.append(_chosen(book, layouts, here, own, ("key", *_STORED), "open_layout"))
        slices = _joined_chunks(old, CLOSED)
        if slices is not None:
            mine = np.isin(slices["stream"], ids)
            closed.append(_chosen(book, layouts, slices, mine, ("stream", *_CLOSED), "layout"))
            closed[-1]["stream"] = closed[-1]["stream"] * len(before) + zone
        streams[-1]["id"] = streams[-1]["id"] * len(before) + zone
        next_id = max(next_id, (int(here["id"].max()) + 1) * len(before))
    if streams and any(len(part["id"]) for part in streams):
        state.put_json(LAYOUTS, book.to_json(range(len(book.entries))))
        _put_chunks(state, STREAMS, STREAMS_PER_CHUNK, book, streams, "open_layout", with_slots=True)
        _put_chunks(state, CLOSED, SLICES_PER_CHUNK, book, closed, "layout")
    return next_id


def _joined_chunks(state: State, prefix: str) -> Arrays | None:
    chunks = [chunk for chunk in map(state.get, state.keys(prefix)) if chunk]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]} if chunks else None


def _chosen(
    book: LayoutBook, layouts: Ints, arrays: Arrays, rows: Array, names: Sequence[str], layout: str
) -> Arrays:
    """Some rows of chunks, with the numbers that their layouts have in `book`."""
    numbers = layouts[arrays[layout]]
    width = book.arrays.width[numbers]
    words = arrays["words"][np.repeat(rows, width)]
    return {name: arrays[name][rows] for name in names} | {layout: numbers[rows], "words": words}


def _put_chunks(
    state: State,
    prefix: str,
    size: int,
    book: LayoutBook,
    parts: list[Arrays],
    layout: str,
    with_slots: bool = False,
) -> None:
    """Puts rows into chunks of so many."""
    if not parts:
        return
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    count, words = len(joined[layout]), joined.pop("words")
    if with_slots:
        joined["slot"] = np.arange(count)
    ends = np.r_[0, np.cumsum(book.arrays.width[joined[layout]])]
    for first in range(0, count, size):
        stop = min(first + size, count)
        chunk = {name: column[first:stop].copy() for name, column in joined.items()}
        state.put(f"{prefix}{first // size:08d}", chunk | {"words": words[ends[first] : ends[stop]].copy()})
