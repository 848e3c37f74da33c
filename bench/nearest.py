"""Nearest: `python -m bench.nearest [--only errors,candidates,cpu,queries] [--recorded FILE]
[--spark [growth] [plain]] [--json FILE]`.

Ratios from one run. `errors`: PA's missed and false reports beside sigma, in random order, and without a
bound on streams that drift. `candidates`: what RA and PA hold beside the true k-skyband, in the setting of
table 1, and the CPU an item there. `cpu`: 1,000 queries beside scipy's cKDTree, built anew every 100 items.
`queries`: from 400 to 40,000. `--spark` (bench/nearest_spark.py): the same growth in a job, all processes
counted; and RAPF at k = 9 beside the plain pipeline (bench/pipeline.py) on the same files.

A run hands results on, as delivery does, and does not keep them, except to compare them: memory that is new
to a process costs more than what is written into it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from anabranch.chain.runner import Runner
from anabranch.families.nearest import query_groups
from anabranch.families.registry import family
from anabranch.simulate.dzalaps.workload import Workload, clustered, recorded, uniform
from bench.harness import Report
from tests.oracles.skyband import skyband

COLUMNS = ("ambient_temp", "surface_temp", "rel_humidity", "wind_dir")
SIGMAS = (1e-2, 1e-3, 1e-4)
KS = (1, 3, 9, 27, 81)
PARTS = ("errors", "candidates", "cpu", "queries")
ON_SPARK = ("growth", "plain")


class Run:
    """One zone over a workload, warm-up first."""

    def __init__(
        self,
        work: Workload,
        k: int,
        window: int,
        method: str,
        sigma: float | None = None,
        batch: int = 2000,
        keep: bool = False,
    ) -> None:
        """`keep`: results stay, for `reports`."""
        self.work, self.batch, self.keep = work, batch, keep
        self.runner = Runner(work.stream, family("nearest"))
        self.control = work.activations(k, window, method, sigma)
        self.now = 0

    def until(self, stop: int) -> float:
        """CPU seconds up to this item."""
        begin = time.process_time()
        while self.now < stop:
            after = min(self.now + self.batch, stop)
            self.runner.batch(self.work.rows(self.now, after), self.control if self.now == 0 else ())
            self.now = after
            if not self.keep:
                self.runner.tables.clear()
        return time.process_time() - begin

    def reports(self) -> set[tuple[str, int]]:
        """(subscription, item) of all that was ever reported."""
        out: set[tuple[str, int]] = set()
        for parts in self.runner.tables["nearest"].values():
            for rows in parts:
                columns = (rows.column(name).to_pylist() for name in ("subscription", "op", "id"))
                out.update((who, item) for who, op, item in zip(*columns, strict=True) if op == "+")
        return out

    def held(self) -> float:
        """Candidates a query, the answer included."""
        state = self.runner.state(2, 0)
        return sum(
            len((state.get(key) or {})["number"]) for key in state.keys(query_groups.CANDIDATES)
        ) / len(self.work.queries)


def workloads(file: Path | None, items: int, queries: int) -> Iterator[Workload]:
    yield uniform(items, queries)
    yield clustered(items, queries)
    if file is not None:
        yield recorded(file, COLUMNS, items, queries)


def drifting(file: Path | None, items: int, queries: int) -> Iterator[Workload]:
    """Streams in which PA's assumption does not hold."""
    away = uniform(items, queries)
    shift = np.linspace(0, 0.5, items)[:, None]
    yield replace(away, name="moving away", items=np.mod(away.items * 0.5 + shift, 1.0))
    if file is not None:
        as_it_is = recorded(file, COLUMNS, items, queries, shuffled=False)
        yield replace(as_it_is, name="recorded order")


def errors(report: Report, file: Path | None) -> None:
    items, window = 60_000, 5_000
    for bound, works in ((True, workloads), (False, drifting)):
        for work in works(file, items, 400 if bound else 100):
            for k in (1, 3, 27):
                exact = Run(work, k, window, "RAPF", keep=True)
                exact.until(items)
                true = exact.reports()
                for sigma in SIGMAS:
                    run = Run(work, k, window, "PA", sigma, keep=True)
                    run.until(items)
                    found = run.reports()
                    name = f"{work.name}, k {k}, PA({sigma:g})"
                    report.figure(f"{name}: missed a report", len(true - found) / len(true))
                    report.figure(f"{name}: false a report", len(found - true) / len(true))
                    if bound:
                        report.ratio(
                            f"{name}: errors / sigma", len(true ^ found) / len(true) / sigma, at_most=1
                        )


