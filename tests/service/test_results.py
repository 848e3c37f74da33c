"""Results by page and live; the cursor of a reader; metrics."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.results.pages import Cursor, PageReader
from anabranch.service.events import events
from anabranch.service.job_service import JobService
from anabranch.service.routes import ARROW, MORE, NEXT
from anabranch.spark.measures import Measure
from tests.cli.sinks import deliver

ALL = [{"det_time": 0.0, "ra": 120.5}, {"det_time": 1.0, "ra": None}, {"det_time": 2.0, "ra": 122.5}]


def read(http: httpx.Client, name: str, limit: int) -> Iterator[list[dict[str, object]]]:
    after, more = "", True
    while more:
        page = http.get(f"/api/results/{name}", params={"after": after, "limit": limit}).json()
        yield page["rows"]
        after, more = page["next"], page["more"]


def test_pages(http: httpx.Client) -> None:
    assert http.get("/api/results/vela").json() == {
        "rows": [{"ra": 120.5, "star": '"s", <0>'}, {"ra": 122.5, "star": '"s", <2>'}],
        "next": "2:0",
        "more": False,
        "kept_from": None,
    }
    assert [row for page in read(http, "all", 1) for row in page] == ALL
    assert list(read(http, "all", 2)) == [ALL[:2], ALL[2:]]


def test_a_page_goes_on_with_what_came_since(http: httpx.Client, layout: Layout) -> None:
    page = http.get("/api/results/all").json()
    deliver(layout, 2, [3], [["all"]], dead=[("late", "x")])
    more = http.get("/api/results/all", params={"after": page["next"]}).json()
    assert (more["rows"], more["next"], more["more"]) == ([{"det_time": 3.0, "ra": 123.5}], "3:0", False)


def test_arrow(http: httpx.Client) -> None:
    answer = http.get("/api/results/all", params={"limit": 2}, headers={"accept": ARROW})
    assert (answer.headers[NEXT], answer.headers[MORE]) == ("1:0", "true")
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pylist() == ALL[:2]
    assert table.schema.types == [pa.float64(), pa.float64()]


def test_dead_letters(http: httpx.Client) -> None:
    first = http.get("/api/dead-letters/photons", params={"limit": 1}).json()
    assert first == {
        "rows": [{"reason": "late", "content": '{"det_time": -1.0}'}],
        "next": "1:0",
        "more": True,
    }
    rest = http.get("/api/dead-letters/photons", params={"after": first["next"]}).json()
    assert rest["rows"] == [{"reason": "malformed", "content": "x,y,z"}]


@given(
    st.lists(st.integers(0, 4), max_size=6),
    st.lists(st.integers(1, 5), min_size=1, max_size=30),
)
def test_pages_of_any_size_give_every_row_once(sizes: list[int], limits: list[int]) -> None:
    """The oracle: all rows one after the other."""
    batches = [pa.table({"v": [f"{b}.{n}" for n in range(size)]}) for b, size in enumerate(sizes)]
    schema = pa.schema([("v", pa.string())])
    batches = [batch.cast(schema) for batch in batches]
    reader = PageReader(schema, lambda: len(batches) - 1, lambda batch: batches[batch], lambda: False)
    wanted = [value for batch in batches for value in batch.column(0).to_pylist()]
    got: list[str] = []
    cursor, page = Cursor(), None
    for limit in limits * 30:
        page = reader.page(cursor, limit)
        assert page.table.num_rows <= limit
        got += page.table.column(0).to_pylist()
        cursor = Cursor.read(str(page.next))
        if not page.more:
            break
    assert page is not None
    assert got == wanted
    assert cursor == Cursor(len(batches))


# --- live ---


def heard(lines: Iterator[str], count: int) -> list[tuple[str, object]]:
    """(id, row) of so many events."""
    out, id = [], ""
    for line in lines:
        if line.startswith("id: "):
            id = line[4:]
        elif line.startswith("data: "):
            out.append((id, json.loads(line[6:])))
            if len(out) == count:
                return out
    return out


def test_live(http: httpx.Client, layout: Layout) -> None:
    """What is there already, and what comes while somebody listens."""
    with http.stream("GET", "/api/events/all") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        before = heard(lines, 3)
        assert before == [("0:1", ALL[0]), ("0:2", ALL[1]), ("1:1", ALL[2])]
        deliver(layout, 2, [3, 4], [["all"], ["vela"]], dead=[("late", "x")])
        assert heard(lines, 1) == [("2:1", {"det_time": 3.0, "ra": 123.5})]


@pytest.mark.parametrize(("last", "rest"), [("0:1", ALL[1:]), ("0:2", ALL[2:]), ("", ALL)])
def test_resume_from_the_last_event(
    http: httpx.Client, layout: Layout, last: str, rest: list[dict[str, object]]
) -> None:
    end(layout)
    with http.stream("GET", "/api/events/all", headers={"Last-Event-ID": last}) as answer:
        found = heard(answer.iter_lines(), 100)  # the server ends it
    assert [row for _, row in found] == [*rest, {}]


def end(layout: Layout) -> None:
    deliveries = Deliveries(layout)
    manifest = deliveries.manifest("photons", 1)
    assert manifest is not None
    manifest.books["ended"] = True
    deliveries.commit("photons", manifest)


def test_a_listener_that_is_cut_off_again_and_again_misses_nothing(
    http: httpx.Client, layout: Layout, tmp_path: Path
) -> None:
    """Batches come while it listens to one event a connection."""
    wanted = [{"det_time": float(n), "ra": 120.5 + n if n != 1 else None} for n in range(23)]

    def come() -> None:
        for batch in range(2, 12):
            numbers = [batch * 2 - 1, batch * 2]
            deliver(layout, batch, numbers, [["all"], ["all"]], dead=[("late", "x")])
            time.sleep(0.02)

    source = threading.Thread(target=come)
    source.start()
    found: list[object] = []
    last = ""
    while len(found) < 23:
        with http.stream("GET", "/api/events/all", headers={"Last-Event-ID": last}) as answer:
            some = heard(answer.iter_lines(), min(1 + len(found) % 3, 23 - len(found)))
        found += [row for _, row in some]
        last = some[-1][0]
    source.join()
    assert found == wanted


# --- metrics ---


def test_metrics(http: httpx.Client, layout: Layout) -> None:
    def values() -> dict[str, str]:
        lines = http.get("/metrics").text.splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    labels = '{stream="photons"}'
    first = values()
    assert first[f"anabranch_rows_in_total{labels}"] == "6"
    assert first[f"anabranch_items_total{labels}"] == "3"
    assert first[f"anabranch_late_total{labels}"] == "1"
    assert first[f"anabranch_rejected_total{labels}"] == "1"
    assert first[f"anabranch_batches_total{labels}"] == "2"
    assert float(first[f"anabranch_batch_age_seconds{labels}"]) < 60
    assert first['anabranch_subscriptions{stream="photons",kind="select"}'] == "2"
    assert first['anabranch_results_total{stream="photons",kind="select",subscription="all"}'] == "0"
    http.post("/api/subscriptions", json={"name": 'q"\\', "query": "SELECT ra FROM photons"})
    deliver(layout, 2, [3], [["all"]], dead=[("late", "x")])
    second = values()
    assert second['anabranch_results_total{stream="photons",kind="select",subscription="all"}'] == "1"
    assert second['anabranch_results_total{stream="photons",kind="select",subscription="q\\"\\\\"}'] == "0"


def test_metrics_read_no_results_from_before_the_start(http: httpx.Client, layout: Layout) -> None:
    """However long the job has been running. Subscriptions that ended long ago have no series."""
    shutil.rmtree(layout.results("photons", "select"))  # whoever reads one of these fails
    http.post("/api/subscriptions", json={"name": "short", "query": "SELECT ra FROM photons"})
    for name in ("vela", "short"):
        http.delete(f"/api/subscriptions/{name}")
    with sqlite3.connect(layout.catalog) as database:
        database.execute("UPDATE subscriptions SET cancelled = '2020-01-01' WHERE name = 'vela'")
    deliver(layout, 2, [20, 21], [["all"], ["all", "short"]], dead=[("late", "{}")])
    counted = [line for line in http.get("/metrics").text.splitlines() if "results_total{" in line]
    assert [line.partition("subscription=")[2] for line in counted] == ['"all"} 2', '"short"} 1']


def test_all_results_are_counted_where_a_list_asks_for_it(http: httpx.Client, layout: Layout) -> None:

    def counts() -> list[int | None]:
        page = http.get("/api/subscriptions", params={"counts": True}).json()
        return [each["results"] for each in page["subscriptions"]]

    assert counts() == [2, 3]  # those from before the start, too
    deliver(layout, 2, [20, 21], [["all"], ["all"]], dead=[("late", "{}")])
    assert counts() == [2, 5]


def test_metrics_of_a_family_that_is_set_apart(http: httpx.Client, service: JobService) -> None:
    service.deliveries.commit("photons.clusters", Manifest(0, books={"processed": 2}))
    service.measured = lambda: [Measure(name, 0, 0.5, 1024, None) for name in ("photons", "photons.clusters")]
    text = http.get("/metrics").text
    assert 'anabranch_items_total{stream="photons"} 3\n' in text
    assert 'anabranch_items_total{stream="photons",family="clusters"} 2\n' in text
    assert 'anabranch_batch_seconds{stream="photons"} 0.5\n' in text
    assert 'anabranch_batch_seconds{stream="photons",family="clusters"} 0.5\n' in text


def test_the_last_batch_comes_before_the_end() -> None:
    """It may be committed between the look for a new batch and the look for the end."""
    batches: list[list[int]] = [[1]]

    def ended() -> bool:
        if len(batches) == 1:
            batches.append([2, 3])
        return True

    schema = pa.schema([("n", pa.int64())])
    reader = PageReader(
        schema, lambda: len(batches) - 1, lambda batch: pa.table({"n": batches[batch]}, schema), ended
    )

    async def listened() -> str:
        return b"".join([event async for event in events(reader, Cursor(), lambda: True)]).decode()

    text = anyio.run(listened)
    assert [line for line in text.splitlines() if line.startswith(("data", "event"))] == [
        *('data: {"n": 1}', 'data: {"n": 2}', 'data: {"n": 3}', "event: end", "data: {}")
    ]
