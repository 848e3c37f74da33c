"""`anabranch translate`: writes a query in the other language, SQL or WXQuery.

What has no counterpart is refused with the reason; nothing is translated to what means almost the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.common import columns_of, opened
from anabranch.model.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.model.stream import Stream


def translate(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="The query, or a file with it; - reads standard input.", show_default=False
        ),
    ],
    target: Annotated[
        Path,
        typer.Option(metavar="TARGET", help="A job.toml with the query's stream, or the folder of its sink."),
    ] = Path("job.toml"),
) -> None:
    """Write a query in the other language: SQL becomes WXQuery, WXQuery becomes SQL.

    Example: anabranch translate "SELECT en FROM photons WHERE en > 1.3" --target out
    """
    from anabranch.language.bind import compile_query
    from anabranch.language.unparse import unparse
    from anabranch.language.wxquery.recognise import is_wxquery
    from anabranch.language.wxquery.unparse import unparse_wxquery

    text = _text(query)
    streams = _streams(target, text)
    bound = compile_query(text, streams)
    if bound.parts:
        raise JobError("this query has no counterpart in SQL: it goes over several streams")
    write = unparse if is_wxquery(text) else unparse_wxquery
    typer.echo(write(bound.spec, streams[bound.stream]))


def _text(query: str) -> str:
    if query == "-":
        return sys.stdin.read()
    if len(query) < 1024 and "\n" not in query and Path(query).is_file():
        return Path(query).read_text()
    return query


def _streams(target: Path, text: str) -> Mapping[str, Stream]:
    """Returns the streams of a sink's catalog; of a job that has not run, only the stream of the query."""
    if not target.exists():
        raise JobError(f"{target} does not exist; give a job.toml or the folder of its sink with --target")
    if not target.is_file():
        _, catalog = opened(target)
        with catalog:
            return catalog.streams()
    from anabranch.job.declarations import declare
    from anabranch.job.job_file import load_job
    from anabranch.language.parse import parse

    job = load_job(target)
    name = parse(text).streams[0].text
    wanted = job.streams.get(name)
    if wanted is None:
        raise JobError(f"{target.name} has no stream {name}; it has {', '.join(job.streams)}")
    return {wanted.name: declare(wanted, columns_of(wanted))}
