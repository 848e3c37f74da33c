"""`anabranch results` in every format."""

from __future__ import annotations

import csv
import io
import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow.parquet as pq

from tests.cli.conftest import Command
from tests.job.jobs import write_job


def test_json_in_order(anabranch: Command, sink: Path) -> None:
    done = anabranch("results", sink, "vela")
    assert (done.code, done.err) == (0, "")
    assert done.out == '{"ra": 120.5, "star": "\\"s\\", <0>"}\n{"ra": 122.5, "star": "\\"s\\", <2>"}\n'


def test_missing_is_null_and_a_limit_is_kept(anabranch: Command, sink: Path) -> None:
    done = anabranch("results", sink, "all", "--format", "json")
    assert [json.loads(line)["ra"] for line in done.out.splitlines()] == [120.5, None, 122.5]
    assert anabranch("results", sink, "all", "--limit", "2").out == "".join(done.out.splitlines(True)[:2])
    assert anabranch("results", sink, "all", "--limit", "0").out == ""


def test_by_the_job_file(anabranch: Command, sink: Path) -> None:
    job = write_job(sink.parent)
    assert anabranch("results", job, "vela").out == anabranch("results", sink, "vela").out


def test_csv(anabranch: Command, sink: Path) -> None:
    done = anabranch("results", sink, "vela", "--format", "csv")
    assert list(csv.reader(io.StringIO(done.out))) == [
        ["ra", "star"],
        ["120.5", '"s", <0>'],
        ["122.5", '"s", <2>'],
    ]
    assert anabranch("results", sink, "all", "--format", "csv").out.splitlines()[2] == "1.0,"


def test_xml(anabranch: Command, sink: Path) -> None:
    root = ET.fromstring(anabranch("results", sink, "vela", "--format", "xml").out)
    assert root.tag == "results"
    assert [row.tag for row in root] == ["row", "row"]
    assert [row.findtext("star") for row in root] == ['"s", <0>', '"s", <2>']
    missing = ET.fromstring(anabranch("results", sink, "all", "--format", "xml").out)[1]
    assert [element.tag for element in missing] == ["det_time"]


def test_parquet_needs_a_file(anabranch: Command, sink: Path, tmp_path: Path) -> None:
    refused = anabranch("results", sink, "vela", "--format", "parquet")
    assert (refused.code, refused.out) == (2, "")
    assert "add --output" in refused.err
    done = anabranch("results", sink, "vela", "--format", "parquet", "--output", tmp_path / "v.parquet")
    assert (done.code, done.out) == (0, "")
    assert pq.read_table(tmp_path / "v.parquet").column("ra").to_pylist() == [120.5, 122.5]


def test_into_a_file(anabranch: Command, sink: Path, tmp_path: Path) -> None:
    assert anabranch("results", sink, "vela", "--output", tmp_path / "v.jsonl").out == ""
    assert (tmp_path / "v.jsonl").read_text() == anabranch("results", sink, "vela").out
    assert not list(tmp_path.glob(".v*"))
    refused = anabranch("results", sink, "vela", "--output", tmp_path / "nowhere" / "v.jsonl")
    assert refused.code == 2
    assert "give a file in a folder that is there" in refused.err


def test_a_subscription_without_results(anabranch: Command, sink: Path) -> None:
    anabranch("subscribe", sink, "later", "SELECT ra, dec FROM photons")
    assert anabranch("results", sink, "later").out == ""
    assert anabranch("results", sink, "later", "--format", "csv").out == "ra,dec\n"
    assert len(ET.fromstring(anabranch("results", sink, "later", "--format", "xml").out)) == 0


def test_an_unknown_name(anabranch: Command, sink: Path) -> None:
    refused = anabranch("results", sink, "vella")
    assert (refused.code, refused.out) == (2, "")
    assert "unknown subscription 'vella'; did you mean 'vela'? There are: vela, all" in refused.err


def test_how_many_each_has(anabranch: Command, sink: Path) -> None:
    done = anabranch("results", sink)
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()] == [
        ["name", "stream", "kind", "state", "results"],
        ["vela", "photons", "select", "active", "2"],
        ["all", "photons", "select", "active", "3"],
    ]


def test_dead_letters(anabranch: Command, sink: Path) -> None:
    done = anabranch("results", sink, "--dead-letters")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"stream": "photons", "reason": "late", "content": '{"det_time": -1.0}'},
        {"stream": "photons", "reason": "malformed", "content": "x,y,z"},
    ]
    assert anabranch("results", sink, "photons", "--dead-letters").out == done.out
    refused = anabranch("results", sink, "photon", "--dead-letters")
    assert "unknown stream 'photon'; did you mean 'photons'?" in refused.err


def test_results_of_a_name_that_was_used_before_stay_apart(anabranch: Command, sink: Path) -> None:
    before = anabranch("results", sink, "vela").out
    anabranch("cancel", sink, "vela")
    assert anabranch("results", sink, "vela").out == before  # cancelled, its results stay
    anabranch("subscribe", sink, "vela", "SELECT dec FROM photons")
    assert anabranch("results", sink, "vela").out == ""
    assert "vela#3" in anabranch("results", sink).out


def test_not_a_sink(anabranch: Command, tmp_path: Path) -> None:
    assert anabranch("results", tmp_path, "vela").code == 2
    job = write_job(tmp_path)
    refused = anabranch("results", job, "vela")
    assert refused.code == 2
    assert "run the job once first" in refused.err


def test_a_damaged_catalog_is_a_failure_not_a_crash(anabranch: Command, sink: Path) -> None:
    shutil.rmtree(sink / "_anabranch")
    (sink / "_anabranch").mkdir()
    (sink / "_anabranch" / "catalog.sqlite").write_text("no database" * 100)
    failed = anabranch("results", sink, "vela")
    assert failed.code == 1
    assert "is not a catalog of ours" in failed.err
