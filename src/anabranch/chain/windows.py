"""Windows of queries in plain numbers: in which numbers they are counted, where they begin and end.

Window k (from 0) is [base + k step, base + k step + size). `base` is the time of the stream's first item for
RANGE windows, and the position of the query's first item for ROWS windows.

    RANGE 4 STEP 3 on a stream that begins at 10        [10, 14)  [13, 17)  [16, 20) ...
    first_window_after(14, base=10, step=3)          -> 2         the first that begins after 14
    first_window_after(14, base=10, step=3, size=4)  -> 1         the first that ends after 14

`numeric/window_edges.py` has the kernels.
"""

from __future__ import annotations

import math

from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.model.window import Window
from anabranch.numeric.window_edges import NEVER, first_after_float


def in_stream_units(window: Window, stream: Stream) -> Window:
    """Returns the window in the numbers in which it is counted: integers for rows, microseconds and whole
    units of integer time; floats otherwise.
    """
    if window.by_rows:
        return Window(window.unit, int(window.size), int(window.step), window.at_end)
    if stream.time_type is ColumnType.TIMESTAMP:
        return Window(window.unit, round(window.size), round(window.step), window.at_end)
    size, step = float(window.size), float(window.step)
    if stream.time_type is ColumnType.INT and size.is_integer() and step.is_integer():
        return Window(window.unit, int(window.size), int(window.step), window.at_end)
    return Window(window.unit, size, step, window.at_end)


def edge_columns(window: Window, stream: Stream) -> tuple[str, str, ColumnType]:
    """Returns the columns of the result tables where such windows begin and end, and their type."""
    if window.by_rows:
        return "row_start", "row_end", ColumnType.INT
    assert stream.time_type is not None
    if stream.time_type is ColumnType.INT and isinstance(in_stream_units(window, stream).size, float):
        return "window_start_float", "window_end_float", ColumnType.FLOAT
    return "window_start", "window_end", stream.time_type


def first_window_after(moment: Time, base: Time, step: Time, size: Time = 0) -> int:
    """Returns the number of the first window that begins (size 0) or ends after a moment.

    `step` says in which numbers windows are counted. By 10.5, windows of integers have reached what they have
    reached by 10. At most NEVER.
    """
    if isinstance(step, float):
        return int(first_after_float(float(base), step, float(size), float(moment)))
    return int(min(max(0, (math.floor(moment) - base - size) // step + 1), NEVER))
