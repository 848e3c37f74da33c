"""Packets survive the way through bytes; what is not a packet, or of another version, is refused."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from anabranch.chain.packets import VERSION, Kind, Packet, decode, encode
from anabranch.model.errors import FormatError

ROWS = pa.record_batch({"a": [1, 2, None], "s": ["x", None, "é"]})
NAMES = pa.record_batch({"n": pa.array(["x", "y", "x"]).dictionary_encode(), "l": pa.array([[1], [], None])})


@pytest.mark.parametrize("rows", [ROWS, NAMES, ROWS.slice(1, 1), ROWS.slice(0, 0)])
def test_round_trip(rows: pa.RecordBatch) -> None:
    packet = Packet(2, 5, Kind.PARTIAL, rows, {"table": "select", "n": 3, "none": None})
    back = decode(encode(packet), 2, 5)
    assert (back.stage, back.zone, back.kind, dict(back.facts)) == (2, 5, Kind.PARTIAL, dict(packet.facts))
    assert back.rows.equals(rows)


def test_no_rows_no_facts() -> None:
    back = decode(encode(Packet(0, 0, Kind.END)), 0, 0)
    assert back.kind is Kind.END
    assert back.rows.num_columns == 0
    assert dict(back.facts) == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"abc", "too short"),
        (struct.pack("<4sHHI", b"NOPE", VERSION, 1, 0), "not a packet"),
        (struct.pack("<4sHHI", b"ANBP", VERSION + 1, 1, 0), f"version {VERSION + 1}"),
    ],
)
def test_refused(body: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        decode(body, 0, 0)
