"""Kernels of the moving family against their plain twins."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.families.moving.kernels.arrays import NEAREST, Metric, new_objects, new_queries
from anabranch.families.moving.kernels.home_moves import last_of_tick
from anabranch.families.moving.kernels.object_grid import add_by_age, list_by_age, nearest, remove_one_by_age
from anabranch.families.moving.kernels.object_names import ObjectNames, encoded
from anabranch.families.moving.kernels.shapes import distance
from anabranch.families.moving.query_plans import ConditionBits
from anabranch.families.moving.regional_server import RegionalServer

PLANE, GLOBE = Metric(False, 0.0), Metric(True, 6371.0088)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=30))
def test_last_of_tick(rows: list[tuple[int, int]]) -> None:
    tick, index = np.cumsum([step for step, _ in rows]), np.array([who for _, who in rows], np.int64)
    wanted = [
        not any(
            tick[later] == tick[row] and index[later] == index[row] for later in range(row + 1, len(rows))
        )
        for row in range(len(rows))
    ]
    assert last_of_tick(tick.astype(np.int64), index, 4).tolist() == wanted


def _server(metric: Metric, count: int, seed: int) -> RegionalServer:
    """Objects, half of them on whole numbers so that they tie, some absent."""
    random = np.random.default_rng(seed)
    server = RegionalServer(metric, ObjectNames(), ConditionBits())
    server.make_room(count)
    server.names.add(np.arange(count), encoded(pa.array([f"object-{n}" for n in range(count)])))
    objects = server.objects[:count]
    size = (400, 180) if metric.globe else (20, 20)
    for name, wide in zip(("x", "y"), size, strict=True):
        at = random.uniform(-wide / 2, wide / 2, count)
        objects[name] = np.where(random.random(count) < 0.5, np.round(at), at)
    objects["present"] = random.random(count) < 0.9
    server.truths[:count, 0] = random.integers(0, 2, count)
    server.make_grid()
    return server


@pytest.mark.parametrize("metric", [PLANE, GLOBE])
@pytest.mark.parametrize("count", [0, 3, 40, 1500])
def test_nearest(metric: Metric, count: int) -> None:
    random = np.random.default_rng(count)
    server = _server(metric, count, count)
    server.query_slots.take()
    query, arrays = server.queries[0], server.arrays()
    query["mode"] = NEAREST
    for _ in range(60):
        query["x"], query["y"] = (
            random.uniform(-250, 250) if metric.globe else random.integers(-14, 14),
            random.integers(-14, 90),
        )
        query["k"], query["condition"] = random.integers(1, 12), random.integers(-1, 1)
        query["focal"] = random.integers(-1, max(1, count))
        k, who, far = int(query["k"]), np.zeros(12, np.int64), np.zeros(12)
        found = nearest(metric, arrays, server.queries[0], server.grid, server.names.arrays, who, far)
        wanted = sorted(
            (distance(metric, o["x"], o["y"], query["x"], query["y"]), f"object-{n}")
            for n, o in enumerate(server.objects[:count])
            if o["present"] and n != query["focal"]
            if query["condition"] < 0 or server.truths[n, 0] & np.uint64(1)
        )[:k]
        assert [(far[n], f"object-{who[n]}") for n in range(found)] == wanted


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9)))
def test_the_list_by_age(order: list[int], forgotten: list[int]) -> None:
    records, ends = new_objects(10), np.full((2, 2), -1, np.int64)
    records["expires"] = 5
    list_by_age(records, ends, np.int64(0), np.array(order, np.int64))
    for who in forgotten:
        remove_one_by_age(records, ends, np.int64(0), who)
    left, who = [], int(ends[0, 0])
    while who >= 0:
        left.append(who)
        who = int(records[who]["younger"])
    assert left == [who for who in order if who not in forgotten]
    assert ends[0, 1] == (left[-1] if left else -1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=30))
def test_the_list_by_age_is_in_order_whoever_comes_late(reports: list[tuple[int, int]]) -> None:
    records, ends = new_objects(6), np.full((2, 2), -1, np.int64)
    last: dict[int, int] = {}
    for who, expires in reports:
        records[who]["expires"] = last[who] = expires
        add_by_age(records, ends, np.int64(0), who)
    left, who = [], int(ends[0, 0])
    while who >= 0:
        left.append(int(records[who]["expires"]))
        assert last.pop(who) == left[-1]
        who = int(records[who]["younger"])
    assert not last
    assert left == sorted(left)


def test_distances() -> None:
    assert distance(PLANE, 3.0, 4.0, 0.0, 0.0) == 5
    assert math.isclose(distance(GLOBE, 2.35, 48.85, -0.13, 51.51), 344, rel_tol=0.01)  # Paris to London
    assert math.isclose(distance(GLOBE, 179.0, 0.0, -179.0, 0.0), distance(GLOBE, 0.0, 0.0, 2.0, 0.0))


def test_slots_that_no_query_has() -> None:
    assert new_queries(2)["number"].tolist() == [-1, -1]
