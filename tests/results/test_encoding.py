"""Results as text, against the plain way: one row at a time, by the standard library."""

from __future__ import annotations

import csv
import io
import math
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.chain.items import json_lines, json_row
from anabranch.results.encoding import Csv, JsonLines, Xml

SCHEMA = pa.schema(
    [
        ("coord.ra", pa.float64()),
        ("n", pa.int64()),
        ("coord.cel.name", pa.string()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("coord.dec", pa.float64()),
    ]
)

_times = st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1)).map(lambda t: t.replace(tzinfo=UTC))
_floats = st.floats() | st.integers(-(10**20), 10**20).map(float)
_texts = st.text() | st.sampled_from(
    ["", '"', "a,b", "a\nb", "\r", "<&>", "\x00\x1f\x7f", "\\", "é😀", "\ufffe", " "]
)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "coord.ra": st.none() | _floats,
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "coord.cel.name": st.none() | _texts,
            "ok": st.none() | st.booleans(),
            "at": st.none() | _times,
            "coord.dec": st.none() | _floats,
        }
    ),
    max_size=8,
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows after one that is cut off again, so that no array begins at its buffer's beginning."""
    return pa.RecordBatch.from_pylist([dict.fromkeys(SCHEMA.names), *rows], schema=SCHEMA).slice(1)


@given(_rows)
def test_json_is_the_plain_one(rows: list[dict[str, Any]]) -> None:
    batch = batch_of(rows)
    assert JsonLines(SCHEMA).rows(batch).decode() == "".join(line + "\n" for line in json_lines(batch))


def plain(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(json_row({"v": value})["v"])


@given(_rows)
def test_csv_can_be_read_back(rows: list[dict[str, Any]]) -> None:
    rows = [{**row, "coord.cel.name": (row["coord.cel.name"] or "").replace("\0", "")} for row in rows]
    encoder = Csv(SCHEMA)
    text = (encoder.begin() + encoder.rows(batch_of(rows)) + encoder.end()).decode()
    head, *read = csv.reader(io.StringIO(text, newline=""))
    assert head == SCHEMA.names
    assert read == [[plain(row[name]) for name in SCHEMA.names] for row in rows]


@given(_rows)
def test_xml_can_be_read_back(rows: list[dict[str, Any]]) -> None:
    encoder = Xml(SCHEMA)
    root = ET.fromstring(encoder.begin() + encoder.rows(batch_of(rows)) + encoder.end())
    assert len(root) == len(rows)
    for row, element in zip(rows, root, strict=True):
        for name, value in row.items():
            found = element.findtext(name.replace(".", "/"))
            assert (found or "") == (_allowed(value) if isinstance(value, str) else plain(value))
            assert (found is None) == (value is None or value != value)


def _allowed(text: str) -> str:
    """What XML cannot hold is replaced."""
    return "".join("\ufffd" if (c < " " and c not in "\t\n\r") or c in "\ufffe\uffff" else c for c in text)


def test_columns_of_one_path_share_elements() -> None:
    assert Xml(SCHEMA).rows(
        batch_of([{"coord.ra": 1.0, "coord.cel.name": "a", "coord.dec": 2.5, "n": 3}])
    ) == (b"  <row><coord><ra>1.0</ra><cel><name>a</name></cel><dec>2.5</dec></coord><n>3</n></row>\n")


def test_names_that_xml_cannot_have() -> None:
    batch = pa.record_batch({"count(*)": [1], "2nd": [2], "a": [3], "a.b": [4]})
    assert (
        Xml(batch.schema).rows(batch)
        == b"  <row><count___>1</count___><_2nd>2</_2nd><a>3<b>4</b></a></row>\n"
    )


def test_lists_and_no_columns() -> None:
    batch = pa.record_batch({"centre": pa.array([[1.0, float("nan")], None])})
    assert JsonLines(batch.schema).rows(batch) == b'{"centre": [1.0, null]}\n{"centre": null}\n'
    assert Csv(batch.schema).rows(batch) == b'"[1.0, null]"\n\n'
