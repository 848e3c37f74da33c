"""Data stream sharing beside none: `python -m bench.filters [--spark 20 50] [--json FILE] [--plots FOLDER]`.

Mixed subscriptions from the paper's templates (selection, projection, aggregation; constants from small
sets), and others of which hardly two are alike. In one process: with sharing, and each subscription evaluated
on its own by the same stages; the first batch, which compiles and in which queries begin, is not timed. On
Spark: one query a subscription, beside one job of ours with all of them, in batches of the same size; the
first batches, in which Java warms up, are not timed, and Spark alone runs first. Photons come as XML, as in
the paper, and as parquet. Answers are compared: every subscription has as many result rows from both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anabranch.language.bind import compile_query
from anabranch.simulate.photons import Photons, generated
from anabranch.simulate.workload import random_queries
from anabranch.spark.session import make_session
from bench.filters_local import Rate, Spec, run
from bench.filters_plots import draw
from bench.filters_spark import FORMATS, Contest
from bench.harness import Report
from bench.optimizer import spec as any_spec

COUNTS = (10, 100, 1000, 10_000)
TEMPLATES, UNLIKE = "templates", "hardly two alike"


def texts(photons: Photons, count: int) -> list[str]:
    return [question.query for question in random_queries([photons], ["one"], count)]


def specs(kind: str, photons: Photons, count: int) -> list[Spec]:
    if kind == UNLIKE:
        random = np.random.default_rng(0)
        return [any_spec(random) for _ in range(count)]
    known = {photons.stream.name: photons.stream}
    made = [compile_query(text, known).spec for text in texts(photons, count)]
    return [spec for spec in made if isinstance(spec, Spec)]


class Bench:
    def __init__(self, report: Report, batch: int, rounds: int) -> None:
        self.report, self.batch, self.rounds = report, batch, rounds
        self.photons = generated("photons", 4 * batch)
        self.measured: dict[str, dict[int, float]] = {}  # contestant -> subscriptions -> items a CPU second

    def in_process(self, kind: str, counts: Sequence[int]) -> None:
        for count in counts:
            asked = specs(kind, self.photons, count)
            # 10,000 chains take 15 s a batch: one is timed, where there are three otherwise
            batches = 2 if count > 1000 else 4
            rows = [self.photons.rows.slice(place * self.batch, self.batch) for place in range(batches)]
            best: dict[bool, Rate] = {}
            for _ in range(self.rounds if count <= 1000 else 1):
                for shared in (True, False):
                    rate = run(self.photons.stream, asked, rows, shared)
                    if shared not in best or rate.by_cpu > best[shared].by_cpu:
                        best[shared] = rate
            assert best[True].rows == best[False].rows, "sharing must not change any answer"
            ratio = self._noted(f"{kind}, {count:,}", best[True], best[False], count, kind)
            asked_of = 10.0 if count == 1000 else None
            self.report.ratio(
                f"{kind}, {count:,} subscriptions: shared / each on its own", ratio, asked_of or 1
            )

    def _noted(self, title: str, one: Rate, other: Rate, count: int, kind: str) -> float:
        for name, rate in (("shared", one), ("each on its own", other)):
            self.report.figure(f"{title}, {name}: items/s by the clock", rate.by_clock)
            self.report.figure(f"{title}, {name}: items/s of CPU", rate.by_cpu)
            self.measured.setdefault(f"{kind}, {name}", {})[count] = rate.by_cpu
        self.report.figure(f"{title}: result rows an item", sum(one.rows.values()) / one.items)
        return one.by_cpu / other.by_cpu

    def on_spark(
        self, kind: str, counts: Sequence[int], batch: int, batches: int, warm: int, limit: float
    ) -> None:
        photons = generated("photons", batches * batch)
        with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as name:
            folder = Path(name)
            spark = make_session("bench", log=folder / "spark.log")
            contest = Contest(spark, folder, photons.rows, batches, kind)
            for count in counts:
                self._beside(contest, texts(photons, count), warm, limit)
            spark.stop()

    def _beside(self, contest: Contest, queries: list[str], warm: int, limit: float) -> None:
        count, source = len(queries), f"from {contest.kind}"
        theirs = contest.spark_alone(
            queries, warm, limit
        )  # first: one job of ours warms Java 20 times slower
        ours = contest.ours(queries, warm)
        self._spark_noted(f"one job on Spark, {source}", count, ours)
        if theirs is None:
            print(f"  {count} Spark queries took more than {limit:g} s", file=sys.stderr, flush=True)
            return
        self._spark_noted(f"a Spark query each, {source}", count, theirs)
        assert ours.rows == theirs.rows, "Spark must give the same answers"
        self.report.ratio(
            f"{count} subscriptions {source}: one job / a Spark query each, by the clock",
            ours.by_clock / theirs.by_clock,
            10.0 if count == 20 else 1.0,
        )
        self.report.ratio(
            f"{count} subscriptions {source}: one job / a Spark query each, CPU",
            ours.by_cpu / theirs.by_cpu,
            1.0,
        )

    def _spark_noted(self, name: str, count: int, rate: Rate) -> None:
        self.report.figure(f"{count}, {name}: rows x subscriptions/s by the clock", rate.by_clock)
        self.report.figure(f"{count}, {name}: rows x subscriptions/s of CPU", rate.by_cpu)
        self.measured.setdefault(name, {})[count] = rate.by_cpu / count


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="*", default=list(COUNTS), help="subscriptions")
    parser.add_argument("--batch", type=int, default=20_000, help="items a batch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--spark", type=int, nargs="*", default=[20], help="subscriptions, also on Spark")
    parser.add_argument(
        "--formats", nargs="*", choices=FORMATS, default=["xml", "parquet"], help="of the source"
    )
    parser.add_argument("--spark-batch", type=int, default=100_000, help="items a batch there")
    parser.add_argument("--batches", type=int, default=8, help="batches there")
    parser.add_argument("--warm", type=int, default=3, help="those of them that are not timed")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which Spark is given up")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plots", type=Path)
    given = parser.parse_args(arguments)
    report = Report("bench/filters")
    bench = Bench(report, given.batch, given.rounds)
    if given.counts:
        run(bench.photons.stream, specs(TEMPLATES, bench.photons, 30), [bench.photons.rows], True)  # compiles
    for kind in (TEMPLATES, UNLIKE):
        bench.in_process(kind, given.counts)
    for kind in given.formats if given.spark else ():
        bench.on_spark(kind, given.spark, given.spark_batch, given.batches, given.warm, given.limit)
    report.show(given.json)
    if given.plots is not None:
        print(f"wrote {draw(bench.measured, given.plots)}")


if __name__ == "__main__":
    main()
