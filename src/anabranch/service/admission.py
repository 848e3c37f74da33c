"""Admission: a request is decided on by its head; only then is its body read, within limits of time and size.

    head        401, 403 or 429 where the caller may not send it; nothing of the body was read for it
    body        408 if it takes longer than BODY_S seconds, 413 if it is too large, whether it says so or not
    then        the path is looked up, with the whole body at hand

Every path needs a caller, except the few that say nothing about streams and queries.
"""

from __future__ import annotations

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.service.access import Access
from anabranch.service.errors import Refused, response_to

#: How long a body may take to come in.
BODY_S = 10.0
#: Threads that look up callers: requests that take long must not keep others from being refused.
THREADS = 4

_OPEN_PATHS = ("/", "/health", "/openapi.json")
_OPEN_FOLDER = "/dashboard/"


class Gone(Exception):
    """The client closed the connection before its request was complete."""


class Admission:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access
        self.most = access.service.limits.body_bytes
        self._threads = anyio.CapacityLimiter(THREADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            if not _is_open(scope["path"]):
                admit = self.access.admit
                scope["caller"] = await to_thread.run_sync(admit, Request(scope), limiter=self._threads)
            body = await self._body(scope, receive)
        except Gone:
            return
        except Exception as error:
            await response_to(error)(scope, receive, send)
            return
        await self.app(scope, _once(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        if _said_length(scope) > self.most:
            raise self._too_large()
        body = b""
        try:
            with anyio.fail_after(BODY_S):
                more = True
                while more:  # requests are small, so the whole is read before anything is done
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Gone
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self.most:
                        raise self._too_large()
        except TimeoutError:
            raise Refused(408, "time", f"the request was not complete after {BODY_S:g} s") from None
        return body

    def _too_large(self) -> Refused:
        return Refused(413, "size", f"a request may have {self.most:,} bytes; this one has more")


def _is_open(path: str) -> bool:
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER)


def _said_length(scope: Scope) -> int:
    """Returns the length that the head announces, 0 where it does not."""
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() and len(text) < 20 else 0


def _once(body: bytes, receive: Receive) -> Receive:
    read = False

    async def whole() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return whole
