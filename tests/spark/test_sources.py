"""Sources: each format through the whole pipeline; what is malformed, of the wrong type or without a time is
told, not lost.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.chain.items import checked
from anabranch.job.source_files import SourceFiles, parquet_rows
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError, RunError
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.stream import Stream
from anabranch.spark import sources
from anabranch.spark.engine import Engine
from anabranch.spark.sources import fields, infer, is_read_by_name
from tests.job.test_dtd import PHOTONS
from tests.language.wxquery.paper import FIGURE_4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GOOD = [{"t": 1, "v": 0.5, "s": "a"}, {"t": 2, "v": None, "s": "b,c"}, {"t": 4, "v": 2.5, "s": None}]


def run(spark: SparkSession, out: Path, form: str, query: str = "SELECT * FROM s", **settings: Any) -> Engine:
    """Runs one subscription `q` over all that is there; the engine is closed, its results can be read."""
    with Engine(spark, out) as engine:
        engine.stream("s", form, **settings)
        engine.subscribe("q", query)
        engine.run_once()
    return engine


def letters(engine: Engine) -> list[tuple[str, str]]:
    return [
        (row["reason"], row["content"])
        for table in engine.deliveries.dead_letters("s")
        for row in table.to_pylist()
    ]


def balanced(engine: Engine, rows: int) -> None:
    books = engine.deliveries.books("s")
    assert books["rows_in"] == rows == books["processed"] + books["late"] + books["rejected"]
    assert len(letters(engine)) == books["late"] + books["rejected"]


def test_json(spark: SparkSession, tmp_path: Path) -> None:
    lines = [json.dumps(row) for row in GOOD]
    lines += ["{not json", '{"t": "seven", "v": 1}', '{"v": 3.5}', '{"t": 3, "v": 1}']
    (tmp_path / "in.json").write_text("\n".join(lines) + "\n")
    engine = run(
        spark,
        tmp_path / "out",
        "json",
        schema="t long, v double, s string",
        path=str(tmp_path / "in.json"),
        time="t",
    )
    assert engine.results("q").to_pylist() == GOOD
    balanced(engine, 7)
    found = letters(engine)
    assert ("malformed", "{not json") in found
    assert ("malformed", '{"t": "seven", "v": 1}') in found
    assert any(reason.startswith("no time") and json.loads(content)["v"] == 3.5 for reason, content in found)
    assert ("late", '{"t": 3, "v": 1.0, "s": null}') in found


def test_csv(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('t,v,s\n1,0.5,"a ""b"""\n2,,"b,c"\nx,1,y\n4,2.5,\n')
    engine = run(
        spark,
        tmp_path / "out",
        "csv",
        schema="t long, v double, s string",
        path=str(tmp_path / "in.csv"),
        time="t",
    )
    assert engine.results("q").to_pylist() == [GOOD[0] | {"s": 'a "b"'}, *GOOD[1:]]
    balanced(engine, 4)
    assert letters(engine) == [("t: 'x' is not a number", "x,1,y")]


