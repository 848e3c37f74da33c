"""Builds the index of `interval_index.py`: which slots are looked up where, by which columns, in which cells.

It needs the boxes of slots (low, high), what a slot says besides, which node is below which, and a sample of
the rows. The sample decides only how fast results come, not what they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.families.filters.kernels.interval_index import (
    BLOCK,
    BOUND,
    COLUMN_2,
    FEW,
    GAP,
    GREATEST,
    HIGH_1,
    HIGH_2,
    HOLE,
    IS_HUB,
    KEY_END,
    KEY_NODE,
    KEY_REST,
    LEADS_ON,
    LOW_1,
    LOW_2,
    MISSING,
    NODE,
    SEVERAL,
    IntervalIndex,
)
from anabranch.model.arrays import Bools, Bytes, Floats, Ints, Ints32
from anabranch.numeric.jit import kernel

#: Fewer rows than this say too little about the others.
LEAST_SAMPLE = 64
#: So few slots are tested one by one.
FEW_SLOTS = 8
#: A hub has at least so many slots below it, and satisfies at most this part of the rows of the hub above.
HUB_SLOTS, HUB_PART = 48, 0.25
#: A grid on two columns pays if it saves so many candidates per row over a line on the better one of the two:
#: another group costs as much as about two candidates.
PAIR_SAVES = 2.0
#: What a search tree of two levels holds, and one of three. A grid is never finer than the first; on a line,
#: the third level pays when it saves two candidates.
FEW_ENDS, MOST_ENDS = 16**2 - 1, 16**3 - 1
#: Lists of cells may hold so many entries per slot, so that they stay in the cache.
LINE_ENTRIES, GRID_ENTRIES, GRID_CELLS = 64, 32, 8


class SlotBoxes(NamedTuple):
    """What is to be indexed. Nodes without slots are not in use."""

    low: Ints  # int64[slots, columns]: MISSING where there is no bound
    high: Ints  # int64[slots, columns]: GREATEST where there is no bound
    node: Ints32  # int32[slots], ascending
    parent: Ints32  # int32[nodes]: -1 for those below the root
    others: Bytes  # uint8[slots]: 1 if the slot has holes, gaps, or bounds on columns that are not here


class SlotExtras(NamedTuple):
    """What slots say besides their boxes."""

    bound: Ints  # int64[..., 4]: slot, column, low, high, by slot
    hole: Ints  # int64[..., 3]: slot, column, code, by slot
    gap: Ints  # int64[..., 6]: slot, and the columns of IntervalIndex.gap, by slot


def parts_of_rows(boxes: SlotBoxes, sample: Ints) -> Floats:
    """float64[slots, columns]: the part of the rows that each bound lets through, judged by a sample.

    sample int64[columns, m]; where it is small, the ends of the bounds themselves stand in for the rows.
    """
    parts = np.ones(boxes.low.shape)
    for column in range(boxes.low.shape[1]):
        low, high = boxes.low[:, column], boxes.high[:, column]
        bounded = (low > MISSING) | (high < GREATEST)
        ends = np.concatenate([low[low > MISSING], high[high < GREATEST]])
        seen = np.sort(sample[column] if sample.shape[1] >= LEAST_SAMPLE else ends)
        inside = np.searchsorted(seen, high, "right") - np.searchsorted(seen, low, "left")
        parts[:, column] = np.where(bounded, np.minimum((inside + 0.5) / (len(seen) + 1), 1.0), 1.0)
    return parts


def hubs_above(boxes: SlotBoxes, parts: Floats) -> tuple[Ints, Bools]:
    """For each node the hub that it is looked up at (the root is the number of nodes), and which are hubs."""
    nodes = len(boxes.parent)
    counts = np.bincount(boxes.node, minlength=nodes)
    part = np.minimum(np.bincount(boxes.node, parts.prod(axis=1), minlength=nodes), 1.0)
    parents, parts_of_nodes = boxes.parent.tolist(), [*part.tolist(), 1.0]
    order = _top_down(parents)
    below = [0] * nodes
    for node in reversed(order):
        if parents[node] >= 0:
            below[parents[node]] += below[node] + int(counts[node])
    hub, is_hub = [nodes] * nodes, [False] * (nodes + 1)
    for node in order:
        parent = parents[node]
        if parent >= 0:
            hub[node] = parent if is_hub[parent] else hub[parent]
        is_hub[node] = (
            below[node] >= HUB_SLOTS and parts_of_nodes[node] <= HUB_PART * parts_of_nodes[hub[node]]
        )
    return np.array(hub, np.int64), np.array(is_hub)


def _top_down(parents: list[int]) -> list[int]:
    """Nodes with every parent before its children."""
    children: dict[int, list[int]] = {}
    for node, above in enumerate(parents):
        children.setdefault(above, []).append(node)
    order: list[int] = []
    front = children.get(-1, [])
    while front:
        order += front
        front = [child for node in front for child in children.get(node, ())]
    return order


class _CellBuilder:
    """Collects the cells of an index; blocks are added one after the other."""

    def __init__(self, boxes: SlotBoxes, parts: Floats) -> None:
        self.boxes, self.parts = boxes, parts
        slots = len(boxes.node)
        self.several = np.bincount(boxes.node, minlength=len(boxes.parent) + 1) > 1
        self.bounded = (boxes.low > MISSING) | (boxes.high < GREATEST)
        self.checked = np.full((slots, 2), -1, np.int64)  # the columns of its keys, the same one twice if one
        self.cell_columns = np.full((slots, 2), -1, np.int64)
        self.key = _aligned([np.zeros(8 * slots, np.int64)]).reshape(slots, 8)
        self.key[:, KEY_NODE] = boxes.node
        self.block = [[0, 0]]
        self.find: list[list[int]] = []
        self.group: list[list[int]] = []
        self.trees = [np.empty(0, np.int64)]
        self.starts = [np.zeros(1, np.int64)]
        self.entries = [np.empty(0, np.int32)]
        self.tree_size = self.entry_count = self.cell_count = 0

    def add_block(self, slots: Ints) -> int:
        """Indexes these slots, each of which has a bound; returns the number of the block."""
        self._choose_columns(slots)
        self._set_keys(slots)
        pairs = [(int(a), int(b)) for a, b in np.unique(self.cell_columns[slots], axis=0)]
        columns = sorted({column for pair in pairs for column in pair})
        ends = {column: self._ends(slots, column) for column in columns}
        for column in columns:
            tree, levels = search_tree(ends[column])
            self.find.append([column, self.tree_size, levels])
            self.trees.append(tree)
            self.tree_size += len(tree)
        for pair in pairs:
            chosen = slots[(self.cell_columns[slots] == pair).all(axis=1)]
            self._add_group(chosen, pair, columns, ends)
        self.block.append([len(self.find), len(self.group)])
        return len(self.block) - 2

    def _choose_columns(self, slots: Ints) -> None:
        """Keys are the two columns that let least through. Both make cells if that pays, else the first."""
        parts = np.where(self.bounded[slots], self.parts[slots], 2.0)
        best = np.argsort(parts, axis=1, kind="stable")
        first, second = best[:, 0], best[:, min(1, best.shape[1] - 1)]
        part_1, part_2 = np.take_along_axis(parts, np.stack([first, second], axis=1), axis=1).T
        second = np.where(part_2 <= 1.0, second, first)  # there is only one bound
        pairs = np.sort(np.stack([first, second], axis=1), axis=1)
        saved = np.where(first != second, part_1 * (1 - np.minimum(part_2, 1.0)), 0.0)
        names = pairs[:, 0] * parts.shape[1] + pairs[:, 1]
        pays = (np.bincount(names, saved)[names] > PAIR_SAVES) & (first != second)
        self.checked[slots] = np.where(pays[:, None], pairs, np.stack([first, second], axis=1))
        self.cell_columns[slots] = np.where(pays[:, None], pairs, first[:, None])

    def _set_keys(self, slots: Ints) -> None:
        first, second = self.checked[slots].T
        low, high, one = self.boxes.low, self.boxes.high, first == second
        self.key[slots, LOW_1], self.key[slots, HIGH_1] = low[slots, first], high[slots, first]
        self.key[slots, COLUMN_2] = second
        self.key[slots, LOW_2] = np.where(one, MISSING, low[slots, second])
        self.key[slots, HIGH_2] = np.where(one, GREATEST, high[slots, second])

    def _ends(self, slots: Ints, column: int) -> Ints:
        """Where intervals begin and where they have just ended, of the slots with cells on this column."""
        here = slots[(self.cell_columns[slots] == column).any(axis=1)]
        low, high = self.boxes.low[here, column], self.boxes.high[here, column]
        ends = np.unique(np.concatenate([low[low > MISSING], high[high < GREATEST] + 1]))
        ends = ends[ends < GREATEST]
        is_line = (self.cell_columns[here] == column).all(axis=1).any()
        most = MOST_ENDS if is_line and len(ends) > 1023 else FEW_ENDS
        return ends if len(ends) <= most else ends[np.linspace(0, len(ends) - 1, most).astype(np.int64)]

    def _add_group(
        self, slots: Ints, pair: tuple[int, int], columns: list[int], ends: dict[int, Ints]
    ) -> None:
        boxes, is_line = self.boxes, pair[0] == pair[1]
        ranges = np.zeros((4, len(slots)), np.int64)
        sizes = [1, 1]
        for axis, column in enumerate(pair[: 1 if is_line else 2]):
            high = np.minimum(boxes.high[slots, column], GREATEST - 1)
            ranges[2 * axis] = np.searchsorted(ends[column], boxes.low[slots, column], "right")
            ranges[2 * axis + 1] = np.searchsorted(ends[column], high, "right")
            sizes[axis] = len(ends[column]) + 1
        shifts = _shifts(ranges, sizes, len(slots))
        ranges[:2] >>= shifts[0]
        ranges[2:] >>= shifts[1]
        height, width = (((size - 1) >> shift) + 1 for size, shift in zip(sizes, shifts, strict=True))
        start, entry = fill_cells(ranges, slots.astype(np.int32), height, width)
        long = (self.bounded[slots].sum(axis=1) > 2).any() or boxes.others[slots].any()
        plain = not boxes.others[slots].any() and not self.several[boxes.node[slots]].any()
        first, second = columns.index(pair[0]), columns.index(pair[1])
        shifts[1] = 62 if is_line else shifts[1]  # the only column of a line is 0
        flags = [pair[0], int(long), int(plain)]
        self.group.append([first, shifts[0], second, shifts[1], width, self.cell_count, *flags])
        self.starts.append(start[1:] + self.entry_count)
        self.entries.append(entry)
        self.cell_count += height * width
        self.entry_count += len(entry)


def _aligned(parts: list[Ints]) -> Ints:
    """The parts, int64, one after the other, from the start of a cache line: eight numbers are a line."""
    size = sum(part.size for part in parts)
    room = np.empty(size + 8, np.int64)
    start = -(room.ctypes.data // 8) % 8
    np.concatenate([part.ravel() for part in parts], out=room[start : start + size])
    return room[start : start + size]


def _shifts(ranges: Ints, sizes: list[int], slots: int) -> list[int]:
    """How many halvings of each column's buckets keep the lists within their limits."""
    shifts = [0, 0]
    grid = sizes[1] > 1
    most_entries = (GRID_ENTRIES if grid else LINE_ENTRIES) * slots + 4096
    while True:
        spans = [(ranges[2 * k + 1] >> shifts[k]) - (ranges[2 * k] >> shifts[k]) + 1 for k in (0, 1)]
        cut = [((size - 1) >> shift) + 1 for size, shift in zip(sizes, shifts, strict=True)]
        few_cells = not grid or cut[0] * cut[1] <= GRID_CELLS * slots + 256
        if few_cells and (spans[0] * spans[1]).sum() <= most_entries:
            return shifts
        shifts[0 if cut[0] >= cut[1] else 1] += 1


