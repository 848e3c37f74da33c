"""Windows of a standing query: which comes next, when it is complete, where it lies among the points.

In: a query's window, the positions and times of points. Out: edges of windows, in rows or in time. Never: a
look at coordinates.

Windows are numbered from 0 here (window j of semantics.md is j - 1). ROWS windows are complete with their
last item. RANGE windows are complete when time reaches their end, which only an item can bring about: an item
at or after the end, whether the query takes it or not, or the moment of the query's cancellation. So whether
a window comes out never depends on how the stream is cut into batches, also where control and lateness meet:

    lateness 2, items at 5 and 10, RANGE 4 STEP 4, cancel = 7     windows [5, 9) ... progress has reached 8
    when 10 has been seen and waits; the window that ends at 9 is not complete at 7, and never comes out
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.families.clusters.spec import Clusters
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.model.window import AtEnd, Window

#: The index of a query whose first window is not known, because the stream's first item has not come.
UNKNOWN = -1


def exact(window: Window, stream: Stream) -> Window:
    """The window in the numbers of its axis: integers for rows, microseconds, whole units of integer time."""
    size, step = float(window.size), float(window.step)
    if window.by_rows or (stream.time_type is ColumnType.INT and size.is_integer() and step.is_integer()):
        return Window(window.unit, int(window.size), int(window.step), window.at_end)
    if stream.time_type is ColumnType.TIMESTAMP:
        return Window(window.unit, round(window.size), round(window.step), window.at_end)
    return Window(window.unit, size, step, window.at_end)


def edge_columns(window: Window, stream: Stream) -> tuple[str, str, ColumnType]:
    """The columns of the result tables that hold where windows like this begin and end, and their type."""
    if window.by_rows:
        return "row_start", "row_end", ColumnType.INT
    assert stream.time_type is not None
    if stream.time_type is ColumnType.INT and isinstance(exact(window, stream).size, float):
        return "window_start_float", "window_end_float", ColumnType.FLOAT
    return "window_start", "window_end", stream.time_type


@dataclass
class Standing:
    """A query of a group. `base` is the position of the first point it sees, `index` that of its next window.

    `fresh` is the number of its next new cluster, for EMIT CHANGES.
    """

    number: int
    name: str
    spec: Clusters
    since: Time | None
    base: int
    index: int = UNKNOWN
    fresh: int = 1

    def __post_init__(self) -> None:
        if self.spec.window.by_rows or self.since is None:
            self.index = max(self.index, 0)

    def begin(self, origin: Time) -> None:
        """Finds the first window after the query's activation, once the stream's first item is known."""
        if self.index == UNKNOWN:
            assert self.since is not None
            self.index = 0
            if self.since >= origin:
                self.index = _first_above(self.since, origin, self.spec.window.step)

    def edges(self, origin: Time | None) -> tuple[Time, Time]:
        """(start, end) of the next window: times, or rows from 0 at activation."""
        window = self.spec.window
        if window.by_rows:
            start = self.index * window.step
        else:
            assert origin is not None
            start = origin + self.index * window.step
        return start, start + window.size

    def skip(self, time: Time, origin: Time) -> None:
        """Goes on to the first window that ends after `time`; for windows that are known to hold nothing."""
        window = self.spec.window
        index = _first_above(time - window.size, origin, window.step)
        # the end of a window is (origin + index * step) + size: what rounding did above is put right here
        while index > self.index and _end(origin, index - 1, window.step, window.size) > time:
            index -= 1
        while _end(origin, index, window.step, window.size) <= time:
            index += 1
        self.index = max(self.index, index)

    def last_windows(self, stop: int) -> int | None:
        """How many windows that are not full come out when the stream ends before the point at position
        `stop`; None: all that hold an item. Where a window of rows ended there, nothing remains to gather.
        """
        window = self.spec.window
        ended = self.base + (self.index - 1) * int(window.step) + int(window.size)
        if window.end is AtEnd.GATHER and window.by_rows and self.index and ended == stop:
            return 0
        return {AtEnd.CUT: 0, AtEnd.GATHER: 1, AtEnd.RUN: None}[window.end]


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
