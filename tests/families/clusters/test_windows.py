"""Which windows come out: all points are the same, so every window with two items has a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from anabranch.families.clusters.cluster_group import GroupQuery
from anabranch.families.clusters.spec import Clusters, Emit, exact_window
from anabranch.model.columns import ColumnType
from anabranch.model.window import AtEnd, Window
from tests.families.clusters.runs import line_items, line_stream, query, results_of, rows, span, windows

CUT, GATHER, RUN = AtEnd.CUT, AtEnd.GATHER, AtEnd.RUN


@pytest.mark.parametrize(
    ("at_end", "expected"),
    [
        (None, [(0, 4), (3, 7)]),
        (CUT, [(0, 4), (3, 7)]),
        (GATHER, [(0, 4), (3, 7), (6, 10)]),
        (RUN, [(0, 4), (3, 7), (6, 10)]),
    ],
)
def test_rows_at_the_end(at_end: AtEnd | None, expected: list[tuple[int, int]]) -> None:
    """
    items    0 1 2 3 4 5 6 7
    windows  |-----| |-----|     and [6, 10), which has two of its four items
    """
    stream = line_stream()
    items = line_items(stream, list(range(8)), [0.0] * 8)
    assert windows(results_of(stream, items, query(rows(4, 3, at_end)))) == expected


@pytest.mark.parametrize(
    ("at_end", "expected"),
    [
        (CUT, [(0, 6), (2, 8)]),
        (GATHER, [(0, 6), (2, 8), (4, 10)]),
        (RUN, [(0, 6), (2, 8), (4, 10), (6, 12)]),
        (None, [(0, 6), (2, 8), (4, 10), (6, 12)]),
    ],
)
def test_range_at_the_end(at_end: AtEnd | None, expected: list[tuple[int, int]]) -> None:
    """Two items at each time 0, 1, .. 7, and one at 8: time reaches 8, so the windows up to [2, 8) are full.

    The window [8, 14) holds one item and shows no cluster.
    """
    stream = line_stream()
    times = sorted([*range(8), *range(9)])
    items = line_items(stream, times, [0.0] * 17)
    assert windows(results_of(stream, items, query(span(6, 2, at_end)))) == expected


def test_without_step_windows_do_not_overlap() -> None:
    stream = line_stream()
    items = line_items(stream, list(range(9)), [0.0] * 9)
    assert windows(results_of(stream, items, query(rows(3)))) == [(0, 3), (3, 6), (6, 9)]


def test_only_items_with_coordinates_count_as_rows() -> None:
    stream = line_stream()
    items = line_items(stream, list(range(7)), [0.0, None, 0.0, float("nan"), 5.0, 0.0, 0.0])
    found = results_of(stream, items, query(rows(5)))
    assert [(row["window_start"], row["window_end"], row["id"]) for row in found] == [
        (0, 5, 0),
        (0, 5, 2),
        (0, 5, 5),
        (0, 5, 6),
    ]


@pytest.mark.parametrize(("after", "first"), [(None, 0), (-1, 0), (0, 4), (3, 4), (4, 8), (7.5, 8)])
def test_a_late_query_starts_with_the_first_window_after_its_activation(
    after: float | None, first: int
) -> None:
    stream = line_stream()
    items = line_items(stream, sorted([*range(20), *range(20)]), [0.0] * 40)
    found = windows(results_of(stream, items, query(span(4), after=after)))
    assert found == [(start, start + 4) for start in range(first, 20, 4)]


@pytest.mark.parametrize(("until", "last"), [(3, None), (4, 0), (7, 0), (8, 4), (100, 16)])
def test_a_cancelled_query_gives_the_windows_that_are_complete(until: int, last: int | None) -> None:
    stream = line_stream(lateness=3)
    items = line_items(stream, sorted([*range(20), *range(20)]), [0.0] * 40)
    for cuts in ([], list(range(1, 40))):
        found = windows(results_of(stream, items, query(span(4), until=until), cuts=cuts))
        assert found == ([] if last is None else [(start, start + 4) for start in range(0, last + 1, 4)])


def test_long_gaps_cost_nothing() -> None:
    """A thousand million empty windows lie between the two that hold items."""
    stream = line_stream()
    items = line_items(stream, [0, 0, 10**9, 10**9, 10**9 + 1], [0.0, 0.0, 7.0, 7.0, 0.0])
    assert windows(results_of(stream, items, query(span(1)))) == [(0, 1), (10**9, 10**9 + 1)]
    changes = results_of(stream, items, query(span(1), emit=Emit.CHANGES))
    assert [(row["window_start"], row["change"]) for row in changes] == [
        (0, "birth"),
        (0, "birth"),
        (10**9, "death"),
        (10**9, "death"),
        (10**9, "birth"),
        (10**9, "birth"),
        (10**9 + 1, "death"),
        (10**9 + 1, "death"),
    ]


def test_several_windows_end_at_one_item() -> None:
    stream = line_stream()
    items = line_items(stream, [0, 1, 2, 9], [0.0, 0.0, 0.0, 0.0])
    assert windows(results_of(stream, items, query(span(3, 1, CUT)))) == [(0, 3), (1, 4)]


def test_edges_have_the_time_type_of_the_stream() -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    stream = line_stream(ColumnType.TIMESTAMP)
    items = line_items(stream, [start + timedelta(seconds=s) for s in (0, 0, 30, 61)], [0.0] * 4)
    found = results_of(stream, items, query(span(60_000_000)))
    assert windows(found) == [(start, start + timedelta(seconds=60))]
    assert windows(results_of(stream, items, query(rows(2)))) == [(0, 2), (2, 4)]


def test_windows_of_fractions() -> None:
    """With integer time they are shown as floats; with float time edges are literally origin + j * step."""
    stream = line_stream()
    items = line_items(stream, [0, 0, 1, 1, 2, 2, 3], [0.0] * 7)
    assert windows(results_of(stream, items, query(span(1.5, 1.5, CUT)))) == [(0.0, 1.5), (1.5, 3.0)]
    stream = line_stream(ColumnType.FLOAT)
    times = [0.1 + 0.1 * step for step in range(12)]
    found = windows(results_of(stream, line_items(stream, times, [0.0] * 12), query(span(0.3, 0.1, CUT))))
    edges = [(times[0] + j * 0.1, (times[0] + j * 0.1) + 0.3) for j in range(9)]
    sizes = [sum(start <= time < end for time in times) for start, end in edges]
    assert found == [
        edge for edge, count in zip(edges, sizes, strict=True) if edge[1] <= times[-1] and count > 1
    ]


def test_a_stream_without_time_has_windows_in_rows() -> None:
    stream = line_stream(None)
    items = line_items(stream, [], [0.0, 0.5, 9.0, 9.5, 0.0])
    found = results_of(stream, items, query(rows(2, at_end=RUN)), cuts=[1, 3])
    assert windows(found) == [(0, 2), (2, 4)]
    assert {row["role"] for row in found} == {"core"}


def test_skipping_stops_at_the_first_window_that_is_not_over() -> None:
    stream = line_stream(ColumnType.FLOAT)
    for size, step in ((0.3, 0.1), (0.1, 0.7), (1 / 3, 1 / 7)):
        window = exact_window(Window("range", size, step), stream)
        group_query = GroupQuery(0, "q", Clusters(1.0, 1, ("x",), window), None, 0)
        for time in (0.0, 0.1, 0.30000000000000004, 1.0, 1e6, 1e6 + 0.1):
            group_query.skip_to(time, 0.0)
            assert group_query.edges(0.0)[1] > time
            assert group_query.window_index == 0 or (group_query.window_index - 1) * step + size <= time
