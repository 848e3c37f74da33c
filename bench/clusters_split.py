"""One heavy group of cluster queries in one zone beside the same split over several:
`python -m bench.clusters_split`.

Zones run one after the other on the local runner and their CPU is taken each by itself, so the slowest zone
is what a stream would wait for if each had a core. Batches in which a split takes effect, and those before,
are left out. Both must give the same rows.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.balance import Patience
from anabranch.chain.packets import Packet
from anabranch.chain.runner import Runner
from anabranch.chain.state import State
from anabranch.families.clusters.family import ClustersFamily
from anabranch.families.clusters.neighbourhood import Neighbourhood
from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.job.generated_streams import targets
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from bench.harness import Report

STREAM = Stream(
    "targets",
    tuple(Column(name, ColumnType.FLOAT) for name in ("time", "latitude", "longitude")),
    time="time",
)
BY = ("latitude", "longitude")
#: Restless at first, so that work is shared; then the table of splits stays.
SETTLING = 16


class Timed(Neighbourhood):
    """Counts the CPU seconds of each zone."""

    seconds: dict[int, float]

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        begun = time.process_time()
        out = super().step(zone, state, packets)
        self.seconds[zone] += time.process_time() - begun
        return out


class TimedFamily(ClustersFamily):
    def chain(self, stream: Stream, zones: int) -> Any:
        chain = super().chain(stream, zones)
        chain.stages[0].__class__ = Timed
        return chain


def asked(queries: int, window: int, scattered: bool) -> list[Activate]:
    """Arbitrary ranges, counts and windows, in steps of a tenth of the largest window; scattered: each with
    a step of its own, so that hardly two are due at once.
    """
    random = np.random.default_rng(7)
    out = []
    for number in range(queries):
        size = int(random.integers(5, 11)) * (window // 10)
        step = window // 10 + (17 * number if scattered else 0)
        spec = Clusters(
            float(random.uniform(0.001, 0.01)),
            int(random.integers(2, 30)),
            BY,
            Window("rows", size, step),
            emit=Emit.CHANGES if number == 0 else Emit.SUMMARY,
        )
        out.append(Activate(number, f"q{number}", spec.to_json()))
    return out


def run(zones: int, queries: list[Activate], batch: int, batches: int) -> tuple[list[float], list[Any]]:
    """CPU seconds of each zone over the last batches, and all rows."""
    runner = Runner(STREAM, TimedFamily(Patience(batches=3, hot=1.1, least=1)), zones)
    stage = runner.stage(1)
    assert isinstance(stage, Timed)
    stage.seconds = defaultdict(float)
    for place in range(SETTLING + batches):
        if place == SETTLING - 2:
            stage.patience = Patience(batches=1 << 40)
        if place == SETTLING:
            stage.seconds.clear()
        made = targets(place * batch, batch)
        items = pa.record_batch({name: made[name] for name in STREAM_COLUMNS})
        runner.batch(items, queries if place == 0 else ())
    seconds = [stage.seconds[zone] for zone in range(zones)]
    runner.settle()
    rows = [
        each.to_pylist()
        for table in ("summary", "changes")
        for rows in runner.tables[table].values()
        for each in rows
    ]
    return seconds, [row for part in rows for row in part]


STREAM_COLUMNS = [column.name for column in STREAM.columns]


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--window", type=int, default=20_000, help="rows of the largest window")
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--zones", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--scattered", action="store_true", help="hardly two windows are due at once")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    report = Report("bench/clusters_split")
    size = (asked(given.queries, given.window, given.scattered), given.batch)
    run(1, *size, 1)  # compiles
    (whole,), rows = run(1, *size, given.batches)
    report.figure("CPU s, one zone", whole)
    for zones in given.zones:
        seconds, split_rows = run(zones, *size, given.batches)
        assert split_rows == rows, "a split changed what came out"
        for zone, each in enumerate(seconds):
            report.figure(f"CPU s, zone {zone} of {zones}", each)
        report.ratio(
            f"tuples/s of {zones} zones with a core each / one zone", whole / max(seconds), at_least=1.2
        )
        report.ratio(f"CPU of all {zones} zones / one zone", sum(seconds) / whole, at_most=2.0)
    report.show(given.json)


if __name__ == "__main__":
    main()
