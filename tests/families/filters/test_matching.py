"""From items to the queries that they belong to, part by part: the walk over the index against every slot on
every row, codes in the order of what they stand for, containment of boxes, users of nodes against lists.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.filters.condition_index import (
    SlotBoxes,
    SlotExtras,
    build_index,
    constants_of,
    search_tree,
)
from anabranch.families.filters.kernels.matching import (
    BOTH_FLOAT,
    GREATEST,
    INTEGERS,
    LEFT_FLOAT,
    MISSING,
    RIGHT_FLOAT,
    NodeBoxes,
    box_contains,
    bucket_of,
    contained,
    fan_out,
    fill_cells,
    float_codes,
    next_container,
    owners_of,
    renumber,
    text_codes,
    walk,
)
from anabranch.model.arrays import Array
from tests.drawn import examples
from tests.oracles.interval_index import (
    box_contains_plain,
    bucket_of_plain,
    fill_cells_plain,
    float_codes_plain,
    match_plain,
    text_codes_plain,
)

COLUMNS, ROWS = 3, 40
EXTREMES = np.array([MISSING, MISSING + 1, -1, 0, 1, GREATEST - 1, GREATEST])


def random_boxes(rng: np.random.Generator, slots: int, width: int) -> SlotBoxes:
    """Slots with up to three bounds; some nodes have several."""
    low = np.full((slots, COLUMNS), MISSING)
    high = np.full((slots, COLUMNS), GREATEST)
    for slot in range(slots):
        for column in rng.permutation(COLUMNS)[: rng.integers(0, COLUMNS + 1)]:
            start = rng.integers(-50, 50)
            low[slot, column] = start if rng.random() < 0.9 else rng.choice(EXTREMES[:-1])
            high[slot, column] = max(low[slot, column], start + rng.integers(0, width))
    if rng.random() < 0.5:
        low[: slots // 10], high[: slots // 10] = [[-20, -20, -20]], [[20, 20, 20]]
    node = np.sort(rng.integers(0, max(1, slots * 3 // 4), slots)).astype(np.int32)
    node = np.unique(node, return_inverse=True)[1].astype(np.int32)
    return SlotBoxes(low, high, node, np.full(int(node.max()) + 1, -1, np.int32), np.zeros(slots, np.uint8))


def set_parents(boxes: SlotBoxes) -> None:
    """For each node one of those with smaller numbers that are boxes and contain it, or -1."""
    low, high, node, parent, others = boxes
    for narrow in range(1, len(parent)):
        mine = np.flatnonzero(node == narrow)
        for wide in range(narrow):
            theirs = np.flatnonzero(node == wide)
            inside = (low[theirs] <= low[mine][:, None]) & (high[theirs] >= high[mine][:, None])
            if inside.all(axis=2).any(axis=1).all() and not others[theirs].any():
                parent[narrow] = wide


def random_extras(rng: np.random.Generator, boxes: SlotBoxes) -> SlotExtras:
    """Holes and gaps on some slots; the columns of a gap are present, as the normal form has it."""
    holes, gaps = [], []
    for slot in range(len(boxes.node)):
        if rng.random() < 0.1:
            holes.append((slot, rng.integers(COLUMNS), rng.integers(-50, 50)))
            boxes.others[slot] = 1
        if rng.random() < 0.1:
            left, right = rng.permutation(COLUMNS)[:2]
            kind = rng.choice([INTEGERS, LEFT_FLOAT, RIGHT_FLOAT, BOTH_FLOAT])
            offset = (
                rng.choice(EXTREMES[1:-1]) if kind == INTEGERS else np.float64(rng.normal()).view(np.int64)
            )
            gaps.append((slot, left, right, kind, rng.integers(1, 7), offset))
            boxes.low[slot, [left, right]] = np.maximum(boxes.low[slot, [left, right]], MISSING + 1)
            boxes.others[slot] = 1

    def table(rows: list[Any], width: int) -> Array:
        return np.array(rows, np.int64).reshape(-1, width)

    return SlotExtras(np.empty((0, 4), np.int64), table(holes, 3), table(gaps, 6))


def matched(
    boxes: SlotBoxes, extras: SlotExtras, codes: Array, sample: Array, room: int
) -> tuple[Array, Array]:
    """With a buffer so small that the walk has to be resumed."""
    index = build_index(boxes, extras, sample)
    offsets, nodes, row = np.zeros(codes.shape[1] + 1, np.int64), np.empty(0, np.int32), 0
    while row < codes.shape[1]:
        nodes = np.concatenate([nodes, np.empty(len(boxes.node) + room, np.int32)])
        row = walk(index, codes, row, offsets, nodes)
    return offsets, nodes[: offsets[-1]]


@settings(max_examples=examples(120))
@given(st.integers(0, 2**32), st.sampled_from([1, 5, 20, 150]), st.sampled_from([1, 5, 60]), st.booleans())
def test_walk(seed: int, slots: int, width: int, sampled: bool) -> None:
    rng = np.random.default_rng(seed)
    boxes = random_boxes(rng, slots, width)
    extras = random_extras(rng, boxes)
    set_parents(boxes)
    codes = rng.integers(-55, 55, (COLUMNS, ROWS))
    codes[rng.random(codes.shape) < 0.1] = rng.choice(EXTREMES)
    sample = rng.integers(-55, 55, (COLUMNS, 100 if sampled else 3))
    expected_offsets, expected = match_plain(boxes, extras, codes)
    offsets, nodes = matched(boxes, extras, codes, sample, int(rng.integers(2, 50)))
    assert offsets.tolist() == expected_offsets.tolist()
    assert nodes.tolist() == expected.tolist()


@settings(max_examples=examples(20))
@given(st.integers(0, 2**32), st.sampled_from(["line", "grid", "nest", "chain"]))
def test_walk_with_many_slots(seed: int, shape: str) -> None:
    """Enough slots for grids, three levels of buckets, and hubs below hubs."""
    rng = np.random.default_rng(seed)
    count = 1200
    low, high = np.full((count, 2), MISSING), np.full((count, 2), GREATEST)
    starts = rng.integers(0, 10**6, (count, 2))
    parent = np.full(count, -1, np.int32)
    if shape == "chain":
        low[:, 0] = np.sort(starts[:, 0])
        parent = np.arange(-1, count - 1, dtype=np.int32)
    else:
        columns = 2 if shape == "grid" else 1
        low[:, :columns], high[:, :columns] = starts[:, :columns], starts[:, :columns] + 10**5 // 2
    if shape == "nest":  # ten wide ones above the others
        low[:10, 0], high[:10, 0] = np.arange(10) * 10**5, np.arange(10) * 10**5 + 10**5 - 1
        low[10:, 0] = low[10:, 0] // 10**5 * 10**5 + starts[10:, 1] % 90000
        high[10:, 0] = low[10:, 0] + 9999
        parent[10:] = low[10:, 0] // 10**5
    node = np.arange(count, dtype=np.int32)
    boxes = SlotBoxes(low, high, node, parent, np.zeros(count, np.uint8))
    extras = SlotExtras(*(np.empty((0, width), np.int64) for width in (4, 3, 6)))
    codes = rng.integers(0, 10**6, (2, 200))
    expected_offsets, expected = match_plain(boxes, extras, codes)
    offsets, nodes = matched(boxes, extras, codes, codes, 3)
    assert offsets.tolist() == expected_offsets.tolist()
    assert nodes.tolist() == expected.tolist()


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 15, 16, 255, 256, 4095, 5000]))
def test_bucket_of(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    ends = np.unique(rng.integers(-(10**4), 10**4, count))
    if count > 20:
        ends[[0, -1]] = MISSING + 1, GREATEST - 1
    tree, levels = search_tree(ends)
    for code in [*rng.integers(-(10**4), 10**4, 50).tolist(), *EXTREMES[:-1].tolist()]:
        assert bucket_of(tree, 0, levels, code) == bucket_of_plain(ends, code)
    assert bucket_of(tree, 0, levels, GREATEST) == len(ends)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6))
def test_fill_cells(seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 20))
    ranges = np.concatenate(
        [
            np.sort(rng.integers(0, height, (2, count)), axis=0),
            np.sort(rng.integers(0, width, (2, count)), axis=0),
        ]
    )
    slots = np.arange(count, dtype=np.int32)
    for found, expected in zip(
        fill_cells(ranges, slots, height, width), fill_cells_plain(ranges, slots, height, width), strict=True
    ):
        assert found.tolist() == expected.tolist()


# codes and boxes

TEXTS = st.lists(
    st.text(max_size=12) | st.sampled_from(["", "a", "a\0", "longprefix1", "longprefix2", "longpref"])
)


@settings(max_examples=examples(200))
@given(st.lists(st.floats(), min_size=1))
def test_float_codes(values: list[float]) -> None:
    array = np.array(values)
    codes = np.empty(len(array), np.int64)
    float_codes(array.view(np.int64), codes)
    assert codes.tolist() == float_codes_plain(array).tolist()
    for value, code in zip(values, codes.tolist(), strict=True):
        assert math.isnan(value) == (code == MISSING)
        assert math.isnan(value) or all(
            (value < v) == (code < c) for v, c in zip(values, codes, strict=True) if v == v
        )


@settings(max_examples=examples(300))
@given(TEXTS, TEXTS)
def test_text_codes(values: list[str], constants: list[str]) -> None:
    known = sorted({constant.encode() for constant in constants})
    column = pa.array(values, pa.string())
    codes = np.empty(len(values), np.int64)
    _, start, data = column.buffers()
    starts = np.frombuffer(start, np.int32)[: len(values) + 1] if values else np.zeros(1, np.int32)
    text_codes(starts, np.frombuffer(data or b"\0", np.uint8), constants_of(known), codes)
    assert codes.tolist() == text_codes_plain([value.encode() for value in values], known).tolist()


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_containment_of_boxes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 3, 12)
    begin = np.cumsum(size) - size
    low = rng.integers(0, 4, (int(size.sum()), 2))
    boxes = NodeBoxes(low, low + rng.integers(0, 4, low.shape), begin, size)
    order = rng.permutation(12).astype(np.int32)
    for node in range(12):
        wider = [
            index
            for index in range(12)
            if order[index] != node and box_contains_plain(boxes, order[index], node)
        ]
        assert next_container(boxes, order, 0, 12, node) == (wider[0] if wider else 12)
        inner = [other for other in order[:9] if other != node and box_contains_plain(boxes, node, other)]
        assert contained(boxes, order, 9, node).tolist() == inner
        assert all(box_contains(boxes, node, other) for other in inner)


# from nodes to users

NODE_COUNT = 5
NODES_OF_ROWS = st.lists(st.lists(st.integers(0, NODE_COUNT - 1), unique=True).map(sorted), max_size=8)
USERS = st.lists(st.lists(st.integers(0, 99), max_size=3), min_size=NODE_COUNT, max_size=NODE_COUNT)


def _csr(lists: list[list[int]], kind: type) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, lists)]), np.array([entry for part in lists for entry in part], kind)


@given(NODES_OF_ROWS, USERS)
def test_fan_out(rows: list[list[int]], users: list[list[int]]) -> None:
    kept, offsets, found = fan_out(*_csr(rows, np.int32), *_csr(users, np.int32))
    plain = [[user for node in nodes for user in users[node]] for nodes in rows]
    assert kept.tolist() == [row for row, names in enumerate(plain) if names]
    parts = [found[a:b].tolist() for a, b in pairwise(offsets)]
    assert parts == [names for names in plain if names]


@given(NODES_OF_ROWS, st.lists(st.integers(-1, NODE_COUNT - 1), max_size=6))
def test_owners_of(rows: list[list[int]], node_of_slot: list[int]) -> None:
    """Slots of one node are chained, the youngest first."""
    first, peer = np.full(NODE_COUNT, -1), np.full(len(node_of_slot), -1)
    chains: dict[int, list[int]] = {}
    for slot, node in enumerate(node_of_slot):
        if node >= 0:
            peer[slot], first[node] = first[node], slot
            chains.setdefault(node, []).insert(0, slot)
    found_rows, found_slots = owners_of(*_csr(rows, np.int32), first, peer)
    plain = [(row, slot) for row, nodes in enumerate(rows) for node in nodes for slot in chains.get(node, [])]
    assert list(zip(found_rows.tolist(), found_slots.tolist(), strict=True)) == plain


@given(st.lists(st.integers(0, 19), max_size=30))
def test_renumber(codes: list[int]) -> None:
    new, places = np.array(codes, np.int32), np.full(20, -1, np.int32)
    old = renumber(new, places)
    assert old.tolist() == list(dict.fromkeys(codes))
    assert old[new].tolist() == codes
    assert (places == -1).all()
