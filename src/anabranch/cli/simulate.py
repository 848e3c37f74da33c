"""`anabranch simulate`: the papers' experiments in one process, a command per experiment. Never Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.common import print_table
from anabranch.cli.simulate_clusters import clusters
from anabranch.cli.simulate_dzalaps import dzalaps
from anabranch.cli.simulate_place import place
from anabranch.planning.optimizer import Bypass
from anabranch.simulate.scenarios import STREAMS, ScenarioName

if TYPE_CHECKING:
    from anabranch.planning.scenario import Scenario
    from anabranch.simulate.photons import Photons
    from anabranch.simulate.report import StrategyTable
    from anabranch.simulate.sharing import StrategyOutcome

app = typer.Typer(no_args_is_help=True, help="Run the papers' experiments, without Spark.")
app.command("clusters")(clusters)
app.command("dzalaps")(dzalaps)
app.command("place")(place)


@app.callback()
def simulate() -> None:
    """Run the papers' experiments, without Spark.

    Example: anabranch simulate sharing --scenario grid --out plots
    """


@app.command("sharing")
def sharing(
    scenario: Annotated[ScenarioName, typer.Option(help="The paper's scenario.")] = ScenarioName.EXAMPLE,
    photons: Annotated[
        Path | None,
        typer.Option(
            help="Recorded photons: parquet with ra, dec, energy, time_us.", show_default="generated"
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=100, help="Photons per stream.")] = 50_000,
    rate: Annotated[float, typer.Option(min=0.001, help="Photons per stream and second.")] = 150.0,
    queries: Annotated[
        int | None,
        typer.Option(min=1, help="So many random queries.", show_default="as in the paper"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random queries.")] = 0,
    gamma: Annotated[float, typer.Option(min=0, max=1, help="How much traffic counts against load.")] = 0.9,
    bypass: Annotated[Bypass, typer.Option(help="How full links and sites are avoided.")] = Bypass.REDUCED,
    widen: Annotated[bool, typer.Option("--widen", help="Widen streams where that is cheaper.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine's base loads.")
    ] = False,
    plans: Annotated[bool, typer.Option("--plans", help="Show the plans of stream-sharing, too.")] = False,
    network: Annotated[
        Path | None,
        typer.Option(help="A network of your own: TOML, or the paper's XML.", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for plots and JSON.", show_default=False)] = None,
) -> None:
    """Data stream sharing against data shipping and query shipping, on one network.

    Example: anabranch simulate sharing --scenario extended --out plots
    """
    from anabranch.planning.cost import Loads
    from anabranch.simulate import report
    from anabranch.simulate.calibrate import calibrated
    from anabranch.simulate.scenarios import scenario as of_name
    from anabranch.simulate.sharing import Settings, compare, scarce

    streams = _streams(photons, count, STREAMS[scenario])
    loads = calibrated(streams[0]) if calibrate else Loads()
    settings = Settings(rate, gamma, bypass, widen, loads)
    run = _own(network, streams, queries, seed) if network else of_name(scenario, streams, queries, seed)
    outcomes = compare(run, streams, settings, _progress)
    little = of_name(scenario, streams, queries or 100, seed) if network is None else run
    rejected = scarce(little, streams, settings, _progress)
    tables = [
        report.load_table(outcomes),
        report.traffic_table(outcomes),
        report.accumulated_table(outcomes),
        report.cpu_table(outcomes),
        report.registration_table(outcomes),
        report.rejection_table(rejected),
    ]
    if plans:
        _show_plans(outcomes[-1])
    for table in tables:
        _show(table)
    if out is not None:
        _write(out, run.name, tables, outcomes[-1])


def _own(file: Path, streams: list[Photons], queries: int | None, seed: int) -> Scenario:
    from dataclasses import replace

    from anabranch.model.errors import JobError
    from anabranch.planning.scenario import read_scenario
    from anabranch.simulate.workload import random_queries

    found = read_scenario(file)
    known = {photons.stream.name for photons in streams}
    if not set(found.network.streams) <= known:
        raise JobError(f"{file}: the photons here are {', '.join(sorted(known))}, and it names others")
    if queries is None:
        return found
    drawn = random_queries(streams, list(found.network.sites), queries, seed)
    return replace(found, queries=tuple(drawn))


def _streams(file: Path | None, count: int, wanted: int) -> list[Photons]:
    from anabranch.simulate.photons import generated, recorded

    names = [f"photons{number or ''}" for number in range(wanted)]
    if file is None:
        return [generated(name, count, seed=number) for number, name in enumerate(names)]
    return [recorded(name, file, count, skip=number * count) for number, name in enumerate(names)]


def _progress(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def _show_plans(outcome: StrategyOutcome) -> None:
    """Prints for each query the node that it is made from, the way of each stream that is added, and the
    cost."""
    rows = []
    for name, plan in outcome.plans.items():
        ways = "; ".join(" > ".join(step.path) for step in plan.steps) or "read as it is"
        stream = plan.steps[-1].properties.text if plan.steps else ""
        rows.append((name, plan.parent, "yes" if plan.widening else "", ways, f"{plan.cost:.3g}", stream))
    typer.echo(f"plans of {outcome.strategy.value}")
    print_table(("query", "made from", "widened", "way", "cost", "stream"), rows, right=("made from", "cost"))


def _show(table: StrategyTable) -> None:
    typer.echo(f"\n{table.title}")
    rows = [(row[0], *(f"{value:,.4g}" for value in row[1:])) for row in table.rows]
    print_table((table.first, *table.strategies), rows, right=table.strategies)


def _write(folder: Path, name: str, tables: list[StrategyTable], outcome: StrategyOutcome) -> None:
    from anabranch.simulate.plots import draw
    from anabranch.simulate.report import graphs

    folder.mkdir(parents=True, exist_ok=True)
    load, traffic, accumulated, _, registration, rejection = tables
    draw([load, traffic], f"{name}: load and traffic", folder / f"{name}-load-and-traffic.png")
    draw([load, accumulated], f"{name}: load and accumulated traffic", folder / f"{name}-accumulated.png")
    draw(
        [registration, rejection], f"{name}: registration and rejection", folder / f"{name}-registration.png"
    )
    facts = {
        "tables": [table.to_json() for table in tables],
        "plans": {query: plan.to_json() for query, plan in outcome.plans.items()},
        **graphs(outcome),
    }
    (folder / f"{name}.json").write_text(json.dumps(facts, indent=1))
    typer.echo(f"\nplots and JSON are in {folder}")
