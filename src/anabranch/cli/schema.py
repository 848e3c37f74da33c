"""The columns of a source, for commands that must not need Spark for it.

In: a declaration. Out: its columns, from a file's footer where the source is parquet, otherwise from Spark.
What a type becomes is what spark/sources says.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.catalog.sources import has_wildcards, is_url
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import StreamDeclaration


def columns_of(declaration: StreamDeclaration) -> tuple[Column, ...]:
    source = declaration.source
    if source.format == "parquet" and source.schema is None and source.path and not is_url(source.path):
        file = next(files_below(source.path), None)
        if file is not None:
            return tuple(_columns(_schema(file, declaration.name)))
    from anabranch.spark.session import make_session  # seconds: only where nothing else helps
    from anabranch.spark.sources import infer

    spark = make_session("anabranch explain")
    try:
        return infer(spark, declaration)[1]
    finally:
        spark.stop()


def files_below(path: str) -> Iterator[Path]:
    """The files below a path, in order; Spark skips what begins with _ or a dot, too."""
    for found in sorted(glob.glob(path)) if has_wildcards(path) else [path]:
        if not os.path.isdir(found):
            yield from [Path(found)] if os.path.isfile(found) else []
            continue
        for file in sorted(Path(found).rglob("*")):
            hidden = any(part[0] in "_." for part in file.relative_to(found).parts)
            if file.is_file() and not hidden:
                yield file


def _schema(file: Path, stream: str) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise JobError(
            f"stream {stream}: {file} cannot be read as parquet: {str(error).splitlines()[0]}"
        ) from None


def _columns(fields: Iterable[pa.Field], above: str = "") -> Iterator[Column]:
    for field in fields:
        name = f"{above}{field.name}"
        if pa.types.is_struct(field.type):
            yield from _columns(
                (field.type.field(place) for place in range(field.type.num_fields)), f"{name}."
            )
            continue
        kind = _column_type(field.type)
        if kind is not None:
            yield Column(name, kind)


def _column_type(kind: pa.DataType) -> ColumnType | None:
    """None for what a stream cannot hold: lists, maps, binary."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return ColumnType.BOOL
    if pa.types.is_uint64(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ColumnType.FLOAT  # Spark has no unsigned long: it reads a decimal
    if pa.types.is_integer(kind):
        return ColumnType.INT
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ColumnType.STRING
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return ColumnType.TIMESTAMP
    return None
