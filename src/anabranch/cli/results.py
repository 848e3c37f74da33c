"""`anabranch results`: prints the results of a subscription, or what was late or rejected. Never Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.catalog.entries import part_name
from anabranch.cli.common import print_table
from anabranch.cli.target import TargetJob, TargetOrAddress, open_target
from anabranch.model.errors import JobError
from anabranch.model.suggestions import suggestion
from anabranch.results.writing import ResultForm, combined_parts, write

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.results.writing import ResultTables


def results(
    target: TargetOrAddress,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The subscription (with --dead-letters a stream); all are listed without it.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[ResultForm, typer.Option("--format", help="How to write them.")] = ResultForm.JSON,
    output: Annotated[
        Path | None, typer.Option(help="The file to write to; parquet needs one.", show_default=False)
    ] = None,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="What was late or rejected, and why.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most so many rows.", show_default=False)
    ] = None,
) -> None:
    """Print a subscription's results in order, one JSON object per line.

    Example: anabranch results out vela --format csv --limit 10
    """
    if form is ResultForm.PARQUET and output is None:
        raise JobError("--format parquet needs a file: add --output results.parquet")
    with open_target(target) as job:
        if dead_letters:
            write([_dead_letters(job, name)], None, form, output, limit)
        elif name is None:
            _print_counts(job)
        else:
            parts, construction = combined_parts(*job.results(name), job.streams)
            hint = f", or one of them ({part_name(name, 2)} is the second)"
            write(parts, construction, form, output, limit, hint)


def _dead_letters(job: TargetJob, name: str | None) -> ResultTables:
    """Returns the dead letters of all streams, or of the one that is named."""
    import pyarrow as pa

    from anabranch.chain.items import DEAD_LETTERS as SCHEMA

    streams = list(job.streams())
    if name is not None and name not in streams:
        raise JobError(f"unknown stream {name!r}{suggestion(name, streams)}")
    schema = pa.schema([pa.field("stream", pa.string()), *SCHEMA])

    def tables() -> Iterator[pa.Table]:
        for stream in streams if name is None else [name]:
            for table in job.dead_letters(stream):
                column = pa.repeat(pa.scalar(stream, pa.string()), table.num_rows)
                yield pa.table([column, table.column("reason"), table.column("content")], schema=schema)

    return schema, tables()


def _print_counts(job: TargetJob) -> None:
    """Prints all subscriptions and how many results each has."""
    rows = [
        (*(facts[key] for key in ("label", "stream", "kind", "state")), f"{facts['results']:,}")
        for facts in job.subscriptions(every=True, counts=True)
    ]
    print_table(("name", "stream", "kind", "state", "results"), rows, right=("results",))
