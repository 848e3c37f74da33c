"""The service under load: many subscriptions, many listeners, nothing lost, bounded memory.

A sink is filled batch by batch as a job would fill it, without Spark. The service runs in a process of its
own and is asked over real connections. Every listener follows a subscription and compares what it got with
what was delivered, row by row. One listener in ten closes its connection now and then and goes on from the
last event it saw; some others ask for everything and never read. Meanwhile the list of subscriptions and
the metrics are read.

test_load.py runs a small load, `python -m bench.service` a large one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.registration import bind_subscription
from anabranch.job.declarations import declare
from anabranch.model.columns import Column, ColumnType
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.subscription import Subscription
from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.service.job_service import JobService, Limits
from anabranch.service.server import serving

ROWS = 200  # a batch
SHARE = 25  # a row goes to one subscription in so many
EVENTS = 40  # after so many a listener that hangs up does
STALLED = 10
TEXT = "x" * 1_000


@dataclass(frozen=True)
class Load:
    listeners: int = 200
    subscriptions: int = 5_000
    batches: int = 40
    pause_s: float = 1.0

    def wanted(self, subscription: int) -> list[int]:
        """What a subscription is to get: the numbers of its rows."""
        every = range(self.batches * ROWS)
        return [number for number in every if (number + subscription) % SHARE == 0]


@dataclass
class Outcome:
    events: int = 0
    wrong: list[str] = field(default_factory=list)
    lags_s: list[float] = field(default_factory=list)
    resumed: int = 0
    memory_mb: list[float] = field(default_factory=list)
    listed: int = 0


# --- the sink ---


def make_sink(root: Path, load: Load) -> Layout:
    layout = Layout(root)
    names = (("t", ColumnType.INT), ("text", ColumnType.STRING))
    declaration = StreamDeclaration("s", Source("parquet", {"path": "/none"}), {"time": "t"})
    stream = declare(declaration, tuple(Column(name, kind) for name, kind in names))
    new = bind_subscription(Subscription("q", "SELECT t FROM s WHERE t >= 0"), {"s": stream})
    whole = bind_subscription(Subscription("everything", "SELECT t, text FROM s"), {"s": stream})
    with Catalog(layout.catalog) as catalog:
        catalog.register_stream(stream, declaration)
        catalog.subscribe_many([whole, *(replace(new, name=f"q{n}") for n in range(load.subscriptions))])
    return layout


def deliver(layout: Layout, load: Load, batch: int) -> None:
    numbers = range(batch * ROWS, (batch + 1) * ROWS)
    names = [
        ["everything", *(f"q{n}" for n in range((-number) % SHARE, load.subscriptions, SHARE))]
        for number in numbers
    ]
    columns = {
        "#": pa.array(numbers, pa.int64()),
        "subscriptions": pa.array(names, pa.list_(pa.string())),
        "t": pa.array(numbers, pa.int64()),
        "text": pa.array([TEXT] * ROWS),
    }
    path = layout.results("s", "select") / f"batch-{batch:012d}-00000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    books = {"rows_in": (batch + 1) * ROWS, "ended": batch + 1 == load.batches}
    files = {"select": [str(path.relative_to(layout.root))]}
    Deliveries(layout).commit("s", Manifest(batch, results=files, books=books))


# --- the listeners ---


class Listeners:
    def __init__(self, load: Load, address: str) -> None:
        self.load, self.outcome = load, Outcome()
        self.delivered: dict[int, float] = {}  # when each batch was
        limits = httpx.Limits(max_connections=None)
        self.http = httpx.AsyncClient(base_url=address, trust_env=False, timeout=120, limits=limits)

    async def follow(self, place: int) -> None:
        """One listener to the end of the stream."""
        subscription = place * self.load.subscriptions // self.load.listeners
        got: list[int] = []
        last = ""
        while last is not None:
            last = await self._connection(subscription, last, EVENTS if place % 10 == 0 else None, got)
            self.outcome.resumed += last is not None
        self.outcome.events += len(got)
        wanted = self.load.wanted(subscription)
        if got != wanted:
            self.outcome.wrong.append(
                f"q{subscription} got {len(got)} rows, not the {len(wanted)} that are its own"
            )

    async def _connection(self, subscription: int, last: str, most: int | None, got: list[int]) -> str | None:
        """The id of the last event where it hangs up, None at the end of the stream."""
        seen, event = 0, ""
        async with self.http.stream(
            "GET", f"/api/events/q{subscription}", headers={"Last-Event-ID": last}
        ) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                key, _, value = line.partition(": ")
                if key == "event":
                    event = value
                elif key == "id":
                    last = value
                elif key == "data" and event == "end":
                    return None
                elif key == "data":
                    got.append(json.loads(value)["t"])
                    self.outcome.lags_s.append(time.monotonic() - self.delivered[got[-1] // ROWS])
                    seen += 1
                    if seen == most:
                        return last
        raise ConnectionError(f"q{subscription} was cut off at {last}")

    async def stalled(self, address: str) -> asyncio.StreamWriter:
        """A listener that asks for everything and reads nothing."""
        url = httpx.URL(address)
        _, writer = await asyncio.open_connection(url.host, url.port, limit=1_000)
        writer.write(f"GET /api/events/everything HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode())
        await writer.drain()
        return writer

    async def ask(self) -> None:
        """Somebody who looks at the lists, again and again."""
        while True:
            count, after = 0, 0
            while after is not None:
                page = (await self.http.get("/api/subscriptions", params={"after": after})).json()
                count, after = count + len(page["subscriptions"]), page["next"]
            self.outcome.listed = count
            (await self.http.get("/metrics")).raise_for_status()
            await asyncio.sleep(2)


async def listened(load: Load, layout: Layout, address: str, pid: int) -> Outcome:
    listeners = Listeners(load, address)
    outcome = listeners.outcome
    stalled = [await listeners.stalled(address) for _ in range(min(STALLED, load.listeners // 2))]
    following = [asyncio.create_task(listeners.follow(place)) for place in range(load.listeners)]
    asking = asyncio.create_task(listeners.ask())
    for batch in range(load.batches):
        listeners.delivered[batch] = time.monotonic()
        await asyncio.to_thread(deliver, layout, load, batch)
        await asyncio.sleep(load.pause_s)
        outcome.memory_mb.append(resident_mb(pid))
    await asyncio.gather(*following)
    outcome.memory_mb.append(resident_mb(pid))
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    for writer in stalled:
        writer.close()
    await listeners.http.aclose()
    return outcome


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


# --- the process of the service ---


def serve(root: str) -> None:
    """Until nobody holds the other end of its input."""
    limits = Limits(listeners=10_000, requests_per_second=10_000)
    with serving(JobService(Layout(Path(root)), dict, dict, limits), "127.0.0.1", 0) as address:
        print(address, flush=True)
        sys.stdin.read()


def run(load: Load, root: Path) -> Outcome:
    layout = make_sink(root, load)
    command = [sys.executable, "-m", "tests.service.load", str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        try:
            address = service.stdout.readline().strip()
            return asyncio.run(listened(load, layout, address, service.pid))
        finally:
            service.stdin.close()


if __name__ == "__main__":
    serve(sys.argv[1])
