"""What PLACE* promises beyond right answers: who is told what how often, and who is waited for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.chain.items import arrow_schema
from anabranch.chain.packets import Packet
from anabranch.chain.runner import Runner
from anabranch.families.moving import servers
from anabranch.families.moving.object_home import ObjectHome
from anabranch.families.moving.spec import Circle, KNearest, Moving
from anabranch.families.registry import family
from anabranch.job.declarations import declare
from anabranch.job.job_file import load_job
from anabranch.language.bind import compile_query
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate
from tests.families.moving.runs import PLANE, crowd, rows_of
from tests.laws.case import Asked, Case, run_local
from tests.oracles.moving import moving_oracle

WHOLE = replace(PLANE, tick=1)

JOB = """
[stream.flights]
source = { format = "parquet", path = "flights.parquet" }
time = "t"
object = "icao"
position = ["lon", "lat"]
metric = "haversine"
unit = "miles"
tick = 5
expire = 20
regions = [[-10, 40, 3, 60], [1, 40, 20, 60]]

[[subscription]]
name = "near"
query = "SELECT OBJECTS WITHIN 30 OF OBJECT 'f' FROM flights WHERE alt > 1000 FOR OBJECT 'i'"

[[subscription]]
name = "one"
query = "SELECT NEAREST 1 OBJECTS TO OBJECT 'f' FROM flights"

