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

from anabranch.catalog.entries import Entry, part_name
from anabranch.catalog.layout import Layout
from anabranch.catalog.reading import suggestion
from anabranch.catalog.sqlite import Catalog
from anabranch.cli.common import Target, opened, print_table
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
    target: Target,
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
    layout, catalog = opened(target)
    with catalog:
        if dead_letters:
            found, construction = [_dead(layout, catalog, name)], None
        elif name is not None:
            found, construction = _found(layout, catalog, name)
        else:
            _list(layout, catalog)
            return
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


Found = tuple["pa.Schema", Iterator["pa.Table"]]

Texts = list[tuple["Encoder", Iterator["pa.Table"]]]


def _found(layout: Layout, catalog: Catalog, name: str) -> tuple[list[Found], Construction | None]:
    """A subscription's results, also when it was cancelled, and what is made of them. Where a query has
    several loops over streams, the results of each.
    """
    from anabranch.language.wxquery.recognise import is_wxquery

    entry = catalog.subscription(name)
    parts = [_part(layout, catalog, each) for each in (entry, *catalog.parts(entry))]
    if not is_wxquery(entry.query):
        return parts, None
    from anabranch.cli.combine import combined
    from anabranch.language.bind import compile_query

    construction = compile_query(entry.query, catalog.streams()).construction
    assert construction is not None
    if len(parts) != sum(len(loop.prefixes) for loop in construction.loops):
        return parts, None  # it is itself a part of a query
    rest = iter(parts)
    return [combined([next(rest) for _ in loop.prefixes], loop) for loop in construction.loops], construction


def _part(layout: Layout, catalog: Catalog, entry: Entry) -> Found:
    from anabranch.catalog.deliveries import Deliveries
    from anabranch.families.registry import family as family_of
    from anabranch.families.results import rows_of

    family = family_of(entry.family)
    table_name, shown = family.shown(catalog.stream(entry.stream), entry.spec)
    table = family.table(table_name)
    tables = Deliveries(layout).results(entry.stream, entry.family, table, entry.label, shown)
    return rows_of([], table, entry.label, shown).schema, tables


def _dead(layout: Layout, catalog: Catalog, name: str | None) -> Found:
    """The dead letters of all streams, or of the one that is named."""
    import pyarrow as pa

    from anabranch.catalog.deliveries import Deliveries
    from anabranch.zones.dead import SCHEMA

    streams = list(catalog.streams())
    if name is not None and name not in streams:
        raise JobError(f"unknown stream {name!r}{suggestion(name, streams)}")
    schema = pa.schema([pa.field("stream", pa.string()), *SCHEMA])

    def tables() -> Iterator[pa.Table]:
        for stream in streams if name is None else [name]:
            for table in Deliveries(layout).dead_letters(stream):
                column = pa.repeat(pa.scalar(stream, pa.string()), table.num_rows)
                yield pa.table([column, table.column("reason"), table.column("content")], schema=schema)

    return schema, tables()


def _list(layout: Layout, catalog: Catalog) -> None:
    """All subscriptions and how many results each has."""
    from anabranch.catalog.deliveries import Deliveries
    from anabranch.families.registry import family as family_of

    streams, deliveries = catalog.streams(), Deliveries(layout)
    counts: dict[tuple[str, str, str], dict[str, int]] = {}
    rows = []
    for entry in catalog.subscriptions(state=None):
        table, _ = family_of(entry.family).shown(streams[entry.stream], entry.spec)
        place = (entry.stream, entry.family, table)
        if place not in counts:
            counts[place] = deliveries.counts(*place)
        rows.append(
            (entry.label, entry.stream, entry.kind, entry.state, f"{counts[place].get(entry.label, 0):,}")
        )
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
