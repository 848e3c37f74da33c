"""Attacks a real service and sees whether a bystander gets exactly its rows: python -m tools.attack

A job runs on Spark, with the usual limit of 1,024 open files; a file of items comes every second. A bystander
listens to a selection and reads an aggregate. Meanwhile callers, with tokens and without, do their worst, one
attack after the other. After each, the service must answer the bystander; at the end its rows must be exact.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.catalog.tokens import Role, Tokens
from anabranch.results.layout import layout_of

FILES = 1_024
ROWS = 500  # per file
#: The bystander must be answered within so many seconds after an attack; the machine may be busy.
ANSWER_S = 15.0
START_S, END_S = 150.0, 90.0

JOB = """
[stream.photons]
source = { format = "parquet", path = "photons/*.parquet" }
time = "t"
position = ["ra", "dec"]
bounds = [[0, 360], [-90, 90]]

[[subscription]]
name = "every"
query = "SELECT t FROM photons WHERE en > 99"

[sink]
format = "parquet"
path = "out"
"""
SELECTION = "SELECT t FROM photons WHERE en >= 50"
AGGREGATE = "SELECT count(*) AS n FROM photons WINDOW ROWS 1000"

HEAD = "POST /api/subscriptions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BODY = "Content-Type: application/json\r\nContent-Length: 1000\r\n"

POISON = (
    "SELECT count(*) AS n FROM photons WINDOW RANGE 1 STEP 0.000000001",
    "SELECT count(*) AS n FROM photons WINDOW RANGE 1000000000 STEP 1",
    "SELECT NEAREST 1000000000 TO (1, 1) BY (ra, dec) FROM photons WINDOW ROWS 10",
    "SELECT NEAREST 9223372036854775807 TO (1, 1) BY (ra, dec) FROM photons WINDOW ROWS 10",
    "SELECT CLUSTERS WITHIN 0.1 MIN 9223372036854775807 BY (ra, dec) FROM photons WINDOW ROWS 100 STEP 100",
    "SELECT t FROM photons WHERE " + " AND ".join(f"(en > {n} OR ra < {n})" for n in range(30)),
    "SELECT t FROM photons WHERE "
    + " AND ".join("(" + " OR ".join(f"en = {m}.{n}" for n in range(64)) + ")" for m in range(2)),
)


class Feed(threading.Thread):
    """Writes a file of items every second, and knows what the bystander is to get."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.over, self.files = folder, threading.Event(), 0
        folder.mkdir(parents=True)
        self.write()

    def write(self) -> None:
        times = range(self.files * ROWS, (self.files + 1) * ROWS)
        columns = {"t": list(times), "en": [energy(t) for t in times]}
        columns |= {"ra": [float(t % 360) for t in times], "dec": [float(t % 180 - 90) for t in times]}
        hidden = self.folder / f".{self.files:06d}"
        pq.write_table(pa.table(columns), hidden)
        hidden.rename(self.folder / f"{self.files:06d}.parquet")
        self.files += 1

    def run(self) -> None:
        while not self.over.wait(1.0):
            self.write()


def energy(t: int) -> float:
    return float(t * 37 % 100)


class Bystander(threading.Thread):
    """Listens to its selection; goes on from the last event where the connection was cut."""

    def __init__(self, address: str, token: str) -> None:
        super().__init__(daemon=True)
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=ANSWER_S)
        self.got: list[int] = []
        self.cut = 0
        for name, query in (("mine", SELECTION), ("windows", AGGREGATE)):
            self.http.post("/api/subscriptions", json={"name": name, "query": query}).raise_for_status()

    def run(self) -> None:
        last = ""
        while True:
            with (
                suppress(httpx.HTTPError),
                self.http.stream(
                    "GET", "/api/events/mine", headers={"Last-Event-ID": last}, timeout=60
                ) as answer,
            ):
                for line in answer.iter_lines():
                    if line.startswith("id: "):
                        last = line[4:]
                    if line.startswith("data: ") and "t" in (row := json.loads(line[6:])):
                        self.got.append(row["t"])
            self.cut += 1
            time.sleep(0.2)

    def is_answered(self) -> None:
        began = time.monotonic()
        self.http.get("/api/subscriptions/mine").raise_for_status()
        assert time.monotonic() - began < ANSWER_S

    def aggregate(self) -> list[int]:
        rows: list[int] = []
        after = ""
        while True:
            page = self.http.get("/api/results/windows", params={"after": after, "limit": 1000}).json()
            rows += [row["n"] for row in page["rows"]]
            if not page["more"]:
                return rows
            after = page["next"]


