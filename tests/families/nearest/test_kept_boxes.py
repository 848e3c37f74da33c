"""Boxes of earlier batches hold what the buffer holds from some item on, whatever happened meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.families.nearest.kernels import item_boxes
from anabranch.families.nearest.kernels.item_boxes import (
    BUNCH,
    BUNCHES,
    LEAF,
    ItemBoxes,
    KeptBoxes,
    kept_boxes,
    leaf_by_leaf,
    within,
)
from anabranch.model.arrays import Array
from tests.families.nearest.test_splits import crowd
from tests.laws.case import run_local
from tests.oracles.nearest import nearest_oracle


def within_all(boxes: ItemBoxes, n: int, radius: float) -> Array:
    """The indices, from the first in boxes on, of what is within a radius of the middle."""
    item, dist = np.empty(n + LEAF, np.int64), np.empty(n + LEAF)
    point, first = np.full((1, 2), 0.5), int(boxes.start[0])
    found = within(boxes, point, 0, radius, first, n, item, dist, np.empty(BUNCHES), np.empty(BUNCH))
    return np.sort(item[:found])


@given(st.integers(0, 10_000), st.data())
def test_kept_boxes_hold_what_the_buffer_holds(seed: int, data: st.DataObject) -> None:
    """Batches of new numbers, some of which come late; the oldest leave; now and then a batch is run again,
    or another worker had its turn.
    """
    rng, here = np.random.default_rng(seed), True
    kept: list[KeptBoxes] = []
    positions = rng.integers(0, 16, (2, 20_000)) / 16  # by number
    numbers, late, then = np.empty(0, np.int64), np.empty(0, np.int64), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(item_boxes, "_LEAST_KEPT", 1)
        for _ in range(data.draw(st.integers(2, 8))):
            size = data.draw(st.sampled_from([1, 40, 300]))
            coming = np.arange(then, then + size)
            now = coming[rng.random(size) < 0.8]
            numbers = np.union1d(numbers[numbers >= data.draw(st.integers(0, then))], late)
            first_new, whole = len(numbers), np.concatenate([numbers, now])
            turns = data.draw(st.sampled_from([1, 1, 1, 2])) if here else 0
            for _ in range(turns):
                boxes = kept_boxes(kept, whole, np.ascontiguousarray(positions[:, whole]), first_new, True)
                assert boxes.start[0] <= first_new
                assert (np.diff(boxes.start) >= 0).all()
                assert boxes.start[-1] == len(whole)
                far = np.sqrt(((positions[:, whole] - 0.5) ** 2).sum(axis=0))
                inside = np.flatnonzero(far <= 0.3)
                expected = inside[inside >= boxes.start[0]]
                assert within_all(boxes, len(whole), 0.3).tolist() == expected.tolist()
                assert np.sort(leaf_by_leaf(boxes, first_new)).tolist() == list(range(first_new, len(whole)))
            late = np.setdiff1d(coming, now) if data.draw(st.booleans()) else np.empty(0, np.int64)
            numbers, then, here = whole, then + size, data.draw(st.integers(0, 4)) > 0


def test_boxes_of_the_whole_buffer_are_there_if_nothing_came_late() -> None:
    rng = np.random.default_rng(1)
    kept: list[KeptBoxes] = []
    position = rng.random((2, 12_000))
    for stop in range(3000, 12_001, 3000):
        low = max(0, stop - 7000)
        boxes = kept_boxes(kept, np.arange(low, stop), position[:, low:stop].copy(), stop - 3000 - low, True)
        assert boxes.start[0] == 0


def test_few_queries_keep_none() -> None:
    rng = np.random.default_rng(1)
    kept: list[KeptBoxes] = []
    position = rng.random((2, 9000))
    for stop in range(3000, 9001, 3000):
        boxes = kept_boxes(kept, np.arange(stop), position[:, :stop].copy(), stop - 3000, stop == 3000)
        assert boxes.start[0] == stop - 3000


@pytest.mark.parametrize("zones", [1, 3])
@pytest.mark.slow
def test_many_queries_and_short_batches(zones: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More queries than items per batch: items look for balls, and balls that grow look into boxes."""
    monkeypatch.setattr(item_boxes, "_LEAST_KEPT", 1)
    case = crowd(zones, items=1200, queries=60)
    assert run_local(case, cuts=range(0, 1200, 15), zones=zones, stops=[9]).results == nearest_oracle(case)
