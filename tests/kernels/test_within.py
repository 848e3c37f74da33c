"""What lies within a radius, and where numbers are: kernels of nearest beside numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.kernels.boxes import BLOCK, BUNCH, BUNCHES, LEAF, boxes_of, sort_by_item, within
from anabranch.kernels.distances import SOME, near_squares
from anabranch.kernels.meeting import meet
from anabranch.kernels.places import places_of

Array = np.ndarray[Any, Any]


def items_of(seed: int, d: int, n: int, even: bool) -> Array:
    """Points, float64[d, n]: even ones with ties, or in lumps; some coordinates are missing."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 8, (d, n)) / 8 if even else rng.normal(rng.integers(0, 3, n), 0.05, (d, n))
    place[rng.random((d, n)) < 0.02] = math.nan
    return place


def true_distances(place: Array, point: Array) -> Array:
    total = np.zeros(place.shape[1])
    for row, p in zip(place, point, strict=True):
        total = total + (row - p) * (row - p)
    return np.sqrt(total)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 3000),
    even=st.booleans(),
    radius=st.floats(0, 1),
    data=st.data(),
)
def test_the_boxes_give_what_is_within_a_radius(
    d: int, seed: int, n: int, even: bool, radius: float, data: st.DataObject
) -> None:
    place = items_of(seed, d, n, even)
    fresh = data.draw(st.integers(0, n))
    first = data.draw(st.integers(fresh, n))
    stop = data.draw(st.integers(first, n))
    point = np.full((1, d), 0.5)
    near, dist = np.empty(n + LEAF, np.int64), np.empty(n + LEAF)
    boxes = boxes_of(place, fresh, BLOCK)
    found = within(boxes, point, 0, radius, first, stop, near, dist, np.empty(BUNCHES), np.empty(BUNCH))
    sort_by_item(near, dist, found)
    far = true_distances(place, point[0])
    inside = np.flatnonzero(far <= radius)
    inside = inside[(inside >= first) & (inside < stop)]
    assert near[:found].tolist() == inside.tolist()
    assert dist[:found].tolist() == far[inside].tolist()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@given(seed=st.integers(0, 10_000), n=st.integers(0, 3000), even=st.booleans(), data=st.data())
def test_near_squares_are_those_up_to_the_limit(
    d: int, seed: int, n: int, even: bool, data: st.DataObject
) -> None:
    place = items_of(seed, d, n, even)
    first = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(first, n))
    limit = data.draw(st.sampled_from([0.0, 0.01, 0.25, math.inf]))
    point = np.full((1, d), 0.5)
    near, square = np.empty(n, np.int64), np.empty(n)
    found = near_squares(place, point, 0, first, stop, limit, near, square, np.empty(SOME), 0)
    far = true_distances(place, point[0])[first:stop]
    kept = np.flatnonzero(np.array([value * value <= limit * (1 + 1e-12) for value in far], np.bool_))
    assert set(near[:found].tolist()) <= set((kept + first).tolist())
    assert np.sqrt(square[:found]).tolist() == far[near[:found] - first].tolist()
    assert (np.diff(near[:found]) > 0).all()
    missed = np.setdiff1d(kept + first, near[:found]) - first
    assert (far[missed] * far[missed] >= limit * (1 - 1e-12)).all()


@pytest.mark.parametrize("d", [1, 2, 4, 5])
@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 60),
    queries=st.integers(1, 700),
    most=st.sampled_from([256, 10_000]),
    data=st.data(),
)
def test_items_meet_the_balls_they_lie_in(
    d: int, seed: int, n: int, queries: int, most: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    place, points = items_of(seed, d, n, even=True), rng.integers(0, 8, (queries, d)) / 8
    radius = rng.choice([0.0, 0.125, 0.3, 1.0, math.inf], queries)
    fresh = data.draw(st.integers(0, n))
    boxes = boxes_of(place, data.draw(st.integers(0, fresh)), 64)
    met = meet(boxes_of(np.ascontiguousarray(points.T), 0, most), radius, place, boxes, fresh, 10**6)
    for query in range(queries):
        far = true_distances(place, points[query])
        inside = np.flatnonzero((far <= radius[query]) & (radius[query] < math.inf))
        inside = inside[inside >= fresh]
        mine = slice(met.first[query], met.first[query + 1])
        found = dict(zip(met.item[mine].tolist(), met.dist[mine].tolist(), strict=True))
        assert len(met.item[mine]) == len(inside)
        assert found == dict(zip(inside.tolist(), far[inside].tolist(), strict=True))


def test_nobody_looks_if_too_many_lie_in_balls() -> None:
    place, radius = np.zeros((2, 3000)), np.ones(100)
    points, boxes = boxes_of(np.zeros((2, 100)), 0, 100), boxes_of(place, 0, BLOCK)
    assert len(meet(points, radius, place, boxes, 0, 50_000).first) == 0
    assert len(meet(points, radius, place, boxes, 0, 300_001).item) == 300_000


@given(
    held=st.lists(st.integers(-50, 200) | st.integers(-(2**62), 2**62 - 1), min_size=1, unique=True),
    data=st.data(),
)
def test_places_of_numbers(held: list[int], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(held)))
    places = places_of(np.array(held, np.int64), np.array(wanted, np.int64))
    assert [held[place] for place in places.tolist()] == wanted
