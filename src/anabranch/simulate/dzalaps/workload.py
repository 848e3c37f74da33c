"""The paper's data and queries (D-ZaLaPS, section 6): uniform, clustered, or recorded items, and the points
of queries.

Items lie within [0, 1] along every dimension and are rows of a stream with an integer time, one item per
unit. They come in random order, as PA assumes. Recorded ones come from a parquet file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.families.nearest.spec import Nearest
from anabranch.model.arrays import Floats
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream
from anabranch.model.window import Window

DATA = ("uniform", "clustered", "recorded")

#: Two clusters, variance 0.1 along each dimension (section 6).
CLUSTERS = 2
VARIANCE = 0.1


@dataclass(frozen=True)
class Workload:
    """Points of items, [n, d], and of queries, [m, d]."""

    name: str
    items: Floats
    queries: Floats

    @property
    def stream(self) -> Stream:
        names = self.columns
        columns = (Column("t", ColumnType.INT), *(Column(name, ColumnType.FLOAT) for name in names))
        return Stream("items", columns, time="t", position=names, bounds=((0.0, 1.0),) * len(names))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"x{dimension}" for dimension in range(self.items.shape[1]))

    def rows(self, first: int, stop: int) -> pa.RecordBatch:
        stop = min(stop, len(self.items))
        points = {name: self.items[first:stop, index] for index, name in enumerate(self.columns)}
        return pa.record_batch({"t": np.arange(first, stop), **points})

    def activations(
        self, k: int, window: int, method: str = "RAPF", sigma: float | None = None
    ) -> list[Activate]:
        """All queries, from the start, over the last `window` items."""
        size = Window("range", window, window)
        return [
            Activate(
                number,
                f"q{number}",
                Nearest(k, tuple(point), self.columns, size, method=method, sigma=sigma).to_json(),
                None,
            )
            for number, point in enumerate(self.queries.tolist())
        ]


def uniform(items: int, queries: int, dimensions: int = 4, seed: int = 0) -> Workload:
    rng = np.random.default_rng([seed, 1])
    return Workload("uniform", rng.random((items, dimensions)), rng.random((queries, dimensions)))


def clustered(items: int, queries: int, dimensions: int = 4, seed: int = 0) -> Workload:
    """Normal around two random centres; what falls outside [0, 1] is drawn again."""
    rng = np.random.default_rng([seed, 2])
    centres = rng.random((CLUSTERS, dimensions))
    return Workload("clustered", _normal(rng, centres, items), _normal(rng, centres, queries))


def _normal(rng: np.random.Generator, centres: Floats, count: int) -> Floats:
    points = np.empty((count, centres.shape[1]))
    centre = centres[rng.integers(0, len(centres), count)]
    todo = np.ones(points.shape, np.bool_)
    while todo.any():
        points[todo] = rng.normal(centre[todo], VARIANCE**0.5)
        todo = (points < 0) | (points > 1)
    return points


def recorded(
    file: Path, columns: Sequence[str], items: int, queries: int, seed: int = 0, shuffled: bool = True
) -> Workload:
    """Rows of a parquet file that have all these columns, each scaled to [0, 1] from its 1st to its 99th
    percentile; drawn at random, with repetition if there are too few, or, if not shuffled, as recorded.
    """
    present = pq.read_schema(file).names
    missing = [name for name in columns if name not in present]
    if missing:
        raise JobError(f"{file} has no column {missing[0]!r}; it has: {', '.join(present)}")
    table = pq.read_table(file, columns=list(columns))
    points = np.column_stack([table.column(name).to_numpy().astype(np.float64) for name in columns])
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        raise JobError(f"{file} has no row with all of {', '.join(columns)}")
    low, high = np.percentile(points, [1, 99], axis=0)
    points = np.clip((points - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    rng = np.random.default_rng([seed, 3])
    chosen = rng.integers(0, len(points), items) if shuffled else np.arange(items) % len(points)
    return Workload("recorded", points[chosen], points[rng.integers(0, len(points), queries)])
