"""`anabranch reoptimize`: compares the plan that runs with a fresh one for all queries at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.common import print_table
from anabranch.simulate.scenarios import STREAMS, ScenarioName

#: So many changed subscriptions are shown.
MOST_LISTED = 20

NOTHING = """\
  The plan that runs is the one that a fresh start would build: a condition is below the tightest one that
  contains it, whichever was added first. There is nothing to move."""


def reoptimize(
    target: Annotated[
        Path | None,
        typer.Argument(metavar="[TARGET]", help="A job.toml that has run, or its sink's folder."),
    ] = None,
    scenario: Annotated[
        ScenarioName | None, typer.Option(help="A planned network of the paper instead.", show_default=False)
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="So many random queries.", show_default="as in the paper")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random queries.")] = 0,
    widen: Annotated[bool, typer.Option("--widen", help="Widen streams where that is cheaper.")] = False,
) -> None:
    """Compare the plan that runs with a fresh one for all queries at once.

    Example: anabranch reoptimize job.toml, or anabranch reoptimize --scenario extended
    """
    if (target is None) == (scenario is None):
        raise typer.BadParameter("give a TARGET or a --scenario")
    if target is not None:
        _job(target)
    else:
        assert scenario is not None
        _network(scenario, queries, seed, widen)


def _job(target: Path) -> None:
    from anabranch.cli.common import opened
    from anabranch.planning.reoptimize import FAMILY, replayed

    _, catalog = opened(target)
    with catalog:
        for name, stream in catalog.streams().items():
            if FAMILY not in catalog.families(name):
                continue
            log = catalog.log(name, [FAMILY], 0, catalog.version(name, [FAMILY]))
            plans = replayed(stream, log)
            count = len(plans.running)
            typer.echo(f"{name}: {plans.subscriptions:,} subscriptions, {count:,} conditions")
            for condition in plans.moved:
                before, after = plans.running[condition], plans.fresh.get(condition, "another form of it")
                typer.echo(f"  {condition}: below {before} now, below {after} in a fresh plan")
            if not plans.moved:
                typer.echo(NOTHING)


def _network(name: ScenarioName, queries: int | None, seed: int, widen: bool) -> None:
    from anabranch.planning.optimizer import SharingStrategy
    from anabranch.planning.reoptimize import changes, fresh, total
    from anabranch.simulate.photons import generated
    from anabranch.simulate.scenarios import scenario as of_name
    from anabranch.simulate.sharing import Settings, register_all

    streams = [generated(f"photons{number or ''}", 50_000, seed=number) for number in range(STREAMS[name])]
    run = of_name(name, streams, queries, seed)
    settings = Settings(widen=widen)
    outcome = register_all(SharingStrategy.STREAM_SHARING, run.network, run.queries, streams, settings)
    plans = {"running": outcome.optimizer, "fresh": fresh(outcome.optimizer)}
    rows = [
        (
            title,
            f"{total(plan.installed):.4g}",
            f"{sum(plan.installed.traffic.values()) * 8 / 1000:,.1f}",
            f"{100 * sum(plan.installed.loads.values()):,.2f}",
            len(plan.installed.nodes),
        )
        for title, plan in plans.items()
    ]
    title = ("plan", "cost", "traffic, kbit/s", "load, %", "streams")
    print_table(title, rows, right=title[1:])
    moved = changes(plans["running"].installed, plans["fresh"].installed)
    typer.echo(f"{len(moved)} of {len(outcome.plans)} subscriptions would be made in another way")
    for change in moved[:MOST_LISTED]:
        typer.echo(f"  {change.name}\n    now    {'  <-  '.join(change.before)}")
        typer.echo(f"    fresh  {'  <-  '.join(change.after)}")
    if len(moved) > MOST_LISTED:
        typer.echo(f"  ... and {len(moved) - MOST_LISTED} more")
