"""The derived streams that aggregates are computed on: one for each distinct condition, whatever the number
of queries on it.

In: queries that begin and end. Out: for the kernels, the layout of each derived stream (the union of what its
queries need) and the shapes of the windows on it (each once). Both stages keep them: `share` to cut slices,
`compose` to compose windows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from anabranch.families.filters.layouts import LayoutBook, Track, tracks_of
from anabranch.families.filters.slots import Slots
from anabranch.families.filters.spec import Aggregate, Aggregation
from anabranch.kernels import slices
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.model.window import Window
from anabranch.zones.columns import Array

#: So many lists of aggregations are remembered with what they need.
KNOWN = 10_000

_LEAST = -(2**63)


@dataclass(frozen=True)
class Shape:
    """A window without its base. Positions, and times of integer streams, are counted in integers."""

    axis: int
    size: Time
    step: Time

    @staticmethod
    def of(window: Window, stream: Stream) -> Shape:
        if window.by_rows:
            return Shape(slices.ROW, int(window.size), int(window.step))
        if stream.time_type is ColumnType.TIMESTAMP:  # whole microseconds
            return Shape(slices.TIME, round(window.size), round(window.step))
        whole = float(window.size).is_integer() and float(window.step).is_integer()
        if stream.time_type is ColumnType.INT and whole:
            return Shape(slices.TIME, int(window.size), int(window.step))
        return Shape(slices.FLOAT_TIME, float(window.size), float(window.step))


@dataclass
class _Members:
    """The queries on one derived stream, as counts of what they ask for."""

    key: int
    tracks: Counter[Track] = field(default_factory=Counter)
    queries: int = 0


class DerivedStreams:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.book = LayoutBook(stream)
        self.time_type = np.dtype(np.float64 if stream.time_type is ColumnType.FLOAT else np.int64)
        self.origin: Time | None = None
        self.slot_of: dict[int, int] = {}  # key -> slot
        self.members: dict[int, _Members] = {}  # slot -> its queries
        self._columns: Counter[int] = Counter()
        self._known_tracks: dict[tuple[Aggregation, ...], set[Track]] = {}
        integer, real = np.int64, np.float64
        self.streams = Slots(
            key=(integer, 0),
            by_rows=(integer, 0),
            layout=(integer, self.book.lifted(())),
            raw=(integer, 0),  # the layout of its items as they come
            passed=(integer, 0),
            edge=(integer, _LEAST),
            edge_float=(real, -np.inf),
            edge_row=(integer, _LEAST),
        )
        self.shapes = Slots(
            axis=(integer, slices.TIME),
            stream=(integer, -1),
            base=(integer, 0),
            size=(integer, 1),
            step=(integer, 1),
            base_float=(real, 0.0),
            size_float=(real, 1.0),
            step_float=(real, 1.0),
            next=(integer, 0),
            edge=(integer, _LEAST),
            edge_float=(real, -np.inf),
            users=(integer, 0),
        )
        self._shape_slots: dict[
            tuple[int, Shape, int], int
        ] = {}  # (slot, shape, base of ROWS) -> place in shapes
        self._shape_lists: tuple[Array, Array] | None = None

    # derived streams

    def enter(self, key: int, spec: Aggregate, restored: int | None = None) -> int:
        """The slot of the derived stream of a query that begins, or the slot that it has had already."""
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

    def leave(self, slot: int, spec: Aggregate) -> bool:
        """A query ends; out: whether the derived stream dies with it."""
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
        """The columns that any aggregate on any derived stream needs, by their place in the stream."""
        return sorted(column for column, users in self._columns.items() if users > 0)

    def _tracks(self, spec: Aggregate) -> set[Track]:
        """What a query asks for; many ask for the same."""
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

    def enter_shape(self, slot: int, shape: Shape, base: int = 0) -> int:
        """The place of a shape on a derived stream. `base` is for ROWS; others begin at the origin."""
        name = (slot, shape, base if shape.axis == slices.ROW else 0)
        place = self._shape_slots.get(name)
        if place is None:
            place = self._shape_slots[name] = self.shapes.take(stream=slot, axis=shape.axis)
            self._place(place, shape, base)
            self._shape_lists = None
            for edge in ("edge", "edge_row"):  # the open slice must not reach over an edge that is new
                self.streams[edge][slot] = _LEAST
            self.streams["edge_float"][slot] = -np.inf
        self.shapes["users"][place] += 1
        return place

    def leave_shape(self, place: int, shape: Shape) -> None:
        self.shapes["users"][place] -= 1
        if not self.shapes["users"][place]:
            base = int(self.shapes["base"][place]) if shape.axis == slices.ROW else 0
            del self._shape_slots[int(self.shapes["stream"][place]), shape, base]
            self.shapes.give_back(place)
            self._shape_lists = None

    def _place(self, place: int, shape: Shape, base: int) -> None:
        if shape.axis == slices.FLOAT_TIME:
            self.shapes["size_float"][place] = shape.size
            self.shapes["step_float"][place] = shape.step
        else:
            self.shapes["size"][place] = shape.size
            self.shapes["step"][place] = shape.step
        if shape.axis == slices.ROW:
            self.shapes["base"][place] = base
        elif self.origin is not None:
            self._anchor(np.array([place]))

    def begin_at(self, origin: Time | None) -> None:
        """Tells where windows in time begin, as soon as the stream has an item."""
        if self.origin is None and origin is not None:
            self.origin = origin
            self._anchor(np.flatnonzero(self.shapes["axis"] != slices.ROW))

    def _anchor(self, places: Array) -> None:
        assert self.origin is not None
        floats = self.shapes["axis"][places] == slices.FLOAT_TIME
        self.shapes["base_float"][places[floats]] = self.origin
        self.shapes["base"][places[~floats]] = self.origin

    # for the kernels

    def stream_arrays(self) -> slices.Streams:
        return slices.Streams(*(self.streams[name] for name in slices.Streams._fields))

    def shape_arrays(self) -> slices.Shapes:
        own = [self.shapes[name] for name in slices.Shapes._fields if name not in ("first", "listed")]
        return slices.Shapes._make([*own, *self._lists()])

    def _lists(self) -> tuple[Array, Array]:
        """CSR derived stream -> shapes."""
        if self._shape_lists is None:
            live = self.shapes.live
            owners = self.shapes["stream"][live]
            order = np.argsort(owners, kind="stable")
            first = np.searchsorted(owners[order], np.arange(self.streams.size + 1))
            self._shape_lists = (first.astype(np.int64), live[order])
        return self._shape_lists
