"""A webhook on loopback that fails, hangs or drops connections where a test wants that."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: What to do with the n-th request, from 0: a status, "hang", "drop" (before the answer), "redirect", "half"
#: (of an answer).
Mood = Callable[[int], int | str]


class Hook:
    def __init__(self, mood: Mood, tls: ssl.SSLContext | None = None) -> None:
        self.mood = mood
        self.signed: list[tuple[str, bytes]] = []  # signature, body
        self.hosts: list[str] = []
        self.under_way = 0
        self.tries: list[tuple[str, dict[str, Any], int | str]] = []  # key, body, what was done
        self.sizes: list[int] = []
        self.over = threading.Event()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                hook.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook?secret=1"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        do = self.mood(len(self.tries))
        self.hosts.append(request.headers["Host"])
        if "Anabranch-Signature" in request.headers:
            self.signed.append((request.headers["Anabranch-Signature"], body))
        self.sizes.append(len(body))
        self.tries.append((request.headers["Idempotency-Key"], json.loads(body), do))
        if do == "hang":
            self._hang(request.connection)
        if do in ("hang", "drop"):
            hard = struct.pack("ii", 1, 0)
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, hard)
            request.close_connection = True
            return
        if do == "half":
            request.wfile.write(b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nno")
            request.close_connection = True
            return
        request.send_response(307 if do == "redirect" else int(do))
        request.send_header("Location", "http://127.0.0.1:9/elsewhere")
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _hang(self, connection: socket.socket) -> None:
        """Until the other side gives up."""
        self.under_way += 1
        until = time.monotonic() + 30
        connection.settimeout(0.05)
        while not self.over.is_set() and time.monotonic() < until:
            try:
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.under_way -= 1

    def arrived(self) -> list[dict[str, Any]]:
        """The rows of requests that were acknowledged."""
        return [row for _, body, do in list(self.tries) if do in (200, 204) for row in body["rows"]]

    def wait(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, [(key, do) for key, _, do in self.tries]
            time.sleep(0.02)


@contextmanager
def hooked(mood: Mood = lambda n: 200, tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    hook = Hook(mood, tls)
    thread = threading.Thread(target=hook.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.over.set()
        hook.server.shutdown()
        hook.server.server_close()
