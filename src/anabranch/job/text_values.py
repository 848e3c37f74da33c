"""Columns of texts, as CSV and XML have them: which type their values have, and the values in that type.

    seen = TextCounts()
    seen.add(texts, MISSING)                           # batch by batch
    kind = seen.type()                                 # of ["1", "2.5", "NA"] it is float
    values, wrong = converted(texts, kind, MISSING)    # [1.0, 2.5, None]; wrong: which texts are no numbers
    rows = typed_rows(texts, stream, MISSING)          # all columns; rows with a wrong value have a reason

One wrong value in ten does not make a column of numbers text; rows with such a value are rejected.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.items import ARROW_TYPES, CORRUPT, REASON, arrow_schema
from anabranch.model.arrays import Bools
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream

#: Texts, in any case, that are missing values in columns of numbers, booleans and timestamps.
MISSING = ("", "na", "n/a", "null", "nan")

#: This part of the values must be of one type; the other values are then wrong.
MOST = 0.9

#: So much of a wrong value is shown.
SHOWN = 60

WHOLE = r"^[+-]?[0-9]+$"
_SHORT_WHOLE = r"^[+-]?[0-9]{1,18}$"
_LONG_WHOLE = r"^[+-]?[0-9]{19,}$"
_INFINITE = r"[+-]?(Infinity|Inf)|NaN"
NUMBER = rf"^\s*([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?|{_INFINITE})\s*$"
BOOLEAN = r"^(?i:true|false)$"
_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?)?"
_OFFSET = r"\s?(?:Z|UTC|([+-])([0-9]{1,2}):?([0-9]{2})?)"
TIMESTAMP = rf"^\s*([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(?:[ T]{_CLOCK}(?:{_OFFSET})?)?\s*$"
#: What Arrow itself reads as a timestamp in UTC.
_PLAIN_TIMESTAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?)?$"


@dataclass
class TextCounts:
    """How many texts of a column are there, and how many of them can be read as each type."""

    present: int = 0
    whole: int = 0
    number: int = 0
    boolean: int = 0
    timestamp: int = 0
    nan: int = 0  # of those that are missing

    def add(self, texts: pa.Array, missing: Sequence[str]) -> None:
        absent = _absent(texts, missing)
        self.nan += _count(pc.and_(absent, _matches(texts, "^NaN$")))
        texts = texts.filter(pc.invert(absent))
        if not len(texts):
            return
        self.present += len(texts)
        self.whole += _count(_whole(texts))
        self.number += _count(_matches(texts, NUMBER))
        self.boolean += _count(_matches(texts, BOOLEAN))
        self.timestamp += _count(_matches(texts, TIMESTAMP))

    def __iadd__(self, other: TextCounts) -> TextCounts:
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)
        return self

    def type(self, is_time: bool = False) -> ColumnType:
        """`is_time`: the column orders the stream, so that text is of no use there."""
        if not self.present:
            return ColumnType.FLOAT if self.nan else ColumnType.STRING
        for count, kind in ((self.boolean, ColumnType.BOOL), (self.timestamp, ColumnType.TIMESTAMP)):
            if count == self.present:
                return kind
        if self.number >= MOST * self.present:
            return ColumnType.INT if self.whole == self.number else ColumnType.FLOAT
        if is_time and self.timestamp >= MOST * self.present:
            return ColumnType.TIMESTAMP
        return ColumnType.STRING


def converted(texts: pa.Array, kind: ColumnType, missing: Sequence[str]) -> tuple[pa.Array, Bools]:
    """Returns the values, and for each row whether its text is no value of this type; it is then missing."""
    if kind is ColumnType.STRING:
        return texts, np.zeros(len(texts), bool)
    absent = _absent(texts, missing)
    good = _whole(texts) if kind is ColumnType.INT else _matches(texts, _PATTERNS[kind])
    usable = pc.and_(good, pc.invert(absent))
    values, failed = _CONVERSIONS[kind](pc.if_else(usable, texts, pa.scalar(None, pa.string())))
    wrong = pc.and_(pc.invert(good), pc.invert(absent)).to_numpy(zero_copy_only=False)
    return values, wrong | failed


def typed_rows(
    texts: pa.RecordBatch,
    stream: Stream,
    missing: Sequence[str],
    contents: Callable[[pa.RecordBatch], list[str]],
) -> pa.RecordBatch:
    """Returns the rows in the stream's types, with the columns CORRUPT and REASON for those that have a text
    which is no value of its type. `contents` gives the dead letters of rows.
    """
    columns, reasons = [], np.full(texts.num_rows, "", object)
    for column in stream.columns:
        if column.name not in texts.schema.names:
            columns.append(pa.nulls(texts.num_rows, ARROW_TYPES[column.type]))
            continue
        found = texts.column(column.name)
        values, wrong = converted(found, column.type, missing)
        columns.append(values)
        for row in np.flatnonzero(wrong):
            said = f"{column.name}: {_no_value(found[row].as_py(), column.type)}"
            reasons[row] = f"{reasons[row]}; {said}" if reasons[row] else said
    wrong = reasons != ""
    return marked(columns, stream, wrong, contents(texts.filter(pa.array(wrong))), reasons[wrong].tolist())


def marked(
    columns: Sequence[pa.Array],
    stream: Stream,
    wrong: Bools,
    contents: Sequence[str],
    reasons: Sequence[str | None] | None = None,
) -> pa.RecordBatch:
    """Returns rows with the columns CORRUPT and REASON; there is a content for each row that is wrong."""
    corrupt, why = np.full(len(wrong), None, object), np.full(len(wrong), None, object)
    corrupt[wrong] = contents
    if reasons is not None:
        why[wrong] = reasons
    schema = arrow_schema(stream)
    for name in (CORRUPT, REASON):
        schema = schema.append(pa.field(name, pa.string()))
    return pa.record_batch(
        [*columns, pa.array(corrupt, pa.string()), pa.array(why, pa.string())], schema=schema
    )


def csv_lines(rows: pa.RecordBatch, separator: str = ",") -> list[str]:
    """Returns the rows as lines of CSV."""
    lines = []
    for row in rows.to_pylist():
        line = io.StringIO()
        csv.writer(line, delimiter=separator, lineterminator="").writerow(row.values())
        lines.append(line.getvalue())
    return lines


def _no_value(text: str, kind: ColumnType) -> str:
    what = {
        ColumnType.INT: "a whole number of 64 bits" if re.match(NUMBER, text) else "a number",
        ColumnType.FLOAT: "a number",
        ColumnType.BOOL: "true or false",
        ColumnType.TIMESTAMP: "a timestamp",
    }[kind]
    return f"'{text[:SHOWN]}{'...' if len(text) > SHOWN else ''}' is not {what}"


def _absent(texts: pa.Array, missing: Sequence[str]) -> pa.Array:
    words = pa.array([word.lower() for word in missing], pa.string())
    found = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), value_set=words)
    return pc.or_(found, pc.is_null(texts))


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False)


def _whole(texts: pa.Array) -> pa.Array:
    """Whole numbers of 64 bits."""
    plain = _matches(texts, _SHORT_WHOLE)
    long = _matches(texts, _LONG_WHOLE)
    if not pc.any(long).as_py():
        return plain
    fits = [value is not None and -(2**63) <= int(value) < 2**63 for value in texts.filter(long).to_pylist()]
    return pc.or_(plain, pc.replace_with_mask(long, long, pa.array(fits)))


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _integers(texts: pa.Array) -> tuple[pa.Array, Bools]:
    return pc.replace_substring_regex(texts, r"^\+", "").cast(pa.int64()), np.zeros(len(texts), bool)


def _floats(texts: pa.Array) -> tuple[pa.Array, Bools]:
    plain = pc.replace_substring_regex(texts, r"^\s*\+?|\s+$", "")
    plain = pc.replace_substring_regex(plain, r"([0-9.])[dDfF]$", r"\1")
    return plain.cast(pa.float64()), np.zeros(len(texts), bool)


def _booleans(texts: pa.Array) -> tuple[pa.Array, Bools]:
    return pc.equal(pc.utf8_lower(texts), "true"), np.zeros(len(texts), bool)


def _timestamps(texts: pa.Array) -> tuple[pa.Array, Bools]:
    """Without an offset a time is in UTC."""
    kind = ARROW_TYPES[ColumnType.TIMESTAMP]
    failed = np.zeros(len(texts), bool)
    if pc.all(pc.fill_null(pc.match_substring_regex(texts, _PLAIN_TIMESTAMP), True)).as_py():
        try:
            plain = pc.replace_substring_regex(texts, "Z$", "")
            return plain.cast(pa.timestamp("us")).cast(kind), failed
        except pa.ArrowInvalid:  # a 31st of February: one by one
            pass
    moments: list[datetime | None] = []
    for index, text in enumerate(texts.to_pylist()):
        moments.append(None if text is None else parse_timestamp(text))
        failed[index] = text is not None and moments[-1] is None
    return pa.array(moments, kind), failed


def parse_timestamp(text: str) -> datetime | None:
    """Returns the moment that a text says, in UTC where it has no offset; None if it says none."""
    found = re.fullmatch(TIMESTAMP, text)
    if found is None:
        return None
    *parts, fraction, sign, hours, minutes = found.groups(default="0")
    year, month, day, hour, minute, second = map(int, parts)
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    try:
        moment = datetime(year, month, day, hour, minute, second, int(f"{fraction:0<6.6}"), UTC)
        return moment + offset if sign == "-" else moment - offset
    except (ValueError, OverflowError):
        return None


_PATTERNS = {
    ColumnType.FLOAT: NUMBER,
    ColumnType.BOOL: BOOLEAN,
    ColumnType.TIMESTAMP: TIMESTAMP,
}
_CONVERSIONS = {
    ColumnType.INT: _integers,
    ColumnType.FLOAT: _floats,
    ColumnType.BOOL: _booleans,
    ColumnType.TIMESTAMP: _timestamps,
}
