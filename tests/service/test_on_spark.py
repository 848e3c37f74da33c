"""The service in the process that runs the streams, on real Spark, from start to SIGTERM."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.service.hooks import hooked

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


class Served:
    def __init__(self, folder: Path) -> None:
        (folder / "job.toml").write_text(JOB)
        self.log = folder / "log"
        command = [sys.executable, "-m", "anabranch", "serve", str(folder / "job.toml"), "--port", "0"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | {"COLUMNS": "200"}
            )

    def address(self) -> str:
        return re.findall(r"Serving (\S+)", self.wait(lambda: "Serving " in self.log.read_text()))[-1]

    def wait(self, condition) -> str:  # type: ignore[no-untyped-def]
        until = time.monotonic() + 120
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.2)
        return self.log.read_text()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


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


def _timed(http: httpx.Client, family: str) -> bool:
    """Whether Spark has said how long one of the batches took."""
    families = http.get("/api/progress").json()["families"]
    return any(point["seconds"] for one in families if one["family"] == family for point in one["points"])


def test_serve(served: Served, tmp_path: Path) -> None:
    with (
        hooked() as hook,
        httpx.Client(base_url=served.address(), trust_env=False, timeout=60) as http,
    ):
        refused = http.post("/api/subscriptions", json={"name": "x", "query": "SELECT enn FROM photons"})
        assert (refused.status_code, refused.json()["error"]["place"]["offset"]) == (422, 7)
        asked = {"name": "bright", "query": "SELECT det_time, en FROM photons WHERE en > 1"}
        assert http.post("/api/subscriptions", json=asked | {"deliver": hook.url}).status_code == 201
        near = "SELECT NEAREST 3 TO (130, -45) BY (ra, dec) FROM photons WINDOW ROWS 100"
        made = http.post("/api/subscriptions", json={"name": "near", "query": near})
        assert made.json()["family"] == "nearest"  # a family that no query of the job has: Spark starts it
        live = events(http, "bright", 200)
        live += events(http, "bright", 200, live[-1][0])  # cut off, and on from the last
        assert all(row["en"] > 1 for _, row in live)
        assert events(http, "near", 3)
        hook.wait(lambda: len(hook.arrived()) >= 400)
        assert hook.arrived()[:400] == [row for _, row in live]
        cancelled = http.delete("/api/subscriptions/bright").json()
        assert cancelled["state"] == "cancelled"
        text = http.get("/metrics").text
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        place = '{stream="photons",family="filters"}'
        assert int(values[f"anabranch_items_total{place}"]) > 0
        assert float(values[f"anabranch_batch_seconds{place}"]) > 0
        assert int(values[f"anabranch_state_bytes{place}"]) > 0
        assert {group["family"] for group in http.get("/api/plan").json()["groups"]} == {"filters", "nearest"}
        served.wait(lambda: _timed(http, "filters") and _timed(http, "nearest"))
        assert len(http.get("/api/answers/near").json()["rows"]) == 3
        (site,) = http.get("/api/network").json()["sites"]
        assert (site["name"], site["readers"], site["load"] > 0) == ("here", 1, True)
    assert served.stop() == 0, served.log.read_text()
    done = subprocess.run(
        [sys.executable, "-m", "anabranch", "results", str(tmp_path / "out"), "bright", "--limit", "400"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [row for _, row in live]
