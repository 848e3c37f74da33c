"""`anabranch serve`: runs a job and answers over HTTP."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.catalog.layout import Layout
    from anabranch.spark.engine import Engine

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
    requests: Annotated[float, typer.Option(min=0.1, help="Requests a second an owner may send.")] = 50.0,
    listeners: Annotated[int, typer.Option(min=0, help="Open event streams an owner may have.")] = 100,
    batches: Annotated[
        int, typer.Option(min=1, help="Batches of results back that an owner sees.")
    ] = 1_000_000,
    private_receivers: Annotated[
        bool, typer.Option(help="Send results also to Kafka and to addresses that are not public.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run a job until it is stopped, and serve it over HTTP: subscriptions, results, plan, metrics.

    Example: anabranch serve job.toml --port 8321
    """
    from anabranch.catalog.job import check_queries, load_job
    from anabranch.catalog.layout import layout_for
    from anabranch.catalog.sources import missing_paths
    from anabranch.cli.explain import plan_of
    from anabranch.cli.run import sent
    from anabranch.service.desk import Desk, Limits
    from anabranch.service.gate import is_loopback
    from anabranch.service.server import check_address, serving

    loaded = load_job(job)
    layout = layout_for(loaded)
    if not any(layout.families(name) for name in loaded.streams):  # later on, the files may be gone
        for error in missing_paths(loaded):
            raise error
    check_queries(loaded)
    check_address(host, _tokens_exist(layout))

    from anabranch.spark.measures import measures  # Spark takes seconds to start: only now
    from anabranch.spark.run import run_job

    limits = Limits(subscriptions, requests, listeners, batches)

    def beside(engine: Engine) -> AbstractContextManager[None]:
        desk = Desk(engine.layout, lambda: plan_of(engine.layout.root), limits, lambda: measures(engine))

        @contextmanager
        def served() -> Iterator[None]:
            desk.private_receivers = private_receivers
            with sent(engine, private_receivers or is_loopback(host)), serving(desk, host, port) as address:
                typer.echo(f"Serving {address} (openapi.json there describes it)", err=True)
                yield

        return served()

    run_job(loaded, seconds=seconds, quiet=quiet, beside=beside)


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
