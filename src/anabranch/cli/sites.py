"""`anabranch sites`: runs the sites of a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.common import columns_of

if TYPE_CHECKING:
    from anabranch.sites.planner import NetworkPlanner

app = typer.Typer(no_args_is_help=True, help="Run the sites of a network.")

NetworkArgument = Annotated[
    Path, typer.Argument(metavar="NETWORK", help="The network file.", show_default=False)
]
Once = Annotated[bool, typer.Option("--once", help="Read all that is there, end the streams, and stop.")]


@app.command("up")
def up(
    network: NetworkArgument,
    once: Once = False,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="All sites in one Spark session, not one process each.")
    ] = False,
) -> None:
    """Run all sites of a network on this machine.

    Whatever is wrong with the network or a query is said before anything runs (exit status 2).

    Example: anabranch sites up network.toml --once --in-process
    """
    planner = _planned(network)
    from anabranch.sites.run import run_processes, run_sites  # Spark takes seconds to start: only now

    if in_process:
        run_sites(planner, list(planner.file.folders), once)
    else:
        run_processes(planner.file, once)
    if once:
        _print_summary(planner)


@app.command("run")
def run(
    network: NetworkArgument,
    site: Annotated[str, typer.Argument(metavar="SITE", help="The site.", show_default=False)],
    once: Once = False,
) -> None:
    """Run one site of a network, where it belongs.

    Example: anabranch sites run network.toml office
    """
    planner = _planned(network, site)
    from anabranch.sites.run import run_sites

    run_sites(planner, [site], once)


def _print_summary(planner: NetworkPlanner) -> None:
    from anabranch.sites.measured import SiteMeasures

    file, measured = planner.file, SiteMeasures(planner.file)
    for ends, between in file.between.items():
        typer.echo(f"{' - '.join(between)}: {measured.bytes(ends):,} bytes travelled", err=True)
    count = len(planner.state().active())
    typer.echo(f"{len(file.folders)} sites have ended; {count} subscriptions have their rows", err=True)


def _planned(network: Path, site: str | None = None) -> NetworkPlanner:
    """Checks a network file and plans what is new in it."""
    from anabranch.catalog.registration import check_queries
    from anabranch.job.sources import missing_paths
    from anabranch.model.job import Job, Sink
    from anabranch.sites.network_catalog import has_plan
    from anabranch.sites.network_file import load_network
    from anabranch.sites.planner import NetworkPlanner

    file = load_network(network)
    if site is not None:
        file.site(site)
    job = Job(file.path, file.streams, tuple(one for one, _ in file.subscriptions), Sink("parquet"))
    if not has_plan(file.path):  # later on, the files that the schema came from may be gone
        for error in missing_paths(job):
            raise error
    check_queries(job)
    planner = NetworkPlanner(file, columns_of)
    planner.sync()
    return planner
