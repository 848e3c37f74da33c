"""The rows that a rendezvous zone may still have to show: recent items and candidates.

Rows come in batch by batch and are kept in chunks, so that a batch writes only what changed. A chunk is
dropped when nothing in it is needed. When the store has doubled since the last clean-up, chunks with many
unneeded rows are rewritten.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.arrow_columns import numbers_of
from anabranch.chain.state import State
from anabranch.families.nearest.kernels.number_table import look_up
from anabranch.model.arrays import Array, Ints
from anabranch.model.stream import NUMBER

PREFIX = "items/"
_CLEANED = "items kept"

#: Rows per chunk up to which further rows are added to it, and rows below which nothing is cleaned up.
FULL = 2048
SMALL = 16384

Extract = Callable[[pa.RecordBatch], Array]


class ItemStore:
    def __init__(self, state: State) -> None:
        self.state = state
        #: (chunk, token, name) -> column
        self._columns: dict[tuple[str, bytes, str], Array] = state.cached("item columns", [], dict)

    def keys(self) -> list[str]:
        return self.state.keys(PREFIX)

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows, sorted by number."""
        keys = self.keys()
        key = f"{PREFIX}{int(keys[-1].removeprefix(PREFIX)) + 1 if keys else 0:012d}"
        if keys:
            newest = self.rows(keys[-1])
            in_order = self.numbers(keys[-1])[-1] < rows.column(NUMBER)[0].as_py()
            if in_order and newest.num_rows + rows.num_rows <= FULL:
                key, rows = keys[-1], pa.concat_batches([newest, rows])
        self.state.put(key, rows)

    def add_missing(self, rows: pa.RecordBatch) -> None:
        """Adds those rows, sorted by number, that are not in the store yet."""
        stored = [self.numbers(key) for key in self.keys()]
        if stored:
            new = ~np.isin(numbers_of(rows), np.concatenate(stored))
            rows = rows if new.all() else rows.filter(pa.array(new))
        if rows.num_rows:
            self.add(rows)

    def copy(self, low: int, needed: Ints) -> pa.RecordBatch | None:
        """Returns the rows with number >= low, and those needed (sorted numbers), sorted by number."""
        parts = []
        for key in self.keys():
            numbers = self.numbers(key)
            keep = (numbers >= low) | np.isin(numbers, needed)
            parts.append(self.rows(key).filter(pa.array(keep)))
        if not parts:
            return None
        rows = pa.concat_batches(parts)
        return rows.take(pa.array(np.argsort(numbers_of(rows))))

    def rows(self, key: str) -> pa.RecordBatch:
        rows = self.state.rows(key)
        assert rows is not None
        return rows

    def column(self, key: str, name: str, extract: Extract) -> Array:
        """Returns a column of a chunk as `extract` computes it; `name` tells extracts apart. It is kept for
        the next batches.
        """
        column = (key, self.state.tokens[key], name)
        if column not in self._columns:
            self._columns[column] = extract(self.rows(key))
        return self._columns[column]

    def numbers(self, key: str) -> Ints:
        return self.column(key, NUMBER, numbers_of)

    def recent(self, low: int) -> RecentItems:
        """Returns the rows with number >= low."""
        return RecentItems(self, low)

    def drop_before(self, number: int) -> None:
        """Drops the chunks all of whose items are older."""
        for key in self.keys():
            if self.numbers(key)[-1] < number:
                self.state.drop(key)
        tokens = self.state.tokens
        for column in [column for column in self._columns if tokens.get(column[0]) != column[1]]:
            del self._columns[column]

    def clean_up(self, low: int, needed: Callable[[], Ints]) -> None:
        """If the store has doubled since it was last cleaned up, keeps only the rows with number >= low and
        those needed (sorted numbers).
        """
        total = sum(self.rows(key).num_rows for key in self.keys())
        if total <= 2 * (self.state.get_json(_CLEANED) or 0) + SMALL:
            return
        wanted = needed()
        kept = 0
        for key in self.keys():
            numbers = self.numbers(key)
            keep = (numbers >= low) | np.isin(numbers, wanted, assume_unique=True)
            kept += int(keep.sum())
            if not keep.any():
                self.state.drop(key)
            elif keep.sum() * 4 <= 3 * len(keep):
                self.state.put(key, self.rows(key).filter(pa.array(keep)))
        self.state.put_json(_CLEANED, kept)

    def take(self, numbers: Ints) -> pa.RecordBatch:
        """Returns the rows with these numbers, all of them in the store, in this order and as often as they
        are named; without the numbers, which the caller has.
        """
        keys = self.keys()
        indices = indices_of(np.concatenate([self.numbers(key) for key in keys]), numbers)
        rows = [self.rows(key).drop_columns([NUMBER]) for key in keys]
        return pc.take(pa.concat_batches(rows), pa.array(indices), boundscheck=False)


class RecentItems:
    """The rows of a store from a number on, in the order of their numbers."""

    def __init__(self, store: ItemStore, low: int) -> None:
        self.store = store
        self.spans: list[tuple[str, int]] = []
        for key in store.keys():  # noqa: SIM118 - a store is no dictionary
            numbers = store.numbers(key)
            if numbers[-1] >= low:
                self.spans.append((key, int(np.searchsorted(numbers, low))))
        self._order: Ints | None = None
        self.number: Ints = self.column(NUMBER, numbers_of)
        if len(self.number) and (np.diff(self.number) < 0).any():  # some came to be known late
            self._order = np.argsort(self.number)
            self.number = self.number[self._order]

    def column(self, name: str, extract: Extract) -> Array:
        parts = [self.store.column(key, name, extract)[first:] for key, first in self.spans]
        if not parts:
            return np.empty(0)
        column = np.concatenate(parts) if len(parts) > 1 else parts[0]
        return column if self._order is None else column[self._order]


#: A table of all numbers between the least and the greatest is built if it is at most so many times as long
#: as the array.
_SPARSE = 16


def indices_of(numbers: Ints, wanted: Ints) -> Ints:
    """Returns indices with numbers[indices] == wanted. numbers: not empty, each once, in any order; wanted:
    all of them among the numbers, in any order and as often as may be.
    """
    least, greatest = int(numbers.min()), int(numbers.max())
    if greatest - least >= _SPARSE * len(numbers):
        order = np.argsort(numbers)
        return np.asarray(order[np.searchsorted(numbers[order], wanted)])
    indices = np.empty(len(wanted), np.int64)
    look_up(numbers, least, wanted, np.empty(greatest - least + 1, np.int32), indices)
    return indices
