"""`anabranch explain`: of a job and of a sink, as a table, JSON and a diagram; costs follow a sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest, Manifests
from tests.cli.conftest import Command
from tests.job.jobs import GOOD, write_job


def test_of_a_sink(anabranch: Command, sink: Path) -> None:
    done = anabranch("explain", sink)
    assert done.code == 0
    lines = done.out.splitlines()
    assert " ".join(lines[0].split()) == "stream family shared rows bytes subscriptions names"
    assert [line.split()[-1] for line in lines[1:3]] == ["all", "vela"]
    assert (
        "photons, filters: 2 subscriptions, 2 conditions: 1 tested on every item, 1 only on what "
        "passes another"
    ) in lines
    assert lines[1].split()[2:6] == ["every", "item", "-", "-"]  # nothing is invented
    assert lines[-1].startswith("photons: how many items pass a condition is not known: ")


def test_of_a_job_that_has_not_run(anabranch: Command, tmp_path: Path) -> None:
    (tmp_path / "photons").mkdir()
    columns = {"det_time": [1.0], "ra": [1.0], "dec": [1.0], "en": [2.0]}
    pq.write_table(pa.table(columns), tmp_path / "photons" / "1.parquet")
    job = write_job(
        tmp_path, GOOD + '[[subscription]]\nname = "<b>"\nquery = "SELECT ra FROM photons WHERE en > 2"\n'
    )
    found = json.loads(anabranch("explain", job, "--format", "json").out)
    assert [(group["parent"], group["subscriptions"]) for group in found["groups"]] == [
        (None, [{"name": "vela", "kind": "select"}]),
        (0, [{"name": "<b>", "kind": "select"}]),
    ]
    diagram = anabranch("explain", job, "--format", "mermaid").out
    assert diagram.startswith('flowchart TD\n  s0[("photons")]\n  s0 --> g0["en #62; 1.3<br/>1,000 rows, ')
    assert 'bytes"]\n  g1 --- q1(["#60;b#62;"])' in diagram
    wrong = write_job(tmp_path, GOOD.replace("SELECT ra", "SELECT raa"))
    assert "subscription vela: unknown column 'raa'" in anabranch("explain", wrong).err


def test_messages_of_a_job_that_has_run(anabranch: Command, sink: Path) -> None:
    """Notes of all batches and zones are summed up, by stream, family and the papers' names."""
    manifests = Manifests(Layout(sink))
    for batch, count in ((2, 3), (3, 4)):
        notes = [{"family": "nearest", "zone": zone, "messages": {"merger update": count}} for zone in (0, 1)]
        notes.append({"family": "moving", "messages": {"focal update": 1, "query drop": 0}})
        manifests.commit("photons", Manifest(batch, notes=[*notes, {"family": "moving", "split": {}}]))
    expected = {"nearest": {"merger update": 14}, "moving": {"focal update": 2, "query drop": 0}}
    for target in (sink, write_job(sink.parent, GOOD)):
        found = json.loads(anabranch("explain", target, "--format", "json").out)
        assert found["messages"] == {"photons": expected}


def test_of_a_job_that_has_run(anabranch: Command, sink: Path) -> None:
    """The catalog knows the columns, who was cancelled, and who came later."""
    text = GOOD.replace(
        "SELECT ra, dec, en FROM photons WHERE en > 1.3",
        "SELECT ra, name AS star FROM photons WHERE en > 1.3",
    )
    job = write_job(sink.parent, text)
    anabranch("cancel", sink, "vela")
    anabranch("subscribe", sink, "more", "SELECT ra FROM photons WHERE en > 5")
    found = json.loads(anabranch("explain", job, "--format", "json").out)
    assert [one["name"] for group in found["groups"] for one in group["subscriptions"]] == ["all", "more"]


def sampled(anabranch: Command, folder: Path, *queries: str) -> dict[str, Any]:
    """What `explain` says about these queries on 100 photons with en = 0 .. 99."""
    (folder / "photons").mkdir()
    columns = {name: [float(n) for n in range(100)] for name in ("det_time", "ra", "dec", "en")}
    pq.write_table(pa.table(columns), folder / "photons" / "1.parquet")
    more = "".join(
        f'[[subscription]]\nname = "q{place}"\nquery = "{query}"\n' for place, query in enumerate(queries)
    )
    found: dict[str, Any] = json.loads(
        anabranch("explain", write_job(folder, GOOD + more), "--format", "json").out
    )
    return found


def test_costs_follow_the_sample(anabranch: Command, tmp_path: Path) -> None:
    """vela asks en > 1.3: 98 of 100."""
    half = "SELECT en FROM photons WHERE en >= 50"
    windows = "SELECT avg(ra) FROM photons WHERE en >= 50 WINDOW RANGE 10"
    found = sampled(anabranch, tmp_path, half, half, windows)
    assert [round(group["rows"]) for group in found["groups"]] == [980, 500]
    assert found["summary"][-1] == (
        "photons: rows and bytes for 1,000 items are estimated from 100 items of 1.parquet"
    )
    # ra, dec and en of the first; en, ra and det_time of the second
    assert [round(group["bytes"]) for group in found["groups"]] == [980 * 32, 500 * 24]


def test_what_a_job_measured(anabranch: Command, sink: Path) -> None:
    """Of the stages of all families, summed over zones and batches; nothing before the job has run."""
    assert json.loads(anabranch("explain", sink, "--format", "json").out)["measured"] == []
    manifests = Manifests(Layout(sink))
    for batch in (2, 3):
        work = [["", "order", 10, 80, 10, 5], ["nearest", "home", 10, 80, 4, 7]]
        notes = [{"family": "", "work": work}, {"family": "", "work": [["nearest", "home", 1, 8, 0, 2]]}]
        manifests.commit("photons", Manifest(batch, notes=notes))
    found = json.loads(anabranch("explain", sink, "--format", "json").out)
    numbers = ("family", "stage", "rows_in", "bytes_in", "rows_out", "cpu_us")
    assert [tuple(one[key] for key in numbers) for one in found["measured"]] == [
        ("", "order", 20, 160, 20, 10),
        ("nearest", "home", 22, 176, 8, 18),
    ]
    done = anabranch("explain", sink).out
    assert "photons: rows, bytes and CPU of stages were measured over 2 batches" in done
    assert "nearest home" in " ".join(done.split())
