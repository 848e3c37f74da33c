"""Where the queries of a regional server are in its grid: as fences, or with a bit of their own per cell.

Fences are queries for a range around a fixed point. There may be very many of them, so they get places in an
index (kernels/fence_index) and cost only the cells they touch. The others move, and so do the cells they
watch: they have a bit each. A fence that is new has a bit as well, until enough have come to make the grid
again.
"""

from __future__ import annotations

import numpy as np

from anabranch.families.moving.kernels.arrays import COUNT, NEAREST
from anabranch.model.arrays import Array, Ints, Words

#: So many new fences may have bits, and a share of the fences in the index.
FEW_FENCES = 64
SHARE_OF_FENCES = 1 / 16


class QueryBits:
    """Bits in use are those of `slots` that are not -1; there are 64 * `words`."""

    def __init__(self) -> None:
        self.words = 1
        self.slots = np.full(64, -1, np.int64)
        self.latest = np.zeros(1, np.int64)  # by word, the latest first_item
        self.fences = np.zeros(0, np.int64)  # slots of queries, in the order of their places
        self.needing_lists = 0  # queries that may look for objects in cells in any tick
        self._new: set[int] = set()  # slots
        self._free: list[int] = []
        self._loose = 0  # fences that have bits

    def add(self, query: Array, slot: int) -> None:
        """Notes a query (QUERY); it gets its bit from `fit`."""
        self._new.add(slot)
        self.needing_lists += _needs_lists(query)

    def remove(self, query: Array, slot: int) -> None:
        self._new.discard(slot)
        self.needing_lists -= _needs_lists(query)
        if query["bit"] >= 0:
            self._free.append(int(query["bit"]))
            self._loose -= int(query["fixed"])

    def fit(self, queries: Array) -> bool:
        """Gives new queries bits. Returns False if the grid has to be made again, with `assign`."""
        if not self._new:
            return True
        new = sorted(self._new)
        self._loose += int(np.count_nonzero(queries["fixed"][new]))
        few = FEW_FENCES + SHARE_OF_FENCES * len(self.fences)
        if len(new) > len(self._free) or self._loose > few:
            return False
        for slot in new:
            query, bit = queries[slot], self._free.pop()
            query["bit"], self.slots[bit] = bit, slot
            self.latest[bit // 64] = max(self.latest[bit // 64], query["first_item"])
        self._new = set()
        return True

    def assign(self, queries: Array) -> None:
        """Gives all queries new bits, or makes them fences."""
        there = queries["number"] >= 0
        is_fence = there & (queries["fixed"] != 0) & (queries["here"] != 0) & (queries["mode"] != NEAREST)
        slots = np.flatnonzero(is_fence)
        self.fences = slots[_by_neighbourhood(queries[slots])]
        queries["bit"] = queries["place"] = -1
        others = np.flatnonzero(there & ~is_fence)
        queries["bit"][others] = np.arange(len(others))
        while len(others) + FEW_FENCES > 64 * self.words:
            self.words *= 2
        self.slots = np.full(64 * self.words, -1, np.int64)
        self.slots[: len(others)] = others
        self.latest = np.zeros(self.words, np.int64)
        np.maximum.at(self.latest, np.arange(len(others)) // 64, queries["first_item"][others])
        self._free = list(range(64 * self.words - 1, len(others) - 1, -1))
        self._new = set()
        self._loose = 0


def _needs_lists(query: Array) -> bool:
    return not query["fixed"] or bool(query["mode"] > COUNT)


def _by_neighbourhood(fences: Array) -> Ints:
    """Returns an order in which fences of similar size (within a factor of four) that lie near each other are
    near each other.
    """
    size = np.frexp(np.maximum(fences["a"], fences["b"]))[1] // 2
    code = _spread(fences["x"]) | (_spread(fences["y"]) << np.uint64(1))
    return np.lexsort((code, size))


def _spread(values: Array) -> Words:
    """Returns the values, as whole numbers of 16 bits, with a 0 between any two bits."""
    low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
    wide = high - low if high > low else 1.0
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num((values - low) / wide)
    out: Words = (share * 65535).astype(np.uint64)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        out = (out | (out << np.uint64(shift))) & np.uint64(mask)
    return out
