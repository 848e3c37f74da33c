"""Connections that let the service wait, in every way that a client can, keep nobody else out."""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest

from anabranch.results.layout import Layout
from anabranch.service import admission, connections
from anabranch.service.connections import connections_allowed
from anabranch.service.job_service import JobService, Limits
from anabranch.service.server import serving
from tests.cli.sinks import deliver
from tests.service.small_process import small_process

Headers = dict[str, dict[str, str]]
FILES = 160

NOTHING = b""
HALF_A_HEAD = b"POST /api/subscriptions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_A_BODY = HALF_A_HEAD + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"


def opened(stack: ExitStack, port: int, text: bytes) -> socket.socket:
    one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
    one.sendall(text)
    return one


@contextmanager
def listening(address: str, name: str, headers: dict[str, str]) -> Iterator[queue.Queue[object]]:
    """The rows that a listener gets, as they come; None when the stream of events ends."""
    got: queue.Queue[object] = queue.Queue()
    began = threading.Event()

    def listen() -> None:
        with (
            suppress(httpx.TransportError),  # the service ends before the listener does
            httpx.Client(base_url=address, trust_env=False, timeout=30) as client,
            client.stream("GET", f"/api/events/{name}", headers=headers) as answer,
        ):
            for line in answer.iter_lines():
                began.set()
                if line.startswith("data: "):
                    got.put(json.loads(line[6:])["det_time"])
        got.put(None)

    threading.Thread(target=listen, daemon=True).start()
    assert began.wait(10)
    yield got


def rows(got: queue.Queue[object], count: int) -> list[object]:
    return [got.get(timeout=20) for _ in range(count)]


def test_many_that_wait_keep_nobody_out(layout: Layout, tokens: Headers) -> None:
    """More connections than the process may open files; every other caller is answered as always. At last the
    process has no file left at all, and the listener gets its rows once it has.
    """
    ann = f"\r\nAuthorization: {tokens['ann']['Authorization']}\r\n\r\n".encode()
    with (
        small_process(layout, FILES) as process,
        listening(process.address, "all", tokens["eve"]) as got,
        ExitStack() as stack,
    ):
        assert rows(got, 3) == [0.0, 1.0, 2.0]
        for text in (NOTHING, HALF_A_HEAD, HALF_A_BODY, HALF_A_BODY.replace(b"\r\n\r\n", ann)):
            for number in range(FILES + 50):
                opened(stack, process.port, text)
                if number % 70 == 69:
                    answer = httpx.get(
                        f"{process.address}/api/streams", headers=tokens["bob"], trust_env=False, timeout=10
                    )
                    assert answer.status_code == 200
                    assert process.open_files() < FILES - 10
        deliver(layout, 2, [20, 21], [["all"], ["all"]], dead=[("late", "{}")])
        assert rows(got, 2) == [20.0, 21.0]
        process.take_all_files()
        deliver(layout, 3, [30, 31], [["all"], ["all"]], dead=[("late", "{}")])
        time.sleep(1.0)
        assert got.empty()  # it could not be read
        process.give_back()
        assert rows(got, 2) == [30.0, 31.0]
        assert httpx.get(f"{process.address}/health", trust_env=False, timeout=10).status_code == 200


def test_a_connection_that_was_answered_goes_after_those_that_never_were(
    layout: Layout, tokens: Headers
) -> None:
    """A caller that keeps its connection is not cut off by a crowd that says nothing."""
    with small_process(layout, FILES) as process, ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=process.address, trust_env=False, timeout=20))
        for _ in range(5):
            assert client.get("/api/streams", headers=tokens["bob"]).status_code == 200
            for _ in range(FILES + 50):
                opened(stack, process.port, HALF_A_HEAD)
        assert client.get("/api/streams", headers=tokens["bob"]).status_code == 200


def test_a_refusal_can_be_read_by_whoever_sends_too_much(http: httpx.Client) -> None:
    for _ in range(10):
        refused = http.post("/api/subscriptions", content=b"x" * 1_000_000)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "size")


def test_a_body_is_not_read_for_a_caller_without_a_token(address: str, tokens: Headers) -> None:
    """The answer comes although no more than one byte of the body was sent."""
    port = int(address.rsplit(":", 1)[1])
    with ExitStack() as stack:
        assert b"HTTP/1.1 401" in opened(stack, port, HALF_A_BODY).recv(1_000)
        large = HALF_A_BODY.replace(b"1000", b"1000000000")
        ann = f"\r\nAuthorization: {tokens['ann']['Authorization']}\r\n\r\n".encode()
        assert b"HTTP/1.1 413" in opened(stack, port, large.replace(b"\r\n\r\n", ann)).recv(1_000)


def test_reading_has_a_limit_of_time(address: str, tokens: Headers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "BODY_S", 0.3)
    monkeypatch.setattr(connections, "READ_S", 1.0)
    monkeypatch.setattr(connections, "LOOK_S", 0.1)
    port = int(address.rsplit(":", 1)[1])
    ann = f"\r\nAuthorization: {tokens['ann']['Authorization']}\r\n\r\n".encode()
    with ExitStack() as stack:
        slow = opened(stack, port, HALF_A_BODY.replace(b"\r\n\r\n", ann))
        assert b"HTTP/1.1 408" in slow.recv(1_000)
        head = opened(stack, port, HALF_A_HEAD)
        began = time.monotonic()
        with suppress(ConnectionError):  # a byte now and then does not help
            while time.monotonic() - began < 10:
                head.sendall(b"X")
                time.sleep(0.05)
        assert time.monotonic() - began < 5


def test_who_does_not_read_is_cut_off(
    layout: Layout, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STALL_S", 0.5)
    monkeypatch.setattr(connections, "LOOK_S", 0.1)
    count = 20_000
    for batch in range(2, 8):
        deliver(layout, batch, list(range(count)), [["all"]] * count, dead=[("late", "{}")])
    with serving(service, "127.0.0.1", 0) as address, ExitStack() as stack:
        one = opened(
            stack, int(address.rsplit(":", 1)[1]), b"GET /api/events/all HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with httpx.Client(base_url=address, trust_env=False) as client:
            until = time.monotonic() + 20
            while "anabranch_listeners 1" not in client.get("/metrics").text:
                assert time.monotonic() < until
            while "anabranch_listeners 0" not in client.get("/metrics").text:
                assert time.monotonic() < until
                time.sleep(0.1)


def test_the_limit_follows_the_files_of_the_process() -> None:
    assert connections_allowed(10) == 10
    assert connections_allowed(10**9) < 10**9


def test_one_connection_more_than_can_be_answered(layout: Layout) -> None:
    """Where every connection is a listener, the next caller is told to come again."""
    service = JobService(layout, dict, dict, Limits(connections=8, listeners=100))
    with serving(service, "127.0.0.1", 0) as address, ExitStack() as stack:
        port = int(address.rsplit(":", 1)[1])
        event = b"GET /api/events/all HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answers = [opened(stack, port, event).recv(100)[:12] for _ in range(8)]
        assert answers == [b"HTTP/1.1 200"] * 4 + [b"HTTP/1.1 429"] * 4
        assert httpx.get(f"{address}/health", trust_env=False).status_code == 200
