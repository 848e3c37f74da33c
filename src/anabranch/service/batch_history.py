"""How the streams went lately, for the charts of the dashboard.

A batch is known from its manifest: when it was written, the items up to it, the rows it delivered. A batch
that exists does not change, so each manifest is read once. How long a batch took is known only of batches
that ran while somebody looked.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from anabranch.model.stream import Stream
from anabranch.results.deliveries import Deliveries
from anabranch.results.manifests import Manifest
from anabranch.service.dashboard_models import BatchPoint, BranchProgress
from anabranch.service.job_service import JobService
from anabranch.service.metrics import lag_seconds

DEFAULT_SPAN_S, LONGEST_SPAN_S = 300.0, 7_200.0
#: A request reads at most so many manifests per branch; the next one goes on further back.
MANIFESTS_PER_LOOK = 1_000
#: A chart gets about so many points.
POINTS = 240
#: Rates are taken over so many seconds. A stream that delivered nothing for longer than this, and for five
#: times its usual interval, has the rate 0.
RECENT_S = 15.0


@dataclass(slots=True)
class DeliveredBatch:
    number: int
    at: float
    items: int
    results: int
    seconds: float | None = None


@dataclass
class Timeline:
    """The batches of one branch of a stream, oldest first."""

    deliveries: Deliveries
    branch: str
    batches: list[DeliveredBatch] = field(default_factory=list)
    complete: bool = False  # nothing that is older is of interest

    def read(self, now: float) -> Manifest | None:
        """Adds batches since the last look, and older ones as far as needed; returns the last manifest."""
        latest = self.deliveries.latest(self.branch)
        if not self.batches or latest - self.batches[-1].number > MANIFESTS_PER_LOOK:
            self.batches, self.complete = [], False
        newer = (
            [self._batch(n) for n in range(self.batches[-1].number + 1, latest + 1)] if self.batches else []
        )
        self.batches += [one for one in newer if one is not None]
        if not self.complete:
            oldest = self.batches[0].number if self.batches else latest + 1
            self.batches[:0] = list(self._older(oldest, now - LONGEST_SPAN_S))[::-1]
        del self.batches[: bisect_left(self.batches, now - LONGEST_SPAN_S, key=_at)]
        return self.deliveries.manifest(self.branch, latest)

    def _older(self, before: int, since: float) -> Iterator[DeliveredBatch]:
        for number in range(before - 1, before - 1 - MANIFESTS_PER_LOOK, -1):
            found = self._batch(number) if number >= 0 else None
            if found is None or found.at < since:
                self.complete = True
                return
            yield found

    def _batch(self, number: int) -> DeliveredBatch | None:
        manifest = self.deliveries.manifest(self.branch, number)
        if manifest is None:
            return None
        written = self.deliveries.written(self.branch, number)
        return DeliveredBatch(
            number, written, manifest.books.get("processed", 0), sum(manifest.rows.values())
        )

    def took(self, number: int, seconds: float) -> None:
        index = bisect_left(self.batches, number, key=lambda one: one.number)
        if index < len(self.batches) and self.batches[index].number == number:
            self.batches[index].seconds = seconds


class BatchHistory:
    """One for a service; may be used from several threads."""

    def __init__(self, service: JobService) -> None:
        self.service = service
        self._timelines: dict[str, Timeline] = {}
        self._lock = threading.Lock()

    def progress(self, now: float, span_s: float = DEFAULT_SPAN_S) -> list[BranchProgress]:
        """Returns every branch of every stream that has delivered something, with the points of the span."""
        found = []
        measured = {one.branch: one for one in self.service.measured()}
        with self._lock:
            for name, stream in self.service.catalog.streams().items():
                for branch in self.service.layout.branches(name):
                    timeline = self._timelines.setdefault(branch, Timeline(self.service.deliveries, branch))
                    last = timeline.read(now)
                    if last is None:
                        continue
                    spark = measured.get(branch)
                    if spark is not None:
                        timeline.took(spark.batch, spark.batch_seconds)
                    found.append(_progress(stream, timeline, last, now, span_s))
                    if spark is not None:
                        found[-1].batch_seconds = spark.batch_seconds
                        found[-1].state_bytes, found[-1].behind = spark.state_bytes, spark.behind
        return found


def _at(batch: DeliveredBatch) -> float:
    return batch.at


def points(batches: Sequence[DeliveredBatch], now: float, span_s: float) -> list[BatchPoint]:
    """Returns the batches of a span. If there are too many, those close to each other become one point."""
    shown = batches[bisect_left(batches, now - span_s, key=_at) :]
    width = span_s / POINTS if len(shown) > POINTS else 1e-9
    out: list[BatchPoint] = []
    for one in shown:
        if out and out[-1].at // width == one.at // width:
            last = out[-1]
            last.batch, last.at, last.items, last.results = (
                one.number,
                one.at,
                one.items,
                last.results + one.results,
            )
            last.seconds = max((s for s in (last.seconds, one.seconds) if s is not None), default=None)
        else:
            out.append(
                BatchPoint(
                    batch=one.number, at=one.at, items=one.items, results=one.results, seconds=one.seconds
                )
            )
    return out


def rates(batches: Sequence[DeliveredBatch], now: float) -> tuple[float, float]:
    """Returns items and result rows per second over the last seconds, of the last two batches at least."""
    if len(batches) < 2:
        return 0.0, 0.0
    last = batches[-1]
    first = min(bisect_left(batches, last.at - RECENT_S, key=_at), len(batches) - 2)
    elapsed = last.at - batches[first].at
    usual = elapsed / (len(batches) - 1 - first)
    if elapsed <= 0 or now - last.at > max(RECENT_S, 5 * usual):
        return 0.0, 0.0
    rows = sum(one.results for one in batches[first + 1 :])
    return (last.items - batches[first].items) / elapsed, rows / elapsed


def _progress(
    stream: Stream, timeline: Timeline, last: Manifest, now: float, span_s: float
) -> BranchProgress:
    batches = timeline.batches
    items, results = rates(batches, now)
    written = timeline.deliveries.written(timeline.branch, last.batch)
    return BranchProgress(
        stream=stream.name,
        branch=timeline.branch,
        batch=last.batch,
        age_seconds=max(0.0, now - written),
        lag_seconds=lag_seconds(stream, last),
        batch_seconds=None,
        state_bytes=None,
        behind=None,
        items_per_second=items,
        results_per_second=results,
        books=last.books,
        points=points(batches, now, span_s),
    )
