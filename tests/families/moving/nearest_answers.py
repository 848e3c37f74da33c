"""Answers to NEAREST ... OBJECTS beside brute force, tick by tick.

The streams are recorded flights and the paper's workload. test_complete.py runs slices of both,
`python -m bench.moving_nearest` the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.chain.runner import Runner
from anabranch.families.moving.spec import KNearest, Moving
from anabranch.families.registry import family
from anabranch.model.arrays import Array
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, End
from anabranch.model.stream import Stream
from anabranch.numeric.globe import EARTH_RADIUS
from anabranch.simulate.place.world import PAPER, World

R = TypeVar("R", bound=Runner)

FLIGHTS = Stream(
    "flights",
    (
        Column("t", ColumnType.INT),
        Column("o", ColumnType.STRING),
        Column("x", ColumnType.FLOAT),
        Column("y", ColumnType.FLOAT),
    ),
    time="t",
    object="o",
    position=("x", "y"),
    metric="haversine",
    bounds=((1.0, 4.0), (47.5, 50.0)),
)

#: Reports per batch.
BATCH = 20_000

#: Two objects whose distances differ by less cannot be told apart by brute force in other arithmetic.
TIE = 1e-9


@dataclass
class Counts:
    """Counts of answers. An answer is what a query has at a tick at which rows of it came out."""

    answers: int = 0
    full: int = 0  # those that hold k objects
    complete: int = 0  # those that say so
    right: int = 0  # of the complete ones
    ticks: int = 0  # of all queries, silent ones as well
    right_ticks: int = 0


def flights(file: Path, rows: int | None = None) -> pa.RecordBatch:
    table = pq.read_table(file, columns=["time", "icao24", "longitude", "latitude"])
    table = table.slice(0, rows) if rows is not None else table
    columns = [table.column(name).combine_chunks() for name in table.column_names]
    columns[1] = columns[1].cast(pa.string())
    return pa.record_batch(columns, names=["t", "o", "x", "y"])


def run(
    stream: Stream, items: pa.RecordBatch, focal: list[Any], k: int, zones: int, kind: type[R]
) -> Iterator[R]:
    """Yields the runner after each batch; after the last one all queries have their results."""
    runner = kind(stream, family("moving"), zones)
    control = [
        Activate(number, f"q{number}", Moving(KNearest(k), str(name)).to_json())
        for number, name in enumerate(focal)
    ]
    for first in range(0, items.num_rows, BATCH):
        runner.batch(items.slice(first, BATCH), control if first == 0 else ())
        yield runner
    runner.batch(None, [End()])
    runner.settle()
    yield runner


def compare(stream: Stream, items: pa.RecordBatch, focal: list[Any], k: int, zones: int = 9) -> Counts:
    """Runs NEAREST k around each focal object, and compares with brute force at every tick."""
    *_, runner = run(stream, items, focal, k, zones, Runner)
    told = _told(runner, len(focal))
    names, who = np.unique(items.column("o").to_numpy(zero_copy_only=False), return_inverse=True)
    index = {name: place for place, name in enumerate(names.tolist())}
    times, x, y = (items.column(name).to_numpy() for name in ("t", "x", "y"))
    places = np.full((len(names), 2), np.nan)
    now: list[set[int]] = [set() for _ in focal]
    counts, row = Counts(), 0
    for tick in range(int(times[0]), int(times[-1]) + 1):
        end = int(np.searchsorted(times, tick, side="right"))
        for place in range(row, end):
            places[who[place]] = x[place], y[place]
        row = end
        for number, name in enumerate(focal):
            rows = told[number].get(tick, [])
            for op, other, _ in rows:
                (now[number].add if op == "+" else now[number].remove)(index[other])
            right = _is_right(stream, places, index[name], k, now[number])
            counts.ticks += 1
            counts.right_ticks += right
            if rows:
                complete = all(row[2] for row in rows)
                counts.answers += 1
                counts.full += len(now[number]) == k
                counts.complete += complete
                counts.right += complete and right
    return counts


def _told(runner: Runner, queries: int) -> list[dict[int, list[tuple[str, Any, bool]]]]:
    """query -> tick -> (op, object, complete)"""
    out: list[dict[int, list[tuple[str, Any, bool]]]] = [{} for _ in range(queries)]
    for batches in runner.tables["moving"].values():
        for batch in batches:
            names = ("subscription", "at", "op", "object", "complete")
            for asked, at, *row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                out[int(asked[1:])].setdefault(int(at), []).append(tuple(row))
    return out


def _is_right(stream: Stream, places: Array, focal: int, k: int, found: set[int]) -> bool:
    if np.isnan(places[focal, 0]):
        return not found
    far = _distances(stream, places, places[focal])
    far[focal] = np.nan
    known = np.flatnonzero(~np.isnan(far))
    if len(found) != min(k, len(known)):
        return False
    others = np.setdiff1d(known, list(found))
    return not len(others) or not found or far[list(found)].max() <= far[others].min() + TIE


def _distances(stream: Stream, places: Array, focal: Array) -> Array:
    if stream.metric == "euclidean":
        return np.asarray(np.hypot(*(places - focal).T))
    lon, lat = np.radians(places).T
    focal_lon, focal_lat = np.radians(focal)
    chord = np.sin((lat - focal_lat) / 2) ** 2
    chord += np.cos(lat) * np.cos(focal_lat) * np.sin((lon - focal_lon) / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS["km"] * np.arcsin(np.sqrt(np.minimum(chord, 1.0))))


def paper(scale: float, seconds: int) -> tuple[pa.RecordBatch, list[int]]:
    world = World(PAPER.scaled(scale))
    focal = world.pairs()[:, 0]
    batches = [world.items(world.step()) for _ in range(seconds)]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0], focal.tolist()