def test_missing_values_in_csv(spark: SparkSession, tmp_path: Path) -> None:
    """They are found in numbers, booleans and timestamps, by a job as by `try`; texts are what they say."""
    rows = ["1,1.5,true,2026-01-01 00:00:00,NA", "2,na,N/A,null,x", "3, ,nan,NaN,", "4,NULL,,  ,null"]
    rows += ["5,abc,maybe,soon,y", "6,-999,TRUE,2026-02-30,z", "7;8"]
    rows += [f"{n},{n / 4},false,2026-01-02,w" for n in range(7, 40)]
    (tmp_path / "in.csv").write_text("\n".join(["t,v,ok,at,s", *rows]) + "\n")
    source = {
        "path": str(tmp_path / "in.csv"),
        "schema": "t long, v double, ok boolean, at timestamp, s string",
    }
    engine = run(spark, tmp_path / "out", "csv", time="t", **source)
    found = [tuple(row.values()) for row in engine.results("q").to_pylist()]
    assert found[0][1:] == (1.5, True, datetime(2026, 1, 1, tzinfo=UTC), "NA")
    assert found[1:4] == [
        (2, None, None, None, "x"),
        (3, None, None, None, None),
        (4, None, None, None, "null"),
    ]
    balanced(engine, 40)
    assert set(letters(engine)) == {
        (
            "v: 'abc' is not a number; ok: 'maybe' is not true or false; at: 'soon' is not a timestamp",
            rows[4],
        ),
        ("at: '2026-02-30' is not a timestamp", rows[5]),
        ("malformed", "7;8"),
    }
    declaration = StreamDeclaration(
        "s", Source("csv", {"path": source["path"]}, source["schema"]), {"time": "t"}
    )
    stream = engine.streams["s"]
    tried = [checked(batch, stream) for batch in SourceFiles(declaration).batches(stream)]
    assert [row for items, _ in tried for row in items.select(range(5)).to_pylist()] == engine.results(
        "q"
    ).to_pylist()
    dead = [(row["reason"], row["content"]) for _, letters in tried for row in letters.to_pylist()]
    assert sorted(dead) == sorted(letters(engine))


def test_one_wrong_value_does_not_make_text_of_a_column(spark: SparkSession, tmp_path: Path) -> None:
    """In JSON, "7" is text and stays it; a time may be text, where it can be read as one."""
    items = [
        {"t": f"2026-01-01T00:00:{n:02d}Z", "n": n, "v": n / 4, "code": str(n), "in": {"x": n}}
        for n in range(20)
    ]
    items[3] |= {"n": "many"}
    items[5] |= {"v": "7"}
    items[7] |= {"in": {"x": "?"}}
    items[9] |= {"t": "yesterday"}
    (tmp_path / "in.json").write_text("".join(json.dumps(item) + "\n" for item in items))
    engine = run(spark, tmp_path / "out", "json", path=str(tmp_path / "in.json"), time="t")
    types = {column.name: column.type for column in engine.streams["s"].columns}
    assert types == {
        "t": ColumnType.TIMESTAMP,
        "n": ColumnType.INT,
        "v": ColumnType.FLOAT,
        "code": ColumnType.STRING,
        "in.x": ColumnType.INT,
    }
    assert [row["n"] for row in engine.results("q").to_pylist()] == [
        n for n in range(20) if n not in (3, 5, 7, 9)
    ]
    balanced(engine, 20)
    assert [json.loads(content) for _, content in letters(engine)] == [items[n] for n in (3, 5, 7, 9)]


@pytest.mark.parametrize("form", ["csv", "xml"])
def test_types_in_spite_of_dirt(spark: SparkSession, tmp_path: Path, form: str) -> None:
    rows = [[str(n), str(n / 4), f"k{n}", "x" if n % 3 else "7"] for n in range(20)]
    rows[4][0] = rows[6][1] = "?"
    if form == "csv":  # missing values say nothing of a type
        rows += [["NA", "n/a", "", "NULL"] for _ in range(20)]
    names, path = ["n", "v", "key", "mixed"], tmp_path / f"in.{form}"
    if form == "csv":
        path.write_text("\n".join(map(",".join, [names, *rows])))
    else:
        item = "".join(f"<{name}>{{}}</{name}>" for name in names)
        path.write_text(f"<all>{''.join(f'<item>{item.format(*row)}</item>' for row in rows)}</all>")
    declaration = StreamDeclaration("s", Source(form, {"path": str(path)}), {"time": "n"})
    _, columns = infer(spark, declaration)
    assert {column.name: column.type for column in columns} == {
        "n": ColumnType.INT,
        "v": ColumnType.FLOAT,
        "key": ColumnType.STRING,
        "mixed": ColumnType.STRING,
    }


