"""The derived streams that aggregates are computed on: one per distinct condition, for all queries on it.

Both stages keep them: `share` to cut slices, `compose` to compose windows. For the kernels, a derived stream
has a layout (the union of what its queries need) and the shapes of the windows on it (each once).

A layout says what the words of a slice mean (kernels/cut_slices.py). It has tracks, which are operations on
columns. What an aggregation needs:

    count(*)   nothing, slices count their items        min(c)   COUNT c, MIN c        sum(c)   COUNT c, SUM c
    count(c)   COUNT c                                  max(c)   COUNT c, MAX c        avg(c)   COUNT c, SUM c
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from anabranch.chain.windows import in_stream_units
from anabranch.families.filters.kernels import cut_slices, exact_sums
from anabranch.families.filters.spec import Aggregate, Aggregation, Function
from anabranch.model.arrays import Array, Ints
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.model.window import Window
from anabranch.numeric.slots import Slots
from anabranch.numeric.window_edges import NEVER
from anabranch.predicates.conjunction import Normal

#: So many lists of aggregations are remembered with what they need.
KNOWN = 10_000

_LEAST, _MOST = -(2**63), np.int64(2**63 - 1)


@lru_cache(maxsize=65536)
def stream_key(normal: Normal) -> int:
    """Names a derived stream, in every zone and process alike: 63 bits of a hash of its condition."""
    return int.from_bytes(blake2b(repr(normal).encode(), digest_size=8).digest(), "little") >> 1


def float_words(values: Array) -> Ints:
    """Floats as int64 words in the same order (kernels/cut_slices.py)."""
    bits = values.view(np.int64)
    return np.where(bits >= 0, bits, bits ^ _MOST)


def time_words(times: Array) -> Ints:
    """Times as int64 words in the same order: integers as they are, floats with one word for both zeros."""
    return float_words(times + 0.0) if times.dtype == np.float64 else times


# layouts

#: (operation, index of the column in the stream)
Track = tuple[int, int]

_WIDTHS = {cut_slices.SUM_INT: exact_sums.INT_WORDS, cut_slices.SUM_FLOAT: exact_sums.FLOAT_WORDS}


def tracks_of(aggregation: Aggregation, stream: Stream) -> list[Track]:
    """Returns what an aggregation needs."""
    if aggregation.column is None:
        return []
    column = column_index(stream, aggregation.column)
    count = (cut_slices.COUNT, column)
    match aggregation.function:
        case Function.COUNT:
            return [count]
        case Function.MIN:
            return [count, (cut_slices.MIN, column)]
        case Function.MAX:
            return [count, (cut_slices.MAX, column)]
        case Function.SUM | Function.AVG:
            of_floats = stream.columns[column].type is ColumnType.FLOAT
            return [count, (cut_slices.SUM_FLOAT if of_floats else cut_slices.SUM_INT, column)]


def column_index(stream: Stream, name: str) -> int:
    return next(index for index, column in enumerate(stream.columns) if column.name == name)


class LayoutBook:
    """Gives layouts numbers. They are few: sets of tracks that the queries on a derived stream need."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.entries: list[tuple[bool, tuple[Track, ...]]] = []  # raw or not, its tracks
        self._numbers: dict[tuple[bool, tuple[Track, ...]], int] = {}
        self._arrays: cut_slices.LayoutArrays | None = None

    def lifted(self, tracks: Iterable[Track]) -> int:
        return self._number(False, tuple(sorted(set(tracks))))

    def raw(self, columns: Iterable[int]) -> int:
        return self._number(True, tuple((cut_slices.RAW, column) for column in sorted(set(columns))))

    def _number(self, raw: bool, tracks: tuple[Track, ...]) -> int:
        number = self._numbers.get((raw, tracks))
        if number is None:
            number = self._numbers[raw, tracks] = len(self.entries)
            self.entries.append((raw, tracks))
            self._arrays = None
        return number

    def width(self, number: int) -> int:
        return int(self.arrays.width[number])

    @property
    def arrays(self) -> cut_slices.LayoutArrays:
        """All layouts, for the kernels."""
        if self._arrays is None:
            self._arrays = self._build_arrays()
        return self._arrays

    def _build_arrays(self) -> cut_slices.LayoutArrays:
        first, operations, columns, offsets, widths, masks = [0], [], [], [], [], []
        shape = (len(self.entries), cut_slices.OPERATIONS, len(self.stream.columns))
        where = np.full(shape, -1, np.int64)
        for number, (raw, tracks) in enumerate(self.entries):
            masks.append(max(1, -(-len(tracks) // 64)) if raw else 0)
            offset = 0
            for operation, column in tracks:
                operations.append(operation)
                columns.append(column)
                offsets.append(offset)
                where[number, operation, column] = offset
                offset += _WIDTHS.get(operation, 1)
            first.append(len(operations))
            widths.append(offset + masks[-1])
        integers = [np.array(part, np.int64) for part in (first, operations, columns, offsets, widths, masks)]
        are_raw = np.array([is_raw for is_raw, _ in self.entries])[:, None]
        operation_there = np.where(are_raw, cut_slices.RAW, integers[1])
        source = where[np.arange(len(are_raw))[:, None], operation_there, integers[2]]
        return cut_slices.LayoutArrays._make([*integers, where, source])

    # on their way to another stage, and in the state

    def to_json(self, numbers: Iterable[int]) -> list[Any]:
        """With columns by name: computed columns have other indexes elsewhere."""
        names = [column.name for column in self.stream.columns]
        return [
            [raw, [[op, names[column]] for op, column in tracks]]
            for raw, tracks in (self.entries[n] for n in numbers)
        ]

    def from_json(self, layouts: Iterable[Any]) -> list[int]:
        """Returns the numbers that these layouts have here."""
        indexes = {column.name: index for index, column in enumerate(self.stream.columns)}
        return [
            self._number(raw, tuple((op, indexes[name]) for op, name in tracks)) for raw, tracks in layouts
        ]


# derived streams and the windows on them


@dataclass(frozen=True)
class WindowShape:
    """A window without its base. Positions, and times of integer streams, are counted in integers."""

    axis: int
    size: Time
    step: Time

    @staticmethod
    def of(window: Window, stream: Stream) -> WindowShape:
        exact = in_stream_units(window, stream)
        if isinstance(exact.size, int):  # what is longer than any stream is as long as can be counted
            size, step = min(exact.size, int(_MOST)), min(exact.step, int(_MOST))
            return WindowShape(cut_slices.ROW if exact.by_rows else cut_slices.TIME, size, step)
        is_float = stream.time_type is ColumnType.FLOAT
        axis = cut_slices.FLOAT_TIME if is_float else cut_slices.FRACTION
        return WindowShape(axis, exact.size, exact.step)

    @property
    def is_float(self) -> bool:
        return self.axis in (cut_slices.FLOAT_TIME, cut_slices.FRACTION)


@dataclass
class _Members:
    """The queries on one derived stream, as counts of what they need."""

    key: int
    tracks: Counter[Track] = field(default_factory=Counter)
    queries: int = 0


class DerivedStreams:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.book = LayoutBook(stream)
        self.origin: Time | None = None
        self.slot_of: dict[int, int] = {}  # key -> slot
        self.members: dict[int, _Members] = {}  # slot -> its queries
        self._columns: Counter[int] = Counter()
        self._known_tracks: dict[tuple[Aggregation, ...], set[Track]] = {}
        integer, real = np.int64, np.float64
        self.streams = Slots(
            key=(integer, 0),
            by_rows=(integer, 0),  # how many of its queries have windows in rows
            layout=(integer, self.book.lifted(())),
            raw=(integer, 0),  # the layout of its items as they come
            passed=(integer, 0),
            edge=(integer, _LEAST),
            edge_float=(real, -np.inf),
            edge_row=(integer, _LEAST),
        )
        self.shapes = Slots(
            axis=(integer, cut_slices.TIME),
            stream=(integer, -1),
            base=(integer, 0),
            size=(integer, 1),
            step=(integer, 1),
            base_float=(real, 0.0),
            size_float=(real, 1.0),
            step_float=(real, 1.0),
            windows=(integer, NEVER),
            next=(integer, 0),
            edge=(integer, _LEAST),
            users=(integer, 0),
        )
        self._shape_slots: dict[
            tuple[int, WindowShape, int], int
        ] = {}  # (derived stream, shape, base of ROWS)
        self._shape_lists: tuple[Ints, Ints] | None = None

    # derived streams

    def add(self, key: int, spec: Aggregate, restored: int | None = None) -> int:
        """Adds a query; returns the slot of its derived stream and creates it if this is its first query.
        `restored` is the slot that it had before.
        """
        slot = self.slot_of.get(key)
        if slot is None:
            slot = self.streams.take() if restored is None else restored
            self.slot_of[key] = slot
            self.streams["key"][slot] = key
            self.members[slot] = _Members(key)
            self._shape_lists = None
        members = self.members[slot]
        members.queries += 1
        self.streams["by_rows"][slot] += spec.window.by_rows
        tracks = self._tracks(spec)
        members.tracks.update(tracks)
        self._columns.update(column for _, column in tracks)
        self._refit(slot)
        return slot

    def remove(self, slot: int, spec: Aggregate) -> bool:
        """Removes a query; returns whether it was the last one, and the derived stream is removed, too."""
        members = self.members[slot]
        members.queries -= 1
        self.streams["by_rows"][slot] -= spec.window.by_rows
        tracks = self._tracks(spec)
        members.tracks.subtract(tracks)
        self._columns.subtract(column for _, column in tracks)
        if members.queries:
            self._refit(slot)
            return False
        del self.members[slot], self.slot_of[members.key]
        self.streams.give_back(slot)
        self._shape_lists = None
        return True

    @property
    def columns(self) -> list[int]:
        """The columns that any aggregate on any derived stream needs, by their index in the stream."""
        return sorted(column for column, users in self._columns.items() if users > 0)

    def _tracks(self, spec: Aggregate) -> set[Track]:
        """Returns what a query needs; many need the same."""
        tracks = self._known_tracks.get(spec.aggregations)
        if tracks is None:
            tracks = {track for one in spec.aggregations for track in tracks_of(one, self.stream)}
            if len(self._known_tracks) >= KNOWN:
                self._known_tracks.clear()
            self._known_tracks[spec.aggregations] = tracks
        return tracks

    def _refit(self, slot: int) -> None:
        tracks = [track for track, users in self.members[slot].tracks.items() if users > 0]
        self.streams["layout"][slot] = self.book.lifted(tracks)
        if self.streams["by_rows"][slot]:
            self.streams["raw"][slot] = self.book.raw(column for _, column in tracks)

    # shapes of windows

    def add_shape(self, stream: int, shape: WindowShape, base: int = 0) -> int:
        """Adds a user of a shape on a derived stream; returns the shape's slot and creates it for the first.
        `base` is for ROWS; other windows begin at the origin.
        """
        name = (stream, shape, base if shape.axis == cut_slices.ROW else 0)
        slot = self._shape_slots.get(name)
        if slot is None:
            slot = self._shape_slots[name] = self.shapes.take(stream=stream, axis=shape.axis)
            self._set_shape(slot, shape, base)
            self._shape_lists = None
            for edge in ("edge", "edge_row"):  # the open slice must not reach over an edge that is new
                self.streams[edge][stream] = _LEAST
            self.streams["edge_float"][stream] = -np.inf
        self.shapes["users"][slot] += 1
        return slot

    def remove_shape(self, slot: int, shape: WindowShape) -> None:
        """Removes a user of a shape, and the shape with its last user."""
        self.shapes["users"][slot] -= 1
        if not self.shapes["users"][slot]:
            base = int(self.shapes["base"][slot]) if shape.axis == cut_slices.ROW else 0
            del self._shape_slots[int(self.shapes["stream"][slot]), shape, base]
            self.shapes.give_back(slot)
            self._shape_lists = None

    def _set_shape(self, slot: int, shape: WindowShape, base: int) -> None:
        kind = "_float" if shape.is_float else ""
        self.shapes[f"size{kind}"][slot] = shape.size
        self.shapes[f"step{kind}"][slot] = shape.step
        if shape.axis == cut_slices.ROW:
            self.shapes["base"][slot] = base
            self._count_windows(np.array([slot]), base)
        elif self.origin is not None:
            self._set_base(np.array([slot]))

    def set_origin(self, origin: Time | None) -> None:
        """Says where windows in time begin, as soon as the stream has an item."""
        if self.origin is None and origin is not None:
            self.origin = origin
            live = self.shapes.live
            self._set_base(live[self.shapes["axis"][live] != cut_slices.ROW])

    def _set_base(self, slots: Ints) -> None:
        assert self.origin is not None
        in_integers = self.shapes["axis"][slots] == cut_slices.TIME
        integers = slots[in_integers]
        if len(integers):
            self.shapes["base"][integers] = self.origin
            self._count_windows(integers, int(self.origin))
        self.shapes["base_float"][slots[~in_integers]] = self.origin

    def _count_windows(self, slots: Ints, base: int) -> None:
        """Counts the windows of integers: one that begins after the last int64 does not exist."""
        room = np.uint64(int(_MOST) - base)
        last = room // self.shapes["step"][slots].astype(np.uint64)
        self.shapes["windows"][slots] = np.minimum(last, np.uint64(NEVER - 1)) + np.uint64(1)

    # for the kernels

    def stream_arrays(self) -> cut_slices.StreamArrays:
        return cut_slices.StreamArrays(*(self.streams[name] for name in cut_slices.StreamArrays._fields))

    def shape_arrays(self) -> cut_slices.ShapeArrays:
        own = [
            self.shapes[name] for name in cut_slices.ShapeArrays._fields if name not in ("first", "listed")
        ]
        return cut_slices.ShapeArrays._make([*own, *self._lists()])

    def _lists(self) -> tuple[Ints, Ints]:
        """CSR derived stream and axis -> shapes, by their edges: what is sorted is a heap."""
        if self._shape_lists is None:
            live = self.shapes.live
            owners = cut_slices.AXES * self.shapes["stream"][live] + self.shapes["axis"][live]
            order = np.lexsort((self.shapes["edge"][live], owners))
            first = np.searchsorted(owners[order], np.arange(cut_slices.AXES * self.streams.size + 1))
            self._shape_lists = (first.astype(np.int64), live[order])
        return self._shape_lists
