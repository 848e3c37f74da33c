"""A query of a group and its windows: which comes next, when it is complete, where it lies among the points.

Windows are numbered from 0 here. ROWS windows are complete with their last item. RANGE windows are complete
when time reaches their end. Only an item can bring that about, whether the query sees it or not, or the
moment of the query's cancellation. So whether a window comes out never depends on how the stream is cut into
batches, also where control and lateness meet:

    lateness 2, items at 5 and 10, RANGE 4 STEP 4, cancel = 7     windows [5, 9) ... progress has reached 8
    when 10 has been seen and waits; the window that ends at 9 is not complete at 7, and never comes out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.chain import control
from anabranch.families.clusters.spec import Clusters
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.model.window import AtEnd, Window

#: The index of the next window while the first one is not known, because the stream has no item yet.
UNKNOWN = -1


def exact(window: Window, stream: Stream) -> Window:
    """The window in the numbers of its axis: integers for rows, microseconds, whole units of integer time."""
    size, step = float(window.size), float(window.step)
    if window.by_rows or (stream.time_type is ColumnType.INT and size.is_integer() and step.is_integer()):
        return Window(window.unit, int(window.size), int(window.step), window.at_end)
    if stream.time_type is ColumnType.TIMESTAMP:
        return Window(window.unit, round(window.size), round(window.step), window.at_end)
    return Window(window.unit, size, step, window.at_end)


def exact_spec(stream: Stream, spec: dict[str, Any]) -> Clusters:
    """A spec with its window in the numbers of its axis."""
    bound = Clusters.from_json(spec)
    return replace(bound, window=exact(bound.window, stream))


def edge_columns(window: Window, stream: Stream) -> tuple[str, str, ColumnType]:
    """The columns of the result tables for the start and the end of such windows, and their type."""
    if window.by_rows:
        return "row_start", "row_end", ColumnType.INT
    assert stream.time_type is not None
    if stream.time_type is ColumnType.INT and isinstance(exact(window, stream).size, float):
        return "window_start_float", "window_end_float", ColumnType.FLOAT
    return "window_start", "window_end", stream.time_type


@dataclass
class GroupQuery:
    """A query of a group and how far it has got."""

    number: int
    name: str
    spec: Clusters
    activate: Time | None
    first_position: int  # of the first point that it sees
    window_index: int = UNKNOWN  # of its next window
    next_cluster: int = 1  # the number of its next new cluster, for EMIT CHANGES

    def __post_init__(self) -> None:
        if self.spec.window.by_rows or self.activate is None:
            self.window_index = max(self.window_index, 0)

    @property
    def progress(self) -> list[int]:
        return [self.number, self.first_position, self.window_index, self.next_cluster]

    def set_origin(self, origin: Time) -> None:
        """Finds the first window after the query's activation, once the stream's first item is known."""
        if self.window_index == UNKNOWN:
            assert self.activate is not None
            self.window_index = 0
            if self.activate >= origin:
                self.window_index = _first_above(self.activate, origin, self.spec.window.step)

    def edges(self, origin: Time | None) -> tuple[Time, Time]:
        """(start, end) of the next window: times, or rows from 0 at activation."""
        window = self.spec.window
        if window.by_rows:
            start = self.window_index * window.step
        else:
            assert origin is not None
            start = origin + self.window_index * window.step
        return start, start + window.size

    def skip_to(self, time: Time, origin: Time) -> None:
        """Goes on to the first window that ends after `time`; for windows that are known to hold nothing."""
        window = self.spec.window
        index = _first_above(time - window.size, origin, window.step)
        # the end of a window is (origin + index * step) + size: this corrects the rounding above
        while index > self.window_index and _end(origin, index - 1, window.step, window.size) > time:
            index -= 1
        while _end(origin, index, window.step, window.size) <= time:
            index += 1
        self.window_index = max(self.window_index, index)

    def windows_at_end(self, stop: int) -> int | None:
        """How many windows that are not full come out when the stream ends before the point at position
        `stop`; None: all that hold an item. Where a window of rows ended there, nothing remains to gather.
        """
        window = self.spec.window
        ended = self.first_position + (self.window_index - 1) * int(window.step) + int(window.size)
        if window.end is AtEnd.GATHER and window.by_rows and self.window_index and ended == stop:
            return 0
        return {AtEnd.CUT: 0, AtEnd.GATHER: 1, AtEnd.RUN: None}[window.end]


def with_progress(
    stream: Stream, queries: Sequence[control.Query], progress: Sequence[Sequence[int]]
) -> list[GroupQuery]:
    """Returns queries as far as they have got (`GroupQuery.progress`), in the order of `queries`."""
    of = {number: rest for number, *rest in progress}
    return [
        GroupQuery(
            query.number, query.name, exact_spec(stream, query.spec), query.activate, *of[query.number]
        )
        for query in queries
    ]


def _end(origin: Time, index: int, step: Time, size: Time) -> Time:
    return (origin + index * step) + size


def _first_above(time: Time, origin: Time, step: Time) -> int:
    """The least index >= 0 with origin + index * step > time."""
    index = max(0, int((time - origin) // step))
    while index > 0 and origin + (index - 1) * step > time:
        index -= 1
    while origin + index * step <= time:
        index += 1
    return index
