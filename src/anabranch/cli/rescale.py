"""`anabranch rescale`: another number of zones for a job that does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def rescale(
    target: Annotated[Path, typer.Argument(metavar="JOB", help="A job.toml that has run, and is stopped.")],
    zones: Annotated[int, typer.Option("--zones", min=1, max=1024, help="How many zones it shall have.")],
) -> None:
    """Change the number of zones of a stopped job; the next run goes on with it. Results do not change.

    More zones use more cores: give a job as many as the machine has, or more.

    Example: anabranch rescale job.toml --zones 4
    """
    from anabranch.job.job_file import load_job
    from anabranch.spark.run import rescale_job

    rescale_job(load_job(target), zones)
    typer.echo(f"{target}: the next run goes on with {zones} {'zone' if zones == 1 else 'zones'}")
