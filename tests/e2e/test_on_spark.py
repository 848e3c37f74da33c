"""The service in the process that runs the streams, on real Spark, from start to SIGTERM: over HTTP, and in a
browser. One start serves both: Spark takes most of the time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.cli.conftest import Command, anabranch  # noqa: F401
from tests.e2e.page import COMING, Page, delivered, is_shown
from tests.e2e.served import Served
from tests.sending.hooks import hooked

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = """
[stream.photons]
source = { format = "generator", name = "photons", rate = 2000 }
time = "det_time"

[[subscription]]
name = "hot"
query = "SELECT det_time, en FROM photons WHERE en > 5"

[sink]
format = "parquet"
path = "out"

[engine]
shuffle_partitions = 2
spark = { "spark.driver.memory" = "2g" }
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("served"), JOB)
    try:
        yield made
        assert made.stop() == 0, made.log.read_text()
    finally:
        made.kill()


@pytest.fixture(scope="module")
def address(served: Served) -> str:
    """Of a service that has answered something: what comes after a start is not waited for again."""
    address = served.address()
    with httpx.Client(base_url=address, trust_env=False, timeout=60) as http:
        served.wait(lambda: _timed(http))
    return address


def events(http: httpx.Client, name: str, count: int, last: str = "") -> list[tuple[str, dict[str, float]]]:
    out, id = [], ""
    with http.stream("GET", f"/api/events/{name}", headers={"Last-Event-ID": last}) as answer:
        for line in answer.iter_lines():
            id = line[4:] if line.startswith("id: ") else id
            if line.startswith("data: "):
                out.append((id, json.loads(line[6:])))
            if len(out) == count:
                return out
    return out


def _timed(http: httpx.Client) -> bool:
    """Whether Spark has said how long one of the batches took."""
    branches = http.get("/api/progress").json()["branches"]
    return any(point["seconds"] for one in branches for point in one["points"])


def test_over_http(served: Served, http: httpx.Client, anabranch: Command) -> None:  # noqa: F811
    with hooked() as hook:
        refused = http.post("/api/subscriptions", json={"name": "x", "query": "SELECT enn FROM photons"})
        assert (refused.status_code, refused.json()["error"]["place"]["offset"]) == (422, 7)
        asked = {"name": "bright", "query": "SELECT det_time, en FROM photons WHERE en > 1"}
        assert http.post("/api/subscriptions", json=asked | {"deliver": hook.url}).status_code == 201
        near = "SELECT NEAREST 3 TO (130, -45) BY (ra, dec) FROM photons WINDOW ROWS 100"
        made = http.post("/api/subscriptions", json={"name": "near", "query": near})
        assert made.json()["family"] == "nearest"  # a family that no query of the job has
        live = events(http, "bright", 200)
        live += events(http, "bright", 200, live[-1][0])  # cut off, and on from the last
        assert all(row["en"] > 1 for _, row in live)
        assert events(http, "near", 3)
        hook.wait(lambda: len(hook.arrived()) >= 400)
        assert hook.arrived()[:400] == [row for _, row in live]
        cancelled = http.delete("/api/subscriptions/bright").json()
        assert cancelled["state"] == "cancelled"
    assert [one["branch"] for one in http.get("/api/progress").json()["branches"]] == ["photons"]
    text = http.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    place = '{stream="photons"}'
    assert int(values[f"anabranch_items_total{place}"]) > 0
    assert float(values[f"anabranch_batch_seconds{place}"]) > 0
    assert int(values[f"anabranch_state_bytes{place}"]) > 0
    assert {group["family"] for group in http.get("/api/plan").json()["groups"]} == {"filters", "nearest"}
    assert len(http.get("/api/answers/near").json()["rows"]) == 3
    (site,) = http.get("/api/network").json()["sites"]
    assert (site["name"], site["readers"], site["load"] > 0) == ("here", 1, True)
    done = anabranch("results", served.sink, "bright", "--limit", "400")
    assert [json.loads(line) for line in done.out.splitlines()] == [row for _, row in live]


@pytest.mark.browser
def test_in_a_browser(page: Page, http: httpx.Client) -> None:
    """Registers a query, sees it on every page, cancels it."""

    def counted() -> tuple[int, int]:
        """Items of the stream so far, and items per second."""
        found = [row["Items"] for row in page.rows("#streams")]
        tiles = page.text("#tiles").split()
        rate = tiles[tiles.index("second") + 1] if "second" in tiles else "0"
        return _number(found[0]) if found else 0, _number(rate)

    page.go("subscriptions")
    page.write("#query", "SELECT det_time, ra, en FROM photons WHERE en > 3")
    page.wait(lambda: page.text("#checked").startswith("✓ select over photons"), "the check")
    page.write("#name", "seen")
    page.one("#register").click()
    first = page.wait(lambda: page.rows(COMING), "rows")
    later = page.wait(lambda: [row for row in page.rows(COMING) if row not in first], "more rows")
    rows = delivered(http, "seen")
    assert all(row["en"] > 3 for row in rows)
    assert all(any(is_shown(shown, row) for row in rows) for shown in [*first, *later])

    page.go("overview")
    before, _ = page.wait(lambda: counted() if all(counted()) else None, "the throughput")
    page.wait(lambda: counted()[0] > before, "more items")

    page.go("plan")
    page.wait(lambda: "en > 3" in page.text("#dag"), "the condition")
    page.one('#dag .node[aria-label*="seen"]').click()
    assert "Needed by 1 subscription: seen" in page.text("#plan-chosen")
    page.wait(lambda: [row["Site or link"] for row in page.rows("#sites")] == ["here"], "the site")

    page.go("subscriptions")
    page.write("#search", "seen")
    page.wait(lambda: [row["Name"] for row in page.rows("#list")] == ["seen"], "the search")
    page.one('button[aria-label="Cancel seen"]').click()
    page.driver.switch_to.alert.accept()
    page.wait(lambda: page.rows("#list") == [], "the end")
    assert http.get("/api/subscriptions/seen").json()["state"] == "cancelled"
    page.go("plan")
    page.wait(lambda: page.text("#dag") and "en > 3" not in page.text("#dag"), "the plan without it")


def _number(text: str) -> int:
    return int(text.replace(",", ""))
