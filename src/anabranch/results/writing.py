"""Writes the results of a subscription: JSON lines, CSV, XML or parquet; to standard output or into a file.

    parts, construction = combined_parts(query, parts, job.streams)    # a WXQuery may have several parts
    write(parts, construction, ResultForm.JSON, output=None)

Rows are written batch by batch, as they come.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from anabranch.model.errors import JobError
from anabranch.model.files import written_atomically
from anabranch.model.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.language.wxquery.construction import Construction
    from anabranch.results.encoding import Encoder

#: The columns of results, and the results, a table per batch of the stream.
ResultTables = tuple["pa.Schema", Iterator["pa.Table"]]


class ResultForm(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    XML = "xml"


def combined_parts(
    query: str, parts: list[ResultTables], streams: Callable[[], Mapping[str, Stream]]
) -> tuple[list[ResultTables], Construction | None]:
    """Returns the results of each loop of a query, and the XML that a WXQuery makes of them.

    A query in SQL is one loop. A WXQuery may have several, each over one stream or several of them.
    """
    from anabranch.language.wxquery.recognise import is_wxquery

    if not is_wxquery(query):
        return parts, None
    from anabranch.language.bind import compile_query
    from anabranch.results.combination import combine

    construction = compile_query(query, streams()).construction
    assert construction is not None
    if len(parts) != sum(len(loop.prefixes) for loop in construction.loops):
        return parts, None  # it is itself a part of a query
    rest = iter(parts)
    return [combine([next(rest) for _ in loop.prefixes], loop) for loop in construction.loops], construction


def write(
    parts: Sequence[ResultTables],
    construction: Construction | None,
    form: ResultForm,
    output: Path | None = None,
    limit: int | None = None,
    hint: str = "",
) -> None:
    """Writes all rows, or the first `limit`. `hint` says what else can be done with parts that have different
    columns.
    """
    if form is ResultForm.PARQUET and output is None:
        raise JobError("--format parquet needs a file: add --output results.parquet")
    if form is ResultForm.XML and construction is not None:
        _write_text(output, _constructed(parts, construction), limit)
    elif len(parts) > 1:
        raise JobError(f"the parts of this query have different columns: write them with --format xml{hint}")
    elif form is ResultForm.PARQUET:
        assert output is not None
        _write_parquet(output, parts[0][0], _limited(parts[0][1], limit))
    else:
        _write_text(output, _encoded(parts[0], form), limit)


Texts = list[tuple["Encoder", Iterator["pa.Table"]]]


def _encoded(part: ResultTables, form: ResultForm) -> Texts:
    from anabranch.results.encoding import ENCODERS

    schema, tables = part
    return [(ENCODERS[form](schema), tables)]


def _constructed(parts: Sequence[ResultTables], construction: Construction) -> Texts:
    from anabranch.results.constructed_xml import ConstructedXml

    return [
        (ConstructedXml(schema, construction, index), tables) for index, (schema, tables) in enumerate(parts)
    ]


def _write_text(output: Path | None, texts: Texts, limit: int | None) -> None:
    with _opened(output) as out:
        for encoder, tables in texts:
            out.write(encoder.begin())
            for batch in _limited(tables, limit):
                out.write(encoder.rows(batch))
                out.flush()  # whoever reads from a pipe sees the rows as they come
                limit = None if limit is None else limit - batch.num_rows
            out.write(encoder.end())


def _write_parquet(output: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    with _opened(output) as out, pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _limited(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yields the rows in pieces that are worth a write each, up to the limit."""
    from anabranch.results.encoding import ROWS

    left = sys.maxsize if limit is None else limit
    for table in tables if left else ():
        for batch in table.to_batches(max_chunksize=ROWS):
            if left:
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
        if not left:
            return


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """Opens standard output, or a file that is there whole or not at all."""
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if not output.parent.is_dir() or output.is_dir():
        raise JobError(f"--output {output} cannot be written: give a file in a folder that is there")
    with written_atomically(output) as beside, beside.open("wb") as file:
        yield file
