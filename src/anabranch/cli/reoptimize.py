"""`anabranch reoptimize`: the plan that runs beside a fresh one for all queries at once.

In: a job, or one of the planned networks. Out: what both cost, and what would change. Never: a result that is
lost or doubled: the engine rebuilds its plan from its queries, and in a planned network every plan for a
query gives the same rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.common import print_table
from anabranch.simulate.choices import STREAMS, Name

#: So many changed subscriptions are shown.
MOST_LISTED = 20

NOTHING = """\
  The plan that runs is the one that a fresh start would make: a condition hangs below the tightest one that
  contains it, whatever came first. There is nothing to move."""


def reoptimize(
    target: Annotated[
        Path | None,
        typer.Argument(metavar="[TARGET]", help="A job.toml that has run, or its sink's folder."),
    ] = None,
    scenario: Annotated[
        Name | None, typer.Option(help="A planned network of the paper instead.", show_default=False)
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="So many random queries.", show_default="as in the paper")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random queries.")] = 0,
    widen: Annotated[bool, typer.Option("--widen", help="Loosen streams where that is cheaper.")] = False,
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
    from anabranch.cli.replayed import FAMILY, replayed

    _, catalog = opened(target)
    with catalog:
        for name, stream in catalog.streams().items():
            if FAMILY not in catalog.families(name):
                continue
            plans = replayed(stream, catalog.log(name, FAMILY, 0, catalog.version(name, FAMILY)))
            count = len(plans.running)
            typer.echo(f"{name}: {plans.subscriptions:,} subscriptions, {count:,} conditions")
            for condition in plans.moved:
                before, after = plans.running[condition], plans.fresh.get(condition, "another form of it")
                typer.echo(f"  {condition}: below {before} now, below {after} afresh")
            if not plans.moved:
                typer.echo(NOTHING)


def _network(name: Name, queries: int | None, seed: int, widen: bool) -> None:
    from anabranch.sharing.choices import Strategy
    from anabranch.sharing.reoptimize import changes, fresh, total
    from anabranch.simulate.photons import generated
    from anabranch.simulate.scenarios import scenario as of_name
    from anabranch.simulate.sharing import Settings, register_all

    streams = [generated(f"photons{place or ''}", 50_000, seed=place) for place in range(STREAMS[name])]
    run = of_name(name, streams, queries, seed)
    settings = Settings(widen=widen)
    outcome = register_all(Strategy.STREAM_SHARING, run.network, run.queries, streams, settings)
    plans = {"as they came": outcome.optimizer, "afresh": fresh(outcome.optimizer)}
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
    moved = changes(plans["as they came"].installed, plans["afresh"].installed)
    typer.echo(f"{len(moved)} of {len(outcome.plans)} subscriptions are made in another way")
    for change in moved[:MOST_LISTED]:
        typer.echo(f"  {change.name}\n    now    {'  <-  '.join(change.before)}")
        typer.echo(f"    afresh {'  <-  '.join(change.after)}")
    if len(moved) > MOST_LISTED:
        typer.echo(f"  ... and {len(moved) - MOST_LISTED} more")
