"""The service under load (tests/service/load.py says what is done): events, lag and memory.

    python -m bench.service [--listeners 200] [--subscriptions 5000] [--batches 40] [--json FILE]

Memory is the resident set of the service's process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.harness import Report
from tests.service.load import Load, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.service", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--subscriptions", type=int, default=5_000)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two batches")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    load = Load(given.listeners, given.subscriptions, given.batches, given.pause)
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(load, Path(folder) / "out")
    report = Report(f"service: {load.listeners} listeners, {load.subscriptions:,} subscriptions")
    lags = sorted(outcome.lags_s)
    report.figure("events", outcome.events)
    report.figure("connections resumed", outcome.resumed)
    report.figure("subscriptions listed", outcome.listed)
    report.figure("lag of an event, median s", lags[len(lags) // 2])
    report.figure("lag of an event, 99 % s", lags[len(lags) * 99 // 100])
    memory = outcome.memory_mb
    report.figure("memory after the first quarter, MB", max(memory[: len(memory) // 4 + 1]))
    report.figure("memory at most, MB", max(memory))
    report.ratio("listeners that missed a row or got one twice", len(outcome.wrong), at_most=0)
    growth = max(memory) / max(memory[: len(memory) // 4 + 1])
    report.ratio("memory at most / after the first quarter", growth, at_most=1.25)
    print("memory by batch, MB:", *(f"{value:.0f}" for value in memory))
    report.show(given.json)
    for wrong in outcome.wrong[:10]:
        print(wrong)
    sys.exit(0 if all(entry["met"] for entry in report.ratios) else 1)


if __name__ == "__main__":
    main()
