"""Who may send which requests, and how many.

Every request gets a Caller, or a refusal: 401 without a valid token, 403 where its role is not enough, 413
for a body that is too large, 429 for too many requests. No refusal says anything about what others own.

Without any token the service is for this machine alone: it answers only requests that name it by a loopback
address, so that a web page from elsewhere cannot reach it through the browser under a name of its own.
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
from anabranch.service.errors import Refused, response_to
from anabranch.service.job_service import Caller, JobService

#: A burst may have as many requests as are allowed in so many seconds.
BURST_SECONDS = 2.0


def is_loopback(host: str) -> bool:
    """Whether an address, or the name of this machine for itself, is reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """One per service; may be used from several threads."""

    def __init__(self, service: JobService) -> None:
        self.service = service
        self.listeners: Counter[str] = Counter()
        self._left: dict[str, tuple[float, float]] = {}  # owner: requests left, and when that was
        self._lock = threading.Lock()

    def admit(self, request: Request) -> Caller:
        """Returns who sends a request, and counts it; Refused if it may not be sent."""
        caller = self.caller(request)
        self._check_rate(caller)
        return caller

    def caller(self, request: Request) -> Caller:
        """Returns who sends a request; Refused without a valid token, where one is needed."""
        if self.service.local and not self.service.tokens.exist():
            if not is_loopback(request.url.hostname or ""):
                raise Refused(403, "role", "without tokens the service answers only to a loopback address")
            return Caller()
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        token = self.service.tokens.known(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise Refused(
                401,
                "token",
                "this needs a valid token: send Authorization: Bearer TOKEN "
                "(anabranch token create makes one)",
                {"WWW-Authenticate": "Bearer"},
            )
        return Caller(token.owner, token.role)

    def _check_rate(self, caller: Caller) -> None:
        """A bucket per owner: it fills with time, and every request takes one out."""
        rate = self.service.limits.requests_per_second
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
                f"more than {rate:g} requests per second; come again in {wait} s",
                {"Retry-After": str(wait)},
            )

    @contextmanager
    def listening(self, caller: Caller) -> Iterator[None]:
        """Counts a listener of an owner, while the context lasts."""
        key = caller.owner or ""
        with self._lock:
            self.listeners[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self.listeners[key] -= 1

    def check_listeners(self, caller: Caller) -> None:
        if self.listeners[caller.owner or ""] >= self.service.limits.listeners:
            raise Refused(
                429, "limit", f"there are {self.service.limits.listeners} listeners already; end one first"
            )


def _any_caller(request: Request) -> Caller:
    access: Access = request.app.state.access
    return access.admit(request)


#: Whoever may send requests at all; who sees everybody's queries; who may change something.
AnyCaller = Annotated[Caller, Depends(_any_caller)]


def _viewer(caller: AnyCaller) -> Caller:
    if not caller.sees_all:
        raise Refused(
            403, "role", f"this shows everybody's queries; a token of role {caller.role} is not enough"
        )
    return caller


def _editor(caller: AnyCaller) -> Caller:
    if caller.role is Role.VIEWER:
        raise Refused(403, "role", "a token of role viewer changes nothing")
    return caller


Viewer = Annotated[Caller, Depends(_viewer)]
Editor = Annotated[Caller, Depends(_editor)]


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
                await response_to(refused)(scope, receive, send)
                return
        read = False

        async def whole() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, whole, send)
