"""A histogram of a column that keeps itself up to date.

In: the values of a stream, batch by batch. Out: the part of them that lies between two values.
Never: the values themselves; it keeps BINS numbers, and forgets: what came `memory` values ago counts 1/e.

The bins are made to hold equally much. Where one comes to hold much more than the others, because the stream
has changed, all are cut anew at equal weights:

    |  |  |  |            |        one has grown
    | | | | |      |      |        cut anew; the next values find out where in it they lie
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]

BINS = 64
#: A bin that holds so many times its part makes all be cut anew.
UNEVEN = 3.0


class Histogram:
    def __init__(self, memory: int = 100_000) -> None:
        self.memory = memory
        self._edges = np.empty(0)
        self._weights = np.empty(0)

    def observe(self, values: Array) -> None:
        """`values` are present and no NaN; what is beyond 1e300 is taken as that."""
        if not len(values):
            return
        values = np.clip(values.astype(np.float64), -1e300, 1e300)
        if not len(self._edges):
            self._edges = np.quantile(values, np.linspace(0, 1, BINS + 1))
            self._weights = np.zeros(BINS)
        self._edges[0] = min(self._edges[0], values.min())
        self._edges[-1] = max(self._edges[-1], values.max())
        self._weights *= math.exp(-len(values) / self.memory)
        bins = np.searchsorted(self._edges, values, side="right") - 1
        self._weights += np.bincount(np.clip(bins, 0, BINS - 1), minlength=BINS)
        if self._weights.max() > UNEVEN * self._weights.mean():
            self._cut_anew()

    def _cut_anew(self) -> None:
        """Edges at equal weights, as if values lay evenly within a bin. A value that comes again and again
        narrows its bin each time."""
        total = np.concatenate([[0.0], np.cumsum(self._weights)])
        self._edges = np.interp(np.linspace(0, total[-1], BINS + 1), total, self._edges)
        self._weights = np.full(BINS, total[-1] / BINS)

    def part(self, low: float, high: float) -> float:
        """The part of the values in [low, high]."""
        if not len(self._edges) or low > high:
            return 0.0
        return max(0.0, self._below(high, "right") - self._below(low, "left"))

    def _below(self, value: float, side: Literal["left", "right"]) -> float:
        """The part below a value (`right`: and at it): whole bins, and a part of the bin it falls into."""
        place = int(np.searchsorted(self._edges, value, side=side)) - (side == "right")
        total = np.concatenate([[0.0], np.cumsum(self._weights)]) / self._weights.sum()
        if place < 0 or place >= BINS:
            return 0.0 if place < 0 else 1.0
        if self._edges[place] >= value:
            return float(total[place])
        place -= side == "left"
        inside = (value - self._edges[place]) / (self._edges[place + 1] - self._edges[place])
        return float(total[place] + inside * (total[place + 1] - total[place]))
