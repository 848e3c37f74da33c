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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.packets import Kind
from anabranch.chain.runner import Inbox, Runner
from anabranch.families.moving.servers import NEAREST_MOVES, RECORDS
from anabranch.model.stream import Stream
from anabranch.simulate.place.world import STREAM
from bench.harness import Report
from tests.families.moving.nearest_answers import BATCH, FLIGHTS, Counts, compare, flights, paper, run


class Counting(Runner):
    """Counts what homes send so that zones have the objects in their search regions."""

    sent = 0

    def _run_stage(self, depth: int, inboxes: dict[int, Inbox]) -> None:
        super()._run_stage(depth, inboxes)
        if depth == 1:
            packets = [packet for _, packet in inboxes.get(2, []) if packet.kind is Kind.PARTIAL]
            self.sent += sum(p.rows.num_rows for p in packets if p.facts["what"] in (NEAREST_MOVES, RECORDS))


def costs(report: Report, name: str, stream: Stream, items: pa.RecordBatch, focal: list[Any], k: int) -> None:
    seconds = {}
    for zones in (1, 2, 9):
        counted = items.num_rows // (2 * BATCH) * BATCH
        batches = run(stream, items, focal, k, zones, Counting)
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


def _written(runner: Runner) -> int:
    """Bytes of state that the last batch would have written on Spark."""
    return sum(len(body) for state in runner.states.values() for _, body in state.take_changes()[0])


def note(report: Report, name: str, counts: Counts) -> None:
    report.figure(f"{name}: answers", counts.answers)
    report.ratio(f"{name}: share of full answers that say so", counts.complete / counts.full, at_least=1)
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
