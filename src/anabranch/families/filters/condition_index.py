"""The index that finds the conditions which each item satisfies.

Items become codes, int64[columns, rows], in which every bound is two comparisons of integers: numbers keep
their order, strings become ranks among the constants in use, MISSING is where there is no value. The
conditions become boxes of such codes, and what a box cannot say is kept beside it: holes (`a != 3`), gaps (`a
<= b + 2`), and comparisons of two string columns. The outcome of the latter (-1, 0, 1) is computed per item
first and is a column of its own, on which the comparison is a bound.

    forest --> ConditionIndex --> match(items) --> nodes of each item       kernels/interval_index.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.families.filters.kernels.interval_index import (
    BOTH_FLOAT,
    INTEGERS,
    LEFT_FLOAT,
    RIGHT_FLOAT,
    walk,
)
from anabranch.families.filters.kernels.interval_index_build import (
    LEAST_SAMPLE,
    SlotBoxes,
    SlotExtras,
    build_index,
)
from anabranch.families.filters.kernels.value_codes import (
    TextConstants,
    constants_of,
    float_codes,
    text_codes,
)
from anabranch.model.arrays import Array, Ints, Ints32
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.boxes import BoxTable
from anabranch.predicates.codes import MISSING
from anabranch.predicates.conjunction import EQUAL, GREATER, LESS, UNEQUAL, Conjunction, Gap, GapKind, Normal

#: So many rows of a batch are looked at to judge which columns tell conditions apart.
SAMPLE = 1024

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
