"""What lies within a radius, by boxes of items and of queries, beside numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.nearest.item_store import indices_of
from anabranch.families.nearest.kernels.item_boxes import (
    BLOCK,
    BUNCH,
    BUNCHES,
    LEAF,
    boxes_of,
    items_in_balls,
    sort_by_item,
    within,
)
from anabranch.model.arrays import Array
from anabranch.numeric.distances import SOME, near_squares
from tests.drawn import examples


def items_of(seed: int, d: int, n: int, even: bool) -> Array:
    """Points, float64[d, n]: even ones with ties, or in lumps; some coordinates are missing."""
    rng = np.random.default_rng(seed)
    position = rng.integers(0, 8, (d, n)) / 8 if even else rng.normal(rng.integers(0, 3, n), 0.05, (d, n))
    position[rng.random((d, n)) < 0.02] = math.nan
    return position


def true_distances(position: Array, point: Array) -> Array:
    total = np.zeros(position.shape[1])
    for row, p in zip(position, point, strict=True):
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
    position = items_of(seed, d, n, even)
    first_new = data.draw(st.integers(0, n))
    first = data.draw(st.integers(first_new, n))
    stop = data.draw(st.integers(first, n))
    point = np.full((1, d), 0.5)
    near, dist = np.empty(n + LEAF, np.int64), np.empty(n + LEAF)
    boxes = boxes_of(position, first_new, BLOCK)
    found = within(boxes, point, 0, radius, first, stop, near, dist, np.empty(BUNCHES), np.empty(BUNCH))
    sort_by_item(near, dist, found)
    far = true_distances(position, point[0])
    inside = np.flatnonzero(far <= radius)
    inside = inside[(inside >= first) & (inside < stop)]
    assert near[:found].tolist() == inside.tolist()
    assert dist[:found].tolist() == far[inside].tolist()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@given(seed=st.integers(0, 10_000), n=st.integers(0, 3000), even=st.booleans(), data=st.data())
def test_near_squares_are_those_up_to_the_limit(
    d: int, seed: int, n: int, even: bool, data: st.DataObject
) -> None:
    position = items_of(seed, d, n, even)
    first = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(first, n))
    limit = data.draw(st.sampled_from([0.0, 0.01, 0.25, math.inf]))
    point = np.full((1, d), 0.5)
    near, square = np.empty(n, np.int64), np.empty(n)
    found = near_squares(position, point, 0, first, stop, limit, near, square, np.empty(SOME), 0)
    far = true_distances(position, point[0])[first:stop]
    kept = np.flatnonzero(np.array([value * value <= limit * (1 + 1e-12) for value in far], np.bool_))
    assert set(near[:found].tolist()) <= set((kept + first).tolist())
    assert np.sqrt(square[:found]).tolist() == far[near[:found] - first].tolist()
    assert (np.diff(near[:found]) > 0).all()
    missed = np.setdiff1d(kept + first, near[:found]) - first
    assert (far[missed] * far[missed] >= limit * (1 - 1e-12)).all()


@pytest.mark.parametrize("d", [1, 2, 4, 5])
@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 60),
    queries=st.integers(1, 700),
    most=st.sampled_from([256, 10_000]),
    data=st.data(),
)
def test_items_in_balls_are_those_within_the_radii(
    d: int, seed: int, n: int, queries: int, most: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    position, points = items_of(seed, d, n, even=True), rng.integers(0, 8, (queries, d)) / 8
    radius = rng.choice([0.0, 0.125, 0.3, 1.0, math.inf], queries)
    first_new = data.draw(st.integers(0, n))
    boxes = boxes_of(position, data.draw(st.integers(0, first_new)), 64)
    met = items_in_balls(
        boxes_of(np.ascontiguousarray(points.T), 0, most), radius, position, boxes, first_new, 10**6
    )
    for query in range(queries):
        far = true_distances(position, points[query])
        inside = np.flatnonzero((far <= radius[query]) & (radius[query] < math.inf))
        inside = inside[inside >= first_new]
        mine = slice(met.first[query], met.first[query + 1])
        found = dict(zip(met.item[mine].tolist(), met.dist[mine].tolist(), strict=True))
        assert len(met.item[mine]) == len(inside)
        assert found == dict(zip(inside.tolist(), far[inside].tolist(), strict=True))


def test_items_in_balls_are_unknown_if_they_are_too_many() -> None:
    position, radius = np.zeros((2, 3000)), np.ones(100)
    points, boxes = boxes_of(np.zeros((2, 100)), 0, 100), boxes_of(position, 0, BLOCK)
    assert len(items_in_balls(points, radius, position, boxes, 0, 50_000).first) == 0
    assert len(items_in_balls(points, radius, position, boxes, 0, 300_001).item) == 300_000


@given(
    numbers=st.lists(st.integers(-50, 200) | st.integers(-(2**62), 2**62 - 1), min_size=1, unique=True),
    data=st.data(),
)
def test_indices_of_numbers(numbers: list[int], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(numbers)))
    indices = indices_of(np.array(numbers, np.int64), np.array(wanted, np.int64))
    assert [numbers[index] for index in indices.tolist()] == wanted
