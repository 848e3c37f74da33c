"""`anabranch explain`: equal conditions, containment, and the schema of a source without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.catalog.sync import bound
from anabranch.cli.sample import sample_of
from anabranch.cli.schema import columns_of
from anabranch.cli.sharing import groups_of, summary
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.stream import Stream
from anabranch.model.subscription import Subscription
from tests.catalog.jobs import GOOD, write_job
from tests.catalog.streams import photons
from tests.cli.conftest import Command

STREAMS = {"photons": photons()}


def grouped(*queries: str) -> list[tuple[int, str, list[str]]]:
    asked = [bound(Subscription(f"q{place}", query), STREAMS) for place, query in enumerate(queries)]
    return [(group.depth, group.shared, group.names) for group in groups_of(asked, STREAMS)]


def test_equal_conditions_are_one_whatever_their_text() -> None:
    query = "SELECT ra FROM photons WHERE {}"
    same = [query.format("en > 1 AND ra < 5"), query.format("5 > ra AND en > 1.0 AND en > 0")]
    ((_, shared, names),) = grouped(*same)
    assert names == ["q0", "q1"]
    assert "ra < 5.0" in shared
    # NOT is true where ra is missing, so this one is wider
    assert [names for _, _, names in grouped(same[0], query.format("NOT ra >= 5 AND en > 1"))] == [
        ["q1"],
        ["q0"],
    ]


def test_a_condition_hangs_below_the_tightest_that_contains_it() -> None:
    queries = [
        f"SELECT ra FROM photons WHERE {condition}" for condition in ("en > 3", "en > 1", "en > 2", "ra < 7")
    ]
    found = [
        (depth, names)
        for depth, _, names in grouped(*queries, "SELECT ra FROM photons WHERE en > 3 AND ra < 7")
    ]
    assert found[:4] == [(0, ["q1"]), (1, ["q2"]), (2, ["q0"]), (3, ["q4"])]
    assert found[4:] == [(0, ["q3"])]


def test_everything_contains_all() -> None:
    assert grouped("SELECT ra FROM photons", "SELECT ra FROM photons WHERE en > 3")[0] == (
        0,
        "every item",
        ["q0"],
    )


def test_other_kinds_are_grouped_by_coordinates_and_condition() -> None:
    near = "SELECT NEAREST 3 TO (1, 2) BY (ra, dec) FROM photons WINDOW RANGE {}"
    asked = [bound(Subscription(f"n{size}", near.format(size)), STREAMS) for size in (10, 20)]
    (group,) = groups_of(asked, STREAMS)
    assert (group.family, group.shared, group.names) == (
        "nearest",
        "by (ra, dec), every item",
        ["n10", "n20"],
    )
    assert summary([group]) == ["photons, nearest: 2 subscriptions in 1 group"]


def test_of_a_sink(anabranch: Command, sink: Path) -> None:
    done = anabranch("explain", sink)
    assert done.code == 0
    lines = done.out.splitlines()
    assert " ".join(lines[0].split()) == "stream family shared rows bytes CPU us asked by subscriptions"
    assert [line.split()[-1] for line in lines[1:3]] == ["all", "vela"]
    assert (
        "photons, filters: 2 subscriptions, 2 conditions: 1 looked at for every item, 1 only for what "
        "passes another"
    ) in lines
    assert lines[-1].startswith("photons: costs rest on defaults (a range lets a third of the items pass): ")


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
    assert 'us"]\n  g1 --- q1(["#60;b#62;"])' in diagram
    wrong = write_job(tmp_path, GOOD.replace("SELECT ra", "SELECT raa"))
    assert "subscription vela: unknown column 'raa'" in anabranch("explain", wrong).err


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
    columns = columns_of(StreamDeclaration("s", Source("parquet", {"path": str(tmp_path)})))
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
    with pytest.raises(JobError, match=r"stream s: .*a\.parquet cannot be read as parquet"):
        columns_of(StreamDeclaration("s", Source("parquet", {"path": str(tmp_path / "*.parquet")})))


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
    assert found["summary"][-1] == "photons: costs rest on 100 items of 1.parquet"
    # ra, dec and en of the first; en, ra and det_time of the second
    assert [round(group["bytes"]) for group in found["groups"]] == [980 * 32, 500 * 24]
    costs = {one["name"]: (one["cpu_alone_us"], one["cpu_shared_us"]) for one in found["subscriptions"]}
    assert costs["q0"] == costs["q1"]
    assert all(shared < alone for alone, shared in costs.values())
    # what all pay is what runs
    paid = sum(shared for _, shared in costs.values())
    assert paid == pytest.approx(sum(group["cpu_us"] for group in found["groups"]))


def test_windows_share_slices(anabranch: Command, tmp_path: Path) -> None:
    """An item is added to its slice once, whatever the number of windows."""
    queries = [f"SELECT avg(ra) FROM photons WINDOW RANGE {size} STEP 10" for size in (10, 20, 30, 40)]
    found = sampled(anabranch, tmp_path, *queries)
    costs = {one["name"]: (one["cpu_alone_us"], one["cpu_shared_us"]) for one in found["subscriptions"]}
    assert costs["q0"][1] < costs["q0"][0] / 2
    assert costs["q0"] < costs["q3"]  # more slices to compose


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

    assert why("kafka", topic="t") == "a kafka source is not read here"
    assert why("parquet", path="s3://bucket/x") == "its files are not on this machine"
    assert "there is no file yet" in why("parquet", path=str(tmp_path / "*.parquet"))
    (tmp_path / "a.csv").write_text("en\nx\n")
    assert "a.csv is not read here" in why("csv", path=str(tmp_path))
    assert why("csv", path=str(tmp_path), header="false") == "a.csv is not read here: it has no header"
