"""What Prometheus reads at /metrics.

It comes from the last manifest of every branch of a stream, the catalog, and Spark. Results are counted batch
by batch, from the start of the service on, as Prometheus expects of a counter. A subscription that has ended
keeps its series for an hour.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

from anabranch.catalog.entries import Entry
from anabranch.families.registry import family as family_of
from anabranch.model.columns import ColumnType
from anabranch.model.stream import MICROSECONDS, Stream
from anabranch.results.manifests import Manifest
from anabranch.service.job_service import JobService

Sample = tuple[dict[str, str], float]

#: How long one request may read results to count them; the next one goes on.
AT_ONCE_S = 2.0
#: How long a subscription that has ended is still shown.
SHOWN_AFTER_END_S = 3_600.0

BOOKS = {
    "rows_in": ("rows_in_total", "Rows that came in."),
    "processed": ("items_total", "Items that were processed."),
    "late": ("late_total", "Rows that came too late."),
    "rejected": ("rejected_total", "Rows that could not be read."),
    "waiting": ("waiting_items", "Items that wait for their turn in the order of the stream."),
}


class ResultCounts:
    """Counts result rows per subscription, from some batch of each branch on. Each file is read once. May be
    used from several threads.
    """

    def __init__(self, service: JobService, first: dict[str, int], at_once_s: float) -> None:
        self.service, self.first, self.at_once_s = service, first, at_once_s
        self._counts: dict[tuple[str, str], Counter[str]] = {}  # by branch and table
        self._read: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def of(self, entries: list[Entry]) -> list[int | None]:
        """Counts the results of each; None where there was no time to read all files. The next call goes on
        there.
        """
        streams, branch_of = self.service.catalog.streams(), cache(self.service.layout.branch)
        deadline = time.monotonic() + self.at_once_s
        out: list[int | None] = []
        with self._lock:
            complete: dict[tuple[str, str], bool] = {}
            for entry in entries:
                table, _ = family_of(entry.family).shown(streams[entry.stream], entry.spec)
                key = (branch_of(entry.stream, entry.family), table)
                if key not in complete:
                    complete[key] = self._catch_up(*key, deadline)
                out.append(self._counts[key][entry.label] if complete[key] else None)
        return out

    def _catch_up(self, branch: str, table: str, deadline: float) -> bool:
        """Adds the batches that came since the last time; whether these are all."""
        key = (branch, table)
        counts = self._counts.setdefault(key, Counter())
        first = self._read.get(key, self.first.get(branch, 0) - 1) + 1
        for batch in range(first, self.service.deliveries.latest(branch) + 1):
            if time.monotonic() > deadline:
                return False
            manifest = self.service.deliveries.manifest(branch, batch)
            if manifest is not None:
                counts.update(self.service.deliveries.counts_of(manifest, table))
            self._read[key] = batch
        return True


class Metrics:
    """One per service; may be used from several threads."""

    def __init__(self, service: JobService) -> None:
        self.service = service
        latest = {
            branch: service.deliveries.latest(branch) + 1
            for name in service.catalog.streams()
            for branch in service.layout.branches(name)
        }
        self._since_start = ResultCounts(service, latest, AT_ONCE_S)
        self._total = ResultCounts(service, {}, AT_ONCE_S)

    def counts(self, entries: list[Entry]) -> list[int | None]:
        """Counts all results of each, since its first; None where that is not known yet."""
        return self._total.of(entries)

    def text(self, listeners: int) -> str:
        entries = self.service.catalog.lately_active(SHOWN_AFTER_END_S)
        lines = [
            *self._delivered(),
            *self._measured(),
            *_family("subscriptions", "Active subscriptions.", "gauge", _kinds(entries)),
            *_family("results_total", "Rows that were delivered.", "counter", self._results(entries)),
            *_family("listeners", "Open connections for live results.", "gauge", [({}, listeners)]),
        ]
        return "\n".join(lines) + "\n"

    def _delivered(self) -> Iterator[str]:
        last = list(self._last())
        for key, (name, text) in BOOKS.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            samples = [(_labels(branch), m.books[key]) for branch, _, m in last if key in m.books]
            yield from _family(name, text, kind, samples)
        batches = [(_labels(branch), m.batch + 1) for branch, _, m in last]
        yield from _family("batches_total", "Batches.", "counter", batches)
        ages = [(_labels(branch), self._age(branch, m)) for branch, _, m in last]
        yield from _family("batch_age_seconds", "Time since the last batch.", "gauge", ages)
        lags = [
            (_labels(branch), lag)
            for branch, stream, m in last
            if (lag := lag_seconds(stream, m)) is not None
        ]
        yield from _family("lag_seconds", "Now minus the time of the last item.", "gauge", lags)

    def _last(self) -> Iterator[tuple[str, Stream, Manifest]]:
        """Gives the last batch of every branch of every stream."""
        for name, stream in self.service.catalog.streams().items():
            for branch in self.service.layout.branches(name):
                latest = self.service.deliveries.latest(branch)
                manifest = self.service.deliveries.manifest(branch, latest)
                if manifest is not None:
                    yield branch, stream, manifest

    def _age(self, branch: str, manifest: Manifest) -> float:
        return max(0.0, time.time() - self.service.deliveries.written(branch, manifest.batch))

    def _measured(self) -> Iterator[str]:
        measured = [(_labels(m.branch), m) for m in self.service.measured()]
        seconds = [(labels, m.batch_seconds) for labels, m in measured]
        yield from _family("batch_seconds", "How long the last batch took.", "gauge", seconds)
        state = [(labels, float(m.state_bytes)) for labels, m in measured]
        yield from _family("state_bytes", "What Spark's state stores hold in memory.", "gauge", state)
        behind = [(labels, m.behind) for labels, m in measured if m.behind is not None]
        yield from _family("behind_items", "Items in the source that are not read yet.", "gauge", behind)

    def _results(self, entries: list[Entry]) -> Iterator[Sample]:
        for entry, count in zip(entries, self._since_start.of(entries), strict=True):
            if count is not None:
                yield {"stream": entry.stream, "kind": entry.kind, "subscription": entry.label}, count


def _labels(branch: str) -> dict[str, str]:
    """Returns the stream and, of a branch of one family, that family."""
    stream, _, family = branch.partition(".")
    return {"stream": stream, "family": family} if family else {"stream": stream}


def _kinds(entries: Iterable[Entry]) -> list[Sample]:
    counts = Counter((entry.stream, entry.kind) for entry in entries if entry.active)
    return [({"stream": stream, "kind": kind}, count) for (stream, kind), count in sorted(counts.items())]


def lag_seconds(stream: Stream, manifest: Manifest) -> float | None:
    """Only a timestamp can be compared with the clock."""
    last = manifest.books.get("last")
    if last is None or stream.time_type is not ColumnType.TIMESTAMP:
        return None
    return time.time() - float(last) / MICROSECONDS


def _family(name: str, text: str, kind: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP anabranch_{name} {text}"
    yield f"# TYPE anabranch_{name} {kind}"
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        number = int(value) if float(value).is_integer() else value
        yield f"anabranch_{name}{f'{{{inside}}}' if inside else ''} {number}"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
