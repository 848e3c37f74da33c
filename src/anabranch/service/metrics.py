"""What Prometheus reads at /metrics.

It comes from the last manifest of every stream and family, the catalog, and Spark. Results are counted batch
by batch; each file of results is read once.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from anabranch.catalog.entries import Entry
from anabranch.families.registry import family as family_of
from anabranch.model.columns import ColumnType
from anabranch.model.stream import MICROSECONDS, Stream
from anabranch.results.manifests import Manifest
from anabranch.service.job_service import JobService

Sample = tuple[dict[str, str], float]

BOOKS = {
    "rows_in": ("rows_in_total", "Rows that came in."),
    "processed": ("items_total", "Items that were processed."),
    "late": ("late_total", "Rows that came too late."),
    "rejected": ("rejected_total", "Rows that could not be read."),
    "waiting": ("waiting_items", "Items that wait for their turn in the order of the stream."),
}


class Metrics:
    """One per service; may be used from several threads."""

    def __init__(self, service: JobService) -> None:
        self.service = service
        self._counts: dict[tuple[str, str, str], Counter[str]] = {}
        self._read: dict[tuple[str, str, str], int] = {}
        self._lock = threading.Lock()

    def text(self, listeners: int) -> str:
        entries = self.service.catalog.subscriptions(state=None)
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
            samples = [(labels, m.books[key]) for labels, _, m in last if key in m.books]
            yield from _family(name, text, kind, samples)
        batches = [(labels, m.batch + 1) for labels, _, m in last]
        yield from _family("batches_total", "Batches.", "counter", batches)
        ages = [(labels, self._age(labels, manifest)) for labels, _, manifest in last]
        yield from _family("batch_age_seconds", "Time since the last batch.", "gauge", ages)
        lags = [(labels, lag) for labels, stream, m in last if (lag := lag_seconds(stream, m)) is not None]
        yield from _family("lag_seconds", "Now minus the time of the last item.", "gauge", lags)

    def _last(self) -> Iterator[tuple[dict[str, str], Stream, Manifest]]:
        """Gives the last batch of every family of every stream."""
        for name, stream in self.service.catalog.streams().items():
            for family in self.service.layout.families(name):
                latest = self.service.deliveries.latest(name, family)
                manifest = self.service.deliveries.manifest(name, family, latest)
                if manifest is not None:
                    yield {"stream": name, "family": family}, stream, manifest

    def _age(self, labels: dict[str, str], manifest: Manifest) -> float:
        written = self.service.deliveries.written(labels["stream"], labels["family"], manifest.batch)
        return max(0.0, time.time() - written)

    def _measured(self) -> Iterator[str]:
        measured = [({"stream": m.stream, "family": m.family}, m) for m in self.service.measured()]
        seconds = [(labels, m.batch_seconds) for labels, m in measured]
        yield from _family("batch_seconds", "How long the last batch took.", "gauge", seconds)
        state = [(labels, float(m.state_bytes)) for labels, m in measured]
        yield from _family("state_bytes", "What Spark's state stores hold in memory.", "gauge", state)
        behind = [(labels, m.behind) for labels, m in measured if m.behind is not None]
        yield from _family("behind_items", "Items in the source that are not read yet.", "gauge", behind)

    def _results(self, entries: list[Entry]) -> Iterator[Sample]:
        for entry, count in zip(entries, self.counts(entries), strict=True):
            yield {"stream": entry.stream, "kind": entry.kind, "subscription": entry.label}, count

    def counts(self, entries: list[Entry]) -> list[int]:
        """Counts the results of each."""
        streams = self.service.catalog.streams()
        out: list[int] = []
        with self._lock:
            fresh: set[tuple[str, str, str]] = set()
            for entry in entries:
                table, _ = family_of(entry.family).shown(streams[entry.stream], entry.spec)
                key = (entry.stream, entry.family, table)
                if key not in fresh:
                    self._catch_up(*key)
                    fresh.add(key)
                out.append(self._counts[key][entry.label])
        return out

    def _catch_up(self, stream: str, family: str, table: str) -> None:
        """Adds the batches that came since the last time."""
        key = (stream, family, table)
        counts = self._counts.setdefault(key, Counter())
        first, latest = self._read.get(key, -1) + 1, self.service.deliveries.latest(stream, family)
        for batch in range(first, latest + 1):
            manifest = self.service.deliveries.manifest(stream, family, batch)
            if manifest is not None:
                counts.update(self.service.deliveries.counts_of(manifest, table))
            self._read[key] = batch


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
