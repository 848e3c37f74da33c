"""Who is asking, and whether that is too much.

In: requests. Out: a Caller, or a refusal: 401 without a token that holds, 403 where its role does not reach,
413 for a body that is too large, 429 for too many requests. Never: a word about what others own.

Without any token the service is for this machine alone: it answers only requests that name it by a loopback
address, so that a page from elsewhere in a browser cannot reach it under a name of its own.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.catalog.tokens import Role
from anabranch.service.desk import Caller, Desk
from anabranch.service.errors import Refused, answer

#: A burst may be so many seconds' worth of requests.
BURST_SECONDS = 2.0


def is_loopback(host: str) -> bool:
    """Whether an address, or the name of this machine for itself, is reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Gate:
    """One for a service; may be used from several threads."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.listeners: Counter[str] = Counter()
        self._left: dict[str, tuple[float, float]] = {}  # owner: requests left, and when that was
        self._lock = threading.Lock()

    def caller(self, request: Request) -> Caller:
        caller = self.recognised(request)
        self._check_rate(caller)
        return caller

    def recognised(self, request: Request) -> Caller:
        if self.desk.local and not self.desk.tokens.exist():
            if not is_loopback(request.url.hostname or ""):
                raise Refused(403, "role", "without tokens the service answers only to a loopback address")
            return Caller()
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        token = self.desk.tokens.known(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise Refused(
                401,
                "token",
                "this needs a token that holds: send Authorization: Bearer TOKEN "
                "(anabranch token create makes one)",
                {"WWW-Authenticate": "Bearer"},
            )
        return Caller(token.owner, token.role)

    def _check_rate(self, caller: Caller) -> None:
        """A bucket an owner: it fills with time, and every request takes one out."""
        rate = self.desk.limits.requests_a_second
        most = max(1.0, rate * BURST_SECONDS)
        key, now = caller.owner or "", time.monotonic()
        with self._lock:
            left, since = self._left.get(key, (most, now))
            left = min(most, left + (now - since) * rate)
            self._left[key] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            wait = max(1, round((1 - left) / rate))
            raise Refused(
                429,
                "limit",
                f"more than {rate:g} requests a second; come again in {wait} s",
                {"Retry-After": str(wait)},
            )

    @contextmanager
    def listening(self, caller: Caller) -> Iterator[None]:
        """A place among the listeners of an owner."""
        key = caller.owner or ""
        with self._lock:
            self.listeners[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self.listeners[key] -= 1

    def check_listeners(self, caller: Caller) -> None:
        if self.listeners[caller.owner or ""] >= self.desk.limits.listeners:
            raise Refused(
                429, "limit", f"there are {self.desk.limits.listeners} listeners already; end one first"
            )


def _caller(request: Request) -> Caller:
    gate: Gate = request.app.state.gate
    return gate.caller(request)


Known = Annotated[Caller, Depends(_caller)]


def _sees_all(caller: Known) -> Caller:
    if not caller.sees_all:
        raise Refused(
            403, "role", f"this shows everybody's queries; a token of role {caller.role} does not reach"
        )
    return caller


def _changes(caller: Known) -> Caller:
    if caller.role is Role.VIEWER:
        raise Refused(403, "role", "a token of role viewer changes nothing")
    return caller


SeesAll = Annotated[Caller, Depends(_sees_all)]
Changes = Annotated[Caller, Depends(_changes)]


class BodyLimit:
    """Refuses a request whose body is too large, whether or not it says so beforehand."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = b""
        more = True
        while more:  # requests are small, so the whole is read before anything is done
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.most:
                refused = Refused(413, "size", f"a request may have {self.most:,} bytes; this one has more")
                await answer(refused)(scope, receive, send)
                return
        read = False

        async def whole() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, whole, send)