class Attacker:
    """A user of the service with a token, and somebody without one."""

    def __init__(self, address: str, tokens: dict[str, str]) -> None:
        self.address, self.tokens = address, tokens
        self.port = int(address.rsplit(":", 1)[1])
        self.http = httpx.Client(base_url=address, trust_env=False, timeout=60)
        self.stack = ExitStack()

    def send(self, method: str, path: str, who: str = "eve", **given: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens.get(who, who)}"}
        while True:
            answer = self.http.request(method, path, headers=headers, **given)
            if answer.status_code != 429 or "requests per second" not in answer.text:
                return answer
            time.sleep(1)

    def register(self, name: str, query: str, who: str = "eve", **more: str) -> httpx.Response:
        return self.send("POST", "/api/subscriptions", who, json={"name": name, "query": query, **more})

    def connect(self, text: str) -> socket.socket:
        one = self.stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=30))
        with suppress(OSError):
            one.sendall(text.encode())
        return one

    # the attacks

    def connections_that_say_nothing(self) -> None:
        for _ in range(1_100):
            self.connect("")

    def half_heads(self) -> None:
        for _ in range(1_100):
            self.connect(HEAD)

    def half_bodies(self) -> None:
        for _ in range(1_100):
            self.connect(f"{HEAD}{BODY}\r\n{{")

    def half_bodies_with_a_token(self) -> None:
        token = f"Authorization: Bearer {self.tokens['eve']}\r\n"
        for _ in range(600):
            self.connect(f"{HEAD}{BODY}{token}\r\n{{")

    def wrong_tokens(self) -> None:
        found = {self.send("GET", "/api/streams", f"ana_00000000_{n}").status_code for n in range(200)}
        assert found == {401, 429}, found

    def listeners_beyond_the_limit(self) -> None:
        self.register("loud", "SELECT t, en FROM photons").raise_for_status()
        token = f"Authorization: Bearer {self.tokens['eve']}\r\n"
        event = f"GET /api/events/loud HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}\r\n"
        answers = []
        for n in range(130):  # none of them reads more than its status
            one = self.connect(event)
            answers.append(one.recv(12))
            time.sleep(0.5 if n % 40 == 39 else 0)
        assert answers.count(b"HTTP/1.1 200") <= 100, answers

    def webhooks_to_this_machine(self) -> None:
        for n, host in enumerate(("127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1")):
            answer = self.register(f"hook{n}", "SELECT t FROM photons", deliver=f"http://{host}:22/")
            assert answer.status_code == 400, answer.text
        assert self.register("topic", "SELECT t FROM photons", deliver="kafka:a@b:1").status_code == 400

    def webhooks_that_hang(self) -> None:
        """An admin may send to this machine; the receiver accepts and never answers."""
        deaf = self.stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1_000))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        for n in range(60):
            self.register(f"deaf{n}", "SELECT t FROM photons", "root", deliver=url).raise_for_status()

    def names_of_others(self) -> None:
        assert self.register("mine/2", SELECTION).status_code == 201
        parts = "<a>{ for $p in stream('photons')/s/i return $p/t }{ /photons/i }</a>"
        self.register("mine#2", parts)
        for name in ("mine", "windows", "every", "#1", "#2", "#3", "mine/2", "mine#2"):
            path = quote(name, safe="")
            for route in ("results", "answers", "subscriptions"):
                text = self.send("GET", f"/api/{route}/{path}").text
                assert '"owner":"ann"' not in text
            self.send("DELETE", f"/api/subscriptions/{path}")
            self.send("POST", f"/api/secrets/{path}")

    def values_that_are_none(self) -> None:
        for time_ in (10**400, -(10**32), 1e308, "1e999", "9" * 5_000):
            answer = self.send(
                "POST", "/api/subscriptions", json={"name": "x", "query": SELECTION, "activate": time_}
            )
            assert answer.status_code in (201, 400, 422), answer.text
            self.send("DELETE", "/api/subscriptions/x")
        for body in (b"{" * 100_000, b"[" * 100_000, b"\xff\x00" * 1_000, b"x" * 1_000_000):
            assert 400 <= self.send("POST", "/api/subscriptions", content=body).status_code < 500
        for path in ("/api/results/%00", "/api/results/" + "a" * 5_000, "/api/plan/boxes?open=a:" + "9" * 99):
            assert self.send("GET", path).status_code < 500

    def queries_that_take_all(self) -> None:
        for query in POISON:
            self.send("POST", "/api/check", json={"query": query})
        for n, query in enumerate(POISON):
            answer = self.register(f"poison{n}", query)
            assert answer.status_code in (201, 400, 413, 422, 429), answer.text
        time.sleep(5)  # what was taken sees some batches
        for n in range(len(POISON)):
            self.send("DELETE", f"/api/subscriptions/poison{n}")

    def requests_without_end(self) -> None:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            self.http.get("/health")

    def all(self) -> list[Callable[[], None]]:
        return [
            self.connections_that_say_nothing,
            self.half_heads,
            self.half_bodies,
            self.half_bodies_with_a_token,
            self.wrong_tokens,
            self.listeners_beyond_the_limit,
            self.webhooks_to_this_machine,
            self.webhooks_that_hang,
            self.names_of_others,
            self.values_that_are_none,
            self.requests_without_end,
            self.queries_that_take_all,
        ]


