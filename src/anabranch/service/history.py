"""How the streams went lately: a point a batch, for the charts of the dashboard.

In: manifests, when they were written, and what Spark says of its last batch. Out: the last batches of every
stream and family. Never: a manifest twice; a batch that exists does not change.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from anabranch.catalog.deliveries import Manifest
from anabranch.model.stream import Stream
from anabranch.service.desk import Desk
from anabranch.service.metrics import lag_seconds
from anabranch.service.views import Point, Progress

#: So many batches are remembered; at a batch a second, two minutes.
BATCHES = 120


class History:
    """One for a service; may be used from several threads."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._points: dict[tuple[str, str], deque[Point]] = {}
        self._lock = threading.Lock()

    def progress(self) -> list[Progress]:
        """Every family of every stream that has delivered something."""
        found = []
        measured = {(one.stream, one.family): one for one in self.desk.measured()}
        with self._lock:
            for name, stream in self.desk.catalog.streams().items():
                for family in self.desk.layout.families(name):
                    points, last = self._read(name, family)
                    if last is None:
                        continue
                    spark = measured.get((name, family))
                    if spark is not None:
                        _note(points, spark.batch, spark.batch_seconds)
                    found.append(_progress(stream, family, last, list(points)))
                    if spark is not None:
                        found[-1].batch_seconds = spark.batch_seconds
                        found[-1].state_bytes, found[-1].behind = spark.state_bytes, spark.behind
        return found

    def _read(self, stream: str, family: str) -> tuple[deque[Point], Manifest | None]:
        """Adds the batches that came since the last time."""
        points = self._points.setdefault((stream, family), deque(maxlen=BATCHES))
        deliveries = self.desk.deliveries
        latest = deliveries.latest(stream, family)
        first = max(points[-1].batch + 1 if points else 0, latest + 1 - BATCHES)
        for batch in range(first, latest + 1):
            manifest = deliveries.manifest(stream, family, batch)
            if manifest is not None:
                written = deliveries.written(stream, family, batch)
                items, rows = manifest.books.get("processed", 0), sum(manifest.rows.values())
                points.append(Point(batch=batch, at=written, items=items, results=rows, seconds=None))
        return points, deliveries.manifest(stream, family, latest)


def _note(points: Iterable[Point], batch: int, seconds: float) -> None:
    for point in points:
        if point.batch == batch:
            point.seconds = seconds


def _progress(stream: Stream, family: str, last: Manifest, points: list[Point]) -> Progress:
    return Progress(
        stream=stream.name,
        family=family,
        batch=last.batch,
        age_seconds=max(0.0, time.time() - points[-1].at) if points else 0.0,
        lag_seconds=lag_seconds(stream, last),
        batch_seconds=None,
        state_bytes=None,
        behind=None,
        books=last.books,
        points=points,
    )
