"""Streams at the edge: duplicates, nothing but noise, one big cluster, windows longer than the stream."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from anabranch.families.clusters.spec import Emit
from anabranch.model.window import AtEnd
from tests.families.clusters.runs import line_items, line_stream, query, results_of, rows, span, windows
from tests.laws.case import Asked, Case, run_local
from tests.oracles.clusters import clusters_oracle

STREAM = line_stream()


def _results(xs: list[float | None], asked: Asked) -> list[dict]:
    """What comes out, after a comparison with the oracle, in one batch and in many."""
    case = Case(STREAM, line_items(STREAM, list(range(len(xs))), xs), (asked,), "clusters")
    expected = clusters_oracle(case)["q"]
    assert run_local(case).results["q"] == expected
    assert run_local(case, cuts=list(range(1, len(xs), 3)), stops=[2], zones=2).results["q"] == expected
    return expected


@pytest.mark.parametrize("emit", list(Emit))
@pytest.mark.parametrize("reach", [0.0, 1.0])
def test_all_points_are_the_same(emit: Emit, reach: float) -> None:
    found = _results([7.5] * 60, query(rows(20, 5), reach=reach, count=19, emit=emit))
    assert {row["cluster"] for row in found} == {1}
    if emit is Emit.SUMMARY:
        assert {(row["cores"], row["edges"], row["noise"]) for row in found} == {(20, 0, 0)}


def test_duplicates_are_neighbours_but_a_point_is_not_its_own() -> None:
    """Twenty copies are nineteen neighbours each: with a count of twenty none is core."""
    assert _results([7.5] * 60, query(rows(20, 5), reach=0.0, count=20)) == []


@pytest.mark.parametrize("emit", [Emit.MEMBERS, Emit.CHANGES])
def test_nothing_but_noise(emit: Emit) -> None:
    assert _results([10.0 * index for index in range(80)], query(rows(20, 3), count=1, emit=emit)) == []


def test_a_summary_counts_the_noise_of_a_window_without_a_cluster() -> None:
    found = _results([0.0, 10.0, 20.0, 20.5, 40.0, 50.0, 60.0], query(rows(3, 2), emit=Emit.SUMMARY))
    none = {"cluster": None, "cores": 0, "edges": 0, "centre": None, "low": None, "high": None}
    assert found == [
        {"window_start": 0, "window_end": 3, **none, "noise": 3},
        {
            "window_start": 2,
            "window_end": 5,
            "cluster": 1,
            "cores": 2,
            "edges": 0,
            "centre": [20.25],
            "low": [20.0],
            "high": [20.5],
            "noise": 1,
        },
        {"window_start": 4, "window_end": 7, **none, "noise": 3},
    ]


def test_a_summary_of_a_window_without_points_gives_nothing() -> None:
    stream = line_stream()
    items = line_items(stream, [0, 1, 50], [0.0, 10.0, 20.0])
    found = results_of(stream, items, query(span(5), emit=Emit.SUMMARY))
    assert windows(found) == [(0, 5), (50, 55)]


@pytest.mark.parametrize("count", [1 << 18, 1 << 31, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("emit", list(Emit))
def test_a_count_that_nobody_reaches_costs_nothing(count: int, emit: Emit) -> None:
    """Beside queries that are answered as ever, in one zone and several."""
    xs = [0.25 * (index % 7) for index in range(90)]
    asked = (
        query(rows(30, 10), count=count, emit=emit),
        replace(query(span(40, 20), count=3, emit=emit), name="bystander"),
        replace(query(span(40, 20), count=count, reach=100.0, emit=emit), name="far"),
    )
    case = Case(STREAM, line_items(STREAM, list(range(90)), xs), asked, "clusters")
    expected = clusters_oracle(case)
    assert run_local(case).results == expected
    assert run_local(case, cuts=list(range(1, 90, 7)), stops=[2], zones=2).results == expected
    assert expected["bystander"]


@pytest.mark.parametrize("count", [1, 2, 50])
def test_one_big_cluster(count: int) -> None:
    """A chain of 300 points, each within the range of the next."""
    found = _results([0.01 * index for index in range(300)], query(rows(200, 50), reach=0.5, count=count))
    assert {row["cluster"] for row in found} == {1}
    assert len(found) == 3 * 200


def test_items_without_a_coordinate_are_no_points() -> None:
    xs: list[float | None] = [0.0, None, 0.1, math.nan, 0.2, None, 0.3, math.nan]
    found = _results(xs, query(rows(3, 1), count=2, reach=1.0))
    assert windows(found) == [(0, 3), (1, 4)]
    assert {row["id"] for row in found} == {0, 2, 4, 6}


def test_nothing_but_missing_coordinates() -> None:
    assert _results([None, math.nan] * 10, query(rows(3, 1), count=0)) == []


@pytest.mark.parametrize("make", [rows, span])
def test_a_window_longer_than_the_stream(make) -> None:
    xs: list[float | None] = [0.0, 0.5, 9.0, 9.5]
    assert _results(xs, query(make(1000, 500, AtEnd.CUT))) == []
    for at_end in (AtEnd.GATHER, AtEnd.RUN):
        found = _results(xs, query(make(1000, 500, at_end)))
        assert windows(found) == [(0, 1000)]
        assert [row["cluster"] for row in found] == [1, 1, 2, 2]


def test_a_stream_of_one_point() -> None:
    assert _results([1.0], query(rows(1), count=1)) == []
    (row,) = _results([1.0], query(rows(1), count=0))
    assert (row["cluster"], row["role"]) == (1, "core")


def test_counts_beyond_any_window() -> None:
    """A count larger than the lives that an entry can have."""
    found = results_of(
        STREAM, line_items(STREAM, list(range(40)), [0.0] * 40), query(rows(30, 10), count=1_000_000)
    )
    assert found == []
