"""One item in the far future costs nothing: windows without items are skipped, however many there are, and
windows that cannot be counted do not exist.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import End
from anabranch.model.stream import Stream
from anabranch.numeric.window_edges import NEVER
from tests.drawn import examples
from tests.families.filters.runs import STREAM, Run, aggregate, by_range, items

FLOATS = replace(STREAM, columns=(Column("t", ColumnType.FLOAT), *STREAM.columns[1:]))
LAST = 2**63 - 1
INT_TIMES = st.integers(-20, 20) | st.sampled_from(
    [-LAST - 1, -(2**62), 10**15, 2**53 + 1, 2**62, LAST - 1, LAST]
)
FLOAT_TIMES = st.integers(-20, 20).map(float) | st.sampled_from(
    [-1e20, -1e300, 0.3, 1e15, 1e17, 1e20, 1.7e308]
)
SIZES, STEPS = (0.5, 1, 3, 16, 1e6, 1e18), (0.25, 1, 5, 32, 1e6, 1e18)


def plain(stream: Stream, times: Sequence[Any], size: Any, step: Any) -> list[tuple[Any, Any, int]]:
    """The windows of each item, found by halving among all windows that can be counted."""
    exact = stream is STREAM and float(size).is_integer() and float(step).is_integer()
    base, count = times[0] if exact else float(times[0]), range(int(NEVER))
    if exact:
        size, step = int(size), int(step)
        count = range(min(int(NEVER), (LAST - base) // step + 1))
    found: Counter[int] = Counter()
    for time in times if exact else map(float, times):
        ended = bisect_right(count, time, key=lambda k: base + k * step + size)
        begun = bisect_right(count, time, key=lambda k: base + k * step)
        found.update(range(ended, begun))
    edges = [(base + k * step, base + k * step + size, found[k]) for k in sorted(found)]
    return [(start, min(end, LAST), seen) for start, end, seen in edges] if exact else edges


def windows(
    stream: Stream, times: Sequence[Any], size: Any, step: Any, batch: int
) -> list[tuple[Any, Any, int]]:
    run = Run(stream)
    control = run.activate(q=aggregate(by_range(size, step), "count *"))
    for first in range(0, len(times), batch):
        run.batch(items(times[first : first + batch], stream), control)
        control = []
    run.batch(None, [End()])
    return run.windows("q")


@pytest.mark.parametrize("time", [1e20, 1e300, 1.7e308])
@pytest.mark.parametrize(("size", "step"), [(60, 40), (1, 1), (0.5, 3), (10, 0.5)])
def test_one_item_at_a_time_beyond_all_windows(time: float, size: float, step: float) -> None:
    before = [0.0, 1.0, 2.5, 70.0]
    expected = plain(FLOATS, before, size, step)
    assert windows(FLOATS, [*before, time], size, step, 2) == expected


@pytest.mark.parametrize("step", [1, 3, 32])
def test_the_first_and_the_last_moment_of_integers(step: int) -> None:
    times = [-LAST - 1, 0, LAST]
    assert windows(STREAM, times, 3, step, 1) == plain(STREAM, times, 3, step)


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), st.sampled_from(SIZES), st.sampled_from(STEPS), st.integers(1, 4))
def test_times_however_far_apart(data: st.DataObject, size: float, step: float, batch: int) -> None:
    stream, drawn = data.draw(st.sampled_from([(STREAM, INT_TIMES), (FLOATS, FLOAT_TIMES)]))
    times = sorted(data.draw(st.lists(drawn, min_size=1, max_size=6)))
    if size / step > 1000:
        size = 100 * step
    assert windows(stream, times, size, step, batch) == plain(stream, times, size, step)


def test_timestamps_at_the_end_of_time() -> None:
    stream = replace(STREAM, columns=(Column("t", ColumnType.TIMESTAMP), *STREAM.columns[1:]))
    run = Run(stream)
    rows = items([0, 1, LAST], STREAM).set_column(0, "t", pa.array([0, 1, LAST], pa.timestamp("us", "UTC")))
    run.batch(rows, [*run.activate(q=aggregate(by_range(10**6, 10**6), "count *")), End()])
    (batch,) = run.runner.tables["aggregate"].values()
    starts = batch[0].column("window_start").cast(pa.int64()).to_pylist()
    ends = batch[0].column("window_end").cast(pa.int64()).to_pylist()
    assert (starts[0], ends[0]) == (0, 10**6)
    assert starts[1] <= LAST < starts[1] + 10**6
    assert ends[1] == LAST
