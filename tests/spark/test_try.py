"""`try` prints what `run --once` and `results` give on the same files, and finds the same columns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.cli.main import status
from anabranch.job.source_files import SourceFiles
from anabranch.model.job import Source, StreamDeclaration
from anabranch.spark.sources import infer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: name -> (query, whether the order of its rows is fixed)
QUERIES = {
    "select": ("SELECT * FROM points WHERE x > 0.7 OR label = 'b'", True),
    "aggregate": ("SELECT avg(x) AS mean FROM points WHERE y > 0.2 WINDOW RANGE 60 STEP 20", True),
    "nearest": ("SELECT NEAREST 3 TO (0.5, 0.5) FROM points WINDOW RANGE 50", False),
    "clusters": ("SELECT CLUSTERS WITHIN 0.1 MIN 3 FROM points WINDOW ROWS 100 STEP 50", False),
    "moving": ("SELECT OBJECTS WITHIN 0.2 OF OBJECT 'o1' FROM points", False),
}

JOB = """
[stream.points]
source = { format = "parquet", path = "points/*.parquet" }
time = "t"
lateness = 2
position = ["x", "y"]
object = "object"
bounds = [[0, 1], [0, 1]]

[sink]
format = "parquet"
path = "out"

[engine]
zones = 1
"""
SETTINGS = ("time=t", "lateness=2", "position=x,y", "object=object", "bounds=[[0, 1], [0, 1]]")


def write_points(folder: Path) -> None:
    """Writes three files. Their order is that of modification, within one second; some rows come late."""
    random = np.random.default_rng(5)
    count = 300
    table = pa.table(
        {
            "t": np.sort(random.integers(0, 300, count)) - random.integers(0, 4, count),
            "x": pa.array(random.random(count), mask=random.random(count) < 0.05),
            "y": random.random(count).astype(np.float32),
            "object": [f"o{n}" for n in random.integers(0, 9, count)],
            "label": pa.array(random.choice(["a", "b"], count)).dictionary_encode(),
            "nested": pa.array([{"n": n, "list": [n]} for n in range(count)]),
        }
    )
    (folder / "points").mkdir()
    for number, name in enumerate("cab"):
        path = folder / "points" / f"{name}.parquet"
        pq.write_table(table.slice(number * 100, 100), path)
        os.utime(path, (1_700_000_000, 1_700_000_000 + number / 100))


@pytest.mark.usefixtures("spark")
def test_as_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_points(tmp_path)
    subscriptions = "".join(
        f'[[subscription]]\nname = "{name}"\nquery = "{query}"\n' for name, (query, _) in QUERIES.items()
    )
    (tmp_path / "job.toml").write_text(JOB + subscriptions)
    assert status(["run", str(tmp_path / "job.toml"), "--once", "--quiet"]) == 0, capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert status(["results", "out", "--dead-letters"]) == 0
    late = len(capsys.readouterr().out.splitlines())
    assert late > 0
    for name, (query, ordered) in QUERIES.items():
        assert status(["results", "out", name]) == 0
        expected = capsys.readouterr().out.splitlines()
        options = [word for setting in SETTINGS for word in ("--set", setting)]
        assert status(["try", query, "points=points/*.parquet", *options]) == 0
        out, said = capsys.readouterr()
        found = out.splitlines()
        assert expected, name
        assert (found if ordered else sorted(found)) == (expected if ordered else sorted(expected)), name
        assert f"{late} late" in said, name


def write_texts(folder: Path) -> None:
    rows = [f"{n},{n / 4},2026-01-{n % 28 + 1:02d},{n % 3 == 0},w{n}, {n},NaN" for n in range(40)]
    rows[7], rows[9], rows[20] = "7,x,2026-01-01,true,?,,1", "9,,,,,,", "20,5"
    rows += ["NA,NaN,N/A,NaN,NA,na,null", "NaN,null,NaN,NA,NA,NaN,null"] * 15
    (folder / "a.csv").write_text("t,v,day,ok,word,,t\n" + "\n".join(rows) + "\n")
    lines = [{"t": f"2026-01-01T00:00:{n:02d}Z", "z": n, "a": {"c": n / 2, "b": [n]}} for n in range(20)]
    lines[3]["z"], lines[5]["t"], lines[6]["a"], lines[7]["z"] = "many", "yesterday", None, 10**20
    (folder / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{not json\n")
    items = "".join(
        f'<item id="{n}"><v> {n}.5 </v><w u="m">x{n}</w><e/><l>1</l><l>2</l></item>' for n in range(5)
    )
    (folder / "a.xml").write_text(f"<items>{items}<item><v>1</v><w>y</w></item></items>")


@pytest.mark.parametrize("form", ["csv", "json", "xml"])
def test_columns_of_text_files(spark: SparkSession, tmp_path: Path, form: str) -> None:
    write_texts(tmp_path)
    source = Source(form, {"path": str(tmp_path / f"a.{form}")})
    declaration = StreamDeclaration("s", source, {"time": "t"} if form == "json" else {})
    assert SourceFiles(declaration).columns() == infer(spark, declaration)[1]
