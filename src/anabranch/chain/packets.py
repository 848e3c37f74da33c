"""Packets: a few columns addressed to a zone of a stage.

In: Arrow record batches with a kind and a few facts. Out: bytes with a version in their header, and back.
There is never a Python object per item.

    +------+---------+------+----------+-------------+------------------+
    | ANBP | version | kind | facts: n | facts, JSON | Arrow IPC stream |
    +------+---------+------+----------+-------------+------------------+
      4      u16       u16    u32        n             the rest

Blanks behind the facts let the Arrow part begin at a multiple of 8 bytes, so that it is read in place.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa

from anabranch.model.errors import FormatError

MAGIC = b"ANBP"
VERSION = 1
_HEADER = struct.Struct("<4sHHI")
_ALIGNED = 8

#: The stage every chain begins with, and the address of what leaves the chain.
ORDER = 0
DELIVER = -1

EMPTY = pa.record_batch([], names=[])


class Kind(IntEnum):
    ITEMS = 1  # items of the stream, in stream order
    ACTIVATE = 2  # rows of queries (control.CONTROL)
    CANCEL = 3  # likewise
    PROGRESS = 4  # facts: number (of the next item), time, origin, ended
    PARTIAL = 5  # what one stage of a family says to another; the family defines it
    RESULT = 6  # rows of a result table; facts: table
    DEAD = 7  # rows for the dead letters: reason, content
    BOOKS = (
        8  # facts: rows_in, processed, late, rejected so far; those of PROGRESS; version of the control log
    )
    END = 9  # the stream ends here
    NOTE = 10  # a counter or a warning for people; facts say what
    REBALANCE = 11  # zones shall share their work anew
    WAKE = 12  # nothing: a batch shall run, because back packets wait for one
    STATE = 13  # chunks of a zone's state: key, body; they come before everything else


@dataclass(frozen=True, slots=True)
class Packet:
    """`stage` is the depth in the chain (0 is order, DELIVER leaves it), `zone` the zone of that stage and
    `family` the family of the chain. A stage writes to its own family, so it need not name it.
    """

    stage: int
    zone: int
    kind: Kind
    rows: pa.RecordBatch = field(default_factory=lambda: EMPTY)
    facts: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""

    def column(self, name: str) -> pa.Array:
        return self.rows.column(name)


def message_note(stage: str, zone: int, counts: Mapping[str, int]) -> list[Packet]:
    """Returns a note of how many messages of a paper a zone sent in one batch, by the paper's names; nothing
    if it sent none. A message that stays within its server is not counted. `Manifests.messages` sums them up.
    """
    if not any(counts.values()):
        return []
    return [Packet(DELIVER, 0, Kind.NOTE, facts={"stage": stage, "zone": zone, "messages": dict(counts)})]


def encode(packet: Packet) -> bytes:
    """The packet's content; its address travels beside it."""
    header = header_of(packet)
    return header + ipc_bytes(packet.rows) if packet.rows.num_columns else header


def header_of(packet: Packet) -> bytes:
    """What comes before the Arrow part."""
    facts = json.dumps(dict(packet.facts), separators=(",", ":")).encode() if packet.facts else b""
    if packet.rows.num_columns:
        facts += b" " * (-(_HEADER.size + len(facts)) % _ALIGNED)
    return _HEADER.pack(MAGIC, VERSION, packet.kind, len(facts)) + facts


def ipc_bytes(rows: pa.RecordBatch) -> bytes:
    """Rows as an Arrow IPC stream.

    A stream is its messages one after the other; joining them here saves the copies that a growing output
    buffer makes. Dictionaries are messages of their own, for which the stream writer is asked.
    """
    if not any(pa.types.is_dictionary(kind) or pa.types.is_nested(kind) for kind in rows.schema.types):
        return b"".join([rows.schema.serialize(), rows.serialize()])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def facts_in(body: bytes | pa.Buffer) -> dict[str, Any]:
    """The facts of an encoded packet, without a look at its rows."""
    return _decoded_header(body)[1]


def decode(body: bytes | pa.Buffer, stage: int, zone: int, family: str = "") -> Packet:
    kind, facts, start = _decoded_header(body)
    rows = EMPTY
    if len(body) > start:
        with pa.ipc.open_stream(pa.py_buffer(body).slice(start)) as reader:
            rows = reader.read_next_batch()
    return Packet(stage, zone, Kind(kind), rows, facts, family)


def _decoded_header(body: bytes | pa.Buffer) -> tuple[int, dict[str, Any], int]:
    """The kind, the facts, and where the Arrow part begins."""
    if len(body) < _HEADER.size:
        raise FormatError(
            f"a packet of {len(body)} bytes is too short: at least {_HEADER.size} belong to its header"
        )
    magic, version, kind, facts_size = _HEADER.unpack_from(body)
    if magic != MAGIC:
        raise FormatError(f"not a packet of ours: it begins with {magic!r} instead of {MAGIC!r}")
    if version != VERSION:
        raise FormatError(f"a packet of format version {version}; this release reads version {VERSION}")
    start = _HEADER.size + facts_size
    facts_text = bytes(memoryview(body)[_HEADER.size : start]).strip()
    return kind, json.loads(facts_text) if facts_text else {}, start
