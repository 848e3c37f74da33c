"""What is known about a stream, measured on its items as they pass; before the first item it is assumed.

    known = Statistics(stream)
    known.observe(rows, seconds=0.5)       # batch by batch
    known.rate                             # items per second
    known.selectivity(condition)           # the part of the items that satisfies a condition

It keeps a histogram per column and a sample of SAMPLE rows that renews itself. Columns depend on each other
(photons lie where a source is), so a condition is first tried on the sample. Where it is too rare for that,
its columns are taken as independent, with the histograms.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import Array
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.planning.selections import term_of
from anabranch.predicates.codes import DOMAINS, float_value
from anabranch.predicates.conjunction import EVERYTHING, Bound, Conjunction, Normal
from anabranch.predicates.evaluate import evaluate

SAMPLE = 2048
#: A condition that so many rows of the sample satisfy is judged by it: mostly wrong by less than half.
ENOUGH = 4
MEMORY = 100_000
BINS = 64
#: Bins are cut again when one holds so many times its part.
UNEVEN = 3.0


class Statistics:
    """Of one registered stream; the rate is 0 before the first item."""

    def __init__(self, stream: Stream, memory: int = MEMORY, seed: int = 0) -> None:
        self.stream, self.memory = stream, memory
        self.rate = 0.0  # items per second
        self.increment = 1.0  # of the time column, from item to item
        self._seen = 0.0  # items, as far as remembered
        self._bytes = dict.fromkeys((column.name for column in stream.columns), 8.0)  # per item
        self._present = dict.fromkeys(self._bytes, 1.0)  # the part of the items that has a value
        self._histograms = {
            column.name: Histogram(memory)
            for column in stream.columns
            if column.type is not ColumnType.STRING
        }
        self._sample: pa.RecordBatch | None = None
        self._random = np.random.default_rng(seed)
        self._known: dict[Normal, float] = {}

    def observe(self, rows: pa.RecordBatch, seconds: float) -> None:
        """Adds a batch that took so long to arrive."""
        if not rows.num_rows:
            return
        old = self._seen * math.exp(-rows.num_rows / self.memory)
        self._seen = old + rows.num_rows
        share = rows.num_rows / self._seen  # how much the new rows count
        self.rate += share * (rows.num_rows / seconds - self.rate)
        for column in self.stream.columns:
            values = rows.column(column.name)
            self._bytes[column.name] += share * (values.nbytes / rows.num_rows - self._bytes[column.name])
            present = rows.num_rows - values.null_count
            if column.type is not ColumnType.STRING:
                numbers = _numbers(values)
                present = len(numbers)
                self._histograms[column.name].observe(numbers)
                if column.name == self.stream.time and present > 1:
                    step = float(numbers.max() - numbers.min()) / (present - 1)
                    self.increment += share * (step - self.increment)
            self._present[column.name] += share * (present / rows.num_rows - self._present[column.name])
        self._renew(rows, share)
        self._known.clear()

    def _renew(self, rows: pa.RecordBatch, share: float) -> None:
        """Replaces old rows by new ones, so that a row is the less likely in the sample the older it is."""
        names = [column.name for column in self.stream.columns]
        rows = rows.select(names)
        kept = 0 if self._sample is None else self._sample.num_rows
        wanted = min(SAMPLE, kept + rows.num_rows)
        fresh = wanted - kept + int(self._random.binomial(kept, share)) if kept else wanted
        fresh = min(fresh, rows.num_rows, wanted)
        chosen = rows.take(pa.array(np.sort(self._random.choice(rows.num_rows, fresh, replace=False))))
        if self._sample is not None and wanted > fresh:
            old = self._random.choice(kept, wanted - fresh, replace=False)
            parts = [self._sample.take(pa.array(np.sort(old))), chosen]
            chosen = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        self._sample = chosen

    def size(self, column: str) -> float:
        """Returns the bytes of a value that is present."""
        return self._bytes[column] / max(self._present[column], 1e-9)

    def occurrence(self, column: str) -> float:
        return self._present[column]

    def selectivity(self, condition: Normal) -> float:
        """Returns the part of the items that satisfies a condition."""
        if condition == EVERYTHING:
            return 1.0
        if condition not in self._known:
            self._known[condition] = self._estimate(condition)
        return self._known[condition]

    def _estimate(self, condition: Normal) -> float:
        if self._sample is None:
            return min(1.0, sum(map(_assumed, condition.conjunctions)))
        if set(condition.columns()) - set(self._sample.schema.names):  # computed by operators of users
            return 1.0
        hits = int(evaluate(term_of(condition), self._sample).sum())
        if hits >= ENOUGH:
            return hits / len(self._sample)
        rare = sum(self._independent(conjunction) for conjunction in condition.conjunctions)
        return min(rare, ENOUGH / len(self._sample), 1.0)

    def _independent(self, conjunction: Conjunction) -> float:
        return math.prod(self._bound_part(bound) for bound in conjunction.bounds)

    def _bound_part(self, bound: Bound) -> float:
        domain = DOMAINS[bound.type]
        missing = 1 - self._present[bound.column] if bound.low == domain.missing else 0.0
        if bound.high == domain.missing:
            return missing
        if bound.type is ColumnType.STRING:
            assert self._sample is not None
            alone = Normal((Conjunction((bound,)),))
            return float(evaluate(term_of(alone), self._sample).mean())
        low, high = max(bound.low, domain.least), bound.high
        if bound.type is ColumnType.FLOAT:
            low, high = float_value(low), float_value(high)
        else:  # a whole number fills the space around it
            low, high = low - 0.5, high + 0.5
        inside = self._histograms[bound.column].part(float(low), float(high))
        return missing + self._present[bound.column] * inside


def _assumed(conjunction: Conjunction) -> float:
    """Before any item was seen: a range of a column lets a third pass, a single value a tenth."""
    return math.prod(1 / 10 if bound.low == bound.high else 1 / 3 for bound in conjunction.bounds)


def _numbers(values: pa.Array) -> Array:
    """Returns the values that are present, as float64."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    numbers: Array = values.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers[~np.isnan(numbers)]


