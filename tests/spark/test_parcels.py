"""Large bodies wait in files; whoever gets the row cannot tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.chain.packets import Kind, Packet, encode
from anabranch.spark.rows import LARGE, MAGIC, clear_parcels, content, pack, unpack


def packet(rows: int) -> Packet:
    columns = {
        "number": np.arange(rows),
        "name": pa.array(["a", "b"] * (rows // 2)).dictionary_encode(),
    }
    return Packet(2, 3, Kind.ITEMS, pa.record_batch(columns), {"source": ["file", 7]})


def test_a_large_packet_lies_in_a_file(tmp_path: Path) -> None:
    sent = packet(LARGE)
    body = pack(sent, str(tmp_path / "parcels"))
    assert body.startswith(MAGIC)
    assert len(body) < 1000
    assert len(list((tmp_path / "parcels").iterdir())) == 1
    got = unpack(body, 2, 3)
    assert got.rows.equals(sent.rows)
    assert got.facts == sent.facts
    assert got.kind is sent.kind


def test_a_small_packet_travels_in_its_row(tmp_path: Path) -> None:
    sent = packet(10)
    body = pack(sent, str(tmp_path / "parcels"))
    assert body == encode(sent)
    assert not (tmp_path / "parcels").exists()
    assert unpack(body, 2, 3).rows.equals(sent.rows)


def test_without_a_folder_all_travels(tmp_path: Path) -> None:
    sent = packet(LARGE)
    assert pack(sent, None) == encode(sent)


def test_the_content_of_a_parcel_can_be_sent_elsewhere(tmp_path: Path) -> None:
    sent = packet(LARGE)
    whole = bytes(content(pack(sent, str(tmp_path))))
    assert unpack(whole, 2, 3).rows.equals(sent.rows)


def test_what_was_opened_outlives_the_folder(tmp_path: Path) -> None:
    sent = packet(LARGE)
    got = unpack(pack(sent, str(tmp_path / "parcels")), 2, 3)
    clear_parcels(tmp_path / "parcels")
    assert not (tmp_path / "parcels").exists()
    assert got.rows.equals(sent.rows)
