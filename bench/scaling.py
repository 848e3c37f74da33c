"""What Spark adds to a row, and what a second core gives: `python -m bench.scaling`.

Thousands of queries over parquet files, one batch per file; each turn is a job in a process of its own.
Measured over the batches after the first few: CPU of all processes per row, and rows per second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Report
from bench.memory import cpu_seconds

#: Batches that start Java and the workers, and are not counted.
WARM = 4


@dataclass(frozen=True)
class Workload:
    columns: Callable[[int, int], dict[str, Any]]  # of file number `file`, with so many rows
    queries: Callable[[], list[str]]
    settings: dict[str, Any]


def _readings(file: int, rows: int) -> dict[str, Any]:
    random = np.random.default_rng(file)
    return {
        "t": np.sort(random.random(rows)) * 1000 + file * 1000,
        **{c: random.random(rows) for c in "abcd"},
    }


def _reports(file: int, rows: int) -> dict[str, Any]:
    """Ten ticks; every object reports once per tick."""
    random = np.random.default_rng(file)
    ticks = np.arange(file * 10, file * 10 + 10, dtype=float)
    objects = np.arange(rows // 10)
    return {
        "t": np.repeat(ticks, len(objects)),
        "o": np.tile(objects, 10),
        "x": random.random(10 * len(objects)),
        "y": random.random(10 * len(objects)),
    }


def _selections(count: int) -> list[str]:
    lows = np.random.default_rng(99).random(count)
    return [f"SELECT t, a FROM s WHERE a BETWEEN {x:.6f} AND {x + 0.5 / count:.6f}" for x in lows]


def _aggregates() -> list[str]:
    return [
        f"SELECT avg(b) AS m, count(*) AS n FROM s WHERE a > {number // 100 / 10} "
        f"WINDOW RANGE {100 + 10 * (number % 40)} STEP {50 + 5 * (number % 30)}"
        for number in range(1000)
    ]


def _fences() -> list[str]:
    points = np.random.default_rng(99).random((23_000, 2))
    return [f"SELECT OBJECTS WITHIN 0.002 OF ({x:.6f}, {y:.6f}) FROM s" for x, y in points]


MOVING = {"object": "o", "position": ["x", "y"], "bounds": [[0, 1], [0, 1]]}
WORKLOADS = {
    "1 selection": Workload(_readings, lambda: _selections(1), {}),
    "1,000 selections": Workload(_readings, lambda: _selections(1000), {}),
    "10,000 selections": Workload(_readings, lambda: _selections(10_000), {}),
    "1,000 aggregates": Workload(_readings, _aggregates, {}),
    "23,000 fences": Workload(_reports, _fences, MOVING),
}


@dataclass(frozen=True)
class Turn:
    """CPU per row in microseconds, rows per second, and seconds to register the queries of a job."""

    cpu_us: float
    rows_per_s: float
    register_s: float


def one_job(name: str, source: Path, out: Path, cores: int, zones: int | None) -> Turn:
    from anabranch.model.job import EngineSettings
    from anabranch.results.manifests import Manifest
    from anabranch.spark.engine import Engine
    from anabranch.spark.session import make_session

    work, seen = WORKLOADS[name], dict[int, tuple[float, float, int]]()

    def after(branch: str, manifest: Manifest) -> None:
        seen[manifest.batch] = cpu_seconds(), time.monotonic(), manifest.books["rows_in"]

    settings = EngineSettings(zones=zones, max_files_per_batch=1)
    with Engine(make_session("scaling", cores=cores), out, settings=settings, after=after) as engine:
        engine.stream("s", path=str(source / "*.parquet"), time="t", **work.settings)
        began = time.monotonic()
        engine.subscribe_many({f"q{number}": text for number, text in enumerate(work.queries())})
        register_s = time.monotonic() - began
        engine.start()
        engine.drain()
    files = len(list(source.glob("*.parquet")))
    first, last = seen[WARM], seen[files - 1]
    cpu, clock, rows = (after - before for before, after in zip(first, last, strict=True))
    return Turn(1e6 * cpu / rows, rows / clock, register_s)


def turn(name: str, source: Path, cores: int = 2, zones: int | None = None) -> Turn:
    """Runs a job in a process of its own, so that every Java starts cold."""
    command = [sys.executable, "-m", "bench.scaling", "--job", name, "--source", str(source)]
    command += ["--cores", str(cores), *(["--zones", str(zones)] if zones else [])]
    with tempfile.TemporaryDirectory() as out:
        ran = subprocess.run([*command, "--out", f"{out}/out"], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    made = Turn(**json.loads(ran.stdout.splitlines()[-1]))
    print(f"  {name}, {cores} cores, {zones or 'default'} zones: {made}", file=sys.stderr, flush=True)
    return made


def write_files(folder: Path, work: Workload, files: int, rows: int) -> Path:
    folder.mkdir(parents=True)
    for file in range(files):
        pq.write_table(pa.table(work.columns(file, rows)), folder / f"{file:03d}.parquet")
    return folder


def measure(report: Report, folder: Path, names: list[str], files: int, rows: int) -> None:
    for name in names:
        source = write_files(folder / name.replace(" ", "-"), WORKLOADS[name], files, rows)
        one, two = turn(name, source, zones=1), turn(name, source, zones=2)
        single = turn(name, source, cores=1, zones=1)
        report.figure(f"{name}: CPU us per row, one zone", one.cpu_us)
        report.figure(f"{name}: rows/s on two cores, one zone", one.rows_per_s)
        report.figure(f"{name}: seconds to register", one.register_s)
        report.ratio(f"{name}: CPU of two zones / one zone", two.cpu_us / one.cpu_us, at_most=1.5)
        best = max(one.rows_per_s, two.rows_per_s)
        report.ratio(f"{name}: rows/s of two cores / one core", best / single.rows_per_s, at_least=1.6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="some of the workloads")
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rows", type=int, default=1_000_000, help="per file")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    for hidden in ("--job", "--source", "--out", "--cores", "--zones"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        zones = int(given.zones) if given.zones else None
        made = one_job(given.job, Path(given.source), Path(given.out), int(given.cores), zones)
        print(json.dumps(asdict(made)))
        return
    report = Report("what Spark adds, and what a second core gives")
    with tempfile.TemporaryDirectory() as folder:
        measure(report, Path(folder), given.only or list(WORKLOADS), given.files, given.rows)
    report.show(given.json)


if __name__ == "__main__":
    main()