class Histogram:
    """A histogram of a column that keeps itself up to date: it returns the part of the values between two.

    It keeps BINS numbers, and forgets: what came `memory` values ago counts 1/e. The bins hold equally much.
    Where one comes to hold much more than the others, because the stream has changed, all are cut again:

        |  |  |  |            |        one has grown
        | | | | |      |      |        cut again; the next values show where in it they lie
    """

    def __init__(self, memory: int = 100_000) -> None:
        self.memory = memory
        self._edges = np.empty(0)
        self._weights = np.empty(0)

    def observe(self, values: Array) -> None:
        """Adds values that are present and no NaN; what is beyond 1e300 is taken as that."""
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
            self._cut_again()

    def _cut_again(self) -> None:
        """Edges at equal weights, as if values lay evenly within a bin. A value that comes again and again
        narrows its bin each time."""
        total = np.concatenate([[0.0], np.cumsum(self._weights)])
        self._edges = np.interp(np.linspace(0, total[-1], BINS + 1), total, self._edges)
        self._weights = np.full(BINS, total[-1] / BINS)

    def part(self, low: float, high: float) -> float:
        """Returns the part of the values in [low, high]."""
        if not len(self._edges) or low > high:
            return 0.0
        return max(0.0, self._below(high, "right") - self._below(low, "left"))

    def _below(self, value: float, side: Literal["left", "right"]) -> float:
        """Returns the part below a value (`right`: and at it): whole bins, and a part of the bin that it is
        in."""
        index = int(np.searchsorted(self._edges, value, side=side)) - (side == "right")
        total = np.concatenate([[0.0], np.cumsum(self._weights)]) / self._weights.sum()
        if index < 0 or index >= BINS:
            return 0.0 if index < 0 else 1.0
        if self._edges[index] >= value:
            return float(total[index])
        index -= side == "left"
        inside = (value - self._edges[index]) / (self._edges[index + 1] - self._edges[index])
        return float(total[index] + inside * (total[index + 1] - total[index]))