def test_xml_elements_become_paths(spark: SparkSession, tmp_path: Path) -> None:
    place = "<coord><cel><ra>{}</ra><dec>-45.5</dec></cel></coord>"
    item = f"<photon><det_time>{{}}</det_time>{place}<en>{{}}</en></photon>"
    text = "".join(item.format(n, 130 + n, n / 4) for n in range(4))
    (tmp_path / "in.xml").write_text(f"<photons>{text}</photons>")
    query = "SELECT coord.cel.ra, en FROM s WHERE coord.cel.ra >= 131 AND en < 0.75"
    engine = run(
        spark, tmp_path / "out", "xml", query, path=str(tmp_path / "in.xml"), rowTag="photon", time="det_time"
    )
    assert Column("coord.cel.dec", ColumnType.FLOAT) in engine.streams["s"].columns
    assert engine.results("q").to_pylist() == [
        {"coord.cel.ra": 131, "en": 0.25},
        {"coord.cel.ra": 132, "en": 0.5},
    ]
    balanced(engine, 4)


def test_xml_with_a_dtd_and_a_query_of_the_paper(spark: SparkSession, tmp_path: Path) -> None:
    """The DTD says what an item is and what is in it, the data what type it has: note never comes."""
    (tmp_path / "photons.dtd").write_text(PHOTONS.replace("phc,", "phc?, note?,"))
    place = "<coord><cel><ra>{}</ra><dec>-45.5</dec></cel><det><dx>1</dx><dy>2</dy></det></coord>"
    item = f"<photon>{place}<en>{{}}</en><det_time>{{}}</det_time></photon>"
    text = "".join(item.format(130 + n, 1 + n / 4, n) for n in range(4))
    (tmp_path / "in.xml").write_text(f"<photons>{text}</photons>")
    settings = {"path": str(tmp_path / "in.xml"), "dtd": str(tmp_path / "photons.dtd"), "time": "det_time"}
    query = FIGURE_4.replace('stream("photons")', 'stream("s")')
    engine = run(spark, tmp_path / "out", "xml", query, **settings)
    columns = {column.name: column.type for column in engine.streams["s"].columns}
    assert list(columns)[:4] == ["coord.cel.ra", "coord.cel.dec", "coord.det.dx", "coord.det.dy"]
    assert (columns["en"], columns["det_time"]) == (ColumnType.FLOAT, ColumnType.INT)
    assert (columns["phc"], columns["note"]) == (ColumnType.STRING, ColumnType.STRING)
    found = [tuple(row.values()) for row in engine.results("q").to_pylist()]
    assert found == [(132, -45.5, 1.5, 2), (133, -45.5, 1.75, 3)]
    balanced(engine, 4)