def memory(report: Report, file: Path | None) -> None:
    """Table 1: 400 queries, 40,000 items a window; the true k-skyband for 100 of them, RA for 20."""
    window, stop = 40_000, 100_000
    for work in workloads(file, stop, 400):
        few = replace(work, queries=work.queries[:20])
        for k in KS:
            name = f"{work.name}, k {k}"
            bands = [skyband(work, query, k, stop - window, stop) for query in range(100)]
            band = float(np.mean(bands))
            report.figure(f"{name}: k-skyband", band)
            run = Run(few, k, window, "RA")
            run.until(stop)
            report.figure(f"{name}: RA holds", run.held())
            share = (run.held() - k) / (float(np.mean(bands[:20])) - k)
            report.ratio(f"{name}: RA / k-skyband, less the answer", share, at_most=1.3)
            for method, sigma in (("PA", 1e-3), ("RAPF", None)):
                run = Run(work, k, window, method, sigma)
                run.until(stop - 20_000)
                report.figure(f"{name}: {method}, us an item", 1e6 * run.until(stop) / 20_000)
                report.figure(f"{name}: {method} holds", run.held())
                if method == "PA":
                    share = (run.held() - k) / (band - k)
                    report.ratio(f"{name}: PA / k-skyband, less the answer", share, at_most=0.2)


def cpu(report: Report) -> None:
    window, every, k = 10_000, 100, 10
    work = uniform(100_000, 1000)
    ours, trees = [], []
    run = Run(work, k, window, "RAPF", batch=5000)
    run.until(20_000)
    for stop in range(25_000, 100_001, 5000):  # many short turns: some of each fall into quiet moments
        ours.append(run.until(stop) / 5000)
        begin = time.process_time()
        for item in range(stop - 1000, stop, every):
            cKDTree(work.items[item - window : item]).query(work.queries, k)
        trees.append((time.process_time() - begin) / 1000)
    report.figure("1,000 queries, k 10, window 10,000: us an item", 1e6 * min(ours))
    report.figure("cKDTree every 100 items: us an item", 1e6 * min(trees))
    report.ratio("CPU an item / cKDTree", min(ours) / min(trees), at_most=1 / 30)


def growth(report: Report) -> None:
    """In turns, each the best of four batches: caches are warm again, and others disturb all alike."""
    few, some, many = 400, 4_000, 40_000
    runs = {n: Run(uniform(210_000, n), 9, 40_000, "RAPF", batch=5000) for n in (few, some, many)}
    for run in runs.values():
        run.until(50_000)
    costs: dict[int, list[float]] = {n: [] for n in runs}
    for begin in range(50_000, 210_000, 20_000):
        for n, run in runs.items():
            costs[n].append(min(run.until(begin + more) for more in range(5000, 20_001, 5000)) / 5000)
    for n, turns in costs.items():
        report.figure(f"{n:,} queries: us an item", 1e6 * float(np.median(turns)))
    grown = [b / a for a, b in zip(costs[few], costs[many], strict=True)]
    name = "operator alone: CPU an item, 40,000 queries / 400"
    report.figure(f"{name}, least of {len(grown)} turns", min(grown))
    report.figure(f"{name}, most", max(grown))
    report.ratio(f"{name}, median of the turns", float(np.median(grown)), at_most=20)


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help="some of: " + ", ".join(PARTS))
    parser.add_argument("--recorded", type=Path, help=f"parquet with {', '.join(COLUMNS)}")
    parser.add_argument("--spark", nargs="*", choices=ON_SPARK, help="all of them, or some")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the run on Spark")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    report = Report("bench/nearest")
    wanted = [part for part in given.only.split(",") if part]
    warm = Run(uniform(4000, 10), 3, 1000, "RAPF", batch=1000)
    warm.until(4000)
    if "errors" in wanted:
        errors(report, given.recorded)
    if "candidates" in wanted:
        memory(report, given.recorded)
    if "cpu" in wanted:
        cpu(report)
    if "queries" in wanted:
        growth(report)
    if given.spark is not None:
        from bench import nearest_spark  # only here: the rest runs without Java

        asked = given.spark or ON_SPARK
        if "growth" in asked:
            nearest_spark.growth(report)
        if "plain" in asked:
            nearest_spark.beside_plain(report, given.rows)
    report.show(given.json)


if __name__ == "__main__":
    main()
