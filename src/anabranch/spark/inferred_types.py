"""The types of columns where some values are wrong: one of them does not make a column of numbers text.

`corrected`: in: a schema as Spark inferred it from JSON or XML, and the rows it was inferred from. Out: the
schema with a number (or for `time`, a timestamp) in place of text where nearly all values are of that type;
rows with another value there are then rejected and go to the dead letters. Never: a change of what Spark did
not call text. JSON says itself what is a number: `7` is one and `"7"` is not. In XML it is what can be read
as one.

`types_of_texts`: the same for CSV, of which Spark reads texts only, by the rules of job/text_values.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql import types as T

from anabranch.job.text_values import BOOLEAN, NUMBER, TIMESTAMP, WHOLE, TextCounts
from anabranch.model.columns import ColumnType

#: So many rows are looked at, and this part of the values must be of one type.
SAMPLE, MOST = 100_000, 0.9

#: The column into which Spark puts the text of a row that it cannot read.
CORRUPT_RECORD = "_corrupt_record"

Path = tuple[str, ...]


def corrected(
    reader: DataFrameReader, path: str, schema: T.StructType, json: bool, time: str | None, stream: str
) -> T.StructType:
    """`reader` has the source's options; `time` is the column that orders the stream."""
    texts = list(_texts(schema))
    if not texts:
        return schema
    counts = [
        F.count_if(test).alias(f"{word} {index}")
        for index, leaf in enumerate(texts)
        for word, test in _tests(F.col(".".join(f"`{name}`" for name in leaf)), json).items()
    ]
    read_as = (
        reduce(lambda made, leaf: _changed(made, leaf, T.VariantType()), texts, schema) if json else schema
    )
    found = reader.schema(read_as).load(path).limit(SAMPLE).agg(*counts).first()
    assert found is not None
    for index, leaf in enumerate(texts):
        name, total = ".".join(leaf), found[f"value {index}"]
        words = ("number", "timestamp") if name == time else ("number",)
        word = next((word for word in words if found[f"{word} {index}"] >= max(1, MOST * total)), None)
        if word is None:
            continue
        whole = found[f"whole {index}"] == found[f"number {index}"]
        kind = T.TimestampType() if word == "timestamp" else T.LongType() if whole else T.DoubleType()
        schema = _changed(schema, leaf, kind)
        _warn(stream, name, word, total - found[f"{word} {index}"], total)
    return schema


def types_of_texts(frame: DataFrame, missing: Sequence[str], time: str | None, stream: str) -> T.StructType:
    """`frame` has texts only; `missing` are those that are no values."""
    names = [field.name for field in frame.schema.fields if field.name != CORRUPT_RECORD]
    if not names:
        return T.StructType([])
    counts = [
        F.count_if(test).alias(f"{word} {index}")
        for index, name in enumerate(names)
        for word, test in _text_tests(F.col(f"`{name}`"), missing).items()
    ]
    found = frame.agg(*counts).first()
    assert found is not None
    made = []
    for index, name in enumerate(names):
        seen = TextCounts(**{word: found[f"{word} {index}"] for word in vars(TextCounts())})
        kind = seen.type(name == time)
        made.append(T.StructField(name, _TYPES[kind]))
        if kind in (ColumnType.INT, ColumnType.FLOAT):
            _warn(stream, name, "number", seen.present - seen.number, seen.present)
        elif kind is ColumnType.TIMESTAMP:
            _warn(stream, name, "timestamp", seen.present - seen.timestamp, seen.present)
    return T.StructType(made)


_TYPES: dict[ColumnType, T.DataType] = {
    ColumnType.INT: T.LongType(),
    ColumnType.FLOAT: T.DoubleType(),
    ColumnType.STRING: T.StringType(),
    ColumnType.BOOL: T.BooleanType(),
    ColumnType.TIMESTAMP: T.TimestampType(),
}


def _text_tests(text: SparkColumn, missing: Sequence[str]) -> dict[str, SparkColumn]:
    """Like TextCounts.add."""
    absent = text.isNull() | F.lower(F.trim(text)).isin([word.lower() for word in missing])
    there = ~absent
    whole = text.rlike(WHOLE) & text.try_cast("bigint").isNotNull()
    tests = {"whole": whole, "number": text.rlike(NUMBER)}
    tests |= {"boolean": text.rlike(BOOLEAN), "timestamp": text.rlike(TIMESTAMP)}
    return {"present": there, "nan": absent & (text == "NaN")} | {
        word: there & test for word, test in tests.items()
    }


def _warn(stream: str, name: str, word: str, wrong: int, total: int) -> None:
    if wrong:
        logging.getLogger(__name__).warning(
            "stream %s: %d of the first %d values of %s are no %s: such rows are rejected. To have it "
            "otherwise, give the source a schema",
            *(stream, wrong, total, name, word),
        )


def _tests(value: SparkColumn, json: bool) -> dict[str, SparkColumn]:
    """What a value can be taken for."""
    text = value.cast("string")
    if json:
        kind, there = F.schema_of_variant(value), text.isNotNull()
        whole, number = kind == "BIGINT", kind.rlike("^(BIGINT|DOUBLE|FLOAT|DECIMAL.*)$")
    else:
        there = text.isNotNull() & (F.trim(text) != "")
        whole, number = text.try_cast("bigint").isNotNull(), text.try_cast("double").isNotNull()
    tests = {"whole": whole, "number": number, "timestamp": text.try_cast("timestamp").isNotNull()}
    return {"value": there} | {word: there & test for word, test in tests.items()}


def _texts(schema: T.StructType, above: Path = ()) -> Iterator[Path]:
    """The paths of the leaves that Spark takes for text."""
    for field in schema.fields:
        if isinstance(field.dataType, T.StructType):
            yield from _texts(field.dataType, (*above, field.name))
        elif isinstance(field.dataType, T.StringType) and (above or field.name != CORRUPT_RECORD):
            yield (*above, field.name)


def _changed(schema: T.StructType, leaf: Path, kind: T.DataType) -> T.StructType:
    made = []
    for field in schema.fields:
        if field.name != leaf[0]:
            made.append(field)
            continue
        inner = kind
        if len(leaf) > 1:
            assert isinstance(field.dataType, T.StructType)
            inner = _changed(field.dataType, leaf[1:], kind)
        made.append(T.StructField(field.name, inner))
    return T.StructType(made)
