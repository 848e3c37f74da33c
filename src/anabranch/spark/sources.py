"""Sources: from a stream's declaration to a streaming DataFrame of packets.

In: a declaration (format, path, options, settings). Out: packets as rows (spark/rows), with the stream's
columns, nested ones under their paths (`coord.cel.ra`), in the five types of model/columns.

Spark keeps the offsets of every source. Of parquet files on local disks Spark only gives the names, and
pyarrow reads them: that takes a quarter to a third of the CPU time, as Spark turns no rows into Arrow. All
else is read by Spark's own sources, as rows with our columns that say where a row stood in the source
(spark/route). Fields of CSV stay texts until route, which reads them as `anabranch try` does.

Source order is: for files, by time of modification, then path, then place in the file; for Kafka, by the time
of the record, then partition, then offset; for rate and generators, by their count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from anabranch.chain.items import CORRUPT, NOW
from anabranch.chain.order import SOURCE_ORDER
from anabranch.job.dtd import Dtd, Elements, read_dtd
from anabranch.job.generated_streams import schema_of
from anabranch.job.source_files import UnreadableFiles, files_below, missing_words, readable_parquet
from anabranch.job.sources import has_wildcards
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.stream import Stream
from anabranch.spark import generator
from anabranch.spark.inferred_types import CORRUPT_RECORD, corrected, types_of_texts
from anabranch.spark.route import FILE_COLUMNS, TextFields, file_router, flow_router, row_router
from anabranch.spark.rows import DDL, FILE_NAMES

FILES = ("parquet", "json", "csv", "xml")
#: Pieces of a flow from another site, in a folder (chain/flows.py).
FLOW = "flow"
#: Formats whose rows can be malformed.
TEXTS = ("json", "csv", "xml")


@dataclass(frozen=True)
class Field:
    """A leaf of a source's schema: the path that Spark knows it by, and the column it becomes."""

    expression: SparkColumn
    column: Column


def infer(spark: SparkSession, declaration: StreamDeclaration) -> tuple[T.StructType, tuple[Column, ...]]:
    """The source's own schema and the columns it gives. Declared schemas are taken as they are."""
    schema = _schema(spark, declaration)
    columns = tuple(field.column for field in fields(schema))
    if not columns:
        raise JobError(
            f"stream {declaration.name}: its source has no column of a type that a stream can hold"
        )
    return schema, columns


def packets(
    spark: SparkSession,
    declaration: StreamDeclaration,
    schema: T.StructType,
    stream: Stream,
    partitions: int,
    parcels: str | None = None,
    unreadable: Path | None = None,
) -> DataFrame:
    """The streaming DataFrame of a source's packets: rows of spark/rows.DDL. `unreadable` is a folder that
    remembers which files cannot be read.
    """
    if declaration.source.format == FLOW:
        pieces = file_names(spark, declaration.source)
        return pieces.mapInArrow(flow_router(partitions, parcels), DDL)
    if is_read_by_name(spark, declaration.source):
        files = file_names(spark, declaration.source, _parts(spark, declaration.source))
        return files.mapInArrow(
            file_router(stream, partitions, parcels, UnreadableFiles(stream, unreadable)), DDL
        )
    rows = read(spark, declaration, schema, stream)
    texts = _text_fields(declaration.source) if has_text_fields(declaration.source) else None
    return rows.mapInArrow(row_router(stream, partitions, parcels, texts), DDL)


#: Options that say how Spark itself makes values of the fields of CSV. In lower case.
_VALUE_OPTIONS = {
    *("timestampformat", "timestampntzformat", "dateformat", "locale"),
    *("nanvalue", "positiveinf", "negativeinf"),
}


def has_text_fields(source: Source) -> bool:
    """Whether Spark reads only texts, of which route makes values."""
    return source.format == "csv" and not _VALUE_OPTIONS & {option.lower() for option in source.options}


def _text_fields(source: Source) -> TextFields:
    separator = str(source.options.get("sep", source.options.get("delimiter", ",")))
    return TextFields(missing_words(source), separator if len(separator) == 1 else ",")