def search_tree(ends: Ints) -> tuple[Ints, int]:
    """Sorted ends as the tree that `bucket_of` searches: on each level the last end of every block below."""
    levels = 1
    while 16**levels - 1 < len(ends):
        levels += 1
    padded = np.full(16**levels, GREATEST, np.int64)
    padded[: len(ends)] = ends
    strides = [16 ** (levels - 1 - level) for level in range(levels)]
    return np.concatenate([padded[stride - 1 :: stride] for stride in strides]), levels


@kernel
def fill_cells(ranges: Ints, slots: Ints32, height: int, width: int) -> tuple[Ints, Ints32]:
    """Returns CSR cell -> slots. ranges int64[4, n]: first and last row, first and last column."""
    start = np.zeros(height * width + 1, np.int64)
    for index in range(len(slots)):
        for y in range(ranges[0, index], ranges[1, index] + 1):
            for x in range(ranges[2, index], ranges[3, index] + 1):
                start[y * width + x + 1] += 1
    for cell in range(height * width):
        start[cell + 1] += start[cell]
    entry = np.empty(start[-1], np.int32)
    fill = start[:-1].copy()
    for index in range(len(slots)):
        for y in range(ranges[0, index], ranges[1, index] + 1):
            for x in range(ranges[2, index], ranges[3, index] + 1):
                entry[fill[y * width + x]] = slots[index]
                fill[y * width + x] += 1
    return start, entry


