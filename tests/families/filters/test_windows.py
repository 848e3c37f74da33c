"""Windows one can check by hand: where they begin, when they come out, and what the end of a stream leaves.

The oracle's laws cover all of this at random; these are the examples of the documentation.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Cancel, End
from anabranch.predicates.terms import And, Constant, Op
from tests.families.filters.runs import STREAM, Run, aggregate, by_range, by_rows, items

#: the items of docs/decisions/windows-at-the-end.md
TIMES = [0, 3, 5, 9]


@pytest.mark.parametrize(
    ("at_end", "expected"),
    [
        ("cut", [(0, 4, 2), (2, 6, 2), (4, 8, 1)]),
        ("gather", [(0, 4, 2), (2, 6, 2), (4, 8, 1), (6, 10, 1)]),
        ("run", [(0, 4, 2), (2, 6, 2), (4, 8, 1), (6, 10, 1), (8, 12, 1)]),
        (None, [(0, 4, 2), (2, 6, 2), (4, 8, 1), (6, 10, 1), (8, 12, 1)]),
    ],
)
def test_windows_in_time_at_the_end(at_end: str | None, expected: list[tuple[int, int, int]]) -> None:
    run = Run()
    run.batch(items(TIMES), run.activate(q=aggregate(by_range(4, 2, at_end), "count *")))
    run.batch(None, [End()])
    assert run.windows("q") == expected


@pytest.mark.parametrize(
    ("at_end", "expected"),
    [
        ("cut", [(0, 4, 4), (2, 6, 4)]),
        ("gather", [(0, 4, 4), (2, 6, 4), (4, 8, 3)]),
        ("run", [(0, 4, 4), (2, 6, 4), (4, 8, 3), (6, 10, 1)]),
        (None, [(0, 4, 4), (2, 6, 4)]),
    ],
)
def test_windows_in_rows_at_the_end(at_end: str | None, expected: list[tuple[int, int, int]]) -> None:
    """The paper's |count 4 step 2| on seven items: run adds ceil((4 - 1) / 2) = 2 windows."""
    run = Run()
    run.batch(items(range(7)), run.activate(q=aggregate(by_rows(4, 2, at_end), "count *")))
    run.batch(None, [End()])
    assert run.windows("q") == expected


def test_gather_adds_nothing_when_the_last_item_is_in_no_window() -> None:
    """RANGE 2 STEP 5: [0, 2) [5, 7); the last item at 8 lies between two windows."""
    run = Run()
    run.batch(items([0, 5, 8]), run.activate(q=aggregate(by_range(2, 5, "gather"), "count *")))
    run.batch(None, [End()])
    assert run.windows("q") == [(0, 2, 1), (5, 7, 1)]


def test_the_end_comes_once() -> None:
    run = Run()
    run.batch(items(TIMES), [*run.activate(q=aggregate(by_range(4, 2), "count *")), End()])
    run.batch()
    run.batch(None, run.activate(late=aggregate(by_range(4, 2), "count *")))
    assert len(run.windows("q")) == 5
    assert run.windows("late") == []


def test_a_window_comes_out_with_the_first_item_that_reaches_its_end() -> None:
    """... even if the query does not select that item."""
    run = Run()
    query = aggregate(by_range(10, 10), "sum n", condition=Constant("n", Op.GT, 0))
    run.batch(items([0, 9], n=[1, 2]), run.activate(q=query))
    assert run.results("q") == []
    run.batch(items([10], n=[-1]))
    assert run.results("q") == [{"window_start": 0, "window_end": 10, "items": 2, "v0": 3}]


def test_a_later_query_begins_with_the_next_window_on_the_same_edges() -> None:
    """origin 3:  [3, 7) [7, 11) [11, 15)    activation after 8: the first that begins later is [11, 15)"""
    run = Run()
    run.batch(items([3, 8, 12, 16]), run.activate(q=aggregate(by_range(4, 4), "count *"), activate_time=8))
    run.batch(None, [End()])
    assert run.windows("q") == [(11, 15, 1), (15, 19, 1)]


def test_rows_are_counted_from_activation() -> None:
    run = Run()
    run.batch(items(range(3)), run.activate(first=aggregate(by_rows(2, 2), "sum n")))
    run.batch(items(range(3, 8), n=range(3, 8)), run.activate(later=aggregate(by_rows(2, 2), "sum n")))
    assert [row["window_start"] for row in run.results("first")] == [0, 2, 4, 6]
    assert [(row["window_start"], row["v0"]) for row in run.results("later")] == [(0, 7), (2, 11)]


