"""`anabranch run`: runs a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anabranch.spark.engine import Engine

#: How long receivers get for what is left when a job stops; with --once everything may be left.
STOP_S, ONCE_S = 2.0, 30.0


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file.", show_default=False)],
    once: Annotated[
        bool, typer.Option("--once", help="Read all that is there, end the streams, and stop.")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many seconds.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run a job until it is stopped; with --once, until all that is there has been read.

    Whatever is wrong with the job or a query is said before anything runs (exit status 2).

    A job that was stopped goes on where it was.

    Example: anabranch run job.toml --once
    """
    from anabranch.catalog.database import exists
    from anabranch.catalog.job import check_queries, load_job
    from anabranch.catalog.layout import layout_for
    from anabranch.catalog.sources import missing_paths

    loaded = load_job(job)
    if not exists(layout_for(loaded).catalog):  # later on, the files that the schema came from may be gone
        for error in missing_paths(loaded):
            raise error
    check_queries(loaded)

    from anabranch.spark.run import run_job  # Spark takes seconds to start: only now

    def beside(engine: Engine) -> AbstractContextManager[None]:
        return sent(engine, patience_s=ONCE_S if once else STOP_S)

    run_job(loaded, once=once, seconds=seconds, quiet=quiet, beside=beside)


@contextmanager
def sent(engine: Engine, private: bool = True, patience_s: float = STOP_S) -> Iterator[None]:
    """Sends results to receivers while a job runs."""
    from anabranch.service.sender import sending
    from anabranch.spark.producer import Producers

    producers = Producers(engine.spark)
    with sending(engine.layout, private, producers.send, patience_s):
        yield
    producers.close()
