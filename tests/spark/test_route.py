"""Route without Spark: what becomes an item, what a dead letter, and where packets are cut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.chain.items import AHEAD
from anabranch.chain.packets import Kind
from anabranch.job.source_files import UnreadableFiles
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import RunError
from anabranch.model.stream import Stream
from anabranch.spark.route import file_packets, packed

STREAM = Stream("s", (Column("t.at", ColumnType.FLOAT), Column("n", ColumnType.INT)), time="t.at")


def batch(times: list, **places: list) -> pa.RecordBatch:
    own = {"c0": pa.array(times, pa.float64()), "c1": pa.array(range(len(times)), pa.int64())}
    return pa.record_batch({**own, **{name: pa.array(values) for name, values in places.items()}})


def test_packets_are_cut_where_the_source_changes() -> None:
    rows = batch(
        [1, 2, 3, 4, 5],
        **{"#modified": [7] * 5, "#path": ["a", "a", "b", "b", "b"], "#block": [0, 0, 0, 9, 9]},
    )
    found = list(packed(rows, STREAM, task=3, first=10))
    assert [p.rows.column("n").to_pylist() for p in found] == [[0, 1], [2], [3, 4]]
    assert [p.facts["source"] for p in found] == [[7, "a", 0, 3, 11], [7, "b", 0, 3, 12], [7, "b", 9, 3, 13]]
    assert found[0].rows.schema.names == ["t.at", "n"]


def test_rows_without_a_time_are_dead_letters() -> None:
    rows = batch([1.0, None, float("nan"), float("inf"), 2.0], **{"#order": [0, 1, 2, 3, 4]})
    dead, items = packed(rows, STREAM, 0, 0)
    assert dead.kind is Kind.DEAD
    assert [json.loads(row["content"])["n"] for row in dead.rows.to_pylist()] == [1, 2, 3]
    assert items.rows.column("n").to_pylist() == [0, 4]
    assert items.rows.column("#order").to_pylist() == [0, 4]


def test_malformed_rows_keep_their_text() -> None:
    rows = batch([1.0, None], **{"#corrupt": [None, "{oops"]})
    dead, items = packed(rows, STREAM, 0, 0)
    assert dead.rows.to_pylist() == [{"reason": "malformed", "content": "{oops"}]
    assert items.rows.num_rows == 1


def test_nothing_gives_nothing() -> None:
    assert list(packed(batch([]), STREAM, 0, 0)) == []


def listed(path: Path, parts: int = 1) -> list[dict]:
    return [{"path": f"file:{path}", "modified": 7, "part": part, "parts": parts} for part in range(parts)]


def test_a_file_that_cannot_be_read_is_one_dead_letter(tmp_path: Path) -> None:
    """It stays one when the batch is repeated, even if the file has been completed by then."""
    path, records = tmp_path / "a.parquet", tmp_path / "records"
    pq.write_table(pa.table({"t.at": [1.0], "n": [1]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    first = list(file_packets(listed(path, 3), STREAM, UnreadableFiles(STREAM, records)))
    assert [packet.kind for packet in first] == [Kind.DEAD]
    ((reason, content),) = (row.values() for row in first[0].rows.to_pylist())
    assert reason.startswith("file cannot be read: ")
    assert content == str(path)
    path.write_bytes(whole)
    again = list(file_packets(listed(path, 3), STREAM, UnreadableFiles(STREAM, records)))
    assert [packet.rows.to_pylist() for packet in again] == [first[0].rows.to_pylist()]
    (items,) = file_packets(listed(path), STREAM, UnreadableFiles(STREAM, tmp_path / "others"))
    assert items.rows.num_rows == 1


def test_rows_before_damage_are_items(tmp_path: Path) -> None:
    """Whichever task reads the damaged part."""
    path = tmp_path / "a.parquet"
    table = pa.table({"t.at": [float(n) for n in range(400)], "n": range(400)})
    pq.write_table(table, path, row_group_size=100, compression="zstd", use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 200] = b"x" * 200
    path.write_bytes(content)
    for parts in (1, 2, 4):
        found = list(file_packets(listed(path, parts), STREAM, UnreadableFiles(STREAM)))
        items = sum(packet.rows.num_rows for packet in found if packet.kind is Kind.ITEMS)
        (dead,) = (packet for packet in found if packet.kind is Kind.DEAD)
        assert dead.rows.column("reason")[0].as_py().startswith("file cannot be read from row ")
        assert items == {1: 0, 2: 200, 4: 300}[parts]  # a packet is read as a whole


def test_files_that_stop_a_job(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    stops = replace(STREAM, on_bad_file="stop")
    with pytest.raises(RunError, match=r"a\.parquet cannot be read"):
        list(file_packets(listed(tmp_path / "a.parquet"), stops, UnreadableFiles(stops)))
    with pytest.raises(RunError, match=r"b\.parquet cannot be read"):  # gone: nobody knows what was in it
        list(file_packets(listed(tmp_path / "b.parquet"), STREAM, UnreadableFiles(STREAM)))


def test_times_far_ahead_of_the_clock_are_dead_letters() -> None:
    """The clock is that of the batch, which Spark keeps with its offsets."""
    second = 1_000_000
    columns = (Column("at", ColumnType.TIMESTAMP),)
    stream = Stream("s", columns, time="at", max_ahead=60 * second)
    times = pa.array([0, 60 * second, 61 * second, 10**18], pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch({"c0": times, "#now": pa.array([0, 0, 0, 0], pa.int64())})
    dead, items = packed(rows, stream, 0, 0)
    assert dead.rows.column("reason").to_pylist() == [AHEAD, AHEAD]
    assert items.rows.column("at").to_pylist() == times[:2].to_pylist()
    assert items.rows.schema.names == ["at"]
