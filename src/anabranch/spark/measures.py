"""What Spark says of the queries of an engine: how long the last batch took, how much state there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anabranch.spark.engine import Engine


@dataclass(frozen=True)
class Measure:
    branch: str
    batch: int
    batch_seconds: float
    state_bytes: int
    behind: float | None  # items that the source holds and the stream has not read, where it can tell


def measures(engine: Engine) -> Iterator[Measure]:
    """Of every query that has finished a batch."""
    for branch, query in engine.queries.items():
        progress: Any = query.lastProgress
        if progress is None:
            continue
        state = sum(int(each["memoryUsedBytes"]) for each in progress["stateOperators"])
        took = progress["durationMs"].get("triggerExecution", 0) / 1000
        batch = engine.first_batch(branch) + int(progress["batchId"])
        yield Measure(branch, batch, took, state, _behind(progress["sources"]))


def _behind(sources: Any) -> float | None:
    """Kafka counts them; files do not."""
    found = [(source["metrics"] or {}).get("maxOffsetsBehindLatest") for source in sources]
    known = [float(each) for each in found if each is not None]
    return sum(known) if known else None
