"""`anabranch try`: what it prints, counts and refuses. The laws are in tests/job/test_trial.py."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Command

PHOTONS = "t,ra,en,name\n" + "".join(f"{n},{120 + n},{n / 4},p{n}\n" for n in range(12))


@pytest.fixture
def photons(tmp_path: Path) -> str:
    """Returns NAME=GLOB of twelve photons."""
    (tmp_path / "photons.csv").write_text(PHOTONS)
    return f"photons={tmp_path}/*.csv"


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_select(anabranch: Command, photons: str) -> None:
    done = anabranch("try", "SELECT ra, name FROM photons WHERE en >= 2.5", photons)
    assert (done.code, done.err) == (0, "")
    assert rows(done.out) == [{"ra": 130, "name": "p10"}, {"ra": 131, "name": "p11"}]


def test_forms(anabranch: Command, photons: str, tmp_path: Path) -> None:
    query = "SELECT ra FROM photons WHERE en >= 2.5"
    assert anabranch("try", query, photons, "--format", "csv").out == "ra\n130\n131\n"
    assert "<ra>131</ra>" in anabranch("try", query, photons, "--format", "xml").out
    assert anabranch("try", query, photons, "--limit", "1").out == '{"ra": 130}\n'
    assert anabranch("try", query, photons, "--format", "parquet").code == 2
    file = tmp_path / "out.parquet"
    assert anabranch("try", query, photons, "--format", "parquet", "--output", file).code == 0
    assert pq.read_table(file).to_pylist() == [{"ra": 130}, {"ra": 131}]


def test_windows_and_settings(anabranch: Command, photons: str) -> None:
    query = "SELECT count(*) AS n FROM photons WINDOW RANGE 6"
    done = anabranch("try", query, photons, "--time", "t")
    assert [(row["window_start"], row["n"]) for row in rows(done.out)] == [(0, 6), (6, 6)]
    assert anabranch("try", query, photons, "--set", "time=t").out == done.out
    assert anabranch("try", query, photons, "--set", "photons.time=t", "--set", "lateness=1").out == done.out
    near = "SELECT NEAREST 1 TO (125, 1) FROM photons WINDOW ROWS 3"
    found = anabranch("try", near, photons, "--set", "position=ra,en", "--set", "id=name", "--limit", "1")
    assert rows(found.out)[0]["id"] == "p0"


def test_wxquery(anabranch: Command, photons: str) -> None:
    query = (
        '<out>{ for $p in stream("photons")/photons/photon where $p/en > 2.6 '
        "return <hit>{ $p/ra }</hit> }</out>"
    )
    assert rows(anabranch("try", query, photons).out) == [{"ra": 131}]
    assert "<hit><ra>131</ra></hit>" in "".join(
        anabranch("try", query, photons, "--format", "xml").out.split()
    )


def test_several_streams(anabranch: Command, photons: str, tmp_path: Path) -> None:
    (tmp_path / "stars.json").write_text('{"star": "x", "at": 121}\n{"star": "y", "at": 131}\n')
    query = (
        'for $p in stream("photons")/photons/photon for $s in stream("stars")/list/entry '
        "where $p/ra = $s/at return <hit>{ $p/en }{ $s/star }</hit>"
    )
    done = anabranch("try", query, photons, f"stars={tmp_path / 'stars.json'}")
    assert done.code == 0, done.err
    assert [(row["p.en"], row["s.star"]) for row in rows(done.out)] == [(0.25, "x"), (2.75, "y")]


def test_standard_input(anabranch: Command, photons: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT ra FROM photons\nWHERE en > 2.6\n"))
    assert rows(anabranch("try", "-", photons).out) == [{"ra": 131}]


def test_dead_letters_are_counted(anabranch: Command, tmp_path: Path) -> None:
    lines = ["1,a", "2,b", ",c", "x,d", "1,late", "3", "4,e"]
    (tmp_path / "s.csv").write_text("t,v\n" + "\n".join(lines) + "\n")
    settings = ("--time", "t", "--set", "schema=t long, v string")
    done = anabranch("try", "SELECT v FROM s", f"s={tmp_path / 's.csv'}", *settings)
    assert [row["v"] for row in rows(done.out)] == ["a", "b", "e"]
    assert "s: 7 rows in = 3 processed + 1 late + 3 rejected" in done.err
    no_time = "no time: column 't' is missing or not finite"
    assert f"1 late, 1 malformed, 1 {no_time}, 1 t: not a number" in done.err


def test_a_query_that_is_suspended(anabranch: Command, tmp_path: Path) -> None:
    (tmp_path / "photons.csv").write_text("t\n" + "".join(f"{n * 20_000}\n" for n in range(200)))
    done = anabranch(
        "try",
        "SELECT count(*) AS n FROM photons WINDOW RANGE 10000 STEP 1",
        f"photons={tmp_path}/*.csv",
        "--time",
        "t",
    )
    assert done.code == 1
    assert "the query was suspended at item 0 of stream photons: it would give 1,9" in done.err
    assert "windows for 200 items (limits: batch_work 1,000,000, item_work 100)" in done.err


def test_missing_values_in_csv(anabranch: Command, tmp_path: Path) -> None:
    """In numbers, booleans and timestamps; a text is what it says."""
    texts = ["1.5,NA,true", "na,x,N/A", "null,,NaN", " ,NaN,false", "NaN,null,TRUE"]
    (tmp_path / "s.csv").write_text("v,s,ok\n" + "\n".join(texts) + "\n")
    found = rows(anabranch("try", "SELECT * FROM s", f"s={tmp_path / 's.csv'}").out)
    assert [row["v"] for row in found] == [1.5, None, None, None, None]
    assert [row["s"] for row in found] == ["NA", "x", None, "NaN", "null"]
    assert [row["ok"] for row in found] == [True, None, None, False, True]
    own = anabranch("try", "SELECT v FROM s", f"s={tmp_path / 's.csv'}", "--set", 'missing=["-"]')
    assert rows(own.out)[1] == {"v": "na"}  # numbers are then too few for a column of numbers


def test_files_in_order_of_modification(anabranch: Command, tmp_path: Path) -> None:
    for number, name in enumerate(("c", "a", "b")):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"t": [number], "name": [name]}), path)
        os.utime(path, (1_700_000_000, 1_700_000_000 + number / 100))
    done = anabranch("try", "SELECT name FROM s", f"s={tmp_path}", "--time", "t")
    assert [row["name"] for row in rows(done.out)] == ["c", "a", "b"]
    assert done.err == ""


def test_explain_beside_the_results(anabranch: Command, photons: str) -> None:
    done = anabranch("try", "SELECT ra FROM photons WHERE en > 2.6", photons, "--explain")
    assert rows(done.out) == [{"ra": 131}]
    assert "en > 2.6" in done.err
    assert "are estimated from 12 items of photons.csv" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SELECT raa FROM photons"], "unknown column 'raa' in stream photons; did you mean 'ra'?"),
        (["SELECT ra FROM photon"], "unknown stream 'photon'"),
        (["SELECT"], "SELECT"),
        (["SELECT ra FROM photons", "--time", "tt"], "time = 'tt' is not one of its columns"),
        (
            ["SELECT ra FROM photons", "--set", "latenes=1"],
            "unknown setting 'latenes'; did you mean 'lateness'?",
        ),
        (["SELECT ra FROM photons", "--set", "lateness=-1"], "it must be a number >= 0"),
        (["SELECT ra FROM photons", "--set", "lateness"], "'lateness' is not of the form --set KEY=VALUE"),
        (["SELECT ra FROM photons", "--set", "format=avro"], "it must be one of parquet, json, csv, xml"),
        (["SELECT ra FROM photons", "--format", "yaml"], "yaml"),
        (["SELECT count(*) FROM photons WINDOW RANGE 5"], "time"),
    ],
)
def test_refuses(anabranch: Command, photons: str, arguments: list[str], said: str) -> None:
    query, *rest = arguments
    refused = anabranch("try", query, photons, *rest)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_refuses_files(anabranch: Command, tmp_path: Path) -> None:
    def refused(files: str) -> str:
        done = anabranch("try", "SELECT * FROM s", files)
        assert (done.code, done.out) == (2, "")
        return done.err

    assert f"nothing matches {tmp_path}/*.csv" in refused(f"s={tmp_path}/*.csv")
    assert f"there is no {tmp_path}/x.csv" in refused(f"s={tmp_path}/x.csv")
    assert "is not of the form NAME=GLOB" in refused(str(tmp_path))
    (tmp_path / "a.avro").write_text("?")
    assert "the format of a.avro cannot be seen from its name" in refused(f"s={tmp_path}/a.avro")
    (tmp_path / "b.parquet").write_text("?")
    assert "b.parquet cannot be read" in refused(f"s={tmp_path}/b.parquet")
