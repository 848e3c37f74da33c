"""Route without Spark: what becomes an item, what a dead letter, and where packets are cut."""

from __future__ import annotations

import json

import pyarrow as pa

from anabranch.chain.packets import Kind
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.spark.route import packed

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