@contextmanager
def served(job: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The service of a job in a process with the usual limit of open files, which Java raises for itself."""
    command = f'ulimit -Sn {FILES}; exec "{sys.executable}" -m anabranch.cli.main serve "{job}" --port 0 -q'
    log = job.parent / "serve.log"
    with log.open("w") as out, subprocess.Popen(["sh", "-c", command], stderr=out, text=True) as process:
        try:
            deadline = time.monotonic() + START_S
            while "Serving http" not in (text := log.read_text()):
                assert process.poll() is None, text
                assert time.monotonic() < deadline, text
                time.sleep(0.2)
            yield text.partition("Serving ")[2].split()[0], process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()


def attacked(attacker: Attacker, bystander: Bystander, process: subprocess.Popen[str]) -> list[str]:
    """Runs all attacks; returns what went wrong."""
    wrong = []
    for attack in attacker.all():
        began = time.monotonic()
        try:
            attack()
            bystander.is_answered()
            assert process.poll() is None, "the service has ended"
            said = "ok"
        except Exception as error:
            said = f"FAILED: {type(error).__name__}: {str(error)[:300]}"
            wrong.append(f"{attack.__name__}: {said}")
        print(f"{attack.__name__.replace('_', ' '):34} {time.monotonic() - began:5.1f} s  {said}", flush=True)
        attacker.stack.close()
    return wrong


def compared(bystander: Bystander, feed: Feed) -> list[str]:
    """Waits for the last rows, and compares all of them with what was fed."""
    feed.over.set()
    feed.join()
    last = feed.files * ROWS
    deadline = time.monotonic() + END_S
    wanted = [t for t in range(last) if energy(t) >= 50]
    while (not bystander.got or bystander.got[-1] < wanted[-1]) and time.monotonic() < deadline:
        time.sleep(0.5)
    got = bystander.got
    expected = (
        [t for t in wanted if t >= got[0]] if got else wanted
    )  # it saw the stream from its activation on
    wrong = [] if got == expected else [f"the bystander got {len(got)} rows, not {len(expected)}"]
    counts = bystander.aggregate()
    if not counts or any(n != 1_000 for n in counts):
        wrong.append(f"windows of 1,000 rows have {sorted(set(counts))} rows")
    print(f"the bystander: {len(got)} rows, {len(counts)} windows, {bystander.cut} times cut off")
    return wrong


def main() -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # the feed may still write
        job = Path(folder) / "job.toml"
        job.write_text(JOB)
        feed = Feed(job.parent / "photons")
        tokens = Tokens(layout_of(job).catalog)
        roles = {"ann": Role.USER, "eve": Role.USER, "root": Role.ADMIN}
        texts = {owner: tokens.create(owner, role) for owner, role in roles.items()}
        tokens.close()
        with served(job) as (address, process):
            bystander, attacker = Bystander(address, texts["ann"]), Attacker(address, texts)
            feed.start()
            bystander.start()
            deadline = time.monotonic() + START_S
            while not bystander.got:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise SystemExit(f"no row arrived: {(job.parent / 'serve.log').read_text()[-3000:]}")
                time.sleep(0.2)
            print(f"{'the first row arrived':34} {time.monotonic() - began:5.1f} s", flush=True)
            wrong = attacked(attacker, bystander, process) + compared(bystander, feed)
    print(
        f"{time.monotonic() - began:.0f} s;", "; ".join(wrong) or "nothing was lost, nobody was kept waiting"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
