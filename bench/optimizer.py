"""How long the optimizer takes to register one more query among many that run.

In: how many run. Out: the median of a registration, from properties to the installed plan; it should stay
below 50 ms among 10,000. Run: python -m bench.optimizer --running 10000 --out bench/results/optimizer.json
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Output, Select
from anabranch.model.window import Window
from anabranch.planning.cost import CostModel
from anabranch.planning.optimizer import Optimizer
from anabranch.planning.properties import Properties, properties_of, source_properties
from anabranch.planning.statistics import Statistics
from anabranch.predicates.terms import And, Constant, Op
from anabranch.simulate.photons import DEC, EN, RA, TIME, generated
from anabranch.simulate.scenarios import ScenarioName, scenario
from bench.harness import Report

MEASURED = 300
LIMIT_MS = 50.0


def spec(random: np.random.Generator) -> Select | Aggregate:
    """A region anywhere around the remnant, with bounds of its own: hardly two queries are equal."""
    ra, dec = random.normal(129, 6), random.normal(-44.5, 4)
    width, height = random.exponential(4, 2)
    edges = ((RA, Op.GE, ra - width), (RA, Op.LE, ra + width), (DEC, Op.GE, dec - height))
    terms = [Constant(column, op, round(float(value), 2)) for column, op, value in edges]
    terms.append(Constant(DEC, Op.LE, round(float(dec + height), 2)))
    if random.random() < 0.3:
        size = int(random.choice([20, 40, 60, 120]))
        return Aggregate((Aggregation(Function.AVG, EN, "v"),), Window("range", size, 20), And(tuple(terms)))
    if random.random() < 0.5:
        terms.append(Constant(EN, Op.GE, round(float(random.exponential(1)), 1)))
    return Select(tuple(Output(column, column) for column in (RA, DEC, EN, TIME)), And(tuple(terms)))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--running", type=int, default=10_000)
    arguments.add_argument("--widen", action="store_true")
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    photons = generated("photons", 20_000)
    known = Statistics(photons.stream)
    known.observe(photons.rows, 1.0)
    network = scenario(ScenarioName.EXTENDED, [photons]).network.scaled(1000.0, 1e12)
    optimizer = Optimizer(
        network, CostModel({"photons": known}), [source_properties(photons.stream)], widen=given.widen
    )
    random, sites, report = np.random.default_rng(0), list(network.sites), Report("optimizer")
    times: list[float] = []

    def register(number: int) -> None:
        wanted: Select | Aggregate = spec(random)
        site = sites[int(random.integers(len(sites)))]
        begun = time.perf_counter()
        properties: Properties = properties_of(wanted, photons.stream)
        optimizer.register(f"q{number}", properties, site)
        times.append(time.perf_counter() - begun)

    for number in range(given.running):
        register(number)
        if number % 1000 == 999:
            print(f"  {number + 1:,} run, {1000 * median(times[-1000:]):.2f} ms", file=sys.stderr, flush=True)
    times.clear()
    for number in range(MEASURED):
        register(given.running + number)
    report.figure("queries that run", given.running)
    report.figure("streams in the network", len(optimizer.installed.nodes))
    report.figure("registration, median ms", 1000 * median(times))
    report.figure("registration, greatest ms", 1000 * max(times))
    report.ratio("registration among those that run, ms", 1000 * median(times), at_most=LIMIT_MS)
    report.show(given.out)


if __name__ == "__main__":
    main()
