"""Codes of floats and strings keep the order of what they stand for."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.filters.kernels.interval_boxes import (
    NodeBoxes,
    box_contains,
    contained,
    next_container,
)
from anabranch.families.filters.kernels.interval_index import MISSING
from anabranch.families.filters.kernels.value_codes import constants_of, float_codes, text_codes
from tests.drawn import examples
from tests.oracles.interval_index import box_contains_plain, float_codes_plain, text_codes_plain

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
