"""How many answers to NEAREST ... OBJECTS are complete, and whether those are right:
`python -m bench.moving_nearest [--adsb FILE] [--scale 0.02]`.

Every tick of every query beside brute force over the last report of every object: on recorded flights, and on
the paper's workload, scaled down. And what more zones cost, for a query on every 56th object and for a tenth
of these: CPU of all zones beside one, the state they write, and how many moves and records homes send for
search regions, in the second half of the stream, when search regions have settled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.families.moving.messages import NEAR_MOVES, RECORDS
from anabranch.families.moving.regions import EARTH_RADIUS
from anabranch.families.moving.spec import KNearest, Moving
from anabranch.families.registry import family
from anabranch.local.runner import LocalRunner, Mail
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control import Activate, End
from anabranch.model.stream import Stream
from anabranch.simulate.place.world import PAPER, STREAM, World
from anabranch.zones.packets import Kind
from bench.harness import Report

Array = np.ndarray[Any, Any]

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

#: Reports a batch.
BATCH = 20_000

#: Two objects whose distances differ by less cannot be told apart by brute force in other arithmetic.
TIE = 1e-9


@dataclass
class Counts:
    """Of answers, which are what a query has at a tick at which something about it was told."""

    answers: int = 0
    complete: int = 0
    right: int = 0  # of the complete ones
    ticks: int = 0  # of all queries, silent ones as well
    right_ticks: int = 0


def flights(file: Path, rows: int | None = None) -> pa.RecordBatch:
    table = pq.read_table(file, columns=["time", "icao24", "longitude", "latitude"])
    table = table.slice(0, rows) if rows is not None else table
    columns = [table.column(name).combine_chunks() for name in table.column_names]
    columns[1] = columns[1].cast(pa.string())
    return pa.record_batch(columns, names=["t", "o", "x", "y"])


class Counting(LocalRunner):
    """Counts what homes send so that zones have the objects in their search regions."""

    sent = 0

    def _run_stage(self, place: int, mail: dict[int, Mail]) -> None:
        super()._run_stage(place, mail)
        if place == 1:
            packets = [packet for _, packet in mail.get(2, []) if packet.kind is Kind.PARTIAL]
            self.sent += sum(p.rows.num_rows for p in packets if p.facts["what"] in (NEAR_MOVES, RECORDS))


def run(stream: Stream, items: pa.RecordBatch, focal: list[Any], k: int, zones: int) -> Iterator[Counting]:
    """A batch each time it is asked; at the end of the last one all is answered."""
    runner = Counting(stream, family("moving"), zones)
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


def costs(report: Report, name: str, stream: Stream, items: pa.RecordBatch, focal: list[Any], k: int) -> None:
    seconds = {}
    for zones in (1, 2, 9):
        counted = items.num_rows // (2 * BATCH) * BATCH
        batches = run(stream, items, focal, k, zones)
        for _ in range((items.num_rows - counted) // BATCH):
            runner = next(batches)
        _written(runner)
        seconds[zones], written, sent = 0.0, 0, runner.sent
        while True:
            before = time.process_time()
            if next(batches, None) is None:
                break
            seconds[zones] += time.process_time() - before
            written += _written(runner)
        report.figure(f"{name}, {zones} zones: CPU, us a report", 1e6 * seconds[zones] / counted)
        report.figure(f"{name}, {zones} zones: state written, bytes a report", written / counted)
        if zones > 1:
            report.figure(f"{name}, {zones} zones: sent for them, a report", (runner.sent - sent) / counted)
    for zones in (2, 9):
        report.figure(f"{name}: CPU of {zones} zones / one", seconds[zones] / seconds[1])


def _written(runner: LocalRunner) -> int:
    """Bytes of state that the last batch would have written on Spark."""
    return sum(len(body) for state in runner.states.values() for _, body in state.take_changes()[0])


def compare(stream: Stream, items: pa.RecordBatch, focal: list[Any], k: int, zones: int = 9) -> Counts:
    """Runs NEAREST k around each focal object, and compares with brute force at every tick."""
    *_, runner = run(stream, items, focal, k, zones)
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
                counts.complete += complete
                counts.right += complete and right
    return counts


def _told(runner: LocalRunner, queries: int) -> list[dict[int, list[tuple[str, Any, bool]]]]:
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


def note(report: Report, name: str, counts: Counts) -> None:
    report.figure(f"{name}: answers", counts.answers)
    report.ratio(
        f"{name}: share of answers that are complete", counts.complete / counts.answers, at_least=0.99
    )
    report.ratio(
        f"{name}: share of complete answers that are right", counts.right / counts.complete, at_least=1
    )
    report.ratio(f"{name}: share of ticks that are right", counts.right_ticks / counts.ticks, at_least=1)


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adsb", type=Path, help="recorded flights: time, icao24, longitude, latitude")
    parser.add_argument("--rows", type=int, help="only so many of them")
    parser.add_argument("--scale", type=float, default=0.02, help="of the paper's objects and queries")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    report = Report("bench/moving_nearest")
    if given.adsb is not None:
        items = flights(given.adsb, given.rows)
        focal = np.unique(items.column("o").to_numpy(zero_copy_only=False))[::8].tolist()
        note(report, "flights, 3 nearest", compare(FLIGHTS, items, focal, 3))
    items, asked = paper(given.scale, 60)
    note(report, "paper, 50 nearest", compare(STREAM, items, asked, 50))
    items, asked = paper(5 * given.scale, 168)
    for some in (asked, asked[::10]):
        costs(report, f"{len(some)} queries, 50 nearest", STREAM, items, some, 50)
    report.show(given.json)


if __name__ == "__main__":
    main()
