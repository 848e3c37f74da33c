"""Results as text: JSON lines, CSV, XML.

Every column becomes a column of text in Arrow, and a row is their concatenation. Only what needs care (a
quote in a string, a number as large as 1e300) passes through Python.

JSON is what chain/items says, byte for byte: missing is null, timestamps are ISO 8601 in UTC.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain.items import json_row

#: Rows that are turned into text at once.
ROWS = 16_384

#: Between these limits Arrow writes a number as Python does, except for the .0 of whole numbers.
_LEAST, _GREATEST = 1e-4, 1e9

_EMPTY = pa.scalar("")


class Encoder(ABC):
    """The three parts of a text with results: `begin`, any number of `rows`, `end`."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def begin(self) -> bytes:
        return b""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """The text of a batch, each row with its end of line."""
        if not batch.num_rows:
            return b""
        lines = pc.binary_join_element_wise(*self.parts(batch), _EMPTY)
        return _bytes_of(lines)

    def end(self) -> bytes:
        return b""

    @abstractmethod
    def parts(self, batch: pa.RecordBatch) -> list[Any]:
        """Columns of text without nulls and scalars between them, which joined give the rows."""


class JsonLines(Encoder):
    def parts(self, batch: pa.RecordBatch) -> list[Any]:
        parts: list[Any] = []
        for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            parts += [pa.scalar(("{" if index == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": ")]
            parts += [pc.fill_null(json_text(column), "null")]
        return [*parts, pa.scalar("}\n" if parts else "{}\n")]


class Csv(Encoder):
    def begin(self) -> bytes:
        return (",".join(map(_csv_quoted, self.schema.names)) + "\n").encode()

    def parts(self, batch: pa.RecordBatch) -> list[Any]:
        parts: list[Any] = []
        for column in batch.columns:
            text = plain_text(column)
            if not pa.types.is_primitive(column.type):  # numbers, booleans and times have no commas
                text = _where(text, r'[",\r\n]|^$|^\s|\s$', _csv_quoted)
            parts += [pc.fill_null(text, ""), pa.scalar(",")]
        return [*parts[:-1], pa.scalar("\n")]


class Xml(Encoder):
    """`<row>` for each result, with one element per column; a path such as coord.cel.ra becomes nested
    elements.
    """

    def begin(self) -> bytes:
        return b'<?xml version="1.0" encoding="UTF-8"?>\n<results>\n'

    def parts(self, batch: pa.RecordBatch) -> list[Any]:
        return [pa.scalar("  <row>"), *_elements(batch, _tree(batch.schema.names)), pa.scalar("</row>\n")]

    def end(self) -> bytes:
        return b"</results>\n"


ENCODERS: dict[str, type[Encoder]] = {"json": JsonLines, "csv": Csv, "xml": Xml}


def _bytes_of(lines: pa.Array) -> bytes:
    """Returns the texts one after the other, as they are in memory."""
    _, offsets, values = lines.buffers()
    if values is None:
        return b""
    width = pa.int64() if pa.types.is_large_string(lines.type) else pa.int32()
    ends = pa.Array.from_buffers(width, lines.offset + len(lines) + 1, [None, offsets])
    return memoryview(values)[ends[lines.offset].as_py() : ends[-1].as_py()].tobytes()


# --- columns as text; a missing value stays null ---


def json_text(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        quoted = pc.binary_join_element_wise('"', column, '"', "")
        return _where(column, '[\\x00-\\x1f"\\\\]', _json, otherwise=quoted)
    if pa.types.is_timestamp(column.type):
        return pc.binary_join_element_wise('"', plain_text(column), '"', "")
    if pa.types.is_floating(column.type):
        return _floats(column, lambda value: json.dumps(json_row({"": value})[""]))
    return plain_text(column)


def plain_text(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, "true", "false")
    if pa.types.is_integer(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        return _floats(column, repr)
    if pa.types.is_timestamp(column.type):
        text = pc.strftime(column.cast(pa.timestamp("us", "UTC")), format="%Y-%m-%dT%H:%M:%SZ", locale="C")
        return pc.replace_substring(text, ".000000Z", "Z")
    values = [None if value is None else _json(json_row({"": value})[""]) for value in column.to_pylist()]
    return pa.array(values, pa.string())


def _floats(column: pa.Array, unusual: Callable[[float], str]) -> pa.Array:
    """Numbers as Python writes them: 1.0, 0.1, 1e-05. NaN is missing."""
    column = column.cast(pa.float64())
    if pc.any(pc.is_nan(column)).as_py():
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    text = column.cast(pa.string())
    text = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))
    size = pc.abs(column)
    usual = pc.or_(pc.equal(column, 0.0), pc.and_(pc.greater_equal(size, _LEAST), pc.less(size, _GREATEST)))
    mask = pc.fill_null(pc.invert(usual), False)
    return _replaced(text, mask, [unusual(value) for value in column.filter(mask).to_pylist()])


def _where(
    text: pa.Array, pattern: str, change: Callable[[str], str], otherwise: pa.Array | None = None
) -> pa.Array:
    """Returns `change` of the text where the pattern is found, `otherwise` (or the text itself) elsewhere."""
    mask = pc.fill_null(pc.match_substring_regex(text, pattern), False)
    changed = [change(value) for value in text.filter(mask).to_pylist()]
    return _replaced(text if otherwise is None else otherwise, mask, changed)


def _replaced(text: pa.Array, mask: pa.Array, values: list[str]) -> pa.Array:
    return pc.replace_with_mask(text, mask, pa.array(values, pa.string())) if values else text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _csv_quoted(value: str) -> str:
    if value and value == value.strip() and not set(value) & set('",\r\n'):
        return value
    return '"' + value.replace('"', '""') + '"'


# --- XML ---

Tree = dict[str, Any]
_SELF = "\0"  # in a tree, the index of the column that has exactly this path

#: Characters that XML 1.0 cannot have at all, and those that need another form.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}


def _xml_escaped(value: str) -> str:
    value = _FORBIDDEN.sub("\ufffd", value)
    return "".join(_ESCAPES.get(letter, letter) for letter in value)


def xml_name(part: str) -> str:
    """Returns a name that XML allows: other characters become _, so that count(*) is count___."""
    name = re.sub(r"[^\w.-]", "_", part) or "_"
    return name if re.match(r"[^\W\d]", name) else f"_{name}"


def _tree(names: list[str]) -> Tree:
    """Returns columns by the parts of their paths, in order of appearance."""
    tree: Tree = {}
    for index, name in enumerate(names):
        node = tree
        for part in name.split("."):
            node = node.setdefault(part, {})
        node[_SELF] = index
    return tree


def _elements(batch: pa.RecordBatch, tree: Tree) -> list[Any]:
    parts: list[Any] = []
    for part, node in tree.items():
        name = xml_name(part)
        if set(node) == {_SELF}:  # a leaf: left out where the value is missing
            text = xml_text(batch.column(node[_SELF]))
            parts.append(pc.fill_null(pc.binary_join_element_wise(f"<{name}>", text, f"</{name}>", ""), ""))
            continue
        own = [pc.fill_null(xml_text(batch.column(node[_SELF])), "")] if _SELF in node else []
        below = _elements(batch, {key: inner for key, inner in node.items() if key != _SELF})
        parts += [pa.scalar(f"<{name}>"), *own, *below, pa.scalar(f"</{name}>")]
    return parts


def xml_text(column: pa.Array) -> pa.Array:
    text = plain_text(column)
    if not pa.types.is_string(column.type):
        return text
    return _where(text, "[\\x00-\\x08\\x0b-\\x1f&<>\\x{fffe}\\x{ffff}]", _xml_escaped)
