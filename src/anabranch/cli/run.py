"""`anabranch run`: runs a job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file.", show_default=False)],
    once: Annotated[
        bool, typer.Option("--once", help="Read all that is there, end the streams, and stop.")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many seconds.", show_default=False)
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Start without a subscription, even if the next batch begins with it; it is then cancelled.",
            show_default=False,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run a job until it is stopped; with --once, until all that is there has been read.

    Whatever is wrong with the job or a query is said before anything runs (exit status 2).

    A job that was stopped goes on where it was.

    Example: anabranch run job.toml --once
    """
    from anabranch.catalog.database import exists
    from anabranch.catalog.registration import check_queries
    from anabranch.job.job_file import load_job
    from anabranch.job.sources import missing_paths
    from anabranch.results.layout import layout_for

    loaded = load_job(job)
    if not exists(layout_for(loaded).catalog):  # later on, the files that the schema came from may be gone
        for error in missing_paths(loaded):
            raise error
    check_queries(loaded)

    from anabranch.spark.run import run_job  # Spark takes seconds to start: only now

    run_job(loaded, once=once, seconds=seconds, quiet=quiet, without=without or ())
