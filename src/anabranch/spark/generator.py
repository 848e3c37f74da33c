"""Generated streams, for demonstrations, tests and benchmarks: a Python data source that yields Arrow
batches.

The item at count n follows from n alone, so a replay gives the same items. Options: name (which generator),
rate (items per second), limit (how many in all; endless without), start (the clock's start in seconds since
1970, kept in the offset).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from anabranch.job.generated_streams import BLOCK, GENERATORS, schema_of

FORMAT = "anabranch_generator"
COUNT = "generated_count"
MOST_A_BATCH = 1_000_000


class GeneratorSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return f"{schema_of(self.options.get('name', 'photons'))}, {COUNT} long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return GeneratorReader(dict(self.options))


class Blocks(InputPartition):
    def __init__(self, first: int, stop: int) -> None:
        self.first, self.stop = first, stop


class GeneratorReader(DataSourceStreamReader):
    """The offset is the count of items; how many are due follows from the clock since the first offset was
    taken.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self.generator = options.get("name", "photons")
        self.rate = float(options.get("rate", 10_000))
        self.limit = int(options["limit"]) if "limit" in options else None
        self.begun: tuple[float, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"count": 0}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:
        if self.begun is None:
            self.begun = (time.monotonic() - 1, start["count"])
        since, base = self.begun
        due = base + int((time.monotonic() - since) * self.rate)
        due = min(max(due, start["count"]), start["count"] + MOST_A_BATCH)
        return {"count": due if self.limit is None else min(due, self.limit)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Blocks(start["count"], end["count"])] if end["count"] > start["count"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Whole blocks are generated, seeded by where they begin, and cut to what is asked for."""
        assert isinstance(partition, Blocks)
        for block in range(partition.first // BLOCK, -(-partition.stop // BLOCK)):
            low = max(partition.first, block * BLOCK)
            high = min(partition.stop, (block + 1) * BLOCK)
            columns = GENERATORS[self.generator][1](block * BLOCK, BLOCK)
            cut = slice(low - block * BLOCK, high - block * BLOCK)
            arrays = {name: pa.array(values[cut]) for name, values in columns.items()}
            yield pa.record_batch({**arrays, COUNT: pa.array(np.arange(low, high), pa.int64())})
