"""The index that finds the conditions which each item satisfies.

Items become codes, int64[columns, rows], in which every bound is two comparisons of integers: numbers keep
their order, strings become ranks among the constants in use, MISSING is where there is no value. The
conditions become boxes of such codes, and what a box cannot say is kept beside it: holes (`a != 3`), gaps (`a
<= b + 2`), and comparisons of two string columns. The outcome of the latter (-1, 0, 1) is computed per item
first and is a column of its own, on which the comparison is a bound.

    forest --> ConditionIndex --> match(items) --> nodes of each item       kernels/matching.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.families.filters.kernels.matching import (
    BLOCK,
    BOTH_FLOAT,
    BOUND,
    COLUMN_2,
    FEW,
    GAP,
    GREATEST,
    HIGH_1,
    HIGH_2,
    HOLE,
    INTEGERS,
    IS_HUB,
    KEY_END,
    KEY_NODE,
    KEY_REST,
    LEADS_ON,
    LEFT_FLOAT,
    LOW_1,
    LOW_2,
    MISSING,
    NODE,
    RIGHT_FLOAT,
    SEVERAL,
    TEXT_HEAD,
    IntervalIndex,
    TextConstants,
    fill_cells,
    float_codes,
    text_codes,
    walk,
)
from anabranch.model.arrays import Array, Bools, Bytes, Floats, Ints, Ints32
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.boxes import BoxTable
from anabranch.predicates.conjunction import EQUAL, GREATER, LESS, UNEQUAL, Conjunction, Gap, GapKind, Normal

#: So many rows of a batch are looked at to judge which columns tell conditions apart.
SAMPLE = 1024

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

_FLOAT_KIND = {(True, False): LEFT_FLOAT, (False, True): RIGHT_FLOAT, (True, True): BOTH_FLOAT}


class ConditionIndex:
    """An index of conditions that do not change. `rows` are items by which it judges what pays."""

    def __init__(
        self,
        normals: Mapping[int, Normal],
        parents: Ints32,
        table: BoxTable,
        box_rows: Ints,
        stream: Stream,
        rows: pa.RecordBatch,
    ) -> None:
        """`normals` are the conditions by node, ascending; `parents` has the parent of every node. The boxes
        of their conjunctions are rows `box_rows` of the table, in the same order.
        """
        used = sorted({column for normal in normals.values() for column in normal.columns()})
        self._columns = [_CodedColumn(name, stream, table) for name in used]
        extras = _ExtrasBuilder(table, used, stream)
        others = np.zeros(len(box_rows), np.uint8)
        conjunctions = (conjunction for normal in normals.values() for conjunction in normal.conjunctions)
        for slot, conjunction in enumerate(conjunctions):
            if not conjunction.is_box:
                extras.add(slot, conjunction)
                others[slot] = 1
        counts = [len(normal.conjunctions) for normal in normals.values()]
        owners = np.repeat(np.array(list(normals), np.int32), counts)
        columns = [table.columns[column] for column in used]
        low, high = table.low[box_rows][:, columns], table.high[box_rows][:, columns]
        self._pairs = list(extras.pairs)
        self._sampled = rows.num_rows
        self._density = 1.0  # nodes per row, as far as seen
        sample = self._codes(sample_of(rows, SAMPLE))
        self._index = build_index(SlotBoxes(low, high, owners, parents, others), extras.finish(), sample)

    def is_worth_building_again(self, rows: pa.RecordBatch) -> bool:
        """Returns whether these rows are enough to judge by, and those that it was built with were not."""
        return self._sampled < LEAST_SAMPLE and bool(rows.num_rows >= LEAST_SAMPLE)

    def match(self, rows: pa.RecordBatch) -> tuple[Ints, Ints32]:
        """CSR row -> nodes, ascending: offsets int64[rows + 1], nodes int32[...]."""
        offsets = np.zeros(rows.num_rows + 1, np.int64)
        codes = self._codes(rows)
        spare = len(self._index.slot) + 2
        nodes = np.empty(int(self._density * rows.num_rows * 1.1) + spare, np.int32)
        row = walk(self._index, codes, 0, offsets, nodes)
        while row < rows.num_rows:
            expected = int(offsets[row] / max(row, 1) * rows.num_rows * 1.1)
            nodes = np.concatenate([nodes, np.empty(max(expected - len(nodes), len(nodes), spare), np.int32)])
            row = walk(self._index, codes, row, offsets, nodes)
        self._density = float(offsets[-1]) / rows.num_rows
        return offsets, nodes[: offsets[-1]]

    def _codes(self, rows: pa.RecordBatch) -> Ints:
        """int64[columns and pairs of string columns, rows]"""
        codes = np.empty((len(self._columns) + len(self._pairs), rows.num_rows), np.int64)
        for index, column in enumerate(self._columns):
            column.fill(rows, codes[index])
        for index, (left, right) in enumerate(self._pairs, len(self._columns)):
            fill_signs(rows.column(left), rows.column(right), codes[index])
        return codes


def sample_of(rows: pa.RecordBatch, most: int) -> pa.RecordBatch:
    """At most so many rows, evenly spread."""
    step = max(1, -(-rows.num_rows // most))
    return rows.take(pa.array(np.arange(0, rows.num_rows, step))) if step > 1 else rows


# what a box cannot say


class _ExtrasBuilder:
    """Collects what conjunctions say besides their boxes. `columns` are those of the index; pairs of string
    columns come after them.
    """

    def __init__(self, table: BoxTable, columns: list[str], stream: Stream) -> None:
        self.table, self.stream = table, stream
        self.indexes = {column: index for index, column in enumerate(columns)}
        self.pairs: dict[tuple[str, str], int] = {}
        self._bounds: list[tuple[int, ...]] = []
        self._holes: list[tuple[int, ...]] = []
        self._gaps: list[tuple[int, ...]] = []

    def add(self, slot: int, conjunction: Conjunction) -> None:
        """Slots come in ascending order."""
        for hole in conjunction.holes:
            code = self.table.code(hole.column, hole.type, hole.position)
            self._holes.append((slot, self.indexes[hole.column], code))
        for gap in conjunction.gaps:
            if gap.kind is GapKind.TEXT:
                self._add_text(slot, gap)
            else:
                self._add_number(slot, gap)

    def _add_text(self, slot: int, gap: Gap) -> None:
        index = self.pairs.setdefault((gap.left, gap.right), len(self.indexes) + len(self.pairs))
        low = -1 if gap.signs & LESS else 0 if gap.signs & EQUAL else 1
        high = 1 if gap.signs & GREATER else 0 if gap.signs & EQUAL else -1
        self._bounds.append((slot, index, low, high))
        if gap.signs == UNEQUAL:
            self._holes.append((slot, index, 0))

    def _add_number(self, slot: int, gap: Gap) -> None:
        kind, offset = INTEGERS, int(gap.offset)
        if gap.kind is GapKind.FLOATS:
            kinds = (self.stream.type_of(column) is ColumnType.FLOAT for column in (gap.left, gap.right))
            kind, offset = _FLOAT_KIND[next(kinds), next(kinds)], int(np.float64(gap.offset).view(np.int64))
        self._gaps.append((slot, self.indexes[gap.left], self.indexes[gap.right], kind, gap.signs, offset))

    def finish(self) -> SlotExtras:
        return SlotExtras(_rows(self._bounds, 4), _rows(self._holes, 3), _rows(self._gaps, 6))


def _rows(rows: Iterable[tuple[int, ...]], width: int) -> Ints:
    return np.array(list(rows), np.int64).reshape(-1, width)


# items as codes


class _CodedColumn:
    """How the values of a column become codes (predicates/codes.py)."""

    def __init__(self, name: str, stream: Stream, table: BoxTable) -> None:
        self.name, self.type = name, stream.type_of(name)
        self.constants: TextConstants | None = None
        if self.type is ColumnType.STRING:
            self.constants = constants_of(table.texts.get(name, []))

    def fill(self, rows: pa.RecordBatch, codes: Ints) -> None:
        """Writes the codes of these rows into int64[rows]."""
        column = rows.column(self.name)
        if self.type is ColumnType.FLOAT:
            float_codes(_values(column, pa.float64()).view(np.int64), codes)
        elif self.constants is not None:
            _fill_texts(column, self.constants, codes)
        else:
            whole = column.cast(pa.uint8()) if self.type is ColumnType.BOOL else column
            if self.type is ColumnType.TIMESTAMP and column.type.unit != "us":
                whole = column.cast(pa.timestamp("us", column.type.tz))
            np.maximum(_values(whole, pa.int64()), MISSING + 1, out=codes)
        if column.null_count:
            codes[column.is_null().to_numpy(zero_copy_only=False)] = MISSING


def fill_signs(left: pa.Array, right: pa.Array, codes: Ints) -> None:
    """-1, 0 or 1 for each row of two string columns, MISSING where one is missing."""
    less, greater = pc.less(left, right), pc.greater(left, right)
    np.subtract(_flags(greater), _flags(less), out=codes)
    if less.null_count:
        codes[less.is_null().to_numpy(zero_copy_only=False)] = MISSING


def _values(column: pa.Array, kind: pa.DataType) -> Array:
    """The values of a column as they lie in memory, with anything where they are null."""
    if column.type != kind:
        column = column.cast(kind)
    if not len(column):
        return np.empty(0, kind.to_pandas_dtype())
    return _from_buffer(column.buffers()[1], kind.to_pandas_dtype(), column.offset, len(column))


def _fill_texts(column: pa.Array, constants: TextConstants, codes: Ints) -> None:
    """Ranks among the constants; no string is copied."""
    if not len(column):
        return
    if column.type != pa.string():
        column = column.cast(pa.string())
    _, start, data = column.buffers()
    starts = _from_buffer(start, np.int32, column.offset, len(column) + 1)
    text_codes(starts, _from_buffer(data or b"\0", np.uint8), constants, codes)


def _from_buffer(data: Any, kind: Any, first: int = 0, count: int = -1) -> Array:
    """Never writeable, though some buffers of Arrow are: a kernel is compiled once for each of the two."""
    values = np.frombuffer(data, kind, count, first * np.dtype(kind).itemsize)
    values.flags.writeable = False
    return values


def _flags(column: pa.Array) -> Ints:
    flags: Ints = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
    return flags


def constants_of(texts: list[bytes]) -> TextConstants:
    """`texts` sorted by their bytes, each once."""
    data = np.frombuffer(b"".join(texts) + b"\0" * TEXT_HEAD, np.uint8)
    start = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int32)
    heads = np.array(
        [int.from_bytes(text[:TEXT_HEAD].ljust(TEXT_HEAD, b"\0")) - 2**63 for text in texts], np.int64
    )
    head, first = np.unique(heads, return_index=True)
    tree, levels = search_tree(head)
    return TextConstants(start, data, tree, levels, head, np.append(first, len(texts)).astype(np.int64))


# building the index: which slots are looked up where, by which columns, in which cells


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
