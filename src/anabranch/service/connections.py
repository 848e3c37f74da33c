"""Connections: how many there may be, and how long one may let the service wait.

Every connection is an open file, and a process may have few of them (1,024 is usual). A process that has
none left can neither accept a connection nor read a result. So there are at most half as many connections as
files that the process may open:

    a new connection, and room for it        it is accepted
    no room, some wait for their client      the one that has waited longest is closed for it; those that were
                                             never answered go before those that were
    no room, all are being answered          the new one gets status 503

A connection waits for its client until a request is complete, head and body. It may do so for READ_S seconds.
A client that does not read its answer is cut off after STALL_S seconds; a listener goes on with
`Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
import resource
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: How long a request may take to come in, from its first byte; and how long a connection may say nothing.
READ_S = 20.0
#: How long a client may leave an answer unread.
STALL_S = 60.0
#: So much of a body that was refused is read and forgotten, so that the client gets to read why.
IGNORED_BYTES = 4 << 20
#: How often connections are looked at.
LOOK_S = 1.0
#: At most so many connections, where the process may open enough files.
MOST = 1_000

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
)


def connections_allowed(most: int = MOST) -> int:
    """Returns how many connections there may be: half of the files that the process may open at most."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files == resource.RLIM_INFINITY else max(8, min(most, files // 2))


class Connections:
    """All connections of a service; used in its event loop only."""

    def __init__(self, most: int, body_bytes: int) -> None:
        self.most, self.body_bytes = most, body_bytes
        self._all: set[Connection] = set()
        self._new: dict[Connection, float] = {}  # never answered; since when it waits, the longest first
        self._known: dict[Connection, float] = {}  # answered before; likewise
        self._stalled: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def backlog(self) -> int:
        """How many the event loop accepts at once, before it closes any."""
        return max(1, min(128, self.most // 8))

    def protocol(self) -> type[asyncio.Protocol]:
        """Returns the class of these connections, for uvicorn."""
        return type("BoundConnection", (Connection,), {"connections_of_service": self})

    def opened(self, connection: Connection) -> bool:
        """Makes room for a connection; False where there is none."""
        if len(self._all) >= self.most:
            oldest = next(iter(self._new), None) or next(iter(self._known), None)
            if oldest is None:
                return False
            self._close(oldest)
        self._all.add(connection)
        self.waits(connection)
        if self._timer is None:
            self._look()
        return True

    def waits(self, connection: Connection) -> None:
        """The connection waits for its client, from now on."""
        self.is_answered(connection)
        if connection in self._all:
            waiting = self._known if connection.was_answered else self._new
            waiting[connection] = time.monotonic()

    def is_answered(self, connection: Connection) -> None:
        self._new.pop(connection, None)
        self._known.pop(connection, None)

    def stalls(self, connection: Connection) -> None:
        """The client does not read, from now on."""
        self._stalled[connection] = time.monotonic()

    def flows(self, connection: Connection) -> None:
        self._stalled.pop(connection, None)

    def gone(self, connection: Connection) -> None:
        self._all.discard(connection)
        self.is_answered(connection)
        self._stalled.pop(connection, None)

    def _close(self, connection: Connection) -> None:
        self.gone(connection)
        connection.transport.abort()

    def _look(self) -> None:
        """Closes what has let the service wait too long."""
        now = time.monotonic()
        for known, longest in ((self._new, READ_S), (self._known, READ_S), (self._stalled, STALL_S)):
            for connection in [each for each, since in known.items() if now - since > longest]:
                self._close(connection)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LOOK_S, self._look) if self._all else None


class Connection(H11Protocol):
    """A connection that tells `connections_of_service` what it waits for."""

    connections_of_service: Connections
    was_answered = False  # a whole request came, and its answer went
    _bytes: int | None = None  # of the request that is being read; None before its first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self.connections_of_service.opened(self):
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections_of_service.gone(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._bytes is None:
            self.connections_of_service.waits(self)  # a request begins: its time is counted from here
            self._bytes = 0
        self._bytes += len(data)
        if self._bytes > self.connections_of_service.body_bytes + IGNORED_BYTES:  # refused long ago
            self.transport.abort()
            return
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):  # the request is complete
            self.connections_of_service.is_answered(self)

    def on_response_complete(self) -> None:
        self._bytes = None
        self.was_answered = self.was_answered or self.conn.their_state is h11.DONE
        self.connections_of_service.waits(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.connections_of_service.stalls(self)
        super().pause_writing()

    def resume_writing(self) -> None:
        self.connections_of_service.flows(self)
        super().resume_writing()


def protocol_settings(connections: Connections) -> dict[str, Any]:
    """Returns what uvicorn has to know of them."""
    return {"http": connections.protocol(), "ws": "none", "loop": "asyncio", "backlog": connections.backlog}
