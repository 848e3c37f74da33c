"""The index of fences: which of many queries around fixed points watch a cell of the grid.

A bit per query and cell would be mostly zeros: with 23,000 fences a cell is touched by some dozens. Fences
that lie near each other and are of similar size get places near each other, so those of a cell share a few
words of 64 bits, and only these words are kept:

    cell 17    word 3: ..1.11.1..   word 4: 1.1.......   word 90: .....1....
    cell 18    word 3: ..1.11....   word 4: 1.1.1.....

The index is built for all fences there are, also for those that do not watch yet. Their bits are set and
cleared in place when they start and end (object_grid).
"""

from __future__ import annotations

import numpy as np

from anabranch.families.moving.kernels.arrays import (
    FENCE,
    FENCE_BITS,
    ZERO,
    FenceIndex,
    Int,
    Metric,
    ObjectGrid,
)
from anabranch.families.moving.kernels.object_grid import cells_in_reach
from anabranch.model.arrays import Array, Ints
from anabranch.numeric.jit import kernel


@kernel
def count_cells(metric: Metric, queries: Array, slots: Ints, grid: ObjectGrid) -> Int:
    """Returns how many cells these queries touch, each counted for itself."""
    total = ZERO
    for index in range(len(slots)):
        first, last, low, high = cells_in_reach(metric, queries[slots[index]], grid)
        total += (last - first + 1) * (high - low + 1)
    return total


@kernel
def place_fences(queries: Array, slots: Ints) -> tuple[Array, Ints]:
    """Gives the queries in `slots` places 0, 1, ...; returns the fences (FENCE), and for each word of 64 the
    latest first_item among its fences.
    """
    fences = np.empty(len(slots), FENCE)
    latest = np.zeros((len(slots) + 63) // 64, np.int64)
    for place in range(len(slots)):
        query, fence = queries[slots[place]], fences[place]
        query.place = place
        fence.x = query.x
        fence.y = query.y
        fence.a = query.a
        fence.b = query.b
        fence.first_item = query.first_item
        fence.number = query.number
        fence.slot = slots[place]
        fence.condition = query.condition
        fence.mode = query.mode
        fence.shape = query.shape
        latest[place // 64] = max(latest[place // 64], query.first_item)
    return fences, latest


@kernel
def index_cells(metric: Metric, queries: Array, fences: Array, latest: Ints, grid: ObjectGrid) -> FenceIndex:
    """Returns the index of fences (FENCE) that no cell is watched by yet."""
    cells = grid.columns * grid.rows
    first = np.zeros(cells + 1, np.int32)
    seen = np.full(cells, np.int32(-1))  # the last word that touched a cell
    for place in range(len(fences)):
        left, right, low, high = cells_in_reach(metric, queries[fences[place].slot], grid)
        for row in range(low, high + 1):
            for cell in range(row * grid.columns + left, row * grid.columns + right + 1):
                if seen[cell] != place // 64:
                    seen[cell] = place // 64
                    first[cell + 1] += 1
    for cell in range(cells):
        first[cell + 1] += first[cell]
        seen[cell] = -1
    bits, used = np.zeros(first[cells], FENCE_BITS), first[:cells].copy()
    for place in range(len(fences)):
        left, right, low, high = cells_in_reach(metric, queries[fences[place].slot], grid)
        for row in range(low, high + 1):
            for cell in range(row * grid.columns + left, row * grid.columns + right + 1):
                if seen[cell] != place // 64:
                    seen[cell] = place // 64
                    bits[used[cell]].word = place // 64
                    used[cell] += 1
    return FenceIndex(fences, latest, first, bits)
