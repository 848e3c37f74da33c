"""`anabranch serve`: runs a job and answers over HTTP."""

from __future__ import annotations

import webbrowser
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.planning.scenario import Scenario
    from anabranch.results.layout import Layout
    from anabranch.service.job_service import Limits
    from anabranch.spark.engine import Engine
    from anabranch.spark.run import Beside

PORT = 8321


def serve(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file.", show_default=False)],
    host: Annotated[
        str, typer.Option(help="The address to listen on; other than loopback only with tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = PORT,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many seconds.", show_default=False)
    ] = None,
    subscriptions: Annotated[
        int, typer.Option(min=0, help="Active subscriptions an owner may have.")
    ] = 1_000,
    requests: Annotated[
        float, typer.Option(min=0.1, help="Requests per second that an owner may send.")
    ] = 50.0,
    listeners: Annotated[int, typer.Option(min=0, help="Open event streams an owner may have.")] = 100,
    connections: Annotated[
        int,
        typer.Option(min=8, help="Connections at once; half of the files that the process may open at most."),
    ] = 1_000,
    network: Annotated[
        Path | None,
        typer.Option(
            help="Sites and links to plan on, as `simulate sharing` takes them.", show_default="one site"
        ),
    ] = None,
    batches: Annotated[
        int, typer.Option(min=1, help="An owner sees results of so many batches back.")
    ] = 1_000_000,
    private_receivers: Annotated[
        bool, typer.Option(help="Users may have results sent to Kafka and to addresses that are not public.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run a job until it is stopped, and serve it: dashboard, subscriptions, results, plan, metrics.

    Example: anabranch serve job.toml --port 8321
    """
    from anabranch.catalog.registration import check_queries
    from anabranch.job.job_file import load_job
    from anabranch.job.sources import missing_paths
    from anabranch.planning.scenario import read_scenario
    from anabranch.results.layout import layout_for
    from anabranch.service.job_service import Limits
    from anabranch.service.server import check_address

    loaded = load_job(job)
    layout = layout_for(loaded)
    if not any(layout.branches(name) for name in loaded.streams):  # later on, the files may be gone
        for error in missing_paths(loaded):
            raise error
    check_queries(loaded)
    check_address(host, _tokens_exist(layout))
    scenario = None if network is None else read_scenario(network)

    from anabranch.spark.run import run_job  # Spark takes seconds to start: only now

    limits = Limits(subscriptions, requests, listeners, batches, connections=connections)
    served = beside(host, port, limits, scenario, private_receivers)
    run_job(loaded, seconds=seconds, quiet=quiet, beside=served)


def beside(
    host: str,
    port: int,
    limits: Limits | None = None,
    scenario: Scenario | None = None,
    private_receivers: bool = False,
    opened: bool = False,
) -> Beside:
    """Returns the service of a job, for as long as it runs. `opened`: its page is opened in a browser."""
    from anabranch.service.job_service import JobService, Limits
    from anabranch.service.monitor import Monitor
    from anabranch.service.server import serving
    from anabranch.spark.measures import measures

    @contextmanager
    def served(engine: Engine) -> Iterator[None]:
        monitor = Monitor(engine.layout, scenario)
        service = JobService(
            engine.layout, monitor.plan, monitor.network, limits or Limits(), lambda: measures(engine)
        )
        service.private_receivers = private_receivers
        engine.private_receivers = private_receivers
        with monitor.following(), serving(service, host, port) as address:
            typer.echo(
                f"Serving {address} (a dashboard for the browser; openapi.json describes the rest)", err=True
            )
            if opened:
                webbrowser.open(address)
            yield

    return served


def _tokens_exist(layout: Layout) -> bool:
    from anabranch.catalog.database import exists
    from anabranch.catalog.tokens import Tokens

    if not exists(layout.catalog):
        return False
    tokens = Tokens(layout.catalog)
    try:
        return tokens.exist()
    finally:
        tokens.close()
