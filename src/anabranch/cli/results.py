"""`anabranch results`: what a subscription was answered, and what was late or rejected.

In: a sink and a name. Out: rows on standard output or in a file, in order. Never Spark: results are read as
they were delivered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from anabranch.catalog.entries import part_name
from anabranch.catalog.reading import suggestion
from anabranch.cli.common import print_table
from anabranch.cli.place import Found, Place, Where, place
from anabranch.model.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.cli.encode import Encoder
    from anabranch.language.wxquery.construction import Construction


class Form(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    XML = "xml"


def results(
    target: Where,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The subscription (with --dead-letters a stream); all are listed without it.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="How to write them.")] = Form.JSON,
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
    """Print a subscription's results in order, one JSON object a line.

    Example: anabranch results out vela --format csv --limit 10
    """
    if form is Form.PARQUET and output is None:
        raise JobError("--format parquet needs a file: add --output results.parquet")
    with place(target) as job:
        if name is None and not dead_letters:
            _list(job)
            return
        _print(job, name, form, output, dead_letters, limit)


def _print(
    job: Place, name: str | None, form: Form, output: Path | None, dead_letters: bool, limit: int | None
) -> None:
    if dead_letters:
        found, construction = [_dead(job, name)], None
    else:
        found, construction = _found(job, str(name))
    if form is Form.XML and construction is not None:
        texts = _constructed(found, construction)
    elif len(found) > 1:
        raise JobError(
            f"the parts of {name} have different columns: write them with --format xml, or one of them "
            f"({part_name(str(name), 2)} is the second)"
        )
    elif form is Form.PARQUET:
        assert output is not None
        _write_parquet(output, found[0][0], _limited(found[0][1], limit))
        return
    else:
        texts = _encoded(found[0], form)
    _write_text(output, texts, limit)


Texts = list[tuple["Encoder", Iterator["pa.Table"]]]


def _found(job: Place, name: str) -> tuple[list[Found], Construction | None]:
    """A subscription's results, also when it was cancelled, and what is made of them. Where a query has
    several loops over streams, the results of each.
    """
    from anabranch.language.wxquery.recognise import is_wxquery

    query, parts = job.asked(name)
    if not is_wxquery(query):
        return parts, None
    from anabranch.cli.combine import combined
    from anabranch.language.bind import compile_query

    construction = compile_query(query, job.streams()).construction
    assert construction is not None
    if len(parts) != sum(len(loop.prefixes) for loop in construction.loops):
        return parts, None  # it is itself a part of a query
    rest = iter(parts)
    return [combined([next(rest) for _ in loop.prefixes], loop) for loop in construction.loops], construction


def _dead(job: Place, name: str | None) -> Found:
    """The dead letters of all streams, or of the one that is named."""
    import pyarrow as pa

    from anabranch.zones.dead import SCHEMA

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


def _list(job: Place) -> None:
    """All subscriptions and how many results each has."""
    rows = [
        (*(facts[key] for key in ("label", "stream", "kind", "state")), f"{facts['results']:,}")
        for facts in job.subscriptions(every=True, counts=True)
    ]
    print_table(("name", "stream", "kind", "state", "results"), rows, right=("results",))


def _limited(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The rows in pieces that are worth a write each, up to the limit."""
    from anabranch.cli.encode import ROWS

    left = sys.maxsize if limit is None else limit
    for table in tables if left else ():
        for batch in table.to_batches(max_chunksize=ROWS):
            if left:
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
        if not left:
            return


def _encoded(found: Found, form: Form) -> Texts:
    from anabranch.cli.encode import ENCODERS

    schema, tables = found
    return [(ENCODERS[form](schema), tables)]


def _constructed(found: list[Found], construction: Construction) -> Texts:
    from anabranch.cli.construct import Constructed

    return [
        (Constructed(schema, construction, place), tables) for place, (schema, tables) in enumerate(found)
    ]


def _write_text(output: Path | None, texts: Texts, limit: int | None) -> None:
    with _opened(output) as out:
        for encoder, tables in texts:
            out.write(encoder.begin())
            for batch in _limited(tables, limit):
                out.write(encoder.rows(batch))
                limit = None if limit is None else limit - batch.num_rows
            out.write(encoder.end())


def _write_parquet(output: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    with _opened(output) as out, pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that is there whole or not at all."""
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if not output.parent.is_dir() or output.is_dir():
        raise JobError(f"--output {output} cannot be written: give a file in a folder that is there")
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            yield file
        os.replace(beside, output)
    finally:
        beside.unlink(missing_ok=True)
