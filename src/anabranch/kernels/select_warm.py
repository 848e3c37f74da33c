"""Runs the kernels of `select` once, with the types they have in earnest."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.interval_boxes import NodeBoxes, box_contains, contained, next_container
from anabranch.kernels.select import GREATEST, MISSING, walk
from anabranch.kernels.select_build import FEW_SLOTS, Boxes, Extras, build_index
from anabranch.kernels.select_codes import constants_of, float_codes, text_codes


def warm_select() -> None:
    slots = FEW_SLOTS + 8  # enough for cells
    low, high = np.full((slots, 2), MISSING), np.full((slots, 2), GREATEST)
    low[:, 0] = np.arange(slots)
    node, parent = np.arange(slots, dtype=np.int32), np.full(slots, -1, np.int32)
    boxes = Boxes(low, high, node, parent, np.zeros(slots, np.uint8))
    extras = Extras(*(np.empty((0, width), np.int64) for width in (4, 3, 6)))
    codes = np.zeros((2, 3), np.int64)
    index = build_index(boxes, extras, codes)
    walk(index, codes, 0, np.zeros(4, np.int64), np.empty(6 * slots, np.int32))
    nodes = NodeBoxes(low, high, np.arange(slots), np.ones(slots, np.int64))
    box_contains(nodes, 0, 1)
    next_container(nodes, node, 0, slots, 1)
    contained(nodes, node, slots, 1)
    bits, texts, starts = np.zeros(3, np.int64), np.frombuffer(b"abc", np.uint8), np.arange(4, dtype=np.int32)
    bits.flags.writeable = starts.flags.writeable = False  # as they come from Arrow
    float_codes(bits, codes[0])
    text_codes(starts, texts, constants_of([b"b"]), codes[0])