[sink]
format = "parquet"
path = "out"
"""
COLUMNS = (
    Column("t", ColumnType.INT),
    Column("icao", ColumnType.STRING),
    Column("lon", ColumnType.FLOAT),
    Column("lat", ColumnType.FLOAT),
    Column("alt", ColumnType.FLOAT),
)


def test_a_job_over_a_globe_with_overlapping_regions(tmp_path: Path) -> None:
    """Half a degree of latitude is 34.5 miles, 0.4 degrees are 27.6.

    time        0      5     10     ...    35
    f (2, 48)   *                          *     unknown until 7, silent from 7 on: gone after 27
    a           *      *     *  ...        *     0.4 degrees to the north
    """
    (tmp_path / "job.toml").write_text(JOB)
    job = load_job(tmp_path / "job.toml")
    stream = declare(job.streams["flights"], COLUMNS)
    rows = [(t, "a", 2.0, 48.4, 5000.0) for t in range(0, 41, 5)]
    rows += [(t, "b", 2.0, 48.5, 5000.0) for t in range(0, 41, 5)]
    rows += [(7, "f", 2.0, 48.0, 3000.0), (35, "f", 2.0, 48.05, 3000.0)]
    data = dict(zip([c.name for c in COLUMNS], zip(*sorted(rows), strict=True), strict=True))
    items = pa.record_batch(data, schema=arrow_schema(stream))
    queries = tuple(
        Asked(asked.name, compile_query(asked.query, {"flights": stream}).spec.to_json())
        for asked in job.subscriptions
    )
    case = Case(stream, items, queries, "moving")
    found = run_local(case, cuts=(5, 9), zones=2, stops=(1,)).results
    assert found == moving_oracle(case)
    near = [(row["at"], row["op"], row["object"], row["distance"]) for row in found["near"]]
    assert [row[:3] for row in near] == [(10, "+", "a"), (30, "-", "a"), (35, "+", "a")]
    assert near[0][3] == pytest.approx(27.64, abs=0.01)
    assert near[1][3] is None  # how a query says that its focal object is gone
    assert near[2][3] == pytest.approx(24.18, abs=0.01)
    # it holds one object, except where the focal object is gone
    assert [row["complete"] for row in found["one"]] == [row["distance"] is not None for row in found["one"]]


def _sent(monkeypatch: pytest.MonkeyPatch, case: Case, zones: int) -> list[Packet]:
    """What the home zones send while a case runs."""
    seen: list[Packet] = []
    step = ObjectHome.step

    def kept(*arguments: Any) -> list[Packet]:
        out = step(*arguments)
        seen.extend(out)
        return out

    with monkeypatch.context() as patched:
        patched.setattr(ObjectHome, "step", kept)
        run_local(case, zones=zones)
    return seen


@pytest.mark.parametrize("followers", [1, 40])
def test_a_focal_object_is_forwarded_once_a_server(monkeypatch: pytest.MonkeyPatch, followers: int) -> None:
    """f crosses from the left third to the right third; every range touches one or two servers a report."""
    rows = [(float(t), "f", float(t), 5.0) for t in range(10)] + [(9.0, "o", 5.0, 5.0)]
    queries = tuple(Asked(f"q{n}", Moving(Circle(1 + n / 100), "f").to_json()) for n in range(followers))
    case = Case(WHOLE, rows_of(WHOLE, rows), queries, "moving")
    sent = _sent(monkeypatch, case, 9)
    told = [
        (packet.zone, tick, who)
        for packet in servers.of_kind(sent, servers.FOCAL_UPDATES)
        for tick, who in zip(*(packet.rows.column(name).to_pylist() for name in ("tick", "who")), strict=True)
    ]
    assert len(told) == len(set(told))
    assert 10 <= len(told) <= 20
    requests = sum(packet.rows.num_rows for packet in servers.of_kind(sent, servers.REQUESTS))
    assert requests >= 10 * followers


def test_an_unknown_focal_object_is_waited_for() -> None:
    rows = [(float(t), f"o{t % 3}", 1.0 + t % 3, 1.0) for t in range(8)]
    rows += [(8.0, "f", 1.0, 1.0), (9.0, "o1", 9.0, 9.0)]
    asked = {
        "near": Moving(Circle(1), "f"),
        "two": Moving(KNearest(2), "f"),
        "n": Moving(Circle(1), "f", value="count"),
        "x": Moving(Circle(1), "f", value="max(x)"),
    }
    queries = tuple(Asked(name, spec.to_json()) for name, spec in asked.items())
    case = Case(WHOLE, rows_of(WHOLE, rows), queries, "moving")
    found = run_local(case, cuts=(4, 7), zones=4).results
    assert found == moving_oracle(case)
    assert {row["at"] for row in found["near"]} == {8.0, 9.0}
    assert [(row["at"], row["value"]) for row in found["n"]] == [(8.0, 2), (9.0, 1)]


def _assemblers(runner: Runner) -> list[int]:
    """The zones that have an assembler."""
    tables = {zone: state.get("querying") for (_, stage, zone), state in runner.states.items() if stage == 3}
    where = {zone: table["zone"].tolist() for zone, table in tables.items() if table is not None}
    assert len({tuple(zones) for zones in where.values()}) == 1  # all of them agree
    return next(iter(where.values()))


def test_handoff_in_both_phases_and_its_messages() -> None:
    """Four servers, 0 and 1 below, 2 and 3 above; f is at 0, its query's issuer at 1. Then, one per tick:

    f reports at 0             focal update 0 -> 1, query update 1 -> 0
    a reports, in range at 0   local result 0 -> 1
    i goes to 3                assembler shipping 1 -> 3
    f goes to 2                forwarding request shipping 0 -> 2, focal update 2 -> 3,
                               query registration 3 -> 2, query drop 3 -> 0, local result 0 -> 3
    b reports, in range at 2   local result 2 -> 3
    """
    stream = replace(WHOLE, bounds=((0, 10), (0, 10)), regions=(2, 2))
    runner = Runner(stream, family("moving"), 4)
    spec = Moving(Circle(1), "f", issuer="i").to_json()
    rows = [
        *((0.0, "f", 2.0, 2.0), (0.0, "i", 8.0, 2.0)),
        *((1.0, "f", 2.0, 2.0), (2.0, "a", 2.5, 2.0), (3.0, "i", 8.0, 8.0), (4.0, "f", 2.0, 8.0)),
        *((5.0, "b", 2.5, 8.0), (6.0, "z", 9.0, 9.0), (7.0, "z", 9.0, 9.0)),
    ]
    sent, where = [], []
    for number, row in enumerate(rows):
        before = len(runner.notes)
        runner.batch(rows_of(stream, [row]), [Activate(0, "q", spec)] if number == 0 else ())
        notes = [note["messages"] for note in runner.notes[before:] if "messages" in note]
        sent.append(sum(map(Counter, notes), Counter()))
        where.append(_assemblers(runner) if number > 2 else None)
    assert [dict(counts) for counts in sent[3:]] == [
        {"focal update": 1, "query update": 1},
        {"local result": 1},
        {"assembler shipping": 1},
        {
            "forwarding request shipping": 1,
            "focal update": 1,
            "query registration": 1,
            "query drop": 1,
            "local result": 1,
        },
        {"local result": 1},
        {},
    ]
    assert where[3:] == [[1], [1], [3], [3], [3], [3]]
    found = [
        (row["at"], row["op"], row["object"])
        for batch in runner.tables["moving"].values()
        for part in batch
        for row in part.to_pylist()
    ]
    assert found == [(2.0, "+", "a"), (4.0, "-", "a"), (5.0, "+", "b")]


def _messages(case: Case, zones: int) -> Counter[str]:
    runner = Runner(case.stream, family("moving"), zones)
    for first in range(0, case.items.num_rows, 100):
        runner.batch(case.items.slice(first, 100), case.controls() if first == 0 else ())
    return sum((Counter(note["messages"]) for note in runner.notes if "messages" in note), Counter())


def test_messages_are_counted_between_regions_whatever_zones_they_are_folded_into() -> None:
    case = crowd(2, PLANE, reports=600)
    specs = [asked.spec | {"issuer": f"object-{number % 7}"} for number, asked in enumerate(case.queries)]
    asked = tuple(replace(one, spec=spec) for one, spec in zip(case.queries, specs, strict=True))
    one, four = (_messages(replace(case, queries=asked), zones) for zones in (1, 4))
    # an object that crosses into another zone is told by both of its servers
    assert 0 < one.pop("local result") <= four.pop("local result")
    assert one == four
    assert set(one) == {
        *("focal update", "query registration", "query update", "query drop"),
        *("forwarding request shipping", "assembler shipping"),
    }


def test_one_region_sends_no_messages() -> None:
    assert not _messages(replace(crowd(2, PLANE, reports=300), stream=replace(PLANE, regions=(1, 1))), 3)
