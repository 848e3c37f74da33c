"""Moving objects at the size of PLACE*: `python -m bench.moving [--ticks 4] [--spark] [--json FILE]`.

Ratios from one run, in CPU seconds of one process: 500,000 objects that report every 30 seconds and 9,000
square ranges of 1 % of the space around some of them, beside a spatial tree (scipy's cKDTree) that is built
and asked anew each tick and whose answers are compared with those of the tick before, and beside the same
engine with nine regional servers; and 23,000 fixed fences. Both sides must find the same differences.
`--spark`: updates a second on Spark, with all cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from anabranch.chain.runner import Runner
from anabranch.families.moving.spec import Box, Moving
from anabranch.families.registry import family
from anabranch.model.control_log import Activate
from anabranch.simulate.place.world import PAPER, REPORT_SECONDS, STREAM, World, range_spec
from bench.harness import Report

SHARE, FENCES, FENCE_SHARE = 0.01, 23_000, 0.001
#: After this many ticks everybody has reported and every query has its whole answer.
FILL = REPORT_SECONDS + 1

Differences = dict[int, int]  # tick -> plus and minus rows


def ranges_of(world: World) -> list[dict[str, Any]]:
    return [range_spec(pair, SHARE) for pair in world.pairs()]


def fences() -> list[dict[str, Any]]:
    points = np.random.default_rng(3).uniform(0, 1, (FENCES, 2))
    side = FENCE_SHARE**0.5
    return [Moving(Box(side, side), (float(x), float(y))).to_json() for x, y in points]


def ours(world: World, specs: list[dict[str, Any]], ticks: int, zones: int) -> tuple[float, Differences]:
    """(CPU seconds a tick, the rows of each tick) once everybody is known."""
    runner = Runner(STREAM, family("moving"), zones)
    control = [Activate(number, f"q{number}", spec) for number, spec in enumerate(specs)]
    spent, rows = 0.0, {}
    for tick in range(FILL + ticks):
        items = world.items(world.step())
        begun = time.process_time()
        runner.batch(items, control if tick == 0 else ())
        if tick >= FILL:
            spent += time.process_time() - begun
            # a tick is final when the first report of the next has come
            rows[tick - 1] = sum(len(batch) for found in runner.tables["moving"].values() for batch in found)
        runner.tables.clear()
        _progress(tick, FILL + ticks)
    return spent / ticks, rows


def tree_each_tick(world: World, ticks: int) -> tuple[float, Differences]:
    """The same by a tree that is built anew each tick, and a mask to compare two answers of a query."""
    focal = world.pairs()[:, 0]
    for _ in range(REPORT_SECONDS):
        world.step()
    before = _asked(world, focal)
    mask = np.zeros(world.size.objects, bool)
    spent, rows = 0.0, {}
    for tick in range(REPORT_SECONDS, REPORT_SECONDS + ticks):
        world.step()
        begun = time.process_time()
        now, changes = _asked(world, focal), 0
        for old, new in zip(before, now, strict=True):
            mask[old] = True
            entered = new[~mask[new]]
            mask[old] = False
            mask[new] = True
            left = old[~mask[old]]
            mask[new] = False
            changes += len(entered) + len(left)
        spent += time.process_time() - begun
        before, rows[tick] = now, changes
        _progress(tick, REPORT_SECONDS + ticks)
    return spent / ticks, rows


def _asked(world: World, focal: Any) -> list[Any]:
    tree = cKDTree(world.positions, balanced_tree=False, compact_nodes=False)
    places = world.positions[focal]
    out = []
    for first in range(0, len(focal), 500):  # lists of all the answers at once would take gigabytes
        near = tree.query_ball_point(
            places[first : first + 500], SHARE**0.5 / 2, p=np.inf, return_sorted=False
        )
        out += [np.array(found, np.int32) for found in near]
    return out


def _progress(done: int, of: int) -> None:
    if (done + 1) % 10 == 0 or done + 1 == of:
        print(f"  tick {done + 1} of {of}", file=sys.stderr, flush=True)


def measure(report: Report, ticks: int, scale: float) -> None:
    size = PAPER.scaled(scale)
    each = size.objects / REPORT_SECONDS
    world = World(size)
    one, rows = ours(world, ranges_of(world), ticks, 1)
    report.figure("9,000 ranges, one region: updates a CPU second", each / one)
    report.figure("9,000 ranges, one region: result rows a tick", sum(rows.values()) / ticks)
    peer, peer_rows = tree_each_tick(World(size), ticks)
    report.figure("cKDTree each tick: updates a CPU second", each / peer)
    same = {tick: (rows[tick], peer_rows[tick]) for tick in rows.keys() & peer_rows.keys()}
    if not same or any(a - b for a, b in same.values()):
        # a query's own focal object is in the tree's answer, always, so it makes no difference
        raise SystemExit(f"the two sides differ: {same}")
    report.ratio("CPU of cKDTree each tick / ours", peer / one, at_least=5)
    world = World(size)
    nine, _ = ours(world, ranges_of(world), ticks, 9)
    report.figure("9,000 ranges, nine regions: updates a CPU second", each / nine)
    report.ratio("CPU of nine regions / one", nine / one, at_most=2)
    fixed, _ = ours(World(size), fences(), ticks, 1)
    report.figure("23,000 fences: updates a CPU second", each / fixed)
    report.ratio("23,000 fences on one core, updates/s", each / fixed, at_least=20_000)


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ticks", type=int, default=4, help="ticks that are measured, after everybody is known"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the paper's objects and queries")
    parser.add_argument("--spark", action="store_true", help="on Spark instead of in one process")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    report = Report("bench/moving")
    if given.spark:
        from bench.moving_spark import measure_on_spark

        with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
            measure_on_spark(report, Path(folder), given.scale)
    else:
        measure(report, given.ticks, given.scale)
    report.show(given.json)


if __name__ == "__main__":
    main()