def test_a_cancelled_query_gets_what_is_full() -> None:
    """cancel = 6: [0, 3) and [3, 6) are full, [6, 9) is not; of the rows 0 2 4 6 | 8 two windows of two."""
    run = Run()
    specs = run.activate(time=aggregate(by_range(3, 3), "count *"), rows=aggregate(by_rows(2, 2), "count *"))
    run.batch(items([0, 2, 4, 6, 8, 10]), [*specs, Cancel(0, 6), Cancel(1, 6)])
    run.batch(None, [End()])
    assert run.windows("time") == [(0, 3, 2), (3, 6, 1)]
    assert run.windows("rows") == [(0, 2, 2), (2, 4, 2)]


def test_missing_values() -> None:
    run = Run()
    calls = ("count *", "count a", "sum a", "min a", "avg a", "max n", "count s")
    run.batch(
        items(
            [0, 1, 4, 5], a=[None, float("nan"), 1.5, None], n=[None, None, None, 2], s=["x", None, "", "y"]
        ),
        [*run.activate(q=aggregate(by_range(2, 2), *calls)), End()],
    )
    values = [tuple(row[f"v{index}"] for index in range(len(calls))) for row in run.results("q")]
    assert values == [(2, 0, None, None, None, None, 1), (2, 1, 1.5, 1.5, 1.5, 2, 2)]


def test_having_sees_the_results_and_their_items() -> None:
    run = Run()
    having = And((Constant("v0", Op.GE, 2.0), Constant("items", Op.LT, 3)))
    batch = items([0, 1, 10, 20, 21, 22, 30], a=[2.0, 3.0, 1.0, 5.0, 5.0, 5.0, None])
    run.batch(batch, [*run.activate(q=aggregate(by_range(10, 10), "avg a", having=having)), End()])
    assert run.results("q") == [{"window_start": 0, "window_end": 10, "items": 2, "v0": 2.5}]


def test_times_come_out_as_the_stream_has_them() -> None:
    moments = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (0, 1, 3)]
    stream = replace(STREAM, columns=(Column("t", ColumnType.TIMESTAMP), *STREAM.columns[1:]))
    run = Run(stream)
    rows = pa.record_batch({"t": moments, "a": [1.0] * 3, "n": [1] * 3, "s": [""] * 3})
    rows = rows.set_column(0, "t", rows.column("t").cast(pa.timestamp("us", "UTC")))
    run.batch(rows, run.activate(q=aggregate(by_range(2_000_000, 2_000_000), "max t", "count *")))
    assert run.results("q") == [
        {"window_start": moments[0], "window_end": datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)}
        | {"items": 2, "v0": moments[1], "v1": 2}
    ]


def test_a_stream_without_time_has_windows_in_rows() -> None:
    run = Run(replace(STREAM, time=None), zones=2)
    run.batch(items([9, 1, 5], n=[1, 2, 3]), run.activate(q=aggregate(by_rows(2, 1), "sum n")))
    run.batch(items([4], n=[4]), [Cancel(0)])
    assert [row["v0"] for row in run.results("q")] == [3, 5]


@pytest.mark.parametrize("cut", [False, True])
def test_a_window_waits_for_an_item_that_reaches_its_end(cut: bool) -> None:
    """Lateness 2: after 0 7 10, item 10 waits and nothing before 8 can come, so [0, 8) seems full. But the
    query is cancelled at 7, before 10 leaves, and must not have had a window that was not full then."""
    run = Run(replace(STREAM, lateness=2))
    control = [*run.activate(q=aggregate(by_range(8, 8), "count *")), Cancel(0, 7)]
    if cut:
        run.batch(items([0, 7, 10]), control)
        run.batch(items([20]))
    else:
        run.batch(items([0, 7, 10, 20]), control)
    assert run.windows("q") == []


def test_gather_takes_the_first_of_the_query_s_own_windows() -> None:
    """RANGE 10 STEP 2 after 5: [6, 16) is its first; [0, 10), [2, 12) and [4, 14) hold the last item too."""
    run = Run()
    query = aggregate(by_range(10, 2, "gather"), "count *")
    run.batch(items([0, 7]), [*run.activate(first=query), *run.activate(later=query, activate_time=5)])
    run.batch(None, [End()])
    assert run.windows("first") == [(0, 10, 2)]
    assert run.windows("later") == [(6, 16, 1)]
