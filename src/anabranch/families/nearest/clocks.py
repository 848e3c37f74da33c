"""The clock of ROWS windows: how many items with all coordinates there were up to each item.

In: the numbers of all new items, whether known here or not, and which of them lack a coordinate. Out:
ordinals, and the times that go with them. An item's ordinal is its number less the items without coordinates
before it; those are few, so only they are kept, and of them only the ones among recent items.

    numbers            0  1  2  3  4  5  6         1 and 4 lack a coordinate
    ordinals           0  0  1  2  2  3  4         theirs are those of the item before
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from anabranch.families.nearest.space import By
from anabranch.zones.columns import Array
from anabranch.zones.state import Arrays, State

PREFIX = "clock/"


@dataclass(frozen=True)
class Arrivals:
    """The new items of a batch, by number: all of them, whether they are known here or only passed by."""

    numbers: Array
    times: Array  # or the numbers again, where the stream has no time
    present: dict[By, Array]  # whether an item has all these coordinates


class Ordinals:
    """The clock of one tuple of columns, in one batch."""

    def __init__(self, state: State, by: By, arrivals: Arrivals, begin: int) -> None:
        """`begin` is the number of the first new item."""
        self.state, self.key = state, PREFIX + json.dumps(by)
        held = state.get(self.key)
        self._lost = int(held["lost"][0]) if held is not None else 0
        before = held["missing"] if held is not None else np.empty(0, np.int64)
        present = arrivals.present[by]
        self._missing = np.r_[before, arrivals.numbers[~present]]
        self._new = held is None or not present.all()
        self.first = int(begin - self._lost - len(before))
        self.numbers = arrivals.numbers[present]
        self._times = arrivals.times[present]

    def of(self, numbers: Array) -> Array:
        """The ordinals of items."""
        return np.asarray(
            numbers - self._lost - np.searchsorted(self._missing, numbers, side="right"), np.int64
        )

    @property
    def stop(self) -> int:
        """The ordinal of the next item."""
        return self.first + len(self.numbers)

    def before(self, number: int) -> int:
        """The ordinal of the first item with at least this number, if it is new."""
        return self.first + int(np.searchsorted(self.numbers, number))

    def times(self, ordinals: Array) -> Array:
        """The times at which the items with these ordinals, all of them new, arrived."""
        return np.asarray(self._times[ordinals - self.first])

    def keep(self, low: int) -> None:
        """Stores the clock for the next batch, in which items with number >= low may still be asked for."""
        old = int(np.searchsorted(self._missing, low))
        if old or self._new:
            kept = {"lost": np.array([self._lost + old], np.int64), "missing": self._missing[old:]}
            self.state.put(self.key, kept)


def put_in(state: State, key: str, clock: Arrays) -> None:
    """Takes over a clock from another zone, if it reaches back farther than the one that is here."""
    held = state.get(key)
    if held is None or clock["lost"][0] < held["lost"][0]:
        state.put(key, clock)


def forget(state: State, live: set[By]) -> None:
    for key in state.keys(PREFIX):
        if tuple(json.loads(key.removeprefix(PREFIX))) not in live:
            state.drop(key)