def read(
    spark: SparkSession, declaration: StreamDeclaration, schema: T.StructType, stream: Stream
) -> DataFrame:
    """The streaming DataFrame of a source: the stream's columns in their order, then ours (spark/route names
    them again).

    Spark takes a dot in a column's name for a path, so the stream's columns travel under plain names.
    """
    frame, places = _raw(spark, declaration.source, schema)
    leaves = {field.column.name: field.expression for field in fields(schema)}
    if has_text_fields(declaration.source):
        leaves = {name: F.col(f"`{name}`") for name in schema.names}
    columns = [leaves[column.name].alias(f"c{index}") for index, column in enumerate(stream.columns)]
    if (
        stream.max_ahead is not None
    ):  # Spark logs it with the offsets of the batch, and a replay reads it there
        places = [*places, F.unix_micros(F.current_timestamp()).alias(NOW)]
    return frame.select(*columns, *places)


def fields(schema: T.StructType, path: tuple[str, ...] = ()) -> Iterator[Field]:
    """The leaves of a schema that a stream can hold; others (lists, maps, binary) are left out."""
    for field in schema.fields:
        names = (*path, field.name)
        if isinstance(field.dataType, T.StructType):
            yield from fields(field.dataType, names)
            continue
        if names == (CORRUPT_RECORD,):
            continue
        kind = column_type(field.dataType)
        if kind is not None:
            source = F.col(".".join(f"`{name}`" for name in names))
            yield Field(_cast(source, kind), Column(".".join(names), kind))


def column_type(kind: T.DataType) -> ColumnType | None:
    match kind:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return ColumnType.INT
        case T.FloatType() | T.DoubleType() | T.DecimalType():
            return ColumnType.FLOAT
        case T.StringType() | T.CharType() | T.VarcharType():
            return ColumnType.STRING
        case T.BooleanType():
            return ColumnType.BOOL
        case T.TimestampType() | T.TimestampNTZType() | T.DateType():
            return ColumnType.TIMESTAMP
    return None


_SPARK_TYPES: dict[ColumnType, T.DataType] = {
    ColumnType.INT: T.LongType(),
    ColumnType.FLOAT: T.DoubleType(),
    ColumnType.STRING: T.StringType(),
    ColumnType.BOOL: T.BooleanType(),
    ColumnType.TIMESTAMP: T.TimestampType(),
}


def _cast(source: SparkColumn, kind: ColumnType) -> SparkColumn:
    return source.cast(_SPARK_TYPES[kind])


def _options(source: Source) -> dict[str, str]:
    """Options for Spark's reader; ours are taken out, and malformed rows are kept for the dead letters."""
    ours = ("path", "schema", "dtd", "row", "missing")
    options = {key: _text(value) for key, value in source.options.items() if key not in ours}
    if source.format in TEXTS:
        options.setdefault("mode", "PERMISSIVE")
        options["columnNameOfCorruptRecord"] = CORRUPT_RECORD
    if source.format == "csv":
        options.setdefault("header", "true")
        options.setdefault("escape", '"')  # a quote in quotes is doubled (RFC 4180)
    if source.format == "xml":
        options.setdefault("rowTag", _dtd(source).item if "dtd" in source.options else _row(source) or "item")
    return options


def pattern(path: str) -> str:
    """The path as a pattern where it is a file: Spark streams from a folder or a pattern only.

    /data/a.csv -> /data/[a].csv, which only a.csv matches
    """
    return re.sub(r"([^/])([^/]*)$", r"[\1]\2", path) if os.path.isfile(path) else path


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _schema(spark: SparkSession, declaration: StreamDeclaration) -> T.StructType:
    source = declaration.source
    try:
        if source.format == "generator":
            return _ddl(schema_of(str(source.options.get("name", "photons"))))
        if source.format == "rate":
            return _ddl("timestamp timestamp, value long")
        if source.schema:
            return _ddl(source.schema)
        if source.format == "kafka":
            raise JobError(
                f"stream {declaration.name}: a kafka source needs a schema, "
                'such as schema = "t double, x double"'
            )
        texts, time = has_text_fields(source), declaration.settings.get("time")
        options = _options(source) | {"inferSchema": str(source.format == "csv" and not texts).lower()}
        reader = spark.read.format(source.format).options(**options)
        frame = reader.load(_readable(spark, source))
        found = frame.schema
        if texts:
            found = types_of_texts(frame, missing_words(source), time, declaration.name)
        elif source.format in TEXTS:
            found = corrected(
                reader, source.path or "", found, source.format == "json", time, declaration.name
            )
        return _declared(_dtd(source).elements, found) if "dtd" in source.options else found
    except AnalysisException as error:
        raise JobError(f"stream {declaration.name}: {_first_line(error)}") from error
    except PySparkException as error:
        raise JobError(f"stream {declaration.name}: cannot read its schema: {_first_line(error)}") from error


