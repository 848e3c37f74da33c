"""How long the plan page of the dashboard takes with many subscriptions: `python -m bench.monitor`.

    python -m bench.monitor [--subscriptions 5000] [--json FILE]

A real service over a catalog of drawn selections and aggregates, most of them with a condition of their own,
asked over HTTP for what the page asks for: the plan, then the network. First without the thread that follows
the subscriptions, as if the page were opened in the moment of the start; then with it, as `anabranch serve`
runs it: ten seconds after the start (Spark takes longer), right after a subscription has come, and again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import httpx
import numpy as np

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.registration import bind_subscription
from anabranch.job.declarations import declare
from anabranch.model.columns import Column, ColumnType
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.subscription import Subscription
from anabranch.results.layout import Layout
from anabranch.service.job_service import JobService
from anabranch.service.monitor import Monitor
from anabranch.service.server import serving
from bench.harness import Report

PARTS = ("plan", "network")
#: As long the page of a service that runs may take.
ASKED_S = 1.5
START_S = 10.0


def drawn(random: np.random.Generator) -> str:
    """Half a region and an energy, three in ten an energy, two in ten an aggregate over a strip."""
    ra, dec, kind = random.uniform(0, 340), random.uniform(-80, 80), random.integers(10)
    strip, energy = f"ra BETWEEN {ra:.1f} AND {ra + 18:.1f}", f"en >= {random.integers(1, 60) / 10}"
    if kind < 5:
        region = f"{strip} AND dec BETWEEN {dec:.1f} AND {dec + 9:.1f}"
        return f"SELECT ra, dec, en FROM photons WHERE {region} AND {energy}"
    if kind < 8:
        return f"SELECT ra, dec FROM photons WHERE {energy}"
    return f"SELECT avg(en) AS mean FROM photons WHERE {strip} WINDOW ROWS 100"


def make_sink(root: Path, subscriptions: int) -> Layout:
    layout, random = Layout(root), np.random.default_rng(0)
    declaration = StreamDeclaration("photons", Source("parquet", {"path": "/none"}), {"time": "det_time"})
    columns = tuple(Column(name, ColumnType.FLOAT) for name in ("det_time", "ra", "dec", "en"))
    known = {"photons": declare(declaration, columns)}
    asked = [bind_subscription(Subscription(f"q{n}", drawn(random)), known) for n in range(subscriptions)]
    with Catalog(layout.catalog) as catalog:
        catalog.register_stream(known["photons"], declaration)
        catalog.subscribe_many(asked)
    return layout


def looked(http: httpx.Client) -> list[float]:
    """Seconds of each part of the page."""
    out = []
    for part in PARTS:
        begun = time.perf_counter()
        http.get(f"/api/{part}").raise_for_status()
        out.append(time.perf_counter() - begun)
    return out


def run(layout: Layout, follows: bool, report: Report) -> float:
    """The longest that a page took."""
    monitor = Monitor(layout)
    service = JobService(layout, monitor.plan, monitor.network)
    took: dict[str, list[float]] = {}
    with (
        monitor.following() if follows else nullcontext(),
        serving(service, "127.0.0.1", 0) as address,
        httpx.Client(base_url=address, trust_env=False, timeout=120) as http,
    ):
        time.sleep(START_S if follows else 0)
        took["the first page"] = looked(http)
        asked = {"name": f"new, {follows}", "query": f"SELECT en FROM photons WHERE en > {7 + follows}"}
        http.post("/api/subscriptions", json=asked).raise_for_status()
        took["after a subscription"] = looked(http)
        took["again"] = looked(http)
    how = "followed" if follows else "not followed"
    for what, parts in took.items():
        for part, seconds in zip(PARTS, parts, strict=True):
            report.figure(f"{how}, {what}: {part}, s", seconds)
    return max(map(sum, took.values()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.monitor", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--subscriptions", type=int, default=5_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    report = Report(f"the plan page of {given.subscriptions:,} subscriptions")
    with tempfile.TemporaryDirectory() as folder:
        layout = make_sink(Path(folder) / "out", given.subscriptions)
        run(layout, False, report)
        report.ratio("the slowest page, followed, s", run(layout, True, report), at_most=ASKED_S)
    report.show(given.json)
    sys.exit(0 if all(entry["met"] for entry in report.ratios) else 1)


if __name__ == "__main__":
    main()
