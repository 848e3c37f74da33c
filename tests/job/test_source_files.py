"""Files read without Spark: columns, rows, order and samples; tests/spark/test_try.py compares with Spark."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.chain.items import checked
from anabranch.job.source_files import SourceFiles, sample_of
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError, RunError
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.stream import Stream


def test_columns_of_a_parquet_file(tmp_path: Path) -> None:
    inner = pa.struct([("ra", pa.float32()), ("cel", pa.struct([("n", pa.int16())]))])
    schema = pa.schema(
        [
            ("t", pa.timestamp("ns")),
            ("day", pa.date32()),
            ("coord", inner),
            ("s", pa.dictionary(pa.int32(), pa.string())),
            ("ok", pa.bool_()),
            ("price", pa.decimal128(10, 2)),
            ("list", pa.list_(pa.int64())),
            ("raw", pa.binary()),
        ]
    )
    (tmp_path / "_hidden").write_text("no parquet")
    pq.write_table(schema.empty_table(), tmp_path / "a.parquet")
    columns = SourceFiles(StreamDeclaration("s", Source("parquet", {"path": str(tmp_path)}))).columns()
    assert columns == tuple(
        Column(name, ColumnType(kind))
        for name, kind in {
            "t": "timestamp",
            "day": "timestamp",
            "coord.ra": "float",
            "coord.cel.n": "int",
            "s": "string",
            "ok": "bool",
            "price": "float",
        }.items()
    )


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(JobError, match=r"stream s: .*a\.parquet cannot be read"):
        SourceFiles(
            StreamDeclaration("s", Source("parquet", {"path": str(tmp_path / "*.parquet")}))
        ).columns()


@pytest.mark.parametrize("form", ["json", "csv"])
def test_samples_of_text_files(tmp_path: Path, form: str) -> None:
    lines = [json.dumps({"en": n, "coord": {"ra": 2}}) for n in range(5)]
    text = "\n".join(lines) if form == "json" else "en,coord.ra\n" + "\n".join(f"{n},2" for n in range(5))
    (tmp_path / f"a.{form}").write_text(text)
    columns = (Column("en", ColumnType.FLOAT), Column("coord.ra", ColumnType.INT))
    stream = Stream("s", (*columns, Column("more", ColumnType.STRING)))
    rows, where = sample_of(StreamDeclaration("s", Source(form, {"path": str(tmp_path)})), stream)
    assert rows is not None
    assert rows.to_pylist()[4] == {"en": 4.0, "coord.ra": 2, "more": None}
    assert where == f"5 items of a.{form}"


def test_no_sample(tmp_path: Path) -> None:
    stream = Stream("s", (Column("en", ColumnType.FLOAT),))

    def why(form: str, **options: str) -> str:
        rows, reason = sample_of(StreamDeclaration("s", Source(form, options)), stream)
        assert rows is None
        return reason

    assert why("kafka", topic="t") == "only files on this machine are read without Spark"
    assert why("parquet", path="s3://bucket/x") == "only files on this machine are read without Spark"
    assert "nothing matches" in why("parquet", path=str(tmp_path / "*.parquet"))
    (tmp_path / "a.csv").write_text("en\nx\n")
    assert why("csv", path=str(tmp_path)) == "a.csv begins with rows that are no items"
    (tmp_path / "a.csv").write_text("en\n")
    assert why("csv", path=str(tmp_path)) == "a.csv is empty"
    assert "lineSep of csv is known to Spark only" in why("csv", path=str(tmp_path), lineSep=";")


def test_a_file_that_cannot_be_read_is_a_dead_letter(tmp_path: Path) -> None:
    for number, name in enumerate("abcd"):
        pq.write_table(pa.table({"t": [number]}), tmp_path / f"{name}.parquet")
        os.utime(tmp_path / f"{name}.parquet", (number, number))
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-5])
    pq.write_table(pa.table({"t": ["two"]}), tmp_path / "c.parquet")
    files = SourceFiles(StreamDeclaration("s", Source("parquet", {"path": str(tmp_path)}), {"time": "t"}))
    stream = Stream("s", files.columns(), time="t")
    found = [checked(rows, stream) for rows in files.batches(stream)]
    assert [row["t"] for items, _ in found for row in items.to_pylist()] == [1, 3]
    letters = [row for _, dead in found for row in dead.to_pylist()]
    assert [Path(row["content"]).name for row in letters] == ["a.parquet", "c.parquet"]
    assert (
        letters[1]["reason"] == "file cannot be read: its column t is of type string, that of the stream int"
    )
    with pytest.raises(RunError, match=r"a\.parquet cannot be read"):
        list(files.batches(replace(stream, on_bad_file="stop")))