def _readable(spark: SparkSession, source: Source) -> str | None:
    """The path; or a file of those that it names, if the first one cannot be read."""
    if source.format != "parquet" or not _is_local(spark, source):
        return source.path
    paths = list(files_below(_plain(source)))
    good = readable_parquet(paths)
    return source.path if good is None or good == paths[0] else str(good)


def _row(source: Source) -> str | None:
    """The element that is an item, where the source says it."""
    row = source.options.get("rowTag", source.options.get("row"))
    return None if row is None else str(row)


def _dtd(source: Source) -> Dtd:
    path = str(source.options["dtd"])
    try:
        with open(path, encoding="utf-8") as file:
            return read_dtd(file.read(), os.path.basename(path), _row(source))
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"the DTD {path} cannot be read: {error}") from None


def _declared(elements: Elements, found: T.DataType | None) -> T.StructType:
    """The elements of a DTD with the types that the data show; text where they show none."""
    made = []
    types = {field.name: field.dataType for field in found.fields} if isinstance(found, T.StructType) else {}
    for name, inner in elements.items():
        seen = types.get(name)
        kind: T.DataType = T.StringType()
        if inner:
            kind = _declared(inner, seen)
        elif seen is not None and column_type(seen) is not None:
            kind = seen
        made.append(T.StructField(name, kind))
    return T.StructType(made)


def _ddl(text: str) -> T.StructType:
    schema = T.StructType.fromDDL(text)
    assert isinstance(schema, T.StructType)
    return schema


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _raw(spark: SparkSession, source: Source, schema: T.StructType) -> tuple[DataFrame, list[SparkColumn]]:
    """What the source reads, and the columns of ours beside it."""
    if source.format == "kafka":
        return _kafka(spark, source, schema)
    if source.format == "rate":
        frame = spark.readStream.format("rate").options(**{"numPartitions": "1", **_options(source)}).load()
        return frame, [F.col("value").alias(SOURCE_ORDER)]
    if source.format == "generator":
        spark.dataSource.register(generator.GeneratorSource)
        frame = spark.readStream.format(generator.FORMAT).options(**_options(source)).load()
        return frame, [F.col(generator.COUNT).alias(SOURCE_ORDER)]
    if source.format in TEXTS and CORRUPT_RECORD not in schema.names:
        schema = T.StructType([*schema.fields, T.StructField(CORRUPT_RECORD, T.StringType())])
    if has_text_fields(source):
        schema = T.StructType([T.StructField(name, T.StringType()) for name in schema.names])
    reader = spark.readStream.format(source.format).schema(schema).options(**_options(source))
    frame = reader.load(pattern(source.path or ""))
    places = [
        F.unix_millis(F.col("_metadata.file_modification_time")).alias("#modified"),
        F.col("_metadata.file_path").alias("#path"),
        F.col("_metadata.file_block_start").alias("#block"),
    ]
    if source.format in TEXTS:
        places.append(F.col(CORRUPT_RECORD).alias(CORRUPT))
    return frame, places


#: Options of Spark's file source that change which files a batch has, not how they are read. In lower case.
_FILE_OPTIONS = {
    *("path", "maxfilespertrigger", "maxbytespertrigger", "pathglobfilter", "recursivefilelookup"),
    *("latestfirst", "maxfileage", "filenameonly", "maxcachedfiles", "discardcachedinputratio"),
    *("cleansource", "sourcearchivedir"),
}
#: Settings of a session that let Spark pass over files; pyarrow raises errors for them.
_LENIENT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")

