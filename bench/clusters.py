"""Clusters for many queries: `python -m bench.clusters [--json FILE] [--plots FOLDER] [--trades FILE]`.

Our strategy beside the five of the paper (simulate/clusters), the paper's cases, on generated moving targets
and on recorded trades; and beside the PyPI package dbscan, run anew for every window that is due. All give
the same clusters: tests/simulate/clusters. CPU seconds of one process, in turns; bytes are
those of cluster structures at their largest, without coordinates and search grids and cells.

The package runs in processes of its own, once with as many threads as it takes by itself and once with one.
What is judged is CPU of the package as it is: what a user pays who installs it and calls it, and other work
on the machine does not change it much. CPU with one thread, which is a little less, and the clock are
shown beside it; ours has one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from anabranch.chain.runner import Runner
from anabranch.families.clusters.family import ClustersFamily
from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.families.clusters.structure import WindowClusters as Found
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.simulate.clusters.strategies import STRATEGIES, Anabranch
from anabranch.simulate.clusters.strategy import ClusterQuery as Query
from anabranch.simulate.clusters.strategy import run
from anabranch.simulate.clusters.workloads import CASES, Array, group, moving_targets, trades
from bench.clusters_peer import measure
from bench.harness import Report

Figures = dict[str, dict[str, float]]  # strategy -> figure -> value

_SMALL = [case for case in CASES if case not in ("all four", "scaling")]
_OURS, _BEST, _PEER = "anabranch", "extra-n-rqs", "PyPI dbscan"


def warm_up() -> None:
    """Compiles what is measured."""
    points, queries = moving_targets(1500), [Query(0.01, 3, 500, 100), Query(0.02, 3, 500, 100)]
    for strategy in STRATEGIES.values():
        run(strategy(queries, 2), queries, points)
    operator(queries, points, Emit.SUMMARY)


def compare(
    queries: Sequence[Sequence[Query]], points: Array, names: Sequence[str], rounds: int = 1
) -> Figures:
    """The mean of several groups of queries, the least of some rounds in which strategies take turns."""
    out: Figures = {name: {"cpu_us": 0.0, "bytes": 0.0} for name in names}
    for each in queries:
        least = dict.fromkeys(names, np.inf)
        for _ in range(rounds):
            for name in names:
                spent = run(STRATEGIES[name](each, points.shape[1]), each, points)
                least[name] = min(least[name], spent.seconds / len(points) * 1e6)
                out[name]["bytes"] = max(out[name]["bytes"], spent.most_bytes)
        for name in names:
            out[name]["cpu_us"] += least[name] / len(queries)
    return out


def operator(queries: Sequence[Query], points: Array, emit: Emit) -> float:
    """CPU seconds of the whole operator in one process, from items to rows of results."""
    columns = tuple(Column(name, ColumnType.FLOAT) for name in ("time", "latitude", "longitude"))
    stream = Stream("targets", columns, time="time")
    runner = Runner(stream, ClustersFamily())
    asked = [
        Activate(
            number,
            f"q{number}",
            Clusters(
                query.range,
                query.count,
                ("latitude", "longitude"),
                Window("rows", query.size, query.slide),
                emit=emit,
            ).to_json(),
        )
        for number, query in enumerate(queries)
    ]
    before = time.process_time()
    for start in range(0, len(points), 1000):
        some = points[start : start + 1000]
        rows = {"time": np.arange(start, start + len(some)) * 0.2, "latitude": some[:, 0]}
        items = pa.record_batch({**rows, "longitude": np.ascontiguousarray(some[:, 1])})
        runner.batch(items, asked if start == 0 else ())
        runner.tables.clear()
    return time.process_time() - before


class Peer:
    """DBSCAN from elsewhere, run on a sample of the windows that are due; what it finds must be the same."""

    def __init__(self, queries: Sequence[Query], points: Array, every: int) -> None:
        self.queries, self.points, self.every = queries, points, every
        self.windows = 0
        self.sample: list[tuple[Query, Found]] = []

    def seen(self, number: int, found: Found) -> None:
        self.windows += 1
        if self.windows % self.every == 0:
            clusters, roles = found.clusters.copy(), found.roles.copy()
            self.sample.append((self.queries[number], Found(found.start, clusters, roles, found.count)))

    def package(self, threads: int | None) -> tuple[float, float]:
        """CPU and clock seconds a window of the PyPI package, the mean over the sample."""
        sizes = [query.size for query, _ in self.sample]
        after = np.concatenate([[0], np.cumsum(sizes)])
        answers = measure(
            {
                "points": np.concatenate([self._points(query, found) for query, found in self.sample]),
                "after": after,
                "ranges": np.array([query.range for query, _ in self.sample]),
                "counts": np.array(
                    [query.count + 1 for query, _ in self.sample]
                ),  # it counts the point itself
            },
            threads,
        )
        for (_, found), low, high in zip(self.sample, after[:-1], after[1:], strict=True):
            _same(found, answers["labels"][low:high], answers["cores"][low:high])
        return float(answers["cpu"]) / len(sizes), float(answers["clock"]) / len(sizes)

    def scikit_learn(self) -> float:
        """CPU seconds a window."""
        from sklearn.cluster import DBSCAN

        seconds = 0.0
        for query, found in self.sample:
            model, core = DBSCAN(eps=query.range, min_samples=query.count + 1), np.zeros(query.size, bool)
            before = time.process_time()
            model.fit(self._points(query, found))
            seconds += time.process_time() - before
            core[model.core_sample_indices_] = True
            _same(found, model.labels_, core)
        return seconds / len(self.sample)

    def _points(self, query: Query, found: Found) -> Array:
        return np.ascontiguousarray(self.points[found.start : found.start + query.size])


def _same(found: Found, labels: Array, core: Array) -> None:
    """labels: -1 for noise"""
    assert np.array_equal(core, found.roles == 1), "other cores"
    assert np.array_equal(labels >= 0, found.clusters > 0), "other members"
    pairs = set(zip(labels[core].tolist(), found.clusters[core].tolist(), strict=True))
    assert len(pairs) == len({label for label, _ in pairs}) == found.count, "other clusters"


def paper_cases(points: Array, names: Sequence[str], groups: int) -> dict[str, dict[int, Figures]]:
    """Figures 18 to 30: one, two and four arbitrary parameters, all strategies."""
    measured: dict[str, dict[int, Figures]] = {}
    some = points[: 2 * len(points) // 5]
    for case in _SMALL:
        measured[case] = {count: compare([group(case, count)], some, names) for count in (5, 10, 20)}
        _progress(case, measured[case])
    fours = {count: [group("all four", count, seed) for seed in range(groups)] for count in (20, 40, 60)}
    measured["all four"] = {
        count: compare(each, points, [_OURS, _BEST, "extra-n"]) for count, each in fours.items()
    }
    _progress("all four", measured["all four"])
    return measured


def scaling(points: Array) -> dict[int, Figures]:
    """Figures 31 and 32."""
    measured = {}
    for count in (10, 30, 100, 300, 1000):
        names = [_OURS, _BEST] if count > 100 else [_OURS, _BEST, "extra-n"]
        measured[count] = compare([group("scaling", count)], points, names, rounds=2)
    _progress("scaling", measured)
    return measured


def _progress(case: str, measured: dict[int, Figures]) -> None:
    for count, figures in measured.items():
        texts = [
            f"{name} {each['cpu_us']:.1f} µs {each['bytes'] / 1e6:.2f} MB" for name, each in figures.items()
        ]
        print(f"  {case}, {count} queries: {'; '.join(texts)}", file=sys.stderr, flush=True)


def claims(report: Report, measured: dict[str, dict[int, Figures]], points: Array) -> None:
    for case, count, faster in (("all four", 60, 4), ("all four, trades", 60, 4), ("scaling", 1000, 8)):
        if case not in measured:
            continue
        ours, best = measured[case][count][_OURS], measured[case][count][_BEST]
        what = f"{case}, {count:,} queries"
        report.ratio(f"{what}: CPU of {_BEST} / ours", best["cpu_us"] / ours["cpu_us"], at_least=faster)
        report.ratio(f"{what}: bytes of ours / {_BEST}", ours["bytes"] / best["bytes"], at_most=0.15)
    for case, count in (("all four", 60), ("scaling", 1000)):
        report.figure(
            f"{case}, {count:,} queries: search grid and cells of ours, MB",
            grid_megabytes(case, count, points),
        )
    few, many = (
        min(operator(group("scaling", count), points, Emit.SUMMARY) for _ in range(2)) for count in (10, 1000)
    )
    for count, seconds in ((10, few), (1000, many)):
        report.figure(f"operator, EMIT SUMMARY, {count:,} queries, µs a tuple", seconds / len(points) * 1e6)
    report.ratio("operator, EMIT SUMMARY: CPU of 1,000 queries / 10 queries", many / few, at_most=15)
    beside_dbscan(report, points)


def grid_megabytes(case: str, count: int, points: Array) -> float:
    """What ours holds to find points by, at the end; not counted as structure, nor is that of others."""
    queries = group(case, count)
    strategy = Anabranch(queries, points.shape[1])
    run(strategy, queries, points)
    return strategy.structure.grid_bytes / 1e6


def beside_dbscan(report: Report, points: Array) -> None:
    """1,000 arbitrary queries beside one run of DBSCAN for every window that is due."""
    queries = group("scaling", 1000)
    peer, cpu, clock = Peer(queries, points, every=50), [], []
    for seen in (peer.seen, _pass, _pass):
        began = time.perf_counter()
        spent = run(STRATEGIES[_OURS](queries, 2), queries, points, seen)
        clock.append((time.perf_counter() - began) / spent.windows)
        cpu.append(spent.seconds / spent.windows)
    ours, our_clock = min(cpu), min(clock[1:])  # the first one copied what it found
    report.figure(f"windows of 1,000 queries over {len(points):,} tuples", spent.windows)
    report.figure("ours, CPU ms a window", ours * 1e3)
    report.figure("ours, clock ms a window", our_clock * 1e3)
    what, sample = "1,000 queries: {} of {}{} / ours", f" (scaled from {len(peer.sample)} windows)"
    if not find_spec("dbscan"):  # another opponent says nothing about what was asked
        report.figure(what.format("CPU", "scikit-learn's DBSCAN", sample), peer.scikit_learn() / ours)
        return
    for threads, name in ((None, f"{_PEER} as it is"), (1, f"{_PEER}, one thread")):
        runs = [peer.package(threads) for _ in range(2)]
        theirs, their_clock = (min(figures) for figures in zip(*runs, strict=True))
        report.figure(f"{name}, CPU ms a window (mean of {len(peer.sample)})", theirs * 1e3)
        report.figure(f"{name}, clock ms a window", their_clock * 1e3)
        if threads is None:
            report.ratio(what.format("CPU", name, sample), theirs / ours, at_least=100)
        else:
            report.figure(what.format("CPU", name, ""), theirs / ours)
        report.figure(what.format("clock", name, ""), their_clock / our_clock)


def _pass(query: int, found: Found) -> None:
    pass


def show(measured: dict[str, dict[int, Figures]]) -> None:
    console = Console(width=140)
    for name, scale, title in (("cpu_us", 1, "CPU, µs a tuple"), ("bytes", 1e6, "structures, MB")):
        table = Table("arbitrary", "queries", *STRATEGIES, title=title)
        for case, sizes in measured.items():
            for count, figures in sizes.items():
                cells = [f"{figures[s][name] / scale:,.4g}" if s in figures else "" for s in STRATEGIES]
                table.add_row(case, f"{count:,}", *cells)
        console.print(table)


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuples", type=int, default=20_000)
    parser.add_argument("--groups", type=int, default=3, help="groups of four arbitrary parameters")
    parser.add_argument("--only-dbscan", action="store_true", help="nothing but the last claim")
    parser.add_argument("--trades", type=Path, help="a parquet file with time_us and price")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plots", type=Path, help="a folder for PNG files")
    given = parser.parse_args(arguments)
    report = Report("bench/clusters")
    warm_up()
    points = moving_targets(given.tuples)
    if given.only_dbscan:
        beside_dbscan(report, points)
        report.show(given.json)
        return
    measured = paper_cases(points, list(STRATEGIES), given.groups)
    measured["scaling"] = scaling(points)
    claims(report, measured, points)
    if given.trades is not None:
        dense = trades(given.trades, given.tuples)
        measured["all four, trades"] = {60: compare([group("all four", 60)], dense, [_OURS, _BEST], rounds=2)}
        ours, best = (measured["all four, trades"][60][name] for name in (_OURS, _BEST))
        report.ratio(
            "60 queries, trades: CPU of extra-n-rqs / ours", best["cpu_us"] / ours["cpu_us"], at_least=4
        )
        report.ratio(
            "60 queries, trades: bytes of ours / extra-n-rqs", ours["bytes"] / best["bytes"], at_most=0.15
        )
    show(measured)
    report.show(given.json)
    if given.json is not None:
        whole = json.loads(given.json.read_text())
        given.json.write_text(json.dumps({**whole, "cases": measured}, indent=1))
    if given.plots is not None:
        from anabranch.simulate.clusters.figure_plots import draw

        for file in draw(measured, given.plots):
            print(file)


if __name__ == "__main__":
    main()
