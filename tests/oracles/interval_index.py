"""What the kernels of `select` compute, in plain numpy and Python; slow."""

from __future__ import annotations

import struct
from bisect import bisect_left

import numpy as np

from anabranch.families.filters.condition_index import SlotBoxes, SlotExtras
from anabranch.families.filters.kernels.matching import (
    EQUAL,
    GREATER,
    INTEGERS,
    LEFT_FLOAT,
    LESS,
    MISSING,
    RIGHT_FLOAT,
    NodeBoxes,
)
from anabranch.model.arrays import Array


def match_plain(boxes: SlotBoxes, extras: SlotExtras, codes: Array) -> tuple[Array, Array]:
    """Every slot on every row: CSR row -> nodes."""
    holds = np.ones((codes.shape[1], len(boxes.node)), bool)
    for slot in range(len(boxes.node)):
        for column in range(boxes.low.shape[1]):
            holds[:, slot] &= codes[column] >= boxes.low[slot, column]
            holds[:, slot] &= codes[column] <= boxes.high[slot, column]
    for slot, column, low, high in extras.bound.tolist():
        holds[:, slot] &= (codes[column] >= low) & (codes[column] <= high)
    for slot, column, code in extras.hole.tolist():
        holds[:, slot] &= codes[column] != code
    for slot, *gap in extras.gap.tolist():
        holds[:, slot] &= [_gap_holds(gap, row) for row in codes.T.tolist()]
    found = [np.unique(boxes.node[row]) for row in holds]
    offsets = np.concatenate([[0], np.cumsum([len(nodes) for nodes in found])])
    return offsets.astype(np.int64), np.concatenate([np.empty(0, np.int32), *found]).astype(np.int32)


def _gap_holds(gap: list[int], row: list[int]) -> bool:
    left, right, kind, signs, offset = row[gap[0]], row[gap[1]], *gap[2:]
    if MISSING in (left, right):
        return False
    if kind == INTEGERS:
        here, there = float(left > right + offset), float(left < right + offset)
    else:
        here = _float_of(left) if kind & LEFT_FLOAT else float(left)
        there = _float_of(right) if kind & RIGHT_FLOAT else float(right)
        there += struct.unpack("<d", struct.pack("<q", offset))[0]
    return bool(signs & (LESS if here < there else EQUAL if here == there else GREATER))


def _float_of(code: int) -> float:
    magnitude: float = struct.unpack("<d", struct.pack("<q", abs(code)))[0]
    return magnitude if code >= 0 else -magnitude


def bucket_of_plain(ends: Array, code: int) -> int:
    return int(np.searchsorted(ends, code, "right"))


def fill_cells_plain(ranges: Array, slots: Array, height: int, width: int) -> tuple[Array, Array]:
    lists: list[list[int]] = [[] for _ in range(height * width)]
    for index, slot in enumerate(slots.tolist()):
        for y in range(ranges[0, index], ranges[1, index] + 1):
            for x in range(ranges[2, index], ranges[3, index] + 1):
                lists[y * width + x].append(slot)
    start = np.concatenate([[0], np.cumsum([len(cell) for cell in lists])])
    return start.astype(np.int64), np.array([slot for cell in lists for slot in cell], np.int32)


def float_codes_plain(values: Array) -> Array:
    bits = values.view(np.int64)
    return np.where(np.isnan(values), MISSING, np.where(bits < 0, MISSING - bits, bits))


def text_codes_plain(texts: list[bytes], constants: list[bytes]) -> Array:
    codes = []
    for text in texts:
        rank = bisect_left(constants, text)
        codes.append(2 * rank + (rank < len(constants) and constants[rank] == text))
    return np.array(codes, np.int64)


def box_contains_plain(boxes: NodeBoxes, wide: int, narrow: int) -> bool:
    def rows(values: Array, node: int) -> Array:
        return values[boxes.first[node] : boxes.first[node] + boxes.boxes[node]]

    low, high = rows(boxes.low, narrow)[:, None], rows(boxes.high, narrow)[:, None]
    inside = (rows(boxes.low, wide) <= low) & (rows(boxes.high, wide) >= high)
    return bool(np.all(np.any(np.all(inside, axis=2), axis=1)))
