"""The items that a rendezvous zone keeps: those in its recent buffer, and those that are candidates.

In: rows by number. Out: columns of the recent ones, and any row that is kept, by number. In chunks as they
came (small ones are put together); a chunk goes when nothing in it is needed, and is thinned out when the
shelf has doubled since it was last tidied.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernels.places import places_of
from anabranch.model.stream import NUMBER
from anabranch.zones.columns import Array, numbers_of
from anabranch.zones.state import State

PREFIX = "items/"
_TIDY = "tidy"

#: Rows a chunk that further rows are added to, and rows below which nobody tidies.
FULL = 2048
SMALL = 16384

Extract = Callable[[pa.RecordBatch], Array]


class Shelf:
    def __init__(self, state: State) -> None:
        self.state = state
        #: (chunk, token, name) -> column; what a worker holds, checked by token
        self._held: dict[tuple[str, bytes, str], Array] = state.derived("shelf", [], dict)

    def keys(self) -> list[str]:
        return self.state.keys(PREFIX)

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows sorted by number."""
        keys = self.keys()
        key = f"{PREFIX}{int(keys[-1].removeprefix(PREFIX)) + 1 if keys else 0:012d}"
        if keys:
            newest = self.state.rows(keys[-1])
            assert newest is not None
            in_order = self.numbers(keys[-1])[-1] < rows.column(NUMBER)[0].as_py()
            if in_order and newest.num_rows + rows.num_rows <= FULL:
                key, rows = keys[-1], pa.concat_batches([newest, rows])
        self.state.put(key, rows)

    def add_unknown(self, rows: pa.RecordBatch) -> None:
        """Rows sorted by number, of which some may be on the shelf already."""
        held = [self.numbers(key) for key in self.keys()]
        if held:
            new = ~np.isin(numbers_of(rows), np.concatenate(held))
            rows = rows if new.all() else rows.filter(pa.array(new))
        if rows.num_rows:
            self.add(rows)

    def copied(self, low: int, needed: Array) -> pa.RecordBatch | None:
        """The rows with number >= low, and those needed (sorted numbers), sorted by number."""
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
        """A column of a chunk as `extract` makes it; `name` tells extracts apart."""
        place = (key, self.state.tokens[key], name)
        if place not in self._held:
            self._held[place] = extract(self.rows(key))
        return self._held[place]

    def numbers(self, key: str) -> Array:
        return self.column(key, NUMBER, numbers_of)

    def recent(self, low: int) -> Recent:
        """The rows with number >= low."""
        return Recent(self, low)

    def drop_before(self, number: int) -> None:
        """Chunks all of whose items are older go."""
        for key in self.keys():
            if self.numbers(key)[-1] < number:
                self.state.drop(key)
        tokens = self.state.tokens
        for place in [place for place in self._held if tokens.get(place[0]) != place[1]]:
            del self._held[place]

    def tidy(self, low: int, needed: Callable[[], Array]) -> None:
        """If the shelf has doubled, keeps only rows with number >= low and those needed (sorted numbers)."""
        held = self.state.get(_TIDY)
        total = sum(self.rows(key).num_rows for key in self.keys())
        if total <= 2 * (int(held["kept"][0]) if held is not None else 0) + SMALL:
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
        self.state.put(_TIDY, {"kept": np.array([kept], np.int64)})

    def take(self, numbers: Array) -> pa.RecordBatch:
        """The rows with these numbers, all of them on the shelf, in this order and as often as they are
        named; without the numbers, which the caller has.
        """
        keys = self.keys()
        places = places_of(np.concatenate([self.numbers(key) for key in keys]), numbers)
        rows = [self.rows(key).drop_columns([NUMBER]) for key in keys]
        return pc.take(pa.concat_batches(rows), pa.array(places), boundscheck=False)


class Recent:
    """The rows of the shelf from a number on, in the order of their numbers."""

    def __init__(self, shelf: Shelf, low: int) -> None:
        self.shelf = shelf
        self.spans: list[tuple[str, int]] = []
        for key in shelf.keys():  # noqa: SIM118 - a shelf is no dictionary
            numbers = shelf.numbers(key)
            if numbers[-1] >= low:
                self.spans.append((key, int(np.searchsorted(numbers, low))))
        self._order: Array | None = None
        self.number = self.column(NUMBER, numbers_of)
        if len(self.number) and (np.diff(self.number) < 0).any():  # some came to be known late
            self._order = np.argsort(self.number)
            self.number = self.number[self._order]

    def column(self, name: str, extract: Extract) -> Array:
        parts = [self.shelf.column(key, name, extract)[first:] for key, first in self.spans]
        if not parts:
            return np.empty(0)
        column = np.concatenate(parts) if len(parts) > 1 else parts[0]
        return column if self._order is None else column[self._order]
