"""`anabranch try`: answers a query from files, without Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.model.errors import JobError
from anabranch.results.writing import ResultForm, combined_parts, write

if TYPE_CHECKING:
    from anabranch.job.trial import Trial
    from anabranch.model.job import StreamDeclaration


def try_query(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query; - reads it from standard input.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=GLOB", help="Each stream of the query and its files.", show_default=False
        ),
    ],
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column that orders the streams.", show_default=False),
    ] = None,
    form: Annotated[ResultForm, typer.Option("--format", help="How to write the results.")] = ResultForm.JSON,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the streams as in a job file (lateness=2, position=ra,dec), or of one stream "
            "(photons.lateness=2).",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show on standard error what the query costs.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="The file to write to; parquet needs one.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most so many rows.", show_default=False)
    ] = None,
) -> None:
    """Answer a query from files, without Spark: what `run --once` and `results` would give.

    Results are printed as the files are read; rows that are late or rejected are counted on standard error.

    Example: anabranch try "SELECT ra, en FROM photons WHERE en > 1.3" "photons=photons/*.parquet"
    """
    if form is ResultForm.PARQUET and output is None:
        raise JobError("--format parquet needs a file: add --output results.parquet")
    from anabranch.job.trial import Trial
    from anabranch.numeric.jit import on_compile

    on_compile(lambda: print("compiling kernels, once: this takes a while", file=sys.stderr, flush=True))
    text = sys.stdin.read() if query == "-" else query
    trial = Trial(text, _declarations(files, time, settings or []))
    if explain:
        _explain(trial)
    write(*combined_parts(text, trial.parts(), lambda: trial.streams), form, output, limit)
    _print_books(trial)


def _declarations(files: list[str], time: str | None, settings: list[str]) -> list[StreamDeclaration]:
    from anabranch.job.trial import trial_stream

    paths = dict(_pair(text, "NAME=GLOB", "photons=photons/*.parquet") for text in files)
    given = [_pair(text, "--set KEY=VALUE", "--set lateness=2") for text in settings]
    out = []
    for name, path in paths.items():
        own = {key: value for key, value in given if not key.startswith(tuple(f"{one}." for one in paths))}
        own |= {key.removeprefix(f"{name}."): value for key, value in given if key.startswith(f"{name}.")}
        out.append(trial_stream(name, path, time, own))
    return out


def _pair(text: str, form: str, example: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise JobError(f"{text!r} is not of the form {form}, such as {example}")
    return key, value


def _explain(trial: Trial) -> None:
    from anabranch.cli.explain import print_explanation
    from anabranch.planning.explain import explained

    explanation = explained(trial.queries(), trial.streams, trial.samples())
    print_explanation(explanation, file=sys.stderr)


def _print_books(trial: Trial) -> None:
    """Says which rows gave no results because they were late or rejected."""
    for stream, reasons in trial.dead.items():
        if reasons:
            books = trial.books[stream]
            said = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
            print(
                f"{stream}: {books['rows_in']:,} rows in = {books['processed']:,} processed + "
                f"{books['late']:,} late + {books['rejected']:,} rejected ({said})",
                file=sys.stderr,
            )
