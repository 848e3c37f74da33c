"""The rows that a rendezvous zone may still have to show: recent items and candidates.

Rows come in batch by batch and are kept in chunks, so that a batch writes only what changed. A chunk is
dropped when nothing in it is needed. When the store has doubled since the last clean-up, chunks with many
unneeded rows are rewritten.

`RowClock` knows how many items came before each: the clock of ROWS windows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.items import numbers_of
from anabranch.chain.state import Arrays, State
from anabranch.families.nearest.kernels.arrays import Moments, look_up
from anabranch.families.nearest.space import By
from anabranch.model.arrays import Array, Bools, Ints
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


# the clock of ROWS windows


@dataclass(frozen=True)
class Arrivals:
    """The new items of a batch, by number: all of them, whether they are known here or only passed by."""

    numbers: Ints
    times: Array  # or the numbers again, where the stream has no time
    present: dict[By, Bools]  # whether an item has all these coordinates


class RowClock:
    """The clock of ROWS windows for one tuple of columns: how many items with all coordinates came before.

    That count is an item's *ordinal*: its number less the items without coordinates up to it. Those are few,
    so only they are stored, and of them only the ones among recent items.

        numbers            0  1  2  3  4  5  6         1 and 4 lack a coordinate
        ordinals           0  0  1  2  2  3  4         theirs are those of the item before

    Items that passed while there was no query are not known here, and count as items without coordinates.
    """

    PREFIX = "clock/"

    def __init__(self, state: State, by: By, arrivals: Arrivals, first_new: int, stop: int) -> None:
        """`first_new` is the number of the first new item, `stop` that of the next batch's first."""
        self.state, self.key = state, self.PREFIX + json.dumps(by)
        stored = state.get(self.key)
        self._lost = int(stored["lost"][0]) if stored is not None else 0
        before = stored["missing"] if stored is not None else np.empty(0, np.int64)
        present = arrivals.present[by]
        self.numbers = arrivals.numbers[present]
        start = int(arrivals.numbers[0]) if len(arrivals.numbers) else stop
        self._lost += start - first_new
        unknown = self.numbers[:0]
        if len(self.numbers) < stop - start:
            unknown = np.setdiff1d(np.arange(start, stop), self.numbers)
        self._missing = np.r_[before, unknown]
        self._changed = stored is None or start > first_new or len(unknown) > 0
        self.first = int(start - self._lost - len(before))
        self._times = arrivals.times[present]

    def of(self, numbers: Ints) -> Ints:
        """Returns the ordinals of items."""
        return np.asarray(
            numbers - self._lost - np.searchsorted(self._missing, numbers, side="right"), np.int64
        )

    @property
    def stop(self) -> int:
        """The ordinal of the next item."""
        return self.first + len(self.numbers)

    def before(self, number: int) -> int:
        """Returns the ordinal of the first item with at least this number, if it is new."""
        return self.first + int(np.searchsorted(self.numbers, number))

    def times(self, ordinals: Moments) -> Array:
        """Returns the times at which the items with these ordinals, all of them new, arrived."""
        return np.asarray(self._times[ordinals.astype(np.int64, copy=False) - self.first])

    def save(self, low: int) -> None:
        """Stores the clock for the next batch, in which items with number >= low may still be needed."""
        old = int(np.searchsorted(self._missing, low))
        if old or self._changed:
            arrays = {"lost": np.array([self._lost + old], np.int64), "missing": self._missing[old:]}
            self.state.put(self.key, arrays)


def add_row_clock(state: State, key: str, clock: Arrays) -> None:
    """Takes over a clock from another zone, if it reaches back farther than the one that is here."""
    stored = state.get(key)
    if stored is None or clock["lost"][0] < stored["lost"][0]:
        state.put(key, clock)
