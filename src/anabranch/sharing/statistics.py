"""What is known about a stream: measured on its items as they pass. Only before the first item is it assumed.

In: batches of items, and how long each took to arrive. Out: the rate, the average step of the time column,
the size and occurrence of each column, and the part of the items that satisfies a condition.
Never: all items. It keeps a histogram a column, and a sample of SAMPLE rows that renews itself.

Columns depend on each other (photons lie where a source is), so a condition is first tried on the rows of the
sample. Where it is too rare for that, it is taken as if its columns were independent, from the histograms.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.codes import DOMAINS, float_value
from anabranch.predicates.conjunction import EVERYTHING, Bound, Conjunction, Normal
from anabranch.predicates.evaluate import evaluate
from anabranch.sharing.conditions import term_of
from anabranch.sharing.histogram import Array, Histogram

SAMPLE = 2048
#: A condition that so many rows of the sample satisfy is judged by it: mostly wrong by less than half.
ENOUGH = 4
MEMORY = 100_000


class Statistics:
    """Of one registered stream; before the first item a rate of 0."""

    def __init__(self, stream: Stream, memory: int = MEMORY, seed: int = 0) -> None:
        self.stream, self.memory = stream, memory
        self.rate = 0.0  # items a second
        self.increment = 1.0  # of the time column, from item to item
        self._seen = 0.0  # items, as far as remembered
        self._bytes = dict.fromkeys((column.name for column in stream.columns), 8.0)  # an item
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
        """A batch that took so long to arrive."""
        if not rows.num_rows:
            return
        old = self._seen * math.exp(-rows.num_rows / self.memory)
        self._seen = old + rows.num_rows
        share = rows.num_rows / self._seen  # how much the new rows count
        self.rate += share * (rows.num_rows / seconds - self.rate)
        for column in self.stream.columns:
            values = rows.column(column.name)
            self._bytes[column.name] += share * (values.nbytes / rows.num_rows - self._bytes[column.name])
            there = rows.num_rows - values.null_count
            if column.type is not ColumnType.STRING:
                numbers = _numbers(values)
                there = len(numbers)
                self._histograms[column.name].observe(numbers)
                if column.name == self.stream.time and there > 1:
                    step = float(numbers.max() - numbers.min()) / (there - 1)
                    self.increment += share * (step - self.increment)
            self._present[column.name] += share * (there / rows.num_rows - self._present[column.name])
        self._renew(rows, share)
        self._known.clear()

    def _renew(self, rows: pa.RecordBatch, share: float) -> None:
        """New rows take the places of old ones, so that a row's chance to be there falls with its age."""
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
        """Bytes of a value that is there."""
        return self._bytes[column] / max(self._present[column], 1e-9)

    def occurrence(self, column: str) -> float:
        return self._present[column]

    def selectivity(self, condition: Normal) -> float:
        """The part of the items that satisfies a condition."""
        if condition == EVERYTHING:
            return 1.0
        if condition not in self._known:
            self._known[condition] = self._estimate(condition)
        return self._known[condition]

    def _estimate(self, condition: Normal) -> float:
        if self._sample is None:
            return min(1.0, sum(map(_assumed, condition.conjunctions)))
        made = set(condition.columns()) - set(self._sample.schema.names)
        if made:  # what a user's operator makes is not in the sample
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
    """The values that are there, as float64."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    numbers: Array = values.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers[~np.isnan(numbers)]
