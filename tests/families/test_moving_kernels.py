"""Kernels of the moving family against their plain twins."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.families.moving.arrays import new_objects, new_queries
from anabranch.families.moving.conditions import Conditions
from anabranch.families.moving.names import NameTable, encoded
from anabranch.families.moving.server import RegionalServer
from anabranch.kernels.moving_arrays import NEAREST, Server, Space
from anabranch.kernels.moving_grid import forget_one, remember_all
from anabranch.kernels.moving_home import last_of_tick
from anabranch.kernels.moving_nearest import nearest
from anabranch.kernels.moving_shapes import distance

PLANE, GLOBE = Space(False, 0.0), Space(True, 6371.0088)


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


def _server(space: Space, count: int, seed: int) -> RegionalServer:
    """Objects, half of them on whole numbers so that they tie, some absent, some reported too early."""
    random = np.random.default_rng(seed)
    server = RegionalServer(space, NameTable(), Conditions())
    server.make_room(count)
    server.names.add(np.arange(count), encoded(pa.array([f"object-{n}" for n in range(count)])))
    objects = server.objects[:count]
    size = (400, 180) if space.globe else (20, 20)
    for name, wide in zip(("x", "y"), size, strict=True):
        at = random.uniform(-wide / 2, wide / 2, count)
        objects[name] = np.where(random.random(count) < 0.5, np.round(at), at)
    objects["present"] = random.random(count) < 0.9
    objects["number"] = random.integers(0, 10, count)
    server.truths[:count, 0] = random.integers(0, 2, count)
    server.make_grid()
    return server


@pytest.mark.parametrize("space", [PLANE, GLOBE])
@pytest.mark.parametrize("count", [0, 3, 40, 1500])
def test_nearest(space: Space, count: int) -> None:
    random = np.random.default_rng(count)
    server = _server(space, count, count)
    arrays = Server(
        server.objects, server.truths, server.queries, server.lists, server.ends, *np.zeros((2, 9), np.uint8)
    )
    query = server.queries[0]
    query["mode"], query["start"] = NEAREST, 2
    for _ in range(60):
        query["x"], query["y"] = (
            random.uniform(-250, 250) if space.globe else random.integers(-14, 14),
            random.integers(-14, 90),
        )
        query["k"], query["condition"] = random.integers(1, 12), random.integers(-1, 1)
        query["focal"] = random.integers(-1, max(1, count))
        k, who, far = int(query["k"]), np.zeros(12, np.int64), np.zeros(12)
        found = nearest(space, arrays, server.queries[0], server.grid, server.names.arrays, who, far)
        wanted = sorted(
            (distance(space, o["x"], o["y"], query["x"], query["y"]), f"object-{n}")
            for n, o in enumerate(server.objects[:count])
            if o["present"] and o["number"] >= 2 and n != query["focal"]
            if query["condition"] < 0 or server.truths[n, 0] & np.uint64(1)
        )[:k]
        assert [(far[n], f"object-{who[n]}") for n in range(found)] == wanted


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9)))
def test_the_list_by_age(order: list[int], forgotten: list[int]) -> None:
    records, ends = new_objects(10), np.full((2, 2), -1, np.int64)
    records["gone"] = 5
    remember_all(records, ends, np.int64(0), np.array(order, np.int64))
    for who in forgotten:
        forget_one(records, ends, np.int64(0), who)
    left, who = [], int(ends[0, 0])
    while who >= 0:
        left.append(who)
        who = int(records[who]["younger"])
    assert left == [who for who in order if who not in forgotten]
    assert ends[0, 1] == (left[-1] if left else -1)


def test_distances() -> None:
    assert distance(PLANE, 3.0, 4.0, 0.0, 0.0) == 5
    assert math.isclose(distance(GLOBE, 2.35, 48.85, -0.13, 51.51), 344, rel_tol=0.01)  # Paris to London
    assert math.isclose(distance(GLOBE, 179.0, 0.0, -179.0, 0.0), distance(GLOBE, 0.0, 0.0, 2.0, 0.0))


def test_places_nobody_has() -> None:
    assert new_queries(2)["number"].tolist() == [-1, -1]