#: Where there is a file of so many bytes, large files are read by several tasks. To hand out their parts
#: takes a shuffle, which adds 30 ms to every batch: as long as reading a million rows.
LARGE_FILE = 256 << 20


def is_read_by_name(spark: SparkSession, source: Source) -> bool:
    """Whether Spark gives only the names of the files.

    Not where folders called key=value are columns, which they can be below a path without wildcards; so not
    for an empty folder either.
    """
    options = {name.lower(): _text(value) for name, value in source.options.items()}
    if source.format != "parquet" or not options.keys() <= _FILE_OPTIONS or not _is_local(spark, source):
        return False
    if any(spark.conf.get(setting) == "true" for setting in _LENIENT):
        return False
    path = _plain(source)
    if has_wildcards(path) or os.path.isfile(path) or options.get("recursivefilelookup") == "true":
        return True
    folders = {file.parent.relative_to(path) for file in files_below(path)}
    return bool(folders) and not any("=" in str(folder) for folder in folders)


def _is_local(spark: SparkSession, source: Source) -> bool:
    """Whether the path is on local disks, like Spark's paths without a scheme unless it is told otherwise."""
    path = source.path or ""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path):
        return path.startswith("file:/")
    context: Any = spark.sparkContext
    default = context._jsc.hadoopConfiguration().get("fs.defaultFS")
    return default is None or str(default).startswith("file:")


def _plain(source: Source) -> str:
    return re.sub("^file:(//(?=/))?", "", source.path or "")


def _parts(spark: SparkSession, source: Source) -> int:
    """By how many tasks a large file is read, where there is one now."""
    for file in files_below(_plain(source)):
        with suppress(FileNotFoundError):
            if file.stat().st_size >= LARGE_FILE:
                return spark.sparkContext.defaultParallelism
    return 1


def file_names(spark: SparkSession, source: Source, parts: int = 1) -> DataFrame:
    """The streaming DataFrame of a source's files (route.FILE_COLUMNS). Large files are there `parts` times,
    and all rows are spread over so many tasks.
    """
    reader = spark.readStream.format("binaryFile").schema(FILE_NAMES).options(**_options(source))
    files = reader.load(pattern(source.path or "")).select(
        "path",
        F.unix_millis("modificationTime").alias("modified"),
        F.when(F.col("length") >= LARGE_FILE // 8, parts).otherwise(1).alias("parts"),
    )
    files = files.withColumn("part", F.explode(F.sequence(F.lit(0), F.col("parts") - 1))).select(
        *FILE_COLUMNS
    )
    return files if parts == 1 else files.repartition(parts)


def _kafka(spark: SparkSession, source: Source, schema: T.StructType) -> tuple[DataFrame, list[SparkColumn]]:
    options = {key: value for key, value in _options(source).items() if key not in ("bootstrap", "topic")}
    options["kafka.bootstrap.servers"] = str(source.options["bootstrap"])
    options["subscribe"] = str(source.options["topic"])
    options.setdefault("startingOffsets", "earliest")
    raw = spark.readStream.format("kafka").options(**options).load()
    inner = T.StructType([*schema.fields, T.StructField(CORRUPT_RECORD, T.StringType())])
    text = F.col("value").cast("string")
    parsed = F.from_json(text, inner, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD})
    frame = raw.select(
        F.col("partition").alias("#partition"),
        F.unix_millis(F.col("timestamp")).alias(SOURCE_ORDER),
        text.alias("#text"),
        parsed.alias("#row"),
    ).select("#partition", SOURCE_ORDER, "#text", "#row.*")
    unread = F.coalesce(F.col(CORRUPT_RECORD), F.when(F.col("#text").isNull(), F.lit("")))
    return frame, [F.col("`#partition`"), F.col(f"`{SOURCE_ORDER}`"), unread.alias(CORRUPT)]