def test_parquet_types_and_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    times = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (1, 2, 5, 3, 9)]
    table = pa.table(
        {
            "at": pa.array(times, pa.timestamp("us", tz="UTC")),
            "small": pa.array([1, 2, None, 4, 5], pa.int16()),
            "single": pa.array([0.5, 1.5, float("nan"), 2.5, None], pa.float32()),
            "flag": [True, False, None, True, True],
            "ignored": pa.array([[1], [2], [3], [4], [5]]),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    query = "SELECT at, small, single FROM s WHERE NOT (single > 1) OR at = '2026-01-01T00:00:02Z'"
    engine = run(spark, tmp_path / "out", "parquet", query, path=str(tmp_path), time="at", lateness=3)
    names = [column.name for column in engine.streams["s"].columns]
    assert names == ["at", "small", "single", "flag"]
    found = engine.results("q").to_pylist()
    assert [row["at"] for row in found] == [times[0], times[1], times[2], times[4]]
    assert [row["small"] for row in found] == [1, 2, None, 5]
    balanced(engine, 5)


def test_files_are_read_in_order_of_time_and_path(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for name, start in (("b", 10), ("a", 0), ("c", 20)):
        pq.write_table(pa.table({"t": list(range(start, start + 10))}), source / f"{name}.parquet")
    for path in source.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    engine = run(spark, tmp_path / "out", "parquet", path=str(source), time="t")
    assert engine.results("q").column("t").to_pylist() == list(range(30))
    assert engine.deliveries.books("s")["late"] == 0


def test_parquet_values_are_those_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    days = [date(1969, 12, 31), None, date(2026, 2, 28)]
    times = [datetime(1583, 1, 1), datetime(2026, 1, 1, 1, 2, 3, 456789), None]
    table = pa.table(
        {
            "utc": pa.array(times, pa.timestamp("us", tz="UTC")),
            "zoned": pa.array(times, pa.timestamp("ms", tz="Europe/Berlin"), safe=False),
            "plain": pa.array(times, pa.timestamp("us")),
            "day": pa.array(days, pa.date32()),
            "price": pa.array([Decimal("4.35"), Decimal("-1234567.89"), None], pa.decimal128(9, 2)),
            "wide": pa.array([Decimal("0.1"), Decimal(10**27), None], pa.decimal128(38, 10)),
            "byte": pa.array([1, -2, None], pa.int8()),
            "unsigned": pa.array([2**32 - 1, 0, None], pa.uint32()),
            "long_unsigned": pa.array([2**64 - 1, 2**53 + 1, None], pa.uint64()),
            "single": pa.array([0.1, float("nan"), None], pa.float32()),
            "word": pa.array(["a", "", None]).dictionary_encode(),
            "length": pa.array([1, 2, None], pa.duration("us")),
            "in": [{"flag": True, "deep": {"x": 1}, "list": [1]}, {"flag": None, "deep": None}, None],
        }
    )
    pq.write_table(table, tmp_path / "arrow.parquet")
    pq.write_table(table.select(["utc"]), tmp_path / "int96.parquet", use_deprecated_int96_timestamps=True)
    for name in ("arrow", "int96"):
        path = tmp_path / f"{name}.parquet"
        declaration = StreamDeclaration("s", Source("parquet", {"path": str(path)}), {})
        schema, columns = infer(spark, declaration)
        rows = spark.read.parquet(str(path)).select(*(field.expression for field in fields(schema)))
        wanted = [tuple(row.values()) for row in rows.toArrow().to_pylist()]
        ((_, found),) = parquet_rows(path, Stream("s", columns), 100)
        assert repr([tuple(row.values()) for row in found.to_pylist()]) == repr(wanted)
    assert found.column("utc").type == pa.timestamp("us", tz="UTC")


def test_parquet_files_are_read_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """Names as one meets them, a column that a file lacks or spells otherwise, files without rows, and what
    Spark passes over.
    """
    source = tmp_path / "in"
    source.mkdir()

    def write(name: str, first: int, **columns: Any) -> None:
        table = pa.table({"t": pa.array(range(first, first + 4), pa.int64()), **columns})
        pq.write_table(table, source / name, row_group_size=2)
        os.utime(source / name, (1_700_000_000 + first, 1_700_000_000 + first))

    inner = pa.array([{"x": n / 2, "list": [n]} for n in range(4)])
    write("a b.parquet", 0, inner=inner)
    write("100%, a%20b=c.parquet", 4)
    write("\u00e4 #1.parquet", 8, INNER=inner)
    pq.write_table(pa.table({"t": pa.array([], pa.int64())}), source / "no rows.parquet")
    for name in ("_temporary.parquet", ".hidden.parquet", "empty.parquet"):
        (source / name).touch()
    declared = Source("parquet", {"path": str(source), "pathGlobFilter": "*.parquet"})
    assert is_read_by_name(spark, declared)
    engine = run(
        spark, tmp_path / "out", **declared.options, form="parquet", schema="t long, inner struct<x: double>"
    )
    halves = [0, 0.5, 1, 1.5]
    assert engine.results("q").column("t").to_pylist() == list(range(12))
    assert engine.results("q").column("inner.x").to_pylist() == [*halves, *[None] * 4, *halves]
    balanced(engine, 12)


def test_parts_of_a_large_file_are_put_in_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LARGE_FILE", 1)
    pq.write_table(pa.table({"t": range(5000)}), tmp_path / "in.parquet", row_group_size=700)
    engine = run(spark, tmp_path / "out", "parquet", path=str(tmp_path / "in.parquet"), time="t")
    assert engine.results("q").column("t").to_pylist() == list(range(5000))
    balanced(engine, 5000)


def test_what_spark_itself_reads(spark: SparkSession, tmp_path: Path) -> None:
    """Folders that are columns, and options that pyarrow does not know."""
    (tmp_path / "in/day=3").mkdir(parents=True)
    pq.write_table(pa.table({"t": [1, 2]}), tmp_path / "in/day=3/a.parquet")
    for options in ({"mergeSchema": True}, {"path": "hdfs://a/b"}, {"path": str(tmp_path / "none")}):
        options = {"path": str(tmp_path / "in/day=3"), **options}
        assert not is_read_by_name(spark, Source("parquet", options))
    assert not is_read_by_name(spark, Source("csv", {"path": str(tmp_path / "in/day=3")}))
    assert is_read_by_name(spark, Source("parquet", {"path": f"file://{tmp_path}/in/day=3"}))
    engine = run(spark, tmp_path / "out", "parquet", path=str(tmp_path / "in"), time="t")
    assert engine.results("q").to_pylist() == [{"t": 1, "day": 3}, {"t": 2, "day": 3}]


def test_a_broken_file_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    """Or, with on_bad_file = "stop", it is named and the job stops."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    pq.write_table(pa.table({"t": [1, 2]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"t": ["one"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"t": [3]}), tmp_path / "z.parquet")
    source = {"path": f"{tmp_path}/*.parquet", "time": "t"}
    engine = run(spark, tmp_path / "out", "parquet", **source)
    assert engine.results("q").column("t").to_pylist() == [1, 2, 3]
    balanced(engine, 5)
    reasons = {Path(content).name: reason for reason, content in letters(engine)}
    assert reasons["text.parquet"].startswith("file cannot be read: its column t is of type string")
    assert reasons["a.parquet"].startswith("file cannot be read: ")
    with pytest.raises(RunError, match=r"(text|a).parquet cannot be read"):
        run(spark, tmp_path / "out2", "parquet", **source, on_bad_file="stop")


def test_generator_with_a_limit(spark: SparkSession, tmp_path: Path) -> None:
    query = "SELECT det_time FROM s WHERE phc < 100"
    engine = run(
        spark,
        tmp_path / "out",
        "generator",
        query,
        name="photons",
        rate=1_000_000,
        limit=30_000,
        time="det_time",
    )
    balanced(engine, 30_000)
    found = engine.results("q").column("det_time").to_pylist()
    assert found == sorted(found)
    assert 500 < len(found) < 1000


def test_rate(spark: SparkSession, tmp_path: Path) -> None:
    with Engine(spark, tmp_path / "out") as engine:
        engine.stream("s", "rate", rowsPerSecond=500, time="timestamp")
        asked = engine.subscribe("q", "SELECT value FROM s WHERE value >= 100")
        engine.start()
        until = time.monotonic() + 60
        while not len(asked.results()) and time.monotonic() < until:
            engine.check()
            time.sleep(0.2)
        engine.stop()
        found = engine.results("q").column("value").to_pylist()
        books = engine.deliveries.books("s")
    assert found == list(range(100, 100 + len(found)))
    assert books["rows_in"] == books["processed"] == 100 + len(found)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"format": "parquet", "path": "/nowhere/at/all"}, "nowhere"),
        ({"format": "kafka", "bootstrap": "127.0.0.1:1", "topic": "t"}, "needs a schema"),
        ({"format": "generator", "name": "protons"}, "no generator 'protons'"),
    ],
)
def test_sources_that_cannot_be(
    spark: SparkSession, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    with Engine(spark, tmp_path / "out") as engine, pytest.raises(JobError, match=said):
        engine.stream("s", **settings)