def build_index(boxes: SlotBoxes, extras: SlotExtras, sample: Ints) -> IntervalIndex:
    parts = parts_of_rows(boxes, sample)
    above, is_hub = hubs_above(boxes, parts)
    cells = _CellBuilder(boxes, parts)
    hub, few = _hubs(boxes, cells, above, is_hub)
    slot, bound = _slots(boxes, extras, cells)
    return IntervalIndex(
        slot,
        bound,
        np.ascontiguousarray(extras.hole[:, 1:]),
        np.ascontiguousarray(extras.gap[:, 1:]),
        cells.key,
        hub,
        few,
        np.array(cells.block, np.int64),
        np.array(cells.find, np.int64).reshape(-1, 3),
        _aligned(cells.trees),
        np.array(cells.group, np.int64).reshape(-1, 9),
        np.concatenate(cells.starts).astype(np.int32),
        np.concatenate(cells.entries),
    )


def _hubs(boxes: SlotBoxes, cells: _CellBuilder, above: Ints, is_hub: Bools) -> tuple[Ints, Ints32]:
    """IntervalIndex.hub and .few; adds a block to the cells for each hub with many slots."""
    nodes = len(boxes.parent)
    few = [np.empty(0, np.int64)] * (nodes + 1)
    hub = np.zeros((nodes + 2, 5), np.int64)
    hub[:, BLOCK] = -1
    hub[:-1, IS_HUB], hub[:-1, SEVERAL] = is_hub, cells.several
    at = above[boxes.node]
    by_hub = np.argsort(at, kind="stable")
    hubs, starts = np.unique(at[by_hub], return_index=True)
    for number, start, end in zip(hubs, starts, [*starts[1:], len(at)], strict=False):
        slots = by_hub[start:end]
        hub[number, LEADS_ON] = is_hub[boxes.node[slots]].any()
        is_indexed = cells.bounded[slots].any(axis=1) & (len(slots) > FEW_SLOTS)
        few[number] = slots[~is_indexed]
        if is_indexed.any():
            hub[number, BLOCK] = cells.add_block(slots[is_indexed])
    hub[1:, FEW] = np.cumsum([len(slots) for slots in few])
    return hub, np.concatenate(few).astype(np.int32)


def _slots(boxes: SlotBoxes, extras: SlotExtras, cells: _CellBuilder) -> tuple[Ints, Ints]:
    """IntervalIndex.slot and .bound: the bounds of every slot, those on its key columns first."""
    count = len(boxes.node)
    number, bounded = np.nonzero(cells.bounded)
    is_key = (cells.checked[number] == bounded[:, None]).any(axis=1)
    bound = np.stack([number, bounded, boxes.low[number, bounded], boxes.high[number, bounded]], axis=1)
    bound = np.concatenate([bound[is_key], bound[~is_key], extras.bound])
    bound = bound[np.argsort(bound[:, 0], kind="stable")]
    slot = np.zeros((count + 1, 4), np.int64)
    slot[:-1, NODE] = boxes.node
    for column, owners in ((BOUND, bound[:, 0]), (HOLE, extras.hole[:, 0]), (GAP, extras.gap[:, 0])):
        slot[1:, column] = np.cumsum(np.bincount(owners, minlength=count))
    cells.key[:, KEY_REST] = slot[:-1, BOUND] + np.bincount(number[is_key], minlength=count)
    cells.key[:, KEY_END] = slot[1:, BOUND]
    return slot, np.ascontiguousarray(bound[:, 1:])
